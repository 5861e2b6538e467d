"""Threads that the program creates one by one: the calls that create them and wait for them, and their lifetimes.

Scope: within a process. Equality joins on (contingent, number of the thread in it) over the events of all windows of
the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import combine, join_occurrences
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import RECEIVE, WITHIN, step
from tracecols.enhance.definitions.order import BATCH
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CALL, CallInstances
from tracecols.kernels.actions import PUSH, action_table
from tracecols.schema import EventKind as K
from tracecols.schema.compound import CREATED_THREADS
from tracecols.store import Store
from tracecols.vectors import Ints, Mask

FEW = 16
"""Number of events within which a new thread usually enters its first region."""

ACTION = action_table(PUSH)

KINDS = (K.THREAD_CREATE, K.THREAD_BEGIN, K.THREAD_WAIT, K.THREAD_END)


@step(WITHIN, "thread_lives")
def list_thread_lives(facts: Facts, members: Ints, call_instances: CallInstances, spill: Spill) -> ColumnSource:
    """List the events at which threads are created, begin, end and are waited for, and the calls around them."""
    store = facts.store
    found: dict[str, list[Ints]] = {
        name: [np.zeros(0, np.int64)]
        for name in ("row", "kind", "team", "sequence", "location", "time", "enter_time", "call")
    }
    recorded = any(str(int(kind)) in store.manifest["events_by_kind"] for kind in KINDS)
    for i in members.tolist() if recorded else []:
        if not store.n_rows("threads", i):
            continue
        side = store.read("threads", i, ["row", "kind", "team", "sequence"])
        mine = np.isin(side["kind"], KINDS)
        row = side["row"][mine]
        if not row.size:
            continue
        for name, values in side.items():
            found[name].append(values[mine].astype(np.int64))
        found["location"].append(np.full(row.size, i, np.int64))
        number = row - facts.first_rows[i]
        time = times_of(store, i, number)
        found["time"].append(time)
        found["enter_time"].append(_enter_times(store, i, number, side["kind"][mine], time))
        found["call"].append(enclosing_calls(call_instances, i, row))
    lives = {name: np.concatenate(values) for name, values in found.items()}
    calls = call_instances.columns_of("call", lives.pop("call"))
    return spill.keep(Columns(lives["row"].size, lives | calls))


@step(RECEIVE, "created_threads")
def match_created_threads(facts: Facts, members: Ints, own_thread_lives: Sequence[ColumnSource]) -> CompoundTable:
    """Build the table of created threads; a thread may live longer than a window of its process."""
    e = joined_columns(own_thread_lives)
    # in the order of the locations and their events
    place = np.zeros(facts.n_locations, np.int64)
    place[members] = np.arange(members.size)
    e = e.take(np.lexsort((e.row, place[e.location])))
    row, kind, team, location, time = e.row, e.kind, e.team, e.location, e.time
    process = facts.process[location].astype(np.int64)
    # threads of an undefined contingent cannot be distinguished from others
    key = combine(process, team, e.sequence)
    known = team >= 0
    create, begin, wait, end = (np.flatnonzero((kind == k) & known) for k in KINDS)

    def of_begin(events: Ints) -> Ints:
        """Return the event that belongs to the begin of each thread; -1 none."""
        return pick(events, join_occurrences(key[events], key[begin]))

    created, waited, ended = of_begin(create), of_begin(wait), of_begin(end)

    def calls(role: str, events: Ints) -> dict[str, NDArray[Any]]:
        return {f"{role}_{name}": pick(e[f"call_{name}"], events) for name in CALL}

    return CompoundTable(
        CREATED_THREADS,
        begin.size,
        {
            "location": location[begin].astype(np.int32),
            "begin": row[begin],
            "begin_time": time[begin],
            "enter_time": e.enter_time[begin],
            "end": pick(row, ended),
            "end_time": pick(time, ended),
            "create": pick(row, created),
            "create_location": pick(location, created).astype(np.int32),
            **calls("create", created),
            "join": pick(row, waited),
            "join_location": pick(location, waited).astype(np.int32),
            **calls("join", waited),
        },
        {
            "created threads that never begin": int(create.size - (created >= 0).sum()),
            "threads whose creation is not recorded": int((created < 0).sum()),
        },
    )


def times_of(store: Store, location: int, number: Ints) -> Ints:
    """Return the times of some events of a location, given their numbers in ascending order; 8 B per event between the
    first and the last."""
    result = np.empty(number.size, np.int64)
    low = 0
    while low < number.size:
        start = int(number[low])
        high = int(np.searchsorted(number, start + BATCH))
        stop = int(number[high - 1]) + 1
        result[low:high] = store.read("events", location, ["time"], start, stop)["time"][number[low:high] - start]
        low = high
    return result


def _enter_times(store: Store, location: int, number: Ints, kind: NDArray[np.uint8], time: Ints) -> Ints:
    """Return the times at which the threads of a location enter their first regions, in ticks.

    `number`, `kind` and `time` describe the events of created threads on the location, in order. Threads that enter no
    region, and other events, keep their time.
    """
    result = time.copy()
    stops = np.append(number[1:], store.n_events[location])
    # a thread occupies its location until the next one begins there
    is_begin = kind == K.THREAD_BEGIN
    of_thread = np.flatnonzero(is_begin | (kind == K.THREAD_END))
    stops[of_thread] = np.append(number[of_thread[1:]], store.n_events[location])
    for k in np.flatnonzero(is_begin).tolist():
        start, stop = int(number[k]) + 1, int(stops[k])
        size = FEW
        while start < stop:
            columns = store.read("events", location, ["kind", "time"], start, min(start + size, stop))
            enters = np.flatnonzero(ACTION[columns["kind"]] == PUSH)
            if enters.size:
                result[k] = columns["time"][enters[0]]
                break
            start, size = start + size, BATCH
    return result


def enclosing_calls(calls: CallInstances, location: int, row: Ints, chosen: Mask | None = None) -> Ints:
    """Find the last chosen call instance entered before each event of a location, if the event lies in it; -1 none."""
    own = np.arange(calls.start[location], calls.start[location + 1])
    if chosen is not None:
        own = own[chosen[own]]
    own = own[np.argsort(calls.enter[own])]
    at = np.searchsorted(calls.enter[own], row) - 1
    number = pick(own, at)
    leave = pick(calls.exit, number)
    return np.where((number >= 0) & ((leave < 0) | (row < leave)), number, -1)
