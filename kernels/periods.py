"""Cells by phase or bin of time: distinguished, in the order of call paths and locations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.ordered import place_of


class Labels(NamedTuple):
    """The numbers of call paths in periods (`call_paths.PeriodCallPaths`).

    Attributes
    ----------
    n_paths : int
        Call paths of the whole time.
    key : (n_labels,) int64
        Ascending: (period + 1) * n_paths + path. Empty where there are all of them.
    places : (n_keys,) int64
        The number of every key, or of the call path outside of all periods where it does not occur; empty where that
        takes too much memory, or where there are all.
    """

    n_paths: int
    key: NDArray[np.int64]
    places: NDArray[np.int64]


@part
def label_of(path, period, labels):
    """Return the number of a call path in a period, or outside of all where it does not occur there; null stays."""
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
