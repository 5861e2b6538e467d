"""Bytes and arrays in temporary files, for data that may be larger than memory."""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SourceError
from tracecols.work.scratch import reserve

IN_MEMORY = 1 << 28
"""Arrays up to this many bytes are held in memory, larger ones in temporary files."""

BAD_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
"""Exceptions that reading a damaged gzip'ed file raises."""


def unpacked(stored: io.FileIO) -> io.BufferedIOBase:
    """Return the content of a file that may be gzip'ed, from its begin on."""
    packed = stored.read(2) == b"\x1f\x8b"
    stored.seek(0)
    return gzip.open(stored) if packed else io.BufferedReader(stored)


def scratch(n: int, dtype: Any, in_memory: int | None = None) -> NDArray[Any]:
    """Make an array, mapped to a temporary file if it has more bytes than are held in memory. Raises SourceError if
    there is no room for the file."""
    size = n * np.dtype(dtype).itemsize
    if size <= (IN_MEMORY if in_memory is None else in_memory):
        return np.empty(n, dtype)
    with temporary_file() as file:
        try:
            reserve(file.fileno(), size)
            return np.memmap(file, dtype, "w+", shape=(n,)).view(np.ndarray)
        except OSError as error:
            raise no_room(error) from error


def temporary_file() -> BinaryIO:
    """Make a file without a name, which is deleted when it is closed."""
    try:
        return tempfile.TemporaryFile(prefix="tracecols-", buffering=0)
    except OSError as error:
        raise no_room(error) from error


def no_room(error: OSError) -> SourceError:
    """Make the error for a temporary file that cannot be written."""
    where = tempfile.tempdir or "any folder for such files"
    return SourceError(
        f"cannot write a temporary file in {where}: {error.strerror or error}\n"
        "  make room there, or set TMPDIR to a folder with more"
    )


def write(file: BinaryIO, data: bytes | memoryview) -> None:
    """Append to a temporary file."""
    view = memoryview(data)
    try:
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise no_room(error) from error
