"""The registry of trace formats, and the choice of the converter for a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tracecols.converters.base import Format, Source, has_file, unreadable
from tracecols.converters.unread import refusal
from tracecols.errors import SourceError, UnsupportedError
from tracecols.given import packages
from tracecols.given.arguments import as_path
from tracecols.given.files import open_regular
from tracecols.store.layout import ARCHIVES, instead, kind_of_folder

GROUP = "tracecols.formats"
"""Entry points of packages that provide trace formats: each names a `Format`."""

SEARCHED = 64
"""Number of folders in a folder without a trace in which traces are looked for, to name them."""


def _archive(package: str, *given: Any) -> Source:
    """Open a trace with the `Archive` of a built-in format, whose package is imported only then."""
    found: Source = import_module(f"tracecols.converters.{package}.archive").Archive(*given)
    return found


_PACKED = b"\x1f\x8b"
"""First bytes of gzip'ed files."""


def _may_begin(path: Path, text: bytes) -> bool:
    """Return whether a file, or its unpacked content, may begin with a text after white space, so that only the readers
    of formats it may have are imported."""
    try:
        with open_regular(path) as file:
            head = file.read(64).lstrip(b" \t\r\n\xef\xbb\xbf")
    except OSError:
        return False
    return not head or head.startswith((text, _PACKED))


def _is_paraver(path: Path) -> bool:
    if not _may_begin(path, b"#Paraver"):
        return False
    from tracecols.converters.paraver.files import begins_as_paraver

    return begins_as_paraver(path)


def _of_files(name: str, endings: tuple[str, ...], module: str, begin: bytes, pattern: str) -> Format:
    """Return a built-in format whose traces may have a file for each rank.

    `module` has the function that finds them, and the endings of such files. It is imported only for files that may
    begin with `begin`, and for folders with entries of the pattern.
    """
    package = module.partition(".")[0]

    def finder() -> Any:
        return import_module(f"tracecols.converters.{module}")

    def open_found(path: Path) -> Source:
        files = finder().files_of(path) or (path,)
        return _with_note(_archive(package, files, path), files, path, finder().ENDINGS)

    def recognises(path: Path) -> bool:
        may_be = _may_begin(path, begin) if path.is_file() else any(path.glob(pattern))
        return may_be and bool(finder().files_of(path))

    def open_given(files: tuple[Path, ...]) -> Source:
        return _archive(package, files, files[0].parent)

    return Format(name, endings, open_found, recognises=recognises, open_files=open_given)


def _with_note(source: Source, files: Sequence[Path], path: Path, endings: tuple[str, ...]) -> Source:
    """Add a note on the files of a folder that have the endings of a trace, but are none, as damaged ones."""
    if not path.is_dir() or path in files:
        return source
    others = sorted(p.name for p in path.iterdir() if p.name.endswith(endings) and p.is_file() and p not in files)
    if others:
        named = ", ".join(others[:3]) + (f", and {len(others) - 3:,} more" if len(others) > 3 else "")
        is_one = len(others) == 1
        found = f"left out: {named} ({'is no trace' if is_one else 'are no traces'} of this format, or damaged)"
        source.properties.setdefault("notes", []).append(found)
    return source


def _choose_epilog(anchors: list[Path]) -> list[Path]:
    """Prefer the merged trace of an EPIK archive to the archive's definitions (.esd)."""
    merged = {p.name.partition(".")[0] for p in anchors if p.suffix != ".esd"}
    return [p for p in anchors if p.suffix != ".esd" or p.stem not in merged]


FORMATS = (
    Format("OTF2", ARCHIVES[:1], partial(_archive, "otf2")),
    Format("EPILOG", ARCHIVES[1:4], partial(_archive, "epilog"), _choose_epilog),
    Format("Paraver", ARCHIVES[4:6], partial(_archive, "paraver"), recognises=_is_paraver),
    _of_files("Kineto", ARCHIVES[6:8], "kineto.files", b"{", "*.json*"),
    _of_files("Nsight Systems", ARCHIVES[8:], "nsight.tables", b"SQLite format 3", "*"),
)
"""The built-in formats."""


def installed() -> list[Format]:
    """Return the formats of installed packages. Raises SourceError if one cannot be loaded, or is not a format."""
    result: list[Format] = []
    for point in packages.points_of(GROUP):
        where = f"the plug-in {point.name!r} ({point.value})"
        try:
            found = point.load()
        except Exception as error:
            raise SourceError(
                f"{where} cannot be loaded: {type(error).__name__}: {error}\n"
                "  mend or uninstall the package that brings it"
            ) from error
        if not isinstance(found, Format):
            raise SourceError(
                f"{where} is not a trace format but {type(found).__name__}\n"
                "  the entry point has to name a tracecols.converters.base.Format"
            )
        result.append(found)
    return result


def _known() -> Iterator[Format]:
    """Yield the built-in formats, then those of installed packages, which are looked for only if need be."""
    yield from FORMATS
    yield from installed()


def _by_ending(path: Path) -> Format | None:
    """Find the format of a file by its ending."""
    return next((known for known in _known() if known.ending_of(path)), None)


