"""Depths of region stacks."""

from __future__ import annotations

from tracecols.kernels.kernel import kernel


@kernel
def count_depths(enterptr, first, top, own, depth):
    """Count the region instances a location is in, after each of its events.

    Parameters
    ----------
    enterptr : (n,) int64
        Row of the enclosing ENTER of each event, -1 at top level.
    first : int
        Row of the first event.
    top : (n,) int64
        Row of the ENTER on top of the stack after each event, -1 if it is empty.
    own, depth : (n,) int64
        Filled: depth of the region instance an event would open, and the depth after it.
    """
    for i in range(enterptr.size):
        above = enterptr[i]
        own[i] = own[above - first] + 1 if above >= 0 else 1
    for i in range(top.size):
        depth[i] = own[top[i] - first] if top[i] >= 0 else 0
