"""Shares of amounts, and sums of them."""

from __future__ import annotations

import numpy as np

from tracecols.causes.points import Times
from tracecols.enhance.dataflow.grouping import Segments as Groups
from tracecols.kernels import causes as kernels
from tracecols.vectors import Ints


def divide_ticks(amount: Ints, end: Ints, weight: Ints) -> Ints:
    """Divide non-negative integer amounts in proportion to weights; (n_weights,). The weights of an amount, at least
    one, end before `end`."""
    size = np.diff(end, prepend=0)
    share = np.empty(int(size.sum()), np.int64)
    scratch = np.zeros((3, int(size.max(initial=1))), np.int64)
    kernels.divide_amounts(amount, end - size, size, weight, share, *scratch)
    return share


def add_up(group: Ints, value: Times, n: int) -> Times:
    """Add up values by group, in their order."""
    return Groups(group, n).sum(value) if value.dtype == np.int64 else np.bincount(group, value, n)
