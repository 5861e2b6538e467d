"""The first convert and analyze after an installation, which compile kernels.

`python -m benchmarks.first_run ARCHIVE` runs convert and analyze of the store with an empty cache, then analyze of the
archive with another one; both with one thread, and with as many as there are cores, where other processes compile ahead
(`tracecols.kernels.ahead`). `python -m benchmarks.first_run --write ARCHIVE...` remakes the list of kernels that they
compile and that the wheel contains (`tracecols.kernels.bitcode`): those that conversions and analyses of the archives
call, in a process that has not called any yet.
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
    """Return the kernels called for the first time in this process when archives are converted and analysed, in the
    order of the list: the last ones are those of the first archive, in the order of the calls; before them are the
    additional ones of each other archive."""
    import tracecols

    found: list[list[Any]] = []
    prepare = Kernel.prepare

    def noted(kernel: Kernel, kinds: tuple[Kind, ...]) -> Any:
        # several threads may prepare the same kernel at once
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
    """Return the seconds that a command takes with a folder as its cache of kernels."""
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
