"""How deep stacks are."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import allocating_kernel


@allocating_kernel
def count_depths(enterptr, first, top, depth):
    """Count the region instances a location is in, behind each of its events.

    Parameters
    ----------
    enterptr : (n,) int64
        Row of the enclosing ENTER of each event, -1 at top level.
    first : int
        Row of the first event.
    top : (n,) int64
        Row of the ENTER on top of the stack behind each event, -1 if it is empty.
    depth : (n,) int64
        Filled.
    """
    own = np.empty(enterptr.size, np.int64)  # depth of the region instance an event would open
    for i in range(enterptr.size):
        above = enterptr[i]
        own[i] = own[above - first] + 1 if above >= 0 else 1
    for i in range(top.size):
        depth[i] = own[top[i] - first] if top[i] >= 0 else 0
