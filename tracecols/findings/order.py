"""Messages that are received in another order than they are sent, although the program could continue with whichever
comes first."""

from __future__ import annotations

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import combine
from tracecols.enhance.scan.region_rules import named
from tracecols.findings.cause import Cause, tried
from tracecols.findings.overheads import largest, message_edges
from tracecols.findings.scenarios import Change, Scenarios
from tracecols.vectors import Ints

RECEIVE = named("mpi_recv", "mpi")
"""Calls that receive one message, so that their order is the program's."""


def of_order(s: Scenarios) -> list[Cause]:
    """Return the gains of receiving messages in the order in which they are sent, by region, as causes."""
    nodes, n = s.graph.nodes, len(s.graph.nodes)
    receives = np.zeros(n, bool)
    receives[s.calls[np.append(RECEIVE(s.model.regions), False)[s.call_region]]] = True
    edge = message_edges(s)
    edge = edge[receives[s.graph.edges.head[edge]]]
    heads = s.graph.edges.head[edge].astype(np.int64)
    edge = edge[np.bincount(heads, minlength=n)[heads] == 1]
    heads = s.distinct(heads)
    found = []
    for where, of, family in largest(s, heads, s.recorded_losses[heads]):
        mine = edge[np.isin(s.graph.edges.head[edge], of)]
        moved, to = _in_order_of_sending(s, mine)
        if moved.size:
            who = distinct(nodes.location[to]).astype(np.int64)
            evidence = family | {"n_moved": int(moved.size), "n_received": int(mine.size)}
            found.append(
                Cause("order", where, who if who.size == 1 else who[:0], Change(moved=moved, to=to), evidence=evidence)
            )
    return tried(s, found)


def _in_order_of_sending(s: Scenarios, edge: Ints) -> tuple[Ints, Ints]:
    """Return the edges of messages that would be received by another call, and the nodes of these calls: in each round,
    the first call receives the message sent first.

    In a round a location receives one message of each sender, or several that the sender has sent in another order
    (with other tags)."""
    nodes = s.graph.nodes
    head, tail = (of[edge].astype(np.int64) for of in (s.graph.edges.head, s.tail))
    by_head = np.argsort(head, kind="stable")
    edge, head, tail = edge[by_head], head[by_head], tail[by_head]
    location = nodes.location[head].astype(np.int64)
    turn = _rounds(combine(location, nodes.location[tail].astype(np.int64)), s.time[tail])
    # locations with overlapping rounds are left out
    goes_on = location[1:] == location[:-1]
    overlap = distinct(location[1:][goes_on & (turn[1:] < turn[:-1])])
    kept = ~np.isin(location, overlap)
    edge, head, tail, location, turn = (of[kept] for of in (edge, head, tail, location, turn))
    by_sending = np.lexsort((s.time[tail], turn, location))
    is_moved = by_sending != np.arange(by_sending.size)
    return edge[by_sending][is_moved], head[is_moved]


def _rounds(pair: Ints, sent: Ints) -> Ints:
    """Number the rounds of each pair of receiver and sender, given messages in the order of receiving and when they are
    sent: the shortest runs of messages that have been sent right after each other, in whichever order."""
    by_receiving, by_sending = np.argsort(pair, kind="stable"), np.lexsort((sent, pair))
    number_of = np.empty(pair.size, np.int64)
    number_of[by_sending] = np.arange(pair.size)
    # a round ends where as many messages have been received as were sent until then
    ends = np.maximum.accumulate(number_of[by_receiving]) == np.arange(pair.size)
    result = np.empty(pair.size, np.int64)
    result[by_receiving] = np.cumsum(ends) - ends
    _, first = np.unique(pair, return_index=True)
    return result - result[first][np.unique(pair, return_inverse=True)[1]]
