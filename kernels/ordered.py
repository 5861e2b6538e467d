"""Positions of values among ascending ones."""

from __future__ import annotations

from tracecols.kernels.kernel import part


@part
def first_at_least(value, low, high, values):
    """Return the position, from `low` to `high`, of the first of ascending values that is not less than a value; `high`
    if all between them are less."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def first_after(value, low, high, values):
    """Return the position, from `low` to `high`, of the first of ascending values that is greater than a value; `high`
    if none between them is."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def last_until(value, low, high, values):
    """Return the position, from `low` to `high` - 1, of the last of ascending values that is not greater than a value;
    `low` - 1 if all between them are."""
    return first_after(value, low, high, values) - 1


@part
def place_of(value, low, high, values):
    """Return the position, from `low` to `high`, of a value among ascending ones; -1 if it is absent."""
    at = first_at_least(value, low, high, values)
    return at if at < high and values[at] == value else -1
