"""Common part of programs that record themselves: an archive, and the truth about it.

They use devices or one-sided communication, which the simulations of `programs.kernels` do not support. They execute
their schedule in plain Python and write it with the recorder of the tests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.otf2_writer import Archive, Location


@dataclass
class Recording:
    """An archive and the truth about it."""

    archive: Archive
    # in the order of the store: process by process, masters first
    locations: list[Location] = field(default_factory=list)
    # ticks, occurrences or bytes by property and location
    lost: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, name: str, location: int, value: int) -> None:
        """Add a positive value to a property of a location."""
        if value > 0:
            self.lost[name, location] += value

    @property
    def severities(self) -> dict[str, list[int]]:
        """Return the values of all locations, by property."""
        n = len(self.locations)
        names = sorted({name for name, _ in self.lost})
        return {name: [self.lost.get((name, i), 0) for i in range(n)] for name in names}

    @property
    def n_events(self) -> int:
        """Return the number of events."""
        return sum(x.n_records for x in self.locations)

    def write(self) -> Path:
        """Write the archive, and `truth.json` next to it."""
        path = self.archive.write()
        truth: dict[str, Any] = {"n_events": self.n_events, "severities": self.severities}
        (path.parent / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")
        return path
