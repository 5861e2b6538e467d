"""The files of a Paraver trace: blocks of lines of the `.prv`, names from `.pcf` and `.row`."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import text_of, unreadable
from tracecols.converters.paraver.types import LATEST, MAGIC
from tracecols.converters.temporary import BAD_GZIP, unpacked
from tracecols.errors import SourceError
from tracecols.given.files import open_regular, read_bytes

CUTTER = b":CUTTER:"
"""In the comments after the header of a piece of another trace."""
BLOCK = 1 << 23
"""Bytes of text that are read at once."""
_STEP = 1 << 16
"""Bytes that are unpacked at once."""
LONGEST_LINE = 1 << 26
"""Upper bound for the bytes of a line."""

DAMAGED = "the trace is damaged; copy it again, or use --salvage to keep what precedes"

NEWLINE = b"\n"


ANY_THREADS = 1 << 16
"""Number of threads that any file may have; more need a byte of the file each, since a damaged header must not exhaust
time and memory."""


def begins_as_paraver(path: Path) -> bool:
    """Return whether a file, plain or gzip, begins like a Paraver trace."""
    try:
        with open_regular(path) as stored, unpacked(stored) as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, *BAD_GZIP):
        return False


@dataclass
class Block:
    """Whole lines of a file."""

    at: int
    """Byte of the unpacked file at which they begin."""
    data: NDArray[np.uint8]
    """(n,): the text; its last byte is a newline."""


class Lines:
    """The lines of a file, plain or gzip, in blocks; `cut` is why reading ended early, empty if it did not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = ""

    def blocks(self, block: int = BLOCK) -> Iterator[Block]:
        """Yield all lines. Text after the last newline is a line if the file ends there. Raises SourceError if the file
        cannot be read, or a line has no end."""
        at, rest = 0, b""
        try:
            with open_regular(self.path) as stored, unpacked(stored) as file:
                while piece := self._read(file, block):
                    text = rest + piece
                    end = text.rfind(NEWLINE) + 1
                    if end:
                        yield Block(at, np.frombuffer(text, np.uint8, end))
                        at += end
                    rest = text[end:]
                    if len(rest) > LONGEST_LINE:
                        raise SourceError(
                            f"{self.path}: byte {at}: a line has more than {LONGEST_LINE:,} bytes\n  {DAMAGED}"
                        )
        except OSError as error:
            raise unreadable(self.path, error) from error
        if rest and not self.cut:
            yield Block(at, np.frombuffer(rest + NEWLINE, np.uint8))

    def _read(self, file: io.BufferedIOBase, n: int) -> bytes:
        """Read up to n bytes; only those before the damage if the file is damaged."""
        pieces: list[bytes] = []
        wanted = 0 if self.cut else n
        # if a gzip'ed file is damaged, what was unpacked before is not lost
        try:
            while wanted > 0 and (piece := file.read1(min(wanted, _STEP))):
                pieces.append(piece)
                wanted -= len(piece)
        except BAD_GZIP as error:
            self.cut = f"unpacking stops: {error}"
        return b"".join(pieces)


def line_of(path: Path, task: int, thread: int, time: int) -> int:
    """Return the number of the first line about a thread at a time, counted from 1; 0 if there is none."""
    wanted = re.compile(rb"^[12]:\d+:1:%d:%d:%d:" % (task, thread, time), re.MULTILINE)
    n = 0
    for block in Lines(path).blocks():
        text = block.data.tobytes()
        if found := wanted.search(text):
            return n + text.count(NEWLINE, 0, found.start()) + 1
        n += text.count(NEWLINE)
    return 0


@dataclass
class Header:
    """The first lines of a trace."""

    recorded: str
    """Date and time, as written in the file."""
    duration: int
    """Ticks until the end."""
    resolution: int
    """Ticks per second."""
    cpus: list[int]
    """Number of CPUs of every node."""
    threads: list[tuple[int, int]]
    """For every task: number of its threads, and its node, counted from 0; -1 unknown."""
    communicators: dict[int, list[int]] = field(default_factory=dict)
    """Tasks of every communicator, counted from 0."""
    size: int = 0
    """Bytes of these lines."""
    n_lines: int = 1
    n_unknown_members: int = 0
    """Number of members of communicators that are left out because they are not tasks of the trace."""
    is_cut: bool = False
    """Whether the trace is a piece that Paraver or paramedir has cut out of another one."""


