"""Regular shapes of communication graphs: lines, rings, grids and tori of up to four dimensions, hypercubes, stars,
trees.

The search first assumes the order of the nodes (a grid numbered row by row, a tree numbered level by level) and
tolerates some missing or additional edges. Then it tries any order, and the graph has to be exactly the shape. The
doubt about a shape is the probability that a random graph with as many edges fits as well: two processes that
communicate are always a line, and three of them often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.vectors import Ints, Mask, offsets_of

N_DIMENSIONS = 4
"""Maximum number of dimensions of a grid; hypercubes may have more."""

PRESENT = 0.8
"""Minimum fraction of the edges of a shape that the graph has, if its nodes are in order; also the minimum fraction of
wrap-around edges for a dimension to be periodic."""

EXPLAINED = 0.9
"""Minimum fraction of the edges of the graph that are edges of the shape."""

LEAST_IN_ORDER, LEAST = 0.75, 0.95
"""Minimum confidence of a shape if the nodes are in its order, and if they are in any order."""

GAP = 4.0
"""Minimum ratio between weights that separates the edges of a shape from others, such as those of a reduction."""

N_GAPS = 3
"""Maximum number of such gaps that are tried."""

MOST_PAIRS = 1 << 22
"""Maximum number of pairs of edges with a common node: 4-D tori of 10^5 nodes have 2.8 x 10^6."""

ARITY = range(2, 9)
"""Numbers of children per node that are tried for trees whose nodes are in order."""


class Graph(NamedTuple):
    """An undirected graph without loops."""

    n: int
    """Number of nodes."""
    a: Ints
    b: Ints
    """`a` and `b`: (n_edges,) int64, ends of each edge, `a < b`; each pair once."""
    weights: tuple[Ints, ...]
    """tuple of (n_edges,) int64: weight of each edge, in several units."""


class Found(NamedTuple):
    """Description of a shape that was found."""

    kind: str
    """line, ring, grid, torus, hypercube, star or tree."""
    confidence: float
    """1 minus the probability that a random graph with as many edges has this shape."""
    explained: float
    """Fraction of the weight of all edges (messages, or their bytes) that is on edges of the shape."""

    @property
    def is_grid(self) -> bool:
        """Whether neighbours are nodes whose coordinates differ by one."""
        return self.kind not in ("star", "tree")


class Shape(NamedTuple):
    """A shape that was found."""

    found: Found
    sizes: tuple[int, ...]
    periodic: tuple[bool, ...]
    """`sizes` and `periodic`: of each dimension; those of stars and trees are level and position in the level."""
    node: Ints
    """(n,) int64: nodes of the shape, ascending."""
    coordinates: Ints
    """(n, n_dimensions) int64: coordinates of the nodes."""


class _Fit(NamedTuple):
    """A candidate shape of `n` nodes with `n_edges` edges, of which the graph has the edges `used`; `copies` is the
    logarithm of the number of graphs that would be accepted as this shape."""

    kind: str
    sizes: tuple[int, ...]
    periodic: tuple[bool, ...]
    coordinates: Ints
    used: Mask
    n_edges: int
    copies: float

    @property
    def is_close(self) -> bool:
        """Whether few edges are missing or additional."""
        k = int(self.used.sum())
        return k >= PRESENT * self.n_edges and k >= EXPLAINED * self.used.size

    @property
    def likeness(self) -> float:
        """Similarity of the graph and the shape; 1 if they are equal."""
        return 2 * float(self.used.sum()) / (self.used.size + self.n_edges)


def find_shape(graph: Graph) -> Shape | None:
    """Find the shape of a graph; None if no shape can be distinguished from a random graph.

    The shape may be that of the edges with large weights. O(n_edges log n_edges); no array has n x n elements.
    """
    subsets = list(_edge_sets(graph))
    for search, least in ((_in_order, LEAST_IN_ORDER), (_in_any_order, LEAST)):
        found: list[tuple[tuple[float, ...], Shape]] = []
        for unit, chosen in subsets:
            node = distinct(np.concatenate([graph.a[chosen], graph.b[chosen]]))
            a, b = np.searchsorted(node, graph.a[chosen]), np.searchsorted(node, graph.b[chosen])
            for fit in search(node.size, a, b):
                confidence = 1 - min(1.0, len(subsets) * _chance(node.size, fit)) if fit.is_close else 0.0
                weight = graph.weights[unit]
                explained = float(weight[chosen][fit.used].sum() / weight.sum())
                if confidence >= least and explained >= 0.5:
                    of = Found(fit.kind, confidence, explained)
                    rank = (round(fit.likeness, 6), node.size, -len(fit.sizes), of.is_grid, explained)
                    found.append((rank, Shape(of, fit.sizes, fit.periodic, node, fit.coordinates)))
        if found:
            return max(found, key=lambda one: one[0])[1]
    return None


def _edge_sets(graph: Graph) -> Iterator[tuple[int, Mask]]:
    """Yield masks of all edges, and of sets of edges with much larger weights than the others if these have 90 % of the
    nodes; each with the number of the unit of weight."""
    every = np.ones(graph.a.size, bool)
    if graph.a.size:
        yield 0, every
    n_nodes = distinct(np.concatenate([graph.a, graph.b])).size
    for unit, weight in enumerate(graph.weights):
        values = distinct(weight)
        ratio = values[1:] / np.maximum(values[:-1], 1)
        for at in np.argsort(-ratio, kind="stable")[:N_GAPS].tolist():
            chosen = weight >= values[at + 1]
            kept = distinct(np.concatenate([graph.a[chosen], graph.b[chosen]])).size
            if ratio[at] >= GAP and kept >= 0.9 * n_nodes:
                yield unit, chosen


# -- confidence in a shape ---------------------------------------------------------------------------------------------


def _ln_choose(n: float, k: float) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _chance(n: int, fit: _Fit) -> float:
    """Return the probability that a random graph with as many edges has as many edges of the shape: the tail of the
    hypergeometric distribution, times the number of shapes that would be accepted."""
    pairs, g, m, k = n * (n - 1) // 2, fit.n_edges, fit.used.size, int(fit.used.sum())
    if k * pairs <= g * m:
        return 1.0
    tail = _ln_choose(g, k) + _ln_choose(pairs - g, m - k) - _ln_choose(pairs, m) + math.log(min(g, m) - k + 1)
    return math.exp(min(0.0, tail + fit.copies))


# -- nodes in the order of the shape -----------------------------------------------------------------------------------


def factorizations(n: int, most: int = N_DIMENSIONS) -> Iterator[tuple[int, ...]]:
    """Yield the ordered factorizations of a number into at most `most` factors; no factor is 1."""
    if n > 1:
        yield (n,)
    if most > 1:
        for first in _divisors(n):
            for others in factorizations(n // first, most - 1):
                yield (first, *others)


def _divisors(n: int) -> list[int]:
    """Return the divisors of a number except 1 and itself."""
    low = [d for d in range(2, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)})


def _n_edges(sizes: Sequence[int], periodic: Sequence[bool]) -> int:
    """Return the number of edges of a grid."""
    n = math.prod(sizes)
    return sum(n if wraps else n - n // size for size, wraps in zip(sizes, periodic, strict=True))


def _kind(sizes: Sequence[int], periodic: Sequence[bool]) -> str:
    if len(sizes) == 1:
        return "ring" if periodic[0] else "line"
    if len(sizes) > 2 and set(sizes) == {2}:
        return "hypercube"
    return "torus" if any(periodic) else "grid"


def _in_order(n: int, a: Ints, b: Ints) -> Iterator[_Fit]:
    """Yield candidate shapes whose nodes are in order."""
    if n < 3:
        return
    yield from _grids_in_order(n, a, b)
    if n < 4:
        return
    degree = np.bincount(np.concatenate([a, b]), minlength=n)
    centre = int(degree.argmax())
    place = np.arange(n)
    level = (place != centre).astype(np.int64)
    star = np.stack([level, (place - (place > centre)) * level], axis=1)
    yield _Fit("star", (2, n - 1), (False, False), star, (a == centre) | (b == centre), n - 1, math.log(n))
    parents = [(b - 1) // k for k in ARITY if k < n - 1] + [b & (b - 1)]
    for number, parent in enumerate(parents):
        used = parent == a
        if used.sum() >= PRESENT * (n - 1):
            k, child = ARITY[min(number, len(ARITY) - 1)], np.arange(1, n)
            above = np.append(0, child & (child - 1) if number == len(parents) - 1 else (child - 1) // k)
            coordinates, sizes = _levels(above, 0)
            yield _Fit("tree", sizes, (False, False), coordinates, used, n - 1, math.log(len(parents)))


def _grids_in_order(n: int, a: Ints, b: Ints) -> Iterator[_Fit]:
    """Yield candidate grids whose nodes are numbered row by row, the last dimension fastest."""
    steps, counts = np.unique(b - a, return_counts=True)
    count = dict(zip(steps.tolist(), counts.tolist(), strict=True))
    sizes_of = list(factorizations(n))
    if n & (n - 1) == 0 and n > 1 << N_DIMENSIONS:
        sizes_of.append((2,) * (n.bit_length() - 1))
    for sizes in sizes_of:
        strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
        wraps = [
            size > 2 and count.get(s * (size - 1), 0) >= PRESENT * (n // size)
            for size, s in zip(sizes, strides, strict=True)
        ]
        n_edges = _n_edges(sizes, wraps)
        most = sum(min(count.get(s, 0), n - n // size) for size, s in zip(sizes, strides, strict=True))
        most += sum(n // size for size, wrap in zip(sizes, wraps, strict=True) if wrap)
        if most >= PRESENT * n_edges and most >= EXPLAINED * a.size:
            coordinates = np.stack(np.unravel_index(np.arange(n), sizes), axis=1).astype(np.int64)
            used = _are_steps(coordinates[a], coordinates[b], sizes, wraps)
            copies = math.log(_n_alike(n, n_edges, sizes_of))
            yield _Fit(_kind(sizes, wraps), sizes, tuple(wraps), coordinates, used, n_edges, copies)


def _are_steps(at: Ints, to: Ints, sizes: Sequence[int], periodic: Sequence[bool]) -> Mask:
    """Return a mask of the pairs of positions that are neighbours on a grid."""
    apart = np.abs(at - to)
    wraps = np.array(periodic) & (apart == np.array(sizes) - 1)
    return ((apart == 1) | wraps).any(1) & ((apart > 0).sum(1) == 1)


def _n_alike(n: int, n_edges: int, sizes_of: Sequence[tuple[int, ...]]) -> int:
    """Return the number of grids in order with as many edges; for many nodes, an upper bound."""
    if n > 64:
        return len(sizes_of) << N_DIMENSIONS
    variants = (
        _n_edges(sizes, wraps)
        for sizes in sizes_of
        for wraps in product(*([False, True] if size > 2 else [False] for size in sizes))
    )
    return sum(found == n_edges for found in variants)


# -- nodes in any order ------------------------------------------------------------------------------------------------


def _in_any_order(n: int, a: Ints, b: Ints) -> Iterator[_Fit]:
    """Yield the grid or the tree that equals the graph, in any order of the nodes."""
    if n < 4 or not a.size or components(n, a, b).any():
        return
    every = np.ones(a.size, bool)
    if a.size == n - 1:
        above, root = _parents(n, a, b)
        coordinates, sizes = _levels(above, root)
        is_line = np.bincount(np.concatenate([a, b])).max() <= 2
        if not is_line:
            yield _Fit("tree", sizes, (False, False), coordinates, every, n - 1, (n - 2) * math.log(n))
    dimensions = _dimensions(n, a, b)
    if dimensions is None:
        return
    copies = _ln_copies(n, [(size, wraps) for size, wraps, _ in dimensions])
    dimensions = _with_rings_of_four(dimensions)
    sizes, periodic = tuple(size for size, _, _ in dimensions), tuple(wraps for _, wraps, _ in dimensions)
    kind = _kind(sizes, periodic)
    if len(sizes) <= N_DIMENSIONS or kind == "hypercube":
        coordinates = np.stack([at for _, _, at in dimensions], axis=1)
        yield _Fit(kind, sizes, periodic, coordinates, every, a.size, copies)


def _ln_copies(n: int, dimensions: Sequence[tuple[int, bool]]) -> float:
    """Return the logarithm of the number of graphs on n nodes that are this grid: n! divided by its symmetries."""
    symmetries = sum(math.log(2 * size if wraps else 2) for size, wraps in dimensions)
    symmetries += sum(math.lgamma(dimensions.count(d) + 1) for d in set(dimensions))
    return math.lgamma(n + 1) - symmetries


def components(n: int, a: Ints, b: Ints) -> Ints:
    """Return the smallest node of the component of each node; (n,) int64. O((n + n_edges) log n)."""
    label = np.arange(n)
    while True:
        low, high = np.minimum(label[a], label[b]), np.maximum(label[a], label[b])
        if (low == high).all():
            return label
        np.minimum.at(label, high, low)
        while not (label[label] == label).all():
            label = label[label]


Dimension = tuple[int, bool, Ints]
"""Size, whether it wraps around, and the coordinate of every node."""


def _dimensions(n: int, a: Ints, b: Ints) -> list[Dimension] | None:
    """Factor a graph into the lines and rings whose Cartesian product it is; None if it is no such product.

    Two edges of a node belong to different dimensions if they are sides of a square. Opposite sides of a square, and
    two edges that are not sides of a common square, belong to the same dimension. A ring of four is a square itself,
    and is returned as two dimensions of size two.
    """
    of = _same_dimension(n, a, b)
    if of is None:
        return None
    found: list[Dimension] = []
    heads = distinct(of)
    if heads.size > 2 * max(N_DIMENSIONS, n.bit_length()):
        return None
    for head in heads.tolist():
        mine = of == head
        layer = components(n, a[~mine], b[~mine])
        layers, at = np.unique(layer, return_inverse=True)
        along = _along(layers.size, at[a[mine]], at[b[mine]])
        if along is None:
            return None
        place, wraps = along
        found.append((layers.size, wraps, place[at]))
    found.sort(key=lambda d: -d[0])
    sizes, periodic = [size for size, _, _ in found], [wraps for _, wraps, _ in found]
    is_product = math.prod(sizes) == n and _n_edges(sizes, periodic) == a.size
    key = np.ravel_multi_index([at for _, _, at in found], sizes) if is_product else np.zeros(n, np.int64)
    return found if distinct(key).size == n else None


def _same_dimension(n: int, a: Ints, b: Ints) -> Ints | None:
    """Number edges such that edges of the same dimension have the same number; None if a node has too many edges, or
    two nodes have too many common neighbours."""
    ends, others = np.concatenate([a, b]), np.concatenate([b, a])
    edge = np.tile(np.arange(a.size), 2)
    order = np.argsort(ends, kind="stable")
    ends, others, edge = ends[order], others[order], edge[order]
    degree = np.bincount(ends, minlength=n)
    most = int(degree.max())
    if (degree * (degree - 1) // 2).sum() > MOST_PAIRS or most > 2 * max(N_DIMENSIONS, n.bit_length()):
        return None
    slots = np.full((n, most), -1)
    slots[ends, ranges(0, degree)] = np.arange(ends.size)
    pairs = [slots[:, list(pair)] for pair in combinations(range(most), 2)]
    arc = np.concatenate([pair[(pair >= 0).all(1)] for pair in pairs]) if pairs else np.zeros((0, 2), np.int64)
    swapped = others[arc[:, 0]] > others[arc[:, 1]]
    arc[swapped] = arc[swapped, ::-1]
    key = others[arc[:, 0]] * n + others[arc[:, 1]]
    order = np.argsort(key, kind="stable")
    key, first, second = key[order], edge[arc[order, 0]], edge[arc[order, 1]]
    start = np.flatnonzero(starts_run(key))
    size = np.diff(start, append=key.size)
    known = np.argsort(a * n + b, kind="stable")
    edges = (a * n + b)[known]
    closing = np.minimum(np.searchsorted(edges, key[start]), edges.size - 1)
    is_triangle = edges[closing] == key[start]
    if (size > 2).any():
        return None
    alone, twice = start[(size == 1) | is_triangle], start[(size == 2) & ~is_triangle]
    closed = start[is_triangle]
    joined = (
        (first[alone], second[alone]),
        (first[closed], known[closing[is_triangle]]),
        (first[twice], second[twice + 1]),
        (second[twice], first[twice + 1]),
    )
    left, right = (np.concatenate(side) for side in zip(*joined, strict=True))
    return components(a.size, left, right)


def _along(n: int, a: Ints, b: Ints) -> tuple[Ints, bool] | None:
    """Order the nodes of a line or ring: return the position of each, and whether it is a ring; None if neither.

    A line begins at the end with the lower node number, a ring at node 0, in the direction of its lower neighbour.
    """
    key = distinct(np.minimum(a, b) * n + np.maximum(a, b))
    a, b = key // n, key % n
    degree = np.bincount(np.concatenate([a, b]), minlength=n)
    wraps = key.size == n and n > 2
    if (a == b).any() or degree.max() > 2 or not (wraps or key.size == n - 1) or components(n, a, b).any():
        return None
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        neighbours[x].append(y)
        neighbours[y].append(x)
    place = np.zeros(n, np.int64)
    before, at = -1, 0 if wraps else int(np.flatnonzero(degree <= 1)[0])
    for number in range(n):
        place[at] = number
        before, at = at, min((x for x in neighbours[at] if x != before), default=at)
    return place, wraps


def _with_rings_of_four(dimensions: list[Dimension]) -> list[Dimension]:
    """Merge pairs of dimensions of size two into rings of four, which are the same graph, if other dimensions wrap
    around or there are too many dimensions; a hypercube is unchanged."""
    twos = [d for d in dimensions if d[0] == 2]
    others = [d for d in dimensions if d[0] != 2]
    joined: list[Dimension] = []
    wraps = any(periodic for _, periodic, _ in others)
    while others and len(twos) > 1 and (wraps or len(others) + len(joined) + len(twos) > N_DIMENSIONS):
        x, y = twos.pop()[2], twos.pop()[2]
        joined.append((4, True, 2 * x + (x ^ y)))
    return sorted(others + joined + twos, key=lambda d: -d[0])


def _parents(n: int, a: Ints, b: Ints) -> tuple[Ints, int]:
    """Return the parent of each node of a tree, and its root: node 0 if every parent has a smaller number than its
    children, otherwise the node that remains when leaves are removed level by level."""
    if distinct(b).size == n - 1:
        above = np.zeros(n, np.int64)
        above[b] = a
        return above, 0
    ends, others = np.concatenate([a, b]), np.concatenate([b, a])
    order = np.argsort(ends, kind="stable")
    others = others[order]
    start = offsets_of(np.bincount(ends, minlength=n)).tolist()
    degree, neighbours = np.diff(start), others.tolist()
    above, left = np.full(n, -1), n
    leaves = np.flatnonzero(degree == 1).tolist()
    while left > 1:
        following: list[int] = []
        for leaf in leaves:
            up = next((x for x in neighbours[start[leaf] : start[leaf + 1]] if degree[x] > 0), -1)
            if up < 0:
                continue
            above[leaf], degree[leaf], left = up, 0, left - 1
            degree[up] -= 1
            if degree[up] == 1:
                following.append(up)
            if left == 1:
                break
        leaves = following
    root = int(np.flatnonzero(above < 0)[0])
    above[root] = root
    return above, root


def _levels(above: Ints, root: int) -> tuple[Ints, tuple[int, ...]]:
    """Return level and position of the nodes of a tree, in the order of parents, and the sizes of both dimensions."""
    n = above.size
    level, position = np.zeros(n, np.int64), np.zeros(n, np.int64)
    order = np.argsort(above, kind="stable")
    start = np.searchsorted(above[order], np.arange(n + 1))
    row, depth, widest = np.array([root]), 0, 1
    while row.size:
        level[row], position[row] = depth, np.arange(row.size)
        widest = max(widest, row.size)
        row = np.concatenate([order[start[x] : start[x + 1]] for x in row.tolist()])
        row, depth = row[row != root], depth + 1
    return np.stack([level, position], axis=1), (depth, widest)
