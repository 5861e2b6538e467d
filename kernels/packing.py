"""Integers as narrow codes: their distance from another column, or from the smallest, and 0 for the null value -1."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

NULL = -1


@kernel
def measure(values, base):
    """Find between which bounds the values lie that are not null; they may wrap around.

    Parameters
    ----------
    values : (n,) signed integers
    base : (n,) or (0,) int64
        What they are measured from; nothing if empty.

    Returns
    -------
    low, high : int
        Least and greatest difference; 0 and -1 if there are none.
    """
    low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    is_relative = base.size > 0
    for i in range(values.size):
        value = np.int64(values[i])
        if value == NULL:
            continue
        if is_relative:
            value -= base[i]
        low = min(low, value)
        high = max(high, value)
    if low > high:
        return np.int64(0), np.int64(-1)
    return low, high


@kernel
def pack(values, base, low, codes):
    """Write the code of every value: 0 for null, else its difference less `low` and plus 1.

    Parameters
    ----------
    values, base
        As for `measure`.
    low : int
    codes : (n,) unsigned integers, written
    """
    is_relative = base.size > 0
    for i in range(values.size):
        value = np.int64(values[i])
        if value == NULL:
            codes[i] = 0
        else:
            codes[i] = value - low + 1 - base[i] if is_relative else value - low + 1


@kernel
def unpack(codes, base, low, values):
    """Turn codes back into values.

    Parameters
    ----------
    codes : (n,) unsigned integers
    base, low
        As for `pack`.
    values : (n,) signed integers, written
    """
    is_relative = base.size > 0
    for i in range(codes.size):
        code = np.int64(codes[i])
        if code == 0:
            values[i] = NULL
        else:
            values[i] = code - 1 + low + base[i] if is_relative else code - 1 + low
