"""tracecols: vectorized columnar analysis of parallel event traces.

Importing this module loads neither numba nor pandas nor pyarrow; its names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tracecols.given.providers import register
from tracecols.version import __version__

if TYPE_CHECKING:
    from tracecols.conversion import convert
    from tracecols.export.cube_read import read_cube
    from tracecols.given.parameters import Parameter
    from tracecols.patterns.base import Family, pattern
    from tracecols.patterns.matches import Constituent
    from tracecols.runs import Experiment
    from tracecols.severity.comparison import compare
    from tracecols.severity.cube import SeverityCube
    from tracecols.trace import Trace
    from tracecols.trace import open_trace as open

_LAZY = {
    "Constituent": ("tracecols.patterns.matches", "Constituent"),
    "Experiment": ("tracecols.runs", "Experiment"),
    "Family": ("tracecols.patterns.base", "Family"),
    "Parameter": ("tracecols.given.parameters", "Parameter"),
    "SeverityCube": ("tracecols.severity.cube", "SeverityCube"),
    "Trace": ("tracecols.trace", "Trace"),
    "compare": ("tracecols.severity.comparison", "compare"),
    "convert": ("tracecols.conversion", "convert"),
    "earl": ("tracecols.earl", ""),
    "errors": ("tracecols.errors", ""),
    "open": ("tracecols.trace", "open_trace"),
    "pattern": ("tracecols.patterns.base", "pattern"),
    "read_cube": ("tracecols.export.cube_read", "read_cube"),
    "rules": ("tracecols.rules", ""),
}

__all__ = [
    "Constituent",
    "Experiment",
    "Family",
    "Parameter",
    "SeverityCube",
    "Trace",
    "__version__",
    "compare",
    "convert",
    "earl",
    "errors",
    "open",
    "pattern",
    "read_cube",
    "rules",
]

register("diagnosis as HTML", "tracecols.report.diagnosis", "html_of")
register("finding as HTML", "tracecols.report.diagnosis", "finding_as_html")
register("trace as HTML", "tracecols.report.info", "html_of")
register("diagnosis as text", "tracecols.report.diagnosis", "text")
register("cube as a page", "tracecols.report.viewer", "write_page")
register("cube as a widget", "tracecols.report.viewer", "widget")
register("cube in a notebook", "tracecols.report.viewer", "mimebundle")
register("cube as a table", "tracecols.report.viewer", "html_table")
register("properties by id", "tracecols.patterns.registry", "by_id")


def __getattr__(name: str) -> object:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        loaded = import_module(module)
        return getattr(loaded, attribute) if attribute else loaded
    # imported only here: importing the package takes a few milliseconds
    near = [] if name.startswith("_") else import_module("difflib").get_close_matches(name, __all__, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'tracecols' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
