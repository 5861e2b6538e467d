"""Numbers as text: with units, as users write them (1MB, 10us, 5%), and with what they count (2 threads)."""

from __future__ import annotations

import math
import re

UNITS: dict[str, dict[str, float]] = {
    "seconds": {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9},
    "bytes": {
        "": 1,
        "b": 1,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 1 << 10,
        "mib": 1 << 20,
        "gib": 1 << 30,
        "tib": 1 << 40,
    },
    "share": {"": 1, "%": 0.01},
    "rank": {"": 1},
    "occurrences": {"": 1},
    "": {"": 1},
}
"""Units that may follow a number, in any letter case, by the quantity it counts."""

ALL_UNITS = {name: factor for units in UNITS.values() for name, factor in units.items()}


def quantity(text: float | str, units: dict[str, float]) -> float:
    """Convert a number with one of `units` (`UNITS`, `ALL_UNITS`) to the unit that has no name: seconds, bytes, a share
    of 1; NaN if it is not a number."""
    found = re.fullmatch(r"\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*(\D*?)\s*", str(text), re.IGNORECASE)
    try:
        return float(found[1]) * units[found[2].lower()] if found else math.nan
    except (KeyError, ValueError):
        return math.nan


def in_bytes(text: str) -> int | None:
    """Return a size such as 4GB or 512MiB in bytes; None if it is none: 4Gb are bits."""
    found = quantity(text, UNITS["bytes"])
    if not math.isfinite(found) or found < 0 or re.search(r"[kKmMgGtT]i?b\s*$", text):
        return None
    return round(found)


def in_words(value: float, counts: str) -> str:
    """Return a number as text, with a unit of suitable size for what it counts, a key of `UNITS`."""
    if counts == "share":
        return f"{value:.1%}"
    for name, factor in {
        "seconds": (("s", 1), ("ms", 1e-3), ("us", 1e-6)),
        "bytes": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)),
    }.get(counts, ()):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns" if counts == "seconds" else f"{value:.3g} B" if counts == "bytes" else f"{value:g}"


# -- what is counted ---------------------------------------------------------------------------------------------------


def counted(n: int, what: str, many: str = "") -> str:
    """Return a number and what it counts: 1 device, 4 processes; `many` is the plural if not with an s."""
    return f"{n:,} {what if n == 1 else many or what + 's'}"
