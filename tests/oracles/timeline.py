"""The slices of a location by definition: at any time, the drawn slices are the open region instances of the
thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from oracles.events import Event

TASKS = "TASKS"
IMPLICIT = (0, 0)

Slice = tuple[int, int, int, str]


def slices(events: Sequence[Event]) -> list[Slice]:
    """Return (begin, end, depth, name) of all slices of one location, in the order in which they end.

    Visible are the stack of the implicit task and, while an explicit task runs, TASKS and the stack of that task. A
    slice lasts as long as its item is visible.
    """
    stack: dict[tuple[int, int], list[tuple[Event, str]]] = defaultdict(list)
    task = IMPLICIT
    # number of switches so far: a task has new slices each time it continues
    turn = 0
    now = events[0].time if events else 0
    seen: list[tuple[object, str, int]] = []
    result: list[Slice] = []

    def look(at: int) -> None:
        wanted: list[tuple[object, str]] = [*stack[IMPLICIT]]
        if task != IMPLICIT:
            wanted += [(("task", turn), TASKS), *(((e, turn), name) for e, name in stack[task])]
        same = 0
        while same < min(len(seen), len(wanted)) and seen[same][:2] == wanted[same]:
            same += 1
        while len(seen) > same:
            _, name, begin = seen.pop()
            result.append((begin, at, len(seen), name))
        seen.extend((*w, at) for w in wanted[same:])

    for e in events:
        if e.kind in ("enter", "exit", "flush", "switch", "complete"):
            now = max(now, e.time)
        if e.kind == "enter":
            stack[task].append((e, e.region))
        elif e.kind == "exit" and stack[task]:
            stack[task].pop()
        elif e.kind == "flush":
            stack[task].append((e, e.region))
            look(now)
            now = max(now, e.stop)
            stack[task].pop()
        elif e.kind in ("switch", "complete"):
            before = task
            task = IMPLICIT if e.kind == "complete" or e.task[1] == 0 else e.task
            turn += task != before
        look(now)
    stack.clear()
    task = IMPLICIT
    if events:
        look(max(now, events[-1].time))
    return result


def within(found: Sequence[Slice], first: int, stop: int) -> list[Slice]:
    """Clip slices to a time range; slices without length in it are omitted."""
    cut = [(max(begin, first), min(end, stop), depth, name) for begin, end, depth, name in found]
    return [s for s in cut if s[0] < s[1]]
