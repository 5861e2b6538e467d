"""The files that may be opened, and a cache of open traces and cubes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tracecols.conversion import convert
from tracecols.errors import SourceError
from tracecols.export.cube_read import read_cube
from tracecols.given.files import check_path
from tracecols.once import Kept, Recent
from tracecols.store.layout import ARCHIVES, CUBES, identity, kind_of_folder, recognised
from tracecols.trace import Trace
from tracecols.work.scratch import temporary_folder

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube

KEPT = 4
"""Number of traces and of cubes kept open: those used last."""

LISTED = 500
"""Maximum number of traces and cubes listed."""

LEVELS = 3
"""Number of folder levels searched for them."""

WRITTEN = (*CUBES, ".csv", ".filter", ".html", ".json", ".md", ".parquet", ".pftrace", ".png", ".svg", ".txt")
"""Endings of files that people and commands write beside an archive, and that do not belong to it."""

CUBE, STORE = "a severity cube", "a store of a trace"


class Files:
    """Traces and cubes in some folders: opened, converted and analysed on demand, and cached.

    Nothing outside of the `allowed` files and folders is opened, not even via a link. An analysis may take `memory`
    bytes.
    """

    def __init__(self, allowed: Sequence[Path], jobs: int | None = None, memory: int | None = None) -> None:
        self.allowed = tuple(dict.fromkeys(path.resolve() for path in allowed))
        self._jobs, self._memory = jobs, memory
        self._stack = ExitStack()
        self._stores = Kept[tuple[Path, frozenset[tuple[str, int, int, int]]], Path]()
        self._traces = Recent[tuple[Path, tuple[int, ...]], Trace](KEPT)
        self._cubes = Recent[tuple[Path, tuple[int, ...]], "SeverityCube"](KEPT)

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def find(self, given: str) -> Path:
        """Return the path of a file if it may be opened; a relative path is searched in each allowed folder. Raises
        SourceError if it does not exist, or may not be opened."""
        check_path(given, SourceError)
        places = [of for of in self.allowed if of.name == given] + [of / given for of in self.allowed]
        there = [path for path in places if path.exists()]
        path = (there or places)[0].resolve()
        if not any(path.is_relative_to(of) for of in self.allowed):
            raise SourceError(
                f"{given} may not be opened: it lies outside of {', '.join(map(str, self.allowed))}\n"
                "  ask for a path in there, which open without a path lists; whoever starts tracecols serve says "
                "what may be opened"
            )
        if not there:
            raise SourceError(f"there is no {given}\n  open without a path lists the traces and cubes that there are")
        return path

    def listed(self) -> list[dict[str, str]]:
        """Return the traces and cubes that may be opened, as `path` and `kind`, at most `LISTED`."""
        found: list[dict[str, str]] = []
        for folder in self.allowed:
            for path, kind in _recognised(folder, LEVELS):
                if len(found) == LISTED:
                    return found
                found.append({"path": str(path), "kind": kind.removeprefix("a ")})
        return found

    def is_cube(self, path: Path) -> bool:
        """Return whether a file is a cube, not a trace."""
        return recognised(path) == CUBE

    def trace(self, given: str) -> Trace:
        """Open a trace; an archive is converted to a temporary store once. Raises TracecolsError if it is not a trace,
        is damaged, or may not be opened."""
        path = self.find(given)
        if self.is_cube(path):
            raise SourceError(
                f"{given} is a severity cube, and this needs the events of a trace\n"
                "  give the store or the archive that it was made of"
            )
        store = path if recognised(path) == STORE else self._converted(path)
        key = store, identity(store)
        return self._traces.get(key, lambda: Trace(store, jobs=self._jobs))

    def cube(self, given: str) -> SeverityCube:
        """Return a cube; a trace is analysed. Raises TracecolsError if it is neither, is damaged, or may not be
        opened."""
        path = self.find(given)
        trace = None if self.is_cube(path) else self.trace(given)
        key = (path, identity(path)) if trace is None else (trace.path, identity(trace.path))
        return self._cubes.get(key, lambda: read_cube(path) if trace is None else trace.analyze(memory=self._memory))

    def _converted(self, path: Path) -> Path:
        """Return the temporary store of an archive; it is made anew if a file of the archive was replaced or
        changed."""

        def make() -> Path:
            folder = self._stack.enter_context(temporary_folder())
            return convert(path, folder / f"{path.name.partition('.')[0]}.trace", jobs=self._jobs)

        return self._stores.get((path, _state(path)), make)


def _state(path: Path) -> frozenset[tuple[str, int, int, int]]:
    """Return the files of an archive, each with its size, modification time and change time.

    These are the files in a folder, or those beside a file whose names share its prefix up to the first dot; stores,
    cubes, reports and tables there do not count. A file that was copied with its times still has another change time.
    """
    beside = f"{glob.escape(path.name.partition('.')[0])}*"
    files = (
        _files_of_archive(path) if path.is_dir() else chain([path], *map(_files_of_archive, path.parent.glob(beside)))
    )
    found = set()
    for file in files:
        with suppress(OSError):
            stat = file.stat()
            found.add((str(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return frozenset(found)


def _files_of_archive(place: Path) -> Iterator[Path]:
    """Yield the files of a folder, or a file, that may belong to an archive."""
    if not place.is_dir():
        if place.name.endswith(ARCHIVES) or not place.name.endswith(WRITTEN):
            yield place
    elif not kind_of_folder(place):
        with suppress(OSError):
            for inside in place.iterdir():
                yield from _files_of_archive(inside)


def _recognised(path: Path, levels: int) -> Iterator[tuple[Path, str]]:
    """Yield path and kind of traces and cubes, in the order of names; links are not followed."""
    kind = recognised(path)
    if kind:
        yield path, kind
    if kind in (STORE, CUBE) or not levels or not path.is_dir():
        return
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return
    for name in names:
        if not name.startswith(".") and not (path / name).is_symlink():
            inside = _recognised(path / name, levels - 1)
            # both the folder of an archive and the anchor file in it are recognised: list the folder only
            yield from (found for found in inside if not kind or found[1] in (STORE, CUBE))
