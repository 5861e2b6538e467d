"""Where things stand in a store, and how a folder appears complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecols.errors import StoreError, TracecolsError

MANIFEST = "manifest.json"

_FORMATS = {"a store of a trace": "tracecols store", "a severity cube": "tracecols severity"}


def part_name(number: int) -> str:
    """Return the file name of a part."""
    return f"part-{number:05d}.parquet"


def is_made_here(path: Path, what: str) -> bool:
    """Say whether a folder has the manifest of a store or a cube, whichever is asked for."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["format"] == _FORMATS[what])
    except (OSError, ValueError, LookupError, TypeError):
        return False


@contextmanager
def new_folder(path: Path, what: str, error: type[TracecolsError] = StoreError) -> Iterator[Path]:
    """Build a folder beside its place and move it there when the block ends well; else leave nothing.

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
    if path.is_symlink() and path.exists():
        path = path.resolve()
    if (path.exists() or path.is_symlink()) and not is_made_here(path, what):
        raise error(f"{path} exists and is not {what}\n  give another name with -o, or remove it")
    building = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        building.mkdir(parents=True)
    except OSError as e:
        raise error(f"cannot write {path}: {e.strerror}\n  choose a folder you may write to with -o") from e
    try:
        try:
            yield building
        except OSError as e:
            if e.filename is not None and not str(e.filename).startswith(str(building)):
                raise
            raise error(
                f"cannot write {path}: {e.strerror or e}\n  nothing was left behind; make room or choose another folder"
            ) from e
        if path.exists():
            old = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.old"
            os.replace(path, old)
            try:
                os.replace(building, path)
            except OSError:
                os.replace(old, path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(building, path)
    finally:
        shutil.rmtree(building, ignore_errors=True)


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
    building = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        yield building
        os.replace(building, path)
    except OSError as e:
        raise error(f"cannot write {path}: {e.strerror or e}\n  choose another name, or make room") from e
    finally:
        building.unlink(missing_ok=True)
