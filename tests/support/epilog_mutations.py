"""Damage EPILOG traces at random: bytes of their files, or whole records."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Sequence
from pathlib import Path

from oracles.epilog import CODE, Event, Recording, load, records

from support import damage
from support.epilog_writer import merged, write_archive
from support.random_epilog import random_recording

HEADER = 10
NUMBERS = (0, 1, 2, 7, 255, 256, 65536, 1 << 20, (1 << 24) - 1, 1 << 24, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF)
TIMES = (0.0, -0.0, -1.0, 1e-300, 5e-324, 1e-9, 0.5, 1e9, 4e18, 1e30, 1e300, float("inf"), float("-inf"), float("nan"))
CODES = (*range(32), 60, 61, 62, 99, *range(100, 136), 200, 201, 202, 203, 204, 255)


def recordings() -> list[tuple[str, Recording]]:
    """Return small recordings that together contain all kinds of events."""
    return [
        ("messages", random_recording(3, 3, n_rounds=2, tick=1e-5, mergeable=True)),
        ("hybrid", random_recording(7, 2, 3, n_rounds=3, n_metrics=2, tick=1e-5, mergeable=True, big_endian=True)),
        ("one-sided", random_recording(6, 3, n_rounds=5, tick=1e-6, rma=True, mergeable=True)),
        ("shmem", shmem()),
        ("odd", random_recording(5, 2, 2, n_rounds=4, n_metrics=1, pseudo_regions=True, violations=True)),
    ]


def shmem() -> Recording:
    """Return a recording of SHMEM: one-sided communication without windows, and a collective operation."""
    r = random_recording(4, 2, n_rounds=1, mergeable=True)
    end = max(e.time for e in r.events)
    for k, (name, fields) in enumerate(
        (
            ("ENTER", {"region": 0}),
            ("PUT_1TS", {"dest": 1, "rma": 1, "length": 8}),
            ("PUT_1TE", {"src": 1, "rma": 1}),
            ("GET_1TS", {"dest": 1, "rma": 2, "length": 8}),
            ("GET_1TE", {"src": 1, "rma": 2}),
            ("ALOCK", {"lock": 3}),
            ("RLOCK", {"lock": 3}),
            ("COLLEXIT", {"root": 1, "comm": 0, "sent": 4, "received": 4}),
        )
    ):
        r.events.append(Event(0, CODE[name], 0, end + 0.001 * k, fields))
    return r


def write_all(folder: Path) -> list[Path]:
    """Write the recordings as merged traces, one of them compressed, and as archives; return their paths."""
    anchors = []
    for i, (name, r) in enumerate(recordings()):
        w = merged(r)
        for at in range(0, len(w.events), 9):
            # attributes before some events: the format allows them, although merging drops them
            w.events[at:at] = [w.record(61, bytes([2]) + w.u4(at)), w.record(60, bytes([1, 7]))]
        ending = ".elg.gz" if name == "messages" else ".elg"
        anchors.append(w.write(folder / name / f"trace{ending}", compress=ending.endswith("gz")))
        if name != "odd":
            offsets = {0: [(0.0, 0.0), (1.0, 0.0)], 1: [(0.0, 1e-3), (1.0, 2e-3)]} if i % 2 else None
            path = folder / f"{name} archive"
            write_archive(
                r,
                path,
                i,
                sparse=i % 2 == 0,
                compress=i % 2 == 1,
                offsets=offsets,
                base=1.0,
                requests=True,
                with_locations=name == "messages",
                definitions_in_files=name == "one-sided",
                last_def=name == "hybrid",
            )
            anchors.append(path / "epik.esd")
    return anchors


def join(head: bytes, parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Join the head and the records of a file."""
    return head + b"".join(bytes([len(body), code]) + body for code, body in parts)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Damage the content of a file in one of many ways: single bytes, or whole records."""
    order = ">" if data[9:10] == b"\2" else "<"
    how = chance.randrange(16)
    if how < 6:
        return damage.mutate(data, chance)
    head, parts = data[:HEADER], list(records(data))
    if not parts:
        return head[:-1]
    # prefer definitions: there are fewer of them than events, and more can be wrong in them
    definitions = [i for i, (code, _) in enumerate(parts) if code < 60]
    i = chance.choice(definitions) if definitions and chance.random() < 0.5 else chance.randrange(len(parts))
    code, body = parts[i]
    match how:
        case 6:
            del parts[i : i + chance.choice((1, 1, 1, 2, 20))]
        case 7:
            parts[i:i] = parts[i : i + chance.choice((1, 1, 2, 20))]
        case 8:
            j = chance.choice(definitions) if definitions else chance.randrange(len(parts))
            parts[i], parts[j] = parts[j], parts[i]
        case 9:
            parts[i] = chance.choice(CODES), body
        case 10:
            cut = chance.randrange(256)
            parts[i] = code, (body + bytes(256))[:cut]
        case 11:
            # an invalid time, or a time in place of another field
            size = struct.calcsize("d")
            for _ in range(chance.choice((1, 1, 3))):
                if len(body) >= size:
                    at = chance.choice((0, 4)) if len(body) >= size + 4 else 0
                    body = body[:at] + struct.pack(order + "d", chance.choice(TIMES)) + body[at + size :]
            parts[i] = code, body
        case 12:
            j = chance.randrange(len(parts))
            parts.insert(j, parts.pop(i))
        case _:
            # another number at a place where one may be: identifiers, partners, counts
            for _ in range(chance.choice((1, 1, 2, 4))):
                starts = [k for k in (0, 4, 5, 8, 9, 12, 16, 20, 24, 28) if k + 4 <= len(body)]
                if starts:
                    at = chance.choice(starts)
                    value = chance.choice(NUMBERS) if chance.random() < 0.5 else chance.randrange(12)
                    body = body[:at] + struct.pack(order + "I", value) + body[at + 4 :]
            parts[i] = code, body
    return join(head, parts)


class Damage(damage.Damage):
    """A trace that is damaged."""

    def __init__(self, anchor: Path) -> None:
        # an archive also has the files of its processes
        is_archive = anchor.suffix == ".esd"
        others = [anchor.with_suffix(".map"), *sorted((anchor.parent / "ELG").iterdir())] if is_archive else []
        super().__init__(anchor, (anchor, *others))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""
        path = chance.choice([*self.files])
        data = self.files[path]
        if data[:2] != b"\x1f\x8b":
            return path, mutate(data, chance)
        if chance.random() < 0.8:
            return path, gzip.compress(mutate(load(data), chance), mtime=0)
        # damage the compressed bytes, which have no records
        return path, data[:2] + damage.mutate(data[2:], chance)
