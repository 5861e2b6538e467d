"""Progress of long work: the function that reports it, and how stages share one report."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""

SCAN = 0.6
"""Share of an analysis that its scan takes: 0.53 to 0.64 on a recorded and two generated traces of 2 to 10 M events;
the rest is the search."""


def shares_of(report: Progress | None, total: int, *shares: float) -> list[Progress | None]:
    """Divide a report among consecutive stages, each of which counts in its own units; None if it is not shown."""
    if report is None:
        return [None] * len(shares)

    def part(before: float, share: float) -> Progress:
        return lambda done, of: report(int(total * (before + share * done / max(of, 1))), total)

    return [part(sum(shares[:i]), share) for i, share in enumerate(shares)]
