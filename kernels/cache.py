"""Machine code of kernels on disk. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.caching import FunctionCache


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


def enable_caching(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Let a dispatcher keep machine code on disk.

    Parameters
    ----------
    dispatcher : numba.core.dispatcher.Dispatcher
    function : callable
        What it compiles.
    """
    if hasattr(FunctionCache, "_load_overload"):
        dispatcher._cache = KernelCache(function)
    else:
        dispatcher.enable_caching()
