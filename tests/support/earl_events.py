"""Compare the events of EARL with those of its oracle."""

import random

from oracles import queues
from oracles.states import States

from tracecols.earl import Event

SMALL, LARGE = 1500, 20_000
"""Traces of up to SMALL events are compared at every position, those of more than LARGE not event by event."""


def rows(events):
    return [e.row for e in events]


def compare(trace, recorded, seed=0):
    """Compare all positions and states of `trace` with the definitions."""
    rng = random.Random(seed)
    events = recorded.events
    n, n_locations = len(events), len(recorded.process)
    assert len(trace) == n
    assert trace.index["row_of"].tolist() == [e.row for e in events]
    chosen = set(range(n)) if n <= SMALL else set(rng.sample(range(n), 150))
    state = States(recorded)
    assert trace.stack(0, 0) == trace.istack(0, 0) == trace.queue(0) == trace.mpicoll(0) == trace.ompcoll(0) == []
    complete = {"mpicoll": [], "ompcoll": []}
    for i, e in enumerate(events):
        state.step(e)
        for name, found in complete.items():
            if getattr(state, name):
                found.append(i)
        if i not in chosen:
            continue
        pos, location, other = i + 1, rng.randrange(n_locations), rng.randrange(n_locations)
        assert rows(trace.stack(pos)) == rows(state.stack(e.location)), e
        assert rows(trace.istack(pos)) == rows(state.istack(e.location)), e
        assert rows(trace.queue(pos)) == rows(state.queue()), e
        assert set(rows(trace.mpicoll(pos))) == set(rows(state.mpicoll)), e
        assert set(rows(trace.ompcoll(pos))) == set(rows(state.ompcoll)), e
        if rng.random() < 0.3:
            assert rows(trace.stack(pos, location)) == rows(state.stack(location)), (e, location)
            assert rows(trace.istack(pos, location)) == rows(state.istack(location)), (e, location)
            source, destination = recorded.process[location], recorded.process[other]
            assert rows(trace.queue(pos, location)) == rows(state.queue(source)), e
            assert rows(trace.queue(pos, dest=other)) == rows(state.queue(None, destination)), e
            assert rows(trace.queue(pos, location, other)) == rows(state.queue(source, destination)), e
    for name, found in complete.items():
        assert trace.index[name].tolist() == found


def compare_links(trace, recorded):
    """Compare the links of all events, and the call tree, with the definitions."""
    state = States(recorded)
    sendptr, lockptr = state.sendptr, queues.lockptr(recorded.events)
    root_of_tasks = set()

    def row(link):
        return link.row if link is not None else None

    for i, e in enumerate(recorded.events):
        state.step(e)
        found = trace.event(i + 1)
        assert (found.row, found.pos, found.ticks, found.loc_id) == (e.row, i + 1, e.time, e.location)
        assert row(found.enterptr) == row(state.enterptr)
        assert row(found.sendptr) == row(sendptr.get(e))
        assert row(found.lockptr) == row(lockptr.get(e))
        assert row(found.forkptr) == row(state.forkptr)
        assert row(found.cnodeptr) == row(state.cnodeptr)
        if e.kind == "enter" and state.in_task(e.location) and state.cedgeptr is None:
            # EARL has no tasks: their call paths are below the root of the program, which represents no task
            root_of_tasks.add(row(found.cedgeptr))
        else:
            assert row(found.cedgeptr) == row(state.cedgeptr)
    assert len(root_of_tasks) <= 1
    nodes = list(dict.fromkeys(state.representatives()))
    assert rows(trace.calltree()) == rows(nodes)
    assert [trace.ctvisits(Event(trace, e.row)) for e in nodes] == [state.visits[e] for e in nodes]
    for e in nodes:
        path = trace.callpath(trace.event_of_row(e.row).pos)
        assert path[-1].row == e.row and (len(path) == 1) == (path[0].cedgeptr is None and path[0] == path[-1])
        assert path[-1] in (trace.ctchildren(path[-2]) if len(path) > 1 else trace.ctroots())
