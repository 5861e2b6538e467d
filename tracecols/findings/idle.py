"""Causes in programs whose devices have nothing to do: what their hosts do meanwhile, and the gain if that took no
time.

A device has nothing to do while no operation runs on any of its streams, and none is pending that was launched before,
by more than the usual latency; the latency of the launch that ends this belongs to it. The activity of its host
meanwhile is found in the line of the host (`causes.host_lines`), and is mended by removing that time, and waits of
hosts for devices right before they launch the next operation. The creation of contexts is not a fault of the program
and is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.host_lines import lines_of_locations
from tracecols.distinct import distinct, ends_run, starts_run
from tracecols.enhance.dataflow.columns import Columns, joined_columns, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, latest_before, lookup, number, ranges
from tracecols.enhance.dataflow.steps import SPENT
from tracecols.enhance.definitions.regions import MEMORY
from tracecols.enhance.devices.spans import Coverage, running_max
from tracecols.findings.cause import CLEARLY, PHASES, Cause
from tracecols.findings.scenarios import Change, Scenarios
from tracecols.model.model import Model
from tracecols.replay.nodes import NodeClass
from tracecols.vectors import Ints, Mask

IDLE = "idle"
"""The kind of these causes."""

LEAST = 0.01
"""Part of the runtime that a cause must gain to be one."""

APART = 0.15
"""Share of the time in which devices have nothing to do from which on a call path is a cause of its own."""

EXPLAINED = 0.7
"""Share of a call path's time that must lie in such call paths below it for these to be named in its place."""

MOSTLY = 0.5
"""Share of the gain of all processes that some must have to be named alone."""

N_REGIONS = 3
"""Maximum number of regions that are named for the activity of a host in a call path."""

LEAST_NAMED = 0.01
"""Share of the time from which on a region is named."""


GAP = ("host", "begin", "launch", "end", "row")
"""Columns of gaps, in which a device has nothing to do: the line of the host that ends the gap, its begin, the launch
that ends it, and when what is launched begins; the event of this begin, -1 at the end of the run."""

SPENT_IDLE = ("location", "call_path", "since", "until", "ticks", "gaps")
"""Columns of the activity of hosts meanwhile: thread and call path, begin and end of the time that they are there, the
ticks of it in which a device has nothing to do, and the number of gaps that end in it."""


def of_idle_devices(s: Scenarios, starts: Columns) -> list[Cause]:
    """Return the causes that hosts do something while their devices have nothing to do, with the gain if that took no
    time; calls in which devices start (`findings.starts.CALL`) are left out."""
    parts = _outside_and_in_mpi(s, starts)
    if not any(map(len, parts)):
        return []
    tree = Tree(s)
    found = [c for part in parts for head in tree.heads(part) for c in _causes(s, tree, head, part)]
    for cause, gain in zip(found, s.gains([c.change for c in found]), strict=True):
        cause.gain = gain
    best: dict[int, Cause] = {}
    for c in found:
        # all processes only if most of the gain is theirs
        if c.call_path not in best or MOSTLY * c.gain > best[c.call_path].gain:
            best[c.call_path] = c
    return [c for c in best.values() if c.gain >= max(LEAST * s.replay.without_start(s.runtime), 1)]


# -- when devices have nothing to do -----------------------------------------------------------------------------------


def _outside_and_in_mpi(s: Scenarios, starts: Columns) -> list[Columns]:
    """Return what hosts do while their devices have nothing to do (`SPENT_IDLE`), outside of MPI and in MPI: hosts that
    communicate may wait for others, so that what others do counts for itself."""
    window = s.replay.window(s.replay.nodes.time)
    with s.model.divided() as run:
        spent = joined_columns(list(run.stages(lambda model, _stage: time_of_hosts(model, starts, *window), [SPENT])))
    kept = ~s.replay.contexts[spent.call_path]
    in_mpi = s.model.regions.paradigm[s.call_paths.region[spent.call_path]] == "mpi"
    return [spent.take(np.flatnonzero(kept & some)) for some in (~in_mpi, in_mpi)]


