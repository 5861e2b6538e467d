"""Functions that upper layers provide to lower ones, which cannot import them and look them up here by name: how values
are shown, and the declarations of properties.

`tracecols/__init__.py` registers all of them; it runs before any other module of the package. A module is imported when
it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_PROVIDERS: dict[str, tuple[str, str]] = {}


def register(name: str, module: str, function: str) -> None:
    """Register the function of a module under a name; the module is not imported yet."""
    _PROVIDERS[name] = (module, function)


def provider(name: str) -> Callable[..., Any]:
    """Import and return the function that is registered under a name."""
    module, function = _PROVIDERS[name]
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result
