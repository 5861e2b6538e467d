"""What upper layers provide to lower ones, which do not know them and ask for it here by name: how values are shown,
and what is declared of properties.

`tracecols/__init__.py` registers all of it; it runs before any other module of the package. A module is imported when
it is needed for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_PROVIDERS: dict[str, tuple[str, str]] = {}


def register(name: str, module: str, function: str) -> None:
    """Say which function of which module provides something; neither is imported now."""
    _PROVIDERS[name] = (module, function)


def provider(name: str) -> Callable[..., Any]:
    """Import a function that provides something, and return it."""
    module, function = _PROVIDERS[name]
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result
