"""Wavefronts: Late Senders that coincide with the start of a sweep from another corner of a two-dimensional grid.

What is recognised, and what is not: `docs/decisions/wavefront.md`. Source: the 2004 paper on virtual topologies,
section 4.1.

The first dimension of the grid runs from west to east, the second from north to south, so position (0, 0) is in the
north-west. A sweep from a corner brings each process one message from its horizontal neighbour on the side of that
corner, then one from its vertical neighbour, block after block; what has no neighbour there receives one message only,
or none.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.definitions.topologies import Topology
from tracecols.enhance.scan.region_rules import named
from tracecols.model.model import Model
from tracecols.patterns.base import Family, region_of
from tracecols.patterns.found_by import Pattern
from tracecols.patterns.matches import Matches

FAMILY = Family("wavefronts")
declare = FAMILY.declare

CORNERS = {"nw": "North-West", "ne": "North-East", "sw": "South-West", "se": "South-East"}
"""Where a sweep begins; its number is vertical * 2 + horizontal, 0 for north and west, 1 for south and east."""

WEST, EAST, NORTH, SOUTH = range(4)
"""Sides a message comes from."""

EXCHANGE = named("mpi_sendrecv(_replace)?", "mpi")
"""Calls that receive for no sweep."""

_refills: WeakKeyDictionary[CompoundTable, tuple[list[Topology], NDArray[np.int8]]] = WeakKeyDictionary()
"""By table of messages, as long as it lives: the topologies it was searched with, and what was found."""


def grids(model: Model) -> list[Topology]:
    """Return the grids wavefronts can run over: two dimensions, further ones of size 1, and made by the program or by
    hand."""
    return [
        t for t in model.topologies if not t.is_artificial and len(t.sizes) >= 2 and max(t.shape[2:], default=1) == 1
    ]


def has_grid(model: Model) -> bool:
    """Whether wavefronts can be looked for."""
    return any(t.location.size > 1 for t in grids(model))


def positions(model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Find where locations stand, on the first grid each stands on; a thread stands where its process does.

    Returns
    -------
    grid, x, y : (n_locations,) int64
        Number of the grid, -1 none; position.
    has : (n_locations, 4) bool
        Whether there is a neighbour on each side.
    """
    n = model.n_locations
    grid, x, y = (np.full(n, -1, np.int64) for _ in range(3))
    has = np.zeros((n, 4), bool)
    for number, t in enumerate(grids(model)):
        at = np.full(n, -1, np.int64)
        first = np.full(int(model.process.max(initial=-1)) + 1, -1, np.int64)
        first[model.process[t.location][::-1]] = np.arange(t.location.size)[::-1]
        at[:] = first[model.process]
        at[t.location] = np.arange(t.location.size)
        here = np.flatnonzero((at >= 0) & (grid < 0))
        grid[here], x[here], y[here] = number, *t.coordinates[at[here], :2].T
        columns, rows = np.unique(t.coordinates[:, 0]), np.unique(t.coordinates[:, 1])
        occupied = np.unique(lookup(columns, t.coordinates[:, 0]) * rows.size + lookup(rows, t.coordinates[:, 1]))
        for side, (dx, dy) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
            column, row = lookup(columns, x[here] + dx), lookup(rows, y[here] + dy)
            has[here, side] = (column >= 0) & (row >= 0) & np.isin(column * rows.size + row, occupied)
    return grid, x, y, has


def sides(model: Model, m: CompoundTable) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Find the side each message comes from.

    Returns
    -------
    side : (n_messages,) int8
        WEST, EAST, NORTH or SOUTH; -1 if its sender is no neighbour on the grid.
    has : (n_locations, 4) bool
        Whether a location has a neighbour on each side.
    """
    grid, x, y, has = positions(model)
    s, r = m.send_location, m.recv_location
    dx, dy = x[s] - x[r], y[s] - y[r]
    near = (grid[s] >= 0) & (grid[s] == grid[r]) & (np.abs(dx) + np.abs(dy) == 1)
    # who receives anything from a neighbour over the grid's own communicator does not sweep over another one
    own = np.array([t.communicator for t in grids(model)] + [-1], np.int64)[grid[r]]
    over = near & (own >= 0) & (m.communicator == own)
    keeps_to_it = np.zeros(grid.size, bool)
    keeps_to_it[r[over]] = True
    near &= over | ~keeps_to_it[r]
    side = np.where(dx != 0, np.where(dx < 0, WEST, EAST), np.where(dy < 0, NORTH, SOUTH))
    return np.where(near, side, -1).astype(np.int8), has


def sequence(model: Model, m: CompoundTable, side: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the messages that can belong to a sweep: per location in the order of the calls, horizontal before
    vertical ones.

    A sweep computes between receiving and sending, and receives from two sides at most, once from each. So left out are
    messages without a direction, those of MPI_Sendrecv, and those of calls that receive several horizontal or several
    vertical ones: exchanges with all neighbours.

    Returns
    -------
    (n,) int64
        Rows of `messages`.
    """
    rows = np.flatnonzero(side >= 0)
    rows = rows[~region_of(model, m.recv_call_path[rows], EXCHANGE)]
    call = np.where(m.recv_enter[rows] >= 0, m.recv_enter[rows], m.recv[rows])
    starts = np.flatnonzero(np.concatenate([[True], call[1:] != call[:-1]])) if call.size else np.zeros(0, np.int64)
    if starts.size < call.size:
        vertical = side[rows] >= NORTH
        n_vertical = np.add.reduceat(vertical.astype(np.int64), starts)
        sizes = np.diff(starts, append=call.size)
        kept = np.repeat((n_vertical <= 1) & (sizes - n_vertical <= 1), sizes)
        rows, call, vertical = rows[kept], call[kept], vertical[kept]
        rows = rows[np.lexsort((vertical, call))]
    return rows