def time_of_hosts(model: Model, starts: Columns, begin: int, end: int) -> Columns:
    """Find what the hosts of a slice do while their devices have nothing to do (`SPENT_IDLE`), between two times,
    except the calls in which devices start (`findings.starts.CALL`)."""
    line, operations = model.get("host_lines"), model.get("device_operations").operations
    host, time = line.column("host"), line.column("time")
    location, call_path = line.column("location"), line.column("call_path")
    first, last = _spans(model, host, time)
    first, last = np.maximum(first, begin), np.minimum(last, end)
    gaps = find_gaps(operations, model.locations.device, first, last)
    until = np.append(time[1:], 0)[: time.size]
    rows = np.flatnonzero(~ends_run(host))
    start = lines_of_locations(model.facts)[starts.location], starts.enter_time, starts.exit_time
    both = Coverage(*map(np.append, (gaps.host, gaps.begin, gaps.end), start))
    intervals = host[rows], time[rows], until[rows]
    ticks = _covered(both, *intervals) - _covered(Coverage(*start), *intervals)
    ends = np.zeros(host.size, np.int64)
    at = latest_before(host, time, gaps.host, gaps.launch - 1)
    np.add.at(ends, at[(at >= 0) & (gaps.row >= 0)], 1)
    # outside of all regions nothing is known of what a host does
    ticks[line.column("is_outside")[rows] > 0] = 0
    kept = rows[ticks > 0]
    columns = location[kept], call_path[kept], time[kept], until[kept], ticks[ticks > 0], ends[kept]
    return Columns(kept.size, dict(zip(SPENT_IDLE, columns, strict=True)))


def _covered(by: Coverage, key: Ints, begin: Ints, end: Ints) -> Ints:
    """Return how much of some intervals is covered."""
    return by.until(key, end) - by.until(key, begin)


def _spans(model: Model, host: Ints, time: Ints) -> tuple[Ints, Ints]:
    """Return when the hosts of each process begin and end; (n_processes,) int64."""
    process = np.asarray(model.facts.process, np.int64)
    n = int(process.max(initial=-1)) + 1
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(first, process[host], time)
    np.maximum.at(last, process[host], time)
    return first, last


def find_gaps(operations: Columns, device_of: NDArray[np.integer[Any]], first: Ints, last: Ints) -> Columns:
    """Find the gaps in which devices have nothing to do (`GAP`), by device and begin, from
    `causes.device_operations.OPERATION`; O(n log n).

    Gaps before an operation whose launch is not recorded are unknown, like all gaps of a device without recorded
    launches. The hosts of each process begin and end at `first` and `last`.
    """
    of = operations
    device = combine(of.process, device_of[of.location].astype(np.int64)) if len(of) else of.process
    order = np.lexsort((of.begin, device))
    device, begin, end, process = device[order], of.begin[order], of.end[order], of.process[order]
    head = starts_run(device)
    reach = running_max(device, end)
    since = np.where(head, first[process], np.append(0, reach[:-1])[: reach.size])
    launch = of.launch_time[order]
    # an operation is pending from its launch on
    asked = np.where(launch == -1, np.minimum(since, begin), np.minimum(launch, begin))
    # an operation that begins later may have been launched earlier: its launch counts
    asked = -running_max(device[::-1], -asked[::-1])[::-1]
    tail = np.flatnonzero(np.append(head[1:], True)[: head.size])
    host, row, of_tail = of.host[order], of.row[order], process[tail]
    is_late = (asked > since) | ((asked == since) & (launch != -1))
    # what was launched a little before begins late, too, as it takes the usual latency
    usual = Segments(process[is_late], first.size).median((begin - launch)[is_late])
    is_late |= (launch != -1) & (launch + usual[process] >= begin)
    stop = np.append(last[process], last[of_tail])
    values = (
        np.append(host, host[tail]),
        np.maximum(np.append(since, reach[tail]), np.append(first[process], first[of_tail])),
        np.minimum(np.append(asked, last[of_tail]), stop),
        np.minimum(np.append(begin, last[of_tail]), stop),
        np.append(row, np.full(tail.size, -1)),
    )
    found = Columns(row.size + tail.size, dict(zip(GAP, values, strict=True)))
    knows = np.isin(np.append(device, device[tail]), device[launch != -1])
    is_gap = np.append(is_late, np.ones(tail.size, bool)) & (found.end > found.begin)
    return found.take(np.flatnonzero(is_gap & knows))


# -- what hosts do meanwhile -------------------------------------------------------------------------------------------


