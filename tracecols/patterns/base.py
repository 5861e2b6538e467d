"""The words patterns are declared in.

A property is a node of the property tree with a title and a meaning. Its severity comes from one of

* a *pattern*: a function that narrows its parent's matches on a compound table,
* a *region rule*: the time (or visits) of call paths whose region fits,
* its children: their sum,
* its siblings: what they leave of the parent,
* a table of root causes: what call paths are charged with,
* a function of the severities of others.

It is declared once, for the conventions of Scalasca unless it says otherwise; what is different under the conventions
of EXPERT stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import CompoundTable, pick, read_only
from tracecols.enhance.scan.region_rules import RegionRule as RegionRule
from tracecols.enhance.scan.region_rules import called as called
from tracecols.enhance.scan.region_rules import either as either
from tracecols.enhance.scan.region_rules import in_role as in_role
from tracecols.enhance.scan.region_rules import is_in
from tracecols.enhance.scan.region_rules import named as named
from tracecols.given.parameters import Parameter
from tracecols.once import once
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.cells import Cells

if TYPE_CHECKING:
    from tracecols.model.model import Model
    from tracecols.patterns.team_times import TeamTimes


@dataclass
class Matches:
    """Rows of a compound table that show a behaviour, and what each costs.

    Attributes
    ----------
    row : (n,) int64
        Rows of the table.
    severity : (n,) int64
        Ticks, occurrences or bytes.
    call_path, location : (n,) int32
        Where it is charged.
    """

    row: NDArray[np.int64]
    severity: NDArray[np.int64]
    call_path: NDArray[np.int32]
    location: NDArray[np.int32]

    def __len__(self) -> int:
        return self.row.size

    def where(self, mask: NDArray[np.bool_], **changed: NDArray[Any]) -> Matches:
        """Keep the matches a mask selects; `severity`, `call_path`, `location` may be given anew, for all before
        masking.

        Parameters
        ----------
        mask : (n,) bool
            Matches to keep.
        **changed : (n,) array
            New values of `severity`, `call_path` or `location`, of all matches before masking.
        """
        kept = np.flatnonzero(mask)
        columns = {name: changed.get(name, getattr(self, name))[kept] for name in ("severity", "call_path", "location")}
        return Matches(self.row[kept], **columns)

    def counted(self, mask: NDArray[np.bool_]) -> Matches:
        """Keep the matches a mask selects; each counts as one occurrence.

        Parameters
        ----------
        mask : (n,) bool
            Matches to keep.
        """
        return self.where(mask, severity=np.ones(len(self), np.int64))

    def read_only(self) -> Matches:
        """Return the same matches in arrays that cannot be written to."""
        return Matches(*(read_only(column) for column in (self.row, self.severity, self.call_path, self.location)))

    def cells(self) -> Cells:
        """Add up the severities per call path and location."""
        found = np.flatnonzero((self.call_path >= 0) & (self.severity != 0))
        return Cells.sum(self.call_path[found], self.location[found], self.severity[found])


@dataclass(frozen=True)
class Constituent:
    """Further events of a compound event (thesis 3.7): rows of another table that a pointer of the root leads to.

    Attributes
    ----------
    pointer : str
        Column of the root table that holds rows of events, `recv_enter` for instance.
    table : str
        Table the rows are looked up in. It has to be complete where the root is (`engine.STEPS`).
    column : str
        Column of that table that holds the same rows, `enter` for instance.
    """

    pointer: str
    table: str
    column: str


@dataclass(frozen=True)
class Cause:
    """Who lets a match wait, as columns of its table.

    Attributes
    ----------
    location, call_path, time : str
        Columns that say where the causing event is and when it comes.
    """

    location: str
    call_path: str
    time: str


@dataclass
class Causes:
    """Who lets matches wait.

    Attributes
    ----------
    location, call_path : (n,) int32
        Where the causing event is; -1 not known.
    time : (n,) int64
        When it comes, in ticks.
    """

    location: NDArray[np.int32]
    call_path: NDArray[np.int32]
    time: NDArray[np.int64]


class Instances:
    """The constituents of all rows of a root table: the columns of their table, row by row; null where there is none.

    Attributes
    ----------
    row : (n,) int64
        Row of the table, -1 where there is none.
    found : (n,) bool
        Where there is one.
    table : CompoundTable
        The table of the constituents.
    """

    def __init__(self, table: CompoundTable, row: NDArray[np.int64]) -> None:
        self.table, self.row, self.found = table, row, row >= 0

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return pick(getattr(self.table, name), self.row)


WAITS = "*waits"
"""In `Property.uses`: all properties that are waits."""

PatternFunction = Callable[..., Matches]
Function = TypeVar("Function", bound=Callable[..., Any])
CellFunction = Callable[..., Cells]


@dataclass(frozen=True, repr=False)
class Property:
    """A node of the property tree and how its severity is found.

    Attributes
    ----------
    id : str
        The name the field's tools use.
    parent : str
        Id of the property above; empty for roots.
    title : str
        Name for people.
    unit : str
        sec, occ or bytes; a counter's own unit.
    summary, advice : str
        What it means; what to do about it.
    regions : callable, optional
        Region rule: mask over regions.
    measure : str
        What a region rule collects: `execution` or `visits`.
    match : callable, optional
        Pattern: `match(model, table, parent, *used)` returns the matches.
    table : str
        The compound table it matches on.
    uses : tuple of str
        Properties whose matches are handed to the pattern besides its parent's, or whose cells its function looks at;
        `WAITS` stands for all that are declared as waits.
    cells : callable, optional
        Function of the model and the findings so far, for the basic properties.
    derived : callable, optional
        Function of the model and the findings when all others are known.
    charged : bool
        Whether its severities stand in its table (`schema.causes`): they are seconds that call paths are charged with,
        which may exceed their time, and are kept with fractions of ticks.
    of : str
        `children`: the sum of its children; `rest`: what its siblings leave of the parent.
    confidence : float
        How reliably a match proves the behaviour (thesis 4.4), 0 to 1.
    conventions : str
        Under which conventions the property is this.
    given : mapping
        Arguments of its function under these conventions.
    needs : str
        What a trace must have (`registry.NEEDS`) for the property, and those below it, to exist.
    overlaps : bool
        Whether it may hold for the same time as its siblings: it divides its parent in another way than they do.
    since, until : str
        Column of the table that says when a match begins, or when it ends; the other follows from its severity. What is
        below on the same table has the same unless it says otherwise.
    cause : Cause or callable, optional
        Of a wait state: who lets its matches wait; a function of model, table and matches returns `Causes`. What is
        below on the same table has the same.
    ends_with_call : bool
        Whether its rule ends waiting with the call it is charged to; where it does not, clocks that disagree can make
        waiting longer than the call.
    parameters : mapping of str to Parameter
        Numbers its function is given, by name.
    constituents : mapping of str to Constituent
        Further events its function is given, by name, as `Instances`.
    is_wait : bool
        Whether it is time in which a location waits for another. Patterns of times are waits unless they are declared
        with `is_wait=False`; other properties are none unless they are declared with `is_wait=True`. Efficiencies, the
        imbalance of the critical path and the report take the waits from here.
    frame : bool
        Whether its function is one of data frames (`patterns.framed`): it is given the rows to look at as `Trace` shows
        them, and returns a Series of severities or a boolean mask.
    family : str
        Where it is declared.
    """

    id: str
    parent: str
    title: str
    unit: str
    summary: str
    advice: str = ""
    regions: RegionRule | None = None
    measure: str = "execution"
    match: PatternFunction | None = None
    table: str = ""
    uses: tuple[str, ...] = ()
    cells: CellFunction | None = None
    derived: CellFunction | None = None
    charged: bool = False
    of: str = ""
    confidence: float = 1.0
    conventions: str = "scalasca"
    given: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    overlaps: bool = False
    since: str = ""
    until: str = ""
    cause: Cause | Callable[[Model, CompoundTable, Matches], Causes] | None = None
    ends_with_call: bool = True
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    constituents: Mapping[str, Constituent] = field(default_factory=dict)
    is_wait: bool = False
    frame: bool = False
    family: str = ""

    def __repr__(self) -> str:
        below = f", below {self.parent}" if self.parent else ""
        return f"<Property {self.id} ({self.unit}{below}): {self.title}. {self.summary}>"


@dataclass(frozen=True)
class Conventions:
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
        Whether waiting ends with the call unless a property says otherwise (`Property.ends_with_call`).
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
    properties : PropertyAxis
        Those that are searched for.
    cells : dict of str to Cells
        By property, what was found.
    """

    model: Model
    conventions: Conventions
    teams: TeamTimes
    properties: PropertyAxis
    cells: dict[str, Cells] = field(default_factory=dict)

    @once
    def execution(self) -> Cells:
        """Each location's own time per call path."""
        return self.conventions.execution(self.model, self)

    @once
    def idle(self) -> tuple[Cells, Cells]:
        """Time of workers outside parallel regions, and of those that lack inside."""
        return self.conventions.idle(self.model, self)


