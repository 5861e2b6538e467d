"""Rows of computation, several before each node of a replay, by call path: one pass over them for each question.

Rows are in the order of nodes: by location, then by time. A cell is a call path at a location; cells are numbered in
the order of their first rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel


class Rows(NamedTuple):
    """Rows of computation, and which of them count."""

    start: NDArray[np.int32]
    """(n_nodes + 1,): first row of every node."""
    location: NDArray[np.int32]
    """(n_nodes,)"""
    chosen: NDArray[np.bool_]
    """(n_nodes,): nodes whose rows count."""
    call_path: NDArray[np.int32]
    """(n,)"""
    ticks: NDArray[np.int64]
    """(n,)"""


class FoundCells(NamedTuple):
    """Cells, at most as many as rows."""

    call_path: NDArray[np.int32]
    location: NDArray[np.int32]
    n_rows: NDArray[np.int64]
    ticks: NDArray[np.int64]


@kernel
def add_cells(rows, last, cells):
    """Add up rows by cell, and return the number of cells; O(rows).

    Parameters
    ----------
    rows : Rows
    last : (n_call_paths,) int64
        The last cell of each call path, -1 before.
    cells : FoundCells
        Result.
    """
    n, first, here = 0, 0, -1
    for v in range(rows.location.size):
        if not rows.chosen[v]:
            continue
        if rows.location[v] != here:
            here, first = rows.location[v], n
        for i in range(rows.start[v], rows.start[v + 1]):
            p = rows.call_path[i]
            if last[p] < first:
                last[p] = n
                cells.call_path[n], cells.location[n], cells.n_rows[n], cells.ticks[n] = p, here, 0, 0
                n += 1
            cells.n_rows[last[p]] += 1
            cells.ticks[last[p]] += rows.ticks[i]
    return n


@kernel
def take_parts(rows, part, last, node, less):
    """Add up a part of the ticks of each row by node, and return the number of nodes for which that is not zero.

    Parameters
    ----------
    rows : Rows
        The same as for `add_cells`.
    part : (n_cells,) float64
    last : (n_call_paths,) int64
        As for `add_cells`.
    node : (n_nodes,) int64
    less : (n_nodes,) float64
        Results.
    """
    n, first, here, n_found = 0, 0, -1, 0
    for v in range(rows.location.size):
        if not rows.chosen[v]:
            continue
        if rows.location[v] != here:
            here, first = rows.location[v], n
        total = 0.0
        for i in range(rows.start[v], rows.start[v + 1]):
            p = rows.call_path[i]
            if last[p] < first:
                last[p] = n
                n += 1
            total += part[last[p]] * rows.ticks[i]
        if total != 0:
            node[n_found], less[n_found] = v, total
            n_found += 1
    return n_found


@kernel
def collect_rows(rows, first, of_path, at, node, ticks):
    """Collect the rows of several sets of call paths, each in the order of rows.

    Parameters
    ----------
    rows : Rows
    first : (n_call_paths + 1,) int64
        Where the sets that a call path is in begin in `of_path`.
    of_path : (n,) int64
        The sets, by call path.
    at : (n_sets,) int64
        Where the rows of each set begin in the results; overwritten.
    node : (n_found,) int32
    ticks : (n_found,) int64
        Results, set by set.
    """
    for v in range(rows.location.size):
        if not rows.chosen[v]:
            continue
        for i in range(rows.start[v], rows.start[v + 1]):
            p = rows.call_path[i]
            for j in range(first[p], first[p + 1]):
                k = of_path[j]
                node[at[k]], ticks[at[k]] = v, rows.ticks[i]
                at[k] += 1


@kernel
def compare_pieces(rows, head, first, where, seen, most, total):
    """Compare the k-th rows of all locations, for each of several sets of call paths.

    Parameters
    ----------
    rows : Rows
    head : (n_call_paths,) int32
        The set that a call path is in; -1 for none.
    first : (n_sets,) int64
        Where the pieces of each set begin in the results.
    where : (n_sets,) int32
        Scratch; -1.
    seen : (n_sets,) int64
        Scratch: number of rows so far of the current location.
    most, total : (n_pieces,) int64
        Results, initially zeros: the most ticks that a location has, and the sum of all locations.
    """
    for v in range(rows.location.size):
        if not rows.chosen[v]:
            continue
        for i in range(rows.start[v], rows.start[v + 1]):
            h = head[rows.call_path[i]]
            if h < 0:
                continue
            if where[h] != rows.location[v]:
                where[h], seen[h] = rows.location[v], 0
            k = first[h] + seen[h]
            seen[h] += 1
            most[k] = max(most[k], rows.ticks[i])
            total[k] += rows.ticks[i]
