"""Where things stand in a store, and how a folder appears complete or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracecols.errors import StoreError, TracecolsError
from tracecols.files import UnusableFileError, open_regular, parse_json, read_whole
from tracecols.schema import Version
from tracecols.scratch import ScratchFolder

MANIFEST = "manifest.json"

_FORMATS = {
    "a store of a trace": "tracecols store",
    "a severity cube": "tracecols severity",
    "an index for EARL": "tracecols earl index",
    "an enhanced table": "tracecols enhanced table",
}


def part_name(number: int) -> str:
    """Return the file name of a part."""
    return f"part-{number:05d}.parquet"


def await_folder(folder: Path) -> None:
    """Wait up to 60 ms while nothing stands at a place: another process may be exchanging the folder there.

    Parameters
    ----------
    folder : Path
    """
    for pause in (0.001, 0.01, 0.05):
        if folder.exists():
            break
        time.sleep(pause)


def read_manifest(folder: Path) -> tuple[Any, tuple[int, ...]]:
    """Read the manifest of a folder.

    Returns
    -------
    manifest : dict
        Or whatever stands there.
    identity : tuple of int
        What tells this folder from another one that takes its place (`identity`).

    Raises
    ------
    OSError, ValueError
        If it is missing or no JSON.
    """
    with open_regular(folder / MANIFEST) as file:
        return parse_json(read_whole(file)), _identity(os.fstat(file.fileno()))


def is_made_here(path: Path, what: str) -> bool:
    """Say whether a folder has the manifest of a store, a cube or an index, whichever is asked for."""
    try:
        await_folder(path)
        return bool(read_manifest(path)[0]["format"] == _FORMATS[what])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def reason(error: Exception) -> str:
    """Say what stands in the place of a manifest, to go on with; nothing if that is no pipe, device or the like."""
    return f": {error}" if isinstance(error, UnusableFileError) else ""


def identity(folder: Path) -> tuple[int, ...]:
    """Return what tells a store or a cube from another one that took its place; empty if there is none."""
    try:
        return _identity((folder / MANIFEST).stat())
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
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


@contextmanager
def new_folder(path: Path, what: str, error: type[TracecolsError] = StoreError) -> Iterator[Path]:
    """Build a folder beside its place and move it there when the block ends well; else leave nothing.

    What others write there at the same time is replaced: the last one that is complete stays.

    Parameters
    ----------
    path : Path
        Where it is to stand; an older folder of the same kind, by its manifest, is replaced.
    what : str
        What it is, for error messages.
    error : type
        The error to raise.
    """
    path = Path(path)
    with suppress(OSError):
        if path.is_symlink() and path.exists():
            path = path.resolve()

    def check() -> None:
        # while another process replaces the folder it is not what it seems: what is refused must have stood there all the time
        while (seen := _standing_at(path)) is not None and not is_made_here(path, what):
            if _standing_at(path) == seen:
                raise error(f"{path} exists and is not {what}\n  give another name, or remove it")

    def rescue(left: Path) -> None:
        """Put back an older folder that a killed process had just moved away."""
        if (left / "old").is_dir() and not path.exists():
            with suppress(OSError):
                os.rename(left / "old", path)

    check()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = ScratchFolder(path.parent, f".{path.name}.", ".partial", rescue)
    except OSError as e:
        raise error(f"cannot write {path}: {e.strerror}\n  choose a folder you may write to") from e
    with scratch as building:
        new, old = building / "new", building / "old"
        try:
            new.mkdir()
            yield new
            check()
            _put(new, path, old)
        except OSError as e:
            if e.filename is not None and not str(e.filename).startswith(str(building)):
                raise
            raise error(
                f"cannot write {path}: {e.strerror or e}\n  nothing was left behind; make room or choose another folder"
            ) from e


def _standing_at(path: Path) -> tuple[int, int] | None:
    """Tell what stands at a path, also a link that leads nowhere, from what is put there later; None if nothing can be seen there."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _put(new: Path, path: Path, old: Path) -> None:
    """Let a folder take a place, whatever other processes put there meanwhile; `old` is where it leaves the one before."""
    while True:
        try:
            with suppress(FileNotFoundError):
                os.rename(path, old)
            os.rename(new, path)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            # another process was faster
            shutil.rmtree(old, ignore_errors=True)
        finally:
            if old.exists() and not path.exists():
                os.rename(old, path)


@contextmanager
def new_file(path: Path, error: type[TracecolsError] = StoreError) -> Iterator[Path]:
    """Write a file beside its place and move it there when the block ends well; else leave nothing.

    Parameters
    ----------
    path : Path
        Where it is to stand; an older file is replaced.
    error : type
        The error to raise.
    """
    try:
        with ScratchFolder(path.parent, f".{path.name}.", ".partial") as building:
            yield building / "new"
            os.replace(building / "new", path)
    except OSError as e:
        raise error(f"cannot write {path}: {e.strerror or e}\n  choose another name, or make room") from e
