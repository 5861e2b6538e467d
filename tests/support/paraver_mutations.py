"""Damage Paraver traces at random: single bytes, fields and lines of the text, or the files next to it."""

from __future__ import annotations

import random
import re
from pathlib import Path

from support import damage
from support.damage import mutate

NUMBERS = ("0", "-1", "1", "2", "99", "50000001", "60000018", "9223372036854775807", "18446744073709551615", "1" * 30, "")  # fmt: skip


def mutate_text(data: bytes, chance: random.Random) -> bytes:
    """Change some lines or fields of a text."""
    lines = data.splitlines(keepends=True)
    for _ in range(chance.randrange(1, 4)):
        i = chance.randrange(len(lines))
        what = chance.randrange(8)
        if what == 0:
            del lines[i]
        elif what == 1:
            lines.insert(chance.randrange(len(lines) + 1), lines[i])
        elif what == 2:
            j = chance.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif what == 3:
            lines[i] = lines[i].rstrip(b"\n") + b":7:8\n"
        elif what == 4:
            # a time, thread or value of another line
            mine, others = (lines[k].rstrip(b"\n").split(b":") for k in (i, chance.randrange(len(lines))))
            at = chance.randrange(min(len(mine), len(others)))
            lines[i] = b":".join([*mine[:at], others[at], *mine[at + 1 :]]) + b"\n"
        elif what == 5 and (numbers := [*re.finditer(rb"\d+", lines[i])]):
            # any number, also within a field, as those of threads in the header
            start, stop = chance.choice(numbers).span()
            number = chance.choice([*NUMBERS, lines[i][start:stop].decode() * 5]).encode()
            lines[i] = lines[i][:start] + number + lines[i][stop:]
        else:
            fields = lines[i].rstrip(b"\n").split(b":")
            fields[chance.randrange(len(fields))] = chance.choice(NUMBERS).encode()
            lines[i] = b":".join(fields) + b"\n"
        lines = lines or [b"\n"]
    return b"".join(lines)


class Damage(damage.Damage):
    """A trace that is damaged."""

    def __init__(self, anchor: Path) -> None:
        stem = anchor.name.removesuffix(".gz").removesuffix(".prv")
        beside = (anchor.with_name(stem + ending) for ending in (".pcf", ".row"))
        super().__init__(anchor, (p for p in (anchor, *beside) if p.exists()))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""
        path = self.anchor if chance.random() < 0.9 else chance.choice([*self.files])
        is_text = not path.name.endswith(".gz") and chance.random() < 0.7
        return path, (mutate_text if is_text else mutate)(self.files[path], chance)
