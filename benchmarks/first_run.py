"""The first convert and analyze after an installation, which compile kernels.

`python -m benchmarks.first_run ARCHIVE` runs convert and analyze of the store with an empty cache, then analyze of the
archive with another one; with one thread, and with as many as there are cores: then other processes compile ahead
(`tracecols.kernels.ahead`). `python -m benchmarks.first_run --write ARCHIVE...` makes the list of kernels anew that
they compile, and that the wheel has (`tracecols.kernels.bitcode`); what it has to be is what conversions and analyses
of the archives call, in a process that has called none yet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracecols.kernels import ahead
from tracecols.kernels.kernel import Kernel
from tracecols.kernels.kinds import Kind
from tracecols.work.jobs import n_jobs


def called(archives: Sequence[Path]) -> list[list[Any]]:
    """Return the kernels that converting and analysing archives calls first in this process, as the list has them: at
    its end, in the order of the calls, what the first archive takes, before that what each other one takes besides."""
    import tracecols

    found: list[list[Any]] = []
    prepare = Kernel.prepare

    def noted(kernel: Kernel, kinds: tuple[Kind, ...]) -> Any:
        # threads may ask for the same kernel at once
        if (row := [kernel.__module__, kernel.__name__, kinds]) not in own:
            own.append(row)
        return prepare(kernel, kinds)

    Kernel.prepare = noted  # type: ignore[method-assign]
    try:
        for archive in archives:
            own: list[list[Any]] = []
            with tempfile.TemporaryDirectory() as folder:
                tracecols.open(tracecols.convert(archive, Path(folder) / "a.trace")).analyze()
            found = own + found
    finally:
        Kernel.prepare = prepare  # type: ignore[method-assign]
    return found


def _seconds(cache: Path, jobs: int, *arguments: object) -> float:
    """Return how long a command takes whose kernels are, or come, in a folder."""
    command = [sys.executable, "-c", "from tracecols.cli import main; main()", *arguments, "--jobs", jobs]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    subprocess.run([str(a) for a in command], env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def main(arguments: Sequence[str]) -> None:
    """Measure, or write the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, nargs="+", help="the first one is measured")
    parser.add_argument("--write", action="store_true", help="make the list of kernels anew")
    given = parser.parse_args(arguments)
    if given.write:
        rows = ",\n".join(json.dumps(kernel) for kernel in called(given.archive))
        ahead.LIST.write_text(f"[\n{rows}\n]\n")
        return
    for jobs in (1, n_jobs(None)):
        with tempfile.TemporaryDirectory() as name:
            folder, store = Path(name), Path(name) / "a.trace"
            convert = _seconds(folder / "one", jobs, "convert", given.archive[0], "-o", store)
            analyze = _seconds(folder / "one", jobs, "analyze", store, "-o", folder / "a.severity")
            both = _seconds(folder / "other", jobs, "analyze", given.archive[0], "-o", folder / "b.severity")
        print(f"{jobs} threads: convert {convert:.1f} s, then analyze {analyze:.1f} s; of the archive {both:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
