"""Compile the kernels of an analysis in another process, while the command that needs them does something else.

Compiling takes most of the first run after an installation, and numba compiles one kernel at a time in a process. The
file `ahead.json` lists the kernels that an analysis calls, in this order; `python -m benchmarks.first_run --write`
regenerates it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tracecols.kernels.kinds import kinds_of

LIST = Path(__file__).with_name("ahead.json")
"""Kernels: module, name and kinds of the arguments (`kernels.kinds`) of each."""

MOST = 3
"""Maximum number of processes: with more, the largest kernel, which a single one compiles, takes longest."""


def start(n: int) -> list[subprocess.Popen[bytes]]:
    """Start n processes, at most `MOST`, that compile the kernels of an analysis, those it calls last first; the caller
    has to end them."""
    n, nothing = min(n, MOST), subprocess.DEVNULL
    # -P: do not import modules of the same name from the current folder
    return [
        subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(k), str(n)], stdin=nothing, stdout=nothing, stderr=nothing
        )
        for k in range(n)
    ]


def main(arguments: Sequence[str]) -> None:
    """Compile a share of the listed kernels, from the last one on, at low priority, and leave them on disk. Arguments
    are the share, counted from 0, and the number of shares."""
    if hasattr(os, "nice"):
        os.nice(10)
    k, n = map(int, arguments)
    for module, name, kinds in json.loads(LIST.read_text())[::-1][k::n]:
        getattr(importlib.import_module(module), name).prepare(kinds_of(kinds))


if __name__ == "__main__":
    main(sys.argv[1:])
