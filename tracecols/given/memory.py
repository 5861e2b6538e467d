"""The memory limit of a command or a method, as given by callers."""

from __future__ import annotations

from tracecols.given.arguments import is_whole_number, show
from tracecols.given.quantities import in_bytes, in_words

LEAST = 400_000_000
"""Minimum bytes of memory for an analysis: interpreter, libraries and compiled kernels take up to 260 MB, and each
thread needs buffers for a batch of events."""


def as_memory(given: object) -> int | None:
    """Return an amount of memory, a size with its unit (`4GB`, `512MiB`) or a number of bytes, in bytes; None stays.
    Raises ValueError if it is not a size, or no analysis can be made with so little."""
    if given is None:
        return None
    found = int(given) if is_whole_number(given) else in_bytes(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f"{show(given)} is not an amount of memory such as 4GB or 512MiB, with a capital B")
    if found < LEAST:
        raise ValueError(
            f"{show(given)} is too little memory for an analysis: give {in_words(LEAST, 'bytes')} at least"
        )
    return found
