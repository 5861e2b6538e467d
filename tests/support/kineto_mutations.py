"""Damage Kineto traces at random: bytes of the files, and values of their events."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import tracecols
from support.otf2_mutations import mutate
from tracecols.errors import TracecolsError

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


class Damage:
    """A trace whose files are damaged in turn.

    Parameters
    ----------
    folder : Path
        A file of each rank.
    """

    def __init__(self, folder: Path) -> None:
        self.anchor = folder
        self.files = {p: p.read_bytes() for p in sorted(folder.iterdir())}
        self.seen: Counter[str] = Counter()

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and what it is to hold."""
        path = chance.choice([*self.files])
        data = self.files[path]
        if chance.random() < 0.6:
            packed = path.name.endswith(".gz")
            text = mutate_values((gzip.decompress(data) if packed else data).decode(), chance).encode()
            return path, gzip.compress(text) if packed else text
        return path, mutate(data, chance)

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
