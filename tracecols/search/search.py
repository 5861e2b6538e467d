"""The search for properties in a trace: parents before children, each a mask and a sum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add, sub
from typing import Any, Protocol, TypeVar

import numpy as np

from tracecols.causes.points import ticks_per_unit
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.dataflow.steps import IN_WINDOWS, WITHIN
from tracecols.errors import AnalysisError, SeverityError, TracecolsError
from tracecols.model.model import Model, Progress
from tracecols.model.tables import TABLES, tables_of
from tracecols.patterns.base import Conventions, Findings, Property
from tracecols.patterns.device_times import DeviceTimes
from tracecols.patterns.found_by import CellFunction, Charged, Computed, Derived, InRegions, Rest, SumOf
from tracecols.patterns.matches import Instances, Matches
from tracecols.patterns.team_times import TeamTimes
from tracecols.schema.causes import NUMBER_OF_CHARGED, RUN_CAUSES
from tracecols.schema.properties import DEVICE_TIME, IMBALANCE, VISITS
from tracecols.search.choice import trees_of, without
from tracecols.search.notes import counts_of
from tracecols.severity.cells import Cells
from tracecols.vectors import Ints, Mask

Result = TypeVar("Result")


def every_row(table: CompoundTable) -> Matches:
    """Match all rows of a table with severity 0, charged as the table declares."""
    charged = TABLES[table.table.name].charged
    assert charged is not None  # Search refuses patterns on other tables
    call_path, location = charged
    n = len(table)
    return Matches(np.arange(n), np.broadcast_to(np.int64(0), n), table[call_path], table[location])


def arguments(p: Property, parameters: Mapping[str, Mapping[str, float]], resolution: int) -> dict[str, Any]:
    """Return the keyword arguments of the function of a property: those of its conventions, and its parameters, with
    seconds in ticks (unchanged for `frame`)."""
    values: dict[str, Any] = {name: parameter.default for name, parameter in p.parameters.items()}
    for name, value in parameters.get(p.id, {}).items():
        if name not in values:
            known = f"it has {', '.join(values)}" if values else "it has none"
            raise AnalysisError(f"property {p.id!r} has no parameter {name!r}\n  {known}")
        values[name] = value
    for name, parameter in p.parameters.items():
        # data frames hold seconds
        in_frames = p.pattern is not None and p.pattern.frame
        if parameter.unit == "sec" and not in_frames and math.isfinite(values[name]):
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

    Properties are `declared` in depth-first order. If `nested`, a match counts only on call paths that the properties
    above allow. `given` holds the keyword arguments of the functions by property id.
    """

    def __init__(self, declared: list[Property], nested: bool, given: Mapping[str, Mapping[str, Any]]) -> None:
        # functions that compute cells of the whole trace are not needed here
        self.declared = [replace(p, found=SumOf()) if isinstance(p.found, Computed) else p for p in declared]
        self.by_id = {p.id: p for p in self.declared}
        self._nested, self._given = nested, given

    def __call__(self, of_slice: Model, stage: str) -> SliceFindings:
        """Search a slice; called by `Run.stages`."""
        found = self.matches(of_slice, stage)
        return SliceFindings(
            {
                **{name: cells_of(self.by_id[name], m, of_slice) for name, m in found.items()},
                **self._charged(of_slice, stage),
            },
            TeamTimes.of(of_slice) if stage == WITHIN else TeamTimes.none(),
            DeviceTimes.of(of_slice) if stage == WITHIN and DEVICE_TIME in self.by_id else DeviceTimes.none(of_slice),
            {**counts_of(of_slice, stage), **self._differences(of_slice, stage)},
        )

    def matches(self, of_slice: Model, stage: str) -> dict[str, Matches]:
        """Match the patterns on the tables of a stage in a slice of the trace."""
        matches: dict[str, Matches] = {}
        for p in self.declared:
            of = p.pattern
            if of is None or TABLES[of.table].stage != stage:
                continue
            table: CompoundTable = of_slice.get(of.table)
            parent = self.by_id.get(p.parent)
            inherited = parent is not None and parent.pattern is not None and parent.table == of.table
            start = matches[p.parent] if inherited else every_row(table).read_only()
            constituents = {
                name: Instances(of_slice.get(c.table), lookup(of_slice.get(c.table)[c.column], table[c.pointer]))
                for name, c in of.constituents.items()
            }
            used = [matches[u] for u in of.uses]
            try:
                if of.frame:
                    # imports pandas, which other analyses do without
                    from tracecols.patterns.framed import match_frame

                    found = match_frame(p, of_slice, table, start, inherited, constituents, self._given[p.id])
                else:
                    assert of.function is not None  # `registry.properties` refuses patterns without one
                    found = of.function(of_slice, table.read_only(), start, *used, **constituents, **self._given[p.id])
                check_matches(found, table, of_slice)
            except TracecolsError:
                raise
            except Exception as error:
                raise AnalysisError(
                    f"the pattern of property {p.id!r} ({p.family}) failed: {type(error).__name__}: {error}"
                ) from error
            mask = self.region_mask(p, of_slice)
            allowed = np.append(mask[of_slice.call_paths.region], False).take(found.call_path)
            matches[p.id] = found.where(allowed).read_only()
        return matches

    def region_mask(self, p: Property, model: Model) -> Mask:
        """Return a mask of the regions that a property can be charged to by its own rule and those above."""
        masks: dict[str, Mask] = model.facts.memo.setdefault(self, {})
        if p.id not in masks:
            is_below = p.parent and self._nested
            above = self.region_mask(self.by_id[p.parent], model) if is_below else np.ones(len(model.regions), bool)
            masks[p.id] = above & p.found.rule(model.regions) if isinstance(p.found, InRegions) else above
        return masks[p.id]

    def _charged(self, of_slice: Model, stage: str) -> dict[str, Cells]:
        """Return the cells of the properties that a stage charges, in ticks; with fractions if times are seconds."""
        cells: dict[str, Cells] = {}
        for p in self.declared:
            if isinstance(p.found, Charged) and TABLES[p.found.table].stage == stage:
                table: CompoundTable = of_slice.get(p.found.table)
                mine = np.flatnonzero(table.property == NUMBER_OF_CHARGED[p.found.table].index(p.id))
                value = table.charged[mine] * ticks_per_unit(of_slice.facts, of_slice.get("quirks"))
                cells[p.id] = Cells.sum(table.call_path[mine], table.location[mine], value)
        return cells

    def _differences(self, of_slice: Model, stage: str) -> dict[str, int]:
        """Return counts of what distinguishes root causes from those of the reference, if the stage computes them."""
        name = RUN_CAUSES.name
        computes = stage == TABLES[name].stage and Charged(name) in [p.found for p in self.declared]
        return dict(of_slice.get(name).counts) if computes else {}


