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
"""Number of times that a folder may be replaced while its manifest is looked for."""

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
    """Read the manifest of a folder; also return the `identity` that distinguishes this folder from another one that
    takes its place. Raises OSError, ValueError if it is missing or no JSON."""
    with open_regular(folder / MANIFEST) as file:
        return parse_json(read_whole(file)), _identity(os.fstat(file.fileno()))


def await_manifest(folder: Path) -> tuple[Any, tuple[int, ...]]:
    """Read the manifest of a folder that another process may be replacing: wait up to 60 ms for it to appear, and try
    again if it disappears before it is read.

    Returns and raises the same as `read_manifest`.
    """
    for _ in range(EXCHANGES):
        if not _appears(folder):
            break
        with suppress(FileNotFoundError):
            return read_manifest(folder)
    return read_manifest(folder)


def _appears(folder: Path) -> bool:
    """Return whether something exists at a path within 60 ms."""
    for pause in (0.001, 0.01, 0.05):
        if folder.exists():
            return True
        time.sleep(pause)
    return folder.exists()


def is_made_here(path: Path, what: str) -> bool:
    """Return whether a folder has a manifest of the kind `what`, such as a store, a cube or an index."""
    try:
        return bool(await_manifest(path)[0]["format"] == _FORMATS[what])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def kind_of_folder(path: Path) -> str:
    """Return the kind of a folder that tracecols made, such as `a store of a trace`; empty for other paths."""
    try:
        found = read_manifest(path)[0]["format"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return next((what for what, name in _FORMATS.items() if name == found), "")


ARCHIVES = (".otf2", ".elg", ".elg.gz", ".esd", ".prv", ".prv.gz", ".pt.trace.json", ".pt.trace.json.gz", ".sqlite")
"""Suffixes of anchor files of trace archives in the formats built into tracecols."""

CUBES = (".cubex", ".cube", ".cube.gz")
"""Suffixes of files of severity cubes."""

INSTEAD = {
    "a trace archive": {
        "a store": "convert it first: tracecols convert {}",
        "a severity cube": "analyze it: tracecols analyze {}",
        "a folder of runs": "add it to one: tracecols runs add FOLDER {}",
    },
    "a store of a trace": {
        "a trace archive": "it is converted already; analyze it: tracecols analyze {}",
        "a severity cube": "analyze it: tracecols analyze {}",
        "a folder of runs": "add it to one: tracecols runs add FOLDER {}",
    },
    "a severity cube": {
        "a store": "look at it: tracecols show {}",
        "a trace archive": "look at it: tracecols show {}",
        "a folder of runs": "add it to one: tracecols runs add FOLDER {}",
    },
}
"""Advice about a path given in place of something else: by its kind, and by the kind that was wanted."""


def recognised(path: Path) -> str:
    """Return the kind of `INSTEAD` that a path is; empty if it is none of them."""
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
    """Return the error about a path given in place of a `wanted` thing (`INSTEAD`); empty if its kind is not known."""
    what = recognised(path)
    todo = INSTEAD.get(what, {}).get(wanted)
    return f"{path} is {what}, not {wanted}\n  {todo.format(quote(str(path)))}" if todo else ""


def reason(error: Exception) -> str:
    """Return why a manifest cannot be read, to append to a message: it is a pipe or device, permission is denied, or
    too many files are open; empty otherwise."""
    if isinstance(error, OSError) and is_denied(error):
        return f": {str(error.strerror).lower()}"
    return f": {error}" if isinstance(error, UnusableFileError) else ""


def identity(path: Path) -> tuple[int, ...]:
    """Return values that distinguish a store, a cube or a file from one that took its place; empty if there is none."""
    try:
        return _identity((path / MANIFEST if path.is_dir() else path).stat())
    except OSError:
        return ()


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def checksum(manifest: dict[str, Any]) -> str:
    """Return the checksum of all entries of a manifest, except the checksum itself."""
    content = {k: v for k, v in manifest.items() if k != "checksum"}
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def write_manifest(folder: Path, what: str, version: Version | int, content: dict[str, Any]) -> None:
    """Write the manifest of a folder of the kind `what`; it is written last, and makes the folder complete."""
    # as it will be read, with keys as texts
    major, minor = version if isinstance(version, tuple) else (version, None)
    versions = {"version": major} if minor is None else {"version": major, "minor_version": minor}
    manifest = json.loads(json.dumps({"format": _FORMATS[what], **versions, **content}))
    manifest["checksum"] = checksum(manifest)
    # one line per entry: with one per number, `json` uses its encoder in Python, a hundred times as slow
    entries = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in manifest.items())
    (folder / MANIFEST).write_text(f"{{\n{entries}\n}}\n", encoding="utf-8")
