"""Graphs with the rules of a simulator in place of what was recorded: who waits in collective operations, in calls that
manage communicators, at the end of MPI, and for the receivers of large messages.

They are for an ideal network: the waits were none in the recorded run, so that they have no part in weights, and no
lag.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.edges import EdgeCollector, Edges
from tracecols.errors import AnalysisError
from tracecols.model.model import Model
from tracecols.replay.graph import Graph, synchronised
from tracecols.replay.nodes import NodeClass

WAITS_FOR_NOBODY = ("mpi_finalize", "mpi_comm_", "mpi_cart_")
"""Calls of MPI that wait for nobody in Dimemas, by how their names begin."""


def simulated(model: Model, graph: Graph, is_dimemas: bool, eager: int | None) -> Graph:
    """Return the graph with other rules.

    Parameters
    ----------
    is_dimemas : bool
        Everybody waits for all in blocking collective operations but Reduce, and nobody in `WAITS_FOR_NOBODY`.
    eager : int, optional
        Bytes from which on a message waits for its receive to be posted, that of MPI_Sendrecv, too; smaller ones do not.
        By default senders wait as the recorded times tell.

    Raises
    ------
    AnalysisError
        If the program relies on operations that do not wait.
    """
    result = synchronised(model, graph) if is_dimemas else graph
    if is_dimemas:
        result = _without(result, _touches(result, _silent_nodes(model, graph)))
    if eager is None:
        return result
    return _with_rendezvous(model, _without(result, _late_receivers(result)), eager)


def _silent_nodes(model: Model, graph: Graph) -> NDArray[np.bool_]:
    """Say which nodes are begin or end of a call that waits for nobody; (n_all,) bool."""
    nodes = graph.nodes
    silent = np.array([name.startswith(WAITS_FOR_NOBODY) for name in model.regions.lower], bool)
    calls = np.flatnonzero(silent[nodes.call_region]) if nodes.call_region.size else np.zeros(0, np.int64)
    return np.asarray(np.isin(np.arange(len(nodes)), [nodes.call_enter[calls], nodes.call_exit[calls]]), bool)


def _touches(graph: Graph, nodes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which edges end or begin at some nodes."""
    every = np.append(nodes, np.zeros(graph.time.size - nodes.size, bool))
    result: NDArray[np.bool_] = every[graph.edges.tail] | every[graph.edges.head]
    return result


def _late_receivers(graph: Graph) -> NDArray[np.bool_]:
    """Say which edges were concluded from the times of a send that lasts until its receive is posted."""
    kind = np.append(graph.nodes.kind, np.zeros(graph.n_hubs, np.int8))
    result: NDArray[np.bool_] = graph.edges.is_inferred & (kind[graph.edges.head] == NodeClass.POINT_TO_POINT)
    return result


def _without(graph: Graph, dropped: NDArray[np.bool_]) -> Graph:
    """Return a graph without some edges; weights and the lags of others stay."""
    kept = ~dropped
    result = Graph(graph.nodes, graph.edges.where(kept), graph.n_hubs, graph.time, graph.counts)
    result.lag, result.weight = graph.lag[kept], graph.weight
    return result


def _with_rendezvous(model: Model, graph: Graph, eager: int) -> Graph:
    """Let calls that complete the sends of large messages wait for the calls that post their receives."""
    m, nodes = model.sent_messages, graph.nodes
    post, done = nodes.calls_around(m.recv_post_enter), nodes.calls_around(m.send_done_enter)
    at = np.flatnonzero((m.length >= eager) & (post >= 0) & (done >= 0))
    found = EdgeCollector(graph.time.size)
    found.add(nodes.call_enter[post[at]], nodes.call_exit[done[at]])
    more = found.edges()
    edges = Edges(
        *(np.concatenate([getattr(e, name) for e in (graph.edges, more)]) for name in Edges.__dataclass_fields__)
    )
    result = Graph(nodes, edges, graph.n_hubs, graph.time, graph.counts)
    result.lag = np.concatenate([graph.lag, np.zeros(len(more), np.int64)])
    result.weight = graph.weight
    if (result._swept()[1] >= 0).any():
        raise AnalysisError(
            f"messages of {eager:,} bytes and more cannot wait for their receives in this trace: some process receives only after its own send\n"
            "  give a larger limit for eager messages"
        )
    return result
