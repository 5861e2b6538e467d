"""Which converter reads which file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tracecols.converters.base import Source
from tracecols.errors import SourceError


def _open_otf2(path: Path) -> Source:
    from tracecols.converters.otf2.archive import Archive

    return Archive(path)


FORMATS: dict[str, Callable[[Path], Source]] = {".otf2": _open_otf2}


def find_anchor(path: str | Path) -> Path:
    """Return the file that stands for a trace, given that file or the folder that holds it.

    Raises
    ------
    SourceError
        If there is no such path, no trace in the folder, or more than one.
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix in FORMATS)
        if not found:
            endings = " or ".join(FORMATS)
            raise SourceError(f"no trace in the folder {path}\n  expected a file that ends in {endings}; give its path")
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise SourceError(f"several traces in the folder {path}: {names}\n  give the path of one of them")
        return found[0]
    if not path.exists():
        raise SourceError(f"no such file or folder: {path}")
    if path.suffix not in FORMATS:
        raise SourceError(
            f"{path} is not a trace that tracecols reads\n  it reads files that end in {', '.join(FORMATS)}, or their folder"
        )
    return path


def open_source(path: str | Path) -> Source:
    """Open a trace archive of any known format, given its anchor file or its folder."""
    anchor = find_anchor(path)
    return FORMATS[anchor.suffix](anchor)
