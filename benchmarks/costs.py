"""Compare the costs of delays with the waits, for every trace below some folders and every kind of wait.

    python -m benchmarks.costs FOLDER ...                          a table of waits without costs, in ticks
    python -m benchmarks.costs --conventions scalasca FOLDER ...

Under the conventions `exact`, all waits whose causes are recorded have costs; under `scalasca`, some are lost by
peculiarities of the reference. Waits that no property of delays charges are listed with costs of zero.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import tracecols
from tracecols.errors import TracecolsError
from tracecols.patterns.registry import properties, waits_by_delay


class Row(NamedTuple):
    """The waits of one trace that one delay property charges."""

    delay: str
    waits: list[str]
    waited: float
    charged: float


def rows_of(archive: Path, conventions: str) -> Iterator[Row]:
    """Analyse an archive and compare its waits with their costs."""
    with tempfile.TemporaryDirectory(prefix="tracecols-costs-") as name:
        cube = tracecols.open(tracecols.convert(archive, Path(name) / "x.trace")).analyze(conventions)

        def total(id: str) -> float:
            return cube.cells[id].value.sum().item() if id in cube.cells else 0

        for delay, waits in waits_by_delay(properties(conventions)).items():
            known = [id for id in waits if total(id)]
            yield Row(delay, known, sum(total(id) for id in waits), total(delay) if delay else 0)


def main() -> int:
    """Print a line for each kind of wait whose costs differ; return 1 if one of them has a cause, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--conventions", choices=("exact", "scalasca"), default="exact")
    given = parser.parse_args()
    n = n_kinds = n_lost = 0
    print("| trace | costs | waits | waited | charged | lost |")
    print("|---|---|---|---:|---:|---:|")
    for archive in sorted(p for folder in given.folder for end in ("*.otf2", "*.elg") for p in folder.rglob(end)):
        try:
            rows = [row for row in rows_of(archive, given.conventions) if row.waited or row.charged]
        except TracecolsError as error:
            print(f"{archive}: {error}", file=sys.stderr)
            continue
        n, n_kinds = n + 1, n_kinds + len(rows)
        for row in rows:
            # the costs of idle threads are times of masters, which differ from the idle times
            if row.waited != row.charged and "idle" not in row.delay:
                n_lost += bool(row.delay)
                lost = row.waited - row.charged
                waits = ", ".join(row.waits)
                print(f"| {archive.parent.name} | {row.delay} | {waits} | {row.waited} | {row.charged} | {lost} |")
    print(f"{n} traces, {n_kinds} kinds of waits in them, {n_lost} with a cause whose costs differ", file=sys.stderr)
    return int(n_lost > 0)


if __name__ == "__main__":
    sys.exit(main())
