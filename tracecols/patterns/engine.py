"""Compute the severities of all properties: parents before children, each a mask and a sum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.points import ticks_per_unit
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.dataflow.steps import WITHIN
from tracecols.enhance.definitions.locations import PIECE_CALLS, PIECE_LEFT_OUT, find_locations
from tracecols.enhance.definitions.regions import COPY, LAUNCH
from tracecols.enhance.definitions.topologies import given_topology
from tracecols.enhance.scan.paths import named, with_descendants
from tracecols.enhance.scan.periods import NO_PERIODS, Periods, phases_of
from tracecols.errors import AnalysisError, SeverityError, TracecolsError
from tracecols.given.arguments import as_locations, as_seconds, as_texts, did_you_mean, show
from tracecols.model.model import Model, Progress
from tracecols.model.tables import TABLES, tables_of
from tracecols.patterns.base import Cause, Causes, Conventions, Family, Findings, Instances, Matches, Property
from tracecols.patterns.bounds import check_bounds
from tracecols.patterns.counters import counter_properties
from tracecols.patterns.device_times import DeviceTimes, device_efficiencies
from tracecols.patterns.interval import mpi_interval
from tracecols.patterns.mpi import mpi
from tracecols.patterns.periods import UNDIVIDED, period_axis, period_cells, period_notes
from tracecols.patterns.plugins import installed
from tracecols.patterns.profile import displaced_call_paths, idle_cells, overbooked_threads
from tracecols.patterns.registry import CONVENTIONS, find_declared, needed, properties
from tracecols.patterns.team_times import TeamTimes
from tracecols.schema import not_analysed
from tracecols.schema.causes import CHARGED, HELD, RUN_CAUSES, SPREAD, WAITS
from tracecols.schema.enums import TASKS, THREADS
from tracecols.schema.severity import DEFAULT
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube
from tracecols.severity.periods import PeriodCells

Result = TypeVar("Result")


def every_row(table: CompoundTable) -> Matches:
    """Match all rows of a table with severity 0, charged where the table says."""
    charged = TABLES[table.table.name].charged
    assert charged is not None  # Search refuses patterns on other tables
    call_path, location = charged
    n = len(table)
    return Matches(np.arange(n), np.zeros(n, np.int64), table[call_path], table[location])


@dataclass(frozen=True)
class Choice:
    """What an analysis is narrowed to, and what it is given.

    Attributes
    ----------
    properties : tuple of str, optional
        Ids or titles; their ancestors come along. All by default.
    parameters : mapping
        By property id the values of parameters by name.
    within : str, optional
        A region, or a shell pattern: only its instances and what they call.
    locations : tuple of int or str, optional
        Rows of locations, or texts that select some (`rank 0`); all by default.
    start, stop : float, optional
        Seconds: the model is that of the piece of the trace between them (`tracecols.slices`), which this only says.
    periods : Periods, optional
        What the time of the model is divided into, which this only says as well.
    """

    properties: tuple[str, ...] | None = None
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    within: str | None = None
    locations: tuple[int | str, ...] | None = None
    start: float | None = None
    stop: float | None = None
    periods: Periods = NO_PERIODS

    def resolved(self, declared: list[Property]) -> Choice:
        """Return the same choice with ids instead of titles of properties.

        Raises
        ------
        AnalysisError
            If there is no such property, or several have a title.
        """
        names, axis = self.properties, PropertyAxis.of(declared)
        return replace(
            self,
            properties=None if names is None else tuple(find_declared(axis, name) for name in names),
            parameters={find_declared(axis, name): values for name, values in self.parameters.items()},
        )

    def facts(self) -> dict[str, Any]:
        """Say what is not as usual, for the cube."""
        found = {k: v for k, v in asdict(self).items() if v is not None and v != {} and k != "periods"}
        return found | self.periods.facts()

    def cells(self, model: Model, cells: Cells) -> Cells:
        """Keep the cells of the chosen call paths and locations."""
        if self.is_everywhere or not len(cells):
            return cells
        return cells.where(self.mask(model, cells.call_path, cells.location))

    def period_cells(self, model: Model, cells: PeriodCells) -> PeriodCells:
        """Keep the cells of the chosen call paths and locations."""
        if self.is_everywhere or not len(cells):
            return cells
        return cells.where(self.mask(model, cells.call_path, cells.location))

    @property
    def is_everywhere(self) -> bool:
        """Whether all call paths and locations are chosen."""
        return self.within is None and self.locations is None

    def mask(self, model: Model, call_path: NDArray[np.int32], location: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say what lies on the chosen call paths, of the whole time, and locations; (n,) bool."""
        call_paths, locations = np.append(self._call_paths(model), False), self._locations(model)
        result: NDArray[np.bool_] = call_paths[call_path] & locations[location]
        return result

    def _call_paths(self, model: Model) -> NDArray[np.bool_]:
        tree = model.call_paths.whole
        if self.within is None:
            return np.ones(len(tree), bool)
        names = model.regions.name
        heads = named(names, self.within)[tree.region]
        if not heads.any():
            raise _no_region(self.within, names[tree.region].tolist())
        return with_descendants(heads, tree.end)

    def _locations(self, model: Model) -> NDArray[np.bool_]:
        if self.locations is None:
            return np.ones(model.n_locations, bool)
        mask = np.zeros(model.n_locations, bool)
        mask[find_locations(model.store, self.locations, error=AnalysisError)] = True
        return mask


