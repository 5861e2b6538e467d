"""tracecols: vectorized columnar analysis of parallel event traces.

Importing this module loads neither numba nor pandas nor pyarrow; its names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tracecols.version import __version__

if TYPE_CHECKING:
    from tracecols.conversion import convert

_LAZY = {
    "convert": "tracecols.conversion",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tracecols' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
