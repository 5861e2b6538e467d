"""The archives to measure, and one function per step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.synthetic import make_archive

if TYPE_CHECKING:
    from tracecols.converters.otf2.archive import Archive

ROOT = Path(__file__).parents[1]
SHARED = Path(__file__).parents[2] / "shared" / "traces" / "otf2"

TINY = ROOT / "tests" / "data" / "hybrid_2x3" / "traces.otf2"
RECORDED = SHARED / "bt-mz_S_4x2" / "traces.otf2"


def archives(n_events: int) -> dict[str, Path]:
    """Return the archives there are: the tiny one, the recorded one if it is beside the repository, the synthetic one."""
    recorded = {"bt-mz_S_4x2": RECORDED} if RECORDED.exists() else {}
    return {"hybrid_2x3": TINY, **recorded, f"irregular {n_events / 1e6:g} M": make_archive(n_events)}


def open_archive(archive: Path) -> Archive:
    """Open an archive and read its definitions."""
    from tracecols.converters.otf2.archive import Archive

    return Archive(archive)


def decode(source: Archive) -> int:
    """Decode all events of an archive with one thread into buffers that are reused; returns their number."""
    from tracecols.converters.base import Report

    n_locations = len(source.definitions["locations"]["id"])
    return sum(b.events["time"].size for i in range(n_locations) for b in source.read(i, Report()))
