"""Shares of amounts, and sums of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.points import Times
from tracecols.enhance.dataflow.grouping import Segments as Groups
from tracecols.kernels import causes as kernels


def divide_ticks(amount: NDArray[np.int64], end: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.int64]:
    """Divide whole amounts in proportion to the weights that end where they say; (n_weights,) int64.

    Parameters
    ----------
    amount, end : (n,) int64
        Not negative; one past the last weight of each, which has one at least.
    weight : (n_weights,) int64
        Not negative.
    """
    size = np.diff(end, prepend=0)
    return divide_some_ticks(amount, end - size, size, weight)


def divide_some_ticks(
    amount: NDArray[np.int64], first: NDArray[np.int64], size: NDArray[np.int64], weight: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Divide whole amounts in proportion to some of the weights each; the shares of one amount after the other; int64.

    Parameters
    ----------
    amount : (n,) int64
        Not negative.
    first, size : (n,) int64
        Its weights; a single one may be missing.
    weight : (n_weights,) int64
        Not negative.
    """
    share = np.empty(int(size.sum()), np.int64)
    scratch = np.zeros((3, int(size.max(initial=1))), np.int64)
    kernels.divide_amounts(amount, first, size, weight, share, *scratch)
    return share


def add_up(group: NDArray[np.int64], value: Times, n: int) -> Times:
    """Add up values by group, in their order; (n,) of their type.

    Parameters
    ----------
    group : (n_values,) int64
    value : (n_values,) float64 or int64
    """
    return Groups(group, n).sum(value) if value.dtype == np.int64 else np.bincount(group, value, n)
