"""The order of buffer flushes among the events around them."""

from __future__ import annotations

from typing import Any

FLUSH, METRIC, ENTER_OR_LEAVE = 10, 31, (12, 13)


def in_order_of_the_program(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Move every flush after the following ENTER or LEAVE of the same time and its METRICs; events begin with time and
    kind."""
    result: list[tuple[Any, ...]] = []
    at = 0
    while at < len(events):
        time, kind = events[at][:2]
        last = at
        if kind == FLUSH:
            last += 1
            while last < len(events) and events[last][:2] == (time, METRIC):
                last += 1
            if last == len(events) or events[last][0] != time or events[last][1] not in ENTER_OR_LEAVE:
                last = at
        result += [*events[at + 1 : last + 1], events[at]]
        at = last + 1
    return result
