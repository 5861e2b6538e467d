"""What is measured on: recorded traces, generated ones of several kinds, and series that grow in one direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(__file__).parents[2] / "shared" / "traces"

SERIES = {
    "events": "events",
    "locations": "locations",
    "messages": "point-to-point events per event",
}
"""Directions of growth, and what they are measured by."""

BYTES_PER_EVENT = 45
"""Room a generated workload needs: archive 13, three stores 12, an exported archive 13, temporary files 7."""


@dataclass(frozen=True)
class Workload:
    """A trace to measure on.

    Attributes
    ----------
    name : str
    about : str
        What it is.
    make : callable
        `make(folder)` writes the trace into an empty folder, or finds a recorded one, and returns its anchor file.
    n_events : int
        Of generated ones, about; 0 for recorded ones, which need no room.
    series : str
        One of `SERIES` if it belongs to one: fewer steps are measured then.
    is_large : bool
        Whether it takes a long time and much room.
    """

    name: str
    about: str
    make: Callable[[Path], Path]
    n_events: int = 0
    series: str = ""
    is_large: bool = False


def _short(n: int) -> str:
    """Write a round number the short way: 10M."""
    return next(f"{n // unit}{letter}" for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")) if n >= unit)


def _recorded(path: Path, folder: Path) -> Path:
    return path


def _irregular(n_events: int, tree: float, folder: Path) -> Path:
    from benchmarks.synthetic import make_archive

    return make_archive(n_events, tree=tree, folder=folder)


def _epilog(n_events: int, folder: Path) -> Path:
    from benchmarks.synthetic_epilog import make_merged

    return make_merged(n_events, folder=folder)


def _program(program: str, processes: int, threads: int, n_events: int, depth: int, folder: Path) -> Path:
    from benchmarks.generate import make, write

    return write(make(program, processes, threads, n_events, depth=depth), folder)


RECORDED = {
    "hybrid_2x3": (ROOT / "tests/data/hybrid_2x3/traces.otf2", "recorded, MPI and OpenMP, small"),
    "bt-mz": (SHARED / "otf2/bt-mz_S_4x2/traces.otf2", "recorded, NPB-MZ bt-mz, 4 x 2"),
    "hpcg": (SHARED / "otf2/hpcg_2x2/traces.otf2", "recorded, HPCG, 2 x 2"),
    "sweep3d-epilog": (SHARED / "epilog/sweep3d_2x3_50/epik.elg", "recorded, SWEEP3D, 2 x 3, EPILOG"),
}

KINDS = {
    "sweep": (16, 1, "a wavefront: blocking messages"),
    "halo": (16, 1, "a halo exchange: most events are of messages"),
    "fft": (16, 1, "a Fourier transform: collective operations"),
    "master": (16, 1, "a master and workers: one process receives from all"),
    "multizone": (8, 4, "hybrid: parallel regions, locks, critical sections"),
}
"""Programs of `benchmarks.programs` at one size: processes, threads, and what there is much of."""


def workloads(n_events: int = 10_000_000) -> dict[str, Workload]:
    """Return all workloads by name; recorded ones only if they are there.

    Parameters
    ----------
    n_events : int
        Events of the irregular ones; a fifth of it those of the programs.
    """
    found = [
        Workload(name, about, partial(_recorded, path)) for name, (path, about) in RECORDED.items() if path.exists()
    ]
    found += [
        Workload(
            "irregular", "random regions and durations, 8 processes", partial(_irregular, n_events, 1.0), n_events
        ),
        Workload("irregular-epilog", "the like as a merged EPILOG trace, 4 x 2", partial(_epilog, n_events), n_events),
    ]
    n = n_events // 5
    found += [
        Workload(name, about, partial(_program, name, processes, threads, n, 0), n)
        for name, (processes, threads, about) in KINDS.items()
    ]
    for n in (10**6, 3 * 10**6, 10**7, 10**8, 10**9):
        make = partial(_program, "multizone", 64, 4, n, 4)
        found.append(Workload(f"events-{_short(n)}", "multizone, 64 x 4", make, n, "events", n > 10**7))
    n = 4 * 10**6
    for processes in (4, 16, 64, 256, 1024, 4096):
        # every process has the same neighbours, however many there are
        make = partial(_program, "multizone", processes, 1, n, 2)
        found.append(Workload(f"locations-{processes}", f"multizone, {processes} x 1", make, n, "locations"))
    for every, tree in ((10, 0.015), (40, 0.25), (140, 1.0), (1000, 7.0)):
        make = partial(_irregular, n, tree)
        found.append(Workload(f"messages-1-in-{every}", "irregular, 8 processes", make, n, "messages"))
    return {w.name: w for w in found}


def choose(names: list[str], large: bool, n_events: int = 10_000_000) -> list[Workload]:
    """Return the workloads whose names match one of some shell patterns; all but the large ones if there are none.

    Raises
    ------
    ValueError
        If a pattern matches nothing.
    """
    every = workloads(n_events)
    for name in names:
        if not any(fnmatch(w, name) for w in every):
            raise ValueError(f"no workload matches {name!r}; there are {', '.join(every)}")
    if names:
        return [w for w in every.values() if any(fnmatch(w.name, name) for name in names)]
    return [w for w in every.values() if large or not w.is_large]


def is_otf2(archive: Path) -> bool:
    """Whether an archive is of the format OTF2; the others are EPILOG."""
    return archive.suffix == ".otf2"


def bytes_of(archive: Path) -> int:
    """Return the size of what holds the events."""
    files = archive.with_suffix("").rglob("*.evt") if is_otf2(archive) else [archive]
    return sum(f.stat().st_size for f in files)
