"""How a property is found: exactly one of the classes below, as a value of its declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.scan.region_rules import RegionRule
from tracecols.patterns.matches import Cause, Causes, Constituent, Matches
from tracecols.severity.cells import Cells

if TYPE_CHECKING:
    from tracecols.model.model import Model

PatternFunction = Callable[..., Matches]
CellFunction = Callable[..., Cells]
CauseFunction = Callable[["Model", CompoundTable, Matches], Causes]


@dataclass(frozen=True)
class FoundBy:
    """How a property is found: one of the classes below."""

    def __str__(self) -> str:
        """Describe it in a few words."""
        raise NotImplementedError


@dataclass(frozen=True)
class Pattern(FoundBy):
    """A function finds matches: rows of a compound table.

    Attributes
    ----------
    table : str
        The compound table that the function matches on.
    function : callable, optional
        `function(model, table, parent, *used)` returns the matches. By default the function that is decorated.
    uses : tuple of str
        Properties whose matches are passed to the function besides those of the parent.
    since, until : str
        Column of the table that says when a match begins, or when it ends; the other follows from its severity.
        Properties below on the same table inherit it unless they declare another.
    cause : Cause or callable, optional
        For a wait state: the causes of its matches, as columns, or as a function of model, table and matches that
        returns `Causes`. Properties below on the same table inherit it.
    ends_with_call : bool
        Whether waiting ends with the call it is charged to; if it does not, clocks that disagree can make waiting
        longer than the call.
    constituents : mapping of str to Constituent
        Further events passed to the function, by name, as `Instances`.
    frame : bool
        Whether the function works on data frames (`patterns.framed`): it receives the candidate rows as `Trace` shows
        them, and returns a Series of severities or a boolean mask.
    """

    table: str
    function: PatternFunction | None = None
    uses: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    cause: Cause | CauseFunction | None = None
    ends_with_call: bool = True
    constituents: Mapping[str, Constituent] = field(default_factory=dict)
    frame: bool = False

    def __str__(self) -> str:
        return f"matches {self.table}"


@dataclass(frozen=True)
class InRegions(FoundBy):
    """The time, or the visits, of the call paths whose region fits a rule.

    Attributes
    ----------
    rule : callable
        Mask over regions.
    measure : str
        What is collected: `execution` or `visits`.
    """

    rule: RegionRule
    measure: str = "execution"

    def __str__(self) -> str:
        return "visits of regions" if self.measure == "visits" else "time in regions"


class SumOf(FoundBy):
    """The sum of the properties below it."""

    def __str__(self) -> str:
        return "sum of those below"


class Rest(FoundBy):
    """The remainder of the parent after its siblings."""

    def __str__(self) -> str:
        return "the remainder of its parent"


@dataclass(frozen=True)
class Computed(FoundBy):
    """A function computes the cells from the model.

    Attributes
    ----------
    function : callable, optional
        Function of the model and the findings so far. By default the function that is decorated.
    uses : tuple of str
        Properties whose cells the function reads.
    also : callable, optional
        Predicate that selects further such properties.
    """

    function: CellFunction | None = None
    uses: tuple[str, ...] = ()
    also: Callable[[Any], bool] | None = None

    def __str__(self) -> str:
        return "profile"


class Derived(Computed):
    """A function computes the cells from those of all others, when these are known.

    Attributes
    ----------
    function, uses, also
        As of `Computed`.
    """

    def __str__(self) -> str:
        return "computed from others"


@dataclass(frozen=True)
class Charged(FoundBy):
    """A table of root causes (`schema.causes`) holds the severities: seconds charged to call paths, which may exceed
    their time, and are kept with fractions of ticks.

    Attributes
    ----------
    table : str
        Name of the table.
    """

    table: str

    def __str__(self) -> str:
        return f"charged, {self.table}"
