"""Wavefronts: Late Senders that coincide with the start of a sweep from another corner of a grid of two or three
dimensions.

What is recognised, and what is not: `docs/decisions/wavefront.md`. Source: the 2004 paper on virtual topologies,
section 4.1.

The first dimension of the grid runs from west to east, the second from north to south, the third from front to back, so
position (0, 0, 0) is in the north-west, in front. A sweep from a corner brings each process one message along each
dimension, in the order of the dimensions, from its neighbour on the side of that corner, block after block; where there
is no such neighbour the message is missing.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.definitions.topologies import Topology
from tracecols.enhance.scan.region_rules import named
from tracecols.kernels import sweeps
from tracecols.kernels.sweeps import N_DIMENSIONS
from tracecols.model.model import Model
from tracecols.patterns.base import Family, region_of
from tracecols.patterns.found_by import Pattern
from tracecols.patterns.matches import Matches

FAMILY = Family("wavefronts")
declare = FAMILY.declare

PLANE = {"nw": "North-West", "ne": "North-East", "sw": "South-West", "se": "South-East"}
SPACE = {
    f"{corner}{side}": f"{title}, {depth}"
    for side, depth in (("f", "Front"), ("b", "Back"))
    for corner, title in PLANE.items()
}
CORNERS = {**PLANE, **SPACE}
"""Corners at which sweeps begin, in two and in three dimensions; the number of a corner is horizontal + 2 * vertical +
4 * depth, 0 for west, north and front, and in three dimensions `len(PLANE)` more."""

WEST, EAST, NORTH, SOUTH, FRONT, BACK = range(2 * N_DIMENSIONS)
"""Sides a message comes from: twice the dimension, 1 more where the coordinate is larger."""

EXCHANGE = named("mpi_sendrecv(_replace)?", "mpi")
"""Calls whose messages belong to no sweep."""

_refills: WeakKeyDictionary[CompoundTable, tuple[tuple[Topology, ...], NDArray[np.int8]]] = WeakKeyDictionary()
"""Results of `refills` by table of messages, for the lifetime of the table, with the topologies they were found
with."""


def n_spatial(t: Topology) -> int:
    """Return the number of dimensions of a topology without trailing ones of size 1."""
    return max((d + 1 for d, size in enumerate(t.shape) if size > 1), default=0)


def grids(model: Model, with_lines: bool = False) -> list[Topology]:
    """Return the grids wavefronts can run over: those of two or three dimensions (further ones of size 1), made by the
    program, by hand, or found from its messages; with `with_lines`, also those of one dimension."""
    return [
        t
        for t in model.topologies
        if not t.is_artificial
        and (t.found is None or t.found.is_grid)
        and (len(t.sizes) >= 2 or with_lines)
        and n_spatial(t) <= N_DIMENSIONS
    ]


def has_grid(model: Model, n_dimensions: int, is_defined: bool = False) -> bool:
    """Return whether there is a grid with `n_dimensions` to search for wavefronts; if `is_defined`, one that the trace
    or the user defines."""
    return any(
        t.location.size > 1 and max(n_spatial(t), 2) == n_dimensions and not (is_defined and t.found)
        for t in grids(model)
    )


class Positions(NamedTuple):
    """Positions of locations, each on the first grid that contains it; a thread has the position of its process."""

    grid: NDArray[np.int64]
    """(n_locations,): number of the grid; -1 none."""
    at: NDArray[np.int64]
    """(n_locations, N_DIMENSIONS): position; 0 along dimensions that the grid does not have."""
    has: NDArray[np.bool_]
    """(n_locations, 2 * N_DIMENSIONS): whether there is a neighbour on each side."""
    in_space: NDArray[np.bool_]
    """(n_locations,): whether the grid has three dimensions."""


def positions(model: Model, with_lines: bool = False) -> Positions:
    """Find the positions of locations on grids."""
    n = model.n_locations
    grid, position = np.full(n, -1, np.int64), np.zeros((n, N_DIMENSIONS), np.int64)
    has, in_space = np.zeros((n, 2 * N_DIMENSIONS), bool), np.zeros(n, bool)
    for number, t in enumerate(grids(model, with_lines)):
        first = np.full(int(model.process.max(initial=-1)) + 1, -1, np.int64)
        first[model.process[t.location][::-1]] = np.arange(t.location.size)[::-1]
        at = first[model.process]
        at[t.location] = np.arange(t.location.size)
        here = np.flatnonzero((at >= 0) & (grid < 0))
        coordinates = np.zeros((t.location.size, N_DIMENSIONS), np.int64)
        coordinates[:, : len(t.sizes)] = t.coordinates[:, :N_DIMENSIONS]
        grid[here], position[here], in_space[here] = number, coordinates[at[here]], n_spatial(t) == N_DIMENSIONS
        has[here] = _neighbours(coordinates, at[here])
    return Positions(grid, position, has, in_space)


def _neighbours(coordinates: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return on which sides some positions have a neighbour; (n_rows, 2 * N_DIMENSIONS) bool."""
    values = [distinct(coordinates[:, d]) for d in range(N_DIMENSIONS)]
    sizes = [v.size for v in values]
    number = np.stack([np.searchsorted(v, coordinates[:, d]) for d, v in enumerate(values)])
    occupied = distinct(np.ravel_multi_index(tuple(number), sizes))
    result = np.zeros((rows.size, 2 * N_DIMENSIONS), bool)
    for side in range(2 * N_DIMENSIONS):
        d, step = side // 2, 1 if side % 2 else -1
        beside = lookup(values[d], coordinates[rows, d] + step)
        there = number[:, rows].copy()
        there[d] = np.maximum(beside, 0)
        result[:, side] = (beside >= 0) & np.isin(np.ravel_multi_index(tuple(there), sizes), occupied)
    return result


