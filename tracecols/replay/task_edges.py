"""Edges of explicit tasks of OpenMP: a barrier waits for all tasks that its threads complete in it, a taskwait for the
children of its task, and a task for its creation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.edges import EdgeCollector
from tracecols.enhance.dataflow.grouping import Segments, combine, lookup, number
from tracecols.enhance.scan.tasks import COMPLETES, CREATES, NAMES, SWITCHES, name_tasks
from tracecols.kernels.maxplus import BEGUN, CHAIN, CHAINED, LEAVES
from tracecols.model.model import Model
from tracecols.replay.nodes import NodeClass, Nodes, NodesOfSlice
from tracecols.schema import EventKind
from tracecols.vectors import Ints, Mask


class TaskEvents(NamedTuple):
    """Events of tasks that are nodes, in the order of the nodes; none of a trace without tasks."""

    node: Ints
    location: Ints
    """`node` and `location`: (n,)"""
    kind: NDArray[np.uint8]
    """(n,)"""
    task: Ints
    """(n,): the task that is created, switched to or completed, numbered over the trace; -1 for implicit tasks."""
    running: Ints
    """(n,): the task that runs at the location after the event."""

    def some(self, kinds: tuple[EventKind, ...]) -> Ints:
        """Return the positions of events of some kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds))


def read_task_events(model: Model, nodes: Nodes) -> TaskEvents:
    """Read the events that create, switch and complete tasks, without those inside of MPI calls."""
    if "tasks" not in model.store.tables:
        nothing = np.zeros(0, np.int64)
        return TaskEvents(nothing, nothing, np.zeros(0, np.uint8), nothing, nothing)
    every = np.sort(model.members)
    columns, counts = model.store.read_together("tasks", every, ["row", *NAMES])
    location, node = np.repeat(every, counts), nodes.at(columns["row"])
    kept = node >= 0
    location, node = location[kept], node[kept]
    kind = columns["kind"][kept]
    name, is_implicit = name_tasks(model.facts.process[location], *(columns[c][kept] for c in NAMES))
    task, _ = number(name)
    # a number may be used again after the end of its task
    is_create, is_complete = np.isin(kind, CREATES), np.isin(kind, COMPLETES)
    order = np.lexsort((is_complete * 1 - is_create, nodes.time[node], task))
    ended = np.empty(node.size, np.int64)
    ended[order] = np.cumsum(is_complete[order]) - is_complete[order]
    task, _ = number(combine(task, ended)) if node.size else (task, task)
    task = np.where(is_implicit, -1, task)
    # the task that was switched to last is running; after the completion of a task it is the implicit one
    changes = np.flatnonzero(~is_create)
    last = np.searchsorted(changes, np.arange(node.size), "right") - 1
    at = pick(changes, last)
    runs = np.where((at >= 0) & (pick(location, at) == location) & ~pick(is_complete, at), pick(task, at), -1)
    return TaskEvents(node, location, kind, task, runs)


def add_task_edges(of_slice: NodesOfSlice, e: TaskEvents, found: EdgeCollector) -> None:
    """Let tasks begin after their creation, and taskwaits end after the tasks that their own task has created before.

    Waits of tasks for others because of shared data are not recorded.

    Nodes at which threads turn out to have waited become of the kind OPENMP.
    """
    nodes = of_slice.nodes
    creates, switches, completes = (e.some(kinds) for kinds in (CREATES, SWITCHES, COMPLETES))
    if not creates.size:
        return
    switches = switches[e.task[switches] >= 0]
    created = pick(creates, lookup(e.task[creates], e.task[switches]))
    tail, head = pick(e.node, created), e.node[switches]
    found.add_in_order(tail, head, nodes.time)
    nodes.mark[head] |= BEGUN
    # a thread that arrives before a task is created has waited for it, in a region that may not be recorded
    waited = (tail >= 0) & ~nodes.is_first[head] & (nodes.time[tail] > nodes.time[head - 1])
    nodes.kind[head[waited]] = NodeClass.OPENMP
    done = pick(e.node, pick(completes, lookup(e.task[completes], e.task[creates])))
    wait = _next_taskwait(nodes, of_slice.taskwaits, e, creates)
    found.add_in_order(done, resumed(nodes, e, wait, pick(nodes.time, done)), nodes.time)


