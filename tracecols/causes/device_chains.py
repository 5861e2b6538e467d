"""Chains: the activities of a process until an operation on a stream began, along the latest predecessors.

A kernel that waits is compared with the one it waits for. From their begins both chains go back: that of the former
until its process was held by another operation in which it had met the other process, that of the latter until the
other process launched its part of that operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.device_operations import DeviceOperations
from tracecols.causes.device_waits import DeviceWaits
from tracecols.causes.host_lines import roots_of_lines
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, pick
from tracecols.enhance.dataflow.grouping import lookup, number_ascending
from tracecols.enhance.dataflow.steps import DELAYS, SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.kernels import chains
from tracecols.kernels.chains import Hosts, Met, Operations, Sums, Walked

Ints = NDArray[np.int64]

ON_HOST, ON_STREAM, LATENCY, BEFORE = range(4)
"""Kinds of time: in a call path of the host, in an operation, between the predecessor of an operation and its begin,
and before the recording of the process."""

ROOM = 1 << 16
"""Initial room for the entries of a run of walks."""


class Spent(NamedTuple):
    """The entries of chains, chain by chain."""

    n_cells: Ints
    n_waits: Ints
    """`n_cells` and `n_waits`: (n,) int64, one past the last entries of each chain."""
    cell: NDArray[np.int32]
    ticks: Ints
    """`cell` and `ticks`: (n_cells,) int32, int64, time on hosts and streams: number of a row of `cells`."""
    cells: Columns
    """(n,) int64: `kind` of time, `ON_HOST`, ...; `location`, `call_path`, and the `origin` of an operation, one more
    than the call path of the launch, 0 if that is not known and on hosts."""
    waiting: Ints
    waited: Ints
    """`waiting` and `waited`: (n_waits,) int64, waits for other ranks: row of the operation that waits, ticks."""


class Chains:
    """The processes of a partition, prepared for walks along their chains.

    Attributes
    ----------
    row : (n_operations,) int64
        The event that begins each operation.
    waits : Columns
        What each operation waits for (`device_waits.WAIT`).
    lines : (n,) int64
        Lines of hosts (`host_lines`).
    """

    def __init__(
        self,
        facts: Facts,
        scans: Sequence[LocationScan],
        members: NDArray[np.int64],
        found: DeviceOperations,
        line: ColumnSource,
        waits: DeviceWaits,
    ) -> None:
        of, self.syncs = found.operations, found.syncs
        self.row = of.row
        self.lines, _ = number_ascending(np.concatenate([of.host, self.syncs.host, line.column("host")]))
        self._n_paths, self._n_locations = len(facts.call_paths.whole), facts.n_locations
        self.waits = waits.of(of.row)
        roots = roots_of_lines(facts, scans, members)
        of_root = [roots.get(i, (0, -1)) for i in self.lines.tolist()]
        path, origin = (facts.call_paths.path_of(p.astype(np.int32)) for p in (of.call_path, of.launch_call_path))
        outside = np.array(of_root, np.int64).reshape(-1, 2)
        keys = [
            self._key(ON_STREAM, of.location, path, origin),
            self._key(LATENCY, of.location, path, origin),
            self._key(ON_HOST, line.column("location"), line.column("call_path")),
            self._key(LATENCY, self.syncs.location, facts.call_paths.path_of(self.syncs.call_path.astype(np.int32))),
            self._key(BEFORE, outside[:, 0], np.maximum(outside[:, 1], 0)),
        ]
        self._cells, number = number_ascending(np.concatenate(keys))
        cell, latency, line_cell, returns, root = np.split(number, np.cumsum([k.size for k in keys])[:-1])
        host = np.searchsorted(self.lines, of.host)
        self.operations = Operations(
            host,
            of.location,
            of.begin,
            of.end,
            cell,
            latency,
            of.begin + self.waits.wait,
            self.waits.group,
            of.before,
            of.since,
            of.free_before,
            of.free_since,
        )
        borders = np.append(self.lines, NEVER)
        self.hosts = Hosts(
            np.searchsorted(line.column("host"), borders),
            line.column("time"),
            line_cell,
            root,
            np.searchsorted(self.syncs.host, borders),
            self.syncs.exit_time,
            self.syncs.operation,
            self.syncs.until,
            returns,
            int(facts.store.manifest["first_time"] or 0),
        )

    def _key(self, kind: int, location: Ints, path: Ints, origin: Ints | int = -1) -> Ints:
        """Return the numbers of the cells that time counts for."""
        key: Ints = ((kind * self._n_locations + location) * self._n_paths + path) * (self._n_paths + 1) + origin + 1
        return key

    def spend(self, walk: Callable[..., int], n: int) -> tuple[Spent, Ints]:
        """Do some walks; return the time that they spent, and the operations at which they were held.

        `walk` is a kernel that takes the number of the first walk, `Sums` and `Walked`.
        """
        n_cells = self._cells.size
        scratch = np.zeros(n_cells, np.int64), np.empty(n_cells, np.int64)
        walked = Walked(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64))
        room = max(ROOM, n_cells)
        cell, ticks = np.empty(room, np.int32), np.empty(room, np.int64)
        waits = [np.empty(ROOM, np.int64) for _ in range(2)]
        done = 0
        while done < n:
            done = walk(done, Sums(*scratch, cell, ticks, *waits), walked)
            if done == n:
                break
            # a chain has no more entries than there are cells
            if cell.size - (walked.n_cells[done - 1] if done else 0) < n_cells:
                cell, ticks = np.append(cell, np.empty_like(cell)), np.append(ticks, np.empty_like(ticks))
            else:
                waits = [np.append(of, np.empty_like(of)) for of in waits]
        end, end_waits = (int(of[-1]) if n else 0 for of in (walked.n_cells, walked.n_waits))
        waiting = pick(self.row, waits[0][:end_waits])
        cells = dict(zip(("kind", "location", "call_path", "origin"), self._of_cells(np.arange(n_cells)), strict=True))
        spent = Spent(
            walked.n_cells,
            walked.n_waits,
            cell[:end].copy(),
            ticks[:end].copy(),
            Columns(n_cells, cells),
            waiting,
            waits[1][:end_waits].copy(),
        )
        return spent, walked.held

    def totals(self, walk: Callable[[Sums], int]) -> tuple[Ints, Ints, Ints]:
        """Add up time by cell; return call paths, locations and ticks.

        `walk` is a kernel that takes `Sums` and returns the number of cells met.
        """
        n, nothing = self._cells.size, np.zeros(0, np.int64)
        no_cells = np.zeros(0, np.int32)
        sums = Sums(np.zeros(n, np.int64), np.empty(n, np.int64), no_cells, nothing, nothing, nothing)
        met = np.sort(sums.met[: walk(sums)])
        _, location, path, _ = self._of_cells(met)
        return path, location, sums.sum[met]

    def _of_cells(self, cell: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return kinds, locations, call paths and origins of cells."""
        place, origin = np.divmod(self._cells[cell], self._n_paths + 1)
        where, path = np.divmod(place, self._n_paths)
        kind, location = np.divmod(where, self._n_locations)
        return kind, location, path, origin