def sides(model: Model, m: CompoundTable, where: Positions, with_lines: bool = False) -> NDArray[np.int8]:
    """Find the side each message comes from; (n_messages,) int8, -1 if its sender is not a neighbour on the grid.

    A location that receives anything from a neighbour over the grid's own communicator does not sweep over another one.
    """
    side = np.empty(len(m), np.int8)
    own = np.array([t.communicator for t in grids(model, with_lines)] + [-1], np.int64)[where.grid]
    keeps_to_it = np.zeros(own.size, bool)
    sweeps.find_sides(m.send_location, m.recv_location, m.communicator, where.grid, where.at, own, keeps_to_it, side)
    if keeps_to_it.any():
        sweeps.leave_out_others(m.recv_location, m.communicator, own, keeps_to_it, side)
    return side


def sequence(model: Model, m: CompoundTable, side: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the messages that can belong to a sweep, as rows of `messages`: per location in the order of the calls,
    those of a call in the order of the dimensions.

    A sweep computes between receiving and sending, and receives from one side of each dimension at most, once from
    each. Therefore messages without a direction, those of MPI_Sendrecv, and those of calls that receive several along a
    dimension (exchanges with all neighbours) are left out.
    """
    rows = np.empty(side.size + 1, np.int64)
    rows = rows[: sweeps.find_single(side, m.recv_enter, m.recv, rows)]
    return rows[~region_of(model, m.recv_call_path[rows], EXCHANGE)]


class Blocks(NamedTuple):
    """The blocks of sweeps that locations receive, location by location in order."""

    first: NDArray[np.int64]
    size: NDArray[np.int64]
    """`first` and `size`: (n,), the first message of each, and its number of messages."""
    corner: NDArray[np.int8]
    """(n,): corner at which its sweep begins, horizontal + 2 * vertical + 4 * depth; -1 if it belongs to none."""


def read_sweeps(side: NDArray[np.int8], location: NDArray[np.int32], has: NDArray[np.bool_]) -> Blocks:
    """Divide the messages of each location, in the order in which they were received, into blocks of sweeps.

    A block is one message along each dimension, in the order of the dimensions, by the side it comes from. At the
    border of the grid, the messages of missing neighbours are missing (`has`, by location and side): the block comes
    from the corner from which they would have been sent.

    A block whose first messages repeat those before it, and whose others are repeated after it, is where a sweep of
    fewer dimensions meets another one: each of them has a block of its own.
    """
    first, corner = np.empty(side.size, np.int64), np.empty(side.size, np.int8)
    n = sweeps.divide_blocks(side, location, has, first, corner)
    return Blocks(first[:n].copy(), np.diff(first[:n], append=side.size), corner[:n].copy())


class Sweeps(NamedTuple):
    """The sweeps that locations take part in."""

    rows: NDArray[np.int64]
    """(n,): rows of `messages` that can belong to sweeps, location by location."""
    location: NDArray[np.int32]
    """(n_blocks,)"""
    blocks: Blocks
    """Of these rows."""
    starts: NDArray[np.bool_]
    """(n_blocks,): whether a block is the first of a sweep from another corner than the one before, at its location."""


def find_sweeps(model: Model, m: CompoundTable, where: Positions, with_lines: bool = False) -> Sweeps:
    """Find the sweeps in messages, which are all that some locations receive, in the order of their receives."""
    side = sides(model, m, where, with_lines)
    rows = sequence(model, m, side)
    location = m.recv_location[rows]
    blocks = read_sweeps(side[rows], location, where.has)
    of, corner = location[blocks.first], blocks.corner
    continues = np.zeros(of.size, bool)
    continues[1:] = (corner[1:] == corner[:-1]) & (of[1:] == of[:-1])
    return Sweeps(rows, of, blocks, ~continues & (corner >= 0))


def refills(model: Model, m: CompoundTable) -> NDArray[np.int8]:
    """Find the messages that start a sweep from another corner at their receiver: all of its first block there. O(n),
    10 B/message.

    The messages are all that are received at some locations, in the order of their receives. Returns the corner the
    sweep begins in, numbered as in `CORNERS`; -1 for all other messages.
    """
    known = _refills.get(m)
    if known is not None and known[0] is model.topologies:
        return known[1]
    where = model.facts.memo.get(refills)
    if where is None:
        where = model.facts.memo[refills] = positions(model)
    found = find_sweeps(model, m, where)
    result = np.full(len(m), -1, np.int8)
    corner = found.blocks.corner + np.where(where.in_space[found.location], len(PLANE), 0)
    of = np.repeat(np.arange(corner.size), found.blocks.size)
    started = np.flatnonzero(found.starts[of])
    result[found.rows[started]] = corner[of[started]]
    _refills[m] = model.topologies, result
    return result


for number, (corner, title) in enumerate(CORNERS.items()):
    needs = "grid" if corner in PLANE else "grid in space"
    # the reference analysers find no topologies by themselves
    as_reference = {"needs": f"defined {needs}"}

    @declare(
        f"mpi_latesender_wavefront_{corner}",
        "mpi_latesender",
        f"Wavefront from {title}",
        f"Late Sender time while the pipeline of a sweep from the {title} is filled again after one from elsewhere.",
        Pattern("messages"),
        advice="Let sweeps from neighbouring corners follow each other, and use smaller blocks.",
        confidence=0.8,
        needs=needs,
        overlaps=True,
        scalasca=as_reference,
        expert=as_reference,
        exact={},
    )
    def refill(model: Model, m: CompoundTable, parent: Matches, number: int = number) -> Matches:
        """Late senders whose message starts a sweep from this corner."""
        return parent.where(refills(model, m)[parent.row] == number)
