"""Declarations of properties and patterns.

A property is declared once, by `Family.declare`, with everything that is known of it (`Property`) and how it is found:

* `Pattern`: a function narrows its parent's matches on a compound table,
* `InRegions`: the time (or visits) of call paths whose region fits a rule,
* `SumOf`, `Rest`: the sum of its children, the remainder of its parent after its siblings,
* `Computed`, `Derived`: a function of the model, or of the severities of others,
* `Charged`: a table of root causes that holds the charges of call paths.

A declaration is for the conventions of Scalasca, and `exact`, unless it says otherwise; it also gives the differences
under other conventions. All lists of properties are derived from the declarations.
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
from tracecols.patterns.found_by import (
    CauseFunction,
    CellFunction,
    Charged,
    Computed,
    FoundBy,
    Pattern,
    PatternFunction,
)
from tracecols.patterns.matches import Cause
from tracecols.severity.cells import Cells

if TYPE_CHECKING:
    from tracecols.model.model import Model
    from tracecols.patterns.team_times import TeamTimes

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, repr=False)
class Property:
    """A node of the property tree: all that is known of it, and how it is found.

    Attributes
    ----------
    id : str
        The name the field's tools use.
    parent : str
        Id of the property above; empty for roots.
    title : str
        Human-readable name.
    summary : str
        What it means.
    found : FoundBy
        How it is found: `Pattern`, `InRegions`, `SumOf`, `Rest`, `Computed`, `Derived` or `Charged`.
    unit : str
        sec, occ or bytes; for counters the unit of the counter.
    advice : str
        What to do about it. That of a root is about the whole tree.
    confidence : float
        How reliably a match proves the behaviour (thesis 4.4), 0 to 1.
    conventions : str
        The conventions under which this declaration holds.
    given : mapping
        Arguments of its function under these conventions.
    parameters : mapping of str to Parameter
        Numbers passed to its function, by name.
    needs : str
        What a trace must have (`registry.NEEDS`) for the property, and those below it, to exist.
    overlaps : bool
        Whether it may cover the same time as its siblings, since it divides its parent in another way.
    is_wait : bool
        Whether it is time in which a location waits for another. Patterns of times are waits unless they are declared
        with `is_wait=False`; other properties are not, unless they are declared with `is_wait=True`. Efficiencies, the
        imbalance of the critical path and the report take the waits from here.
    is_lost_in_reference : bool
        Whether the reference analyser, too, does not count its time as work when it compares the work of all locations
        (`critical_path_imbalance`, under the conventions of Scalasca).
    delay : str
        Id of the property whose costs are charged to its causes. Properties below a wait inherit it unless they declare
        another.
    part : str
        The part that its time, and that of the properties below it, belongs to in efficiencies and in the diagnosis,
        one of `schema.properties.PARTS`; empty: that of the property above it.
    is_heading : bool
        Whether it only groups the properties below it, so that titles of findings omit its title.
    is_estimate : bool
        Whether its parts may exceed it in a cell.
    family : str
        Name of the family that declares it.
    timed_by : Pattern or None
        The pattern that says when its matches begin or end: its own, or that of the nearest property above on the same
        table. `registry.properties` sets it, and `caused_by`.
    caused_by : Cause, callable or None
        The causes of its matches, likewise.
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
    timed_by: Pattern | None = None
    caused_by: Cause | CauseFunction | None = None

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
        """Whether its matches name their causes."""
        return self.pattern is not None and self.pattern.cause is not None

    @property
    def table(self) -> str:
        """Name of the table that it is found in; empty if there is none."""
        return self.found.table if isinstance(self.found, Pattern | Charged) else ""

    def below(self, above: Property | None) -> Property:
        """Return the same property with the times and the causes that it inherits from the one above.

        Parameters
        ----------
        above : Property or None
            The property above it, itself with those that it inherits.
        """
        own = self.pattern
        if own is None:
            return self
        inherits = above is not None and above.pattern is not None and above.table == self.table
        timed_by, caused_by = (above.timed_by, above.caused_by) if above is not None and inherits else (None, None)
        return replace(self, timed_by=own if own.since or own.until else timed_by, caused_by=own.cause or caused_by)


