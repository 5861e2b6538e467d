"""Damage an archive at random, and see that reading it ends well or with an error of ours.

Also a program, to be run with the kernels' bounds checked: ``python otf2_mutations.py ANCHOR FIRST_SEED COUNT``.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from tracecols.conversion import convert
from tracecols.converters.base import Report
from tracecols.converters.otf2 import archive, decode
from tracecols.converters.otf2.files import Chunks
from tracecols.converters.registry import open_source
from tracecols.errors import TracecolsError

BYTES = (0, 1, 2, 3, 5, 6, 10, 12, 31, 83, 0x7F, 0x80, 0xFE, 0xFF)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Damage the content of a file in one of many ways."""
    result = bytearray(data)
    n = max(len(result), 1)
    at = chance.randrange(n)
    match chance.randrange(9):
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
            # a huge length or count, written in full
            result[at : at + chance.choice((1, 9))] = (
                b"\xff" + chance.randbytes(7) + bytes([chance.choice((0, 0x7F, 0xFF))])
            )
        case 7:
            # a large compressed number
            size = chance.choice((1, 2, 4, 8))
            result[at : at + size + 1] = bytes([size]) + bytes([chance.choice((0x7F, 0x80, 0xFF))]) * size
        case _:
            result += chance.randbytes(chance.choice((1, 2, 17, 300)))
    return bytes(result)


class Damage:
    """An archive whose files are damaged in turn."""

    def __init__(self, anchor: Path) -> None:
        self.anchor = anchor
        files = [anchor, anchor.with_suffix(".def"), *sorted(anchor.with_suffix("").iterdir())]
        self.files = {path: path.read_bytes() for path in files if path.stat().st_size > 20}
        self.seen: Counter[str] = Counter()

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and what it is to hold."""
        kind = chance.choice((".otf2", ".def", ".evt", ".evt", ".evt"))
        path = chance.choice([p for p in self.files if p.suffix == kind])
        return path, mutate(self.files[path], chance)

    def one(self, seed: int, *, store: Path | None = None) -> None:
        """Damage one file, read everything, and repair it; with `store` all the way to a store."""
        path, data = self.damaged(random.Random(seed))
        path.write_bytes(data)
        try:
            if store is not None:
                convert(self.anchor, store, jobs=1 + seed % 2, salvage=seed % 4 < 2)
            else:
                source = open_source(self.anchor)
                report = Report()
                for location in range(len(source.definitions["locations"]["id"])):
                    for batch in source.read(location, report, salvage=seed % 2 == 0):
                        batch.events["time"].sum()
                self.seen["salvaged"] += bool(report.lost)
            self.seen["read"] += 1
        except TracecolsError as error:
            # it need not be the damaged file: what does not fit together may be found in another
            assert str(self.anchor.parent) in str(error), f"{error} names no file"
            assert "\n  " in str(error)
            self.seen["refused"] += 1
            self.seen[str(error).splitlines()[0].split(": ")[-1].split(" (")[0].rstrip("0123456789")] += 1
        except Exception as error:
            error.add_note(f"seed {seed}, {path.name}")
            raise
        finally:
            path.write_bytes(self.files[path])


def tighten() -> None:
    """Let buffers be as small as can be, so that checks of bounds find an index that leaves its array."""
    archive.ROWS = 128
    archive.Chunks = lambda path, size, _, *more: Chunks(path, size, None, *more)  # type: ignore[misc,assignment]
    try:
        decode.load(np.zeros(4, np.uint8), 4, 1, False)
    except IndexError:
        return
    raise SystemExit("bounds are not checked; set NUMBA_BOUNDSCHECK=1 and a fresh NUMBA_CACHE_DIR")


if __name__ == "__main__":
    tighten()
    damage = Damage(Path(sys.argv[1]))
    for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        damage.one(number)
    print(damage.seen["read"], damage.seen["refused"])
