"""The decorators kernels wear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. It works in the arrays
    it is given and makes none, so references to them need not be counted: every call from kernel to kernel that does costs
    two atomic operations per array. It is called from Python and from kernels, never through a pointer: the wrapper for
    that, which is compiled with every function, is left out.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels, which is called by them alone; it is stored with each of them, inlined if it is small.

    Without the wrapper for calls from Python, which takes half of the time to compile a small function.
    """
    return numba.njit(nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True)(
        function
    )