EVERYTHING = Choice()

MOST_CALLS = 1 << 25
"""Call instances of a trace whose root causes are computed without being asked for: their points and pairs are held in memory, 210 B per
call instance of a generated hybrid program (multizone, 64 x 4, depth 4, 10^8 events) most of which wait."""

LEFT_OUT = "call instances: root causes take about 200 bytes of memory for each and are left out; name them with --property to have them"
"""Note of larger traces."""

MOST_SPREAD = 1 << 23
"""Call paths times CPUs up to which the difference from the mean is computed without being asked for: it has a cell of 16 B for nearly all of
them in three properties, since what a location never visits is lacking to the mean, too. Of 10,000 locations with 200 events each (1,148 call
paths) these were 80 % of the cells, and half of the time and memory of an analysis."""

TOO_MANY_CELLS = "cells of call paths and CPUs: computational imbalance has nearly all of them and is left out; name it with --property to have it"
"""Note of larger programs."""

MOST_TICKS = 1 << 62
"""Ticks of all locations together up to which sums of root causes fit in 64 bits; five hours of 100,000 locations at 2.6 GHz."""

TOO_LONG = "ticks of all locations: root causes in whole ticks would need more than 64 bits and are left out; conventions scalasca compute them in seconds"
"""Note of longer traces."""


def ticks_of_all(model: Model) -> int:
    """Return the length of the run times the number of locations that compute."""
    manifest = model.store.manifest
    return int((manifest["last_time"] or 0) - (manifest["first_time"] or 0)) * int(model.locations.is_cpu.sum())


def choose(
    properties: str | Iterable[str] | None,
    parameters: Mapping[str, Mapping[str, float]] | None,
    within: str | None,
    locations: int | str | Iterable[int | str] | None,
    start: float | None = None,
    stop: float | None = None,
    periods: Periods | None = None,
) -> Choice:
    """Make a choice of what a caller gave.

    Raises
    ------
    AnalysisError
        If it is of another kind than it should be.
    """
    if within is not None and not isinstance(within, str):
        raise AnalysisError(
            f"a region is given by its name, not as {show(within)}\n  give one name, or a shell pattern"
        )
    return Choice(
        None if properties is None else tuple(as_texts(properties, "properties", AnalysisError)),
        _parameters(parameters or {}),
        within,
        None if locations is None else tuple(as_locations(locations, AnalysisError)),
        as_seconds(start, "start of the piece", AnalysisError),
        as_seconds(stop, "end of the piece", AnalysisError),
        periods or NO_PERIODS,
    )


def check_choice(choice: Choice, regions: Sequence[str], conventions: str, patterns: Iterable[Family]) -> None:
    """Refuse what no trace with these definitions can have, before events are read.

    Parameters
    ----------
    choice : Choice
    regions : sequence of str
        Names of the regions that are defined.
    conventions : str
    patterns : iterable of Family
        Besides those that are built in and installed.

    Raises
    ------
    AnalysisError
    """
    start, stop = choice.start, choice.stop
    if start is not None and stop is not None and stop <= start:
        raise AnalysisError(
            f"nothing lies between {start:g} s and {stop:g} s\n  the end has to be later than the start"
        )
    if choice.parameters:
        for p in properties(conventions, [p for family in (*installed(), *patterns) for p in family.properties]):
            arguments(p, choice.parameters, 1)
    if choice.periods.phases is not None:
        phases_of(choice.periods.phases, np.array([*regions, TASKS, THREADS], object))
    if choice.within is not None:
        check_region(choice.within, regions)


def check_region(wanted: str, regions: Sequence[str]) -> None:
    """Refuse a region that is not defined, before events are read.

    Parameters
    ----------
    wanted : str
        A name, or a shell pattern.
    regions : sequence of str
        Names of the regions that are defined.

    Raises
    ------
    AnalysisError
    """
    if not named(np.array([*regions, TASKS, THREADS], object), wanted).any():
        raise _no_region(wanted, regions)


def _no_region(wanted: str, names: Iterable[str]) -> AnalysisError:
    """Return the error about a region that is not entered; `names` are those like which it could be."""
    hint, in_shell = (
        did_you_mean(wanted, names, otherwise)
        for otherwise in ("see trace.call_paths", "tracecols show CUBE -p visits shows where regions are entered")
    )
    return AnalysisError(f"no call path enters a region {show(wanted)}\n  {hint}", in_shell=in_shell)


def _parameters(given: object) -> dict[str, dict[str, float]]:
    """Return parameters by property and name.

    Raises
    ------
    AnalysisError
        If they are no numbers by property and name.
    """
    if not isinstance(given, Mapping) or not all(isinstance(values, Mapping) for values in given.values()):
        raise AnalysisError(
            f"parameters are given by property and name, not as {show(given)}\n"
            "  such as parameters={'late_big': {'threshold': 1e6}}"
        )
    for of, values in given.items():
        for name, value in values.items():
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or math.isnan(value):
                raise AnalysisError(
                    f"parameter {name!r} of property {of!r} is no number: {show(value)}\n  give a number"
                )
    return {of: dict(values) for of, values in given.items()}


