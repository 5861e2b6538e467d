"""Groups of arrays that kernels take: named tuples, whose annotations give the type of each array."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=NamedTuple)


@lru_cache
def types_of(group: type[Any]) -> tuple[np.dtype[Any], ...]:
    """Return the type of each array, from annotations such as `NDArray[np.int64]`."""
    hints = get_type_hints(group)
    # numpy 2.5 has NDArray[type] itself, earlier ones the alias spelled out, whose last part is dtype[type]
    last = [get_args(hints[name])[-1] for name in group._fields]
    return tuple(np.dtype(*(get_args(found) or [found])) for found in last)


def empty(group: type[T], n: int) -> T:
    """Make uninitialised arrays of n elements each."""
    return group(*(np.empty(n, t) for t in types_of(group)))


def zeros(group: type[T], n: int) -> T:
    """Make arrays of n zeros each."""
    return group(*(np.zeros(n, t) for t in types_of(group)))


def first(arrays: T, n: int) -> T:
    """Return views of the first n elements."""
    return type(arrays)(*[a[:n] for a in each(arrays)])


def after(arrays: T, n: int) -> T:
    """Return views of the elements after the first n."""
    return type(arrays)(*[a[n:] for a in each(arrays)])


def doubled(arrays: T, zeros: Callable[[int, Any], NDArray[Any]] = np.zeros) -> T:
    """Return copies of twice the length, padded with zeros, in arrays that `zeros` makes."""
    found = type(arrays)(*(zeros(2 * a.size, a.dtype) for a in each(arrays)))
    for copy, a in zip(each(found), each(arrays), strict=True):
        copy[: a.size] = a
    return found


def with_room(array: NDArray[Any], filled: int) -> NDArray[Any]:
    """Return a copy of the first elements with room for four times as many as before.

    Pages that are never written to take no memory; only filled elements are copied.
    """
    found = np.empty(4 * array.size, array.dtype)
    found[:filled] = array[:filled]
    return found


def trimmed(array: NDArray[Any], filled: int) -> NDArray[Any]:
    """Free the memory after the first elements of an array that owns its memory and that nothing else refers to; return
    the array."""
    array.resize(filled, refcheck=False)
    return array


def each(arrays: NamedTuple) -> tuple[NDArray[Any], ...]:
    """Return the arrays one by one, whatever their types."""
    return arrays
