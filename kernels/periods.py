"""Cells by phase or bin of time: distinguished, in the order of call paths and locations."""

from __future__ import annotations

from tracecols.kernels.kernel import kernel


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
