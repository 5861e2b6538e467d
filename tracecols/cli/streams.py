"""Standard output and standard error whose write errors are reported like those of other files."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _NamedFile(io.FileIO):
    """A standard stream whose first write error carries its name; later writes are discarded."""

    def __init__(self, descriptor: int, words: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._words, self._failed = words, False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes; the error of a broken pipe is left to the caller, without a name."""
        if self._failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            if error.errno != errno.EPIPE:
                error.filename = self._words
            raise


def name_streams() -> None:
    """Make errors of the standard streams name the stream, and make the streams accept any text.

    Names may contain undecodable bytes (surrogates), or characters that the encoding lacks. Output to a closed stream
    is discarded.
    """
    for name, words in (("stdout", "standard output"), ("stderr", "standard error")):
        stream = getattr(sys, name)
        setattr(sys, name, open(os.devnull, "w", encoding="utf-8") if stream is None else _named(stream, words))  # noqa: SIM115


def _named(stream: TextIO, words: str) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    is_utf8 = stream.encoding.lower() in ("utf-8", "utf8")
    errors = "backslashreplace" if is_utf8 or words == "standard error" else "replace"
    if stream.isatty():
        # terminals never run out of space, and those of Windows use a file class of their own
        stream.reconfigure(errors=errors)
        return stream
    at_once = stream.line_buffering or stream.write_through
    file = io.BufferedWriter(_NamedFile(stream.fileno(), words))
    return io.TextIOWrapper(file, stream.encoding, errors, line_buffering=at_once)
