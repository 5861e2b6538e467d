"""Source text for a report: the lines around region definitions, from files that are available."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tracecols.errors import SeverityError
from tracecols.given.files import read_bytes
from tracecols.severity.axes import CallAxis

AROUND = 3
"""Number of lines included before and after a definition."""

UNKNOWN = 25
"""Number of lines included of a region whose end is unknown."""

LONGEST = 500
"""Maximum number of lines of a region; a region may span a whole file."""

WIDEST = 400
"""Maximum number of characters of a line."""

NAMED = 3
"""Maximum number of files named in a note."""


@dataclass
class Sources:
    """Lines of source files, and which files were not found."""

    files: dict[str, list[tuple[int, list[str]]]] = field(default_factory=dict)
    """Excerpts by file name as given by regions; each is the number of its first line, and its lines."""
    end_line: dict[tuple[str, int], int] = field(default_factory=dict)
    """Last line of a region by file and first line; 0 unknown."""
    missing: list[str] = field(default_factory=list)
    """Names of files that are not in the folder, or for which several files match equally well."""

    @classmethod
    def of(cls, call_paths: CallAxis, folder: str | Path) -> Self:
        """Find the files of regions below a folder, and read the lines of their definitions.

        The file with the longest common path suffix (in whole components) with the path in the trace is taken, since
        the recording may come from another machine. Hidden files and folders are skipped.

        Raises SeverityError if there is no such folder.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise SeverityError(f"{folder} is not a folder\n  give the one that has the sources of the program")
        found = cls()
        wanted: dict[str, set[int]] = {}
        for file, line, end in zip(
            call_paths.file, call_paths.line.tolist(), call_paths.end_line.tolist(), strict=True
        ):
            if line > 0 and file:
                wanted.setdefault(file, set()).add(line)
                found.end_line[file, line] = max(end, found.end_line.get((file, line), 0))
        there = _files_below(folder, {_parts(file)[-1] for file in wanted if _parts(file)})
        for file in sorted(wanted):
            path = _best(_parts(file), there)
            lines = None if path is None else _lines(folder / path)
            if lines is None:
                found.missing.append(file)
                continue
            found.files[file] = _stretches(lines, [(line, found.end_line[file, line]) for line in wanted[file]])
        return found

    @property
    def note(self) -> str:
        """Note on files that were not found; empty if all were found."""
        if not self.missing:
            return ""
        named = ", ".join(self.missing[:NAMED]) + (", ..." if len(self.missing) > NAMED else "")
        return f"source files of regions are not in the folder given, or several fit: {named}"


def _parts(file: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", file) if part not in ("", ".", "..")]


def _files_below(folder: Path, names: set[str]) -> dict[str, list[tuple[str, ...]]]:
    """Return the files with the given names below a folder: by name, the components of their relative paths."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        above = Path(here).relative_to(folder).parts
        for name in sorted(names.intersection(files)):
            if not name.startswith("."):
                found.setdefault(name, []).append((*above, name))
    return found


def _best(wanted: list[str], there: dict[str, list[tuple[str, ...]]]) -> Path | None:
    """Return the file whose path shares most components with that in the trace, from the end; None unless it is
    unique."""

    def alike(path: tuple[str, ...]) -> int:
        n = 0
        for a, b in zip(reversed(path), reversed(wanted), strict=False):
            if a != b:
                break
            n += 1
        return n

    possible = there.get(wanted[-1], []) if wanted else []
    most = max(map(alike, possible), default=0)
    best = [path for path in possible if alike(path) == most]
    return Path(*best[0]) if len(best) == 1 else None


def _lines(path: Path) -> list[str] | None:
    try:
        text = read_bytes(path).decode("utf-8", "replace")
    except OSError:
        return None
    return [line[:WIDEST] for line in text.splitlines()]


def _stretches(lines: list[str], regions: list[tuple[int, int]]) -> list[tuple[int, list[str]]]:
    """Return the lines around some regions (first line, last line or 0), each line once."""
    ends: list[list[int]] = []
    for first, last in sorted(regions):
        until = min(last if last >= first else first + UNKNOWN, first + LONGEST) + AROUND
        begin = max(1, first - AROUND)
        if ends and begin <= ends[-1][1] + 1:
            ends[-1][1] = max(ends[-1][1], until)
        else:
            ends.append([begin, until])
    found = [(begin, lines[begin - 1 : until]) for begin, until in ends]
    return [(begin, some) for begin, some in found if some]
