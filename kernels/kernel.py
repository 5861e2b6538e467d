"""The decorators kernels wear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.extending import register_jitable


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. It works in the arrays
    it is given and makes none, so references to them need not be counted: every call from kernel to kernel that does costs
    two atomic operations per array. It is called from Python and from kernels, never through a pointer: the wrapper for
    that, which is compiled with every function, is left out.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function)


def _part(function: Callable[..., Any], **options: bool) -> Any:
    return register_jitable(nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True, **options)(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels: it is stored with each kernel that calls it, and inlined if it is small. Called from Python, it is the plain function.

    As with kernels, the wrapper for calls through a pointer is left out: a tenth of the time to compile them.
    """
    return _part(function)


def inner_part(function: Callable[..., Any]) -> Any:
    """Compile a part that is inlined whatever its size: one that kernels call so often that handing over its many arrays counts.

    Without it the OTF2 decoder took 40 ns longer for each send, fork or collective operation, twice as long as before.
    """
    return _part(function, forceinline=True)
