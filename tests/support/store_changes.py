"""Changes of stores, and a made-up format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tracecols.converters.base import Batch, Clock, Report
from tracecols.errors import SourceError
from tracecols.schema import DEFINITIONS, EventKind
from tracecols.store import Store
from tracecols.store.layout import checksum


def definitions_for(n_events: list[int], value_types: tuple[str, ...] = ("float64",)) -> dict[str, dict[str, list]]:
    """Return the definition tables for `Numbers`: locations of one process, four regions, one metric class."""
    tables = {name: {c: [] for c in table.names} for name, table in DEFINITIONS.items()}

    def define(name: str, n: int, **columns: list) -> None:
        dtypes = {c.name: c.dtype for c in DEFINITIONS[name].columns}
        empty = {c: [[] if d.startswith("list") else "" if d == "string" else -1] * n for c, d in dtypes.items()}
        tables[name] = {**empty, "id": list(range(n)), **columns}

    n = len(n_events)
    define("processes", 1)
    define("regions", 4)
    define("metric_members", len(value_types), value_type=list(value_types))
    define("metric_classes", 1, members=[list(range(len(value_types)))])
    define("metric_sources", 1, metric_class=[0])
    tables["locations"] = {
        "id": list(range(n)),
        "name": [""] * n,
        "type": ["cpu_thread"] * n,
        "process": [0] * n,
        "thread": list(range(n)),
        "first_row": (np.cumsum([0, *n_events])[:-1]).tolist(),
        "n_events": list(n_events),
    }
    return tables


class Numbers:
    """A source of made-up events: `n_events` at each location, in batches of at most `rows`."""

    format = "numbers"
    path = Path("numbers")
    clock = Clock(1000)
    properties: dict[str, str] = {}
    capabilities: frozenset[str] = frozenset()

    def __init__(self, n_events: list[int], rows: int = 1000, fail_at: tuple[int, int] | None = None) -> None:
        self.definitions = definitions_for(n_events)
        self.metric_types = [["float64"]]
        self.n_events, self.rows, self.fail_at = n_events, rows, fail_at

    def read(self, location: int, report: Report, *, salvage: bool = False):
        """Yield batches; the arrays are reused, as the contract allows."""
        buffer = np.empty(self.rows, np.int64)
        for start in range(0, self.n_events[location], self.rows):
            if self.fail_at is not None and self.fail_at == (location, start):
                raise SourceError("made to fail\n  nothing to do")
            n = min(self.rows, self.n_events[location] - start)
            number = np.arange(start, start + n)
            buffer[:n] = 1_000_000 * location + number
            some = number[number % 3 == 0]
            sides = {
                "locks": {
                    "row": some,
                    "kind": np.full(some.size, 57, np.uint8),
                    "model": np.full(some.size, 3, np.int16),
                    "lock": some * 7 - location,
                    "acquisition": some,
                },
                "metrics_0": {"row": number, "source": np.zeros(n, np.int32), "value_0": number / 7},
            }
            kinds = np.where(number % 3 == 0, EventKind.THREAD_ACQUIRE_LOCK, EventKind.METRIC).astype(np.uint8)
            regions = (number % 5).astype(np.int32) - 1
            yield Batch({"time": buffer[:n], "kind": kinds, "region": regions}, sides)
            buffer[:] = -1


def change(store: Store, **manifest: object) -> Path:
    """Change entries of a manifest, and its checksum; None removes an entry."""
    entries = {k: v for k, v in {**store.manifest, **manifest}.items() if v is not None}
    entries["checksum"] = checksum(entries)
    (store.path / "manifest.json").write_text(json.dumps(entries))
    return store.path
