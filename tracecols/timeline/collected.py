"""Collect the data of a timeline in one pass over the trace: waits and their causes, messages, collective operations,
work of devices, the critical path, and the severity of patterns over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.scan.periods import Divider, Periods, divide_intervals
from tracecols.model.model import Model
from tracecols.model.tables import TABLES
from tracecols.patterns.base import Property
from tracecols.patterns.matches import Matches
from tracecols.patterns.registry import CONVENTIONS, needed
from tracecols.schema.causes import CRITICAL_PATH, DELAY_PAIRS, SYNC_POINTS
from tracecols.schema.properties import CRITICAL_PATH as CRITICAL_PATH_TIME
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import declared_for
from tracecols.search.limits import capacity_suffices_for_causes
from tracecols.search.matches import causes_of
from tracecols.search.search import Search, SliceSearch, times_of
from tracecols.severity.axes import PropertyAxis
from tracecols.timeline.intervals import ROWS, Columns, IntervalsWriter
from tracecols.timeline.overview import asked_properties

WAITS, MESSAGES, COLLECTIVES, LAUNCHES, COPIES, PATH, PAIRS = KINDS = (
    "waits",
    "messages",
    "collectives",
    "launches",
    "copies",
    "path",
    "pairs",
)
"""Names of the tables of intervals."""

COLUMNS: dict[str, dict[str, str]] = {
    WAITS: {
        "property": "int16", "location": "int32", "call_path": "int32", "cause_location": "int32",
        "cause_call_path": "int32",
        "cause_time": "int64",
    },
    MESSAGES: {
        "send_location": "int32", "recv_location": "int32", "send_time": "int64", "recv_time": "int64",
        "length": "int64",
        "tag": "int64",
    },
    COLLECTIVES: {"location": "int32", "collective": "int64", "op": "int16", "call_path": "int32"},
    LAUNCHES: {"launch_location": "int32", "location": "int32", "launch_time": "int64", "kernel_time": "int64"},
    COPIES: {"copy_location": "int32", "location": "int32", "bytes": "int64", "direction": "int8",
    "copy_time": "int64"},
    PATH: {"location": "int32", "reason": "int8", "end_call_path": "int32"},
    PAIRS: {
        "location": "int32", "cause_location": "int32", "cause_time": "int64", "cause_since": "int64",
        "waiting_since": "int64",
    },
}  # fmt: skip
"""Their columns besides `begin` and `end`; times are in ticks. For a pair, `begin` and `end` are those of the waiting
call; the cause is the interval from `cause_since` to `cause_time` on the causing location, to be compared with the
interval from `waiting_since` to `begin` on the waiting one. Unknown times are that of the first event of the trace."""

LOCATIONS = {
    WAITS: ("location",), MESSAGES: ("send_location", "recv_location"), COLLECTIVES: ("location",),
    LAUNCHES: ("launch_location", "location"), COPIES: ("copy_location", "location"), PATH: ("location",),
    PAIRS: ("location",),
}  # fmt: skip
"""Their columns with the locations on whose rows they are drawn."""

OF_TABLES = {MESSAGES: "messages", COLLECTIVES: "collective_members", LAUNCHES: "kernels", COPIES: "copies"}


def wait_properties(model: Model) -> list[Property]:
    """Return the wait states whose instances have an interval, in depth-first order."""
    return [p for p in declared_for(model, DEFAULT, ()) if p.is_wait and p.unit == "sec" and p.timed_by is not None]


def overview_properties(model: Model) -> tuple[list[Property], list[str]]:
    """Return the properties of the overview in depth-first order: those that divide the time, and the critical path;
    and the ids of those that are patterns whose matches have an interval."""
    declared = declared_for(model, DEFAULT, ())
    names = set(asked_properties(PropertyAxis.of(declared)))
    shown = [p for p in declared if p.id in names]
    return shown, [p.id for p in shown if p.timed_by is not None]


CALL_PATHS = ("call_path", "cause_call_path", "end_call_path")
"""Columns that hold call paths."""


@dataclass(frozen=True)
class SliceCollector:
    """Collects the intervals of a slice of the trace."""

    search: SliceSearch
    waits: list[Property]
    """Wait states whose instances are collected."""
    spread: list[str]
    """Ids of the patterns whose severity is collected by location and bin."""
    with_causes: bool
    """Whether synchronisation points are found."""
    by: Divider
    """The bins."""

    @property
    def stages(self) -> set[str]:
        """The stages that are visited."""
        names = [*OF_TABLES.values(), *(self.search.by_id[name].table for name in self.spread)]
        names += [p.table for p in self.waits]
        names += [DELAY_PAIRS.name, CRITICAL_PATH.name] if self.with_causes else []
        return {TABLES[name].stage for name in names}

    def visit(self, of_slice: Model, stage: str) -> Iterable[tuple[str, Columns]]:
        """Collect the tables that are complete in a stage. Severities by location and bin are named by the id of their
        property. Pairs, which are many and come for the whole trace at once, are yielded lazily."""
        found = [(name, _narrowed(name, columns, of_slice)) for name, columns in self._of_patterns(of_slice, stage)]
        for kind, table in OF_TABLES.items():
            if TABLES[table].stage == stage:
                found.append((kind, _narrowed(kind, _READ[kind](of_slice, of_slice.get(table)), of_slice)))
        if self.with_causes and TABLES[CRITICAL_PATH.name].stage == stage:
            path = _narrowed(PATH, _path(of_slice.get(CRITICAL_PATH.name)), of_slice)
            found += [(PATH, path), (CRITICAL_PATH_TIME, self._in_bins(path["location"], path["begin"], path["end"]))]
        if self.with_causes and TABLES[DELAY_PAIRS.name].stage == stage:
            return chain(found, ((PAIRS, columns) for columns in _pairs(of_slice)))
        return found

    def _of_patterns(self, of_slice: Model, stage: str) -> Iterator[tuple[str, Columns]]:
        """Yield the severity of patterns by location and bin, and the instances of wait states; an instance that a
        child property also matches belongs to the child only."""
        waits = [p for p in self.waits if TABLES[p.table].stage == stage]
        spread = [name for name in self.spread if TABLES[self.search.by_id[name].table].stage == stage]
        if not waits and not spread:
            return
        matches = self.search.matches(of_slice, stage)
        for name in spread:
            found = matches[name].where((matches[name].call_path >= 0) & (matches[name].severity > 0))
            p = self.search.by_id[name]
            begin, end = times_of(p, of_slice.get(p.table), found)
            yield name, self._in_bins(found.location, begin, end)
        for p in waits:
            found = matches[p.id]
            below = [matches[q.id].row for q in waits if q.parent == p.id and q.table == p.table]
            is_mine = (found.call_path >= 0) & (found.severity > 0)
            if below:
                is_mine &= ~np.isin(found.row, np.concatenate(below))
            yield WAITS, self._of_wait(p, of_slice, found.where(is_mine))

    def _in_bins(self, location: NDArray[Any], begin: NDArray[np.int64], end: NDArray[np.int64]) -> Columns:
        """Return the ticks of intervals by cell, the number of location and bin; only cells with ticks are returned."""
        n = self.by.bounds.size - 1
        sums = np.zeros(int(location.max(initial=-1)) * n + n, np.int64)
        for low in range(0, location.size, ROWS):
            some = slice(low, low + ROWS)
            row, piece, ticks = divide_intervals(self.by, begin[some], end[some], location[some])
            at = location[some][row].astype(np.int64)
            np.add.at(sums, at * n + self.by.bin_of(piece, at)[0], ticks)
        cell = np.flatnonzero(sums)
        return {"cell": cell, "ticks": sums[cell]}

    def _of_wait(self, p: Property, of_slice: Model, found: Matches) -> Columns:
        table: CompoundTable = of_slice.get(p.table)
        begin, end = times_of(p, table, found)
        location, call_path, time = causes_of(of_slice, p, table, found)
        return {
            "begin": begin, "end": end, "property": np.full(len(found), self.waits.index(p), np.int16),
            "location": found.location,
            "call_path": found.call_path, "cause_location": location, "cause_call_path": call_path, "cause_time": time,
        }  # fmt: skip


def _narrowed(name: str, columns: Columns, of_slice: Model) -> Columns:
    """Return columns with the dtypes of the files, since several slices wait in memory, and global call paths."""
    columns |= {c: of_slice.call_paths.path_of(columns[c]) for c in CALL_PATHS if c in columns}
    dtypes = COLUMNS.get(name, {})
    return {c: values.astype(dtypes.get(c, values.dtype), copy=False) for c, values in columns.items()}


def _messages(of_slice: Model, m: CompoundTable) -> Columns:
    # late events are drawn at the times by which they are ordered
    sent, received = of_slice.order.time(m.send, m.send_time), of_slice.order.time(m.recv, m.recv_time)
    return {
        "begin": np.minimum(sent, received), "end": np.maximum(sent, received), "send_location": m.send_location,
        "recv_location": m.recv_location, "send_time": sent, "recv_time": received, "length": m.length, "tag": m.tag,
    }  # fmt: skip


def _collectives(of_slice: Model, m: CompoundTable) -> Columns:
    # operations are numbered by slice
    bucket = of_slice.get("bucket").number
    has_call = m.enter >= 0
    begin = np.where(has_call, m.enter_time, m.end_time)
    return {
        "begin": begin, "end": np.maximum(np.where(m.exit >= 0, m.exit_time, m.end_time), begin),
        "location": m.location,
        "collective": (np.int64(max(bucket, 0)) << 40) + m.collective, "op": m.op, "call_path": m.call_path,
    }  # fmt: skip


def _launches(_of_slice: Model, k: CompoundTable) -> Columns:
    at = np.flatnonzero(k.launch_enter >= 0)
    launch, kernel = k.launch_enter_time[at], k.enter_time[at]
    return {
        "begin": np.minimum(launch, kernel), "end": np.maximum(launch, kernel),
        "launch_location": k.launch_location[at],
        "location": k.location[at], "launch_time": launch, "kernel_time": kernel,
    }  # fmt: skip


def _copies(_of_slice: Model, c: CompoundTable) -> Columns:
    return {
        "begin": c.begin_time, "end": c.end_time, "copy_location": np.where(c.copy_enter >= 0, c.copy_location,
        c.location),
        "location": c.location, "bytes": c.bytes, "direction": c.direction,
        "copy_time": np.where(c.copy_enter >= 0, c.copy_enter_time, c.begin_time),
    }  # fmt: skip


_READ: dict[str, Callable[[Model, CompoundTable], Columns]] = {
    MESSAGES: _messages, COLLECTIVES: _collectives, LAUNCHES: _launches, COPIES: _copies,
}  # fmt: skip


def _path(p: CompoundTable) -> Columns:
    return {
        "begin": p.begin_time, "end": p.end_time, "location": p.location, "reason": p.reason,
        "end_call_path": p.end_call_path,
    }  # fmt: skip


def _pairs(of_slice: Model) -> Iterator[Columns]:
    """Yield the pairs of waiting and causing locations, with the times of their points, in batches."""
    pairs: CompoundTable = of_slice.get(DELAY_PAIRS.name)
    points: CompoundTable = of_slice.get(SYNC_POINTS.name)
    first = int(of_slice.store.manifest["first_time"] or 0)
    location = points["location"]
    for at in range(0, len(pairs), ROWS):
        rows = {name: pairs.rows(name, at, at + ROWS).astype(np.int64) for name in pairs.names if name != "kind"}
        known = rows["waiting"] >= 0
        waiting, cause = rows["waiting"][known], rows["cause"][known]
        begin, comes = (points.at("begin_time", of) for of in (waiting, cause))
        yield {
            "begin": begin, "end": begin + points.at("total", waiting).astype(np.int64), "location": location[waiting],
            "cause_location": location[cause], "cause_time": comes,
            "cause_since": np.minimum(_passed(points, rows["cause_since"][known], first), comes),
            "waiting_since": np.minimum(_passed(points, rows["waiting_since"][known], first), begin),
        }  # fmt: skip


def _passed(points: CompoundTable, point: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return the times at which the waiting at points ended; `first` for point -1."""
    at = np.maximum(point, 0)
    over = points.at("begin_time", at) + points.at("wait", at).astype(np.int64)
    return np.where(point >= 0, over, first)


