"""The workloads: recorded traces, generated ones of several kinds, and series that grow in one direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks import goals

ROOT = Path(__file__).parents[1]
SHARED = Path(__file__).parents[2] / "shared" / "traces"

SERIES = {
    "events": "events",
    "locations": "locations",
    "messages": "point-to-point events per event",
    "call_paths": "call paths",
}
"""Directions of growth, and their measures."""

BYTES_PER_EVENT = 45
"""Disk space of a generated workload: archive 13, three stores 12, an exported archive 13, temporary files 7."""


@dataclass(frozen=True)
class Workload:
    """A trace to measure on."""

    name: str
    about: str
    make: Callable[
        [Path], Path
    ]  # writes the trace into an empty folder, or finds a recorded one; returns its anchor file, or a store
    n_events: int = 0  # approximate, of generated ones; 0 for recorded ones, which need no disk space
    series: str = ""  # one of `SERIES`, or that of the goals: fewer steps are measured then
    is_large: bool = False  # whether it takes a long time and much disk space


def _recorded(name: str, path: Path, about: str, series: str = "") -> Workload:
    return Workload(name, about, lambda folder: path, series=series)


def _generated(
    name: str,
    about: str,
    program: str,
    processes: int,
    threads: int,
    n_events: int,
    series: str = "",
    *,
    is_epilog: bool = False,
    **options: Any,
) -> Workload:
    def make(folder: Path) -> Path:
        from benchmarks import generate

        source = generate.make(program, processes, threads, n_events, **options)
        return generate.write(source, folder, is_epilog=is_epilog)

    return Workload(name, about, make, n_events, series, is_large=n_events > 3 * 10**7)


RECORDED = (
    ("hybrid_2x3", ROOT / "tests/data/hybrid_2x3/traces.otf2", "recorded, MPI and OpenMP, small"),
    ("bt-mz", SHARED / "otf2/bt-mz_S_4x2/traces.otf2", "recorded, NPB-MZ bt-mz, 4 x 2"),
    ("hpcg", SHARED / "otf2/hpcg_2x2/traces.otf2", "recorded, HPCG, 2 x 2"),
    ("imagemagick-paraver", SHARED / "paraver/omp/omp4.prv.gz", "recorded, ImageMagick, 1 x 4, Paraver"),
    ("sweep3d-epilog", SHARED / "epilog/sweep3d_2x3_50/epik.elg", "recorded, SWEEP3D, 2 x 3, EPILOG"),
    ("mg_S_4", SHARED / "otf2/mg_S_4/traces.otf2", "recorded, NPB mg, 4 x 1", goals.SERIES),
    ("sweep3d_4", SHARED / "otf2/sweep3d_4/traces.otf2", "recorded, SWEEP3D, 4 x 1", goals.SERIES),
)

KINDS = (
    ("sweep", 16, 1, "a wavefront: blocking messages"),
    ("halo", 16, 1, "a halo exchange: most events are of messages"),
    ("fft", 16, 1, "a Fourier transform: collective operations"),
    ("master", 16, 1, "a master and workers: one process receives from all"),
    ("multizone", 8, 4, "hybrid: parallel regions, locks, critical sections"),
)
"""Programs of `benchmarks.programs` at one size: processes, threads, and description."""

TREES = {"depth": 12, "functions": 300}

FOR_GOALS = (
    ("dense-20M", "multizone", 8, 4, 2 * 10**7, {}),
    ("irregular-20M", "irregular", 8, 1, 2 * 10**7, {"nodes": 4_000, **TREES}),
    ("halo-20M", "halo", 256, 1, 2 * 10**7, {}),
    ("dense-100M", "multizone", 8, 4, 10**8, {}),
    ("locations-100000", "multizone", 100_000, 1, 10**7, {}),
    ("dense-1G", "multizone", 8, 4, 10**9, {}),
    ("dense-64-1G", "multizone", 64, 4, 10**9, {"depth": 4}),
    ("halo-1G", "halo", 256, 1, 10**9, {}),
    ("lopsided-1G", "lopsided", 16, 1, 10**9, {"depth": 6}),
    ("one-process-1G", "multizone", 1, 4, 10**9, {}),
)
"""Programs that only goals are measured on: processes, threads, events, and options."""


def workloads(n_events: int = 10_000_000) -> dict[str, Workload]:
    """Return all workloads by name, recorded ones only if they exist. Irregular ones have `n_events` events, programs a
    fifth of that."""
    n, trees_of = n_events, "random call trees and durations"
    found = [_recorded(name, path, *about) for name, path, *about in RECORDED if path.exists()]
    found.append(_generated("irregular", f"{trees_of}, 8 processes", "irregular", 8, 1, n, nodes=4_000, **TREES))
    epilog = {"is_epilog": True, "nodes": 700, **TREES}
    found.append(_generated("irregular-epilog", f"{trees_of}, 4 x 2, merged EPILOG", "irregular", 4, 2, n, **epilog))
    found += [_generated(name, what, name, *size, n // 5) for name, *size, what in KINDS]
    for n, short in ((10**6, "1M"), (3 * 10**6, "3M"), (10**7, "10M"), (10**8, "100M"), (10**9, "1G")):
        found.append(_generated(f"events-{short}", "multizone, 64 x 4", "multizone", 64, 4, n, "events", depth=4))
    n = 4 * 10**6
    for processes in (4, 16, 64, 256, 1024, 4096):
        # every process has the same neighbours, regardless of the number of processes
        name, what = f"locations-{processes}", f"multizone, {processes} x 1"
        found.append(_generated(name, what, "multizone", processes, 1, n, "locations", depth=2))
    for every, nodes in ((10, 0), (40, 1_000), (140, 4_000), (1000, 32_000)):
        trees = {"nodes": nodes, **TREES} if nodes else {}
        what = "irregular, 8 processes"
        found.append(_generated(f"messages-1-in-{every}", what, "irregular", 8, 1, n, "messages", **trees))
    for nodes in (400, 4_000, 32_000):
        # the same events on more and more call paths
        name, what = f"call-paths-{nodes}", f"irregular, 8 processes, trees of {nodes} calls"
        found.append(_generated(name, what, "irregular", 8, 1, n, "call_paths", nodes=nodes, **TREES))
    for name, program, processes, threads, n, options in FOR_GOALS:
        what = f"{program}, {processes} x {threads}"
        found.append(_generated(name, what, program, processes, threads, n, goals.SERIES, **options))
    return {w.name: w for w in found}


def choose(names: list[str], large: bool, n_events: int = 10_000_000) -> list[Workload]:
    """Return the workloads whose names match one of some shell patterns; all but the large ones if there are none.

    The path of an archive or of a store is a workload, too. Raises ValueError if a name matches nothing.
    """
    every = workloads(n_events)
    if not names:
        return [w for w in every.values() if large or not w.is_large]
    found = {}
    for name in names:
        matching = {w: every[w] for w in every if fnmatch(w, name)}
        if not matching and (path := Path(name).resolve()).exists():
            matching = {path.name: _recorded(path.name, path, "given")}
        if not matching:
            raise ValueError(f"no workload matches {name!r}; there are {', '.join(every)}")
        found |= matching
    return list(found.values())


def is_otf2(archive: Path) -> bool:
    """Return whether an archive is in OTF2; the others are EPILOG and Paraver."""
    return archive.suffix == ".otf2"


def bytes_of(archive: Path) -> int:
    """Return the size of the files that hold the events."""
    files = archive.with_suffix("").rglob("*.evt") if is_otf2(archive) else [archive]
    return sum(f.stat().st_size for f in files)
