"""The recorded traces beside the repository, of all formats, as `tracecols.convert` takes them."""

from __future__ import annotations

import tarfile
from pathlib import Path

from conftest import SHARED

import tracecols

PATTERNS = (
    "otf2/*/traces.otf2", "otf2_gpu/*/traces.otf2", "otf2_small/*/*.otf2", "otf2_clocks/*/traces.otf2", "injected/*/traces.otf2", "epilog/*/*.elg",
    "paraver/*/*.prv.gz", "kineto/*/*.json.gz", "kineto/*/*.tar.gz", "nsight/*.sqlite",
)  # fmt: skip
"""Where the archives of each format are."""

REFUSED = "hta_sampled_2of128"
"""Files of two ranks that have no collective operation in common."""


def recordings(*formats: str) -> list[Path]:
    """Return the archives of some formats (the first parts of `PATTERNS`); of all without any."""
    chosen = [p for p in PATTERNS if not formats or p.partition("/")[0] in formats]
    return sorted(path for pattern in chosen for path in SHARED.glob(pattern) if path.parent.name != REFUSED)


def name_of(source: Path) -> str:
    """Return the name of an archive in the names of tests."""
    own = "" if source.name in ("traces.otf2", "epik.elg") else f"-{source.name.partition('.')[0]}"
    return f"{source.parent.parent.name}-{source.parent.name}{own}"


def convert(source: Path, folder: Path) -> Path:
    """Convert an archive, also one that is packed, to a store in a folder."""
    if source.suffixes[-2:] == [".tar", ".gz"]:
        with tarfile.open(source) as packed:
            packed.extractall(folder, filter="data")
        source = folder / source.name.partition(".")[0]
    return tracecols.convert(source, folder / "x.trace")
