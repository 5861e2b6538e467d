"""The archives to measure, and one function per step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.synthetic import make_archive
from benchmarks.synthetic_epilog import make_merged

if TYPE_CHECKING:
    from tracecols.converters.base import Source

ROOT = Path(__file__).parents[1]
SHARED = Path(__file__).parents[2] / "shared" / "traces"

TINY = ROOT / "tests" / "data" / "hybrid_2x3" / "traces.otf2"
RECORDED = {
    "bt-mz_S_4x2": SHARED / "otf2" / "bt-mz_S_4x2" / "traces.otf2",
    "sweep3d_2x3_50, EPILOG": SHARED / "epilog" / "sweep3d_2x3_50" / "epik.elg",
}


def archives(n_events: int) -> dict[str, Path]:
    """Return the archives there are: the tiny one, recorded ones if they are beside the repository, synthetic ones."""
    recorded = {name: path for name, path in RECORDED.items() if path.exists()}
    synthetic = {
        f"irregular {n_events / 1e6:g} M": make_archive(n_events),
        f"irregular {n_events / 1e6:g} M, EPILOG": make_merged(n_events),
    }
    return {"hybrid_2x3": TINY, **recorded, **synthetic}


def is_otf2(archive: Path) -> bool:
    """Whether an archive is of the format OTF2; the others are EPILOG."""
    return archive.suffix == ".otf2"


def bytes_of(archive: Path) -> int:
    """Return the size of what holds the events."""
    files = archive.with_suffix("").rglob("*.evt") if is_otf2(archive) else [archive]
    return sum(f.stat().st_size for f in files)


def open_archive(archive: Path) -> Source:
    """Open an archive: read its definitions, and if it is a merged trace find the records of every location."""
    from tracecols.converters.registry import open_source

    return open_source(archive)


def decode(source: Source) -> int:
    """Decode all events of an archive with one thread into buffers that are reused; returns their number."""
    from tracecols.converters.base import Report

    n_locations = len(source.definitions["locations"]["id"])
    return sum(b.events["time"].size for i in range(n_locations) for b in source.read(i, Report()))
