"""A cause of lost time, as a search finds it and as a cube keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tracecols.findings.scenarios import Change, Scenarios
from tracecols.severity.causes import PREFERRED
from tracecols.vectors import Ints

KINDS = {
    "computation": (
        "computation of single locations takes longer than that of their peers, or than what others do meanwhile"
    ),
    "imbalance": "computation is distributed unevenly over several locations",
    "changing": "computation is distributed unevenly, each time in another way",
    "serial": "masters compute alone while their threads idle",
    "single": "one thread at a time executes what is in a single construct while the others wait",
    "turns": "processes compute one after the other while the others wait",
    "slow": "a process or a thread takes longer than its peers in most of what it computes",
    "regions": "parallel regions and barriers of OpenMP take longer than what they do",
    "messages": "messages take long beyond waiting",
    "collectives": "collective operations take long beyond waiting",
    "calls": "calls of one-sided communication or of files take long",
    "transfers": "kernels that communicate take long beyond waiting, and others wait for them",
    "copies": "copies between hosts and devices take long",
    "threads": "creating and joining threads takes long",
    "tasks": "creating tasks takes long",
    "grain": "few explicit tasks take far longer than the others",
    "lock": "threads wait for each other at a lock",
    "locking": "taking and releasing locks, or atomic operations, take long beyond waiting",
    "barrier": "processes wait at barriers for each other, each time for another one",
    "overlap": "non-blocking communication is completed before there is something to overlap it with",
    "pipeline": "processes wait for messages of each other in turn",
    "producer": "threads wait for one that gives them work",
    "straggler": "a process begins operations of kernels last, because of its host or of kernels before",
    "idle": "devices have nothing to do because of what hosts do before they launch something",
    "order": "messages are received in another order than they are sent",
    "measurement": "recording short functions takes a part of the time that is measured",
}
"""Descriptions of the kinds of causes."""

CLEARLY = 1.2
"""Factor by which a location must take longer than others to be named as the one that takes longest."""

PHASES = "phases"
"""Key in the evidence of a cause in steps with running numbers: the name of their family."""

STEPS = 3
"""Number of steps of a family from which on they are tried as one."""

NOBODY = np.zeros(0, np.int64)
"""Locations of a cause that all cause alike."""

Spans = tuple[tuple[int, int], ...]


class Explained(NamedTuple):
    """Time other than computation, by call path (-1 for idle threads) and location; (n,) int64 each."""

    call_path: Ints
    location: Ints
    ticks: Ints
    in_calls: Ints
    """`ticks` and `in_calls`: all of it, and the part that calls take beyond waiting."""


@dataclass(eq=False)
class Cause:
    """One cause of lost time."""

    kind: str
    """One of `KINDS`."""
    call_path: int
    """Where it is."""
    locations: Ints
    """(n,): the locations that cause it, the worst first; `NOBODY` if all do alike."""
    change: Change
    """The change that mends it."""
    gain: int = 0
    """Ticks by which that shortens the run; 0 before it is tried."""
    is_process: bool = False
    """Whether all threads of a process cause it together."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """Quantities that prove it: numbers and lists of numbers by name."""
    explained: Explained | None = None
    """The time that ends with it; None before it is searched for."""
    spans: Spans = ()
    """The call paths whose computation it is, as spans (begin, end) without the end."""
    partners: tuple[int, ...] = ()
    """Call paths of other functions that take part in it: the other sides of messages, or other callers."""
    spent: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,): rows of the computation that it consists of, where this is time in run-time systems, such as in calls that
    take locks."""
    frees: Change | None = None
    """The change that shows which waits it explains, if that is not the one that mends it."""

    def facts(self) -> dict[str, Any]:
        """Return the cause as plain values, for the facts of a cube."""
        assert self.explained is not None
        *explains, in_calls = (part.tolist() for part in self.explained)
        return {
            "kind": self.kind,
            "call_path": int(self.call_path),
            "locations": self.locations.tolist(),
            "is_process": bool(self.is_process),
            "gain": int(self.gain),
            "evidence": self.evidence,
            "explains": explains,
            "in_calls": in_calls,
        }


def tried(scenarios: Scenarios, causes: Sequence[Cause], mended: Sequence[Change] = ()) -> list[Cause]:
    """Return the causes that gain something if they are mended, perhaps after other changes."""
    for cause, gain in zip(causes, scenarios.gains([c.change for c in causes], mended), strict=True):
        cause.gain = gain
    return steps_or_families(scenarios, [c for c in causes if c.gain > 0])


def steps_or_families(scenarios: Scenarios, causes: Sequence[Cause]) -> list[Cause]:
    """Return causes without those of single steps with running numbers where the family of them gains clearly more,
    and without the families where a single step gains nearly as much."""
    of = scenarios.merged.counts_as[scenarios.call_paths.region]
    result = list(causes)
    for family in (c for c in causes if PHASES in c.evidence):
        steps = [
            c for c in result if c.kind == family.kind and c is not family and of[c.call_path] == of[family.call_path]
        ]
        gone = steps if family.gain > PREFERRED * max((c.gain for c in steps), default=0) else [family]
        result = [c for c in result if c not in gone]
    return result
