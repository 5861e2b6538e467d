"""Generate OTF2 archives of programs whose wait states are known: `python -m benchmarks.generate PROGRAM OUT/`.

The programs are small simulations (`benchmarks/programs`): a wavefront sweep, a halo exchange, a hybrid multi-zone
solver, a master with workers, a Fourier transform, pairs of processes with many channels, a process that does almost
everything, random call trees with messages around a ring (`irregular`), hosts that use devices (`offload`), one-sided
communication (`rma`). The time that each of them loses waiting follows from its own schedule; it is written to
`truth.json` next to the archive: ticks (bytes, occurrences) by property and location, visits by region.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.epilog_back_end import write_epilog

from benchmarks.programs.offload import make_offload
from benchmarks.programs.recorded import Recording
from benchmarks.programs.rma import make_rma
from benchmarks.programs.source import N_FUNCTIONS, PROGRAMS, Generated, SkewedSource, Truth, make

__all__ = ["Generated", "Truth", "make", "record", "truth_as_json", "write"]


RECORDED: dict[str, Callable[[Path, int, int, int, int], Recording]] = {"offload": make_offload, "rma": make_rma}
"""Programs that record themselves, by name: functions of the anchor file, numbers of processes, threads (or streams)
and events, and a seed."""


def record(program: str, folder: str | Path, processes: int, threads: int, n_events: int, seed: int) -> Recording:
    """Run one of the programs of `RECORDED` and write `traces.otf2` and `truth.json` into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = RECORDED[program](folder / "traces.otf2", processes, threads, n_events, seed)
    found.write()
    return found


def truth_as_json(truth: Truth) -> dict[str, Any]:
    """Return the truth in the form of `truth.json`; properties that never occur are left out."""
    return {
        "n_events": truth.n_events,
        "n_messages": truth.n_messages,
        "severities": {name: v.tolist() for name, v in {**truth.waits, **truth.counters}.items() if v.any()},
        "visits": truth.visits,
    }


def write(
    source: Generated, folder: str | Path, jobs: int | None = None, *, unmeasured: bool = False, is_epilog: bool = False
) -> Path:
    """Write a generated trace as `traces.otf2`, or as `epik.elg`, and `truth.json` into a folder; return the anchor
    file.

    If the trace has a skew, its times are those of different clocks, and the OTF2 archive records their offsets unless
    `unmeasured`.
    """
    from tracecols.converters.otf2.write import local_definitions, write_archive

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if is_epilog:
        path = write_epilog(source, folder / "epik.elg")
    elif source.clock_offsets is None and not unmeasured:
        path = write_archive(source, folder / "traces.otf2", jobs=jobs)
    else:
        skewed = SkewedSource(source, unmeasured=unmeasured)
        path = write_archive(skewed, folder / "traces.otf2", jobs=jobs)
        for location, clock in enumerate([] if unmeasured else skewed.clocks):
            (folder / "traces" / f"{location}.def").write_bytes(local_definitions(clock.records))
    (folder / "truth.json").write_text(json.dumps(truth_as_json(source.truth)) + "\n", encoding="utf-8")
    return path


OPTIONS: dict[str, tuple[Any, str]] = {
    "processes": (16, ""),
    "threads": (1, "threads of each process; its streams for offload"),
    "events": (1e6, "events of all locations together, within a tenth"),
    "seed": (0, "of all random numbers"),
    "depth": (0, "depth of random call trees within computations"),
    "nodes": (0, "calls of all these trees together; few by default"),
    "functions": (N_FUNCTIONS, "functions these trees call; 48 by default"),
    "skew": (0.0, "largest offset of a location's clock in seconds"),
    "jobs": (None, "threads that write; one per core by default"),
    "counters": (False, "record counters with every ENTER and EXIT"),
    "periodic": (False, "let the grid of halo be periodic"),
    "unmeasured": (False, "do not record by how much clocks differ; one clock per process"),
    "epilog": (False, "write a merged EPILOG trace"),
}
"""Options of the command: defaults and help texts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    about = "Write an archive of a program whose wait states are known."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description=about)
    parser.add_argument("program", choices=[*PROGRAMS, *RECORDED])
    parser.add_argument("folder", type=Path, help="where the archive and truth.json are written")
    for name, (default, words) in OPTIONS.items():
        kind = (
            {"action": "store_true"}
            if default is False
            else {"type": int if default is None else type(default), "default": default}
        )
        parser.add_argument(f"--{name}", help=words, **kind)
    given = parser.parse_args(arguments)
    start, events = time.perf_counter(), int(given.events)
    if given.unmeasured and not given.skew:
        parser.error("--unmeasured is for clocks that differ: give a --skew")
    if given.program in RECORDED:
        if given.processes < 1 or given.threads < 1:
            parser.error("there are no programs without processes or threads")
        found = record(given.program, given.folder, given.processes, given.threads, events, given.seed)
        print(f"{found.archive.path}: {found.n_events:,} events, {len(found.locations)} locations")
        return 0
    names = ("depth", "nodes", "functions", "counters", "periodic", "skew")
    options = {name: getattr(given, name) for name in names}
    try:
        source = make(given.program, given.processes, given.threads, events, given.seed, **options)
        path = write(source, given.folder, given.jobs, unmeasured=given.unmeasured, is_epilog=given.epilog)
    except ValueError as error:
        parser.error(str(error))
    n, seconds = source.truth.n_events, time.perf_counter() - start
    n_locations = len(source.definitions["locations"]["id"])
    print(f"{path}: {n:,} events, {n_locations} locations, {n / seconds / 1e6:.1f} M events/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