def _by_content(path: Path) -> Format | None:
    """Find the format of a file or a folder by its content."""
    formats = FORMATS if path.is_file() or path.is_dir() else ()
    return next((known for known in formats if known.recognises is not None and known.recognises(path)), None)


def _format_of(path: Path) -> Format | None:
    """Find the format of an anchor by its content, else by its ending."""
    return _by_content(path) or _by_ending(path)


def _files_in(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error


Given = str | Path | Sequence[str | Path]
"""How a trace is given: its anchor file, the folder of its archive, or all its files."""


def find_given(given: Given) -> Path | tuple[Path, ...]:
    """Return the anchor of a trace, or all its files if several are given. Raises SourceError if there is no trace,
    more than one, or several files are given that are not of one trace."""
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Iterable):
        return find_anchor(given)
    files = tuple(find_anchor(path) for path in given)
    if not files:
        raise SourceError("no file is given\n  give the anchor file of a trace, its folder, or all its files")
    if len(files) == 1:
        return files[0]
    for file in files:
        known = _format_of(file)
        if known is None or known.open_files is None:
            several = ", ".join(f.name for f in FORMATS if f.open_files is not None)
            raise SourceError(
                f"{file} is a trace by itself, and {len(files)} are given\n"
                f"  give one of them; only traces of {several} may have a file for each rank"
            )
    formats = {known.name: file for file in reversed(files) if (known := _format_of(file)) is not None}
    if len(formats) > 1:
        named = ", ".join(f"{file} ({name})" for name, file in formats.items())
        raise SourceError(f"the files are traces of different formats: {named}\n  give all files of one trace")
    return files


def _traces_in(folder: Path) -> list[Path]:
    """Return the anchors of the traces in a folder; the folder itself if it is a trace by its content only."""
    anchors: dict[str, tuple[Format, list[Path]]] = {}
    whole = _by_content(folder)
    for file in _files_in(folder):
        known = _by_ending(file)
        if known is not None and known is not whole:
            anchors.setdefault(known.name, (known, []))[1].append(file)
    found = sorted(p for known, files in anchors.values() for p in known.choose(files))
    return found or [folder] * (whole is not None)


def _below(folder: Path) -> str:
    """Return what to give in place of a folder whose own folders have traces; empty if none of the first ones has."""
    found: list[Path] = []
    for inner in [path for path in _files_in(folder) if path.is_dir()][:SEARCHED]:
        with suppress(SourceError):
            found += _traces_in(inner)
    if not found:
        return ""
    named = ", ".join(map(str, found[:3])) + (f", and {len(found) - 3:,} more" if len(found) > 3 else "")
    return f"give {'the trace' if len(found) == 1 else 'one of the traces'} below it: {named}"


def find_anchor(path: str | Path) -> Path:
    """Return the file or folder to open as a trace, given its path or the folder that contains it. Raises SourceError
    if there is no such path, no trace in the folder, or more than one. Raises UnsupportedError if it is a container
    that is recognised but cannot be read."""
    path = as_path(path, SourceError)
    if "\0" in str(path) or not has_file(path):
        raise SourceError(f"no such file or folder: {path}\n  give a trace archive: its folder, or its anchor file")

    if kind_of_folder(path) and (what := instead(path, "a trace archive")):
        raise SourceError(what)

    def endings() -> str:
        return ", ".join(ending for known in _known() for ending in known.endings)

    if path.is_dir():
        found = _traces_in(path)
        if not found:
            if what := refusal(_files_in(path)):
                raise UnsupportedError(f"no trace in the folder {path}: {what}")
            raise SourceError(
                f"no trace in the folder {path}\n"
                f"  {_below(path) or f'expected a file that ends in one of {endings()}; give its path'}"
            )
        if len(found) > 1:
            names = ", ".join(p.name for p in found)
            raise SourceError(f"several traces in the folder {path}: {names}\n  give the path of one of them")
        return found[0]
    if _format_of(path) is None:
        if what := instead(path, "a trace archive"):
            raise SourceError(what)
        if what := refusal([path]):
            raise UnsupportedError(what)
        raise SourceError(
            f"{path} is not a trace that tracecols reads\n"
            f"  it reads files that end in one of {endings()}, or their folder"
        )
    return path


def trace_name(anchor: Path | tuple[Path, ...]) -> str:
    """Return the name of a trace, given the result of `find_given`: its file without ending, or its folder if all such
    files have the same name, or if there are several files."""
    if not isinstance(anchor, Path):
        return anchor[0].resolve().parent.name
    known = _format_of(anchor)
    ending = known.ending_of(anchor) if known is not None else ""
    stem = anchor.name.removesuffix(ending)
    if anchor.is_dir():
        return anchor.resolve().name
    if not ending:
        stem = stem.removesuffix(".gz").removesuffix(".json")
    return anchor.resolve().parent.name if stem in ("traces", "epik") else stem


def open_source(given: Given) -> Source:
    """Open a trace of any known format, given its anchor file, its folder or all its files. Raises SourceError if there
    is no trace, or it cannot be read."""
    found = find_given(given)
    known = _format_of(found if isinstance(found, Path) else found[0])
    assert known is not None  # find_given has refused it otherwise
    if isinstance(found, Path):
        return known.open(found)
    assert known.open_files is not None
    return known.open_files(found)
