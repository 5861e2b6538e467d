"""Orders, by definition."""

from __future__ import annotations

from collections.abc import Sequence


def first_smaller(values: Sequence[int], item: int, start: int, stop: int) -> int:
    """Return the first j of the range with values[j] < values[item], -1 if there is none."""
    for j in range(start, stop):
        if values[j] < values[item]:
            return j
    return -1


def overtaken(sent: Sequence[int], receiver: Sequence[int], received: Sequence[int], m: int, end: int | None) -> bool:
    """Return whether a message received later at the same location was sent earlier.

    `received` numbers the receives of a location; if a call waits for several, later means after its `end`.
    """
    return any(
        receiver[other] == receiver[m]
        and received[other] > (received[m] if end is None else end)
        and sent[other] < sent[m]
        for other in range(len(sent))
    )