NEVER = np.iinfo(np.int64).max


class WaitingChains(NamedTuple):
    """Waits in operations on streams, or for them, and the chains before."""

    pairs: Columns
    """By kernel that waits: its `row`, `cause`, the row of the one it waits for, `kind` of the wait (`DEVICE_DELAYS`),
    `wait`, `begin` of the waiting one, and `held`, the group that it met when its process was held last in an operation
    with that of the cause, -1 none."""
    before: Spent
    """The chain of its process since then, or since the begin of the trace."""
    syncs: Columns
    """By call of a host that waits: `wait`, and `location` and `call_path` of the operation it waits for."""
    during: Spent
    """The chain that it waited for, back to the host."""


@step(SPENT, "waiting_chains")
def waiting_chains(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: NDArray[np.int64],
    device_operations: DeviceOperations,
    host_lines: ColumnSource,
    device_waits: DeviceWaits,
) -> WaitingChains:
    """Follow the chains of kernels that wait for other ranks, and of hosts that wait for devices."""
    of = Chains(facts, scans, members, device_operations, host_lines, device_waits)
    start = np.flatnonzero(of.waits.wait > 0)
    waits = of.waits.take(start)
    other = facts.process[np.searchsorted(facts.first_rows, waits.cause, "right") - 1].astype(np.int64)
    met = Met(device_waits.start, device_waits.process)

    def walk_back(first: int, sums: Sums, walked: Walked) -> int:
        return int(chains.walk_waiting(first, start, other, of.operations, of.hosts, met, sums, walked))

    before, held = of.spend(walk_back, start.size)
    pairs = {
        "row": of.row[start],
        "cause": waits.cause,
        "kind": waits.kind,
        "wait": waits.wait,
        "begin": of.operations.begin[start],
        "held": pick(of.waits.group, held),
    }
    syncs = of.syncs

    def walk_during(first: int, sums: Sums, walked: Walked) -> int:
        return int(chains.walk_waited_for(first, syncs.operation, syncs.until, of.operations, sums, walked))

    during, _ = of.spend(walk_during, len(syncs))
    of_hosts = {
        "wait": syncs.wait,
        "location": pick(of.operations.stream, syncs.operation),
        "call_path": pick(_paths(facts, device_operations), syncs.operation),
    }
    return WaitingChains(Columns(start.size, pairs), before, Columns(len(syncs), of_hosts), during)


