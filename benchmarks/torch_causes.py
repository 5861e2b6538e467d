"""Whether the rank and the call path that make all others wait are named in real trainings with PyTorch:
`python -m benchmarks.torch_causes --python TORCH/bin/python`, with an interpreter that has torch (2.6 or newer).

Each run has 2 to 4 processes with gloo, one of which sleeps in its backward pass (`programs/torch_ddp.py`), as long
as `--seconds` says.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import tracecols

PROGRAM = Path(__file__).parent / "programs" / "torch_ddp.py"
CAUSE = "SlowBackward"
"""Last region of the call path to be named."""


def named(folder: Path, store: Path) -> tuple[int, str]:
    """Return the rank and the call path that cost most waiting in collective operations.

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
    found = costs.groupby(["rank", "cause"], observed=True).value.sum()
    rank, cause = found.idxmax()
    return int(rank), str(cause)


def main() -> int:
    """Run the trainings; returns 0 if the cause is named in all."""
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
            found = named(folder, Path(scratch) / "x.trace")
        n_named += found == (slow, CAUSE)
        print(f"run {run}: rank {slow} of {n} sleeps; named: rank {found[0]}, {found[1]}", flush=True)
    print(f"{n_named} of {given.runs}")
    return 0 if n_named == given.runs else 1


if __name__ == "__main__":
    sys.exit(main())
