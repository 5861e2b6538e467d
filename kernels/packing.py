"""Integers as codes of as few bits as each group of rows needs: their distance from another column, or from the
smallest of the group, and 0 for the null value -1."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel, part

NULL = -1

GROUP = 4096
"""Rows whose codes have the same number of bits; a multiple of 64, so that each group begins with a word of its own."""

RAW = 64
"""Bits of codes that are the values themselves."""


@part
def _bounds(values, base, first, stop):
    """Find the least and the greatest difference of the values from `first` to `stop` - 1 that are not null; 0 and -1
    if there are none."""
    low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    is_relative = base.size > 0
    for i in range(first, stop):
        value = np.int64(values[i])
        if value != NULL:
            difference = value - base[i] if is_relative else value
            low = min(low, difference)
            high = max(high, difference)
    if low > high:
        return np.int64(0), np.int64(-1)
    return np.int64(low), np.int64(high)


@part
def _n_bits(low, high):
    """Return how many bits the codes of values within bounds have."""
    span, n = np.uint64(high - low), np.int64(0)
    if span >= np.uint64(1 << 63) - np.uint64(1) and low <= high:
        return np.int64(RAW)
    # 0 is the code of null
    span += np.uint64(1)
    while n < RAW and span >> np.uint64(n) > np.uint64(0):
        n += 1
    return n


@kernel
def pack(values, base, widths, lows, starts, words):
    """Write the code of every value: 0 for null, else its difference less the least of its group, plus 1.

    Parameters
    ----------
    values : (n,) signed integers
    base : (n,) or (0,) int64
        What they are measured from; nothing if empty.
    widths, lows : (n_groups,) uint8, int64; written
        Bits of the codes, and the least difference, of each group of `GROUP` values.
    starts : (n_groups + 1,) int64
        First word of each group, and one past the last: the first one is given, the others are written.
    words : (n + n_groups,) uint64; written
        Those of the first group begin at 0.
    """
    is_relative = base.size > 0
    at = 0
    for g in range(widths.size):
        first = g * GROUP
        stop = min(first + GROUP, values.size)
        low, high = _bounds(values, base, first, stop)
        width = _n_bits(low, high)
        widths[g], lows[g] = width, low
        begin, word, filled = at, np.uint64(0), np.int64(0)
        for i in range(first, stop if width else first):
            code = np.int64(values[i])
            if width < RAW:
                if code == NULL:
                    code = np.int64(0)
                else:
                    code = code - base[i] - low + 1 if is_relative else code - low + 1
            word |= np.uint64(code) << np.uint64(filled)
            filled += width
            if filled >= 64:
                words[at] = word
                at += 1
                filled -= 64
                word = np.uint64(code) >> np.uint64(width - filled) if filled else np.uint64(0)
        if filled:
            words[at] = word
            at += 1
        starts[g + 1] = starts[g] + at - begin


@kernel
def unpack(words, widths, lows, first, base, values):
    """Turn codes back into values.

    Parameters
    ----------
    words : (n_words,) uint64
        Those of some groups.
    widths, lows : (n_groups,) uint8, int64
    first : int
        Place of the first value in the first of the groups.
    base : (n,) or (0,) int64
        As for `pack`.
    values : (n,) signed integers, written
    """
    is_relative = base.size > 0
    i, begin = 0, np.int64(0)
    for g in range(widths.size):
        width, low = np.int64(widths[g]), lows[g]
        mask = ~np.uint64(0) >> np.uint64(64 - width) if width else np.uint64(0)
        place = np.int64(first) if g == 0 else np.int64(0)
        stop = min(i + GROUP - place, values.size)
        bit = begin * 64 + place * width
        begin += width * (GROUP // 64)
        while i < stop:
            code = np.uint64(0)
            if width:
                at, filled = bit >> 6, bit & 63
                code = words[at] >> np.uint64(filled)
                if filled + width > 64:
                    code |= words[at + 1] << np.uint64(64 - filled)
                code &= mask
            value = np.int64(code)
            if width < RAW:
                if value == 0:
                    value = np.int64(NULL)
                else:
                    value = value - 1 + low + base[i] if is_relative else value - 1 + low
            values[i] = value
            bit += width
            i += 1
