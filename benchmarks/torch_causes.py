"""Check that the rank and the call path that make all others wait are named in real trainings with PyTorch:
`python -m benchmarks.torch_causes --python TORCH/bin/python`, with an interpreter that has torch (2.6 or newer).

Each run has 2 to 4 processes with gloo, one of which sleeps in its backward pass (`programs/torch_ddp.py`), as long
as `--seconds` says. On a machine with other load, another process may be late as well. So two shares are shown for each
run: that of waits for the sleeping process in all waits, read from the JSON alone (`recorded`), and that of its sleep
in all costs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

import tracecols

PROGRAM = Path(__file__).parent / "programs" / "torch_ddp.py"
CAUSE = "SlowBackward"
"""Last region of the call path that has to be named."""


def recorded(folder: Path) -> pd.Series:
    """Return, by rank, the time that others wait for it in operations of gloo that it begins last; seconds.

    Parameters
    ----------
    folder : Path
        A trace of each rank.
    """
    of_rank = {}
    for path in folder.glob("*.json.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        calls = [e for e in trace["traceEvents"] if e["name"] == "gloo:all_reduce" and e["ph"] == "X"]
        of_rank[trace["distributedInfo"]["rank"]] = sorted((e["ts"], e["ts"] + e["dur"]) for e in calls)
    waits = dict.fromkeys(sorted(of_rank), 0.0)
    for members in zip(*of_rank.values(), strict=True):
        begin = max(members)[0]
        last = list(of_rank)[members.index(max(members))]
        waits[last] += sum(min(begin, end) - own for own, end in members) / 1e6
    return pd.Series(waits)


def charged(folder: Path, store: Path) -> pd.Series:
    """Return the costs of waiting in collective operations by rank and call path, the largest first; seconds.

    Parameters
    ----------
    folder : Path
        A trace of each rank.
    store : Path
        The store to make.
    """
    cube = tracecols.open(tracecols.convert(folder, store)).analyze()
    costs = cube.frame("delay_device_nxn")
    costs["cause"] = costs.call_path.astype(str).str.rsplit("/").str[-1]
    return costs.groupby(["rank", "cause"], observed=True).value.sum().sort_values(ascending=False)


def main() -> int:
    """Run the trainings; return 0 if the cause is named in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.1, help="how long the process sleeps in each step")
    given = parser.parse_args()
    chance, n_named = random.Random(given.seed), 0
    for run in range(given.runs):
        n = chance.randrange(2, 5)
        slow = chance.randrange(n)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "run"
            command = [given.python, str(PROGRAM), str(folder), str(n), str(slow), str(given.seconds)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"the training of run {run} failed:\n{done.stderr[-2000:]}")
            waits, costs = recorded(folder), charged(folder, Path(scratch) / "x.trace")
        rank, cause = costs.index[0]
        n_named += (rank, cause) == (slow, CAUSE)
        print(
            f"run {run}: rank {slow} of {n} sleeps, others wait {waits[slow]:.3f} of {waits.sum():.3f} s for it; "
            f"named: rank {rank}, {cause}, with {costs.iloc[0]:.3f} of {costs.sum():.3f} s",
            flush=True,
        )
    print(f"{n_named} of {given.runs}")
    return 0 if n_named == given.runs else 1


if __name__ == "__main__":
    sys.exit(main())