class Tree:
    """The call paths of a run, without the running numbers of steps above them: `of` is the first of those that are the
    same, and `names` are the names of their regions."""

    def __init__(self, s: Scenarios) -> None:
        parent = s.call_paths.parent.astype(np.int64)
        self._is_device_call = (s.model.regions.device_call >= 0)[s.call_paths.region]
        self.of, self._depth = s.merged.below_steps, s.call_paths.depth
        self.names = s.merged.names[s.call_paths.region]
        self._above = np.where(parent >= 0, pick(self.of, parent), -1)

    def heads(self, spent: Columns) -> list[int]:
        """Return the deepest call paths that hold a large part of some time with all that they call, none of which is
        above another, the one with most time first."""
        n = self.of.size
        inside = np.bincount(self.of[spent.call_path], spent.ticks, n)
        for level in range(int(self._depth.max(initial=0)), 0, -1):
            mine = np.flatnonzero((self._depth == level) & (self.of == np.arange(n)) & (inside > 0))
            np.add.at(inside, self._above[mine], inside[mine])
        least = APART * spent.ticks.sum()
        large = np.flatnonzero(inside >= max(least, 1))
        found, todo = [], large[self._above[large] < 0].tolist()
        while todo:
            at = todo.pop()
            below = large[self._above[large] == at]
            # several calls for devices in a function are one cause
            several = below.size > 1 and self._is_device_call[below].any()
            if below.size and inside[below].sum() >= EXPLAINED * inside[at] and not several:
                todo += below.tolist()
            else:
                found.append(at)
        return sorted(found, key=lambda at: (-inside[at], at))

    def below(self, head: int) -> Mask:
        """Select a call path, those that are the same, and all that they call; (n_call_paths,) bool."""
        result = self.of == head
        for level in range(int(self._depth[head]) + 1, int(self._depth.max(initial=0)) + 1):
            mine = np.flatnonzero(self._depth == level)
            result[mine] |= (self._above[mine] >= 0) & result[self._above[mine]]
        return np.asarray(result)


def _causes(s: Scenarios, tree: Tree, head: int, spent: Columns) -> list[Cause]:
    """Return the causes that hosts are in a call path while their devices have nothing to do: one of the processes for
    which that takes clearly longer than for others, if there are any, and one of all processes."""
    mine = spent.take(np.flatnonzero(tree.below(head)[spent.call_path]))
    process = s.process
    found, of = np.unique(process[mine.location], return_inverse=True)
    ticks = Segments(of, found.size).sum(mine.ticks)
    n = distinct(process[spent.location]).size
    worst = ticks >= CLEARLY * ticks.sum() / n
    if n == 1:
        return [_cause(s, tree, head, mine, found)]
    if not worst.any():
        return [_cause(s, tree, head, mine, found[:0])]
    named = found[worst][np.argsort(-ticks[worst], kind="stable")]
    some = mine.take(np.flatnonzero(worst[of]))
    return [_cause(s, tree, head, some, named), _cause(s, tree, head, mine, found[:0])]


def _cause(s: Scenarios, tree: Tree, head: int, mine: Columns, named: Ints) -> Cause:
    """Return the cause that hosts are in a call path for some time in which their devices have nothing to do
    (`SPENT_IDLE`).

    The processes `named` are the worst ones first; none if all do alike.
    """
    known, first = np.unique(s.process[mine.location], return_index=True)
    masters = s.model.locations.master[mine.location[first[np.searchsorted(known, named)]]]
    regions = s.model.regions
    region = s.call_paths.region[mine.call_path].astype(np.int64)
    # phases are named without their numbers
    named_as = np.where(regions.is_phase[region], tree.names[mine.call_path], regions.name[region])
    names, of_name = np.unique(named_as, return_inverse=True)
    by_name = np.bincount(of_name, mine.ticks, names.size)
    device_call = regions.device_call[region]
    total, resolution = int(mine.ticks.sum()), s.resolution
    order = np.argsort(-by_name, kind="stable")[:N_REGIONS]
    order = order[by_name[order] >= LEAST_NAMED * total]
    waits = _needless_waits(s, tree.below(int(s.user_call_path[head])), distinct(mine.location))
    evidence: dict[str, Any] = {
        "idle": total / resolution,
        "idle_share": total / max(s.replay.without_start(s.runtime) * known.size, 1),
        "n_gaps": int(mine.gaps.sum()),
        "n_waits": int(waits.size),
        "n_processes": known.size,
        "in_memory": int(mine.ticks[device_call == MEMORY].sum()) / total,
        "in_calls": int(mine.ticks[device_call >= 0].sum()) / total,
        "regions": [str(names[i]) for i in order],
        "region_shares": [float(by_name[i] / total) for i in order],
    }
    if (tree.of == head).sum() > 1 and tree.names[head] != regions.name[s.call_paths.region[head]]:
        evidence[PHASES] = str(tree.names[head])
    return Cause(
        IDLE,
        head,
        masters.astype(np.int64),
        _without(s, mine, waits),
        is_process=named.size == 1,
        evidence=evidence,
        frees=Change(),
    )


