"""Which converter reads which file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tracecols.converters.base import Source
from tracecols.errors import SourceError


def _open_otf2(path: Path) -> Source:
    from tracecols.converters.otf2.archive import Archive

    return Archive(path)


def _open_epilog(path: Path) -> Source:
    from tracecols.converters.epilog.archive import Archive

    return Archive(path)


FORMATS: dict[str, Callable[[Path], Source]] = {
    ".otf2": _open_otf2,
    ".elg": _open_epilog,
    ".elg.gz": _open_epilog,
    ".esd": _open_epilog,
}
"""By ending. Of an EPIK archive that was merged, the merged trace is preferred to the archive's definitions (.esd)."""


def _ending(path: Path) -> str:
    return next((ending for ending in FORMATS if path.name.endswith(ending)), "")


def find_anchor(path: str | Path) -> Path:
    """Return the file that stands for a trace, given that file or the folder that holds it.

    Raises
    ------
    SourceError
        If there is no such path, no trace in the folder, or more than one.
    """
    path = Path(path)
    endings = ", ".join(FORMATS)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if _ending(p))
        merged = {p.name.partition(".")[0] for p in found if ".elg" in _ending(p)}
        found = [p for p in found if _ending(p) != ".esd" or p.stem not in merged]
        if not found:
            raise SourceError(
                f"no trace in the folder {path}\n  expected a file that ends in one of {endings}; give its path"
            )
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise SourceError(f"several traces in the folder {path}: {names}\n  give the path of one of them")
        return found[0]
    if not path.exists():
        raise SourceError(f"no such file or folder: {path}")
    if not _ending(path):
        raise SourceError(
            f"{path} is not a trace that tracecols reads\n  it reads files that end in one of {endings}, or their folder"
        )
    return path


def trace_name(anchor: Path) -> str:
    """Return what a trace is called: its file without ending, or its folder if the file has the name all such files have."""
    stem = anchor.name.removesuffix(_ending(anchor))
    return anchor.resolve().parent.name if stem in ("traces", "epik") else stem


def open_source(path: str | Path) -> Source:
    """Open a trace of any known format, given its anchor file or its folder."""
    anchor = find_anchor(path)
    return FORMATS[_ending(anchor)](anchor)
