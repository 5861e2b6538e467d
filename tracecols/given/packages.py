"""Patterns and trace formats that installed packages provide, found by their entry points."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name.

    They are read again only if a folder of packages has changed.
    """
    return _read(group, tuple((place, _last_change(place)) for place in sys.path))


def _last_change(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return -1


@lru_cache(8)
def _read(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    groups = _groups_in(places)
    if groups is not None and group not in groups:
        return ()
    # importing this and reading the entry points of all packages takes 25 to 50 ms: as long as a small analysis
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda p: p.name))


@lru_cache(8)
def _groups_in(places: tuple[tuple[str, int], ...]) -> frozenset[str] | None:
    """Return the groups of entry points of packages in folders; None if a folder cannot be read."""
    groups: set[str] = set()
    try:
        for folder in (place or "." for place, _ in places):
            if os.path.isdir(folder):
                infos = [name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info"))]
                groups.update(*(_groups_of(os.path.join(folder, info, "entry_points.txt")) for info in infos))
            elif os.path.exists(folder):
                # an archive
                return None
    except (OSError, UnicodeDecodeError):
        return None
    return frozenset(groups)


def _groups_of(file: str) -> set[str]:
    """Return the groups that a file of entry points names; none if there is no such file."""
    try:
        with open(file, encoding="utf-8") as opened:
            lines = [line.strip() for line in opened]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {line[1:-1] for line in lines if line.startswith("[") and line.endswith("]")}
