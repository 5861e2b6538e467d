"""Elements with the same key: number their groups, count, pair and add up within them. All O(n), none sorts."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import allocating_kernel, kernel

# how `reduce_groups` reduces
MAX, MIN, SUM = range(3)


@allocating_kernel
def number_groups(key):
    """Number the distinct keys in order of their first appearance.

    Parameters
    ----------
    key : (n,) int64

    Returns
    -------
    group : (n,) int64
        Number of each element's key.
    first : (n_groups,) int64
        First element of every group.
    """
    n = key.size
    group = np.empty(n, np.int64)
    first = np.empty(64, np.int64)
    n_groups = 0
    low, high = np.int64(0), np.int64(-1)
    if n > 0:
        low, high = key[0], key[0]
    for i in range(n):
        low = min(low, key[i])
        high = max(high, key[i])
    if 0 <= high - low < 4 * n:
        # few enough keys to give each a place
        number = np.empty(high - low + 1, np.int64)
        for place in range(number.size):
            number[place] = -1
        for i in range(n):
            g = number[key[i] - low]
            if g < 0:
                g = n_groups
                n_groups += 1
                number[key[i] - low] = g
                if g == first.size:
                    larger = np.empty(2 * g, np.int64)
                    larger[:g] = first
                    first = larger
                first[g] = i
            group[i] = g
        return group, first[:n_groups].copy()
    table = np.empty(256, np.int64)
    for slot in range(table.size):
        table[slot] = -1
    for i in range(n):
        k = key[i]
        if i > 0 and k == key[i - 1]:
            group[i] = group[i - 1]
            continue
        mask = table.size - 1
        slot = ((k * np.int64(-7046029254386353131)) >> 20) & mask
        g = table[slot]
        while g >= 0 and key[first[g]] != k:
            slot = (slot + 1) & mask
            g = table[slot]
        if g < 0:
            g = n_groups
            n_groups += 1
            if g == first.size:
                larger = np.empty(2 * g, np.int64)
                larger[:g] = first
                first = larger
                table = np.empty(8 * g, np.int64)
                mask = table.size - 1
                for s in range(table.size):
                    table[s] = -1
                for other in range(g):
                    slot = ((key[first[other]] * np.int64(-7046029254386353131)) >> 20) & mask
                    while table[slot] >= 0:
                        slot = (slot + 1) & mask
                    table[slot] = other
                slot = ((k * np.int64(-7046029254386353131)) >> 20) & mask
                while table[slot] >= 0:
                    slot = (slot + 1) & mask
            first[g] = i
            table[slot] = g
        group[i] = g
    return group, first[:n_groups].copy()


@allocating_kernel
def count_in_groups(group, n_groups):
    """Number the elements of each group: 0 for its first, 1 for its second, ...; (n,) int64."""
    seen = np.zeros(n_groups, np.int64)
    result = np.empty(group.size, np.int64)
    for i in range(group.size):
        result[i] = seen[group[i]]
        seen[group[i]] += 1
    return result


@kernel
def reduce_groups(group, values, result, how):
    """Reduce the values of each group into `result`, which holds what the reduction starts from.

    Parameters
    ----------
    group : (n,) int64
    values : (n,) int64 or float64
    result : (n_groups,) of the same type
    how : int
        MAX, MIN or SUM.
    """
    if how == MAX:
        for i in range(group.size):
            g = group[i]
            result[g] = max(result[g], values[i])
    elif how == MIN:
        for i in range(group.size):
            g = group[i]
            result[g] = min(result[g], values[i])
    else:
        for i in range(group.size):
            result[group[i]] += values[i]


@allocating_kernel
def pair_neighbours(group, role, n_groups):
    """Pair each second with the first directly before it among the elements of its group.

    Parameters
    ----------
    group : (n,) int64
    role : (n,) int8
        1 first, 2 second, 0 neither.

    Returns
    -------
    (n,) int64
        For each second its first, for each first its second, -1 for all others.
    """
    last = np.empty(n_groups, np.int64)
    for g in range(n_groups):
        last[g] = -1
    result = np.empty(group.size, np.int64)
    for i in range(group.size):
        result[i] = -1
        if role[i] == 1:
            last[group[i]] = i
        elif role[i] == 2:
            first = last[group[i]]
            last[group[i]] = -1
            if first >= 0:
                result[i] = first
                result[first] = i
    return result


@allocating_kernel
def join_in_order(left, right, n_groups):
    """Find for the k-th element of each group on the right the k-th of the same group on the left.

    Parameters
    ----------
    left, right : (n,), (m,) int64
        Groups.

    Returns
    -------
    (m,) int64
        Element on the left, or -1.
    """
    head = np.empty(n_groups, np.int64)
    tail = np.empty(n_groups, np.int64)
    following = np.empty(left.size, np.int64)
    for g in range(n_groups):
        head[g] = -1
    for i in range(left.size):
        g = left[i]
        following[i] = -1
        if head[g] < 0:
            head[g] = i
        else:
            following[tail[g]] = i
        tail[g] = i
    result = np.empty(right.size, np.int64)
    for j in range(right.size):
        i = head[right[j]]
        result[j] = i
        if i >= 0:
            head[right[j]] = following[i]
    return result
