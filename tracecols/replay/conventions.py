"""The rules that a replay follows: as recorded, or those of a simulator for waits in collective operations, in calls
that manage communicators, at the end of MPI, and for the receivers of large messages.

The rules of a simulator are for an ideal network: these waits did not occur in the recorded run, so they have no part
in weights, and no lag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tracecols.enhance.dataflow.edges import EdgeCollector
from tracecols.errors import AnalysisError
from tracecols.kernels.maxplus import BEGINS, ENDS
from tracecols.kernels.replay import IS_CALL
from tracecols.model.model import Model
from tracecols.replay.events import Computation, regions_of_calls
from tracecols.replay.graph import Graph, lags_among, synchronised
from tracecols.replay.nodes import NodeClass
from tracecols.vectors import Mask

WAITS_FOR_NOBODY = ("mpi_finalize", "mpi_comm_", "mpi_cart_")
"""Calls of MPI that do not wait in Dimemas, by the begin of their names."""

RECORDED, DIMEMAS = COLLECTIVES = ("recorded", "dimemas")
"""Rules for waits in collective operations."""


class Conventions(NamedTuple):
    """The rules that a replay follows."""

    collectives: str = RECORDED
    """`dimemas`: all participants wait for all in blocking collective operations but Reduce, and none in
    `WAITS_FOR_NOBODY`; or `recorded`."""
    eager: int | None = None
    """Bytes from which on a message waits for its receive to be posted, that of MPI_Sendrecv, too; smaller ones do not.
    By default senders wait where the recorded times show that they did."""
    whole_run: bool = False
    """The runtime is that of the whole recording, not that between MPI_Init and MPI_Finalize."""

    @property
    def is_simulated(self) -> bool:
        """Whether waits follow the rules of a simulator."""
        return self.collectives == DIMEMAS or self.eager is not None


AS_RECORDED = Conventions()


def with_conventions(model: Model, graph: Graph, computation: Computation, conventions: Conventions) -> Graph:
    """Return the graph with the rules of some conventions. Raises AnalysisError if the program relies on operations
    that do not wait."""
    if conventions.collectives == DIMEMAS:
        graph = synchronised(model, graph)
        is_silent = _silent_nodes(model, graph, computation)
        graph = _without(graph, is_silent[graph.edges.tail] | is_silent[graph.edges.head])
    if conventions.eager is not None:
        graph = _with_rendezvous(model, _without(graph, _late_receivers(graph)), conventions.eager)
    if conventions.whole_run:
        graph = replace(graph, nodes=replace(graph.nodes, mark=graph.nodes.mark | np.uint8(BEGINS | ENDS)))
    return graph


def _silent_nodes(model: Model, graph: Graph, computation: Computation) -> Mask:
    """Return a mask of the nodes and hubs that are begin or end of a call that does not wait; (n_all,) bool."""
    nodes, result = graph.nodes, np.zeros(graph.time.size, bool)
    silent = np.array([*(name.startswith(WAITS_FOR_NOBODY) for name in model.regions.lower), False], bool)
    calls = nodes.with_role(IS_CALL)
    calls = calls[silent[regions_of_calls(model, calls, computation)]]
    result[calls] = result[nodes.enter_of(calls)] = True
    return result


def _late_receivers(graph: Graph) -> Mask:
    """Return a mask of the edges inferred from the times of a send that lasts until its receive is posted."""
    kind = np.append(graph.nodes.kind, np.zeros(graph.n_hubs, np.int8))
    return graph.edges.is_inferred & (kind[graph.edges.head] == NodeClass.POINT_TO_POINT)


def _without(graph: Graph, dropped: Mask) -> Graph:
    """Return a graph without some edges; weights and the lags of others stay."""
    return replace(graph, edges=graph.edges.where(~dropped), lag=graph.lags[~dropped])


def _with_rendezvous(model: Model, graph: Graph, eager: int) -> Graph:
    """Let calls that complete the sends of large messages wait for the calls that post their receives."""
    m, nodes = model.sent_messages, graph.nodes
    post, done = nodes.calls_around(m.recv_post_enter), nodes.calls_around(m.send_done_enter)
    at = np.flatnonzero((m.length >= eager) & (post >= 0) & (done >= 0))
    found = EdgeCollector(len(nodes))
    found.hubs(graph.n_hubs)
    found.add_edges(graph.edges)
    found.add(nodes.enter_of(post[at]), done[at])
    edges = found.edges()
    result = replace(graph, edges=edges, lag=lags_among(graph, edges))
    if result.stuck.any():
        raise AnalysisError(
            f"messages of {eager:,} bytes and more cannot wait for their receives in this trace: some process "
            "receives only after its own send\n"
            "  give a larger limit for eager messages"
        )
    return result
