"""The decorators kernels wear.

Importing numba takes 0.3 s, a third of the time of a small analysis. What only looks at results or definitions calls no
kernel, so numba is imported when the first one is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from typing import Any

from tracecols.errors import TracecolsError

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""How kernels and their parts are compiled."""

_parts: list[tuple[Callable[..., Any], dict[str, Any]]] = []
"""Parts of kernels, and their options, that numba does not know yet."""

_lock = RLock()


class Kernel:
    """A function that is compiled when it is first called with arguments of some types, or loaded from the disk.

    Attributes
    ----------
    py_func : callable
        The plain function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """The function as numba knows it."""
        if self._dispatcher is None:
            with _lock:
                if self._dispatcher is None:
                    self._dispatcher = _make_dispatcher(self.py_func)
        return self._dispatcher

    @property
    def signatures(self) -> list[Any]:
        """Types of arguments it has been compiled for."""
        return list(self.dispatcher.signatures)

    def compile(self, types: tuple[Any, ...]) -> None:
        """Compile it for arguments of some types of numba."""
        self.dispatcher.compile(types)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


def _type_of(kernel: Kernel, _context: Any) -> Any:
    """Tell numba what a kernel is that another kernel calls."""
    from numba import types

    return types.Dispatcher(kernel.dispatcher)


@cache
def load_numba() -> Any:
    """Import numba, and let it know what a `Kernel` is.

    Raises
    ------
    TracecolsError
        If the environment has a number of threads that numba does not accept.
    """
    threads = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if threads and not (re.fullmatch(r"[+]?[0-9]+", threads) and int(threads) > 0):
        raise TracecolsError(
            f"numba cannot be used: NUMBA_NUM_THREADS is {threads[:20]}, and it needs a number of at least 1\n"
            "  unset this environment variable; tracecols does not use numba's threads"
        )
    import numba
    from numba.extending import typeof_impl

    typeof_impl.register(Kernel)(_type_of)
    return numba


def _make_dispatcher(function: Callable[..., Any]) -> Any:
    """Hand a function to numba, and before it all parts that it may call."""
    numba = load_numba()
    from tracecols.kernels.cache import enable_caching

    while _parts:
        of_kernels, options = _parts.pop()
        numba.extending.register_jitable(**options)(of_kernels)
    dispatcher = numba.njit(**OPTIONS)(function)
    enable_caching(dispatcher, function)
    return dispatcher


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. It works in the
    arrays it is given and makes none, so references to them need not be counted: every call from kernel to kernel that
    does costs two atomic operations per array. It is called from Python and from kernels, never through a pointer: the
    wrapper for that, which is compiled with every function, is left out.
    """
    return Kernel(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels: it is stored with each kernel that calls it, and inlined if it is small. Called from
    Python, it is the plain function.

    As with kernels, the wrapper for calls through a pointer is left out: a tenth of the time to compile them.
    """
    _parts.append((function, OPTIONS))
    return function


def inner_part(function: Callable[..., Any]) -> Any:
    """Compile a part that is inlined whatever its size: one that kernels call so often that handing over its many
    arrays counts.

    Without it the OTF2 decoder took 40 ns longer for each send, fork or collective operation, twice as long as before.
    """
    _parts.append((function, {**OPTIONS, "forceinline": True}))
    return function
