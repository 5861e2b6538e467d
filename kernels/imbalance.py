"""Deviations of the values of call paths at locations from their mean."""

from __future__ import annotations

from tracecols.kernels.kernel import kernel

# which part of a deviation from the mean counts
SIZE, ABOVE, BELOW, ABSENT = range(4)


@kernel
def compare_with_mean(call_path, first, stop, locations, mean, start, location, value, how, key, result):
    """Compare the values of call paths at locations with a mean, missing values as zero; O(values written and skipped).
    Return the number of results.

    Parameters
    ----------
    call_path : (n,) int64
        Call paths to compare, ascending.
    first, stop : (n,) int64
        The range of `locations`, which ascend, at which to compare each.
    locations : (m,) int64
    mean : (n_call_paths,) float64
        Of all call paths.
    start : (n_call_paths + 1,) int64
        First cell of each call path, among those of all.
    location : (n_cells,) int32
        Ascending for each call path.
    value : (n_cells,) float64
    how : int
        SIZE: the absolute difference. ABOVE, BELOW: how much more, or less, than the mean. ABSENT: the mean where the
        value is zero or missing.
    key : (>= n_results,) int64, written
        `call path << 32 | location` of each result, ascending.
    result : (>= n_results,) float64, written
        The results that are not zero.
    """
    n = 0
    for k in range(call_path.size):
        p = call_path[k]
        at, end = start[p], start[p + 1]
        for i in range(first[k], stop[k]):
            here = locations[i]
            while at < end and location[at] < here:
                at += 1
            own = 0.0
            if at < end and location[at] == here:
                own = value[at]
            if how == ABSENT:
                found = mean[p] if own == 0 else 0.0
            else:
                found = own - mean[p]
                if how == SIZE:
                    found = abs(found)
                elif how == ABOVE:
                    found = max(found, 0.0)
                else:
                    found = max(-found, 0.0)
            if found != 0:
                key[n] = (p << 32) | here
                result[n] = found
                n += 1
    return n
