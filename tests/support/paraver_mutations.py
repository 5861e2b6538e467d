"""Damage Paraver traces at random: single bytes, fields and lines of the text, or what stands beside it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import tracecols
from support.otf2_mutations import mutate
from tracecols.errors import TracecolsError

NUMBERS = ("0", "-1", "1", "2", "99", "50000001", "60000018", "9223372036854775807", "18446744073709551615", "1" * 30, "")  # fmt: skip


def mutate_text(data: bytes, chance: random.Random) -> bytes:
    """Change some lines or fields of a text."""
    lines = data.splitlines(keepends=True)
    for _ in range(chance.randrange(1, 4)):
        i = chance.randrange(len(lines))
        what = chance.randrange(6)
        if what == 0:
            del lines[i]
        elif what == 1:
            lines.insert(chance.randrange(len(lines) + 1), lines[i])
        elif what == 2:
            j = chance.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif what == 3:
            lines[i] = lines[i].rstrip(b"\n") + b":7:8\n"
        else:
            fields = lines[i].rstrip(b"\n").split(b":")
            fields[chance.randrange(len(fields))] = chance.choice(NUMBERS).encode()
            lines[i] = b":".join(fields) + b"\n"
        lines = lines or [b"\n"]
    return b"".join(lines)


class Damage:
    """A trace whose files are damaged in turn."""

    def __init__(self, anchor: Path) -> None:
        self.anchor = anchor
        stem = anchor.name.removesuffix(".gz").removesuffix(".prv")
        self.files = {p: p.read_bytes() for p in (anchor, anchor.with_name(stem + ".pcf")) if p.exists()}
        self.seen: Counter[str] = Counter()

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and what it is to hold."""
        path = self.anchor if chance.random() < 0.9 else chance.choice([*self.files])
        is_text = not path.name.endswith(".gz") and chance.random() < 0.7
        return path, (mutate_text if is_text else mutate)(self.files[path], chance)

    def one(self, seed: int, store: Path) -> None:
        """Damage a file, convert and analyze the trace, and repair it."""
        path, data = self.damaged(random.Random(seed))
        path.write_bytes(data)
        try:
            tracecols.convert(self.anchor, store, jobs=1, salvage=seed % 2 == 0, force=True)
            self.seen["read"] += 1
            tracecols.open(store, jobs=1).analyze()
            self.seen["analyzed"] += 1
        except TracecolsError as error:
            assert "\n  " in str(error), f"seed {seed}: {error} does not say what to do"
            self.seen["refused"] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, {path}")
            raise
        finally:
            path.write_bytes(self.files[path])