def _next_taskwait(nodes: Nodes, waits: Ints, e: TaskEvents, creates: Ints) -> Ints:
    """Find the end of the first taskwait after each creation, in the task that creates; a node, -1 for none."""
    before = np.searchsorted(e.node, waits) - 1
    location = nodes.location[waits].astype(np.int64)
    running = np.where((before >= 0) & (pick(e.location, before) == location), pick(e.running, before), -1)
    group, _ = number(combine(np.append(location, e.location[creates]), np.append(running, e.running[creates]) + 1))
    place = group * (len(nodes) + 1) + np.append(waits, e.node[creates])
    order = np.argsort(place[: waits.size])
    at = np.searchsorted(place[order], place[waits.size :])
    following = pick(order, np.where(at < waits.size, at, -1))
    is_same = (following >= 0) & (pick(group[: waits.size], following) == group[waits.size :])
    return np.where(is_same, pick(waits, following), -1)


def resumed(nodes: Nodes, e: TaskEvents, leave: Ints, until: Ints) -> Ints:
    """Find the nodes at which threads that wait for tasks go on: with the switch back to the task that waits, if it
    waited until then, or the EXIT.

    `leave` are nodes at which barriers or taskwaits are left, -1 none; `until` is the time at which the last task that
    is waited for is done.
    """
    before = np.maximum(leave - 1, 0)
    is_switch = lookup(e.node[e.some(SWITCHES)], before) >= 0
    goes_on = is_switch & (leave > 0) & ~pick(nodes.is_first, leave) & (pick(nodes.time, before) >= until)
    return np.where(goes_on, before, leave)


def with_tasks(nodes: Nodes, e: TaskEvents, group: Ints, enter: Ints, leave: Ints, is_left: Mask) -> tuple[Ints, Ints]:
    """Find the last event of each thread in a barrier (`group`) that others wait for, and the first that waits for
    others.

    The former is the ENTER, or the end of the last task that the thread completes in the barrier before a thread leaves
    it: until a thread notices that it can leave, too, it may execute tasks that were created after the barrier. The
    latter is that of `resumed`. `is_left` is False for barriers that a thread never leaves.
    """
    if not e.node.size or not enter.size:
        return enter, leave
    done = e.node[e.some(COMPLETES)]
    groups, _ = number(group)
    segments = Segments(groups, int(groups.max()) + 1)
    left = segments.min(pick(nodes.time, np.where(is_left, leave, -1), np.iinfo(np.int64).max))[groups]
    n_before = np.minimum(np.searchsorted(done, leave), _n_until(nodes, done, nodes.location[enter], left))
    last = pick(done, n_before - 1)
    come = np.where(last > enter, last, enter)
    until = segments.max(pick(nodes.time, come))[groups]
    return come, resumed(nodes, e, leave, until)


def _n_until(nodes: Nodes, done: Ints, location: NDArray[np.integer], time: Ints) -> Ints:
    """Return the number of nodes among `done`, which ascend, that are at lower locations, or at a given location not
    after a given time."""
    is_asked = np.repeat([False, True], [done.size, time.size])
    order = np.lexsort(
        (is_asked, np.append(nodes.time[done], time), np.append(nodes.location[done], location).astype(np.int64))
    )
    count = np.empty(order.size, np.int64)
    count[order] = np.cumsum(~is_asked[order])
    return count[done.size :]


class MovableTasks(NamedTuple):
    """Tasks that other threads of their team might have executed."""

    done: Ints
    """(n,): nodes at which they are complete."""
    team: Ints
    """(n,): the barrier before whose end they are."""
    n_bound: int
    """Number of tasks that stay at their threads, since tasks of their team wait for tasks."""


