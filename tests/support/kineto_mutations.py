"""Damage Kineto traces at random: bytes of the files, and values of their events."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from support import damage
from support.damage import mutate

VALUES = (
    0, -1, 1, 2, 7, 20, 1.5, 1e30, -1e30, 9223372036854775807, 18446744073709551615, 10**30, "", "1", "X", "kernel", "cpu_op", None,
    True, [], {}, [[0]], [0, 0], "[0, 1]", "[0, 1, ...]", "nccl:all_reduce", "ProfilerStep#1", [[[[[[]]]]]],
)  # fmt: skip


def mutate_values(text: str, chance: random.Random) -> str:
    """Change some values of a trace, or remove, repeat or nest some events."""
    trace = json.loads(text)
    for _ in range(chance.randrange(1, 6)):
        events = trace.get("traceEvents")
        if not isinstance(events, list) or not events or chance.random() < 0.1:
            trace[chance.choice([*trace, "baseTimeNanoseconds"])] = chance.choice(VALUES)
            continue
        event = events[chance.randrange(len(events))]
        what = chance.randrange(8)
        if what == 0:
            events.remove(event)
        elif what == 1:
            events.append(event)
        elif isinstance(event, dict) and event:
            inner = event.get("args")
            where = inner if isinstance(inner, dict) and inner and what < 4 else event
            where[chance.choice([*where])] = chance.choice(VALUES)
        else:
            events[0] = chance.choice(VALUES)
    return json.dumps(trace)


class Damage(damage.Damage):
    """A trace that is damaged.

    Parameters
    ----------
    folder : Path
        Folder with a file for each rank.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sorted(folder.iterdir()))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""
        path = chance.choice([*self.files])
        data = self.files[path]
        if chance.random() < 0.6:
            packed = path.name.endswith(".gz")
            text = mutate_values((gzip.decompress(data) if packed else data).decode(), chance).encode()
            return path, gzip.compress(text) if packed else text
        return path, mutate(data, chance)
