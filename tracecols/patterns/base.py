"""The words patterns are declared in.

A property is declared once, by `Family.declare`, with everything that is known of it (`Property`) and what finds it:

* `Pattern`: a function narrows its parent's matches on a compound table,
* `InRegions`: the time (or visits) of call paths whose region fits a rule,
* `SumOf`, `Rest`: the sum of those below it, what its siblings leave of the parent,
* `Computed`, `Derived`: a function of the model, or of the severities of others,
* `Charged`: a table of root causes says what call paths are charged with.

A declaration is for the conventions of Scalasca, and `exact`, unless it says otherwise; it also says what is different
under other conventions. All lists of properties follow from the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import Quirks
from tracecols.enhance.scan.region_rules import RegionRule, is_in
from tracecols.given.parameters import Parameter
from tracecols.once import once
from tracecols.patterns.found_by import CellFunction, Charged, Computed, FoundBy, Pattern, PatternFunction
from tracecols.severity.cells import Cells

if TYPE_CHECKING:
    from tracecols.model.model import Model
    from tracecols.patterns.team_times import TeamTimes

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, repr=False)
class Property:
    """A node of the property tree: all that is known of it, and what finds it.

    Attributes
    ----------
    id : str
        The name the field's tools use.
    parent : str
        Id of the property above; empty for roots.
    title : str
        Name for people.
    summary : str
        What it means.
    found : FoundBy
        What finds it: `Pattern`, `InRegions`, `SumOf`, `Rest`, `Computed`, `Derived` or `Charged`.
    unit : str
        sec, occ or bytes; a counter's own unit.
    advice : str
        What to do about it. That of a root is about the whole tree.
    confidence : float
        How reliably a match proves the behaviour (thesis 4.4), 0 to 1.
    conventions : str
        Under which conventions the property is this.
    given : mapping
        Arguments of its function under these conventions.
    parameters : mapping of str to Parameter
        Numbers its function is given, by name.
    needs : str
        What a trace must have (`registry.NEEDS`) for the property, and those below it, to exist.
    overlaps : bool
        Whether it may hold for the same time as its siblings: it divides its parent in another way than they do.
    is_wait : bool
        Whether it is time in which a location waits for another. Patterns of times are waits unless they are declared
        with `is_wait=False`; other properties are none unless they are declared with `is_wait=True`. Efficiencies, the
        imbalance of the critical path and the report take the waits from here.
    is_lost_in_reference : bool
        Whether the reference analyser, too, takes its time for no work where it compares the work of all locations
        (`critical_path_imbalance`, under the conventions of Scalasca).
    delay : str
        Id of the property whose costs say who causes it. What is below a wait has the same unless it says otherwise.
    part : str
        As what its time, and that of what is below, counts in efficiencies and in the diagnosis, one of
        `schema.properties.PARTS`; empty: as what is above it.
    is_heading : bool
        Whether it only groups those below it, so that titles of findings do without its title.
    is_estimate : bool
        Whether its parts may exceed it in a cell.
    family : str
        Where it is declared.
    """

    id: str
    parent: str
    title: str
    summary: str
    found: FoundBy
    unit: str = "sec"
    advice: str = ""
    confidence: float = 1.0
    conventions: str = "scalasca"
    given: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    needs: str = ""
    overlaps: bool = False
    is_wait: bool = False
    is_lost_in_reference: bool = False
    delay: str = ""
    part: str = ""
    is_heading: bool = False
    is_estimate: bool = False
    family: str = ""

    def __repr__(self) -> str:
        below = f", below {self.parent}" if self.parent else ""
        return f"<Property {self.id} ({self.unit}{below}): {self.title}. {self.summary}>"

    @property
    def pattern(self) -> Pattern | None:
        """The pattern that finds it; None if it is found in another way."""
        return self.found if isinstance(self.found, Pattern) else None

    @property
    def lacks_function(self) -> bool:
        """Whether the function that finds it is not declared yet."""
        return isinstance(self.found, Pattern | Computed) and self.found.function is None

    @property
    def says_cause(self) -> bool:
        """Whether its matches say who lets them wait."""
        return self.pattern is not None and self.pattern.cause is not None

    @property
    def table(self) -> str:
        """Name of the table that it is found in; empty if there is none."""
        return self.found.table if isinstance(self.found, Pattern | Charged) else ""


class Conventions(NamedTuple):
    """Whose rules are followed, as far as that is not declared with the properties.

    Attributes
    ----------
    name : str
        As users say it.
    execution : callable
        `execution(model, findings)`: each location's own time per call path.
    idle : callable
        `idle(model, findings)`: time of workers outside parallel regions, and of those that lack inside.
    counted : callable
        `counted(model, cells)`: which of a counter's cells count.
    nested : bool
        Whether a match counts only on call paths that the properties above allow.
    ends_with_call : bool
        Whether waiting ends with the call unless a pattern says otherwise (`Pattern.ends_with_call`).
    quirks : Quirks
        Which peculiarities of the reference root causes have.
    """

    name: str
    execution: CellFunction
    idle: Callable[[Model, Findings], tuple[Cells, Cells]]
    counted: Callable[[Model, Cells], Cells]
    nested: bool
    ends_with_call: bool
    quirks: Quirks


@dataclass
class Findings:
    """What has been found so far: cells by property, and the model's basic measures.

    Parameters
    ----------
    model : Model
        The enhanced trace.
    conventions : Conventions
        Whose rules are followed.
    teams : TeamTimes
        When threads are in teams.
    declared : list of Property
        Those that are searched for.
    cells : mapping of str to Cells
        By property, what was found.
    """

    model: Model
    conventions: Conventions
    teams: TeamTimes
    declared: list[Property]
    cells: Mapping[str, Cells] = field(default_factory=dict)

    @once
    def execution(self) -> Cells:
        """Each location's own time per call path."""
        return self.conventions.execution(self.model, self)

    @once
    def idle(self) -> tuple[Cells, Cells]:
        """Time of workers outside parallel regions, and of those that lack inside."""
        return self.conventions.idle(self.model, self)