NONE = MovableTasks(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
"""No such tasks."""


def add_chains(of_slice: NodesOfSlice, e: TaskEvents, barrier: Ints, leave: Ints, found: EdgeCollector) -> MovableTasks:
    """Let a task that a thread executes while it waits, in a barrier or before in a taskwait, follow what the thread
    did before by an edge, so that a changed run may lead it elsewhere; likewise what follows the waiting.

    `barrier` has the barriers of threads, `leave` the nodes at which these are left, -1 for none. Teams with tasks that
    wait for tasks themselves are left out: all of their tasks stay.
    """
    nodes, location = of_slice.nodes, of_slice.nodes.location
    begin, done = _executions(nodes, e)
    is_left = leave >= 0
    if not begin.size or not is_left.any():
        return NONE
    w = _waits(of_slice, e, (begin, done), barrier[is_left], leave[is_left])
    slot = np.minimum(np.searchsorted(w.end, begin), w.end.size - 1)
    kept = w.is_whole[slot] & (w.arrive[slot] < begin) & (done < w.end[slot])
    kept &= location[w.end[slot]] == location[begin]
    # tasks that end after a thread has left the barrier are not waited for
    n_teams = int(barrier[is_left].max()) + 1
    left = Segments(barrier[is_left], n_teams).min(nodes.time[leave[is_left]])
    kept &= nodes.time[done] <= left[np.maximum(w.team[slot], 0)]
    begin, done, team_of = begin[kept], done[kept], w.team[slot[kept]]
    may_move = np.zeros(n_teams, bool)
    may_move[team_of] = True
    may_move[w.team[w.is_inner & (w.team >= 0)]] = False
    n_bound = int((~may_move[team_of]).sum())
    begin, done, team_of = (of[may_move[team_of]] for of in (begin, done, team_of))
    goes_on = w.end[w.is_whole & may_move[np.maximum(w.team, 0)]]
    is_switch = lookup(e.node[e.some(SWITCHES)], goes_on - 1) >= 0
    head = np.sort(np.append(begin, goes_on - is_switch))
    nodes.mark[head] |= CHAINED
    nodes.mark[goes_on] |= LEAVES
    found.add(head - 1, head, steps=CHAIN)
    return MovableTasks(done, team_of, n_bound)


class _Waits(NamedTuple):
    """Waits of threads in taskwaits and barriers, in the order of their ends."""

    end: Ints
    arrive: Ints
    """`end` and `arrive`: (n,): EXIT; the last node before it that is neither in a task nor at a switch, -1 none."""
    team: Ints
    """(n,): the barrier, or the next one of the thread; -1 none."""
    is_inner: Mask
    is_whole: Mask
    """`is_inner` and `is_whole`: (n,): whether a task waits; whether a thread does, whose wait begins in the recording,
    and that comes to a barrier."""


def _waits(of_slice: NodesOfSlice, e: TaskEvents, executions: tuple[Ints, Ints], barrier: Ints, leave: Ints) -> _Waits:
    """Find the waits of threads, given the first and last nodes of tasks, and the barriers and nodes at which threads
    leave barriers."""
    nodes, location, (begin, done) = of_slice.nodes, of_slice.nodes.location, executions
    end = np.concatenate([leave, of_slice.taskwaits])
    team = np.concatenate([barrier, np.full(of_slice.taskwaits.size, -1)])
    order = np.argsort(end, kind="stable")
    end, team = end[order], team[order]
    is_inner = pick(done, np.searchsorted(begin, end) - 1) > end
    between = _outside(nodes, e, begin, done)
    arrive = pick(between, np.searchsorted(between, end) - 1)
    is_whole = ~is_inner & (arrive >= 0) & (pick(location, arrive) == location[end])
    barriers = np.flatnonzero((team >= 0) & is_whole)
    following = pick(barriers, _next_of(barriers, end.size))
    team = np.where(pick(location, pick(end, following)) == location[end], pick(team, following), -1)
    return _Waits(end, arrive, team, is_inner, is_whole & (team >= 0))


def _outside(nodes: Nodes, e: TaskEvents, begin: Ints, done: Ints) -> Ints:
    """Return the nodes that are neither in tasks, given their first and last nodes, nor at switches between tasks."""
    inside = np.zeros(len(nodes) + 1, np.int64)
    inside[begin] += 1
    inside[done + 1] -= 1
    result = np.cumsum(inside[:-1]) == 0
    result[e.node[e.some((*SWITCHES, *COMPLETES))]] = False
    return np.flatnonzero(result)


def _next_of(some: Ints, n: int) -> Ints:
    """Return for each of n positions the place in `some`, which ascend, of the first one from it on; -1 for none."""
    place = np.searchsorted(some, np.arange(n))
    return np.where(place < some.size, place, -1)


def _executions(nodes: Nodes, e: TaskEvents) -> tuple[Ints, Ints]:
    """Return the first nodes of explicit tasks and those at which they are complete, ascending: of those that are
    created in the recording, executed by one thread, and not while another of them is."""
    creates, switches, completes = (e.some(kinds) for kinds in (CREATES, SWITCHES, COMPLETES))
    switches = switches[e.task[switches] >= 0]
    task, first = np.unique(e.task[switches], return_index=True)
    last = switches.size - 1 - np.unique(e.task[switches][::-1], return_index=True)[1]
    complete = lookup(e.task[completes], task)
    begin, done = e.node[switches[first]], pick(e.node, pick(completes, complete))
    place = nodes.location[begin]
    kept = (lookup(e.task[creates], task) >= 0) & (done > begin) & (nodes.location[e.node[switches[last]]] == place)
    kept &= nodes.location[np.maximum(done, 0)] == place
    begin, done = begin[kept], done[kept]
    order = np.argsort(begin, kind="stable")
    begin, done = begin[order], done[order]
    is_outer = begin > np.append(-1, np.maximum.accumulate(done)[:-1]) if begin.size else np.zeros(0, bool)
    return begin[is_outer], done[is_outer]
