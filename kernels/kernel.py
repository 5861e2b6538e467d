"""The decorators kernels wear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.extending import register_jitable


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Machine code of a kernel on disk, loaded without what only compiling needs.

    numba's own makes ready everything it can compile before it loads the first function: 0.3 s and 35 MB of each process, a fifth
    of the time of ``tracecols analyze`` on a small trace. Compiling makes it ready again by itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the machine code for the types of some arguments; None if there is none."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
        return None


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. It works in the arrays
    it is given and makes none, so references to them need not be counted: every call from kernel to kernel that does costs
    two atomic operations per array. It is called from Python and from kernels, never through a pointer: the wrapper for
    that, which is compiled with every function, is left out.
    """
    dispatcher = numba.njit(nogil=True, error_model="numpy", _nrt=False, no_cfunc_wrapper=True)(function)
    if hasattr(FunctionCache, "_load_overload"):
        dispatcher._cache = KernelCache(function)
    else:
        dispatcher.enable_caching()
    return dispatcher


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
