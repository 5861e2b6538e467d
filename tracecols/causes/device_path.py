"""The critical path over hosts and streams: back along the latest predecessors, from operations that wait for other
ranks to the one that begins last, and from calls that wait for other processes and threads to those they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.device_chains import Chains, sums_of
from tracecols.causes.device_operations import OPERATION as COLUMNS
from tracecols.causes.device_operations import DeviceOperations
from tracecols.causes.device_waits import DeviceWaits
from tracecols.causes.host_lines import lines_of_locations
from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import CREATED, FORK, has_mpi, has_openmp
from tracecols.causes.points import first_time, in_ticks
from tracecols.causes.quirks import Quirks
from tracecols.causes.sweep import list_stops
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import latest_before, lookup
from tracecols.enhance.dataflow.steps import CHARGES, PATH, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.periods import divide_intervals
from tracecols.kernels import chains
from tracecols.kernels.chains import HOST, Hosts, Operations
from tracecols.schema.causes import POINTS
from tracecols.vectors import Ints, offsets_of

STRETCH = ("host", "location", "row", "begin", "end", "reason", "begin_call_path", "end_call_path")
"""Columns of a stretch on a host or in an operation: the line of the host, a location, the event that begins the
operation (-1 on hosts), times, why the path comes there (`POINTS`, -1 the begin of the trace), and the call paths at
both ends."""

LAUNCH, OPERATION, RANKS = (POINTS.index(name) for name in ("launch", "device operation", "kernels of other ranks"))
NEVER = np.iinfo(np.int64).min


class _Exits(NamedTuple):
    """Calls in which a host has waited, so that the path goes on elsewhere: (n,) int64 each, by line and time."""

    host: Ints
    time: Ints
    until: Ints
    """`host`, `time` and `until`: the line, the time at which the call returns or has waited long enough, and the time
    from which on the path is elsewhere."""
    operation: Ints
    other: Ints
    """`operation` and `other`: where the path goes on: an operation, or else (`HOST`) a line."""
    reason: Ints
    call_path: Ints
    origin_path: Ints
    """`reason`, `call_path` and `origin_path`: kind of the point (`POINTS`), call path of the call that waits, and of
    the one with which the path goes on; -1 none."""


class _Joined(NamedTuple):
    """The operations of all partitions, numbered one after the other, and the exits of all hosts."""

    of: dict[str, Ints]
    cause: Ints
    wait: Ints
    exits: _Exits


@step(PATH, "device_path")
def device_path(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    sync_points: KeptTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    every_device_operations: Sequence[DeviceOperations],
    device_waits: DeviceWaits,
) -> Columns | None:
    """Find the critical path of a program that uses devices (`STRETCH`, in the order of time); None for others, and for
    programs with MPI or OpenMP if the path meets no stream."""
    if not sum(len(d.operations) for d in every_device_operations) or quirks.splits_path:
        return None
    stops = list_stops(facts, quirks, sync_points, delay_pairs, point_index)
    found = _joined(facts, quirks, every_device_operations, device_waits, sync_points, stops)
    of, nothing = found.of, np.zeros(0, np.int64)
    since = of["since"]
    operations = Operations(
        host=of["host"],
        stream=of["location"],
        begin=of["begin"],
        end=of["end"],
        cell=nothing,
        latency=nothing,
        late=of["begin"] + found.wait,
        group=nothing,
        before=of["before"],
        since=since,
        free_before=of["before"],
        free_since=since,
    )
    # streams without a host have an empty line
    n_lines = facts.n_locations + 1
    start, no_entries = np.searchsorted(found.exits.host, np.arange(n_lines + 1)), np.zeros(n_lines + 1, np.int64)
    hosts = Hosts(
        start=no_entries,
        time=nothing,
        cell=nothing.astype(np.int32),
        root=no_entries[1:],
        exit_start=start,
        exit=found.exits.time,
        operation=found.exits.operation,
        until=found.exits.until,
        latency=nothing,
        first=first_time(facts),
    )
    last = np.array([scan.last_time if scan.n else NEVER for scan in scans], np.int64)
    last[~(facts.locations.is_cpu | facts.locations.is_device)] = NEVER
    at = int(last.argmax())
    mine = np.flatnonzero(of["location"] == at)
    begin = int(mine[of["end"][mine].argmax()]) if mine.size else HOST
    line = int(lines_of_locations(facts)[at])
    stretches = np.empty((5, 2 * of["row"].size + 2 * hosts.exit.size + 2), np.int64)
    n = chains.walk_path(
        line, begin, int(last[at]), operations, hosts, found.exits.other, found.cause, start[1:].copy(), stretches
    )
    if (has_mpi(facts) or has_openmp(facts)) and (stretches[1, :n] < 0).all():
        # the path stays on hosts: it is found as for programs without devices, phase by phase
        return None
    return _listed(found, stretches[:, :n][:, ::-1])


def _joined(
    facts: Facts,
    quirks: Quirks,
    every: Sequence[DeviceOperations],
    waits: DeviceWaits,
    points: CompoundTable,
    stops: tuple[Ints, Ints, NDArray[Any]],
) -> _Joined:
    """Put operations and exits of all partitions together."""
    first = offsets_of([len(d.operations) for d in every])[:-1].tolist()
    of = {name: np.concatenate([d.operations[name] for d in every]) for name in COLUMNS if name != "before"}
    before = [
        np.where(d.operations.before >= 0, d.operations.before + k, d.operations.before)
        for d, k in zip(every, first, strict=True)
    ]
    of["before"] = np.concatenate(before)
    of["host"] = np.where(of["host"] >= 0, of["host"], facts.n_locations)
    waiting = waits.of(of["row"])
    by_row = np.argsort(of["row"], kind="stable")
    cause = pick(by_row, lookup(of["row"][by_row], waiting.cause))
    syncs = joined_columns([d.syncs for d in every])
    none = np.full(len(syncs), -1, np.int64)
    of_syncs = _Exits(
        host=syncs.host,
        time=syncs.exit_time,
        until=syncs.until,
        operation=np.concatenate([d.syncs.operation + k for d, k in zip(every, first, strict=True)]),
        other=none,
        reason=np.full(len(syncs), OPERATION),
        call_path=syncs.call_path,
        origin_path=none,
    )
    point, origin, resumes = stops
    line, location = lines_of_locations(facts), points.location.astype(np.int64)
    time = in_ticks(facts, quirks, resumes) + first_time(facts)
    of_points = _Exits(
        host=line[location[point]],
        time=time,
        until=time,
        operation=np.full(point.size, HOST),
        other=line[location[origin]],
        reason=points.kind[point].astype(np.int64),
        call_path=points.call_path[point].astype(np.int64),
        origin_path=points.call_path[origin].astype(np.int64),
    )
    joined = [np.concatenate(columns) for columns in zip(of_syncs, of_points, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    return _Joined(of, cause, waiting.wait, _Exits(*(column[order] for column in joined)))


def _listed(found: _Joined, stretches: Ints) -> Columns:
    """Return stretches in the order of time, with the reason why the path comes to each."""
    host, operation, begin, end, left = stretches
    of, exits = found.of, found.exits
    n, is_host = operation.size, operation < 0
    number = np.maximum(operation, -1)
    before = np.append(-2, operation[:-1])[:n]
    waits = ~is_host & (pick(found.cause, number) == before) & (before >= 0)
    of_stream = np.where(before < 0, LAUNCH, np.where(waits, RANKS, OPERATION))
    reason = np.where(is_host, pick(exits.reason, left), of_stream)
    reason[:1] = -1
    # a stretch on a host begins in the call that has waited, and ends in the call that launches, or that others wait
    # for
    after, next_left = np.append(operation[1:], -1)[:n], np.append(left[1:], -1)[:n]
    launching = pick(of["launch_call_path"], np.maximum(after, -1))
    path = pick(of["call_path"], number)
    columns = {
        "host": host,
        "location": np.where(is_host, host, pick(of["location"], number)),
        "row": np.where(is_host, -1, pick(of["row"], number)),
        "begin": begin,
        "end": end,
        "reason": reason,
        "begin_call_path": np.where(is_host, pick(exits.call_path, left), path),
        "end_call_path": np.where(is_host, np.where(after >= 0, launching, pick(exits.origin_path, next_left)), path),
    }
    return Columns(n, {name: columns[name] for name in STRETCH})


class PathRows(NamedTuple):
    """The critical path on some processes, added up."""

    call_path: Ints
    location: Ints
    ticks: Ints
    span: Ints
    """(n,) int64 each; `span` is the span of time (`Divider`) that the ticks lie in, 0 if time is not divided."""


@step(CHARGES, "device_path_rows")
def device_path_rows(
    facts: Facts, device_chains: Chains, host_lines: ColumnSource, device_path: Columns | None
) -> PathRows | None:
    """Add up the critical path on the processes of a partition; None if the path is not found over streams."""
    if device_path is None:
        return None
    of, cells = device_chains, device_chains.cells
    by_row = np.argsort(of.row, kind="stable")
    is_host = device_path.row < 0
    operation = np.where(is_host, -1, pick(by_row, lookup(of.row[by_row], device_path.row)))
    mine = np.flatnonzero(np.where(is_host, np.isin(device_path.host, of.lines), operation >= 0))
    cell = np.where(is_host[mine], -1, pick(of.operations.cell, operation[mine]))
    host, location = np.searchsorted(of.lines, device_path.host[mine]), device_path.location[mine]

    begin, end = device_path.begin[mine], device_path.end[mine]
    entered = _first_entered(facts, host_lines, device_path.take(mine))
    row, span, since, until = _divided(facts, entered, end, location)
    found = []
    for here in np.split(np.arange(span.size), np.flatnonzero(np.diff(span)) + 1):
        at, sums = row[here], sums_of(len(cells))
        chains.spend_stretches(host[at], cell[at], since[here], until[here], of.hosts, sums)
        met = np.flatnonzero(sums.sum)
        of_span = np.full(met.size, span[here[0]] if here.size else 0)
        found.append((cells.call_path[met], cells.location[met], sums.sum[met], of_span))
    late = np.flatnonzero(entered > begin)
    row, span, since, until = _divided(facts, begin[late], entered[late], location[late])
    found.append((device_path.begin_call_path[mine[late[row]]], location[late[row]], until - since, span))
    return PathRows(*(np.concatenate(c) for c in zip(*found, strict=True)))


def _divided(facts: Facts, begin: Ints, end: Ints, location: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Divide intervals at the edges between spans of time; return their numbers, spans, begins and ends, ordered by
    spans."""
    by = facts.call_paths.divider
    if by is None or not by.by_time:
        return np.arange(begin.size), np.zeros(begin.size, np.int64), begin, end
    row, span, ticks = divide_intervals(by, begin, end, location)
    passed = np.cumsum(ticks) - ticks
    since = begin[row] + passed - passed[np.searchsorted(row, row)]
    order = np.argsort(span, kind="stable")
    return row[order], span[order], since[order], (since + ticks)[order]


def _first_entered(facts: Facts, lines: ColumnSource, path: Columns) -> Ints:
    """Return the times at which stretches of the critical path begin. Those of forked and created threads begin with
    the first region that the thread enters; before it, it is in the region that forks or creates it."""
    at = np.flatnonzero((path.row < 0) & np.isin(path.reason, (FORK, CREATED)) & (path.begin_call_path >= 0))
    entered = path.begin.copy()
    if not at.size:
        return entered
    host, time = lines.column("host"), lines.column("time")
    last = latest_before(host, time, path.host[at], path.begin[at])
    # between the regions of a worker its line is in the outermost call path of the master, which only the master enters
    is_outside = (last < 0) | (pick(facts.call_paths.whole.parent, pick(lines.column("call_path"), last)) < 0)
    following = np.where(last >= 0, last + 1, np.searchsorted(host, path.host[at]))
    is_same = pick(host, np.where(following < host.size, following, -1)) == path.host[at]
    until = np.where(is_same, pick(time, np.where(is_same, following, -1)), path.end[at])
    entered[at] = np.where(is_outside, np.clip(until, path.begin[at], path.end[at]), path.begin[at])
    return entered
