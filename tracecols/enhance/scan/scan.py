"""The scan of all locations of a trace: processes in waves, small locations together, each as far as it can go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import joined_column, merged
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.enhance.dataflow.partitions import whole_processes
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.scan.batches import advance_together
from tracecols.enhance.scan.gaps import sample_times
from tracecols.enhance.scan.location_scan import BufferPool, LocationScan, RunningScan, flush_stops_of
from tracecols.enhance.scan.periods import Divider
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels import stacks
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import Report

WAVE = 1 << 24
"""Events per thread of the processes that are scanned together, which limits memory; a process is never split."""

WAVE_BYTES = 40
"""Approximate bytes of memory per event of a wave: events of teams, and call instances and attributed events of
locations that are being scanned or wait for the location that forked them."""

TEAMS = 1 << 20
"""Events of the processes whose teams one task finds: at most 16 tasks per thread."""

GROUP = 1 << 18
"""Events of the locations that one thread scans one after the other. Small locations share row groups and buffers,
their results share files, and there are fewer tasks. With a quarter of this, the system took 0.4 s more to create files
for `halo` with 256 processes and 2 x 10^7 events."""

SMALL = 1 << 11
"""If a location has fewer events, its scan takes longer in Python than in kernels (160 us, and 85 ns per event), and
threads would wait for the interpreter lock: for 10,000 locations of 200 events two threads took 2.1 s, one takes
1.7."""


def inherited(scans: Sequence[LocationScan]) -> Mask:
    """Return a mask of the call paths of some locations, one location after the other, that continue the call path of a
    FORK on another location: those of a worker within a team; O(n log depth)."""
    size = np.array([len(scan.paths) for scan in scans], np.int64)
    parent = joined_column(merged(scan.paths for scan in scans), "parent", np.int64)
    # pointer jumping: the distance to the root is covered in doubling steps
    top = np.where(parent >= 0, parent + np.repeat(np.cumsum(size) - size, size), np.arange(parent.size))
    while (top != top[top]).any():
        top = top[top]
    above = parent[top]
    return (above < -1) & (above != stacks.IN_PROGRAM)


def plan_processes(members: Ints, n_events: Ints, process: NDArray[np.int32], size: int) -> list[Ints]:
    """Divide some locations into groups of whole processes (`partitions.whole_processes`); `n_events` and `process`
    cover all locations."""
    return [members[group] for group in whole_processes(n_events[members], process[members], size)]


def group_scans(scans: list[RunningScan]) -> list[list[RunningScan]]:
    """Group neighbours with few events for one thread, and sort the groups by descending number of events; `scans` are
    in the order of locations."""
    groups = [scans[some] for some in bounded(np.array([scan.n for scan in scans], np.int64), GROUP)]
    return sorted(groups, key=lambda group: -sum(scan.n for scan in group))


def share_out(groups: list[list[RunningScan]]) -> list[list[list[RunningScan]]]:
    """Assign each group to a separate thread, except groups of locations with few events, which all go to one
    thread."""
    is_small = [sum(scan.n for scan in group) < SMALL * len(group) for group in groups]
    shared = [group for group, small in zip(groups, is_small, strict=True) if small]
    alone = [[group] for group, small in zip(groups, is_small, strict=True) if not small]
    return [shared, *alone] if shared else alone


def scan_locations(
    d: Definitions,
    members: Ints,
    divider: Divider,
    jobs: int,
    spill: Spill,
    report: Report,
    memory: int | None,
    window: int,
) -> list[LocationScan]:
    """Scan locations wave by wave; a location that inherits call paths is scanned after the ones it inherits from.

    `members` are the locations of whole processes, ascending; `spill` takes results that exceed the buffer pool;
    `memory` is in bytes per thread; later steps work on about `window` events of a process at once. The result, in the
    order of the locations, does not depend on the number of jobs and the division into waves.
    """
    n_events, wave_events = d.store.n_events, jobs * (WAVE if memory is None else min(WAVE, memory // WAVE_BYTES))
    found: dict[int, LocationScan] = {}
    buffers = BufferPool(spill.large)

    def prepare(members: Ints) -> list[RunningScan]:
        teams = Teams(d, members, large=spill.large)
        of_process = np.bincount(d.process[members], n_events[members])
        samples = {p: sample_times(d.store, int(of_process[p]), window) for p in distinct(d.process[members]).tolist()}
        scans = [
            RunningScan(d, teams, i, stops, bool(d.locations.is_device[i]), divider, samples[int(d.process[i])])
            for i, stops in zip(members.tolist(), flush_stops_of(d.store, members), strict=True)
        ]
        for scan in scans:
            scan.enter_threads()
        return scans

    with ThreadPoolExecutor(jobs) as pool:
        # a wave is prepared while the previous one is scanned, unless that is a long process, which needs the memory
        waves = iter(plan_processes(members, n_events, d.process, wave_events))

        def prepare_next() -> list[Future[list[RunningScan]]]:
            return [
                pool.submit(prepare, group)
                for wave in islice(waves, 1)
                for group in plan_processes(wave, n_events, d.process, TEAMS)
            ]

        def advance(scans: list[RunningScan], give_up: bool = False) -> None:
            advance_together(scans, found, buffers, spill, give_up)

        following = prepare_next()
        while following:
            wave = [scan for future in following for scan in future.result()]
            is_large = sum(scan.n for scan in wave) > wave_events
            following = [] if is_large else prepare_next()
            found.update((scan.location, scan.result) for scan in wave)
            _scan_wave(wave, advance, pool, report)
            following = following or prepare_next()
    return [found[i] for i in members.tolist()]


def _scan_wave(
    waiting: list[RunningScan], advance: Callable[..., None], pool: ThreadPoolExecutor, report: Report
) -> None:
    """Scan some locations and those they depend on; `report` is called with the number of further events scanned. Scans
    that end are removed from the list, which frees what they needed."""

    def advance_all(groups: list[list[RunningScan]]) -> None:
        for group in groups:
            advance(group)

    ready = [s for s in waiting if not s.depends.size]
    while waiting:
        before, n_before = sum(s.progress for s in waiting), sum(s.at for s in waiting)
        list(pool.map(advance_all, share_out(group_scans(ready))))
        if ready and sum(s.progress for s in waiting) == before:
            # the masters of these teams never fork: the threads have no call path above
            for s in waiting:
                advance([s], give_up=True)
        report(sum(s.at for s in waiting) - n_before)
        waiting[:] = [s for s in waiting if not s.result.done]
        ready = [*waiting]
