"""Ranks of chosen rows among many: a bit for every row, and a count for every 64 rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part


class Ranks(NamedTuple):
    """Chosen rows of a range; 1.5 bits per row."""

    bits: NDArray[np.uint64]
    """(n_words,): bit i of word k is row 64 k + i of the range."""
    before: NDArray[np.signedinteger[Any]]
    """(n_words,) int32 or int64: number of rows chosen before each word."""


@part
def n_set(word):
    """Count the bits that are set."""
    one, two, four = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
    word = word - ((word >> np.uint64(1)) & one)
    word = (word & two) + ((word >> np.uint64(2)) & two)
    word = (word + (word >> np.uint64(4))) & four
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@part
def is_chosen(ranks, row):
    """Return whether a row of the range is chosen."""
    return (ranks.bits[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) == np.uint64(1)


@part
def n_before(ranks, row):
    """Count the chosen rows before a row of the range."""
    below = (np.uint64(1) << np.uint64(row & 63)) - np.uint64(1)
    return np.int64(ranks.before[row >> 6]) + n_set(ranks.bits[row >> 6] & below)


@part
def choose(ranks, row):
    """Choose one more row of the range."""
    ranks.bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@kernel
def choose_rows(row, first, ranks):
    """Choose some more rows of a range that begins with row `first`; call `count_rows` after the last ones."""
    for i in range(row.size):
        choose(ranks, row[i] - first)


@kernel
def count_rows(ranks):
    """Count the chosen rows before each word; return the total."""
    n = 0
    for k in range(ranks.bits.size):
        ranks.before[k] = n
        n += n_set(ranks.bits[k])
    return n


def no_ranks(
    n_rows: int, number: type[np.signedinteger[Any]] = np.int32, zeros: Callable[[int, Any], NDArray[Any]] = np.zeros
) -> Ranks:
    """Make the `Ranks` of a range in which no row is chosen; `number` is the type of counts, and `zeros` makes
    arrays."""
    n_words = (n_rows + 63) // 64
    return Ranks(zeros(n_words, np.uint64), zeros(n_words, number))


def ranks_of(row: NDArray[np.int64], first: int, stop: int) -> Ranks:
    """Return the `Ranks` of the range first <= row < stop in which some rows are chosen."""
    ranks = no_ranks(stop - first)
    choose_rows(row, first, ranks)
    count_rows(ranks)
    return ranks
