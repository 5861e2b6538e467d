"""Queues of messages, collective operations, constructs and locks (thesis 3.7 to 3.9, 3.11, 3.13, 3.15, 3.16, 3.19)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from oracles.events import Event


def posted_by(events: Sequence[Event]) -> dict[Event, Event]:
    """Find the event that posted each receive, which determines its place in the order of matching.

    It is the probe that found the message, else the last IRECV_REQUEST with its request, else the receive itself.
    """
    request: dict[tuple[int, int], Event] = {}
    found: dict[tuple[int, int], Event] = {}
    probe_of: dict[Event, Event] = {}
    result: dict[Event, Event] = {}
    for e in events:
        if e.kind == "probe":
            found[e.process, e.message] = e
        elif e.kind == "post":
            request[e.process, e.request] = e
            if e.message >= 0:
                probe_of[e] = found[e.process, e.message]
        elif e.kind == "recv":
            post = request.pop((e.process, e.request)) if e.request >= 0 else e
            result[e] = found[e.process, e.message] if e.message >= 0 else probe_of.get(post, post)
    return result


def cancelled(events: Sequence[Event]) -> set[Event]:
    """Return the sends and posted receives whose request was cancelled."""
    started: dict[tuple[int, int], Event] = {}
    result = set()
    for e in events:
        if e.kind in ("send", "post") and e.request >= 0:
            started[e.process, e.request] = e
        elif e.kind == "cancel":
            result.add(started[e.process, e.request])
    return result


def sendptr(events: Sequence[Event]) -> dict[Event, Event]:
    """Match receives with sends: each takes the oldest SEND underway with its envelope (3.7, 3.11).

    Receives are matched in the order in which they were posted. A receive posted before its message was sent waits for
    it.
    """
    posted = posted_by(events)
    receive = {post: recv for recv, post in posted.items()}
    never = cancelled(events)
    underway: dict[tuple[int, ...], list[Event]] = defaultdict(list)
    waiting: dict[tuple[int, ...], list[Event]] = defaultdict(list)
    result: dict[Event, Event] = {}
    for e in events:
        if e.kind == "send" and e not in never:
            key = (e.process, e.peer, e.communicator, e.tag)
            if waiting[key]:
                result[waiting[key].pop(0)] = e
            else:
                underway[key].append(e)
        elif e in receive:
            # the event that has the envelope: the receive, or the probe
            envelope = e if e.kind == "probe" else receive[e]
            key = (envelope.peer, e.process, envelope.communicator, envelope.tag)
            if underway[key]:
                result[receive[e]] = underway[key].pop(0)
            else:
                waiting[key].append(receive[e])
    return result


def mpicoll(events: Sequence[Event], group: Mapping[int, Sequence[int]]) -> tuple[list[frozenset[Event]], list[Event]]:
    """Collect instances of collective operations: complete as soon as every process of the group has ended one (3.8,
    3.9).

    Returns the instances in the order in which they complete, and the events left in the queues. An empty group means
    that every process has its own communicator.
    """
    queue: dict[tuple[int, int], list[Event]] = defaultdict(list)
    complete = []
    for e in events:
        if e.kind != "collective":
            continue
        members = group[e.communicator] or [e.process]
        mine = queue[e.communicator, -1 if group[e.communicator] else e.process]
        mine.append(e)
        first = {p: next((x for x in mine if x.process == p), None) for p in members}
        if all(x is not None for x in first.values()):
            instance = frozenset(x for x in first.values() if x is not None)
            complete.append(instance)
            mine[:] = [x for x in mine if x not in instance]
    return complete, [e for left in queue.values() for e in left]


def ompcoll(
    events: Sequence[Event], team_of: Mapping[Event, tuple[int, int]], threads: Mapping[tuple[int, int], Sequence[int]]
) -> list[frozenset[Event]]:
    """Collect instances of constructs: complete as soon as every thread of the team has left one (3.13, 3.19).

    `team_of` maps the EXITs of constructs to their team instances.
    """
    queue: dict[tuple[int, int], list[Event]] = defaultdict(list)
    complete = []
    for e in events:
        if e not in team_of:
            continue
        mine = queue[team_of[e]]
        mine.append(e)
        first = [next((x for x in mine if x.location == t), None) for t in threads[team_of[e]]]
        if all(x is not None for x in first):
            instance = frozenset(x for x in first if x is not None)
            complete.append(instance)
            mine[:] = [x for x in mine if x not in instance]
    return complete


def lockptr(events: Sequence[Event]) -> dict[Event, Event]:
    """Find the previous event that changed the ownership of the same lock of the same process (3.15, 3.16)."""
    owner: dict[tuple[int, int], Event] = {}
    result = {}
    for e in events:
        if e.kind in ("acquire", "release"):
            key = (e.process, e.lock)
            if key in owner:
                result[e] = owner[key]
            owner[key] = e
    return result
