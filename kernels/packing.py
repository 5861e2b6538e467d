"""Integers as codes of as few bits as each group of rows needs: their distance from another column, or from the
smallest of the group, and 0 for the null value -1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part

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
    """Return the number of bits of the codes of values within bounds."""
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
        Values that they are relative to; they are absolute if empty.
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


class Codes(NamedTuple):
    """Coding and positions of the groups of rows of a column."""

    widths: NDArray[np.uint8]
    """(n_groups,): bits of each code."""
    lows: NDArray[np.int64]
    """(n_groups,): value that code 1 represents."""
    starts: NDArray[np.int64]
    """(n_groups + 1,): first word of each group, and one past the last."""


@inner_part
def _code_at(words, bit, width):
    """Return the code of `width` bits that begins at a bit of some words."""
    if width == 0:
        return np.uint64(0)
    at, filled = bit >> 6, bit & 63
    code = words[at] >> np.uint64(filled)
    if filled + width > 64:
        code |= words[at + 1] << np.uint64(64 - filled)
    return code & (~np.uint64(0) >> np.uint64(64 - width))


@inner_part
def _value_of(code, width, low, base):
    """Return the value of a code, given the value `base` that it is relative to, or 0."""
    if width == RAW:
        return np.int64(code)
    return np.int64(NULL) if code == 0 else np.int64(code) - 1 + low + base


@kernel
def unpack(words, first_word, codes, begin, end, base, values):
    """Turn the codes of some ranges of rows back into values, one range after the other.

    Parameters
    ----------
    words : (n_words,) uint64
    first_word : int
        Number of the first of `words` among all words.
    codes : Codes
    begin, end : (n_ranges,) int64
        First row of each range, and one past its last.
    base : (n,) or (0,) int64
        As for `pack`, of these rows.
    values : (n,) signed integers, written
    """
    is_relative, i = base.size > 0, 0
    for k in range(begin.size):
        row = begin[k]
        while row < end[k]:
            g = row // GROUP
            width, low, first = np.int64(codes.widths[g]), codes.lows[g], g * GROUP
            bit = (codes.starts[g] - first_word) * 64 + (row - first) * width
            stop = min(first + GROUP, end[k])
            while row < stop:
                values[i] = _value_of(_code_at(words, bit, width), width, low, base[i] if is_relative else np.int64(0))
                bit += width
                row += 1
                i += 1


@kernel
def unpack_rows(words, first_word, codes, row, null, base, values):
    """Turn the codes of some rows back into values; negative rows yield `null`.

    Parameters
    ----------
    words, first_word, codes
        As for `unpack`.
    row : (n,) int64
    null : int
    base : (n,) or (0,) int64
        As for `pack`, of these rows.
    values : (n,) signed integers, written
    """
    is_relative = base.size > 0
    for i in range(row.size):
        if row[i] < 0:
            values[i] = null
            continue
        g = row[i] // GROUP
        width = np.int64(codes.widths[g])
        bit = (codes.starts[g] - first_word) * 64 + (row[i] - g * GROUP) * width
        added = base[i] if is_relative else np.int64(0)
        values[i] = _value_of(_code_at(words, bit, width), width, codes.lows[g], added)
