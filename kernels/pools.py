"""Pools of items of which stacks are made: the first array of a pool links each item to the one below it on its stack,
and each free item to the next free one; -1 none. The first free item is kept in an element of a state."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from tracecols.kernels.arrays import doubled, each, zeros
from tracecols.kernels.kernel import part

T = TypeVar("T", bound=NamedTuple)


def linked(group: type[T], n: int) -> T:
    """Make a pool of n free items, the first of which is item 0."""
    return _link(zeros(group, n), 0)


def more_linked(items: T) -> tuple[T, int]:
    """Return copies of a pool in which no item is free, followed by as many free items, and the first of these."""
    n = each(items)[0].size
    return _link(doubled(items), n), n


def _link(items: T, first: int) -> T:
    below = each(items)[0]
    below[first:] = np.arange(first + 1, below.size + 1)
    below[-1] = -1
    return items


@part
def push_item(top, state, free, below):
    """Put the first free item, `state[free]`, on top of a stack, and return it."""
    item = state[free]
    state[free] = below[item]
    below[item] = top
    return item


@part
def pop_item(top, state, free, below):
    """Free the item on top of a stack, and return the one below it."""
    under = below[top]
    below[top] = state[free]
    state[free] = top
    return under