def arguments(p: Property, parameters: Mapping[str, Mapping[str, float]], resolution: int) -> dict[str, Any]:
    """Return what the function of a property is given by name: what its conventions say, and its parameters, seconds in ticks (as they are for `frame`)."""
    values: dict[str, Any] = {name: parameter.default for name, parameter in p.parameters.items()}
    for name, value in parameters.get(p.id, {}).items():
        if name not in values:
            known = f"it has {', '.join(values)}" if values else "it has none"
            raise AnalysisError(f"property {p.id!r} has no parameter {name!r}\n  {known}")
        values[name] = value
    for name, parameter in p.parameters.items():
        # data frames hold seconds
        if parameter.unit == "sec" and not p.frame and math.isfinite(values[name]):
            values[name] = round(values[name] * resolution)
    return {**p.given, **values}


@contextmanager
def _named(p: Property) -> Iterator[None]:
    """Name the property in errors about its cells."""
    try:
        yield
    except SeverityError as error:
        raise AnalysisError(f"property {p.id!r}: {error}, or leave the property out") from error


class SliceSearch:
    """The search for patterns in slices of a trace, each by itself; it can be pickled.

    Parameters
    ----------
    declared : list of Property
        In depth-first order.
    nested : bool
        Whether a match counts only on call paths that the properties above allow.
    given : mapping
        By property id what its function is given by name.
    """

    def __init__(self, declared: list[Property], nested: bool, given: Mapping[str, Mapping[str, Any]]) -> None:
        # what makes cells of the whole trace is not needed here
        self.declared = [replace(p, cells=None, derived=None) for p in declared]
        self.by_id = {p.id: p for p in self.declared}
        self._nested, self._given = nested, given

    def __call__(self, of_slice: Model, stage: str) -> Found:
        """Search a slice; what `Run.stages` calls."""
        found = self.matches(of_slice, stage)
        return Found(
            {
                **{name: cells_of(self.by_id[name], self.by_id, m, of_slice) for name, m in found.items()},
                **self._charged(of_slice, stage),
            },
            TeamTimes.of(of_slice) if stage == WITHIN else TeamTimes.none(),
            DeviceTimes.of(of_slice) if stage == WITHIN and "device_time" in self.by_id else DeviceTimes.none(of_slice),
            {**counts_of(of_slice, stage), **self._differences(of_slice, stage)},
        )

    def matches(self, of_slice: Model, stage: str) -> dict[str, Matches]:
        """Match the patterns on the tables of a stage in a slice of the trace."""
        matches: dict[str, Matches] = {}
        masks = of_slice.facts.memo.setdefault(self, {})
        for p in self.declared:
            if p.match is None or TABLES[p.table].stage != stage:
                continue
            table: CompoundTable = of_slice.get(p.table)
            parent = self.by_id.get(p.parent)
            inherited = parent is not None and parent.match is not None and parent.table == p.table
            start = matches[p.parent] if inherited else every_row(table).read_only()
            constituents = {
                name: Instances(of_slice.get(c.table), lookup(of_slice.get(c.table)[c.column], table[c.pointer]))
                for name, c in p.constituents.items()
            }
            used = [matches[u] for u in p.uses]
            try:
                if p.frame:
                    # imports pandas, which other analyses do without
                    from tracecols.patterns.framed import match_frame

                    found = match_frame(p, of_slice, table, start, inherited, constituents, self._given[p.id])
                else:
                    found = p.match(of_slice, table.read_only(), start, *used, **constituents, **self._given[p.id])
                check_matches(found, table, of_slice)
            except TracecolsError:
                raise
            except Exception as error:
                raise AnalysisError(
                    f"the pattern of property {p.id!r} ({p.family}) failed: {type(error).__name__}: {error}"
                ) from error
            mask = region_mask(p, self.by_id, self._nested, of_slice, masks)
            allowed = np.append(mask[of_slice.call_paths.region], False)[found.call_path]
            matches[p.id] = found.where(allowed).read_only()
        return matches

    def _charged(self, of_slice: Model, stage: str) -> dict[str, Cells]:
        """Return the cells of the properties that a stage charges, in ticks; with fractions where times are seconds."""
        cells: dict[str, Cells] = {}
        for p in self.declared:
            if p.charged and TABLES[p.table].stage == stage:
                table: CompoundTable = of_slice.get(p.table)
                mine = np.flatnonzero(table.property == CHARGED.index(p.id))
                value = table.charged[mine] * ticks_per_unit(of_slice.facts, of_slice.get("quirks"))
                cells[p.id] = Cells.sum(table.call_path[mine], table.location[mine], value)
        return cells

    def _differences(self, of_slice: Model, stage: str) -> dict[str, int]:
        """Return what tells root causes from those of the reference, where a stage knows."""
        name = RUN_CAUSES.name
        computes = stage == TABLES[name].stage and any(p.charged and p.table == name for p in self.declared)
        return dict(of_slice.get(name).counts) if computes else {}


