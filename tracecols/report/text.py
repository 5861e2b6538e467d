"""Text in the terminal for commands that do not import rich: widths, and values with their units."""

from __future__ import annotations

import math
import os
import shutil
import sys

from tracecols.given.quantities import in_words

WIDE = 160
"""Width of tables that are written to a file or a pipe."""

NARROWEST = 60
"""Minimum width of tables: on a narrower terminal, lines are folded."""


def text_width() -> int:
    """Return the maximum width of tables: that of the terminal or of the environment variable `COLUMNS`, else
    `WIDE`."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return max(shutil.get_terminal_size().columns, NARROWEST)
    return WIDE


def value_in_words(value: float, unit: str) -> str:
    """Write a value with its unit; a dash if it is undefined."""
    if not math.isfinite(value):
        return "-"
    if unit == "share":
        return f"{value:.1%}"
    if unit == "sec":
        return f"{value:,.6f} s" if value >= 1e-5 or value <= 0 else in_words(value, "seconds")
    if unit == "Hz":
        return f"{value / 1e9:.3f} GHz"
    return f"{value:,.0f}" if unit == "occ" else f"{value:.3f}"
