"""Manifests of the folders that tracecols makes, and the names of files in a store."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from tracecols.given.files import UnusableFileError, is_denied, open_regular, parse_json, read_whole
from tracecols.schema import Version

MANIFEST = "manifest.json"

EXCHANGES = 3
"""How often a folder may be exchanged for another one while its manifest is looked for."""

_FORMATS = {
    "a store of a trace": "tracecols store",
    "a severity cube": "tracecols severity",
    "an index for EARL": "tracecols earl index",
    "an enhanced table": "tracecols enhanced table",
    "a timeline": "tracecols timeline",
}


def part_name(number: int) -> str:
    """Return the file name of a part."""
    return f"part-{number:05d}.parquet"


def read_manifest(folder: Path) -> tuple[Any, tuple[int, ...]]:
    """Read the manifest of a folder; also return what distinguishes this folder from another one that takes its place
    (`identity`). Raises OSError, ValueError if it is missing or no JSON."""
    with open_regular(folder / MANIFEST) as file:
        return parse_json(read_whole(file)), _identity(os.fstat(file.fileno()))


def await_manifest(folder: Path) -> tuple[Any, tuple[int, ...]]:
    """Read the manifest of a folder that another process may be exchanging: wait up to 60 ms while nothing is there,
    and look again if the folder goes between two looks.

    Returns and raises what `read_manifest` does.
    """
    for _ in range(EXCHANGES):
        if not _appears(folder):
            break
        with suppress(FileNotFoundError):
            return read_manifest(folder)
    return read_manifest(folder)


def _appears(folder: Path) -> bool:
    """Whether something is at a place within 60 ms."""
    for pause in (0.001, 0.01, 0.05):
        if folder.exists():
            return True
        time.sleep(pause)
    return folder.exists()


def is_made_here(path: Path, what: str) -> bool:
    """Say whether a folder has the manifest of a store, a cube or an index, whichever is asked for."""
    try:
        return bool(await_manifest(path)[0]["format"] == _FORMATS[what])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def kind_of_folder(path: Path) -> str:
    """Return which kind of folder of tracecols a path is, by its manifest: a store of a trace; empty if it is none."""
    try:
        found = read_manifest(path)[0]["format"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return next((what for what, name in _FORMATS.items() if name == found), "")


ARCHIVES = (".otf2", ".elg", ".elg.gz", ".esd", ".prv", ".prv.gz", ".pt.trace.json", ".pt.trace.json.gz", ".sqlite")
"""How anchor files of trace archives of the formats that tracecols brings end."""

CUBES = (".cubex", ".cube", ".cube.gz")
"""How files of severity cubes end."""

INSTEAD = {
    "a trace archive": {
        "a store": "convert it first: tracecols convert {}",
        "a severity cube": "analyze it: tracecols analyze {}",
    },
    "a store of a trace": {
        "a trace archive": "it is converted already; analyze it: tracecols analyze {}",
        "a severity cube": "analyze it: tracecols analyze {}",
    },
    "a severity cube": {"a store": "look at it: tracecols show {}", "a trace archive": "look at it: tracecols show {}"},
}
"""What can be done with something that was given in the place of something else: by its kind, and by what was
wanted."""


def recognised(path: Path) -> str:
    """Return which of the kinds of `INSTEAD` is at a path; empty if it is none of them."""
    if what := kind_of_folder(path):
        return what if what in INSTEAD else ""
    try:
        names = [p.name for p in path.iterdir()] if path.is_dir() else [path.name] if path.is_file() else []
    except (OSError, ValueError):
        return ""
    if any(name.endswith(ARCHIVES) for name in names):
        return "a trace archive"
    return "a severity cube" if path.name.endswith(CUBES) and names else ""


def instead(path: Path, wanted: str) -> str:
    """Return the error about something that was given in the place of a `wanted` thing (`a store`, `a trace archive` or
    `a severity cube`); empty if it is not known what it is."""
    what = recognised(path)
    todo = INSTEAD.get(what, {}).get(wanted)
    return f"{path} is {what}, not {wanted}\n  {todo.format(quote(str(path)))}" if todo else ""


def reason(error: Exception) -> str:
    """Say why a manifest cannot be read, to go on with: it is a pipe or device, or permission is denied; nothing
    otherwise."""
    if is_denied(error):
        return ": permission denied"
    return f": {error}" if isinstance(error, UnusableFileError) else ""


def identity(path: Path) -> tuple[int, ...]:
    """Return what distinguishes a store, a cube or another file from one that took its place; empty if there is
    none."""
    try:
        return _identity((path / MANIFEST if path.is_dir() else path).stat())
    except OSError:
        return ()


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def checksum(manifest: dict[str, Any]) -> str:
    """Return the checksum of all a manifest says, except the checksum itself."""
    content = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def write_manifest(folder: Path, what: str, version: Version | int, content: dict[str, Any]) -> None:
    """Write the manifest of a store or a cube, whichever `what` says; it comes last, and makes the folder complete."""
    # as it is read: keys are texts there
    major, minor = version if isinstance(version, tuple) else (version, None)
    versions = {"version": major} if minor is None else {"version": major, "minor_version": minor}
    manifest = json.loads(json.dumps({"format": _FORMATS[what], **versions, **content}))
    manifest["checksum"] = checksum(manifest)
    # a line for each entry: with one for each number Python writes them itself, a hundred times as slowly
    entries = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in manifest.items())
    (folder / MANIFEST).write_text(f"{{\n{entries}\n}}\n", encoding="utf-8")
