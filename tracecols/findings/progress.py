"""Calls of MPI that end when another process enters MPI.

Many MPI libraries move messages only within calls of MPI, and wait for the receiver of a long message, or pass on data
of collective operations from process to process. A process that computes keeps others waiting then, though its
messages have been begun, or though no message of its own is awaited. Nothing that is recorded tells these waits from
transfer but when they end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracecols.enhance.dataflow.edges import EdgeCollector
from tracecols.enhance.dataflow.grouping import combine, latest_before, number
from tracecols.kernels import replay as kernels
from tracecols.model.model import Model
from tracecols.replay.graph import Graph, lags_among
from tracecols.vectors import Ints

PROMPT = 0.2
"""Share of the time in a call after its last recorded dependency within which the call has to end after another process
has entered MPI."""

LEAST = 0.005
"""Share of the runtime that all such waits have to take together."""


def with_progress(model: Model, graph: Graph, runtime: int) -> tuple[Graph, Ints]:
    """Return a graph in which calls wait for other processes that take part in their messages or collective operations
    to enter MPI, if they end right after that, and the ticks for which each node waits for that alone; (n_nodes,)
    int64. `runtime` is that of the recorded run, in ticks."""
    wait = np.zeros(len(graph.nodes), np.int64)
    pairs = _of_messages(model, graph), _of_collectives(model, graph)
    tail, head = (np.concatenate(of) for of in zip(*pairs, strict=True))
    begin, end, unexplained = graph.time[tail], graph.time[head], graph.weight[head]
    at = np.flatnonzero((begin > end - unexplained) & (begin < end) & (end - begin <= PROMPT * unexplained))
    np.maximum.at(wait, head[at], (begin - end + unexplained)[at])
    if wait.sum() <= LEAST * runtime:
        return graph, np.zeros_like(wait)
    at = at[number(combine(tail[at], head[at]))[1]]
    found = EdgeCollector(graph.time.size)
    found.add_edges(graph.edges)
    found.add(tail[at], head[at], is_inferred=True)
    edges, weight = found.edges(), graph.weight.copy()
    weight[: wait.size] -= wait
    result = replace(graph, edges=edges, lag=lags_among(graph, edges), weight=weight)
    # where clocks disagree, processes could wait for each other
    return (graph, np.zeros_like(wait)) if result.stuck.any() else (result, wait)


def _of_messages(model: Model, graph: Graph) -> tuple[Ints, Ints]:
    """Return begins of calls of MPI, and for each a call on the other side of a message that may have waited for it;
    (n,) nodes each.

    A call that completes a send may have waited for the call that posts the receive. A call that completes either side
    may have waited for the first call of the other side after its last recorded dependency, if the other side was
    outside of MPI then.
    """
    nodes, m = graph.nodes, model.sent_messages
    calls = nodes.with_role(kernels.IS_CALL)
    calls = calls[~nodes.is_query(calls)]
    if not calls.size:
        return calls, calls
    sends = nodes.calls_around(m.send_done_enter)
    receives = nodes.calls_around(np.where(m.recv_enter >= 0, m.recv_enter, m.recv))
    posts = nodes.enter_of(nodes.calls_around(m.recv_post_enter))
    tail = [np.where(sends >= 0, posts, -1)]
    enter = nodes.enter_of(calls)
    location = nodes.location[enter]
    for head, other in ((sends, m.recv_location), (receives, m.send_location)):
        explained = graph.time[head] - graph.weight[head]
        before = latest_before(location, graph.time[enter], other, explained)
        following = np.minimum(before + 1, calls.size - 1)
        is_outside = (before >= 0) & (graph.time[calls[before]] <= explained)
        is_next = (head >= 0) & is_outside & (following > before) & (location[following] == other)
        tail.append(np.where(is_next, enter[following], -1))
    tails, heads = np.concatenate(tail), np.concatenate([sends, sends, receives])
    known = np.flatnonzero(tails >= 0)
    return tails[known], heads[known]


def _of_collectives(model: Model, graph: Graph) -> tuple[Ints, Ints]:
    """Return, for each call in which a process waits for a collective operation, the begin of the last call of the
    operation, of any process, that begins before it ends, and the call itself; (n,) nodes each."""
    nodes, blocking, others = graph.nodes, model.collective_members, model.nonblocking_members
    call = np.where(blocking.on_device, -1, nodes.calls_around(blocking.end))
    starts, completes = nodes.calls_around(others.begin), nodes.calls_around(others.done_enter)
    # operations of both kinds, which are numbered apart
    of_others = 2 * others.operation.astype(np.int64) + 1
    instance = np.concatenate([2 * blocking.collective.astype(np.int64), of_others, of_others])
    call = np.concatenate([call, completes, starts])
    waits = np.arange(call.size) < call.size - starts.size
    known = np.flatnonzero(call >= 0)
    call, instance, waits = call[known], instance[known], waits[known]
    enter = nodes.enter_of(call)
    last = latest_before(instance, graph.time[enter], instance[waits], graph.time[call[waits]])
    return enter[last], call[waits]
