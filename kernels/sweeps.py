"""Messages of sweeps over a grid, see `patterns.wavefront`: the side each comes from, those that can belong to a sweep,
and the blocks that they form."""

from __future__ import annotations

from tracecols.kernels.kernel import inner_part, kernel

N_DIMENSIONS = 3
"""Largest number of dimensions of a grid that sweeps run over."""


@inner_part
def _side_of(here, there):
    """Return the side that a neighbour is on, twice the dimension and 1 more where its coordinate is larger; -1 if it
    is none. Both positions are (N_DIMENSIONS,) int64."""
    side = -1
    for d in range(N_DIMENSIONS):
        apart = there[d] - here[d]
        if apart != 0:
            if side >= 0 or abs(apart) > 1:
                return -1
            side = 2 * d + (apart > 0)
    return side


@kernel
def find_sides(send_location, recv_location, communicator, grid, at, own, keeps_to_it, side):
    """Find the side each message comes from, and the locations that receive any over the communicator of the grid.

    Parameters
    ----------
    send_location, recv_location, communicator : (n,) int32
    grid : (n_locations,) int64
        Grid that each location is on; -1 none.
    at : (n_locations, N_DIMENSIONS) int64
        Position there.
    own : (n_locations,) int64
        Communicator of the grid; -1 none.
    keeps_to_it : (n_locations,) bool
        False; set where a message from a neighbour comes over that communicator.
    side : (n,) int8
        Filled; -1 if the sender is no neighbour.
    """
    for i in range(side.size):
        s, r = send_location[i], recv_location[i]
        side[i] = -1
        if grid[s] >= 0 and grid[s] == grid[r]:
            side[i] = _side_of(at[r], at[s])
            if side[i] >= 0 and own[r] >= 0 and communicator[i] == own[r]:
                keeps_to_it[r] = True


@kernel
def leave_out_others(recv_location, communicator, own, keeps_to_it, side):
    """Set the side of messages received over other communicators to -1 on locations that use that of the grid;
    parameters as for `find_sides`."""
    for i in range(side.size):
        r = recv_location[i]
        if keeps_to_it[r] and communicator[i] != own[r]:
            side[i] = -1


@inner_part
def _add_call(side, first, last, rows, n):
    """Append the messages of a call to `rows` in the order of their dimensions, if it receives at most one along each;
    return the number of rows."""
    before = n
    for d in range(N_DIMENSIONS):
        n_along = 0
        for i in range(first, last):
            if side[i] >> 1 == d:
                n_along += 1
                rows[n] = i
        if n_along > 1:
            return before
        n += n_along
    return n


@kernel
def find_single(side, enter, recv, rows):
    """Find the messages with a side of calls that receive at most one along each dimension. Return their number.

    Parameters
    ----------
    side : (n,) int8
        As of `find_sides`.
    enter, recv : (n,) int64
        ENTER of the call that receives each, -1 none, and the receive event. Messages of a call are adjacent.
    rows : (n + 1,) int64
        Filled as far as there are any: messages, those of a call in the order of the dimensions.
    """
    n, first, call = 0, 0, -1
    for i in range(side.size):
        of = enter[i] if enter[i] >= 0 else recv[i]
        if of != call:
            n = _add_call(side, first, i, rows, n)
            first, call = i, of
    return _add_call(side, first, side.size, rows, n)


@inner_part
def _is_whole(side, low, high, has):
    """Return whether a location lacks a neighbour on a side of each dimension along which no messages come."""
    along, is_whole = 0, True
    for i in range(low, high):
        along |= 1 << (side[i] >> 1)
    for d in range(N_DIMENSIONS):
        is_whole &= along >> d & 1 == 1 or not (has[2 * d] and has[2 * d + 1])
    return is_whole


@inner_part
def _is_seam(side, location, has, first, middle, last):
    """Return whether one sweep ends and the next one begins at `middle`, inside of an apparent block: its first
    messages repeat those before it, and its others are repeated after it."""
    n_before, n_after = middle - first, last - middle
    if first < n_before or last + n_after > side.size:
        return False
    if location[first - n_before] != location[first] or location[last + n_after - 1] != location[first]:
        return False
    for i in range(first, middle):
        if side[i - n_before] != side[i]:
            return False
    for i in range(middle, last):
        if side[i] != side[i + n_after]:
            return False
    of = has[location[first]]
    return _is_whole(side, first, middle, of) and _is_whole(side, middle, last, of)


@inner_part
def _corner(side, low, high, has):
    """Return the corner at which the sweep of a block begins, -1 if the block belongs to none: missing messages would
    come from a side without a neighbour; if both sides have none, from the first."""
    if not _is_whole(side, low, high, has):
        return -1
    corner = 0
    for d in range(N_DIMENSIONS):
        is_at_end = has[2 * d]
        for i in range(low, high):
            if side[i] >> 1 == d:
                is_at_end = side[i] & 1 == 1
        if is_at_end:
            corner |= 1 << d
    return corner


@kernel
def divide_blocks(side, location, has, first, corner):
    """Divide messages, location by location in the order in which they were received, into blocks of sweeps (see
    `patterns.wavefront.read_sweeps`). Return the number of blocks.

    Parameters
    ----------
    side : (n,) int8
    location : (n,) int32
    has : (n_locations, 2 * N_DIMENSIONS) bool
        Whether there is a neighbour on each side.
    first : (n,) int64
    corner : (n,) int8
        Both filled as far as there are blocks: the first message of each, and the corner where its sweep begins, -1
        none.
    """
    n_blocks, begin = 0, 0
    while begin < side.size:
        end = begin + 1
        while end < side.size and location[end] == location[begin] and side[end] >> 1 > side[end - 1] >> 1:
            end += 1
        low = begin
        for high in range(begin + 1, end + 1):
            if high == end or _is_seam(side, location, has, begin, high, end):
                first[n_blocks] = low
                corner[n_blocks] = _corner(side, low, high, has[location[begin]])
                n_blocks += 1
                low = high
        begin = end
    return n_blocks
