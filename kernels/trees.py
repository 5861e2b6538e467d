"""Merge call trees, and number them depth first."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel
from tracecols.kernels.stacks import find_slot


@kernel
def merge_call_paths(start, at, above, entry, time, place, row, number, merged_parent, merged_entry, chosen, table):
    """Number the call paths of all locations so that those with the same entry below the same parent are merged. Return
    the number of merged call paths.

    Repeats passes over the locations until all are done: a call path may be below one of any other location.

    Parameters
    ----------
    start, at : (n_locations + 1,), (n_locations,) int64
        First call path of each location; where to go on in each, at first the same.
    above : (n,) int64
        Call path above each; -1 for roots. Within a location it comes before those below.
    entry : (n,) int64
    time, place, row : (n,) int64
        Of the first ENTER: the order of events.
    number : (n,) int64
        Filled; -1 before. A number is larger than that of the call path above. An element with a negative entry is not
        a call path, and gets the number of the one above it; -2 if there is none.
    merged_parent, merged_entry, chosen : (n,) int64
        Of the merged call paths: number above, -1 for roots; entry; the earliest of its call paths.
    table : (2 ** k,) int64
        Zeros, at least 2 n.
    """
    n = 0
    again = True
    while again:
        again = False
        for location in range(at.size):
            i = at[location]
            while i < start[location + 1]:
                parent = above[i]
                if parent >= 0:
                    parent = number[parent]
                    if parent == -1:
                        break
                    parent = max(parent, np.int64(-1))
                if entry[i] < 0:
                    number[i] = parent if parent >= 0 else -2
                    i += 1
                    continue
                slot = find_slot(parent, entry[i], merged_parent, merged_entry, table)
                node = table[slot] - 1
                if node < 0:
                    node = n
                    n += 1
                    table[slot] = n
                    merged_parent[node] = parent
                    merged_entry[node] = entry[i]
                    chosen[node] = i
                else:
                    c = chosen[node]
                    if time[i] < time[c] or (
                        time[i] == time[c] and (place[i] < place[c] or (place[i] == place[c] and row[i] < row[c]))
                    ):
                        chosen[node] = i
                number[i] = node
                i += 1
            again |= i > at[location]
            at[location] = i
    return n


@kernel
def number_depth_first(parent, order, size, position, following, depth):
    """Number the nodes of a forest depth first.

    Parameters
    ----------
    parent : (n,) int64
        -1 for roots; less than the node's own number.
    order : (n,) int64
        The nodes by parent, siblings in the order in which they are to be numbered.
    size : (n,) int64
        Ones; becomes the number of nodes of each subtree.
    position, following, depth : (n,) int64, int64, int32
        Filled: the number of each node, one past the last number given out to it or below it so far, and the depth, 0
        for roots.
    """
    for node in range(parent.size - 1, -1, -1):
        if parent[node] >= 0:
            size[parent[node]] += size[node]
    next_root = 0
    for k in range(order.size):
        node = order[k]
        up = parent[node]
        if up < 0:
            position[node] = next_root
            next_root += size[node]
            depth[node] = 0
        else:
            position[node] = following[up]
            following[up] += size[node]
            depth[node] = depth[up] + 1
        following[node] = position[node] + 1


@kernel
def cells_above(call_path, location, parent, latest, key):
    """Find the cells of a call tree that have a value in or below them; O(n) in the number of those found. Return their
    number.

    Parameters
    ----------
    call_path, location : (n,) int32
        Cells that have a value, ordered by location.
    parent : (n_call_paths,) int32
        -1 for roots.
    latest : (n_call_paths,) int32
        -1; the location with which each call path was found last.
    key : (n_found,) int64
        Filled with ``call_path << 32 | location`` as far as there is room: empty to count first.
    """
    n = 0
    for i in range(call_path.size):
        at = np.int64(call_path[i])
        while at >= 0 and latest[at] != location[i]:
            latest[at] = location[i]
            if n < key.size:
                key[n] = at << 32 | location[i]
            n += 1
            at = np.int64(parent[at])
    return n
