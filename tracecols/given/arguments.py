"""Check arguments from callers in one place: names, numbers of locations, times. Errors say what is expected."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from tracecols.errors import TracecolsError

FARTHEST = (1 << 62) - 1
"""Clock readings are clamped to this: nothing is recorded beyond it, and differences of two readings still fit into 64
bits."""


def show(given: object) -> str:
    """Return what was given as text for an error message, shortened."""
    return reprlib.repr(given)


def did_you_mean(name: object, known: Iterable[str], otherwise: str) -> str:
    """Return a hint: up to three names like the one not found, or what to do if none is like it."""
    # imported only if a name is unknown
    from difflib import get_close_matches

    near = get_close_matches(name, list(dict.fromkeys(known)), 3) if isinstance(name, str) else []
    return f"did you mean {', '.join(near)}?" if near else otherwise


def is_whole_number(given: object) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or of numpy; booleans are not."""
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def as_path(given: object, error: type[TracecolsError]) -> Path:
    """Return the path of a file or a folder. Raises TracecolsError: of the type `error`: if it is not given as one."""
    if not isinstance(given, str | os.PathLike):
        raise error(f"{show(given)} is not the path of a file or a folder\n  give a text, or a pathlib.Path")
    return Path(given)


def as_texts(given: object, what: str, error: type[TracecolsError]) -> list[str]:
    """Return texts as a list; a single one gives a list of one."""
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else None
    if found is None or not all(isinstance(text, str) for text in found):
        raise error(f"{what} are given as texts, not as {show(given)}\n  give one text, or a list of them")
    return found


_NUMBERS = r"\d{1,9}(?:\s*-\s*\d{1,9})?(?:\s*,\s*\d{1,9}(?:\s*-\s*\d{1,9})?)*"
_SELECTION = re.compile(rf"\s*(?:(?:ranks?|threads?)\s+{_NUMBERS}\s*(?:,\s*)?)+", re.IGNORECASE)
_TERM = re.compile(rf"(rank|thread)s?\s+({_NUMBERS})", re.IGNORECASE)


def is_selection(given: object) -> bool:
    """Return whether a value is a text that selects locations, such as `rank 0-3 thread 1`."""
    return isinstance(given, str) and _SELECTION.fullmatch(given) is not None


def selected_numbers(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return the selection in a text (`is_selection`): by `rank` and `thread` the ranges of numbers, both ends
    included.

    Examples
    --------
    >>> selected_numbers("rank 0, 2-3 thread 1")
    {'rank': [(0, 0), (2, 3)], 'thread': [(1, 1)]}
    """
    result: dict[str, list[tuple[int, int]]] = {}
    for what, numbers in _TERM.findall(text):
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            result.setdefault(what.lower(), []).append((int(first), int(last or first)))
    return result


def as_locations(given: object, error: type[TracecolsError]) -> list[int | str]:
    """Return locations, given as numbers or as texts that select some (`rank 0`, `thread 1`, `rank 0-3 thread 1`), as a
    list; a single one gives a list of one."""
    found: list[Any] | None = None
    if is_whole_number(given) or is_selection(given):
        found = [given]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        found = list(given)
    if found is None or not all(is_whole_number(one) or is_selection(one) for one in found):
        raise error(
            f"locations are given as whole numbers, or in words, not as {show(given)}\n"
            "  give a number, a list such as [0, 4, 5], or a text such as 'rank 0' or 'rank 0-3 thread 1'"
        )
    return [location if isinstance(location, str) else int(location) for location in found]


def check_locations(chosen: Iterable[int], n_locations: int, error: type[TracecolsError]) -> None:
    """Refuse locations that a trace does not have."""
    for location in chosen:
        if not 0 <= location < n_locations:
            there_are = f"there are {n_locations}, numbered from 0"
            raise error(
                f"no location {location}\n  {there_are} (see trace.locations)",
                in_shell=f"{there_are} (see tracecols info)",
            )


def as_seconds(given: object, what: str, error: type[TracecolsError]) -> float | None:
    """Return a time in seconds; None stays."""
    if given is None:
        return None
    seconds = math.nan
    if np.isscalar(given) and not isinstance(given, str | bytes | bool):
        with suppress(TypeError, ValueError, OverflowError):
            seconds = float(given)  # type: ignore[arg-type]
    if not math.isfinite(seconds):
        raise error(
            f"the {what} is not a time: {show(given)}\n"
            "  give seconds since the start of the recording as a finite number"
        )
    return seconds


def clock_reading(seconds: float, clock: Mapping[str, Any]) -> int:
    """Convert seconds since the start of the recording to a clock reading, from -`FARTHEST` to `FARTHEST`."""
    if abs(seconds) * clock["resolution"] >= FARTHEST:
        return int(math.copysign(FARTHEST, seconds))
    return round(seconds * clock["resolution"]) + int(clock["origin"])
