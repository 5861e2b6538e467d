"""Elements with the same key: number their groups, count, pair and add up within them. All O(n), none sorts.

The functions allocate the arrays, the kernels fill them: a kernel that allocates arrays takes 3 s longer to compile,
because of the text of the error that it might raise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel

# how `reduce_groups` reduces
MAX, MIN, SUM = range(3)


@kernel
def find_range(key):
    """Return the smallest and the largest key; 0 and -1 if there is none."""
    low, high = np.int64(0), np.int64(-1)
    if key.size > 0:
        low, high = key[0], key[0]
    for i in range(key.size):
        low = min(low, key[i])
        high = max(high, key[i])
    return low, high


@kernel
def number_in_range(key, low, number, group, first):
    """Number the distinct keys of a range in order of their first appearance. Return the number of groups.

    Parameters
    ----------
    key : (n,) int64
        `low <= key < low + number.size`.
    number : (any,) int64
        Number of each key; -1 initially.
    group, first : (n,) int64
        Filled, see `number_groups`; `first` as far as there are groups.
    """
    n_groups = 0
    for i in range(key.size):
        g = number[key[i] - low]
        if g < 0:
            g = n_groups
            n_groups += 1
            number[key[i] - low] = g
            first[g] = i
        group[i] = g
    return n_groups


@kernel
def number_by_hash(key, start, n_groups, group, first, table):
    """Number the distinct keys in order of their first appearance, until a quarter of a hash table is full.

    Parameters
    ----------
    key : (n,) int64
    start, n_groups : int
        Element to go on with, and the number of groups so far.
    group, first : (n,) int64
        Filled, see `number_groups`; `first` as far as there are groups.
    table : (2 ** k,) int64
        Hash table of groups, all -1.

    Returns
    -------
    i, n_groups : int
        The element to go on with, using a larger table, or `n` if all are done; number of groups.
    """
    mask = table.size - 1
    for g in range(n_groups):
        slot = ((key[first[g]] * np.int64(-7046029254386353131)) >> 20) & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = g
    for i in range(start, key.size):
        k = key[i]
        if i > 0 and k == key[i - 1]:
            group[i] = group[i - 1]
            continue
        slot = ((k * np.int64(-7046029254386353131)) >> 20) & mask
        g = table[slot]
        while g >= 0 and key[first[g]] != k:
            slot = (slot + 1) & mask
            g = table[slot]
        if g < 0:
            if 4 * n_groups >= table.size:
                return i, n_groups
            g = n_groups
            n_groups += 1
            first[g] = i
            table[slot] = g
        group[i] = g
    return key.size, n_groups


def number_groups(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct keys in order of their first appearance: return the number of each element's key, (n,) int64,
    and the first element of every group, (n_groups,) int64."""
    n = key.size
    group, first = np.empty(n, np.int64), np.empty(n, np.int64)
    low, high = find_range(key)
    if 0 <= int(high) - int(low) < 4 * n:
        # few enough keys to give each a place
        n_groups = number_in_range(key, low, np.full(int(high) - int(low) + 1, -1, np.int64), group, first)
    else:
        at = n_groups = 0
        size = 256
        while at < n:
            at, n_groups = number_by_hash(key, at, n_groups, group, first, np.full(size, -1, np.int64))
            size *= 2
    return group, first[:n_groups].copy()


@kernel
def find_in_blocks(key, shift, block_start, wanted, found):
    """Find wanted keys among ascending ones, which are divided by value into blocks, most of which hold few keys.

    Parameters
    ----------
    key : (n,) int64
        Ascending, at least one; the largest less the smallest fits in 63 bits.
    shift : int
        The block of a key is its difference from the smallest key, shifted to the right by this number of bits.
    block_start : (n_blocks + 1,) int32 or int64, written
        First key of each block.
    wanted : (m,) int64
    found : (m,) int64, written
        Position of each in `key`, of equal keys the first; -1 if absent.
    """
    low, high = key[0], key[-1]
    for b in range(block_start.size):
        block_start[b] = 0
    # without branches: how many keys the next block has cannot be predicted
    for i in range(key.size):
        block_start[((key[i] - low) >> shift) + 1] += 1
    for b in range(1, block_start.size):
        block_start[b] += block_start[b - 1]
    for j in range(wanted.size):
        x = wanted[j]
        found[j] = -1
        if x < low or x > high:
            continue
        b = (x - low) >> shift
        first, stop = block_start[b], block_start[b + 1]
        while first + 1 < stop:
            middle = (first + stop - 1) // 2
            if key[middle] < x:
                first = middle + 1
            else:
                stop = middle + 1
        # in a block without keys this is the first key of the next one, which is larger
        if key[first] == x:
            found[j] = first


