"""Phases and bins of time: the spans that intervals lie in, and cells by period in the order of call paths and
locations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.ordered import first_after, first_at_least, place_of


class Spans(NamedTuple):
    """Division of the time of locations (`periods.Divider`): edges of bins, and both ends of the focus of each."""

    edges: NDArray[Any]
    """(n_edges,): ascending."""
    focus: NDArray[Any]
    """(n_locations, 2), as `edges`"""


class Parts(NamedTuple):
    """Parts of intervals: which interval, the span that the part lies in, and how long it is; (n_parts,) each."""

    row: NDArray[np.int64]
    piece: NDArray[np.int64]
    ticks: NDArray[np.int64]


class Labels(NamedTuple):
    """The numbers of call paths in periods (`call_paths.PeriodCallPaths`)."""

    n_paths: int
    """Number of call paths of the whole time."""
    key: NDArray[np.int64]
    """(n_labels,): ascending: (period + 1) * n_paths + path. Empty if all of them occur."""
    places: NDArray[np.int64]
    """(n_keys,): the number of every key, or of the call path outside of all periods if the key does not occur; empty
    if that takes too much memory, or if all keys occur."""


@part
def label_of(path, period, labels):
    """Return the number of a call path in a period, or outside of all periods if it does not occur there; null remains
    null."""
    if path < 0:
        return np.int64(-1)
    key = (np.int64(period) + 1) * labels.n_paths + path
    if labels.places.size > 0:
        return labels.places[key]
    if labels.key.size == 0:
        return key
    at = place_of(key, 0, labels.key.size, labels.key)
    return at if at >= 0 else path


@kernel
def number_labels(path, period, labels, found):
    """Number call paths in periods; `found` (n,) int64 is filled, -1 for null.

    Parameters
    ----------
    path, period : (n,) int
    labels : Labels
    """
    for i in range(path.size):
        found[i] = label_of(path[i], period[i], labels)


@part
def _begun_at(time, location, spans):
    """Return the span that begins at a time or before."""
    begin, end = spans.focus[location, 0], spans.focus[location, 1]
    return first_after(time, 0, spans.edges.size, spans.edges) + (begin <= time) + (end <= time)


@part
def _ended_at(time, location, spans):
    """Return the span that ends at a time or later."""
    begin, end = spans.focus[location, 0], spans.focus[location, 1]
    return first_at_least(time, 0, spans.edges.size, spans.edges) + (begin < time) + (end < time)


@kernel
def find_begun(time, location, spans, found):
    """Find the spans that begin at some times or before; `found` (n,) int64 is filled."""
    for i in range(time.size):
        found[i] = _begun_at(time[i], location[i], spans)


@kernel
def find_ended(time, location, spans, found):
    """Find the spans that end at some times or later; `found` (n,) int64 is filled."""
    for i in range(time.size):
        found[i] = _ended_at(time[i], location[i], spans)


@kernel
def count_parts(begin, end, location, spans):
    """Count the parts of intervals in all spans.

    Parameters
    ----------
    begin, end : (n,) int64
        Ticks; an interval that does not end after its begin has no parts.
    location : (n,) int
    spans : Spans
    """
    n = 0
    for i in range(begin.size):
        if end[i] > begin[i]:
            first = _begun_at(begin[i], location[i], spans)
            n += max(_ended_at(end[i], location[i], spans) - first, 0) + 1
    return n


@part
def _edge(number, at_begin, at_end, location, spans):
    """Return the time of an edge of a location; `at_begin` and `at_end` are the numbers of the ends of its focus."""
    if number == at_begin:
        return spans.focus[location, 0]
    if number == at_end:
        return spans.focus[location, 1]
    return spans.edges[number - (number > at_begin) - (number > at_end)]


@kernel
def divide_intervals(begin, end, location, spans, parts):
    """Divide intervals at the edges between spans.

    Parameters
    ----------
    begin, end, location, spans
        As for `count_parts`.
    parts : Parts, written
        Of the size that `count_parts` returns.
    """
    n = 0
    for i in range(begin.size):
        if end[i] <= begin[i]:
            continue
        here, low = location[i], begin[i]
        first = _begun_at(low, here, spans)
        last = max(_ended_at(end[i], here, spans), first)
        at_begin = first_at_least(spans.focus[here, 0], 0, spans.edges.size, spans.edges)
        at_end = first_at_least(spans.focus[here, 1], 0, spans.edges.size, spans.edges) + 1
        for piece in range(first, last + 1):
            high = _edge(piece, at_begin, at_end, here, spans) if piece < last else end[i]
            parts.row[n], parts.piece[n], parts.ticks[n] = i, piece, high - low
            low = high
            n += 1


@kernel
def split_cells(key, value, label_path, label_period, n_locations, start, call_path, location, period, result):
    """Put cells of call paths in periods into the order of (call path, location, period); O(n + call paths x
    locations).

    Parameters
    ----------
    key : (n,) int64
        `label << 32 | location`, ascending; labels, which are call paths in periods, are in the order of periods.
    value : (n,)
    label_path, label_period : (n_labels,) int32
        Call path of the whole time, and period.
    n_locations : int
    start : (n_call_paths * n_locations + 1,) int64
        Zeros.
    call_path, location, period : (n,) int32, written
    result : (n,), written
        The values.
    """
    for i in range(key.size):
        start[label_path[key[i] >> 32] * n_locations + (key[i] & 0xFFFFFFFF) + 1] += 1
    for i in range(1, start.size):
        start[i] += start[i - 1]
    for i in range(key.size):
        label, here = key[i] >> 32, key[i] & 0xFFFFFFFF
        cell = label_path[label] * n_locations + here
        at = start[cell]
        start[cell] = at + 1
        call_path[at] = label_path[label]
        location[at] = here
        period[at] = label_period[label]
        result[at] = value[i]
