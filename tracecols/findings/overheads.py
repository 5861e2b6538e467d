"""Causes in communication, synchronisation and management of threads: their time beyond waiting, and waits that only
they cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import combine, number
from tracecols.enhance.devices.calls import WITHIN_DEVICES
from tracecols.enhance.mpi.operation_waits import WINDOW_LOCK
from tracecols.enhance.scan.region_rules import either, in_role, named
from tracecols.findings.cause import NOBODY, PHASES, STEPS, Cause, tried
from tracecols.findings.scenarios import Change, Scenarios, together
from tracecols.replay.costs import MESSAGE_STEPS
from tracecols.replay.nodes import NodeClass
from tracecols.severity.causes import LONGEST, PREFERRED
from tracecols.vectors import Ints, Mask

N_TRIED = 12
"""Number of regions of the program tried in each way: those with most of the lost time."""

ALONE = 0.4
"""Share of the time of calls that a location must have to be named as the one that makes them; one through which all
messages go has half of it."""

LAST = 0.1
"""Share of the mean wait of processes below which a process counts as coming last each time."""

LOCKING = either(
    named("pthread_mutex_(lock|trylock|unlock)", "pthread"),
    named("omp_(set|unset|test)_(nest_)?lock", "openmp"),
    in_role(("critical",), "openmp"),
)
"""Regions that take and release locks."""

ATOMIC = in_role(("atomic",), "openmp")
"""Regions that execute a single operation as if they held a lock."""

CREATION = in_role(("task_create",), "openmp")
"""Regions that create tasks."""

BEYOND_WAITING = {
    "regions": (NodeClass.OPENMP,),
    "messages": (NodeClass.POINT_TO_POINT,),
    "collectives": (NodeClass.COLLECTIVE,),
    "calls": (NodeClass.OPAQUE, NodeClass.OTHER_MPI),
}
"""By kind of cause, the classes of nodes whose weights are lost time."""


def of_overheads(s: Scenarios) -> list[Cause]:
    """Return the causes that calls take time beyond waiting, with their gains, by the region that makes the calls."""
    found = tried(s, [c for kind, classes in BEYOND_WAITING.items() for c in _without_weights(s, kind, classes)])
    return joined_partners(s, found, tried(s, list(_of_partners(s))))


def of_tasks(s: Scenarios) -> list[Cause]:
    """Return the causes that creating tasks takes time, with their gains, by region."""
    regions, c = s.model.regions, s.computation
    creates = CREATION(regions)[s.call_paths.region]
    if not creates.any():
        return []
    # by some recorders a task is created where its region is entered: what the creator spends there
    row = np.flatnonzero(creates[c.call_path] & s.in_window[c.node])
    region = s.call_paths.region.astype(np.int64)
    user = s.user_call_path[c.call_path[row]]
    by_path = np.bincount(user, c.ticks[row], len(s.call_paths))
    by_region = np.bincount(region, by_path, len(regions))
    found = []
    for where in np.argsort(-by_region, kind="stable")[:N_TRIED].tolist():
        mine = row[region[user] == where]
        if mine.size:
            at = int(np.where(region == where, by_path, -1.0).argmax())
            change = s.less_computation(c.node[mine], c.ticks[mine])
            change = together([change, _sooner_begun(s, c.node[mine], c.ticks[mine])])
            found.append(Cause("tasks", at, NOBODY, change, spent=mine))
    return tried(s, found)


def _sooner_begun(s: Scenarios, after: Ints, ticks: Ints) -> Change:
    """Return the change in which tasks begin sooner that other threads had to wait for: by the part of their creation
    between its event and its end. The nodes `after` creations follow this part, which takes `ticks`."""
    nodes, edges, n = s.graph.nodes, s.graph.edges, len(s.graph.nodes)
    of_creation = np.zeros(n, np.int64)
    of_creation[after[after > 0] - 1] = ticks[after > 0]
    edge = np.flatnonzero((edges.head < n) & (s.tail < n))
    edge = edge[of_creation[s.tail[edge]] > 0]
    tail, head = s.tail[edge], edges.head[edge].astype(np.int64)
    waited = ~nodes.is_first[head] & (s.time[tail] + s.lag[edge] > s.time[head - 1])
    tail, head = tail[waited], head[waited]
    return Change(head, np.minimum(of_creation[tail], s.weight[head]))


def of_locking(s: Scenarios) -> list[Cause]:
    """Return the causes that taking and releasing locks, and atomic operations, take time beyond waiting, with their
    gains, by region."""
    c, locks = s.computation, np.flatnonzero(s.in_window & (s.graph.nodes.kind == NodeClass.LOCK))
    # the time after an acquisition, and after a release, is computation in the calls
    regions, profile = s.model.regions, s.model.profile
    locking = either(LOCKING, ATOMIC)(regions)[s.call_paths.region]
    row = np.flatnonzero(locking[c.call_path] & s.in_window[c.node])
    path = s.model.call_paths.path_of(profile.call_path)
    atomic = np.flatnonzero(ATOMIC(regions)[s.call_paths.region][path])
    n_atomic = np.bincount(s.user_call_path[path[atomic]], profile.visits[atomic], len(s.call_paths)).astype(np.int64)
    ticks = np.concatenate([np.maximum(s.weight[locks], 0), c.ticks[row]])
    user = np.concatenate([s.user_of_node[locks], s.user_call_path[c.call_path[row]]])
    found = []
    for where, of, family in largest(s, np.arange(ticks.size), ticks, user):
        nodes, rows = locks[of[of < locks.size]], row[of[of >= locks.size] - locks.size]
        change = together([s.without_weight(nodes), s.less_computation(c.node[rows], c.ticks[rows])])
        n = int(n_atomic[distinct(user[of])].sum())
        evidence = {
            "n_taken": int(nodes.size),
            "n_atomic": n,
            "lost_each": int(ticks[of].sum()) / max(nodes.size + n, 1) / s.resolution,
        }
        found.append(Cause("locking", where, NOBODY, change, evidence=evidence | family, spent=rows))
    return tried(s, found)


def joined_partners(s: Scenarios, single: Sequence[Cause], joined: Sequence[Cause]) -> list[Cause]:
    """Merge the causes in functions that exchange messages, or call the same function, if together they gain clearly
    more than the best of them."""
    region = s.call_paths.region
    result = list(single)
    for cause in joined:
        among = region[[cause.call_path, *cause.partners]]
        mine = [c for c in result if c.kind == cause.kind and region[c.call_path] in among]
        if cause.gain > PREFERRED * max((c.gain for c in mine), default=0):
            result = [c for c in result if c not in mine] + [cause]
    return result


def _of_partners(s: Scenarios) -> Iterator[Cause]:
    """Yield the causes that messages take long, of functions of the program that send, receive and complete them
    together: one side waits for the time that the other takes."""
    nodes = np.flatnonzero(s.in_window & np.isin(s.graph.nodes.kind, [int(c) for c in BEYOND_WAITING["messages"]]))
    user = s.user_of_node[nodes]
    nodes, user = nodes[user >= 0], user[user >= 0]
    region = s.call_paths.region.astype(np.int64)
    group = _partners(s)
    by_path = np.bincount(user, s.weight[nodes], len(s.call_paths))
    by_region = np.bincount(region, by_path, len(s.model.regions))
    taking = np.flatnonzero(by_region > 0)
    by_group = np.bincount(group[taking], by_region[taking], group.size)
    by_group[np.bincount(group[taking], minlength=group.size) < 2] = 0
    for k in np.argsort(-by_group, kind="stable")[:N_TRIED].tolist():
        if by_group[k] <= 0:
            return
        members = taking[group[taking] == k]
        members = members[np.argsort(-by_region[members], kind="stable")]
        first, *others = (int(np.where(region == r, by_path, -1.0).argmax()) for r in members.tolist())
        change = s.without_weight(nodes[group[region[user]] == k])
        yield Cause("messages", first, NOBODY, change, partners=tuple(others))


def _partners(s: Scenarios) -> Ints:
    """Number the regions of the program such that those which start and complete the same messages have the same
    number; (n_regions,) int64."""
    m = s.model.sent_messages
    group = np.arange(len(s.model.regions))
    if not len(m):
        return group
    path_of, region = s.model.call_paths.path_of, s.call_paths.region.astype(np.int64)
    calls = ("send_call_path", "send_done_call_path", "recv_post_call_path", "recv_call_path")
    user = pick(region, s.user_call_path)
    sides = [pick(user, path_of(m[c])) for c in calls]
    first = np.maximum.reduce(sides)
    one, other = np.concatenate([_pairs(first, np.where(side < 0, first, side)) for side in sides], axis=1)
    while True:
        lowest = np.minimum(group[one], group[other])
        before = group.copy()
        np.minimum.at(group, one, lowest)
        np.minimum.at(group, other, lowest)
        if np.array_equal(group, before):
            return group


def _pairs(one: Ints, other: Ints) -> Ints:
    """Return the distinct pairs of regions, without those of -1; (2, n_pairs)."""
    at = number(combine(one, other))[1]
    at = at[one[at] >= 0]
    return np.stack([one[at], other[at]])


def _without_weights(s: Scenarios, kind: str, classes: Sequence[NodeClass]) -> Iterator[Cause]:
    nodes = s.graph.nodes
    # a thread that has done nothing yet is being created, which happens once
    is_new = s.begins_in_team & nodes.is_first
    mine = np.flatnonzero(s.in_window & np.isin(nodes.kind, [int(c) for c in classes]) & ~is_new)
    for where, of, family in largest(s, mine, s.weight[mine]):
        who = _outstanding(s, of) if kind != "regions" else NOBODY
        yield Cause(kind, where, who, s.without_weight(of), evidence=family)


def _outstanding(s: Scenarios, nodes: Ints) -> Ints:
    """Return the one of several locations that has a large part of the weight of some nodes, and more than twice that
    of any other one; empty if there is none."""
    by_location = np.bincount(s.graph.nodes.location[nodes], s.weight[nodes], s.model.n_locations)
    most = int(by_location.argmax())
    next_most = np.delete(by_location, most).max(initial=0)
    is_one = s.locations.size > 1 and by_location[most] > max(2 * next_most, ALONE * by_location.sum())
    return np.array([most], np.int64) if is_one else NOBODY


def of_threads(s: Scenarios) -> list[Cause]:
    """Return the causes that creating and joining threads takes time, with their gains, by the region that creates and
    joins them."""
    created = s.model.created_threads
    manages = s.in_window & (s.graph.nodes.kind == NodeClass.THREADS)
    # returning from a wait for a condition is not management of threads
    wakes = s.graph.nodes.at(s.model.lock_acquisitions.acquire)
    manages[wakes[wakes >= 0]] = False
    nodes = np.flatnonzero(manages)
    # until a thread begins, it is being created
    creator = s.user_of_node.copy()
    begin = s.graph.nodes.at(created.begin)
    known = begin >= 0
    creator[begin[known]] = pick(s.user_call_path, s.model.call_paths.path_of(created.create_call_path))[known]
    found = largest(s, nodes, s.weight[nodes], creator[nodes])
    return tried(
        s, [Cause("threads", where, NOBODY, s.without_weight(of), evidence=family) for where, of, family in found]
    )


def of_copies(s: Scenarios) -> list[Cause]:
    """Return the causes that copies between hosts and devices take time, with their gains, by the region that asks for
    them: on the device, from the call until they begin, and in the call."""
    m, nodes, c = s.model.copies, s.graph.nodes, s.computation
    begin = nodes.at(m.event)
    # a copy ends with the next event of its stream
    end = np.minimum(begin + 1, len(nodes) - 1)
    path = s.model.call_paths.path_of(m.call_path)
    known = (begin >= 0) & (nodes.time[end] == m.end_time) & s.in_window[end] & (m.copy_enter >= 0)
    known = np.flatnonzero(known & (m.direction != WITHIN_DEVICES) & ~s.replay.contexts[path])
    begin, end, path, size = begin[known], end[known], path[known], np.maximum(m.bytes[known], 0)
    # calls that wait for their copies end with nodes of their own, others with computation
    leave = nodes.at(m.copy_exit[known])
    # what begins a stream has to begin some time
    later, asks = begin[~nodes.is_first[begin]], nodes.at(m.copy_enter[known])
    launched = np.flatnonzero(np.isin(s.graph.edges.head, later) & np.isin(s.tail, asks))
    is_copying = np.zeros(len(s.call_paths), bool)
    is_copying[path] = True
    in_copies = np.flatnonzero(is_copying[c.call_path] & s.in_window[c.node])
    found = []
    for where, of, family in largest(s, np.arange(end.size), s.weight[end], s.user_call_path[path]):
        evidence = {
            "n_copies": int(of.size),
            "bytes": int(size[of].sum()),
            "copying": int(s.weight[end[of]].sum()) / s.resolution,
        }
        waits = distinct(leave[of][leave[of] >= 0])
        waits = waits[nodes.kind[waits] == NodeClass.DEVICE]
        row = in_copies[np.isin(c.call_path[in_copies], path[of])]
        in_calls = s.less_computation(c.node[row], c.ticks[row])
        without = together([s.without_weight(distinct(end[of])), s.without_weight(waits), in_calls])
        cut = launched[np.isin(s.graph.edges.head[launched], begin[of])]
        change = Change(without.node, without.less, cut=cut)
        found.append(Cause("copies", where, _outstanding(s, end[of]), change, evidence=evidence | family))
    return tried(s, found)


def largest(
    s: Scenarios, nodes: Ints, ticks: Ints, user: Ints | None = None
) -> Iterator[tuple[int, Ints, dict[str, Any]]]:
    """Yield the regions of the program, and the families of steps, in which some nodes take most ticks: the call path
    with most of them, the nodes, and the name of the family as evidence.

    `user` are the call paths of the program for which nodes count, by default those that they are in.
    """
    user = s.user_of_node[nodes] if user is None else user
    known = user >= 0
    by_path = np.bincount(user[known], ticks[known], len(s.call_paths))
    region, merged = s.call_paths.region.astype(np.int64), s.merged
    of_family = merged.counts_as[region]
    n_steps = np.bincount(merged.counts_as[distinct(region[by_path > 0])], minlength=2 * len(s.model.regions))
    for group, least in ((region, 0), (of_family, STEPS)):
        by_group = np.bincount(group, by_path, n_steps.size)
        of, taking = pick(group, user), np.flatnonzero((by_group > 0) & (n_steps >= least))
        for g in taking[np.argsort(-by_group[taking], kind="stable")][:N_TRIED].tolist():
            where = int(np.where(group == g, by_path, -1.0).argmax())
            yield where, nodes[of == g], {PHASES: str(merged.names[region[where]])} if least else {}


def of_locks(s: Scenarios) -> list[Cause]:
    """Return the causes that locks are waited for, with their gains, by the region that takes them."""
    edge = lock_edges(s)
    if not edge.size:
        return []
    heads = s.graph.edges.head[edge].astype(np.int64)
    waits = np.maximum(s.recorded_losses[heads], 0)
    cuts = ((where, edge[np.isin(heads, of)], family) for where, of, family in largest(s, heads, waits))
    return tried(s, [Cause("lock", where, NOBODY, Change(cut=cut), evidence=family) for where, cut, family in cuts])


def lock_edges(s: Scenarios) -> Ints:
    """Return the edges by which one location waits for another one at a lock; ascending."""
    g, nodes = s.graph, s.graph.nodes
    n = len(nodes)
    edge = np.flatnonzero((g.edges.head < n) & (s.tail < n))
    at_lock = nodes.kind == NodeClass.LOCK
    at_lock[s.calls[np.append(WINDOW_LOCK(s.model.regions), False)[s.call_region]]] = True
    return edge[at_lock[g.edges.head[edge]]]


def of_barriers(s: Scenarios) -> list[Cause]:
    """Return the causes that processes wait at MPI barriers, with their gains, by region, except where the same process
    always comes last."""
    barrier = np.array([name.startswith(("mpi_barrier", "mpi_ibarrier")) for name in s.model.regions.lower], bool)
    at_barrier = np.zeros(s.graph.time.size, bool)
    at_barrier[s.calls[np.append(barrier, False)[s.call_region]]] = True
    found = _without_edges(s, "barrier", np.flatnonzero(at_barrier[s.graph.edges.head]), ())
    result = []
    for c in found:
        calls = s.distinct(s.graph.edges.head[c.change.cut])
        waits = np.maximum(s.recorded_losses[calls] - s.weight[calls], 0)
        location = s.graph.nodes.location[calls]
        by_location = np.bincount(location, waits, s.model.n_locations)[distinct(location)]
        if by_location.min() >= LAST * by_location.mean():
            # from one barrier to the next
            apart, again = np.diff(s.graph.nodes.time[calls]), location[1:] == location[:-1]
            c.evidence[LONGEST] = float(apart[again].sum() / max((apart - waits[1:])[again].sum(), 1))
            result.append(c)
    return result


def of_messages(s: Scenarios, edges: Ints, mended: Sequence[Change]) -> list[Cause]:
    """Return the causes that some messages are waited for, with their gains after all else is mended, by region."""
    return _without_edges(s, "pipeline", edges, mended)


def message_edges(s: Scenarios) -> Ints:
    """Return the edges by which one location waits for messages of another one; ascending."""
    e, n = s.graph.edges, len(s.graph.nodes)
    return np.flatnonzero((e.head < n) & (s.tail < n) & (e.steps == MESSAGE_STEPS) & ~e.is_inferred)


def _without_edges(s: Scenarios, kind: str, edge: Ints, mended: Sequence[Change]) -> list[Cause]:
    """Return the causes that some edges make others wait, with their gains after other changes, by region."""
    heads = s.distinct(s.graph.edges.head[edge])
    heads = heads[s.in_window[heads]]
    lost = s.losses(mended) if mended else s.recorded_losses
    of_edge = s.graph.edges.head[edge]
    cuts = (
        (where, edge[np.isin(of_edge, of, kind="table")], family)
        for where, of, family in largest(s, heads, lost[heads])
    )
    found = [Cause(kind, where, NOBODY, Change(cut=cut), evidence=family) for where, cut, family in cuts]
    return tried(s, found, mended)


def passed_on_edges(s: Scenarios) -> Ints:
    """Return the edges by which one location waits for messages that it does not exchange for as many of its own."""
    m, edge = s.model.sent_messages, message_edges(s)
    if not len(m):
        return edge
    mutual = _mutual(m.send_location, m.send_enter_time, m.recv_location, m.recv_enter_time)
    call = s.graph.nodes.calls_around(m.recv_enter)
    return edge[~np.isin(s.graph.edges.head[edge], call[mutual])]


AT_ONCE = 0.2
"""Time between posting and completing receives, as a share of the waits for their messages, up to which it counts as
none."""

ENOUGH = 0.5
"""Computation after the waits for messages, as a share of them, from which on it could hide them."""


def of_overlap(s: Scenarios) -> list[Cause]:
    """Return the causes that non-blocking exchanges are completed right after they are posted, with the gains of
    overlapping them with the computation that follows, by region."""
    m, nodes = s.model.sent_messages, s.graph.nodes
    if not len(m):
        return []
    call = nodes.calls_around(m.recv_enter)
    kept = np.flatnonzero((call >= 0) & (m.recv_post_enter >= 0) & (m.recv_post_enter != m.recv_enter))
    call, losses = call[kept], s.recorded_losses
    wait = np.maximum(losses[call], 0)
    gap = (m.recv_enter_time - m.recv_post_enter_time)[kept]
    mutual = _mutual(m.send_location[kept], m.send_enter_time[kept], m.recv_location[kept], m.recv_enter_time[kept])
    follows = _computation_after(s, call)
    found = []
    edges, calls = message_edges(s), s.distinct(call)
    for where, of, family in largest(s, calls, losses[calls]):
        mine = np.isin(call, of, kind="table")
        lost = wait[mine].sum()
        if gap[mine].sum() > AT_ONCE * lost or follows[mine].sum() < ENOUGH * lost or mutual[mine].mean() < 0.8:
            continue
        found.append(Cause("overlap", where, NOBODY, _overlapped(s, of, edges), evidence=family))
    return tried(s, found)


def _computation_after(s: Scenarios, calls: NDArray[np.integer[Any]]) -> Ints:
    """Return the ticks of computation between calls and the next nodes of their locations."""
    nodes = s.graph.nodes
    after = np.minimum(calls + 1, len(nodes) - 1)
    return np.where(nodes.location[after] == nodes.location[calls], s.weight[after], 0)


def _overlapped(s: Scenarios, calls: Ints, edges: Ints) -> Change:
    """Return the change in which messages are on their way while the computation goes on that follows the calls which
    complete them: they have to arrive by its end."""
    calls = calls[_computation_after(s, calls) > 0]
    less = s.without_weight(calls)
    moved = edges[np.isin(s.graph.edges.head[edges], calls)]
    head = s.graph.edges.head[moved].astype(np.int64)
    # the node at the end of the computation happens its weight after all nodes that it depends on
    return Change(less.node, less.less, moved=moved, to=head + 1, later=s.weight[head] - s.weight[head + 1])


def _mutual(sender: NDArray[np.int32], sent: Ints, receiver: NDArray[np.int32], received: Ints) -> Mask:
    """Return for each message whether its receiver has sent as many itself before it completes the receive: partners
    then exchange messages, and do not pass them on.

    Times are those at which the sending call begins, and the call that completes the receive.
    """
    # the k-th message of each receiver, and the k-th that it sends
    order, by_sender = np.lexsort((received, receiver)), np.lexsort((sent, sender))
    first = np.searchsorted(sender[by_sender], receiver[order])
    end = np.searchsorted(sender[by_sender], receiver[order], "right")
    kth = first + np.arange(order.size) - np.searchsorted(receiver[order], receiver[order])
    has = np.flatnonzero(kth < end)
    result = np.zeros(sender.size, bool)
    result[order[has]] = sent[by_sender[kth[has]]] <= received[order[has]]
    return result
