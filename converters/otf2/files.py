"""Files of an OTF2 archive: the anchor, and chunked files read chunk by chunk into a reused buffer."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import text_of, unreadable
from tracecols.converters.otf2 import decode
from tracecols.converters.unread import SIONLIB
from tracecols.errors import SourceError, UnsupportedError
from tracecols.given.files import open_regular, read_bytes

LITTLE, BIG = 0x42, 0x23
HEADER = 18
MAX_CHUNK = 1 << 30


@dataclass
class Anchor:
    """The contents of the anchor file of an archive."""

    trace_format: int = 2
    library: str = ""
    event_chunk: int = 1 << 20
    definition_chunk: int = 1 << 22
    n_locations: int = 0
    n_definitions: int = 0
    machine: str = ""
    creator: str = ""
    description: str = ""
    properties: dict[str, str] = field(default_factory=dict)


_SUBSTRATES = {
    2: f"is {SIONLIB.what}; that is not read\n  {SIONLIB.todo}",
    3: (
        "was written without files of events (file substrate NONE), so that there is nothing to read\n"
        "  record again with POSIX files"
    ),
}
"""File substrates of archives that are not read, and what to do."""


class _AnchorFile:
    """The bytes of an anchor file, read from `at` on."""

    def __init__(self, path: Path) -> None:
        try:
            self.path, self.data = path, read_bytes(path)
        except OSError as error:
            raise unreadable(path, error, "copy the archive again") from error
        data = self.data
        if len(data) < 8 or data[0] != 3 or data[1] not in (LITTLE, BIG) or data[2:7] != b"OTF2\0":
            raise SourceError(f"{path} is not an OTF2 anchor file\n  expected 'OTF2' at byte 2, found {data[2:7]!r}")
        self._order = "<" if data[1] == LITTLE else ">"
        self.at = 7

    def _cut(self, what: str) -> SourceError:
        return SourceError(f"{self.path} is cut off at byte {len(self.data)}\n  {what}; copy the archive again")

    def number(self, code: str) -> int:
        """Read a number in the format of `struct`."""
        end = self.at + struct.calcsize(code)
        if end > len(self.data):
            raise self._cut("it should go on")
        (value,) = struct.unpack_from(self._order + code, self.data, self.at)
        self.at = end
        return int(value)

    def text(self) -> str:
        """Read a text that ends with a zero."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise self._cut("a text does not end")
        start, self.at = self.at, end + 1
        return text_of(self.data[start:end])


def read_anchor(path: Path) -> Anchor:
    """Read the anchor file of an archive. Raises SourceError if it is not an anchor file or is damaged. Raises
    UnsupportedError if the archive is a SIONlib container, compressed, or of a newer trace format."""
    file = _AnchorFile(path)
    number, text = file.number, file.text
    anchor_format = number("B")
    result = Anchor(number("B"))
    result.library = ".".join(str(number("B")) for _ in range(3))
    if result.trace_format > 2:
        raise UnsupportedError(
            f"{path} has OTF2 trace format {result.trace_format}, which is newer than 2\n"
            "  tracecols reads formats 1 and 2; look for a newer tracecols"
        )
    result.event_chunk, result.definition_chunk = number("Q"), number("Q")
    substrate, compression = number("B"), number("B")
    if substrate != 1:
        otherwise = f"has file substrate {substrate}, which is not supported\n  only POSIX files (1) are"
        raise UnsupportedError(f"{path} {_SUBSTRATES.get(substrate, otherwise)}")
    if compression != 1:
        raise UnsupportedError(
            f"{path} is compressed (compression {compression}), which is not supported\n  record it without compression"
        )
    result.n_locations, result.n_definitions = number("Q"), number("Q")
    result.machine, result.creator, result.description = text(), text(), text()
    if anchor_format >= 2:
        for _ in range(number("I")):
            name = text()
            result.properties[name] = text()
        number("Q")  # identifier of the trace
    if anchor_format >= 3:
        number("I"), number("I")
    if file.data[file.at : file.at + 1] != b"\2":
        raise SourceError(
            f"{path} does not end as an anchor file at byte {file.at}\n  it is damaged; copy the archive again"
        )
    for name, size in (("event", result.event_chunk), ("definition", result.definition_chunk)):
        if not HEADER < size <= MAX_CHUNK:
            raise SourceError(
                f"{path} states an impossible {name} chunk size of {size} bytes\n"
                "  it is damaged; copy the archive again"
            )
    return result


