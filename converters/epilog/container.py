"""The bytes of an EPILOG file, plain or gzip, mapped into memory; and its records one by one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import unreadable
from tracecols.converters.temporary import BAD_GZIP, temporary_file, write
from tracecols.errors import SourceError, UnsupportedError
from tracecols.given.files import open_regular

MAGIC = b"EPILOG\0"
HEADER = 10
LITTLE, BIG = 1, 2
MAX_RATIO = 100
"""Maximum ratio of unpacked to stored size of a gzip'ed file; real traces become 2 to 10 times as large."""
MIN_LIMIT = 1 << 22
"""Unpacked size that is accepted for any gzip'ed file, in bytes."""
DAMAGED = "the trace is damaged; copy it again, or use --salvage to keep what precedes"


class Container:
    """An EPILOG file.

    Parameters
    ----------
    path : Path
        The file; a gzip'ed one is unpacked into a temporary file.

    Attributes
    ----------
    data : (n,) uint8
        Its bytes, read-only.
    big : bool
        Byte order.
    version : int
        major * 1000 + minor.
    cut : str
        Why unpacking ended early; empty if it did not.

    Raises
    ------
    SourceError
        If it cannot be read or is not an EPILOG file.
    UnsupportedError
        If it is of another major version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = ""
        try:
            with open_regular(path) as file:
                packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                self.data = self._unpacked(file) if packed else np.memmap(file, np.uint8, "r").view(np.ndarray)
        except OSError as error:
            raise unreadable(path, error) from error
        except ValueError as error:
            if self.cut:
                raise SourceError(f"{path}: {self.cut}\n  the file is damaged; copy it again") from error
            raise SourceError(f"{path} is empty\n  copy the trace again") from error
        head = self.data[:HEADER].tobytes()
        if len(head) < HEADER and self.cut:
            raise self.error(len(head), self.cut)
        self._check_header(head)
        self.version = head[7] * 1000 + head[8]
        self.big = bool(head[9] == BIG)

    def _check_header(self, head: bytes) -> None:
        """Refuse files that do not begin like an EPILOG file."""
        if len(head) < HEADER or head[:7] != MAGIC:
            raise SourceError(
                f"{self.path} is not an EPILOG file\n  expected 'EPILOG' at its beginning, found {head[:7]!r}"
            )
        if head[7] != 1:
            raise UnsupportedError(
                f"{self.path} has EPILOG version {head[7]}.{head[8]}, which is not supported\n  only versions 1.x are"
            )
        if head[9] not in (LITTLE, BIG):
            raise SourceError(f"{self.path}: byte 9: states an impossible byte order ({head[9]})\n  {DAMAGED}")

    def _unpacked(self, stored: io.FileIO) -> NDArray[np.uint8]:
        """Unpack into a temporary file: the header first, then no more than `MAX_RATIO` times the stored size."""
        size = os.fstat(stored.fileno()).st_size
        limit = max(MIN_LIMIT, MAX_RATIO * size)
        with temporary_file() as whole:
            n = 0

            def keep(block: bytes) -> None:
                nonlocal n
                if not n and len(block) >= HEADER:
                    self._check_header(block[:HEADER])
                n += len(block)
                if n > limit:
                    raise SourceError(
                        f"{self.path} has {size:,} bytes and unpacks to more than {limit:,}, which no trace does\n"
                        "  copy the trace again; if it is one all the same, unpack it with gunzip"
                    )
                write(whole, block)

            try:
                with gzip.open(stored) as packed:
                    step = 1 << 16
                    while block := packed.read(step):
                        keep(block)
                        step = 1 << 22
            except BAD_GZIP as error:
                # the block that was being read is lost: unpack again in small blocks, up to the damage
                whole.seek(0)
                whole.truncate()
                stored.seek(0)
                n = 0
                with gzip.open(stored) as packed, contextlib.suppress(*BAD_GZIP):
                    while block := packed.read1(1 << 10):
                        keep(block)
                self.cut = f"unpacking stops after {whole.tell()} bytes: {error}"
            return np.memmap(whole, np.uint8, "r").view(np.ndarray)

    def records(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield position, type and body of records until the caller has enough or the file ends. Raises SourceError if
        a record goes past the end of the file."""
        at, n = HEADER, self.data.size
        while at < n:
            if at + 2 > n or at + 2 + int(self.data[at]) > n:
                raise self.error(at, self.cut or "the file ends within a record")
            stop = at + 2 + int(self.data[at])
            yield at, int(self.data[at + 1]), self.data[at + 2 : stop].tobytes()
            at = stop
        if self.cut:
            raise self.error(n, self.cut)

    def error(self, at: int, what: str) -> SourceError:
        """Make an error that names file and byte."""
        return SourceError(f"{self.path}: byte {at}: {what}\n  {DAMAGED}")