class Conventions(NamedTuple):
    """The rules of an analyser that are not declared with the properties.

    Attributes
    ----------
    name : str
        The name by which users choose them.
    execution : callable
        `execution(model, findings)`: each location's own time per call path.
    idle : callable
        `idle(model, findings)`: idle time of workers outside parallel regions, and inside.
    counted : callable
        `counted(model, cells)`: which of a counter's cells count.
    nested : bool
        Whether a match counts only on call paths that the properties above allow.
    ends_with_call : bool
        Whether waiting ends with the call unless a pattern says otherwise (`Pattern.ends_with_call`).
    quirks : Quirks
        The peculiarities of the reference that root causes reproduce.
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
    """Results of a search so far: cells by property, and basic measures of the model.

    Parameters
    ----------
    model : Model
        The enhanced trace.
    conventions : Conventions
        Whose rules are followed.
    teams : TeamTimes
        Times of forking and joining teams.
    declared : list of Property
        The properties that are searched for.
    cells : mapping of str to Cells
        The cells found so far, by property.
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
        """Idle time of workers outside parallel regions, and inside."""
        return self.conventions.idle(self.model, self)


Variant = Mapping[str, Any]
"""Differences under some conventions: fields of `Property`, fields of its `found`, and arguments of its function."""

UNCHANGED: Variant = MappingProxyType({})

AS_SCALASCA: Variant = MappingProxyType({"": "as scalasca"})
"""The default variant under the conventions `exact`."""


@cache
def _names_of_fields(of: type) -> frozenset[str]:
    return frozenset(f.name for f in fields(of))


class Family:
    """A list of the properties of one module, with methods that declare them.

    Parameters
    ----------
    name : str
        The subject of the properties.
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
        """Declare a property; if `found` lacks its function, use as a decorator of the function.

        Parameters
        ----------
        id, parent, title, summary, found
            See `Property`.
        scalasca, expert, exact : mapping, optional
            Differences under these conventions: fields of `Property`, fields of `found`, and arguments of its function.
            None: the property does not exist under them. `exact` is the same as `scalasca` by default.
        **more
            Further fields of `Property`. Patterns of times are waits unless `is_wait` says otherwise, so that no wait
            is forgotten.

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
            Further fields of `Pattern` and of `Property`, and the differences under some conventions (`declare`).
        """
        found = Pattern(table, **{name: more.pop(name) for name in _names_of_fields(Pattern) & more.keys()})
        return self.declare(id, parent, title, summary, found, **more)


def _varied(common: Mapping[str, Any], found: FoundBy, conventions: str, variant: Variant, function: Any) -> Property:
    """Return the variant of a property under some conventions, from the fields common to all, its `found`, the
    differences, and its function if that is known."""
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
    """Return `found` with the function filled in if it lacks one."""
    if function is not None and isinstance(found, Pattern | Computed) and found.function is None:
        return replace(found, function=function)
    return found


def pattern(id: str, parent: str, title: str, **more: Any) -> Callable[[PatternFunction], Family]:
    """Declare a user-defined pattern; use as a decorator, and pass the result to `Trace.analyze(patterns=...)`.

    Parameters
    ----------
    id, parent, title : str
        See `Property`; `parent` is the id of the property of which it is a special case.
    **more
        As for `Family.pattern`: `frame`, `table` and `summary`, and other fields of `Pattern` and `Property`. By
        default the pattern exists under the conventions of Scalasca and `exact`; `expert={}` makes it exist under those
        of EXPERT as well.

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

    Code tried in a notebook on `trace.messages` becomes a pattern with `frame=True`: it receives the candidate rows as
    a data frame, and returns severities (whole numbers are ticks, others seconds) or a mask that keeps those of its
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
    """Return whether the regions of call paths fit a rule; false for null.

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
