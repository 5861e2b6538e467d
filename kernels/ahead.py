"""Compile the kernels of an analysis in another process, while the command that needs them does something else.

Compiling takes most of the first run after an installation, and numba compiles one kernel at a time in a process. The
file `ahead.json` lists what an analysis calls, in this order; `python -m benchmarks.first_run --write` makes it anew.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("ahead.json")
"""Kernels: module, name and types of the arguments (`described`) of each."""

MOST = 3
"""Processes; with more the largest kernel, which one of them compiles, takes longest."""


def start(n: int) -> list[subprocess.Popen[bytes]]:
    """Start processes that compile the kernels of an analysis, those it calls last first; whoever starts them ends
    them.

    Parameters
    ----------
    n : int
        How many; at most `MOST` are started.
    """
    n = min(n, MOST)
    nothing = subprocess.DEVNULL
    # -P: not what is in the current folder under the same name
    return [
        subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(k), str(n)], stdin=nothing, stdout=nothing, stderr=nothing
        )
        for k in range(n)
    ]


def compile_share(k: int, n: int) -> None:
    """Compile every n-th of the listed kernels, from the last one on, and leave them on disk.

    Parameters
    ----------
    k, n : int
        The share, counted from 0; the number of shares.
    """
    for module, name, arguments in json.loads(LIST.read_text())[::-1][k::n]:
        getattr(importlib.import_module(module), name).compile(tuple(numba_type(a) for a in arguments))


def described(argument: Any) -> Any:
    """Return what JSON can say of the type of an argument; `numba_type` is the way back.

    An array is [type of its elements, dimensions, whether it can be written to], a named tuple [its class, types of its
    fields], all others have a name. Arrays are C-contiguous.
    """
    from numba import types

    if isinstance(argument, types.Array):
        return [str(argument.dtype), argument.ndim, argument.mutable]
    if isinstance(argument, types.BaseNamedTuple):
        of = argument.instance_class
        return [f"{of.__module__}:{of.__name__}", [described(t) for t in argument]]
    return str(argument)


def numba_type(description: Any) -> Any:
    """Return the type that `described` has described.

    Parameters
    ----------
    description : list or str
    """
    from numba import types

    if isinstance(description, str):
        return getattr(types, description)
    if len(description) == 3:
        dtype, n_dimensions, mutable = description
        return types.Array(getattr(types, dtype), n_dimensions, "C", readonly=not mutable)
    module, name = description[0].split(":")
    return types.BaseTuple.from_types(
        [numba_type(t) for t in description[1]], getattr(importlib.import_module(module), name)
    )


def main(arguments: Sequence[str]) -> None:
    """Compile a share of the kernels in the time that others leave."""
    if hasattr(os, "nice"):
        os.nice(10)
    compile_share(*(int(a) for a in arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
