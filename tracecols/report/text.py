"""Text in the terminal for commands that do not import rich: widths, and values with their units."""

from __future__ import annotations

import math
import os
import shutil
import sys

from tracecols.given.printable import printable
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


LARGE = 1e3
"""Values of other units than seconds are written without decimals from here on."""


def value_in_words(value: float, unit: str, sign: str = "") -> str:
    """Write a value with its unit; a dash if it is undefined. Counts have no unit, nor has what is divided by a count:
    occurrences (`occ`), and numbers of hardware counters (`#`). With `+` as `sign`, positive values have a sign."""
    if not math.isfinite(value):
        return "-"
    if unit == "share":
        return f"{value:.1%}"
    if unit == "Hz":
        return f"{value / 1e9:.3f} GHz"
    if unit == "ratio":
        return f"{value:.3f}"
    of = unit.removesuffix("/occ")
    if of == "sec" and value and (abs(value) < 1e-5 or of != unit):
        return ("-" if value < 0 else sign) + in_words(abs(value), "seconds")
    if of == "sec":
        return f"{value:{sign},.6f} s"
    digits = ",.0f" if value % 1 == 0 or abs(value) >= LARGE else ",.4g"
    return f"{value:{sign}{digits}} {printable(of)}".removesuffix(" occ").removesuffix(" #").rstrip()