def _needless_waits(s: Scenarios, here: Mask, hosts: Ints) -> Ints:
    """Return the edges by which hosts wait for kernels on some call paths right before they launch the next operation
    on the same stream: what they do in between takes less than the latency of that launch."""
    model, nodes, edges, n = s.model, s.graph.nodes, s.graph.edges, len(s.graph.nodes)
    stream = np.append(
        np.where(model.locations.is_device[nodes.location], nodes.location, -1), np.full(s.graph.n_hubs, -1)
    )
    launches = np.flatnonzero((stream[edges.head] >= 0) & (s.tail < n) & (stream[s.tail] < 0))
    latency, launched_on = np.zeros(n, np.int64), np.full(n, -1)
    latency[s.tail[launches]], launched_on[s.tail[launches]] = s.lag[launches], stream[edges.head[launches]]
    end, leave = nodes.at(model.kernels.exit), nodes.at(model.device_syncs.exit)
    leave = leave[(leave >= 0) & (leave + 1 < n)]
    leave = leave[np.append(here, False)[s.call_path[leave]] & np.isin(nodes.location[leave], hosts)]
    leave = leave[s.weight[leave + 1] < latency[leave + 1]]
    next_on, is_end = np.full(s.weight.size, -1), np.zeros(s.weight.size, bool)
    next_on[leave], is_end[end[end >= 0]] = launched_on[leave + 1], True
    return np.flatnonzero(is_end[s.tail] & (next_on[edges.head] >= 0) & (next_on[edges.head] == stream[s.tail]))


def _without(s: Scenarios, spent: Columns, cut: Ints) -> Change:
    """Return the change that removes some time of hosts: from computation, or from the time of calls beyond waiting,
    and with it waits along some edges."""
    nodes, n_paths = s.graph.nodes, len(s.call_paths)
    low, high = np.zeros(len(spent), np.int64), np.full(len(spent), -1, np.int64)
    for location in distinct(spent.location).tolist():
        first, stop = (int(nodes.location_start[i]) for i in (location, location + 1))
        at = np.flatnonzero(spent.location == location)
        low[at] = first + np.searchsorted(nodes.time[first:stop], spent.since[at], "right")
        high[at] = np.minimum(first + np.searchsorted(nodes.time[first:stop], spent.until[at], "left"), stop - 1)
    # forks, joins and locks are nodes within the time that is spent in a call path
    n_nodes = np.maximum(high - low + 1, 0)
    of, node = np.repeat(np.arange(len(spent)), n_nodes), ranges(low, n_nodes)
    before = np.where(nodes.is_first[node], nodes.time[node], nodes.time[node - 1])
    since, until = spent.since[of], spent.until[of]
    part = (np.minimum(until, nodes.time[node]) - np.maximum(since, before)) / (until - since)
    group, first_of = number(combine(node, spent.call_path[of]))
    ticks = np.rint(Segments(group, first_of.size).sum(spent.ticks[of] * np.maximum(part, 0))).astype(np.int64)
    node, path = node[first_of], spent.call_path[of][first_of]
    c = s.computation
    key = c.node.astype(np.int64) * n_paths + c.call_path
    order = np.argsort(key, kind="stable")
    at = lookup(key[order], node * n_paths + path)
    row, less = order[at[at >= 0]], ticks[at >= 0]
    by_row = np.argsort(row)
    change = s.less_computation(c.node[row[by_row]], np.minimum(less, c.ticks[row])[by_row])
    # calls that are not computation then take no longer than the operations they wait for
    calls = np.flatnonzero((at < 0) & (nodes.kind[node] != NodeClass.COMPUTATION))
    call, which = np.unique(node[calls], return_inverse=True)
    shorter = np.minimum(np.bincount(which, ticks[calls], call.size).astype(np.int64), s.weight[call])
    shorter[np.isin(call, change.node)] = 0
    kept = shorter > 0
    return Change(np.append(change.node, call[kept]), np.append(change.less, shorter[kept]), cut)