class Chunks:
    """The chunks of one file, read one after the other into one buffer, which may be given for reuse."""

    def __init__(
        self,
        path: str | Path,
        size: int,
        buffer: NDArray[np.uint8] | None = None,
        todo: str = "the archive is damaged; copy it again",
    ) -> None:
        self.path, self.todo = path, todo
        try:
            self._file = open_regular(path)
            self.n_bytes = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise unreadable(path, error, "the archive is incomplete; copy it again") from error
        self.size = size
        room = min(size, self.n_bytes) + decode.PADDING
        if buffer is None or buffer.size < room:
            buffer = np.zeros(room, np.uint8)
        self.buffer = buffer
        self.number = -1
        self.n = 0
        self.big = False
        self.first = 1
        self.last = 0

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def next(self) -> bool:
        """Read the next chunk; False at the end of the file."""
        start = (self.number + 1) * self.size
        if start >= self.n_bytes:
            return False
        self.number += 1
        want = min(self.size, self.n_bytes - start)
        view = self.buffer.data[:want]
        got = 0
        try:
            while got < want:
                more = self._file.readinto(view[got:])
                if not more:
                    break
                got += more
        except OSError as error:
            raise self.error(got, f"cannot be read: {error.strerror}", "copy the archive again") from error
        self.n = got
        self.buffer[got : got + decode.PADDING] = 0
        if got < HEADER:
            raise self.error(0, f"has only {got} bytes of its header")
        if self.buffer[0] != 3 or self.buffer[1] not in (LITTLE, BIG):
            raise self.error(0, f"does not begin with a chunk header (found {bytes(self.buffer[:2]).hex(' ')})")
        self.big = bool(self.buffer[1] == BIG)
        self.first, self.last = struct.unpack(">QQ" if self.big else "<QQ", self.buffer[2:HEADER].tobytes())
        return True

    def check_end(self, at: int) -> None:
        """Refuse bytes after the end-of-file record, which ends at `at`; a single one is usual."""
        more = self.n_bytes - self.number * self.size - at
        if more > 1:
            raise self.error(at, f"{more} bytes follow the end-of-file record")

    def error(self, at: int, what: str, todo: str = "") -> SourceError:
        """Make an error that names file, chunk and byte."""
        chunk = max(self.number, 0)
        return SourceError(f"{self.path}: chunk {chunk}, byte {chunk * self.size + at}: {what}\n  {todo or self.todo}")


def explain(ends: int, detail: int, maps: tuple[str, ...]) -> str:
    """Return the message for the status with which a kernel stopped."""
    return {
        decode.RUNS_OUT: "a record goes past the end of its chunk",
        decode.BAD_LENGTH: f"a record states an impossible length or count ({detail})",
        decode.BAD_INTEGER: "an integer states an impossible size",
        decode.BAD_TIME: f"a time stamp of {detail + (1 << 64)} ticks is impossible",
        decode.BAD_RECORD: "a record does not fit its type",
        decode.UNKNOWN_ID: f"identifier {detail >> 8} of kind {maps[min(detail & 255, len(maps) - 1)]} is not defined",
        decode.NO_TIME: "an event comes before any time stamp",
        decode.NO_EVENT: "an attribute list belongs to no event",
        decode.BAD_METRIC: "a METRIC event does not hold the values of its class",
    }.get(ends, f"decoding stopped ({ends})")
