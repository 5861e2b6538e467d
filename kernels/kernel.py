"""The decorator every kernel wears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``.
    """
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
