"""The decorators kernels wear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. It works in the arrays
    it is given and makes none, so references to them need not be counted: every call from kernel to kernel that does costs
    two atomic operations per array.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)


def allocating_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes arrays."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
