"""One call tree for all locations (thesis 3.21 to 3.26): identical paths on different locations are one call path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.columns import pick
from tracecols.enhance.order import EventOrder
from tracecols.enhance.paths import path_names
from tracecols.enhance.regions import Regions
from tracecols.enhance.scan import FOREIGN, LocationScan
from tracecols.kernels import stacks, trees


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
        """Return the paths as text, region names from the root joined by slashes (`path_names`)."""
        return self.paths_of(region_names)

    def paths_of(
        self, region_names: Sequence[str] | NDArray[np.object_], call_paths: Iterable[int] | None = None
    ) -> list[str]:
        """Return the paths of some call paths, without writing out the others."""
        return path_names(self.parent, [region_names[r] for r in self.region.tolist()], call_paths)


def merge_call_paths(
    scans: Sequence[LocationScan], regions: Regions, order_of: EventOrder, process: NDArray[np.int32]
) -> CallPaths:
    """Merge the call paths of all locations: those with the same region, and call site, below the same merged parent are one.

    What stands below the program of its process stands below that of the first location of the process that records one.
    O(n) in the number of call paths of all locations, not of events, and O(m log m) in that of merged ones.

    Parameters
    ----------
    scans : sequence of LocationScan
        Results of the scan, by location.
    regions : Regions
        Regions of the trace.
    order_of : EventOrder
        Order of events across locations.
    process : (n_locations,) int32
        Process of each location.
    """
    nothing = np.zeros(0, np.int64)
    counts = np.array([s.node_parent.size for s in scans], np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    n = int(start[-1])
    location = np.repeat(np.arange(len(scans)), counts)
    local = np.concatenate([nothing, *(s.node_parent for s in scans)])
    entry = np.concatenate([nothing, *(s.node_entry for s in scans)])
    row = np.concatenate([nothing, *(s.node_row for s in scans)])
    time = order_of.time(row, np.concatenate([nothing, *(s.node_time for s in scans)]))
    local = np.where(local == stacks.ROOT_IN_TEAM, -1, local)
    in_program = np.flatnonzero(local == stacks.IN_PROGRAM)
    if in_program.size:
        programs = {
            p: FOREIGN - (i << 32 | scans[i].program)
            for i, p in reversed([*enumerate(process.tolist())])
            if scans[i].program >= 0
        }
        local[in_program] = [programs.get(p, -1) for p in process[location[in_program]].tolist()]
    tie = order_of.tie_order(row)
    code = FOREIGN - local
    above = np.where(
        local >= 0,
        local + start[location],
        np.where(local == -1, -1, start[np.where(local < -1, code >> 32, 0)] + (code & 0xFFFFFFFF)),
    )

    number, parent, merged_entry, chosen = (np.full(n, -1, np.int64) for _ in range(4))
    table = np.zeros(1 << (2 * n).bit_length(), np.int64)
    n_merged = trees.merge_call_paths(
        start, start[:-1].copy(), above, entry, time, tie, row, number, parent, merged_entry, chosen, table
    )
    parent, merged_entry, chosen = parent[:n_merged], merged_entry[:n_merged], chosen[:n_merged]
    siblings = np.lexsort((row[chosen], tie[chosen], time[chosen], parent))
    size, position, following = np.ones(n_merged, np.int64), np.empty(n_merged, np.int64), np.empty(n_merged, np.int64)
    depth = np.empty(n_merged, np.int32)
    trees.number_depth_first(parent, siblings, size, position, following, depth)

    order = np.empty(n_merged, np.int64)
    order[position] = np.arange(n_merged)
    # call paths in the order in which they are met first
    met = np.full(n_merged, n, np.int64)
    met[position[number[::-1]]] = np.arange(n)[::-1]
    entered = merged_entry[order]
    return CallPaths(
        pick(position, parent[order]).astype(np.int32),
        regions.of_entry[entered],
        np.where(entered >= len(regions), entered - len(regions), -1).astype(np.int32),
        depth[order],
        row[chosen[order]],
        np.arange(n_merged) + size[order],
        np.argsort(met),
        [position[number[a:b]] for a, b in pairwise(start)],
    )
