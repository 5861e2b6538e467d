"""The decorators of kernels.

Importing numba would take a quarter of the time of a small analysis. It is imported when the first kernel has to be
compiled.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from threading import RLock
from typing import Any

from tracecols.errors import TracecolsError
from tracecols.kernels.kinds import Kind, kind_of, numba_type

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""How kernels and their parts are compiled."""

_parts: list[tuple[Callable[..., Any], dict[str, Any]]] = []
"""Parts of kernels, and their options, that are not yet registered with numba."""

_on_load: list[Callable[[], None]] = []
"""Functions to call when numba is imported."""

_lock = RLock()


class Kernel:
    """A function that is compiled, or loaded from disk, when it is first called with arguments of some kinds.

    Attributes
    ----------
    py_func : callable
        The plain function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._machine_code: dict[tuple[Kind, ...], Callable[..., Any]] = {}
        self._compiling = RLock()
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """The dispatcher of numba, which compiles the function."""
        if self._dispatcher is None:
            with _lock:
                if self._dispatcher is None:
                    self._dispatcher = _make_dispatcher(self.py_func)
        return self._dispatcher

    @property
    def kinds(self) -> list[tuple[Kind, ...]]:
        """Kinds of arguments for which this process has machine code."""
        return list(self._machine_code)

    def prepare(self, kinds: tuple[Kind, ...]) -> Callable[..., Any]:
        """Return machine code for arguments of some kinds: load it, or compile it and keep it on the disk."""
        from tracecols.kernels.cache import load

        with self._compiling:
            found = self._machine_code.get(kinds) or load(self.py_func, kinds) or self._make(kinds)
            self._machine_code[kinds] = found
        return found

    def _make(self, kinds: tuple[Kind, ...]) -> Callable[..., Any]:
        """Make machine code from bitcode if the package has it, else with numba, and keep it on disk."""
        from tracecols.kernels import bitcode, cache

        found = bitcode.load(self.py_func, kinds)
        if found is None:
            result = self.compile(kinds)
            if result is None:
                return self.py_func
            cache.keep(self.py_func, kinds, cache.code_of(result, result.library._get_compiled_object()))
            found = result.entry_point
        return found

    def compile(self, kinds: tuple[Kind, ...]) -> Any:
        """Compile the kernel for arguments of some kinds; return the result of numba
        (`numba.core.compiler.CompileResult`), None if the environment disables compilation."""
        if load_numba().config.DISABLE_JIT:
            return None
        types = tuple(numba_type(kind) for kind in kinds)
        self.dispatcher.compile(types)
        return self.dispatcher.overloads[types]

    def __call__(self, *arguments: Any) -> Any:
        kinds = tuple(map(kind_of, arguments))
        return (self._machine_code.get(kinds) or self.prepare(kinds))(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


def _type_of(kernel: Kernel, _context: Any) -> Any:
    """Return numba's type of a kernel that another kernel calls."""
    from numba import types

    return types.Dispatcher(kernel.dispatcher)


def load_numba() -> Any:
    """Import numba, and register `Kernel` with it. Raises TracecolsError if the environment has a number of threads
    that numba does not accept."""
    with _lock:
        numba = _import_numba()
        while _on_load:
            _on_load.pop()()
    return numba


@cache
def _import_numba() -> Any:
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


@contextmanager
def when_numba_is_loaded(call: Callable[[], None]) -> Iterator[None]:
    """Call a function when numba is imported, at once if it already is; no longer once the context has ended."""
    with _lock:
        _on_load.append(call)
        if "numba" in sys.modules:
            load_numba()
    try:
        yield
    finally:
        with _lock, suppress(ValueError):
            _on_load.remove(call)


def _make_dispatcher(function: Callable[..., Any]) -> Any:
    """Make numba's dispatcher for a function, after registering all parts that it may call."""
    numba = load_numba()
    while _parts:
        of_kernels, options = _parts.pop()
        numba.extending.register_jitable(**options)(of_kernels)
    return numba.njit(**OPTIONS)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a sequential kernel: cached on disk, without the interpreter lock, never parallel inside.

    Threads run kernels side by side over locations; the plain function stays available as ``.py_func``. A kernel works
    on the arrays it is given and allocates none, so references to them need not be counted: counting would cost two
    atomic operations per array in every call from kernel to kernel. It is called from Python and from kernels, never
    through a pointer, so the wrapper for such calls, which numba compiles with every function, is left out.
    """
    return Kernel(function)


def part(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels: it is stored with each kernel that calls it, and inlined if it is small. Called from
    Python, it is the plain function.

    As with kernels, the wrapper for calls through a pointer is left out: it takes a tenth of the time to compile them.
    """
    _parts.append((function, OPTIONS))
    return function


def inner_part(function: Callable[..., Any]) -> Any:
    """Compile a part that is inlined whatever its size: one that kernels call so often that the cost of passing its
    many arrays matters.

    Without it the OTF2 decoder took 40 ns longer for each send, fork or collective operation, twice as long as before.
    """
    _parts.append((function, {**OPTIONS, "forceinline": True}))
    return function