Variant = Mapping[str, Any]
"""What is different under some conventions: fields of `Property`, of what finds it, and arguments of its function."""

UNCHANGED: Variant = MappingProxyType({})

AS_SCALASCA: Variant = MappingProxyType({"": "as scalasca"})
"""What the conventions `exact` have unless it is said."""


@cache
def _names_of_fields(of: type) -> frozenset[str]:
    """Return the names of the fields of a dataclass."""
    return frozenset(f.name for f in fields(of))


class Family:
    """A list of properties that are in one module; its methods declare them.

    Parameters
    ----------
    name : str
        What the properties are about.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.properties: list[Property] = []

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(p.id for p in self.properties))
        return f"<Family {self.name}: {names or 'no properties'}>"

    def declare(
        self,
        id: str,
        parent: str,
        title: str,
        summary: str,
        found: FoundBy,
        *,
        scalasca: Variant | None = UNCHANGED,
        expert: Variant | None = None,
        exact: Variant | None = AS_SCALASCA,
        **more: Any,
    ) -> Callable[[Function], Function]:
        """Declare a property; if what finds it lacks its function, use as a decorator of the function.

        Parameters
        ----------
        id, parent, title, summary, found
            See `Property`.
        scalasca, expert, exact : mapping, optional
            What is different under these conventions: fields of `Property`, fields of what finds it, and arguments of
            its function. None: the property does not exist there. `exact` is as `scalasca` unless it is given.
        **more
            Further fields of `Property`. What patterns of times find is waiting unless `is_wait` says otherwise, so
            that no wait is forgotten.

        Returns
        -------
        callable
            Decorator of the function that finds the property.
        """
        is_wait = isinstance(found, Pattern) and more.get("unit", "sec") == "sec"
        common = {"id": id, "parent": parent, "title": title, "summary": summary, "is_wait": is_wait}
        common |= {"family": self.name, **more}
        variants = {"scalasca": scalasca, "expert": expert, "exact": scalasca if exact is AS_SCALASCA else exact}

        def make(function: Any = None) -> list[Property]:
            own = _with_function(found, function)
            return [_varied(common, own, name, v, function) for name, v in variants.items() if v is not None]

        mine = make()
        first = len(self.properties)
        self.properties += mine

        def decorate(function: Function) -> Function:
            self.properties[first : first + len(mine)] = make(function)
            return function

        return decorate

    def pattern(
        self, id: str, parent: str, title: str, *, table: str, summary: str, **more: Any
    ) -> Callable[[PatternFunction], PatternFunction]:
        """Declare a property that a pattern finds; use as a decorator of its function.

        Parameters
        ----------
        id, parent, title, summary
            See `Property`.
        table : str
            The compound table that the function matches on.
        **more
            Further fields of `Pattern` and of `Property`, and what is different under some conventions (`declare`).
        """
        found = Pattern(table, **{name: more.pop(name) for name in _names_of_fields(Pattern) & more.keys()})
        return self.declare(id, parent, title, summary, found, **more)


def _varied(common: Mapping[str, Any], found: FoundBy, conventions: str, variant: Variant, function: Any) -> Property:
    """Return a property as it is under some conventions: what is common to all, what finds it, what is different, and
    the function that finds it if that is known."""
    changed: dict[str, Any] = {}
    given: dict[str, Any] = {}
    if variant:
        found = _with_function(variant.get("found", found), function)
        of: type = type(found)
        changed = {name: variant[name] for name in _names_of_fields(Property) & variant.keys()}
        of_found = {name: variant[name] for name in (_names_of_fields(of) & variant.keys()) - changed.keys()}
        given = {name: value for name, value in variant.items() if name not in changed and name not in of_found}
        if of_found:
            found = replace(found, **of_found)
    return Property(**{**common, **changed, "found": found, "given": given, "conventions": conventions})


def _with_function(found: FoundBy, function: Any) -> FoundBy:
    """Return what finds a property with its function, if it lacks one."""
    if function is not None and isinstance(found, Pattern | Computed) and found.function is None:
        return replace(found, function=function)
    return found


def pattern(id: str, parent: str, title: str, **more: Any) -> Callable[[PatternFunction], Family]:
    """Declare a pattern of one's own; use as a decorator, and hand what it returns to `Trace.analyze(patterns=...)`.

    Parameters
    ----------
    id, parent, title : str
        See `Property`; `parent` is the id of the property it is a case of.
    **more
        As for `Family.pattern`: `frame`, `table` and `summary`, and what else `Pattern` and `Property` have. By default
        the pattern exists under the conventions of Scalasca and `exact`; `expert={}` makes it exist under those of
        EXPERT as well.

    Returns
    -------
    Family
        With this one pattern.

    Examples
    --------
    >>> import tracecols
    >>> @tracecols.pattern(
    ...     "late_big", "mpi_latesender", "Late and Big", table="messages", summary="Late senders of large messages.",
    ...     parameters={"threshold": tracecols.Parameter(65536, "bytes", "length from which a message is large")},
    ... )
    ... def late_big(model, m, parent, *, threshold):
    ...     return parent.where(m.length[parent.row] >= threshold)
    >>> trace.analyze(patterns=[late_big]).total("late_big")  # doctest: +SKIP

    What was tried in a notebook with `trace.messages` is a pattern with `frame=True`: it gets the rows to look at as a
    data frame, and returns severities (whole numbers are ticks, others seconds) or a mask that keeps those of its
    parent.

    >>> @tracecols.pattern(
    ...     "late_far", "mpi_latesender", "Late and Far",
    ...     table="messages", summary="Late senders of other nodes.", frame=True,
    ... )
    ... def late_far(m):
    ...     return (m.send_rank - m.recv_rank).abs() > 4
    """
    family = Family(id)

    def declare(function: PatternFunction) -> Family:
        family.pattern(id, parent, title, **more)(function)
        return family

    return declare


def region_of(model: Model, call_path: NDArray[np.int32], rule: RegionRule) -> NDArray[np.bool_]:
    """Whether the regions of call paths fit a rule; false for null.

    Parameters
    ----------
    model : Model
        The enhanced trace.
    call_path : (n,) int32
        Call paths; -1 null.
    rule : region rule
        Function from regions to a mask over them.
    """
    return is_in(model.facts, call_path, rule)