UNITS = {"_ns": 10**9, "_us": 10**6, "_ms": 10**3, "": 10**6}
"""Ticks per second by unit; none is microseconds."""

_FIRST = re.compile(
    r"#Paraver "
    r"\((?P<recorded>[^)]*)\):(?P<end>\d{1,20})(?P<unit>_[a-z]+)?:(?P<nodes>\d+(?:\([\d,]*\))?):(?P<n>\d+)(?P<rest>.*)"
)
_APPLICATION = re.compile(r":(?P<n>\d+):?\((?P<tasks>[\d:,]+)\)(?:,(?P<comms>\d+))?")
_TASK = re.compile(r"(\d{1,9}):(\d{1,9})")
_NUMBER = re.compile(r"-?[0-9]{1,18}")


def read_header(path: Path) -> Header:
    """Read header and communicators. Raises SourceError if they are none, inconsistent, or of several applications."""

    try:
        with open_regular(path) as stored, unpacked(stored) as file:
            size = os.fstat(stored.fileno()).st_size
            return _header_of(path, iter(lambda: file.readline(LONGEST_LINE), b""), max(size, ANY_THREADS))
    except OSError as error:
        raise unreadable(path, error) from error
    except BAD_GZIP as error:
        raise SourceError(
            f"{path}: unpacking stops in the header: {error}\n  the trace is damaged; copy it again"
        ) from error


def _header_of(path: Path, lines: Iterator[bytes], most_threads: int) -> Header:
    def wrong(what: str, line: int = 1) -> SourceError:
        return SourceError(
            f"{path}: line {line}: {what}\n  the trace is damaged or of an unknown version; copy it again"
        )

    first = next(lines, b"")
    text = first.decode("latin-1").rstrip()
    if not first.startswith(MAGIC):
        raise SourceError(
            f"{path} is not a Paraver trace\n  expected '#Paraver' at its beginning, found {first[:12]!r}"
        )
    found = _FIRST.fullmatch(text)
    if found is None:
        raise wrong(
            "the header is not that of a Paraver trace; expected '#Paraver "
            "(date):end_ns:nodes:1:tasks(threads:node,...)'"
        )
    unit = found["unit"] or ""
    if unit not in UNITS:
        raise wrong(f"the header has times in {unit[1:]!r}, expected ns, us or ms")
    if int(found["end"]) > LATEST:
        raise wrong(f"the trace ends at {found['end']}, which is impossibly large")
    if int(found["n"]) != 1:
        raise wrong(f"the trace has {int(found['n']):,} applications, and only traces of one are read")
    application = _APPLICATION.fullmatch(found["rest"])
    if application is None:
        raise wrong("the header does not say the threads of the tasks; expected 'tasks(threads:node,...)'")
    tasks = application["tasks"].split(",")
    pairs = [_TASK.fullmatch(t) for t in tasks]
    if len(tasks) != int(application["n"]) or any(p is None for p in pairs):
        raise wrong(f"the header says {int(application['n']):,} tasks, and lists {len(tasks):,}")
    cpus = _cpus_of(found["nodes"])
    threads = [(int(p[1]), int(p[2]) - 1) for p in pairs if p is not None]
    for task, (n, node) in enumerate(threads):
        if not n or (cpus and not -1 <= node < len(cpus)):
            what = "no threads" if not n else f"node {node + 1} of {len(cpus)}"
            raise wrong(f"the header gives task {task + 1} {what}")
    if (n_threads := sum(n for n, _ in threads)) > most_threads:
        raise wrong(f"the header says {n_threads:,} threads, more than a file of this size can have")
    header = Header(found["recorded"], int(found["end"]), UNITS[unit], cpus, threads, size=len(first))
    _read_communicators(header, int(application["comms"] or 0), lines, wrong)
    return header


def _cpus_of(text: str) -> list[int]:
    """Return the number of CPUs of each node, from `n(cpus,...)` or `n`."""
    number, _, rest = text.partition("(")
    cpus = [int(n or 0) for n in rest.rstrip(")").split(",")] if rest else []
    return cpus or [0] * min(int(number), 1 << 20)


