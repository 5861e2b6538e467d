"""Activities of the hosts of devices, as lines: the call path that a host is in from each time on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracecols.causes.pairs import has_openmp
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, pick
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import outermost_call_paths, walk_stacks
from tracecols.enhance.scan.location_scan import ACTION, LocationScan
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels import chains
from tracecols.kernels.actions import POP, PUSH
from tracecols.vectors import Ints, Mask


def lines_of_locations(facts: Facts) -> Ints:
    """Return the line of each location, a location itself: (n_locations,) int64, -1 none.

    Threads of OpenMP are lines of their own, since it is recorded which thread begins them. The threads of other
    processes hand over to each other unrecorded, so they are one line, that of the master. Streams have the line of the
    master, too.
    """
    line = facts.locations.master.astype(np.int64)
    if has_openmp(facts):
        line[facts.locations.is_cpu] = np.flatnonzero(facts.locations.is_cpu)
    return line


@step(SPENT, "host_lines")
def host_lines(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, team_instances: Teams, spill: Spill
) -> ColumnSource:
    """Build the lines of the hosts of a trace with streams: `host` (the line), `time`, `location` and `call_path` from
    then on, by line and time; and `is_outside`, 1 if that is outside of all regions.

    Of several threads it is the region that was entered last, since it is not recorded which thread hands over to
    which.
    """
    parts: list[tuple[Ints, ...]] = [(np.zeros(0, np.int64),) * 5]
    roots = roots_of_lines(facts, scans, members)
    cpus = np.sort(members[facts.locations.is_cpu[members]]) if facts.locations.is_device.any() else members[:0]
    line = lines_of_locations(facts)[cpus]
    parts += [_line(facts, scans, team_instances, cpus[line == i], i, roots) for i in distinct(line).tolist()]
    host, *others = (np.concatenate(c) for c in zip(*parts, strict=True))
    columns = dict(zip(("host", "time", "location", "call_path", "is_outside"), (host, *others), strict=True))
    return spill.keep(Columns(host.size, columns))


def roots_of_lines(facts: Facts, scans: Sequence[LocationScan], members: Ints) -> dict[int, tuple[int, int]]:
    """Return by line the thread and the call path to which time outside of all regions is charged: the outermost call
    path of the master."""
    masters = distinct(facts.locations.master[members])
    masters = masters[masters >= 0]
    path = outermost_call_paths(facts, scans, masters)
    lines = lines_of_locations(facts)[members]
    return {i: (i, int(path[facts.locations.master[i]])) for i in distinct(lines[lines >= 0]).tolist()}


def _line(
    facts: Facts,
    scans: Sequence[LocationScan],
    teams: Teams,
    threads: Ints,
    host: int,
    roots: dict[int, tuple[int, int]],
) -> tuple[Ints, ...]:
    """Merge the threads of a line."""
    n_paths = len(facts.call_paths.whole)
    found: list[tuple[Ints, Ints, Mask, Ints]] = []
    for events in walk_stacks(facts, scans, teams, threads):
        for k, location in enumerate(events.locations.tolist()):
            here = slice(events.bounds[k], events.bounds[k + 1])
            action = ACTION[events.kind[here]]
            chosen = np.flatnonzero((action == PUSH) | (action == POP))
            path = facts.call_paths.path_of(pick(facts.call_paths.numbers[location], events.node[here][chosen]))
            thread = np.full(chosen.size, np.searchsorted(threads, location))
            cell = np.where(path >= 0, location * n_paths + path, -1)
            found.append((events.time[here][chosen].copy(), thread, action[chosen] == PUSH, cell))
    root = roots[host][0] * n_paths + max(roots[host][1], 0)
    if not found:
        return (np.zeros(0, np.int64),) * 5
    time, thread, is_enter, cell = (np.concatenate(c) for c in zip(*found, strict=True))
    order = np.lexsort((np.arange(time.size), time))
    time, thread, is_enter, cell = time[order], thread[order], is_enter[order], cell[order]
    n_enters = np.bincount(thread, is_enter, threads.size).astype(np.int64)
    start = np.cumsum(n_enters) - n_enters
    line_time, line_cell = np.empty(time.size, np.int64), np.empty(time.size, np.int64)
    stack = np.empty(int(n_enters.sum()), np.int64), np.empty(int(n_enters.sum()), np.int64)
    n = chains.merge_threads(
        thread, time, is_enter, cell, start, *stack, np.zeros(threads.size, np.int64), line_time, line_cell
    )
    outside = (line_cell[:n] < 0).astype(np.int64)
    line_time, line_cell = line_time[:n].copy(), np.where(line_cell[:n] >= 0, line_cell[:n], root)
    return np.full(n, host), line_time, line_cell // n_paths, line_cell % n_paths, outside
