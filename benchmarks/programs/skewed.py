"""A generated trace as clocks show it that nobody compared: the times of every process are those of its own clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.programs.source import Generated
from tracecols.converters.base import Batch, Report
from tracecols.converters.otf2.clock import LocalClock


class SkewedSource:
    """A trace generated with a skew, with local times in place of the true ones; threads have the clock of their process's first location."""

    def __init__(self, source: Generated) -> None:
        if source.clock_offsets is None:
            raise ValueError("without a skew all clocks are the same")
        self._source = source
        process = source.definitions["locations"]["process"]
        first = {p: i for i, p in reversed(list(enumerate(process)))}
        self._clocks = [LocalClock(source.clock_offsets[first[p]]) for p in process]
        ahead = -min(int(offset.min()) for _, offset in source.clock_offsets)
        self.clock = replace(source.clock, length=source.clock.length + ahead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order."""
        for batch in self._source.read(location, report, salvage=salvage):
            batch.events["time"] = self._clocks[location].local(batch.events["time"])
            yield batch
