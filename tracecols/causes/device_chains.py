"""Chains: the activities of a process until an operation on a stream began, along the latest predecessors.

A kernel that waits is compared with the one it waits for. From their begins both chains go back: that of the former
until its process was held by another operation in which it had met the other process, that of the latter until the
other process launched its part of that operation. Chains are not kept, since each may go back to the begin of the
trace: they are followed when they are compared (`device_costs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracecols.causes.device_operations import DeviceOperations
from tracecols.causes.device_waits import DeviceWaits
from tracecols.causes.host_lines import roots_of_lines
from tracecols.causes.points import first_time
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, ColumnSource
from tracecols.enhance.dataflow.grouping import number_ascending
from tracecols.enhance.dataflow.steps import SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.kernels.chains import Hosts, Operations, Sums
from tracecols.vectors import Ints

ON_HOST, ON_STREAM, LATENCY, BEFORE, WAITING = range(5)
"""Kinds of time: in a call path of the host, in an operation, between the predecessor of an operation and its begin,
before the recording of the process, and in earlier waits for other ranks."""

NEVER = np.iinfo(np.int64).max


class Chains(NamedTuple):
    """Processes prepared for walks along their chains."""

    cells: Columns
    """What time counts for: `kind` (`ON_HOST`, ...), `location`, `call_path`, and the `origin` of an operation, one
    more than the call path of the launch, 0 if that is not known and on hosts; int64, in the order of processes, call
    paths, locations, kinds and origins."""
    operations: Operations
    row: Ints
    launched: Ints
    here: Ints
    earlier: Ints
    """`row`, `launched`, `here` and `earlier`: (n_operations,) int64, the event that begins each operation, the time of
    its launch, or its begin if that is not known, and the cells of `kernels.chains.Cells`."""
    lines: Ints
    first: Ints
    end: Ints
    """`lines`, `first` and `end`: (n_lines,) int64, lines of hosts (`host_lines`), and the cells of their processes."""
    hosts: Hosts


@step(SPENT, "device_chains")
def device_chains(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: Ints,
    device_operations: DeviceOperations,
    host_lines: ColumnSource,
    device_waits: DeviceWaits,
) -> Chains:
    """Number what the time of chains counts for, and prepare operations and lines of hosts for walks."""
    of, syncs, line = device_operations.operations, device_operations.syncs, host_lines
    lines, _ = number_ascending(np.concatenate([of.host, syncs.host, line.column("host")]))
    n_paths, path_of = len(facts.call_paths.whole), facts.call_paths.path_of
    # streams without a host are one process
    process_of = np.where(lines >= 0, facts.process[lines], -1)
    processes = distinct(process_of)

    def key(kind: int, host: Ints, location: Ints, path: Ints, origin: Ints | int = -1) -> Ints:
        # cells of a process are next to each other, so that walks touch little memory
        process = np.searchsorted(processes, process_of[np.searchsorted(lines, host)])
        place = (process * n_paths + path) * facts.n_locations + location
        return (place * (WAITING + 1) + kind) * (n_paths + 1) + origin + 1

    roots = roots_of_lines(facts, scans, members)
    outside = np.array([roots.get(i, (0, -1)) for i in lines.tolist()], np.int64).reshape(-1, 2)
    path, origin = (path_of(p.astype(np.int32)) for p in (of.call_path, of.launch_call_path))
    keys = [
        key(ON_STREAM, of.host, of.location, path, origin),
        key(LATENCY, of.host, of.location, path, origin),
        key(ON_HOST, of.host, of.location, path),
        key(WAITING, of.host, of.location, path),
        key(ON_HOST, line.column("host"), line.column("location"), line.column("call_path")),
        key(LATENCY, syncs.host, syncs.location, path_of(syncs.call_path.astype(np.int32))),
        key(BEFORE, lines, outside[:, 0], np.maximum(outside[:, 1], 0)),
    ]
    found, number = number_ascending(np.concatenate(keys))
    cell, latency, here, earlier, line_cell, returns, root = np.split(number, np.cumsum([k.size for k in keys])[:-1])
    place, origin = np.divmod(found, n_paths + 1)
    place, kind = np.divmod(place, WAITING + 1)
    path, location = np.divmod(place, facts.n_locations)
    of_process, path = np.divmod(path, n_paths)
    waits = device_waits.of(of.row)
    operations = Operations(
        host=np.searchsorted(lines, of.host),
        stream=of.location,
        begin=of.begin,
        end=of.end,
        cell=cell,
        latency=latency,
        late=of.begin + waits.wait,
        group=waits.group,
        before=of.before,
        since=of.since,
        free_before=of.free_before,
        free_since=of.free_since,
    )
    borders = np.append(lines, NEVER)
    hosts = Hosts(
        start=np.searchsorted(line.column("host"), borders),
        time=line.column("time"),
        cell=line_cell.astype(np.int32),
        root=root,
        exit_start=np.searchsorted(syncs.host, borders),
        exit=syncs.exit_time,
        operation=syncs.operation,
        until=syncs.until,
        latency=returns,
        first=first_time(facts),
    )
    cells = Columns(found.size, {"kind": kind, "location": location, "call_path": path, "origin": origin})
    launched = np.where(of.launch_time != -1, of.launch_time, of.begin)
    process = np.searchsorted(processes, process_of)
    ends = np.searchsorted(of_process, process), np.searchsorted(of_process, process + 1)
    return Chains(cells, operations, of.row, launched, here, earlier, lines, *ends, hosts)


def sums_of(n_cells: int, n_waits: int = 0) -> Sums:
    """Return memory for the sums of a walk."""
    used, many = (np.zeros(n_cells // n + 1, bool) for n in (64, 4096))
    return Sums(np.zeros(n_cells, np.int64), used, many, *np.empty((2, n_waits + 1), np.int64))
