"""Open files named by users without waiting for them, and read small ones only up to a limit.

Every file that is named on the command line, or is in a store, a cube or an archive, is opened here. A pipe or a device
in place of a file is refused: reading it could take forever, and fill the memory.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

from tracecols.errors import TracecolsError

MAX_BYTES = 1 << 28
"""Bytes of a file that is read as a whole: a manifest, a JSON file, an anchor, a Python file."""

NO_THREAD = "can't start new thread"
MORE_THREADS = "use fewer threads where there is --jobs, or permit more (ulimit -u)"
"""What Python says if the system starts no more threads, and what to do about it."""

MORE_FILES = "permit more open files (ulimit -n)"
"""What to do if too many files are open."""

_TOO_MANY = errno.EMFILE, errno.ENFILE

_KINDS = (
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UnusableFileError(OSError):
    """A path leads to something that is not read; the message says to what."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_regular(path: str | Path) -> None:
    """Refuse pipes, devices and sockets. Links are followed; folders pass this check, and are refused when they are
    opened. Raises UnusableFileError if it is a pipe, a device or a socket. Raises OSError if nothing exists at the
    path."""
    if "\0" in str(path):
        raise UnusableFileError(errno.EINVAL, "its name has a NUL character", str(path))
    _check_mode(path, os.stat(path).st_mode)


def kind_of(mode: int) -> str:
    """Return the kind of file that has a mode of `os.stat`; empty for regular files and folders."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "")


def check_path(path: str | Path, error: type[TracecolsError]) -> None:
    """Refuse a path with a NUL character, which no file can have. Raises TracecolsError: of the type `error`."""
    if "\0" in str(path):
        raise error(f"{str(path)!r} has a NUL character, which no path can have\n  give another name")


def is_denied(error: BaseException | None) -> bool:
    """Return whether an error is about permissions or the number of open files, so that the file may be sound."""
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, *_TOO_MANY)


def advice(error: BaseException, otherwise: str) -> str:
    """Return what to do about a file that cannot be read; `otherwise` is for a damaged one."""
    if isinstance(error, OSError) and error.errno in _TOO_MANY:
        return MORE_FILES
    if is_denied(error):
        return "change the permissions of it and its folders, or ask its owner to"
    # this is how Arrow reports it
    return MORE_THREADS if "Failed to launch worker thread" in str(error) else otherwise


def advice_for_output(error: OSError, otherwise: str) -> str:
    """Return what to do about an output that cannot be written; `otherwise`: without space or permission."""
    return MORE_FILES if error.errno in _TOO_MANY else otherwise


def exists(path: str | Path) -> bool:
    """Return whether something exists at a path. Raises OSError if that cannot be determined."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _check_mode(path: str | Path, mode: int) -> None:
    if name := kind_of(mode):
        raise UnusableFileError(errno.EINVAL, f"it is {name}, not a regular file", str(path))


def open_regular(path: str | Path) -> io.FileIO:
    """Open a file for reading, without waiting even if a pipe takes its place at this moment. Raises UnusableFileError
    if it is a pipe, a device or a socket. Raises OSError if it cannot be opened."""
    check_regular(path)
    file = io.FileIO(path, "rb", opener=_open_at_once)
    try:
        _check_mode(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: Path) -> bytes:
    """Read a small file. Raises UnusableFileError if it has more than `MAX_BYTES`, and as `open_regular` does."""
    with open_regular(path) as file:
        return read_whole(file)


def read_whole(file: io.FileIO) -> bytes:
    """Read a small file that is open, see `read_bytes`."""
    content = bytearray()
    size = os.fstat(file.fileno()).st_size
    while max(size, len(content)) <= MAX_BYTES:
        block = file.read(1 << 20)
        if not block:
            return bytes(content)
        content += block
    raise UnusableFileError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes", file.name)


def parse_json(content: bytes) -> Any:
    """Return the value of JSON in UTF-8. Raises ValueError if it is not JSON, or nests too deep."""
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it nests too deep") from None


def read_json(path: Path) -> Any:
    """Read a small JSON file. Raises OSError: as `read_bytes`. Raises ValueError: as `parse_json`."""
    return parse_json(read_bytes(path))
