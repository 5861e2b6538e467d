"""Who shows values: the layers that hold values do not know those that display them, and ask for them here by name.

`tracecols/__init__.py` registers all of them; it runs before any other module of the package. A module is imported when
something is shown for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_RENDERERS: dict[str, tuple[str, str]] = {}


def register(name: str, module: str, function: str) -> None:
    """Say which function of which module a renderer is; neither is imported now."""
    _RENDERERS[name] = (module, function)


def renderer(name: str) -> Callable[..., Any]:
    """Import a renderer and return it."""
    module, function = _RENDERERS[name]
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result
