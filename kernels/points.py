"""Synchronisation points in the order of their events, without sorting.

Rows of events are numbered location by location. So a bit for every row, and the number of bits set before each word,
give the number of the point at a row: 1.5 bits of memory per event, and one word read per point.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import last_until
from tracecols.kernels.ranks import Ranks, choose, is_chosen, n_before


class Rows(NamedTuple):
    """Rows of events that are points; besides these, every location that has events has a point at its end."""

    ranks: Ranks
    """Rows that are points; covers one row more than there are."""
    first_row: NDArray[np.int64]
    """(n_locations + 1,): first row of each location, and one past the last one."""
    ends_before: NDArray[np.int64]
    """(n_locations + 1,): number of locations before each one that have a point at their end."""


class Points(NamedTuple):
    """Columns of points (`causes.points.OF_POINT`); `lead` and `tail` are empty if they are not needed."""

    location: NDArray[np.int32]
    event: NDArray[np.int64]
    kind: NDArray[np.int8]
    begin_time: NDArray[np.int64]
    wait: NDArray[Any]
    total: NDArray[Any]
    completion: NDArray[Any]
    call_path: NDArray[np.int32]
    partner: NDArray[np.int32]
    communicator: NDArray[np.int64]
    set: NDArray[np.int64]
    lead: NDArray[Any]
    tail: NDArray[Any]


class Pairs(NamedTuple):
    """Columns of pairs (`causes.points.OF_PAIR`); `cause` and `waiting` are rows of events in pairs as they are found,
    numbers of points in pairs that are put together."""

    kind: NDArray[np.int8]
    cause: NDArray[np.signedinteger[Any]]
    waiting: NDArray[np.signedinteger[Any]]
    wait: NDArray[Any]
    communicator: NDArray[np.int64]


@inner_part
def _of_row(column, i):
    """Return the value of a column in a row; a single value holds for all rows."""
    return column[i if column.size > 1 else 0]


@kernel
def mark_rows(event, call_path, ranks):
    """Choose the rows of points whose call path is known; call `count_rows` after the last ones."""
    for i in range(event.size):
        if _of_row(call_path, i) >= 0:
            choose(ranks, event[i])


@part
def _location_of(row, hint, first_row):
    """Return the location of a row, which is mostly that of the row before."""
    if first_row[hint] <= row < first_row[hint + 1]:
        return hint
    return last_until(row, 0, first_row.size - 1, first_row)


@inner_part
def _point_at(row, hint, rows):
    """Return the number of the point at a row, -1 if there is none, and the location of the row."""
    if row < 0 or row >= rows.first_row[rows.first_row.size - 1]:
        return np.int64(-1), hint
    if not is_chosen(rows.ranks, row):
        return np.int64(-1), hint
    here = _location_of(row, hint, rows.first_row)
    return n_before(rows.ranks, row) + rows.ends_before[here], here


@kernel
def number_rows(row, rows, found):
    """Find the points at rows of events; `found` (n,) int64 is filled, -1 where there is none."""
    here = 0
    for i in range(row.size):
        found[i], here = _point_at(row[i], here, rows)


@kernel
def number_rows_before(row, rows, start, found):
    """Find the last points, other than ends of locations, before rows of events; `found` (n,) int64 is filled, -1 where
    there is none, or no row."""
    here = 0
    for i in range(row.size):
        found[i] = -1
        n = np.int64(0)
        if row[i] >= 0:
            here = _location_of(row[i], here, rows.first_row)
            n = n_before(rows.ranks, row[i])
        if n > 0:
            k = here
            # that of a location before, if this one has none
            while start[k] - rows.ends_before[k] >= n:
                k -= 1
            found[i] = n - 1 + rows.ends_before[k]


@kernel
def start_locations(rows, start):
    """Find the first point of each location, and one past the last; `start` (n_locations + 1,) int64 is filled."""
    for i in range(start.size):
        start[i] = n_before(rows.ranks, rows.first_row[i]) + rows.ends_before[i]


@kernel
def place_points(found, rows, first, stop, before, out):
    """Write the points at the rows first <= row < stop to their positions; of those of one event, the first one found.

    Parameters
    ----------
    found : Points
        Columns of one element hold for all rows.
    rows : Rows
    first, stop : int
    before : int
        Number of the first point of `out`.
    out : Points, written
        `location` is -1 where nothing has been written.
    """
    here = 0
    for i in range(found.event.size):
        if _of_row(found.call_path, i) < 0 or not first <= found.event[i] < stop:
            continue
        p, here = _point_at(found.event[i], here, rows)
        p -= before
        if out.location[p] >= 0:
            continue
        out.location[p] = _of_row(found.location, i)
        out.event[p] = found.event[i]
        out.kind[p] = _of_row(found.kind, i)
        out.begin_time[p] = _of_row(found.begin_time, i)
        out.wait[p] = _of_row(found.wait, i)
        out.total[p] = _of_row(found.total, i)
        out.completion[p] = _of_row(found.completion, i)
        out.call_path[p] = _of_row(found.call_path, i)
        out.partner[p] = _of_row(found.partner, i)
        out.communicator[p] = _of_row(found.communicator, i)
        out.set[p] = _of_row(found.set, i)
        if out.lead.size > 0:
            out.lead[p] = _of_row(found.lead, i)
            out.tail[p] = _of_row(found.tail, i)


@kernel
def place_pairs(found, rows, out):
    """Write the pairs whose points are known, one after the other. Return their number.

    Parameters
    ----------
    found : Pairs
        Columns of one element hold for all rows.
    rows : Rows
    out : Pairs, written
    """
    n, near_cause, near_waiting = 0, 0, 0
    for i in range(found.cause.size):
        cause, near_cause = _point_at(found.cause[i], near_cause, rows)
        waiting, near_waiting = _point_at(found.waiting[i], near_waiting, rows)
        if cause >= 0 and waiting >= 0:
            out.kind[n] = _of_row(found.kind, i)
            out.cause[n] = cause
            out.waiting[n] = waiting
            out.wait[n] = _of_row(found.wait, i)
            out.communicator[n] = _of_row(found.communicator, i)
            n += 1
    return n
