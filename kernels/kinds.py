"""Kinds of arguments, on which the machine code of a kernel depends, described without numba."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np

Kind = Any
"""The kind of an argument. For an array: (type of its elements, dimensions, layout, whether it can be written to); for
a tuple: (its class, kinds of its fields); for all others: the name of their type in numpy, or `none`."""

_of_arrays: dict[tuple[Any, int, int], Kind] = {}
_of_classes: dict[type, str] = {}


def kind_of(value: Any) -> Kind:
    """Return the kind of an argument; arguments of the same kinds share machine code."""
    of = type(value)
    if of is np.ndarray:
        key = value.dtype, value.ndim, value.flags.num
        found = _of_arrays.get(key)
        return _array_kind(value) if found is None else found
    if of is int:
        return "int64" if -(1 << 63) <= value < 1 << 63 else "uint64"
    if isinstance(value, tuple):
        return _of_classes.get(of) or _class_name(of), tuple(map(kind_of, value))
    return _other_kind(value)


def _array_kind(array: np.ndarray[Any, Any]) -> Kind:
    """Return the kind of an array, and remember it."""
    layout = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"
    found = str(array.dtype), array.ndim, layout, bool(array.flags.writeable)
    _of_arrays[array.dtype, array.ndim, array.flags.num] = found
    return found


def _class_name(of: type) -> str:
    """Return the module and name of a class of named tuples, and remember them; an empty string for plain tuples."""
    _of_classes[of] = "" if of is tuple else f"{of.__module__}:{of.__qualname__}"
    return _of_classes[of]


def _other_kind(value: Any) -> Kind:
    """Return the kind of an argument that is neither a plain int, nor a plain numpy array, nor a tuple."""
    if isinstance(value, np.ndarray):
        return _array_kind(value)
    if isinstance(value, np.generic):
        return str(value.dtype)
    if isinstance(value, bool | float | int):
        return {bool: "bool", float: "float64"}.get(type(value), "int64")
    if value is None:
        return "none"
    raise TypeError(f"kernels take arrays, numbers and tuples of them, and no {type(value).__name__}")


def kinds_of(described: Iterable[Any]) -> tuple[Kind, ...]:
    """Return kinds that were read from JSON, which has lists instead of tuples."""
    return tuple(kinds_of(d) if isinstance(d, list) else d for d in described)


def numba_type(kind: Kind) -> Any:
    """Return numba's type of a kind."""
    from numba import from_dtype, types

    if isinstance(kind, str):
        return types.none if kind == "none" else from_dtype(np.dtype(kind))
    if len(kind) == 4:
        dtype, n_dimensions, layout, is_mutable = kind
        return types.Array(from_dtype(np.dtype(dtype)), n_dimensions, layout, readonly=not is_mutable)
    module, _, name = kind[0].partition(":")
    of = getattr(importlib.import_module(module), name) if name else tuple
    return types.BaseTuple.from_types([numba_type(k) for k in kind[1]], of)