def cells_of(p: Property, matches: Matches, of_slice: Model) -> Cells:
    """Add up the matches of a property."""
    if not len(matches):
        # most properties have none
        return Cells.empty()
    with _named(p):
        if of_slice.call_paths.divider is None or not of_slice.call_paths.divider.by_time:
            return matches.cells()
        return _in_bins(p, matches, of_slice).cells()


def _in_bins(p: Property, matches: Matches, of_slice: Model) -> Matches:
    """Divide the times of matches at the edges of bins, and put counts into the bin of their event.

    Matches of properties that do not declare when they begin or end stay in the bin in which their call path is
    entered.
    """
    labels = of_slice.call_paths
    # a null call path has no severity
    found = matches.where((matches.call_path >= 0) & (matches.severity != 0))
    if p.timed_by is None:
        return found
    begin, end = times_of(p, of_slice.get(p.table), found)
    if p.unit != "sec":
        return replace(found, call_path=labels.at(found.call_path, begin, found.location))
    row, call_path, ticks = labels.divide(found.call_path, begin, end, found.location)
    return Matches(found.row[row], ticks, call_path, found.location[row])


def check_matches(found: Matches, table: CompoundTable, model: Model) -> None:
    """Check the result of a pattern, so that a mistake in a pattern is reported where it is made."""
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
        found.row.min() < 0
        or found.row.max() >= len(table)
        or found.location.min() < 0
        or found.location.max() >= model.n_locations
        or found.call_path.max() >= len(model.call_paths)
    ):
        raise IndexError(f"rows, locations or call paths lie beyond {table}")


