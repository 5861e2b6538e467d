"""Numbers in words: with a unit after them, as people give them (1MB, 10us, 5%), and with what they count (1 thread, 2
threads)."""

from __future__ import annotations

import math
import re

UNITS: dict[str, dict[str, float]] = {
    "seconds": {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9},
    "bytes": {
        "": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
    },
    "share": {"": 1, "%": 0.01},
    "rank": {"": 1},
    "occurrences": {"": 1},
    "": {"": 1},
}  # fmt: skip
"""What may follow a number, in any letter case, by what it counts."""

ALL_UNITS = {name: factor for units in UNITS.values() for name, factor in units.items()}


def quantity(text: float | str, units: dict[str, float]) -> float:
    """Return a number in the unit that has no name: seconds, bytes, a share of 1; NaN if it is none.

    Parameters
    ----------
    units : dict of str to float
        What may follow it: one of `UNITS`, or `ALL_UNITS`.
    """
    found = re.fullmatch(r"\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*(\D*?)\s*", str(text), re.IGNORECASE)
    try:
        return float(found[1]) * units[found[2].lower()] if found else math.nan
    except (KeyError, ValueError):
        return math.nan


def in_words(value: float, counts: str) -> str:
    """Return a number as text, with a unit of suitable size.

    Parameters
    ----------
    counts : str
        What it counts, a key of `UNITS`.
    """
    if counts == "share":
        return f"{value:.1%}"
    for name, factor in {"seconds": (("s", 1), ("ms", 1e-3), ("us", 1e-6)), "bytes": (("MB", 1e6), ("kB", 1e3))}.get(
        counts, ()
    ):
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value * 1e9:.3g} ns" if counts == "seconds" else f"{value:.3g} B" if counts == "bytes" else f"{value:g}"


# -- what is counted
# ------------------------------------------------------------------------------------------------------

_HEAD = re.compile(
    r"[\w -]*?\w(?=s (?:that|which|whose|of|from|for|in|on|with|without|outside|beyond|earlier|received|launched|asked|counted|left|were)\b|s[,:;]|s$)"
)
"""The noun of a note, without its ending, in front of all that is said of it."""

_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", ""))
"""Of nouns in the plural and in the singular, the first that fits."""

_VERBS = {
    **{verb: f"{verb}s" for verb in ("lack", "begin", "end", "run", "belong", "contradict", "leave", "overlap", "wait")},
    "are": "is", "were": "was", "have": "has", "do": "does", "launch": "launches",
}  # fmt: skip
"""What is said of several things, and of one."""

_AGREEING = (
    (r"\bthey were\b", "it was"), (r"\bthey and\b", "it and"), (r"\bthey waited\b", "it waited"), (r"\bthey do\b", "it does"), (r"\bthey count\b", "it counts"), (r"\btheir\b", "its"),
    (r"\bthe one before them\b", "the one before it"), (r"\bwhose launches are\b", "whose launch is"),
    (r"(?<=, )and lack\b", "and lacks"), (r"(?<=\bis )no CPUs\b", "no CPU"), (r"(?<=\bis )no numbers\b", "no number"),
    (r"(?<=\blaunches kernels or )copy\b", "copies"),
)  # fmt: skip
"""The same for other words of the notes of analyses."""


def singular(words: str) -> str:
    """Return what is said of several things, for one of them: a note of an analysis without its number.

    Parameters
    ----------
    words : str
        A noun in the plural, and what is said of it: kernels that begin before their launch.
    """
    found = _HEAD.match(words)
    if found is None:
        return words
    noun, said = words[: found.end() + 1], words[found.end() + 1 :]
    many, one = next((many, one) for many, one in _ENDINGS if noun.endswith(many))
    # the first clause has what is counted for its subject
    said = re.sub(
        r"\b(that|which) (never )?([a-z]+)\b", lambda m: f"{m[1]} {m[2] or ''}{_VERBS.get(m[3], m[3])}", said, count=1
    )
    for several, single in _AGREEING:
        said = re.sub(several, single, said)
    return noun.removesuffix(many) + one + said


def counted(n: int, what: str, many: str = "") -> str:
    """Write a number with what it counts: 1 device, 4 processes.

    Parameters
    ----------
    many : str, optional
        Several of it, if that is not `what` and an s.
    """
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def note(n: int, what: str) -> str:
    """Write how many there are of what a note of an analysis counts."""
    return f"{n:,} {singular(what) if n == 1 else what}"