def _read_communicators(
    header: Header, n: int, lines: Iterator[bytes], wrong: Callable[[str, int], SourceError]
) -> None:
    """Read the lines of communicators, at least as many as the header states, and the comments and empty lines around
    them; inter-communicators are skipped."""
    found, line = 0, b""
    for line in lines:
        is_comment = line.startswith(b"#") or not line.strip()
        if line.startswith(MAGIC) or not (is_comment or line[:1] in b"cCiI"):
            break
        header.size += len(line)
        header.n_lines += 1
        header.is_cut |= is_comment and CUTTER in line
        found += not is_comment
        if line[:1] in b"cC":
            _add_communicator(header, line, wrong)
        line = b""
    if found < n:
        raise wrong(f"expected communicator {found + 1} of {n}, found {line[:40]!r}", header.n_lines + 1)


def _add_communicator(header: Header, line: bytes, wrong: Callable[[str, int], SourceError]) -> None:
    """Add the communicator that the last line defines."""
    fields = line.decode("latin-1").strip().split(":")
    if len(fields) < 4 or not all(_NUMBER.fullmatch(f) for f in fields[1:]):
        raise wrong(f"expected a communicator, found {line[:40]!r}", header.n_lines)
    identifier, size, *members = (int(f) for f in fields[2:])
    if size != len(members) or not all(m < 0 or 1 <= m <= len(header.threads) for m in members):
        raise wrong(f"communicator {identifier} of {size} tasks lists others: {line[:40]!r}", header.n_lines)
    if identifier in header.communicators:
        raise wrong(f"communicator {identifier} is defined twice", header.n_lines)
    header.communicators[identifier] = [m - 1 for m in members if m > 0]
    header.n_unknown_members += sum(m < 0 for m in members)


@dataclass
class Names:
    """The names in `.pcf` and `.row`."""

    labels: dict[int, str] = field(default_factory=dict)
    """Labels of event types."""
    values: dict[int, dict[int, str]] = field(default_factory=dict)
    """Labels of the values of event types."""
    states: dict[int, str] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    """Names of CPUs, nodes, threads, ... by level."""
    missing: list[str] = field(default_factory=list)
    """Endings of missing files."""


def _text_beside(path: Path, ending: str) -> list[str] | None:
    """Return the lines of the file of a trace with another ending; None if there is none."""
    stem = path.name.removesuffix(".gz").removesuffix(".prv")
    beside = path.with_name(stem + ending)
    try:
        return [text_of(line) for line in read_bytes(beside).splitlines()]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(beside, error) from error


def read_names(path: Path) -> Names:
    """Read the names that belong to a trace. Raises SourceError if there is a file that cannot be read."""
    names = Names()
    for ending, read in ((".pcf", _read_types), (".row", _read_rows)):
        lines = _text_beside(path, ending)
        if lines is None:
            names.missing.append(ending)
        else:
            read(names, lines)
    return names


_TYPE = re.compile(r"\s*-?\d+\s+(\d{1,18})\s+(.*?)\s*")
_VALUE = re.compile(r"\s*(\d{1,20})\s+(.*?)\s*")


def _read_types(names: Names, lines: list[str]) -> None:
    """Read `.pcf`: values belong to all the types listed before them."""
    section, types = "", list[int]()
    for line in lines:
        word = line.strip()
        if word in ("EVENT_TYPE", "VALUES", "STATES", "STATES_COLOR", "GRADIENT_COLOR", "GRADIENT_NAMES"):
            section = word
            types = [] if word == "EVENT_TYPE" else types
        elif section == "EVENT_TYPE" and (found := _TYPE.fullmatch(line)):
            names.labels[int(found[1])] = found[2]
            types.append(int(found[1]))
        elif section in ("VALUES", "STATES") and (found := _VALUE.fullmatch(line)):
            for table in [names.states] if section == "STATES" else [names.values.setdefault(t, {}) for t in types]:
                table[int(found[1])] = found[2]
        elif word and section not in ("EVENT_TYPE", "VALUES", "STATES"):
            section = ""


_LEVEL = re.compile(r"LEVEL (\w+) SIZE \d+")


def _read_rows(names: Names, lines: list[str]) -> None:
    level: list[str] = []
    for line in lines:
        found = _LEVEL.fullmatch(line.strip())
        if found:
            level = names.rows.setdefault(found[1], [])
        elif line.strip():
            level.append(line.strip())
