"""The files of a Kineto trace: windows of text of a JSON file, plain or gzip, and its values other than events."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import text_of, unreadable
from tracecols.converters.kineto import scan
from tracecols.converters.temporary import BAD_GZIP, unpacked
from tracecols.errors import SourceError
from tracecols.given.files import open_regular

WINDOW = 1 << 23
"""Bytes of text that are read at once."""
LARGEST = 1 << 28
"""Upper bound for the bytes of an event or another value."""
HEAD = 1 << 16
"""Bytes at the beginning of a file that are searched for keys of a Kineto trace."""

DAMAGED = "the trace is damaged or incomplete; copy it again"

KNOWN = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"')
"""Keys, at least one of which is near the beginning of every trace."""

_KEPT = ("distributedInfo", "baseTimeNanoseconds", "traceName", "hostname", "host_name", "nccl_version")
_SPACE = b" \t\r\n\xef\xbb\xbf"


def begins_as_kineto(path: Path) -> bool:
    """Return whether a file, plain or gzip, begins like a trace of the PyTorch profiler."""
    head = b""
    # a damaged file is one as well
    with suppress(OSError, *BAD_GZIP), open_regular(path) as stored, unpacked(stored) as file:
        while len(head) < HEAD and (piece := file.read1(HEAD)):
            head += piece
    return head.lstrip(_SPACE)[:1] == b"{" and any(key in head for key in KNOWN)


ENDINGS = (".json", ".json.gz")
"""File name endings of files in a folder that may belong to a trace."""


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files of a trace: a file, or those of a folder, that begin as one; empty if there is none."""
    if not path.is_dir():
        return (path,) if begins_as_kineto(path) else ()
    try:
        found = sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS) and file.is_file())
    except OSError:
        return ()
    return tuple(file for file in found if begins_as_kineto(file))


class Text:
    """A moving window of the text of a file: `size` bytes of text in `data`, read up to `at`."""

    def __init__(self, path: Path, file: io.BufferedIOBase) -> None:
        self.path, self._file = path, file
        self.data: NDArray[np.uint8] = np.empty(WINDOW, np.uint8)
        self.size = self.at = self._before = 0
        self._damage = ""

    @property
    def place(self) -> int:
        """Current position, in bytes of the unpacked file."""
        return self._before + self.at

    def more(self) -> bool:
        """Drop the text already read, and read more; return whether there was more. Raises SourceError if the file
        cannot be read, or a value has no end."""
        rest = self.size - self.at
        if rest > LARGEST:
            raise self.wrong(f"an event or another value has more than {LARGEST:,} bytes")
        room = self.data if 2 * rest <= self.data.size else np.empty(4 * rest, np.uint8)
        room[:rest] = self.data[self.at : self.size].copy()
        self.data, self._before = room, self._before + self.at
        self.at, self.size = 0, rest
        try:
            # what precedes damage is read alone
            while not self._damage and self.size < self.data.size:
                if not (n := self._file.readinto1(self.data[self.size :].data)):
                    break
                self.size += n
        except BAD_GZIP as error:
            self._damage = str(error)
        if self._damage and self.size == rest:
            raise SourceError(f"{self.path}: byte {self._before + rest}: unpacking stops: {self._damage}\n  {DAMAGED}")
        return self.size > rest

    def wrong(self, what: str) -> SourceError:
        """Make an error about the current position."""
        near = self.data[self.at : min(self.at + 60, self.size)].tobytes().decode("utf-8", "replace")
        return SourceError(f"{self.path}: byte {self.place}: {what}: {near!r}\n  {DAMAGED}")

    def cut(self) -> SourceError:
        """Make the error for a file that ends too early."""
        return SourceError(
            f"{self.path}: the file ends at byte {self._before + self.size}, within the trace\n  {DAMAGED}"
        )

    def peek(self) -> int:
        """Advance to the next byte that is not white space, and return it; -1 at the end of the file."""
        while True:
            self.at = int(scan.find_text(self.data, self.size, self.at))
            if self.at < self.size:
                return int(self.data[self.at])
            if not self.more():
                return -1

    def expect(self, *codes: str) -> str:
        """Read one of some characters. Raises SourceError if there is another, or the file ends."""
        code = self.peek()
        if code < 0:
            raise self.cut()
        if chr(code) not in codes:
            raise self.wrong(f"expected {' or '.join(repr(c) for c in codes)}, found")
        self.at += 1
        return chr(code)

    def value(self) -> bytes:
        """Read a value. Raises SourceError if there is none, or the file ends before it does."""
        if self.peek() < 0:
            raise self.cut()
        while (end := int(scan.find_end(self.data, self.size, self.at))) > self.size:
            if not self.more():
                raise self.cut()
        if end == self.at:
            raise self.wrong("expected a value, found")
        found = self.data[self.at : end].tobytes()
        self.at = end
        return found


def parsed(text: bytes) -> Any:
    """Parse a JSON value; return None if it is not valid. Control characters within texts are accepted, because PyTorch
    writes them; halves of surrogates, which JSON allows, become U+FFFD."""
    try:
        found = json.loads(text_of(text), strict=False)
        if b"\\ud" in text.lower():
            whole = json.dumps(found, ensure_ascii=False).encode("utf-16", "surrogatepass")
            found = json.loads(whole.decode("utf-16", "replace"))
        return found
    except (ValueError, RecursionError):
        return None


def read_values(path: Path) -> Iterator[tuple[str, Any, Text]]:
    """Yield the keys of a trace with their values; for `traceEvents`, the text to read is at the first event.
    Raises SourceError if the file cannot be read, is not a JSON object, or ends too early."""
    try:
        with open_regular(path) as stored, unpacked(stored) as file:
            text = Text(path, file)
            if text.more() and text.data[:3].tobytes() == b"\xef\xbb\xbf":
                text.at = 3
            if text.peek() != ord("{"):
                raise SourceError(
                    f"{path} is not a trace of the PyTorch profiler\n  expected a JSON object with traceEvents"
                )
            text.at += 1
            while text.peek() == ord('"'):
                key = parsed(text.value())
                text.expect(":")
                if key == "traceEvents":
                    text.expect("[")
                    yield key, None, text
                else:
                    value = text.value()
                    if key in _KEPT:
                        yield key, parsed(value), text
                if text.expect(",", "}") == "}":
                    if text.peek() >= 0:
                        raise text.wrong("expected the end of the file, found")
                    break
            else:
                if text.peek() != ord("}"):
                    raise (
                        text.cut() if text.peek() < 0 else text.wrong("expected a key or the end of the object, found")
                    )
    except OSError as error:
        raise unreadable(path, error) from error