def _paths(facts: Facts, found: DeviceOperations) -> Ints:
    """Return the call paths of operations in the whole time."""
    return facts.call_paths.path_of(found.operations.call_path.astype(np.int32))


class CausingChains(NamedTuple):
    """The chains of the kernels that began last."""

    causes: Columns
    """By chain: `cause`, the row of the operation, `held`, the group until whose launch on its process the chain goes
    back, -1 the begin of the trace; `begin` of the operation, and its `location` and `call_path`."""
    before: Spent


@step(DELAYS, "causing_chains")
def causing_chains(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: NDArray[np.int64],
    device_operations: DeviceOperations,
    host_lines: ColumnSource,
    device_waits: DeviceWaits,
    every_waiting_chains: Sequence[WaitingChains],
) -> CausingChains:
    """Follow the chains of the kernels that are waited for."""
    of = Chains(facts, scans, members, device_operations, host_lines, device_waits)
    asked = np.concatenate(
        [np.zeros((0, 2), np.int64), *(np.stack([w.pairs.cause, w.pairs.held], 1) for w in every_waiting_chains)]
    )
    asked = np.unique(asked, axis=0)
    by_row = np.argsort(of.row, kind="stable")
    at = lookup(of.row[by_row], asked[:, 0])
    asked, start = asked[at >= 0], by_row[at[at >= 0]] if of.row.size else at[:0]
    # the part of its process in the operation that held the other one
    part = device_waits.kernel_of(asked[:, 1], device_operations.operations.process[start])
    own = np.where(part >= 0, pick(by_row, lookup(of.row[by_row], part)), -1)
    launched = pick(device_operations.operations.launch_time, own)
    stop = np.where(own < 0, of.hosts.first, np.where(launched != -1, launched, pick(of.operations.begin, own)))
    stop = np.minimum(stop, of.operations.begin[start])

    def walk(first: int, sums: Sums, walked: Walked) -> int:
        return int(chains.walk_causing(first, start, stop, of.operations, of.hosts, sums, walked))

    before, _ = of.spend(walk, start.size)
    path = _paths(facts, device_operations)
    causes = {
        "cause": asked[:, 0],
        "held": asked[:, 1],
        "begin": of.operations.begin[start],
        "location": of.operations.stream[start],
        "call_path": path[start],
    }
    return CausingChains(Columns(start.size, causes), before)
