"""Measure how often changes between runs are found, and how often an alarm is false.

Pairs of sets of runs are generated. Each call path has its own noise; some call paths wait, with much more noise. In
half of the pairs nothing changes; in the others one computing call path takes longer by some share.

    python -m benchmarks.changes                        200 pairs of each kind, a line for each
    python -m benchmarks.changes --pairs 50 --noise 0.02 --repetitions 8
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracecols.runs.changes import find_changes
from tracecols.runs.folder import Run
from tracecols.runs.series import Series


@dataclass(frozen=True)
class Kind:
    """Parameters of pairs.

    Attributes
    ----------
    slowdown : float
        Relative, of one call path; 0.05 for 5 %.
    noise : float
        Of computing call paths: standard deviation by mean. Waiting ones have ten times as much.
    repetitions : int
        Runs on each side.
    n_cells : int
    """

    slowdown: float
    noise: float = 0.01
    repetitions: int = 5
    n_cells: int = 200


def pair(kind: Kind, seed: int) -> tuple[Series, int]:
    """Draw two sets of runs; return them, and the number of the cell that takes longer in the second."""
    rng = np.random.default_rng(seed)
    n_runs, n = 2 * kind.repetitions, kind.n_cells
    waits = rng.random(n) < 0.3
    mean = rng.lognormal(0, 1.5, n)
    noise = kind.noise * np.where(waits, 10, 1) * rng.uniform(0.5, 1.5, n)
    # disturbances only add time, some of them much
    cells = mean * (1 + noise * rng.gamma(2.0, 0.7, (n_runs, n)))
    large = np.flatnonzero(~waits & (mean > 0.005 * mean.sum()))
    slow = int(rng.choice(large))
    position = np.repeat([0, 1], kind.repetitions)
    cells[position == 1, slow] *= 1 + kind.slowdown
    paths = [f"main/f{i}" for i in range(n)]
    runs = [Run(f"run-{i}", {}, "", Path(f"run-{i}.severity")) for i in range(n_runs)]
    titles = np.where(waits, "Wait", "Computation").tolist()
    threads = np.ones(n_runs)
    series = Series(
        runs,
        "commit",
        ["before", "after"],
        position,
        titles,
        titles,
        paths,
        cells,
        cells.sum(axis=1),
        threads,
        "sec",
        adds_up=True,
    )
    return series, slow


def campaign(kind: Kind, pairs: int, rate: float = 0.05) -> tuple[int, int]:
    """Count the pairs in which a change is found, and those in which the first one found is the real change."""
    alarms = located = 0
    for seed in range(pairs):
        series, slow = pair(kind, seed)
        changes = find_changes(series, rate)
        alarms += bool(changes)
        first = changes[0].cells[:1] if changes else []
        located += bool(kind.slowdown) and [cell.call_path for cell in first] == [series.call_paths[slow]]
    return alarms, located


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--slowdown", type=float, default=0.05)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--repetitions", type=int, default=5)
    asked = parser.parse_args()
    for slowdown in (0.0, asked.slowdown):
        kind = Kind(slowdown, asked.noise, asked.repetitions)
        alarms, located = campaign(kind, asked.pairs)
        what = f"{slowdown:.0%} slower" if slowdown else "nothing changed"
        print(
            f"{what}: alarms in {alarms} of {asked.pairs}"
            + (f", the right place first in {located}" if slowdown else "")
        )


if __name__ == "__main__":
    main()
