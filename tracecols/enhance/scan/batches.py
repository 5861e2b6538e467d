"""The scan of several locations in one call of a kernel: what it publishes for the threads they fork, its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSlice, ColumnSource, joined, pick
from tracecols.enhance.dataflow.grouping import mask_of
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.gaps import find_gaps
from tracecols.enhance.scan.location_scan import (
    FIRST_STATE,
    NO_CHARGES,
    NO_POINTERS,
    OWN,
    BufferPool,
    LocationScan,
    RunningScan,
    ScanBuffers,
)
from tracecols.enhance.scan.teams import IS_FORK
from tracecols.kernels import arrays, stacks
from tracecols.schema import KINDS, NAMES, EventKind
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask, offsets_of
from tracecols.work.large import LargeArrays, blocks

Rows = TypeVar("Rows", bound=NamedTuple)

BATCH = 1 << 20
"""Events per kernel call."""

JOINS_ALL = mask_of(k for k in KINDS if k.family == "rma" or k.name.startswith("NON_BLOCKING_COLLECTIVE"))
"""Kinds of events whose call instances are joined across all processes at once."""

SIDE_FAMILIES = ("p2p", "collectives", "locks", "rma")
"""Side tables of attributed events other than those of threads, tasks and metrics."""

CLOSE_TO = {"exit": "enter", "exit_time": "enter_time"}
"""Columns of call instances whose values are close to those of another column (see `Spill.keep`)."""

NOTED = [stacks.PROGRAM, stacks.BAD_EXITS, stacks.OPEN, stacks.DISORDERED, stacks.N_NESTED]
"""Elements of the state that are results."""


def publish(
    scans: Sequence[RunningScan],
    attributed: stacks.AttributedEvents,
    n_attributed: Ints,
    period: NDArray[np.int32],
    n_paths: Ints,
    large: LargeArrays,
) -> Ints:
    """Publish the call path of every FORK so far on some locations, and the program it belongs to, for the threads
    forked there.

    `period` has the periods of call paths, one location after the other, `n_paths` of each. Returns the number of FORKs
    of each.
    """
    forks = np.flatnonzero(IS_FORK[attributed.kind])
    of = np.searchsorted(np.cumsum(n_attributed), forks, "right")
    n_forks = np.bincount(of, minlength=len(scans))
    if not forks.size:
        return n_forks
    counts = n_forks.tolist()
    for scan, n in zip(scans, counts, strict=True):
        if n > scan.fork_rows.size:
            raise scan.result.damaged(f"{n} forks among its events, {scan.fork_rows.size} in the table threads")
    node = attributed.node[forks].astype(np.int64)
    row = np.concatenate([scan.fork_rows[:n] for scan, n in zip(scans, counts, strict=True)])
    program, since = np.array([scan.state[[stacks.PROGRAM, stacks.PROGRAM_ROW]] for scan in scans])[of].T
    programs = np.where(row > since, program, stacks.NO_PARENT)
    if scans[0].divider.by_time:
        in_period = np.full(node.size, -1, np.int64)
    else:
        first = (np.cumsum(n_paths) - n_paths)[of]
        in_period = pick(period, np.where(node >= 0, first + node, -1)).astype(np.int64)
    start, published = 0, large.empty(3 * of.size, np.int64).reshape(3, -1)
    for column, values in zip(published, (node, programs, in_period), strict=True):
        column[:] = values
    for scan, n in zip(scans, counts, strict=True):
        scan.result.published = published[:, start : start + n]
        start += n
    return n_forks


def compare_with_sides(
    scans: Sequence[RunningScan], kind: NDArray[np.uint8], n_attributed: Ints, n_forks: Ints
) -> None:
    """Compare the events of some locations, after the pass, with the rows of their side tables.

    `kind` has the kinds of attributed events, one location after the other; `n_attributed` and `n_forks` count the
    attributed events and FORKs of each. Raises StoreError if the numbers differ.
    """
    store, location = scans[0].store, np.array([scan.location for scan in scans])
    expected = np.array([scan.expected for scan in scans])
    states = np.array([scan.state for scan in scans])[:, [stacks.N_FLUSHES, stacks.N_SWITCHES, stacks.N_TEAMS]]
    found = np.column_stack((states, n_forks))
    for k, what in np.argwhere((found != expected) & (expected >= 0)).tolist():
        name = ("buffer flushes", "switches of tasks", "begins in teams", "forks")[what]
        raise scans[k].result.damaged(
            f"{found[k, what]} {name} among its events, {expected[k, what]} in their side table"
        )
    of_threads = np.array([scan.n_thread_events for scan in scans]) + expected[:, 1]
    noted = n_attributed - of_threads - sum(store.counts(family)[location] for family in SIDE_FAMILIES)
    metrics = [store.counts(table)[location] for table in store.tables if table.startswith("metrics_")]
    values = sum(metrics, np.zeros(len(scans), np.int64))
    stops = np.cumsum(n_attributed)
    for k in np.flatnonzero(noted != values).tolist():
        # a METRIC whose source has no class has no values
        n = int(n_attributed[k])
        n_metrics = int((kind[stops[k] - n : stops[k]] == EventKind.METRIC).sum())
        classes = to_numpy(store.definition("metric_sources").column("metric_class"))
        if noted[k] != n_metrics or n_metrics < values[k] or not (classes < 0).any():
            raise scans[k].result.damaged(
                f"{n} events with attributes, {n - noted[k] + values[k]} rows in their side tables"
            )


def keep_results(buffers: ScanBuffers, spill: Spill, waiting: RunningScan | None = None) -> None:
    """Check the results of the locations that ended in the same buffers, and store them together.

    `spill` takes call instances and attributed events that exceed the buffer pool; `waiting` is the location whose scan
    in these buffers is paused.
    """
    scans = buffers.ended
    if not scans:
        return
    states = np.array([scan.state for scan in scans])
    n_paths, n_calls, n_attributed, n_phases = states[:, OWN].T
    of_all = buffers.filled.tolist()
    attributed = arrays.first(buffers.attributed, of_all[stacks.FILLED_ATTRIBUTED])
    n_forks = publish(scans, attributed, n_attributed, buffers.paths.period, n_paths, buffers.large)
    compare_with_sides(scans, attributed.kind, n_attributed, n_forks)
    columns = arrays.first(buffers.calls, of_all[stacks.FILLED_CALLS])._asdict()
    if not columns["tasks"].any():
        del columns["tasks"]
    calls = Columns(of_all[stacks.FILLED_CALLS], columns)
    events = Columns(of_all[stacks.FILLED_ATTRIBUTED], attributed._asdict())
    columns = arrays.first(buffers.paths, of_all[stacks.FILLED_PATHS])._asdict()
    del columns["recent"]
    paths = Columns(of_all[stacks.FILLED_PATHS], columns).copy()
    phases = [edges[: of_all[stacks.FILLED_PHASES]].copy() for edges in (buffers.begin, buffers.end)]
    first_path, first_call, first_event, first_phase = (
        offsets_of(n) for n in (n_paths, n_calls, n_attributed, n_phases)
    )
    is_global, is_many = _global_calls(scans[0].regions, paths, calls, events, n_paths, n_calls, n_attributed)
    numbers = np.flatnonzero(is_global)
    chosen = calls.take(numbers)
    kept: tuple[ColumnSource, ...] = (
        paths,
        spill.keep(calls, CLOSE_TO, borrowed=True),
        spill.keep(events, borrowed=True),
        spill.keep(chosen) if is_many else chosen,
    )
    first_global = np.searchsorted(numbers, first_call)
    firsts = first_path, first_call, first_event, first_global
    bounds = zip(*(pairwise(first.tolist()) for first in firsts), strict=True)
    numbers -= np.repeat(first_call[:-1], np.diff(first_global))
    has_phases = bool(n_phases.any())
    noted = states[:, NOTED].tolist()
    for scan, rows, of_phases, of_state in zip(scans, bounds, pairwise(first_phase.tolist()), noted, strict=True):
        found = scan.result
        found.program, found.bad_exits, found.open, found.disordered, found.nested = of_state
        if scan.samples.size:
            of_calls, of_events = _between(buffers.calls, *rows[1]), _between(attributed, *rows[2])
            found.gaps = find_gaps(scan, paths.entry[slice(*rows[0])], of_calls, of_events)
        if has_phases:
            found.phase_begin, found.phase_end = (edges[slice(*of_phases)] for edges in phases)
        found.paths, found.calls, found.events, found.global_calls = (
            ColumnSlice(source, *of_location) for source, of_location in zip(kept, rows, strict=True)
        )
        found.n_calls, found.n_attributed = len(found.calls), len(found.events)
        found.global_numbers = numbers[slice(*rows[-1])]
        found.done = True
    buffers.forget_ended(FIRST_STATE if waiting is None else waiting.state)


def _between(columns: Rows, start: int, stop: int) -> Rows:
    return arrays.first(arrays.after(columns, start), stop - start)


def _global_calls(
    regions: Regions, paths: Columns, calls: Columns, events: Columns, n_paths: Ints, n_calls: Ints, n_attributed: Ints
) -> tuple[Mask, bool]:
    """Find call instances that are joined across all processes: one-sided communication, files, start and end of MPI.

    Returns a mask, and whether they may include one-sided communication or non-blocking collective operations.
    """
    kept, node = np.zeros(len(calls), bool), calls.node
    startup = (regions.is_init | regions.is_finalize | regions.is_file)[regions.of_entry[np.maximum(paths.entry, 0)]]
    if startup.any():
        first_path, start = np.cumsum(n_paths) - n_paths, offsets_of(n_calls)
        for here in blocks(len(calls)):
            own = np.diff(start.clip(here.start, here.stop))
            kept[here] = startup[np.repeat(first_path, own) + node[here]]
    joins = np.flatnonzero(JOINS_ALL[events.kind])
    if joins.size:
        of = np.searchsorted(np.cumsum(n_attributed), joins, "right")
        call, first_call = events.call[joins], (np.cumsum(n_calls) - n_calls)[of]
        kept[(call + first_call)[call >= 0]] = True
    return kept, bool(joins.size)


def advance_together(
    scans: Sequence[RunningScan],
    others: Mapping[int, LocationScan] | Sequence[LocationScan],
    pool: BufferPool,
    spill: Spill,
    give_up: bool = False,
) -> None:
    """Advance the scans of locations one after the other. Those that end share buffers; `spill` takes results that
    exceed the buffer pool."""
    fresh = pool.take()
    for run in runs_of(scans):
        ready = [scan for scan in run if scan.inherit(others, give_up)]
        while ready:
            used = ready[0].buffers or fresh
            n_ended = scan_rest(ready, used)
            if n_ended < len(ready):
                # the location waits, and needs the buffers until it resumes
                keep_results(used, spill, ready[n_ended])
                fresh = pool.take() if used is fresh else fresh
            elif used is not fresh:
                keep_results(used, spill)
                pool.give(used)
            ready = ready[n_ended + 1 :]
    keep_results(fresh, spill)
    pool.give(fresh)


def runs_of(scans: Sequence[RunningScan]) -> list[list[RunningScan]]:
    """Divide locations into runs that kernels scan in one call: their events have the same meanings, and all events are
    in the call."""

    def kind(scan: RunningScan) -> tuple[bool, bool, int]:
        # a location that is resumed, or does not fit into a batch, is a run of its own
        return scan.is_device, scan.forks_teams, scan.location if scan.at or scan.n > BATCH else -1

    return [list(run) for _, run in groupby(scans, kind)]


def scan_rest(scans: Sequence[RunningScan], buffers: ScanBuffers) -> int:
    """Scan the events of some locations to their ends, or until one has to wait for the master of a team.

    The locations are a run: one, or several whose scans have not begun. Returns how many of them ended: all, or those
    before the first that has to wait.
    """
    while True:
        columns, sizes = next_events(scans)
        is_end = scans[0].at + sizes[0] == scans[0].n
        k = scan_batch(scans, columns, sizes, buffers, is_end)
        if k < len(scans):
            n = int(scans[k].state[stacks.N_ATTRIBUTED])
            first_path, _, first = buffers.filled[: stacks.FILLED_PHASES].tolist()
            attributed = _between(buffers.attributed, first, first + n)
            n_paths = scans[k].state[stacks.N_NODES]
            of_paths = buffers.paths.period[first_path:], np.array([n_paths])
            publish([scans[k]], attributed, np.array([n]), *of_paths, buffers.large)
        if is_end or k < len(scans):
            return k


def next_events(scans: Sequence[RunningScan]) -> tuple[dict[str, NDArray[Any]], Ints]:
    """Read the next events of some locations.

    Of several locations, all events are read; of a single one, the next batch. Returns `time`, `kind` and `region`, not
    checked, one location after the other, and the number of events of each.
    """
    store, one = scans[0].store, scans[0]
    if len(scans) > 1:
        return store.read_together("events", np.array([scan.location for scan in scans]), checked=False)
    columns = store.read("events", one.location, None, one.at, one.at + BATCH, checked=False)
    return columns, np.array([columns["time"].size])


def scan_batch(
    scans: Sequence[RunningScan],
    columns: Mapping[str, NDArray[Any]],
    sizes: Ints,
    buffers: ScanBuffers,
    ends: bool,
    pointers: stacks.Pointers = NO_POINTERS,
    charges: stacks.Charges = NO_CHARGES,
) -> int:
    """Scan consecutive events of some locations.

    The locations are a run: one, or several with all of their events. `columns` has `time`, `kind` and `region`, one
    location after the other, `sizes` events of each. Returns how many locations reached their last event here: all, or
    those before one that has to wait.
    """
    time, kind, region = columns["time"], columns["kind"], columns["region"]
    bounds = offsets_of(sizes)
    rows = [slice(*of_location) for of_location in pairwise(bounds.tolist())]
    states = _begin(scans, time, bounds)
    sides, side_bounds, tasks = _sides(scans, [time[here] for here in rows])
    entry = joined([scan.entries(region[here]) for scan, here in zip(scans, rows, strict=True)])
    events, meanings, divider, b = stacks.Events(time, kind, entry), scans[0].meanings(), scans[0].divider, buffers
    focus = divider.focus_of([scan.location for scan in scans])
    why, k, at = stacks.GROW, 0, 0
    while True:
        why, k, at = stacks.scan_locations(
            k,
            at,
            events,
            bounds,
            states,
            meanings,
            sides,
            side_bounds,
            b.periods(divider, focus),
            stacks.ScanArrays(
                b.frames, b.paths, b.table, b.calls, b.attributed, b.team_stack, tasks, pointers, charges
            ),
            b.filled,
            ends,
        )
        if why != stacks.GROW:
            break
        b.grow(states[k])
    if why == stacks.DAMAGED:
        row, number = int(states[k, stacks.ROW]) + at, int(kind[bounds[k] + at])
        raise scans[k].result.damaged(
            f"event {row} is a {NAMES.get(number, number)} that enters region {entry[bounds[k] + at]}, or has no "
            "row in its side table"
        )
    for scan, here in zip(scans[:k], rows, strict=False):
        scan.at += here.stop - here.start
        scan.result.last_time = int(time[here.stop - 1]) if here.stop > here.start else 0
    if why == stacks.BLOCKED:
        first, stop = side_bounds[stacks.TASKS, k : k + 2].tolist()
        scans[k].wait(at, buffers, _between(tasks, first, stop))
    if ends:
        buffers.ended += scans[:k]
    return k


def _begin(scans: Sequence[RunningScan], time: Ints, bounds: Ints) -> Ints:
    """Return the states of some scans, prepared for their next events; (n_scans, N_STATE) int64. The rows become the
    states of the scans."""
    states = np.array([scan.state for scan in scans])
    states[:, stacks.ROW] = [scan.first_row + scan.at for scan in scans]
    is_new = np.flatnonzero(states[:, stacks.FREE] == stacks.NOT_BEGUN)
    first_time = np.zeros(is_new.size, np.int64)
    has_events = np.diff(bounds)[is_new] > 0
    first_time[has_events] = time[bounds[:-1][is_new[has_events]]]
    states[is_new, stacks.LAST] = first_time
    divider = scans[0].divider
    if divider.by_time:
        location = np.array([scans[k].location for k in is_new.tolist()], np.int64)
        states[is_new, stacks.PERIOD] = divider.piece(first_time, location)
    for k, t in zip(is_new.tolist(), first_time.tolist(), strict=True):
        scans[k].result.first_time = t
    for scan, state in zip(scans, states, strict=True):
        scan.state = state
    return states


def _sides(scans: Sequence[RunningScan], times: Sequence[Ints]) -> tuple[stacks.SideValues, Ints, stacks.Tasks]:
    """Return the values of side tables for the next events of some locations, where those of each begin
    (`stacks.scan_locations`), and their tasks."""
    values = [*zip(*(scan.side_values(time) for scan, time in zip(scans, times, strict=True)), strict=True)]
    tasks = [*zip(*(scan.tasks for scan in scans), strict=True)]
    by_side = (values[0], values[1], values[2], values[4], tasks[0])
    bounds = np.zeros((stacks.N_SIDES, len(scans) + 1), np.int64)
    for stops, of_locations in zip(bounds[:, 1:], by_side, strict=True):
        np.cumsum([of_location.size for of_location in of_locations], out=stops)
    n_known = np.array([scan.n_known for scan in scans])
    return stacks.SideValues(*[*map(joined, values), n_known]), bounds, stacks.Tasks(*map(joined, tasks))