def find_ascending(key: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of wanted keys among ascending ones, of equal keys the first, or -1; (n_wanted,) int64. The
    largest key less the smallest fits in 63 bits."""
    found = np.full(wanted.size, -1, np.int64)
    if key.size:
        span = int(key[-1]) - int(key[0])
        # up to four blocks for each key
        shift = (span // (4 * key.size)).bit_length()
        number = np.int32 if key.size < 1 << 31 else np.int64
        find_in_blocks(key, shift, np.empty((span >> shift) + 2, number), wanted, found)
    return found


@kernel
def find_largest_so_far(group, values, result):
    """Compute the running maximum of each group; the elements of a group are adjacent, `result` is filled."""
    for i in range(group.size):
        goes_on = i > 0 and group[i] == group[i - 1]
        result[i] = max(result[i - 1], values[i]) if goes_on else values[i]


@kernel
def are_in_order(key, time):
    """Return whether elements are ordered by key, and by time within a key."""
    in_order = True
    for i in range(1, key.size):
        in_order &= key[i] > key[i - 1] or (key[i] == key[i - 1] and time[i] >= time[i - 1])
    return in_order


@kernel
def find_latest(key, time, wanted_key, wanted_time, found):
    """Find the last element of a key with time <= the wanted time; `found` (m,) int64 is filled, with -1 where there is
    none. Elements are in order (`are_in_order`)."""
    for j in range(found.size):
        k, t = wanted_key[j], wanted_time[j]
        low, high = 0, key.size
        while low < high:
            middle = (low + high) // 2
            if key[middle] < k or (key[middle] == k and time[middle] <= t):
                low = middle + 1
            else:
                high = middle
        found[j] = low - 1 if low > 0 and key[low - 1] == k else -1


@kernel
def count_seen(group, seen, result):
    """Number the elements of each group; `seen` holds zeros, `result` is filled."""
    for i in range(group.size):
        result[i] = seen[group[i]]
        seen[group[i]] += 1


def count_in_groups(group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Number the elements of each group: 0 for its first, 1 for its second, ...; (n,) int64."""
    result = np.empty(group.size, np.int64)
    count_seen(group, np.zeros(n_groups, np.int64), result)
    return result


@kernel
def reduce_groups(group, values, result, how):
    """Reduce the values of each group into `result`, which holds the initial values.

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


@kernel
def add_neighbours(key, value, keys, sums):
    """Add up the values of equal neighbours; return the number of sums that are not zero (see `sum_ascending`)."""
    n = 0
    for i in range(key.size):
        if n > 0 and keys[n - 1] == key[i]:
            sums[n - 1] += value[i]
            continue
        if n > 0 and sums[n - 1] == 0:
            n -= 1
        keys[n] = key[i]
        sums[n] = value[i]
        n += 1
    if n > 0 and sums[n - 1] == 0:
        n -= 1
    return n


def sum_ascending(key: NDArray[np.int64], value: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add up the values of each of ascending keys: return the keys whose sum is not zero, and these sums; (n_sums,)
    int64 each."""
    keys, sums = np.empty(key.size, np.int64), np.empty(key.size, np.int64)
    n = add_neighbours(key, np.ascontiguousarray(value), keys, sums)
    return (keys, sums) if n == key.size else (keys[:n].copy(), sums[:n].copy())


@kernel
def find_neighbours(group, part, role, last, last_of_part, result):
    """Pair neighbours; `last` and `last_of_part` hold -1 for each group and part, `result` is filled (see
    `pair_neighbours`)."""
    for i in range(group.size):
        result[i] = -1
        if role[i] == 1:
            last[group[i]] = i
            last_of_part[part[i]] = i
        elif role[i] == 2:
            first = last_of_part[part[i]]
            if first < 0:
                first = last[group[i]]
            if first >= 0:
                last_of_part[part[first]] = -1
                if last[group[i]] == first:
                    last[group[i]] = -1
                result[i] = first
                result[first] = i


def pair_neighbours(
    group: NDArray[np.int64], role: NDArray[np.int8], n_groups: int, part: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Pair each second (role 2) with the first (role 1) directly before it among the elements of its group: return for
    each second its first, for each first its second, -1 for all others; (n,) int64.

    If groups have parts, numbered from 0, a first without partner in the part of the second comes before others.
    """
    result = np.empty(group.size, np.int64)
    last = np.full(n_groups, -1, np.int64)
    if part is None:
        find_neighbours(group, group, role, last, last, result)
    else:
        find_neighbours(group, part, role, last, np.full(part.size, -1, np.int64), result)
    return result


@kernel
def join_lists(left, right, head, tail, following, result):
    """Join in order: `head` holds -1 for each group, the others are filled (see `join_in_order`)."""
    for i in range(left.size):
        g = left[i]
        following[i] = -1
        if head[g] < 0:
            head[g] = i
        else:
            following[tail[g]] = i
        tail[g] = i
    for j in range(right.size):
        i = head[right[j]]
        result[j] = i
        if i >= 0:
            head[right[j]] = following[i]


def join_in_order(left: NDArray[np.int64], right: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Match the k-th element of each group on the right with the k-th of the same group on the left: return for each
    element on the right the one on the left, or -1; (n_right,) int64."""
    head, tail, following = np.full(n_groups, -1, np.int64), np.empty(n_groups, np.int64), np.empty_like(left)
    result = np.empty(right.size, np.int64)
    join_lists(left, right, head, tail, following, result)
    return result