NO_CAUSES = (
    "this trace is too large for the memory that its root causes take: there is no critical path, and intervals "
    "of causes are not known"
)


class Collector:
    """Writes the tables of intervals of a trace, `KIND.arrow`, while an analysis visits its slices (a
    `search.Visitor`), and sums severities by location and bin; use in a `with` statement.

    `model` is that of the whole trace, undivided; `spread` are the ids of the patterns whose severity is summed.
    Results: `waits` are the properties by their number in the tables, `notes` describe data that is left out, and
    `severities` are ticks by id, (n_locations * n_bins,) int64 each, of patterns that have any and of the critical
    path.
    """

    # none of these tables is made location by location
    in_windows, finds_much = True, True

    def __init__(self, model: Model, folder: Path, spread: list[str], n_bins: int) -> None:
        self.waits = wait_properties(model)
        declared = declared_for(model, DEFAULT, ())
        computed, _ = needed(declared, [*spread, *(p.id for p in self.waits)])
        search = Search(model, [p for p in declared if p.id in computed], CONVENTIONS[DEFAULT]).of_slices
        with_causes = capacity_suffices_for_causes(model)
        by = Periods(bins=n_bins).divider(model.facts)
        self._of_slices = SliceCollector(search, self.waits, spread, with_causes, by)
        self._n_cells = model.n_locations * n_bins
        self._writers = {kind: IntervalsWriter(folder / f"{kind}.arrow", COLUMNS[kind]) for kind in KINDS}
        self._opened = ExitStack()
        self.notes = [] if with_causes else [NO_CAUSES]
        self.severities: dict[str, NDArray[np.int64]] = {}
        self.stages, self.visit = self._of_slices.stages, self._of_slices.visit

    def __enter__(self) -> Collector:
        for writer in self._writers.values():
            self._opened.enter_context(writer)
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def take(self, found: Iterable[tuple[str, Columns]]) -> None:
        """Write the data collected in a slice."""
        for name, columns in found:
            if name in self._writers:
                self._writers[name].add(columns)
            elif columns["cell"].size:
                if name not in self.severities:
                    self.severities[name] = np.zeros(self._n_cells, np.int64)
                np.add.at(self.severities[name], columns["cell"], columns["ticks"])

    @property
    def n(self) -> dict[str, int]:
        """Number of rows of each table."""
        return {kind: writer.n for kind, writer in self._writers.items()}
