"""The critical path over hosts and streams: back along the latest predecessors, and from operations that wait for other
ranks to the one that begins last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.device_chains import Chains, members_of
from tracecols.causes.device_operations import DeviceOperations
from tracecols.causes.pairs import has_mpi, has_openmp
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, pick
from tracecols.enhance.dataflow.grouping import combine, lookup
from tracecols.enhance.dataflow.steps import CHARGES, SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.scan import LocationScan
from tracecols.kernels import chains
from tracecols.kernels.chains import HOST, Hosts, Operations, Sums
from tracecols.schema.causes import POINTS

Ints = NDArray[np.int64]

STRETCH = ("process", "location", "row", "begin", "end", "reason", "begin_call_path", "end_call_path")
"""Of a stretch on a host or in an operation: its process, a location, the event that begins the operation (-1 on hosts),
times, why it comes there (`POINTS`, -1 the begin of the trace), and the call paths at both ends."""

LAUNCH, OPERATION, RANKS = (POINTS.index(name) for name in ("launch", "device operation", "kernels of other ranks"))


@step(SWEEP, "device_path", keeps=("device_path",))
def device_path(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    every_device_operations: Sequence[DeviceOperations],
    every_device_members: Sequence[ColumnSource],
) -> Columns | None:
    """Find the critical path of a program without MPI and OpenMP that uses devices (`STRETCH`, in the order of time);
    None for others."""
    n = np.array([len(d.operations) for d in every_device_operations], np.int64)
    if not n.sum() or quirks.splits_path or has_mpi(facts) or has_openmp(facts):
        return None
    first = np.cumsum(n) - n

    def operations(name: str, is_pointer: bool = False) -> Ints:
        columns = [d.operations[name] for d in every_device_operations]
        shifted = [
            np.where(c >= 0, c + k, c) if is_pointer else c for c, k in zip(columns, first.tolist(), strict=True)
        ]
        return np.concatenate(shifted)

    row, begin, process = operations("row"), operations("begin"), operations("process")
    _, wait, cause_row = members_of(row, every_device_members)
    by_row = np.argsort(row, kind="stable")
    cause = pick(by_row, lookup(row[by_row], cause_row))
    before, since = operations("before", is_pointer=True), operations("since")
    location, end = operations("location"), operations("end")
    nothing = np.zeros(0, np.int64)
    of = Operations(process, location, begin, end, nothing, nothing, begin + wait, before, since, before, since)
    hosts, leaves = _hosts(facts, every_device_operations, first)
    last = np.array([scan.last_time if scan.n else NEVER for scan in scans], np.int64)
    last[~(facts.locations.is_cpu | facts.locations.is_device)] = NEVER
    at = int(last.argmax())
    mine = np.flatnonzero(location == at)
    start = int(mine[end[mine].argmax()]) if mine.size else HOST
    stretches = np.empty((4, 2 * row.size + 2 * hosts.exit.size + 2), np.int64)
    found = chains.walk_path(int(facts.process[at]), start, int(last[at]), of, hosts, cause, stretches)
    return _listed(facts, stretches[:, :found][:, ::-1], every_device_operations, cause, leaves)


NEVER = np.iinfo(np.int64).min


def _hosts(facts: Facts, every: Sequence[DeviceOperations], first: Ints) -> tuple[Hosts, Columns]:
    """Put the calls of all partitions that have waited in order; return them as hosts without lines, too."""
    names = ("process", "exit_time", "until", "call_path")
    of = {name: np.concatenate([d.syncs[name] for d in every]) for name in names}
    operation = np.concatenate([d.syncs.operation + k for d, k in zip(every, first.tolist(), strict=True)])
    order = np.lexsort((of["exit_time"], of["process"]))
    of = {name: values[order] for name, values in of.items()}
    n_processes = int(facts.process.max(initial=-1)) + 1
    start = np.searchsorted(of["process"], np.arange(n_processes + 1))
    nothing = np.zeros(0, np.int64)
    hosts = Hosts(
        np.zeros(n_processes + 1, np.int64), nothing, nothing, np.zeros(n_processes, np.int64),
        start, of["exit_time"], operation[order], of["until"], nothing, int(facts.store.manifest["first_time"] or 0),
    )  # fmt: skip
    return hosts, Columns(order.size, of)


def _listed(facts: Facts, stretches: Ints, every: Sequence[DeviceOperations], cause: Ints, leaves: Columns) -> Columns:
    """Return stretches in the order of time, with why the path comes to each."""
    process, operation, begin, end = stretches
    of = {
        name: np.concatenate([d.operations[name] for d in every])
        for name in ("row", "location", "call_path", "launch_call_path")
    }
    master = np.zeros(int(facts.process.max(initial=-1)) + 1, np.int64)
    cpus = np.flatnonzero(facts.locations.is_cpu)
    master[facts.process[cpus]] = facts.locations.master[cpus]
    is_host = operation < 0
    location = np.where(is_host, master[process], pick(of["location"], np.maximum(operation, -1)))
    before = np.append(-2, operation[:-1])[: operation.size]
    is_first = np.arange(operation.size) == 0
    waits = ~is_host & (pick(cause, np.maximum(operation, -1)) == before) & (before >= 0)
    reason = np.where(is_first, -1, np.where(before < 0, LAUNCH, np.where(waits, RANKS, OPERATION)))
    # a host comes out of the call that has waited, and goes on in a stream with the call that launches
    n = len(leaves)
    key = combine(np.append(leaves.process, process), np.append(leaves.until, begin))
    at = lookup(key[:n], key[n:])
    after = np.append(operation[1:], -1)[: operation.size]
    path = pick(of["call_path"], np.maximum(operation, -1))
    columns = {
        "process": process, "location": location, "row": np.where(is_host, -1, pick(of["row"], np.maximum(operation, -1))),
        "begin": begin, "end": end, "reason": reason,
        "begin_call_path": np.where(is_host, pick(leaves.call_path, at), path),
        "end_call_path": np.where(is_host, pick(of["launch_call_path"], np.maximum(after, -1)), path),
    }  # fmt: skip
    return Columns(operation.size, {name: columns[name] for name in STRETCH})


@step(CHARGES, "device_path_rows")
def device_path_rows(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: NDArray[np.int64],
    device_operations: DeviceOperations,
    host_lines: ColumnSource,
    every_device_members: Sequence[ColumnSource],
    device_path: Columns | None,
) -> tuple[Ints, Ints, Ints] | None:
    """Add up the critical path on the processes of a partition: call paths, locations and ticks; None where it is not
    found over streams."""
    if device_path is None:
        return None
    of = Chains(facts, scans, members, device_operations, host_lines, every_device_members)
    mine = np.flatnonzero(np.isin(device_path.process, of.processes))
    by_row = np.argsort(of.row, kind="stable")
    operation = pick(by_row, lookup(of.row[by_row], device_path.row[mine]))
    is_host = device_path.row[mine] < 0
    process = np.searchsorted(of.processes, device_path.process[mine])

    def walk(sums: Sums) -> int:
        cell = np.where(is_host, -1, pick(of.operations.cell, operation))
        begin, end = device_path.begin[mine], device_path.end[mine]
        return int(chains.spend_stretches(process, cell, begin, end, of.hosts, sums))

    return of.totals(walk)
