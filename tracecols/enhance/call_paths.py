"""One call tree for all locations (thesis 3.21 to 3.26): identical paths on different locations are one call path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine
from tracecols.enhance.order import EventOrder
from tracecols.enhance.paths import path_names
from tracecols.enhance.regions import Regions
from tracecols.enhance.scan import FOREIGN, LocationScan
from tracecols.kernels import stacks


@dataclass
class CallPaths:
    """The merged call tree, in depth-first order; siblings in the order they were first visited.

    Attributes
    ----------
    parent : (n,) int32
        -1 for roots.
    region : (n,) int32
    call_site : (n,) int32
        Where the region is called; -1 not known.
    depth : (n,) int32
        0 for roots.
    representative : (n,) int64
        Row of the least recent ENTER with this call path (cnodeptr, thesis 3.26); ties go to the lower location.
    end : (n,) int64
        One past the last call path below; the subtree of i is i .. end[i] - 1.
    creation : (n,) int64
        All call paths in the order they are met when going through the locations one after the other.
    numbers : list of (n_location,) int64
        By location: number of each of its own call paths.
    """

    parent: NDArray[np.int32]
    region: NDArray[np.int32]
    call_site: NDArray[np.int32]
    depth: NDArray[np.int32]
    representative: NDArray[np.int64]
    end: NDArray[np.int64]
    creation: NDArray[np.int64]
    numbers: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return self.parent.size

    def names(self, region_names: Sequence[str]) -> list[str]:
        """Return the paths as text, region names from the root joined by slashes; long ones are shortened (`path_names`)."""
        return path_names(self.parent, [region_names[r] for r in self.region.tolist()])


def merge_call_paths(scans: Sequence[LocationScan], regions: Regions, order_of: EventOrder) -> CallPaths:
    """Merge the call paths of all locations.

    Level by level from the roots: call paths with the same region, and call site, below the same merged parent are one.
    O(n log n) in the number of call paths of all locations, not of events.
    """
    counts = np.array([s.node_parent.size for s in scans], np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    n = int(start[-1])
    location = np.repeat(np.arange(len(scans)), counts)
    local = np.concatenate([s.node_parent for s in scans]) if scans else np.zeros(0, np.int64)
    region = np.concatenate([s.node_entry for s in scans]).astype(np.int64) if scans else local
    row = np.concatenate([s.node_row for s in scans]) if scans else local
    time = np.concatenate([s.node_time for s in scans]) if scans else local
    local = np.where(local == stacks.ROOT_IN_TEAM, -1, local)
    place = order_of.place(row)
    code = FOREIGN - local
    above = np.where(
        local >= 0,
        local + start[location],
        np.where(local == -1, -1, start[np.where(local < -1, code >> 32, 0)] + (code & 0xFFFFFFFF)),
    )

    # children of every call path, to go down level by level
    by_parent = np.argsort(above, kind="stable")
    first = np.searchsorted(above[by_parent], np.arange(-1, n))
    last = np.searchsorted(above[by_parent], np.arange(-1, n), "right")
    number = np.full(n, -1, np.int64)
    parents, entries, rows, places, times, levels = [], [], [], [], [], []
    level = by_parent[first[0] : last[0]]
    n_merged = 0
    while level.size:
        up = np.where(above[level] >= 0, number[above[level]], -1)
        key = combine(up + 1, region[level])
        # the least recent of each group comes first
        order = np.lexsort((row[level], place[level], time[level], key))
        ordered = key[order]
        is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        group = np.cumsum(is_first) - 1
        number[level[order]] = n_merged + group
        chosen = level[order[is_first]]
        parents.append(up[order[is_first]])
        entries.append(region[chosen])
        rows.append(row[chosen])
        places.append(place[chosen])
        times.append(time[chosen])
        levels.append(np.arange(n_merged, n_merged + chosen.size))
        n_merged += chosen.size
        spans = last[level + 1] - first[level + 1]
        ends = np.cumsum(spans)
        level = by_parent[np.repeat(first[level + 1], spans) + np.arange(ends[-1]) - np.repeat(ends - spans, spans)]
    if not n_merged:
        empty = np.zeros(0, np.int64)
        return CallPaths(
            empty.astype(np.int32),
            empty.astype(np.int32),
            empty.astype(np.int32),
            empty.astype(np.int32),
            empty,
            empty,
            empty,
            [empty for _ in scans],
        )
    parent, entry, merged_row, merged_place, merged_time = (
        np.concatenate(v) for v in (parents, entries, rows, places, times)
    )

    # depth-first numbers: sizes from the leaves up, positions from the roots down
    size = np.ones(n_merged, np.int64)
    for members in reversed(levels[1:]):
        np.add.at(size, parent[members], size[members])
    position = np.zeros(n_merged, np.int64)
    depth = np.zeros(n_merged, np.int32)
    for d, members in enumerate(levels):
        order = members[np.lexsort((merged_row[members], merged_place[members], merged_time[members], parent[members]))]
        before = np.cumsum(size[order]) - size[order]
        up = parent[order]
        is_first = np.concatenate([[True], up[1:] != up[:-1]])
        within = before - np.repeat(before[is_first], np.diff(np.append(np.flatnonzero(is_first), order.size)))
        position[order] = within + (np.where(up >= 0, position[up] + 1, 0))
        depth[members] = d
    met = np.full(n_merged, n, np.int64)
    np.minimum.at(met, position[number], np.arange(n))
    order = np.argsort(position)
    return CallPaths(
        np.where(parent[order] >= 0, position[parent[order]], -1).astype(np.int32),
        regions.of_entry[entry[order]],
        np.where(entry[order] >= len(regions), entry[order] - len(regions), -1).astype(np.int32),
        depth[order],
        merged_row[order],
        np.arange(n_merged) + size[order],
        np.argsort(met),
        [position[number[a:b]] for a, b in pairwise(start)],
    )