class Visitor(Protocol):
    """A visitor of the slices of a run, besides the search."""

    @property
    def in_windows(self) -> bool:
        """Whether it may visit windows of long processes instead of whole ones."""

    @property
    def finds_much(self) -> bool:
        """Whether its results are large, so that few of them may wait in memory."""

    @property
    def stages(self) -> Collection[str]:
        """The stages whose slices it visits."""

    def visit(self, model: Model, stage: str) -> Any:
        """Visit a slice; called by `Run.stages`, possibly on a worker."""

    def take(self, found: Any) -> None:
        """Receive a result of `visit`; results come in the order of the slices, and before those of the next stage."""


class Search:
    """The search for properties, declared in depth-first order, in a model."""

    def __init__(
        self,
        model: Model,
        declared: list[Property],
        conventions: Conventions,
        parameters: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.model, self.declared = model, declared
        self.by_id = {p.id: p for p in declared}
        self.cells: dict[str, Cells] = {}
        self.findings = Findings(model, conventions, TeamTimes.none(), declared, self.cells)
        self.device_times = DeviceTimes.none(model)
        unknown = set(parameters or {}) - set(self.by_id)
        if unknown:
            raise AnalysisError(
                f"parameters for {', '.join(sorted(unknown))}, which are not searched for\n"
                "  tracecols patterns lists all properties"
            )
        self._given = {p.id: arguments(p, parameters or {}, model.resolution) for p in declared}
        for p in declared:
            self._check(p)
        self.of_slices = SliceSearch(declared, conventions.nested, self._given)

    @staticmethod
    def _check(p: Property) -> None:
        """Check that a property can be computed."""
        of = p.pattern
        if of is None:
            return
        spec = TABLES.get(p.table)
        if spec is None or spec.charged is None:
            known = ", ".join(t.name for t in TABLES.values() if t.charged is not None)
            raise AnalysisError(
                f"property {p.id!r} is declared on {p.table!r}, which is not a table that patterns are matched on\n"
                f"  there are {known}"
            )
        if of.frame and of.uses:
            raise AnalysisError(
                f"property {p.id!r} is a pattern of data frames (frame=True), which is given no matches of others "
                "(uses)\n"
                "  declare it below the property whose matches it narrows"
            )
        together = [t.name for t in tables_of(spec.stage)]
        for name, c in of.constituents.items():
            if c.table not in together:
                raise AnalysisError(
                    f"constituent {name!r} of property {p.id!r} is looked up in {c.table!r}\n"
                    f"  together with {p.table} there are {', '.join(together)}"
                )

    def run(
        self, progress: Progress | None = None, also: Sequence[Visitor] = ()
    ) -> tuple[dict[str, Cells], dict[str, int]]:
        """Search the whole trace; return the cells of all properties, and counts of what could not be matched or is
        contradictory in the tables that were searched.

        `progress` is as for `Run.stages`; `also` are visitors of the slices in the same pass.
        """
        tables = {p.table for p in self.declared if p.table}
        stages = {WITHIN, *(TABLES[name].stage for name in tables)}
        counts: Counter[str] = Counter()
        parts: dict[str, list[Cells]] = {}
        # tables that are made location by location need whole locations
        in_windows = stages <= IN_WINDOWS and not any(TABLES[name].by_location for name in tables)
        search = self.of_slices

        def visit(of_slice: Model, stage: str) -> tuple[SliceFindings | None, list[tuple[int, Any]]]:
            """Search a slice; also return the results of other visitors, with their numbers."""
            found = search(of_slice, stage) if stage in stages else None
            return found, [(i, v.visit(of_slice, stage)) for i, v in enumerate(also) if stage in v.stages]

        visited = stages.union(*(v.stages for v in also))
        with self.model.divided(in_windows=in_windows and all(v.in_windows for v in also)) as run:
            ahead = 1 if any(v.finds_much for v in also) else None
            for found, more in run.stages(visit, visited, progress, ahead):
                for i, of_visitor in more:
                    also[i].take(of_visitor)
                if found is None:
                    continue
                self.findings.teams += found.teams
                self.device_times += found.devices
                counts.update(found.counts)
                for name, of_slice in found.cells.items():
                    some = parts.setdefault(name, [])
                    some.append(of_slice)
                    # added up only when there are more new cells than in the sum so far, so that none is added up often
                    if sum(map(len, some[1:])) > len(some[0]):
                        parts[name] = [Cells.together(some)]
        added = {name: Cells.together(some) for name, some in parts.items()}
        # sums of which no cell is left have the same type, however the trace is divided
        self.cells |= {name: of if len(of) else Cells.empty() for name, of in added.items()}
        return self._all_cells(), dict(counts)

    def largest(self, p: Property, cells: Cells) -> Ints:
        """Search once more for the largest match of a pattern in each of some cells of the whole time; (n_cells,)
        int64."""
        labels, search, name = self.model.call_paths, self.of_slices, p.id
        result = np.zeros(len(cells), np.int64)

        def visit(of_slice: Model, stage: str) -> Matches:
            return search.matches(of_slice, stage)[name]

        with self.model.divided() as run:
            for found in run.stages(visit, [TABLES[p.table].stage]):
                at = lookup(cells.key, (labels.path_of(found.call_path) << 32) | found.location)
                np.maximum.at(result, at[at >= 0], found.severity[at >= 0])
        return result

    def _all_cells(self) -> dict[str, Cells]:
        """Return the cells of all properties, once those of the patterns are known."""
        cells = self.cells
        declared = self.declared
        first = [p for p in declared if isinstance(p.found, InRegions | Computed) and not isinstance(p.found, Derived)]
        sums = [p for p in reversed(declared) if isinstance(p.found, SumOf)]
        rests = [p for p in declared if isinstance(p.found, Rest)]
        undivided = self.undivided()
        last = [p for p in declared if isinstance(p.found, Derived) and p.id not in undivided]
        for p in (*first, *sums, *rests, *last):
            with _named(p):
                cells[p.id] = self._cells_of(p)
        return cells

    def _cells_of(self, p: Property) -> Cells:
        """Return the cells of a property that no stage finds, given those it is made of."""
        findings, cells = self.findings, self.cells
        match p.found:
            case InRegions(measure=measure):
                basis = cells[VISITS] if measure == "visits" else findings.execution
                return basis.on(self.of_slices.region_mask(p, self.model)[self.model.call_paths.region])
            case SumOf():
                return reduce(
                    add, (cells[q.id] for q in self.declared if q.parent == p.id and not q.overlaps), Cells.empty()
                )
            case Rest():
                siblings = [q for q in self.declared if q.parent == p.parent and q.id != p.id]
                return reduce(sub, (cells[q.id] for q in siblings), cells[p.parent])
            case Computed(function=function):
                assert function is not None  # `registry.properties` refuses it
                return function(self.model, findings, **self._given[p.id])
            case _:
                raise AssertionError(f"{p.found} is found in a stage")

    def undivided(self) -> dict[str, Callable[[Mapping[str, Cells]], Cells]]:
        """Return the properties that cannot be divided into periods because they compare with a mean, if there are
        periods: by id the function that computes their cells from those of the whole time, or of the focus."""
        if self.model.call_paths.divider is None:
            return {}
        whole = self.model.undivided()

        def derive(p: Property, function: CellFunction, cells: Mapping[str, Cells]) -> Cells:
            with _named(p):
                return function(whole, replace(self.findings, model=whole, cells=cells), **self._given[p.id])

        divided = {p.id for p in without(self.declared, trees_of(self.declared, IMBALANCE))}
        return {
            p.id: partial(derive, p, p.found.function)
            for p in self.declared
            if p.id not in divided and isinstance(p.found, Derived) and p.found.function is not None
        }


@dataclass
class SliceFindings:
    """What a search finds in a slice of the trace."""

    cells: dict[str, Cells]
    teams: TeamTimes
    devices: DeviceTimes
    counts: dict[str, int]


def times_of(p: Property, table: CompoundTable, found: Matches) -> tuple[Ints, Ints]:
    """Return when matches begin and end, in ticks; -1 if the property does not declare it (`Property.timed_by`)."""
    by, is_time = p.timed_by, p.unit == "sec"
    if by is None:
        return np.full(len(found), -1, np.int64), np.full(len(found), -1, np.int64)
    if by.since:
        begin = table[by.since].take(found.row)
        return begin, begin + found.severity if is_time else begin
    end = table[by.until].take(found.row)
    return end - found.severity if is_time else end, end
