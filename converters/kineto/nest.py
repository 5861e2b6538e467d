"""Mend overlapping slices, so that those of a thread enclose or follow each other, and those of a stream follow each
other.

If two slices of a thread cross, the one that begins later is changed, by the smaller of two changes: its begin moves to
the end of the slice it crosses, or its end to the end of the slice around it. So `ProfilerStep#10`, which begins
shortly before the Python function that opens it returns, keeps nearly all of its time.

On a stream, the earlier one ends when the next begins, but a kernel of a collective operation is never cut: slices that
overlap it go to another location.
"""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import inner_part, kernel, part

MOST_DELAYS = 8
"""Maximum number of times the begin of a slice moves; then its end does, so that hostile input cannot take forever."""


@inner_part
def precedes(a, b, begin, end):
    """Return whether slice a comes before slice b: it begins earlier, or at the same time and ends later."""
    if begin[a] != begin[b]:
        return begin[a] < begin[b]
    if end[a] != end[b]:
        return end[a] > end[b]
    return a < b


@part
def push(heap, size, s, begin, end):
    """Push a slice onto the heap of those whose begin has moved."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if precedes(heap[above], s, begin, end):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = s


@part
def pop(heap, size, begin, end):
    """Pop the first slice from the heap of those whose begin has moved."""
    found, s = heap[0], heap[size - 1]
    at, n = 0, size - 1
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and precedes(heap[below + 1], heap[below], begin, end):
            below += 1
        if precedes(s, heap[below], begin, end):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = s
    return found


@inner_part
def outermost_crossed(until, depth, stack, end):
    """Return the depth of the outermost open slice that ends before a time; ends never grow from outside to inside."""
    low, high = 0, depth
    while low < high:
        middle = (low + high) >> 1
        if end[stack[middle]] < until:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def mend_thread(begin, end, heap, delays, stack, order):
    """Mend the slices of a thread so that they enclose or follow each other.

    Parameters
    ----------
    begin, end : (n,) int64
        Ordered by begin, those of one begin by decreasing end; changed.
    heap, stack : (n,) int64
        Work space.
    delays : (n,) uint8
        Zeros; afterwards the number of times each begin has moved.
    order : (n,) int64
        Filled: the slices in their new order.
    """
    n = begin.size
    i = size = depth = k = 0
    while i < n or size > 0:
        if size > 0 and (i >= n or precedes(heap[0], i, begin, end)):
            s = pop(heap, size, begin, end)
            size -= 1
        else:
            s = np.int64(i)
            i += 1
        while depth > 0 and end[stack[depth - 1]] <= begin[s]:
            depth -= 1
        if depth > 0 and end[stack[depth - 1]] < end[s]:
            outer = end[stack[outermost_crossed(end[s], depth, stack, end)]]
            inner = end[stack[depth - 1]]
            if delays[s] < MOST_DELAYS and outer - begin[s] < end[s] - inner:
                begin[s] = outer
                delays[s] += 1
                push(heap, size, s, begin, end)
                size += 1
                continue
            end[s] = inner
        stack[depth] = s
        depth += 1
        order[k] = s
        k += 1


@kernel
def mend_stream(begin, end, is_collective, level, this, most):
    """Mend the slices of a stream so that they follow each other; those that overlap a collective operation move up a
    level.

    Parameters
    ----------
    begin, end : (n,) int64
        Ordered by begin; ends change.
    is_collective : (n,) uint8
        Whether a slice is not cut.
    level : (n,) int64
        Location of each slice among those of the stream; changed.
    this : int
        The level to process.
    most : int
        The last level; nothing moves from there.

    Returns
    -------
    int
        Number of slices moved.
    """
    last, n_moved = -1, 0
    for i in range(begin.size):
        if level[i] != this:
            continue
        if last >= 0 and end[last] > begin[i]:
            if is_collective[last] and this < most:
                level[i] = this + 1
                n_moved += 1
                continue
            end[last] = begin[i]
        last = i
    return n_moved