def region_mask(
    p: Property, by_id: Mapping[str, Property], nested: bool, model: Model, masks: dict[str, NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Say which regions a property can be charged to: what its own rule and those above allow; `masks` are those found so far."""
    if p.id not in masks:
        regions = model.regions
        above = (
            region_mask(by_id[p.parent], by_id, nested, model, masks)
            if p.parent and nested
            else np.ones(len(regions), bool)
        )
        masks[p.id] = above & p.regions(regions) if p.regions is not None else above
    return masks[p.id]


def cells_of(p: Property, by_id: Mapping[str, Property], matches: Matches, of_slice: Model) -> Cells:
    """Add up the matches of a property."""
    with _named(p):
        if of_slice.call_paths.divider is None or not of_slice.call_paths.divider.by_time:
            return matches.cells()
        return _in_bins(p, by_id, matches, of_slice).cells()


def _in_bins(p: Property, by_id: Mapping[str, Property], matches: Matches, of_slice: Model) -> Matches:
    """Divide the times of matches at the edges of bins, and put what is counted into the bin of its event.

    What does not say when it begins stays in the bin in which its call path is entered.
    """
    labels = of_slice.call_paths
    # a null call path has no severity
    found = matches.where((matches.call_path >= 0) & (matches.severity != 0))
    if not has_interval(p, by_id):
        return found
    begin, end = times_of(p, by_id, of_slice.get(p.table), found)
    if p.unit != "sec":
        return replace(found, call_path=labels.at(found.call_path, begin))
    row, call_path, ticks = labels.divide(found.call_path, begin, end)
    return Matches(found.row[row], ticks, call_path, found.location[row])


def check_matches(found: Matches, table: CompoundTable, model: Model) -> None:
    """Refuse what is no answer, so that a mistake in a pattern is told where it is made."""
    if not isinstance(found, Matches):
        raise TypeError(f"it returns {type(found).__name__}, not Matches (parent.where(...))")
    sizes = {c.size for c in (found.row, found.severity, found.call_path, found.location)}
    if len(sizes) != 1:
        raise ValueError("row, severity, call_path and location have different lengths")
    if found.severity.dtype.kind not in "iub":
        raise TypeError(f"severities are whole ticks, occurrences or bytes, not {found.severity.dtype}")
    if len(found) and found.severity.min() < 0:
        raise ValueError(
            "severities must not be negative; leave out the rows that do not match: parent.where(severity > 0, ...)"
        )
    if len(found) and (
        found.row.min() < 0 or found.row.max() >= len(table) or found.location.min() < 0
        or found.location.max() >= model.n_locations or found.call_path.max() >= len(model.call_paths)
    ):  # fmt: skip
        raise IndexError(f"rows, locations or call paths lie beyond {table}")


@dataclass(frozen=True)
class MatchesOf:
    """The matches of one pattern in slices of a trace.

    Attributes
    ----------
    search : SliceSearch
    name : str
        Id of the property.
    """

    search: SliceSearch
    name: str

    def __call__(self, of_slice: Model, stage: str) -> Matches:
        """Match it in a slice; what `Run.stages` calls."""
        return self.search.matches(of_slice, stage)[self.name]


class Search:
    """The search for properties in a model.

    Parameters
    ----------
    model : Model
    declared : list of Property
        In depth-first order.
    conventions : Conventions
    parameters : mapping, optional
        By property id the values of parameters by name.
    """

    def __init__(
        self,
        model: Model,
        declared: list[Property],
        conventions: Conventions,
        parameters: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.model, self.declared, self.nested = model, declared, conventions.nested
        self.by_id = {p.id: p for p in declared}
        self._masks: dict[str, NDArray[np.bool_]] = {}
        self.findings = Findings(model, conventions, TeamTimes.none(), PropertyAxis.of(declared))
        self.device_times = DeviceTimes.none(model)
        unknown = set(parameters or {}) - set(self.by_id)
        if unknown:
            raise AnalysisError(
                f"parameters for {', '.join(sorted(unknown))}, which are not searched for\n  tracecols patterns lists all properties"
            )
        self._given = {p.id: arguments(p, parameters or {}, model.resolution) for p in declared}
        for p in declared:
            self._check(p)
        self.of_slices = SliceSearch(declared, conventions.nested, self._given)

    @staticmethod
    def _check(p: Property) -> None:
        """Refuse what cannot be computed."""
        if p.match is None:
            return
        spec = TABLES.get(p.table)
        if spec is None or spec.charged is None:
            known = ", ".join(t.name for t in TABLES.values() if t.charged is not None)
            raise AnalysisError(
                f"property {p.id!r} is declared on {p.table!r}, which is no table patterns are matched on\n  there are {known}"
            )
        if p.frame and p.uses:
            raise AnalysisError(
                f"property {p.id!r} is a pattern of data frames (frame=True), which is given no matches of others (uses)\n"
                "  declare it below the property whose matches it narrows"
            )
        together = [t.name for t in tables_of(spec.stage)]
        for name, c in p.constituents.items():
            if c.table not in together:
                raise AnalysisError(
                    f"constituent {name!r} of property {p.id!r} is looked up in {c.table!r}\n"
                    f"  together with {p.table} there are {', '.join(together)}"
                )

    def matches(self, of_slice: Model, stage: str) -> dict[str, Matches]:
        """Match the patterns on the tables of a stage in a slice of the trace."""
        return self.of_slices.matches(of_slice, stage)

    def run(self, progress: Progress | None = None) -> tuple[dict[str, Cells], dict[str, int]]:
        """Search the whole trace.

        Parameters
        ----------
        progress : callable, optional
            As for `Run.stages`.

        Returns
        -------
        cells : dict of str to Cells
            Of all properties.
        counts : dict of str to int
            What could not be matched or contradicts itself, in the tables that were looked at.
        """
        tables = {p.table for p in self.declared if p.match is not None or p.charged}
        stages = {WITHIN, *(TABLES[name].stage for name in tables)}
        counts: Counter[str] = Counter()
        cells = self.findings.cells
        with self.model.divided() as run, self.model.executor.pool() as pool:
            for found in run.stages(self.of_slices, stages, pool, progress):
                self.findings.teams += found.teams
                self.device_times += found.devices
                counts.update(found.counts)
                for name, more in found.cells.items():
                    cells[name] = cells[name] + more if name in cells else more
        return self._all_cells(), dict(counts)

    def largest(self, p: Property, cells: Cells) -> NDArray[np.int64]:
        """Search once more for the largest match of a pattern in each of some cells of the whole time; (n_cells,) int64."""
        labels = self.model.call_paths
        result = np.zeros(len(cells), np.int64)
        with self.model.divided() as run, self.model.executor.pool() as pool:
            for found in run.stages(MatchesOf(self.of_slices, p.id), [TABLES[p.table].stage], pool):
                at = lookup(cells.key, (labels.path_of(found.call_path) << 32) | found.location)
                np.maximum.at(result, at[at >= 0], found.severity[at >= 0])
        return result

    def _all_cells(self) -> dict[str, Cells]:
        """Return the cells of all properties, once those of the patterns are known."""
        model, declared, findings = self.model, self.declared, self.findings
        for p in declared:
            if p.regions is not None:
                basis = findings.execution if p.measure == "execution" else findings.cells["visits"]
                allowed = region_mask(p, self.by_id, self.nested, model, self._masks)
                findings.cells[p.id] = basis.on(allowed[model.call_paths.region])
            elif p.cells is not None:
                with _named(p):
                    findings.cells[p.id] = p.cells(model, findings, **self._given[p.id])
        return self._sums()

    def _sums(self) -> dict[str, Cells]:
        declared, findings = self.declared, self.findings
        for p in reversed(declared):
            if p.of == "children":
                cells = Cells.empty()
                with _named(p):
                    for child in declared:
                        if child.parent == p.id:
                            cells = cells + findings.cells[child.id]
                findings.cells[p.id] = cells
        for p in declared:
            if p.of == "rest":
                cells = findings.cells[p.parent]
                with _named(p):
                    for sibling in declared:
                        if sibling.parent == p.parent and sibling.id != p.id:
                            cells = cells - findings.cells[sibling.id]
                findings.cells[p.id] = cells
        for p in declared:
            if p.derived is not None:
                with _named(p):
                    findings.cells[p.id] = p.derived(self.model, findings, **self._given[p.id])
        return findings.cells


@dataclass
class Found:
    """What a search finds in a slice of the trace."""

    cells: dict[str, Cells]
    teams: TeamTimes
    devices: DeviceTimes
    counts: dict[str, int]


def check_conventions(conventions: object) -> None:
    """Refuse what names no conventions.

    Raises
    ------
    AnalysisError
        If there are none of this name.
    """
    if not isinstance(conventions, str) or conventions not in CONVENTIONS:
        there_are = f"there are {', '.join(CONVENTIONS)}"
        hint = did_you_mean(conventions, CONVENTIONS, there_are) if isinstance(conventions, str) else there_are
        raise AnalysisError(f"no conventions {show(conventions)}\n  {hint}")


def has_interval(p: Property, by_id: Mapping[str, Property]) -> bool:
    """Return whether a property says when its matches begin or end."""
    timed = inherited(p, by_id, lambda q: q.since or q.until)
    return bool(timed.since or timed.until)


def declared_for(model: Model, conventions: str, patterns: Iterable[Family]) -> list[Property]:
    """Return all properties that can exist in a trace: built in, counters, from installed packages, and given ones."""
    check_conventions(conventions)
    more = [p for family in (*installed(), *patterns) for p in family.properties]
    return properties(conventions, [*counter_properties(model, conventions), *more], model)


def without(declared: list[Property], roots: Iterable[str]) -> list[Property]:
    """Return the properties that do not stand in some trees.

    Parameters
    ----------
    declared : list of Property
        Parents before children.
    roots : iterable of str
        Ids of properties.
    """
    gone = set(roots)
    for p in declared:
        if p.parent in gone:
            gone.add(p.id)
    return [p for p in declared if p.id not in gone]


def with_topologies(model: Model, topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Model:
    """Return a model that has more topologies than its trace; itself if there are none."""
    if not topologies:
        return model
    if isinstance(topologies, Mapping):
        topologies = [topologies]
    axis = SystemAxis.of(model.store)
    return model.with_topologies([given_topology(t, axis.rank, axis.thread) for t in topologies])


def analyze_model(
    model: Model,
    conventions: str = DEFAULT,
    patterns: Iterable[Family] = (),
    choice: Choice = EVERYTHING,
    topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    progress: Progress | None = None,
) -> SeverityCube:
    """Compute the severity cube of an enhanced model.

    Parameters
    ----------
    model : Model
    conventions : str
        Which analyser's rules to follow.
    patterns : iterable of Family, optional
        More patterns.
    choice : Choice, optional
        What to narrow the search to.

    topologies : sequence of mapping, optional
        Topologies given by hand (see `enhance.definitions.topologies.given_topology`), besides those of the trace.
    progress : callable, optional
        Called with what is done and what is to be done of the search; the scan of a trace is in its model.

    Raises
    ------
    AnalysisError
        If something chosen does not exist, or a pattern fails.
    """
    check_conventions(conventions)
    model = with_topologies(model, topologies).with_quirks(CONVENTIONS[conventions].quirks)
    declared = shown = declared_for(model, conventions, patterns)
    choice = choice.resolved(declared)
    if choice.properties is not None:
        computed, asked = needed(declared, choice.properties)
        declared, shown = ([p for p in declared if p.id in ids] for ids in (computed, asked))
    divider, n_left_out = model.call_paths.divider, 0
    if divider is not None:
        kept, shown_ids = {p.id for p in without(declared, UNDIVIDED)}, {p.id for p in shown}
        undivided = [p.id for p in declared if p.id not in kept and p.id in shown_ids]
        if undivided and choice.properties is not None:
            raise AnalysisError(
                f"{', '.join(undivided[:3])}: what computation differs from its mean over all locations, without the sign, cannot be divided into"
                f" {divider.kind}s: those of {divider.kind}s do not add up to those of the whole time\n"
                "  analyze them without"
            )
        n_left_out = len(set(UNDIVIDED) & shown_ids)
        declared, shown = without(declared, UNDIVIDED), without(shown, UNDIVIDED)
    n_calls = sum(scan.n_calls for scan in model.scans)
    asks_for_held = any(p.id in HELD for p in declared)
    is_large = choice.properties is None and n_calls > MOST_CALLS and asks_for_held
    ticks = 0 if CONVENTIONS[conventions].quirks.rounds_seconds or not asks_for_held else ticks_of_all(model)
    is_long = ticks >= MOST_TICKS
    if is_long and choice.properties is not None:
        raise AnalysisError(
            f"{', '.join([p.id for p in declared if p.id in HELD][:3])}: all locations together take {ticks:,} ticks, and root causes in whole "
            f"ticks are for less than {MOST_TICKS:,}\n  conventions scalasca compute them in seconds; or leave them out"
        )
    if is_large or is_long:
        declared = shown = without(declared, HELD)
    n_spread = len(model.call_paths) * int(model.locations.is_cpu.sum())
    is_wide = choice.properties is None and n_spread > MOST_SPREAD and any(p.id == SPREAD for p in declared)
    if is_wide:
        declared, shown = without(declared, [SPREAD]), without(shown, [SPREAD])
    search = Search(model, declared, CONVENTIONS[conventions], choice.parameters)
    by_label, counts = search.run(progress)
    by_period = {} if divider is None else {name: period_cells(model, found) for name, found in by_label.items()}
    cells = by_label | {name: Cells.sum(of.call_path, of.location, of.value) for name, of in by_period.items()}
    clock = model.store.manifest["clock"]
    call_paths, system = CallAxis.of(model.call_paths.whole, model.regions), SystemAxis.of(model.store)
    teams = search.findings.teams
    excused = check_bounds(model, CONVENTIONS[conventions], teams, declared, cells, search.largest, call_paths, system)
    found = {k: int(v) for k, v in (counts_by_location(model) | counts | excused).items() if v}
    divided: dict[str, Any] = {}
    if divider is not None:
        axis, notes = period_axis(model)
        of_periods = {p.id: choice.period_cells(model, by_period[p.id]) for p in shown}
        divided = {"periods": axis, "period_cells": of_periods}
        without_time = [p.id for p in declared if p.match is not None and not has_interval(p, search.by_id)]
        found |= notes | period_notes(divider.kind, of_periods, n_left_out, without_time)
    devices = int(model.locations.is_device.sum())
    if devices:
        found["device streams, which are no CPUs: their times and visits are left out"] = devices
    for fact, what in OF_PIECES.items():
        n = str(model.store.manifest["source"].get(fact, 0))
        if n.isdecimal() and int(n):
            found[what] = int(n)
    neighbourhoods = calls_of_neighbourhoods(model) if model.locations.n_processes > 1 else 0
    if neighbourhoods:
        found[NEIGHBOURS] = neighbourhoods
    unseen = 0 if devices else visits_of(model, np.isin(model.regions.device_call, [LAUNCH, COPY]))
    if unseen:
        found[NO_STREAMS] = unseen
    found |= {f"records of {what}, which are not analysed": n for what, n in not_analysed(model.store.manifest).items()}
    follows_list = CONVENTIONS[conventions].idle is idle_cells
    displaced = displaced_call_paths(model, search.findings) if follows_list else 0
    overbooked = overbooked_threads(model, search.findings) if follows_list else 0
    if is_large:
        found[LEFT_OUT] = n_calls
    if is_long:
        found[TOO_LONG] = ticks
    if is_wide:
        found[TOO_MANY_CELLS] = n_spread
    if overbooked:
        found["threads that run while their process runs serially: their idle time counts besides"] = overbooked
    if displaced:
        found["call paths counted outside their parallel region, as the reference does"] = displaced
    if model.store.note:
        found[model.store.note] = 1
    facts: dict[str, Any] = {
        "conventions": conventions,
        "resolution": clock["resolution"],
        "trace": {
            **{k: model.store.manifest[k] for k in ("source", "n_events", "n_locations", "first_time", "last_time")},
            # what seconds since the start of the recording are counted from
            "origin": int(model.store.manifest["clock"]["origin"]),
        },
        "counts": found,
    }
    if interval := mpi_interval(model):
        facts["mpi_interval"] = interval
    if "device_time" in search.by_id:
        facts["device_efficiencies"] = device_efficiencies(model, search.device_times, search.findings.execution)
    if choice.facts():
        facts["narrowed"] = choice.facts()
    return SeverityCube(
        PropertyAxis.of(shown),
        call_paths,
        system,
        {p.id: choice.cells(model, cells[p.id]) for p in shown},
        facts,
        model.topologies,
        **divided,
    )


def _search_for(
    model: Model, declared: list[Property], name: str, conventions: str, parameters: Mapping[str, Mapping[str, float]]
) -> tuple[Search, Property]:
    """Return the search for a property that is matched on a table, and the property."""
    computed, _ = needed(declared, [name])
    by_id = {p.id: p for p in declared}
    p = by_id[find_declared(PropertyAxis.of(declared), name)]
    if p.match is None:
        below = [q.id for q in declared if q.match is not None and q.parent == p.id]
        hint = f"below it there are {', '.join(below)}" if below else "tracecols patterns says which are"
        raise AnalysisError(
            f"property {p.id!r} is computed from call paths, not matched instance by instance\n  {hint}"
        )
    return Search(model, [q for q in declared if q.id in computed], CONVENTIONS[conventions], parameters), p


def find_matches(
    model: Model,
    name: str,
    conventions: str = DEFAULT,
    patterns: Iterable[Family] = (),
    choice: Choice = EVERYTHING,
    topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
) -> dict[str, NDArray[Any]]:
    """Find every instance of a pattern.

    Parameters
    ----------
    name : str
        Id or title of a property that is matched on a compound table.
    model, conventions, patterns, choice, topologies
        As for `analyze_model`.

    Returns
    -------
    dict of str to (n,) array
        `row` in the compound table, `severity` (ticks, occurrences or bytes), `call_path` and `location` it is charged to,
        `begin_time` and `end_time` of the waiting where the pattern says (ticks, -1 else), and the table's other columns.

    Raises
    ------
    AnalysisError
        If there is no such property, or it is no pattern.
    """
    model = with_topologies(model, topologies)
    declared = declared_for(model, conventions, patterns)
    choice = choice.resolved(declared)
    search, p = _search_for(model, declared, name, conventions, choice.parameters)
    by_id = search.by_id
    # numbers of rows mean the whole tables, so the trace is not divided
    found = search.matches(model, TABLES[p.table].stage)[p.id]
    table: CompoundTable = model.get(p.table)
    found = found.where((found.call_path >= 0) & choice.mask(model, found.call_path, found.location))
    begin, end = times_of(p, by_id, table, found)
    own: dict[str, NDArray[Any]] = {
        "row": found.row, "severity": found.severity, "call_path": found.call_path, "location": found.location,
        "begin_time": begin, "end_time": end,
    }  # fmt: skip
    return {**own, **{c: table[c][found.row] for c in table.table.names if c not in own}}


def inherited(p: Property, by_id: Mapping[str, Property], says: Callable[[Property], object]) -> Property:
    """Return a property, or the nearest above on the same table that says something; the highest if none does."""
    while not says(p) and p.parent in by_id and by_id[p.parent].table == p.table:
        p = by_id[p.parent]
    return p


def times_of(
    p: Property, by_id: Mapping[str, Property], table: CompoundTable, found: Matches
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when matches begin and end, in ticks; -1 where the property does not say.

    Parameters
    ----------
    p : Property
    by_id : mapping of str to Property
    table : CompoundTable
        That it is matched on.
    found : Matches
    """
    timed = inherited(p, by_id, lambda q: q.since or q.until)
    is_time = p.unit == "sec"
    if timed.since:
        begin = table[timed.since][found.row]
        return begin, begin + found.severity if is_time else begin
    if timed.until:
        end = table[timed.until][found.row]
        return end - found.severity if is_time else end, end
    return np.full(len(found), -1, np.int64), np.full(len(found), -1, np.int64)


def causes_of(
    model: Model, p: Property, by_id: Mapping[str, Property], table: CompoundTable, found: Matches
) -> Causes | None:
    """Return who lets matches wait; None where the property does not say.

    Parameters
    ----------
    model : Model
        The slice of the trace that the table is of.
    p : Property
    by_id : mapping of str to Property
    table : CompoundTable
        That it is matched on.
    found : Matches
    """
    cause = inherited(p, by_id, lambda q: q.cause is not None).cause
    if isinstance(cause, Cause):
        return Causes(*(table[c][found.row] for c in (cause.location, cause.call_path, cause.time)))
    return None if cause is None else cause(model, table, found)


def over_matches(
    model: Model, name: str, visit: Callable[[Model, Property, Mapping[str, Property], CompoundTable, Matches], Result],
    conventions: str = DEFAULT,
) -> tuple[Property, list[Result]]:  # fmt: skip
    """Find the matches of a pattern slice by slice; what a slice computes is dropped when it was visited.

    Parameters
    ----------
    model : Model
    name : str
        Id or title of a property that is matched on a compound table.
    visit : callable
        `visit(of_slice, property, by_id, table, matches)`.
    conventions : str
        As for `analyze_model`.

    Returns
    -------
    property : Property
    results : list
        By slice.

    Raises
    ------
    AnalysisError
        If there are no such conventions, there is no such property, or it is no pattern.
    """
    search, p = _search_for(model, declared_for(model, conventions, ()), name, conventions, {})

    def one(of_slice: Model, stage: str) -> Result:
        found = search.matches(of_slice, stage)[p.id]
        return visit(of_slice, p, search.by_id, of_slice.get(p.table), found.where(found.call_path >= 0))

    with model.divided() as run, model.executor.pool() as pool:
        return p, list(run.stages(one, [TABLES[p.table].stage], pool))


def find_timed(
    model: Model, ids: Iterable[str], conventions: str = DEFAULT
) -> Iterator[tuple[Property, Matches, tuple[NDArray[np.int64], NDArray[np.int64]], Causes | None]]:
    """Find the matches of several patterns, with their times and causes.

    Parameters
    ----------
    model : Model
        The trace in one partition.
    ids : iterable of str
        Of properties; those that cannot exist in the trace are passed over.
    conventions : str
        As for `analyze_model`.

    Yields
    ------
    property, matches, (begin, end), causes
        In the order of the ids as far as they stand on tables of the same stage; see `times_of` and `causes_of`.
    """
    declared = declared_for(model, conventions, ())
    by_id = {p.id: p for p in declared}
    chosen = [by_id[i] for i in ids if i in by_id]
    computed, _ = needed(declared, [p.id for p in chosen])
    search = Search(model, [p for p in declared if p.id in computed], CONVENTIONS[conventions])
    for stage in dict.fromkeys(TABLES[p.table].stage for p in chosen):
        matches = search.matches(model, stage)
        for p in chosen:
            if p.id in matches:
                table: CompoundTable = model.get(p.table)
                found = matches[p.id].where(matches[p.id].call_path >= 0)
                yield p, found, times_of(p, by_id, table, found), causes_of(model, p, by_id, table, found)


def states_with_causes(model: Model, conventions: str) -> list[str]:
    """Return the ids of the wait states of a trace that say who causes them.

    Parameters
    ----------
    model : Model
    conventions : str
        As for `analyze_model`.

    Raises
    ------
    AnalysisError
        If there are no such conventions.
    """
    return [p.id for p in declared_for(model, conventions, ()) if p.cause is not None and p.match is not None]


def find_waits(model: Model, conventions: str = DEFAULT) -> dict[str, NDArray[Any]]:
    """Find every instance of the wait states that say who causes them.

    Parameters
    ----------
    model : Model
        The trace in one partition.
    conventions : str
        As for `analyze_model`.

    Returns
    -------
    dict of str to (n,) array
        The columns of `schema.causes.WAITS`.
    """
    chosen = states_with_causes(model, conventions)
    found: dict[str, list[NDArray[Any]]] = {
        c.name: [np.zeros(0, object if c.dtype == "string" else c.dtype)] for c in WAITS.columns
    }
    for p, m, (begin, end), who in find_timed(model, chosen, conventions):
        assert who is not None  # chosen for that
        columns = {
            "property": np.full(len(m), p.id, object), "location": m.location, "call_path": m.call_path, "begin_time": begin,
            "end_time": end, "cause_location": who.location, "cause_call_path": who.call_path, "cause_time": who.time,
        }  # fmt: skip
        for name, values in columns.items():
            found[name].append(values)
    result = {name: np.concatenate(arrays) for name, arrays in found.items()}
    order = np.lexsort((result["end_time"], result["begin_time"], result["location"]))
    return {name: values[order] for name, values in result.items()}


def counts_by_location(model: Model) -> dict[str, int]:
    """Count what contradicts itself at one location, and in the definitions."""
    return {
        "exits that do not match their enter": sum(s.bad_exits for s in model.scans),
        "region instances that never end": sum(s.open for s in model.scans),
        "events earlier than the one before them": sum(model.store.decreases.values()),
        "positions that do not fit their topology": model.misplaced,
    }


NEIGHBOURS = (
    "calls of neighbourhood collectives: no recording says on which communicator, so who waits for whom is not known"
)
"""Note of traces with MPI_Neighbor_alltoall and its like, of which OTF2 has nothing but ENTER and LEAVE."""


NO_STREAMS = "calls that launch kernels or copy, and no streams of devices: what the devices do is not recorded"
"""Note of traces of the host's side only."""


def calls_of_neighbourhoods(model: Model) -> int:
    """Count the calls of neighbourhood collectives."""
    return visits_of(model, mpi("mpi_i?neighbor_.*")(model.regions))


def visits_of(model: Model, regions: NDArray[np.bool_]) -> int:
    """Count how often regions are entered."""
    m = model.profile
    return int(m.visits[regions[model.call_paths.region][m.call_path]].sum())


OF_PIECES = {
    PIECE_CALLS: "calls of MPI, OpenMP or for devices that an end of the piece cuts through, whose waiting is not all seen here",
    PIECE_LEFT_OUT: "events of messages and collective operations left out of the piece, which holds only one side of them",
}
"""What a piece of a trace says about itself that results depend on."""


def counts_of(of_slice: Model, stage: str) -> dict[str, int]:
    """Count what contradicts itself in the tables of a stage in a slice of the trace."""
    return {k: v for spec in tables_of(stage) if spec.counts for k, v in of_slice.get(spec.name).counts.items()}


def counts(model: Model) -> dict[str, int]:
    """Count what could not be matched or contradicts itself; zeros are left out."""
    found = Counter(counts_by_location(model))
    with model.divided() as run, model.executor.pool() as pool:
        for more in run.stages(counts_of, {spec.stage for spec in TABLES.values() if spec.counts}, pool):
            found.update(more)
    return {k: int(v) for k, v in found.items() if v}
