"""Standard output and standard error: what cannot be written to them is an error like any other."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _NamedFile(io.FileIO):
    """A standard stream that fails once, with its name, and discards what is written later."""

    def __init__(self, descriptor: int, words: str) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._words, self._failed = words, False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes; a pipe that no one reads any more is left to whoever called."""
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
    """Let errors of the standard streams say which one it is, and let them take any text.

    Names may hold bytes that are no text (surrogates), and the encoding may lack characters of theirs. A stream that is
    closed takes everything.
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
        # terminals are never full, and those of Windows have a file of their own
        stream.reconfigure(errors=errors)
        return stream
    at_once = stream.line_buffering or stream.write_through
    file = io.BufferedWriter(_NamedFile(stream.fileno(), words))
    return io.TextIOWrapper(file, stream.encoding, errors, line_buffering=at_once)
