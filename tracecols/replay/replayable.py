"""A trace as a dependency graph: the graph, computation, and runtimes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.kernels.maxplus import BEGINS, ENDS
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.cell_sums import CellSums, sum_by_cell
from tracecols.replay.conventions import AS_RECORDED, Conventions, with_conventions
from tracecols.replay.events import Computation, find_computation, without_waiting_in
from tracecols.replay.graph import Graph, GraphBuilder, find_graph
from tracecols.replay.nodes import Nodes
from tracecols.schema.enums import NCCL
from tracecols.search.choice import choose
from tracecols.vectors import Ints, Mask


class Replayable:
    """A trace as a dependency graph, to be swept with other weights.

    The model is of the whole trace, perhaps divided into periods. Memory grows with nodes (MPI calls, barriers, forks,
    locks): about 50 B for each, with its edges. Nodes and edges are those that an analysis has `found`; otherwise they
    are found when first needed, partition by partition, as in an analysis.
    """

    def __init__(self, model: Model, found: GraphBuilder | None = None) -> None:
        self.model, self._given = model, found

    @once
    def _found(self) -> GraphBuilder:
        """Nodes and edges."""
        return find_graph(self.model) if self._given is None else self._given

    @property
    def call_paths(self) -> CallPaths:
        """The call paths of the whole time, on which computation is counted."""
        return self.model.call_paths.whole

    @property
    def nodes(self) -> Nodes:
        """The nodes of the graph."""
        return self._found.nodes

    def __repr__(self) -> str:
        return f"<Replay of {self.model.facts.store.path.name}: {len(self.nodes):,} nodes>"

    @once
    def graph(self) -> Graph:
        """The dependency graph, built when first needed."""
        return self._found.graph()

    @property
    def counts(self) -> dict[str, int]:
        """Counts of what the replay does not know, by description."""
        return self.graph.counts

    @once
    def computation(self) -> Computation:
        """The computation before each node, by call path."""
        found = self._found
        computation = found.computation if found.with_computation else find_computation(self.model, found.nodes)
        waits = (self.model.regions.paradigm == NCCL)[self.call_paths.region]
        if not waits.any():
            return computation
        return without_waiting_in(computation, waits, self.graph.weight[: len(found.nodes)])

    @once
    def call_path(self) -> NDArray[np.int32]:
        """The call path in which the time before each node is spent; (n_nodes,) int32, -1 for none.

        A thread that begins in a team has no call path before: that time belongs to the one that follows.
        """
        nodes, result = self.nodes, self.computation.before_node.copy()
        nowhere = np.flatnonzero((result[:-1] < 0) & ~nodes.is_first[1:])
        result[nowhere] = result[nowhere + 1]
        return result

    @once
    def cell_sums(self) -> CellSums:
        """The computation by call path and location."""
        n = len(self.nodes)
        return sum_by_cell(self.computation, self.nodes, np.ones(n, bool), len(self.call_paths))

    def computation_of(self, call_paths: Mask) -> NDArray[np.float64]:
        """Return the ticks of computation on some call paths by location; (n_locations,) float64."""
        c = self.cell_sums
        some = call_paths[c.call_path]
        return np.bincount(c.location[some], c.ticks[some], self.model.n_locations).astype(np.float64)

    def window(self, time: Ints, whole_run: bool = False) -> tuple[int, int]:
        """Return the begin and the end of the runtime, in ticks."""
        mark = self.nodes.mark
        if not mark.size:
            return 0, 0
        if whole_run:
            return int(time.min()), int(time.max())
        return int(time[mark & BEGINS > 0].min()), int(time[mark & ENDS > 0].max())

    def runtime(self, time: Ints, whole_run: bool = False) -> int:
        """Return the runtime of some times of the nodes, in ticks."""
        begin, end = self.window(time, whole_run)
        return end - begin

    def call_paths_of(self, region: str) -> Mask:
        """Select the call paths in a region: those that enter it and what these call. Raises AnalysisError if nothing
        has this name."""
        n = len(self.call_paths)
        choice = choose(None, None, region, None)
        return choice.mask(self.model, np.arange(n, dtype=np.int32), np.zeros(n, np.int32))

    @once
    def _graphs(self) -> dict[Conventions, Graph]:
        """The graphs made so far, by the conventions that they follow."""
        return {}

    def graph_of(self, conventions: Conventions) -> Graph:
        """Return the graph by the rules of some conventions."""
        if conventions == AS_RECORDED:
            return self.graph
        if conventions not in self._graphs:
            self._graphs[conventions] = with_conventions(self.model, self.graph, self.computation, conventions)
        return self._graphs[conventions]
