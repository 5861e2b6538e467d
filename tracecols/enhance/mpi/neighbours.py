"""Topologies that a trace does not define, derived from its messages (2004 paper on virtual topologies, section 6).

Only the envelopes of sends and the first receives are read, so that the topology is known before the analysis begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import bounded, ranges
from tracecols.enhance.definitions.communicators import Communicators
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.order import BATCH
from tracecols.enhance.definitions.shapes import Graph, Shape, find_shape
from tracecols.enhance.definitions.topologies import Topology
from tracecols.enhance.mpi.messages import RECEIVES, SENDS
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import side_by_side

N_FIRST = 64
"""Receives of each location from which the order of the dimensions is derived."""

MOST_NEIGHBOURS = 128
"""If processes have more neighbours on average, no topology is searched: all send to all."""


class Channels(NamedTuple):
    """Pairs of processes that exchange messages."""

    source: Ints
    destination: Ints
    """`source` and `destination`: (n,) int64, processes; each pair once, without messages of a process to itself."""
    n_messages: Ints
    n_bytes: Ints
    """`n_messages` and `n_bytes`: (n,) int64, of each pair."""
    receiver: Ints
    sender: Ints
    """`receiver` and `sender`: (n_receives,) int64, processes of the first receives of each location, one location
    after the other."""
    begins: Mask
    """(n_receives,): whether a receive is the first of a location."""


def find_topology(definitions: Definitions, jobs: int = 1) -> Topology | None:
    """Find the topology of the processes of a trace, using `jobs` threads; None if the communication graph has no
    regular shape.

    Processes may be on it in any order. O(n) in the point-to-point events; 60 B per event of a batch and thread.
    """
    channels = read_channels(definitions.store, definitions.process, definitions.communicators, jobs)
    if channels is None or not channels.source.size:
        return None
    master = definitions.locations.master
    process, first = np.unique(definitions.process[master >= 0], return_index=True)
    location = master[master >= 0][first]
    rank = to_numpy(definitions.store.definitions["processes"].column("rank"))[process]
    order = np.lexsort((process, rank))
    process, location = process[order].astype(np.int64), location[order]
    place = np.full(int(max(process.max(), channels.source.max(), channels.destination.max())) + 1, -1, np.int64)
    place[process] = np.arange(process.size)
    shape = find_shape(_graph_of(channels, place))
    return None if shape is None else _topology_of(shape, location, channels, place)


def topology_of(store: Store) -> Topology | None:
    """Find the topology of the processes of a store; None if the store defines one, or the communication graph has no
    regular shape."""
    definitions = Definitions.of(store)
    return find_topology(definitions) if all(t.is_artificial for t in definitions.topologies) else None


def read_channels(
    store: Store, process: NDArray[np.int32], communicators: Communicators, jobs: int = 1
) -> Channels | None:
    """Read the pairs of processes that exchange messages, with `jobs` threads; None if all send to all."""
    n = int(process.max(initial=-1)) + 1
    tallies = [np.zeros((0, 3), np.int64)]
    firsts: list[tuple[Ints, Ints, Mask]] = []
    n_pairs = 0

    def looked_at(batch: tuple[Ints, int, int]) -> tuple[Ints, tuple[Ints, Ints, Mask]]:
        """Return the tally of the sends of a batch; of its first receives: receivers, senders, which begin a
        location."""
        location, rows, is_first = _read(store, *batch)
        own = process[location]
        other = communicators.process_of(rows["communicator"], rows["peer"].astype(np.int64), own)
        sends = np.flatnonzero(SENDS.take(rows["kind"]) & (other >= 0) & (other != own))
        key = own.take(sends).astype(np.int64) * n + other.take(sends)
        tally = _tally(key, np.ones(sends.size, np.int64), rows["length"].take(sends).astype(np.int64))
        receives = np.flatnonzero(RECEIVES.take(rows["kind"]) & (other >= 0) & is_first)
        begins = np.ones(receives.size, bool)
        begins[1:] = location[receives[1:]] != location[receives[:-1]]
        return tally, (own[receives].astype(np.int64), other[receives], begins)

    for tally, first in side_by_side(jobs, looked_at, _batches(store), ahead=jobs):
        tallies.append(tally)
        firsts.append(first)
        n_pairs += len(tally)
        if n_pairs > MOST_NEIGHBOURS * n + BATCH:
            tallies = [_merged(tallies)]
            n_pairs = len(tallies[0])
            if n_pairs > MOST_NEIGHBOURS * n:
                return None
    key, n_messages, n_bytes = _merged(tallies).T
    if key.size > MOST_NEIGHBOURS * n:
        return None
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
    receiver, sender, begins = (np.concatenate(parts) for parts in zip(nothing, *firsts, strict=True))
    return Channels(key // max(n, 1), key % max(n, 1), n_messages, n_bytes, receiver, sender, begins)


def _batches(store: Store) -> Iterator[tuple[Ints, int, int]]:
    """Yield the batches of point-to-point events that are read together, those of each location in order: locations,
    first row, and one past the last row of the longest location."""
    if "p2p" not in store.tables:
        return
    counts = store.counts("p2p")
    filled = np.flatnonzero(counts)
    for group in bounded(counts[filled], BATCH):
        n = int(counts[filled[group]].max())
        yield from ((filled[group], start, min(start + BATCH, n)) for start in range(0, n, BATCH))


def _read(store: Store, locations: Ints, start: int, stop: int) -> tuple[Ints, dict[str, NDArray[np.int32]], Mask]:
    """Read the events of a batch: their locations, their columns, and a mask of the first events of each location."""
    columns = ["kind", "peer", "communicator", "length"]
    if locations.size == 1:
        rows, n = store.read("p2p", int(locations[0]), columns, start, stop), np.array([stop - start])
    else:
        rows, n = store.read_together("p2p", locations, columns)
    at = ranges(start, n)
    # there are two events for each non-blocking receive, and as many for sends
    return np.repeat(locations, n), rows, at < 4 * N_FIRST


def _tally(key: Ints, n_messages: Ints, n_bytes: Ints) -> Ints:
    """Add up messages and bytes by key; (n_keys, 3) int64, unsorted. No kernels: `info` does not load them."""
    keys, number = _numbered(key)
    sums = np.zeros((keys.size, 3), np.int64)
    sums[:, 0] = keys
    np.add.at(sums[:, 1], number, n_messages)
    np.add.at(sums[:, 2], number, n_bytes)
    return sums[sums[:, 1] > 0]


def _numbered(key: Ints) -> tuple[Ints, Ints]:
    """Return keys in ascending order, and the position of each given key; all keys of a range if it is dense."""
    low, high = int(key.min(initial=0)), int(key.max(initial=0))
    if high - low < 4 * key.size:
        return np.arange(low, high + 1), key - low
    return np.unique(key, return_inverse=True)


def _merged(tallies: Sequence[Ints]) -> Ints:
    """Add up tallies; the result is sorted by key."""
    every = np.concatenate(tallies)
    found = _tally(*every.T)
    return found[np.argsort(found[:, 0], kind="stable")]


def _graph_of(channels: Channels, place: Ints) -> Graph:
    """Create the graph of processes that communicate, in either direction; nodes are in the order of ranks."""
    s, d = place[channels.source], place[channels.destination]
    known = np.flatnonzero((s >= 0) & (d >= 0))
    low, high = np.minimum(s, d)[known], np.maximum(s, d)[known]
    n = int(place.max(initial=-1)) + 1
    edges = _merged([np.stack([low * n + high, channels.n_messages[known], channels.n_bytes[known]], axis=1)])
    return Graph(n, edges[:, 0] // n, edges[:, 0] % n, (edges[:, 1], edges[:, 2]))


def _topology_of(shape: Shape, location: Ints, channels: Channels, place: Ints) -> Topology:
    """Create the topology: first threads represent processes, and dimensions are in the order of the receives."""
    dimensions = [*range(len(shape.sizes))]
    if shape.found.is_grid and 1 < len(dimensions) <= 4:
        dimensions = _order_of_receives(shape, channels, place)
    names = (
        ("level", "position") if not shape.found.is_grid else tuple(f"dimension {i}" for i in range(len(dimensions)))
    )
    at = location[shape.node]
    order = np.argsort(at, kind="stable")
    return Topology(
        f"{shape.found.kind} found in messages",
        names,
        tuple(shape.sizes[d] for d in dimensions),
        tuple(shape.periodic[d] for d in dimensions),
        at[order].astype(np.int32),
        shape.coordinates[order][:, dimensions],
        found=shape.found,
    )


def _order_of_receives(shape: Shape, channels: Channels, place: Ints) -> list[int]:
    """Return the dimensions in the order in which a process receives from its neighbours: the order with the fewest
    steps back, since a sweep receives along each dimension once in each block; by default that of the shape."""
    where = np.full(int(place.max()) + 1, -1, np.int64)
    where[shape.node] = np.arange(shape.node.size)
    here, there = (np.append(where, -1)[place[p]] for p in (channels.receiver, channels.sender))
    both = (here >= 0) & (there >= 0)
    apart = shape.coordinates[here] != shape.coordinates[there]
    near = np.flatnonzero(both & (apart.sum(1) == 1))
    along = apart[near].argmax(1)
    of_location = np.cumsum(channels.begins)[near]
    same = of_location[1:] == of_location[:-1]
    n = len(shape.sizes)
    follows = np.bincount((along[:-1] * n + along[1:])[same], minlength=n * n).reshape(n, n)

    def steps_back(order: Iterable[int]) -> int:
        at = list(order)
        return int(np.tril(follows[at][:, at]).sum())

    return list(min(permutations(range(n)), key=steps_back))
