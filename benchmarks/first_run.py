"""The list of kernels that the wheel contains (`tracecols.kernels.bitcode`) and that other processes compile ahead
(`tracecols.kernels.ahead`): those that conversions and analyses call, in a process that has not called any yet.

    python -m benchmarks.first_run --write ARCHIVE...    makes the list anew

The step `command_first` measures the first commands after an installation (`python -m benchmarks run -k command_first
--workloads hybrid_2x3`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracecols.kernels import ahead
from tracecols.kernels.kernel import Kernel
from tracecols.kernels.kinds import Kind


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


def main(arguments: Sequence[str]) -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, nargs="+", metavar="ARCHIVE", required=True)
    rows = ",\n".join(json.dumps(kernel) for kernel in called(parser.parse_args(arguments).write))
    ahead.LIST.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