def read_sweeps(
    side: NDArray[np.int8], location: NDArray[np.int32], has: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int8]]:
    """Divide the messages of each location into blocks of sweeps.

    A block is a message from a horizontal neighbour and the one from a vertical neighbour behind it. On the border one
    of them is missing, if its neighbour is: alone, the other one comes from the corner where the missing one would have
    stood.

    Parameters
    ----------
    side : (n,) int8
        Side each message comes from.
    location : (n,) int32
        Where it is received; those of a location stand together, in the order in which they were received.
    has : (n_locations, 4) bool
        Whether there is a neighbour on each side.

    Returns
    -------
    first : (n_blocks,) int64
        First message of each block.
    is_pair : (n_blocks,) bool
        Whether the message behind belongs to it.
    corner : (n_blocks,) int8
        Where its sweep begins; -1 if it belongs to none.
    """
    n = side.size
    horizontal = side < NORTH
    same = np.zeros(n + 3, bool)  # same[i + 1]: message i is of the same location as the one before
    same[2 : n + 1] = location[1:] == location[:-1]
    before, behind, next_but_one = same[1 : n + 1], same[2 : n + 2], same[2 : n + 2] & same[3 : n + 3]
    padded = np.concatenate([side[:1], side, np.full(2, -1, np.int8)])
    is_pair = horizontal & behind & (padded[2 : n + 2] >= NORTH)
    # Where both can stand alone, a sweep of the one kind may end and one of the other kind begin: a single pair between
    # several of the one and several of the other is where they meet.
    free = has[location]
    alone = ~(free[:, NORTH] & free[:, SOUTH]) & ~(free[:, WEST] & free[:, EAST])
    repeats = before & (padded[:n] == side)
    repeated = next_but_one & (padded[3 : n + 3] == padded[2 : n + 2])
    is_pair &= ~(alone & repeats & repeated)
    second = np.zeros(n, bool)
    second[1:] = is_pair[:-1]
    first = np.flatnonzero(~second)
    is_pair = is_pair[first]
    own, free = side[first], free[first]
    other = padded[first + 2]
    missing = np.where(
        own < NORTH,
        np.where(~free[:, NORTH], NORTH, np.where(~free[:, SOUTH], SOUTH, -1)),
        np.where(~free[:, WEST], WEST, np.where(~free[:, EAST], EAST, -1)),
    )
    other = np.where(is_pair, other, missing)
    across, along = np.where(own < NORTH, own, other), np.where(own < NORTH, other, own)
    corner = np.where(other >= 0, 2 * (along == SOUTH) + (across == EAST), -1).astype(np.int8)
    return first, is_pair, corner


def refills(model: Model, m: CompoundTable) -> NDArray[np.int8]:
    """Find the messages that start a sweep from another corner at their receiver: of its first block there, both.

    Parameters
    ----------
    m : CompoundTable
        Messages, all that are received at some locations, in the order of their receives.

    Returns
    -------
    (n_messages,) int8
        The corner the sweep begins in, numbered as in `CORNERS`; -1 for all other messages. O(n), 40 B/message.
    """
    known = _refills.get(m)
    if known is not None and known[0] is model.topologies:
        return known[1]
    result = np.full(len(m), -1, np.int8)
    side, has = sides(model, m)
    rows = sequence(model, m, side)
    if rows.size:
        location = m.recv_location[rows]
        first, is_pair, corner = read_sweeps(side[rows], location, has)
        continues = np.zeros(first.size, bool)
        continues[1:] = (corner[1:] == corner[:-1]) & (location[first[1:]] == location[first[:-1]])
        starts = ~continues & (corner >= 0)
        result[rows[first[starts]]] = corner[starts]
        pairs = starts & is_pair
        result[rows[first[pairs] + 1]] = corner[pairs]
    _refills[m] = model.topologies, result
    return result


for number, (corner, title) in enumerate(CORNERS.items()):

    @declare(
        f"mpi_latesender_wavefront_{corner}", "mpi_latesender", f"Wavefront from {title}",
        f"Late Sender time while the pipeline of a sweep from the {title} is filled again after one from elsewhere.",
        Pattern("messages"), advice="Let sweeps from neighbouring corners follow each other, and use smaller blocks.",
        confidence=0.8, needs="grid", overlaps=True, expert={},
    )  # fmt: skip
    def refill(model: Model, m: CompoundTable, parent: Matches, number: int = number) -> Matches:
        """Late senders whose message starts a sweep from this corner."""
        return parent.where(refills(model, m)[parent.row] == number)
