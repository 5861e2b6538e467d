"""Damage the files of a trace in turn, use it, and repair them."""

from __future__ import annotations

import gzip
import random
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import tracecols
from tracecols.converters.base import Report
from tracecols.converters.registry import open_source
from tracecols.errors import AnalysisError, TracecolsError

BYTES = (0, 1, 2, 3, 5, 6, 10, 12, 31, 83, 0x7F, 0x80, 0xFE, 0xFF)


def mutate_whole(data: bytes, chance: random.Random) -> bytes:
    """Damage the content of a file as a whole, as editors, copies that break off, and file systems do."""
    first, second = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"",
        lambda: data + data,
        lambda: data[:second] + data[first:],
        lambda: data[:first] + data[second:] + data[first:second],
        lambda: data[:first] + bytes(len(data[first : first + 4096])) + data[first + 4096 :],
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.decode("latin-1").encode("utf-16"),
        lambda: b"\n" + data,
        lambda: gzip.compress(data),
    )
    return chance.choice(ways)()


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Damage the content of a file in one of many ways."""
    result = bytearray(data)
    n = max(len(result), 1)
    at = chance.randrange(n)
    match chance.randrange(10):
        case 0:
            result[at : at + 1] = bytes([data[at] ^ 1 << chance.randrange(8)] if data else b"")
        case 1:
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(n)
                result[at : at + 1] = bytes([chance.choice(BYTES)])
        case 2:
            del result[at:]
        case 3:
            del result[at : at + chance.randrange(1, 30)]
        case 4:
            result[at:at] = result[at : at + chance.randrange(1, 200)]
        case 5:
            result[at : at + chance.randrange(10)] = chance.randbytes(chance.randrange(1, 20))
        case 6:
            # a huge length or count, uncompressed
            result[at : at + chance.choice((1, 9))] = (
                b"\xff" + chance.randbytes(7) + bytes([chance.choice((0, 0x7F, 0xFF))])
            )
        case 7:
            # a large compressed number
            size = chance.choice((1, 2, 4, 8))
            result[at : at + size + 1] = bytes([size]) + bytes([chance.choice((0x7F, 0x80, 0xFF))]) * size
        case 8:
            return mutate_whole(data, chance)
        case _:
            result += chance.randbytes(chance.choice((1, 2, 17, 300)))
    return bytes(result)


class Damage(ABC):
    """A trace whose files are damaged in turn.

    Parameters
    ----------
    anchor : Path
        The trace.
    files : iterable of Path
        Its files.

    Attributes
    ----------
    files : dict of Path to bytes
        Content of the files.
    seen : Counter of str
        Numbers of damaged traces that were read, analysed and refused, the latter also by message.
    """

    def __init__(self, anchor: Path, files: Iterable[Path]) -> None:
        self.anchor = anchor
        self.files = {p: p.read_bytes() for p in files}
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""

    @contextmanager
    def spoilt(self, seed: int) -> Iterator[None]:
        """Damage a file within the context, and repair it at the end; check that errors inside say what to do."""
        path, data = self.damaged(random.Random(seed))
        path.write_bytes(data)
        try:
            yield
        except TracecolsError as error:
            # it need not be the damaged file: an inconsistency may be detected in another one
            if not isinstance(error, AnalysisError):
                assert str(self.anchor.parent) in str(error), f"seed {seed}: {error} names no file"
            assert "\n  " in str(error), f"seed {seed}: {error} does not say what to do"
            self.seen["refused"] += 1
            words = str(error).splitlines()[0].split(": ")[-1].split(" (")[0]
            self.seen["".join(c for c in words if not c.isdigit())] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, {path}")
            raise
        finally:
            path.write_bytes(self.files[path])

    def read(self, seed: int) -> None:
        """Damage a file, read all events, and repair it."""
        with self.spoilt(seed):
            source, report = open_source(self.anchor), Report()
            for location in range(len(source.definitions["locations"]["id"])):
                for batch in islice(source.read(location, report, salvage=seed % 2 == 0), 10_000):
                    batch.events["time"].sum()
            self.seen["salvaged"] += bool(report.lost)
            self.seen["read"] += 1

    def analyze(self, seed: int, out: Path, conventions: Sequence[str]) -> None:
        """Damage a file, convert and analyse the trace, and repair it; `out` is a working folder, which is empty at the
        end."""
        read = self.seen["read"]
        with self.spoilt(seed):
            store = tracecols.convert(self.anchor, out / "x.trace", jobs=1 + seed // 2 % 2, salvage=seed % 2 == 0)
            self.seen["read"] += 1
            trace = tracecols.open(store, jobs=1)
            self.seen["salvaged"] += bool(trace.manifest["lost"])
            for how in conventions:
                self.seen["contradicting"] += bool(trace.analyze(how).violations())
                self.seen["analyzed"] += 1
        if self.seen["read"] > read:
            shutil.rmtree(out / "x.trace")
        assert [*out.iterdir()] == [], f"seed {seed}: something is left behind"
