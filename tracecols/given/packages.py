"""What installed packages bring: patterns and trace formats, by their entry points."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name.

    It is read again only when a folder in which packages are has changed.
    """
    return _read(group, tuple((place, _last_change(place)) for place in sys.path))


def _last_change(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return -1


@lru_cache(8)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    if not any(_may_have(group, place or ".") for place, _ in places):
        return ()
    # to import this, and to read what all packages say, takes 25 to 50 ms: as long as a small analysis
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda p: p.name))


def _may_have(group: str, place: str) -> bool:
    """Say whether a package in a folder may have entry points of a group: one has, or they cannot be read as files."""
    if not os.path.isdir(place):
        # an archive
        return os.path.exists(place)
    try:
        infos = [name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return True
    return any(_names(group, Path(place, info, "entry_points.txt")) for info in infos)


def _names(group: str, file: Path) -> bool:
    """Say whether a file of entry points names a group, or cannot be read."""
    try:
        return f"[{group}]" in file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, UnicodeDecodeError):
        return True
