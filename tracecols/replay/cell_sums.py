"""Computation before the nodes of a replay by cell, a call path at a location: few numbers for many rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels import computed as kernels
from tracecols.replay.events import Computation
from tracecols.replay.nodes import Nodes
from tracecols.vectors import Ints, Mask


class CellSums(NamedTuple):
    """Ticks of computation by cell, ordered by call path, then by location."""

    rows: kernels.Rows
    """The rows that are added up."""
    n_call_paths: int
    order: Ints
    """(n,): number of each cell in the order of first rows."""
    call_path: Ints
    location: Ints
    n_rows: Ints
    ticks: Ints
    """`call_path`, `location`, `n_rows` and `ticks`: (n,)"""

    def parts(self, part: NDArray[np.float64]) -> tuple[Ints, Ints]:
        """Return the nodes before which there is a part of a cell, and the ticks of it; `part` is by cell; (n_nodes,)
        int64 each."""
        by_order = np.empty(self.order.size)
        by_order[self.order] = part
        n_nodes = self.rows.location.size
        node, less = np.empty(n_nodes, np.int64), np.empty(n_nodes)
        n = kernels.take_parts(self.rows, by_order, np.full(self.n_call_paths, -1, np.int64), node, less)
        return node[:n].copy(), np.rint(less[:n]).astype(np.int64)


def sum_by_cell(computation: Computation, nodes: Nodes, chosen: Mask, n_call_paths: int) -> CellSums:
    """Add up the rows before chosen nodes by cell; O(rows)."""
    c = computation
    rows = kernels.Rows(c.start, nodes.location, chosen, c.call_path, c.ticks)
    # memory that is not written takes no pages
    most = c.ticks.size
    call_path, location = np.empty(most, np.int32), np.empty(most, np.int32)
    found = kernels.FoundCells(call_path, location, np.empty(most, np.int64), np.empty(most, np.int64))
    n = kernels.add_cells(rows, np.full(n_call_paths, -1, np.int64), found)
    order = np.lexsort((location[:n], call_path[:n]))
    return CellSums(rows, n_call_paths, order, *(of[order].astype(np.int64) for of in found))