Variant = Mapping[str, Any]
"""What is different under some conventions: fields of `Property`, and arguments of its function."""

UNCHANGED: Variant = MappingProxyType({})

AS_SCALASCA: Variant = MappingProxyType({"": "as scalasca"})
"""What the conventions `exact` have unless it is said."""

_FIELDS = {f.name for f in fields(Property)}


class Family:
    """A list of properties that stand in one module; its methods declare them.

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

    def _declare(
        self, scalasca: Variant | None, expert: Variant | None, exact: Variant | None, common: Mapping[str, Any]
    ) -> None:
        exact = scalasca if exact is AS_SCALASCA else exact
        for conventions, variant in (("scalasca", scalasca), ("expert", expert), ("exact", exact)):
            if variant is not None:
                changed = {k: v for k, v in variant.items() if k in _FIELDS}
                given = {k: v for k, v in variant.items() if k not in _FIELDS}
                self.properties.append(Property(**{**common, **changed}, given=given, conventions=conventions))

    def add(
        self,
        id: str,
        parent: str,
        title: str,
        summary: str,
        *,
        unit: str = "sec",
        scalasca: Variant | None = UNCHANGED,
        expert: Variant | None = None,
        exact: Variant | None = AS_SCALASCA,
        **more: Any,
    ) -> None:
        """Declare a property that needs no function of its own; a variant of None: it does not exist there.

        Parameters
        ----------
        id : str
            The name the field's tools use.
        parent : str
            Id of the property above; empty for roots.
        title : str
            Name for people.
        summary : str
            What the property means.
        unit : str, optional
            sec, occ or bytes; a counter's own unit.
        scalasca, expert, exact : mapping, optional
            What is different under these conventions: attributes of `Property`, and arguments of the function. None:
            the property does not exist there. `exact` is as `scalasca` unless it is given.
        **more
            Further attributes of `Property`.
        """
        common = {
            "id": id,
            "parent": parent,
            "title": title,
            "unit": unit,
            "summary": summary,
            "family": self.name,
            **more,
        }
        self._declare(scalasca, expert, exact, common)

    def pattern(
        self, id: str, parent: str, title: str, *, table: str, summary: str, unit: str = "sec", **more: Any
    ) -> Callable[[PatternFunction], PatternFunction]:
        """Declare a property whose matches a function finds; use as a decorator.

        Parameters
        ----------
        id, parent, title, summary, unit
            As for `add`.
        table : str
            The compound table that the function matches on.
        **more
            As for `add`. What patterns of times find is waiting unless `is_wait` says otherwise, so that no wait is forgotten.
        """
        about = {"is_wait": unit == "sec", **more}
        return self._found_by("match", id, parent, title, summary, unit=unit, table=table, **about)

    def basic(
        self, id: str, parent: str, title: str, *, summary: str, **more: Any
    ) -> Callable[[CellFunction], CellFunction]:
        """Declare a property whose cells a function computes from the model; use as a decorator.

        Parameters
        ----------
        id, parent, title, summary
            As for `add`.
        **more
            As for `add`.
        """
        return self._found_by("cells", id, parent, title, summary, **more)

    def derived(
        self, id: str, parent: str, title: str, *, summary: str, **more: Any
    ) -> Callable[[CellFunction], CellFunction]:
        """Declare a property whose cells a function computes from those of all others; use as a decorator.

        Parameters
        ----------
        id, parent, title, summary
            As for `add`.
        **more
            As for `add`.
        """
        return self._found_by("derived", id, parent, title, summary, **more)

    def _found_by(
        self, field_name: str, id: str, parent: str, title: str, summary: str, **more: Any
    ) -> Callable[[Function], Function]:
        """Return a decorator that declares a property with the function in a field."""

        def declare(function: Function) -> Function:
            self.add(id, parent, title, summary, **{**more, field_name: function})
            return function

        return declare


def pattern(id: str, parent: str, title: str, **more: Any) -> Callable[[PatternFunction], Family]:
    """Declare a pattern of one's own; use as a decorator, and hand what it returns to `Trace.analyze(patterns=...)`.

    Parameters
    ----------
    id, parent, title : str
        See `Property`; `parent` is the id of the property it is a case of.
    **more
        As for `Family.pattern`: `frame`, `table` and `summary`, and what else `Property` has. By default the pattern
        exists under the conventions of Scalasca and `exact`; `expert={}` makes it exist under those of EXPERT as well.

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
    ...     "late_far", "mpi_latesender", "Late and Far", table="messages", summary="Late senders of other nodes.", frame=True
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
