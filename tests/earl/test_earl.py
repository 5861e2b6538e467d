"""EARL: positions, links and states are those of the definitions (thesis, chapter 3), at any position."""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, SHARED
from oracles.epilog import read_epilog
from oracles.recorded import Recorded
from oracles.states import States
from support.earl_events import LARGE, SMALL, compare, compare_links, rows
from support.recordings import ALIKE

import tracecols
from tracecols.earl import EventTrace
from tracecols.schema import EventKind as K

HUGE = (
    "bt-mz_S_4x2", "hpcg_2x2", "tealeaf_3x2", "bgq_ctest_epik_hyb_32x64", "flush_4_300it", "mg_S_4", "sweep3d_2x3_50",
)  # fmt: skip
"""Traces of more than LARGE events."""


def anchors():
    """Return all traces by name: those of the repository, and those of the collection beside it."""
    folders = [
        p for root in (DATA, SHARED / "otf2", SHARED / "epilog") if root.is_dir() for p in sorted(root.iterdir())
    ]
    found = {}
    for folder in folders:
        files = [f for f in (folder / "traces.otf2", folder / "epik.elg", folder / "epik.elg.gz") if f.exists()]
        if files:
            found.setdefault(f"{folder.parent.name}-{folder.name}", files[0])
    return found


ANCHORS = anchors()


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Convert a trace once and open it."""
    folder = tmp_path_factory.mktemp("earl")
    return functools.cache(lambda name: EventTrace(tracecols.convert(ANCHORS[name], folder / f"{name}.trace")))


@pytest.fixture(scope="module")
def recorded_of(opened):
    """Convert a trace to plain objects once."""
    return functools.cache(lambda name: Recorded(opened(name).columns))


NAMES = [n for n in ANCHORS if n.partition("-")[2] not in (*HUGE, *ALIKE)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_states__are_those_of_the_definitions(name, opened, recorded_of):
    trace = opened(name)
    assert len(trace) <= LARGE
    compare(trace, recorded_of(name))
    if len(trace) <= SMALL:
        compare_links(trace, recorded_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ANCHORS if n.partition("-")[2] in HUGE])
def test_states__of_large_traces_are_those_of_the_definitions_at_random_positions(name, opened):
    trace = opened(name)
    rng, store = random.Random(1), trace.columns.store
    first = trace.columns.locations["first_row"].tolist()
    columns = {}
    times = [store.read("events", i, ["time"])["time"] for i in range(len(trace.locs))]
    m, lost = trace.columns.messages, trace.columns.sends
    lost = lost[~lost.send.isin(m.send) & ~lost.is_cancelled]

    def order(rows, times, locations):
        """Return keys that sort chronologically: time, location, row."""
        return list(zip(times.tolist(), locations.tolist(), rows.tolist(), strict=True))

    sent, received = order(m.send, m.send_time, m.send_location), order(m.recv, m.recv_time, m.recv_location)
    pending = list(zip(sent, received, strict=True))
    pending += [(a, (1 << 62,)) for a in order(lost.send, lost.send_time, lost.location)]
    for _ in range(4):
        pos = rng.randint(1, len(trace))
        e = trace.event(pos)
        here = (e.ticks, e.loc_id, e.row)
        n_before = 0
        for location, time in enumerate(times):
            n = int(np.searchsorted(time, e.ticks, "left" if location > e.loc_id else "right"))
            n_before += e.row - first[location] + 1 if location == e.loc_id else n
        assert n_before == pos
        where = rng.choice([e.loc_id, rng.randrange(len(trace.locs))])
        if where not in columns:
            columns[where] = {c: v.tolist() for c, v in store.read("events", where).items()}
        stack = []
        for i, (time, kind) in enumerate(zip(columns[where]["time"], columns[where]["kind"], strict=True)):
            if (time, where, first[where] + i) > here:
                break
            if kind in (12, 83):
                stack.append(first[where] + i)
            elif kind in (13, 84):
                stack.pop()
        assert rows(trace.stack(pos, where)) == stack
        assert set(rows(trace.queue(pos))) == {a[2] for a, b in pending if a <= here < b}


@pytest.mark.slow
def test_order__is_that_of_the_records_of_an_epilog_trace(opened):
    names = [n for n in NAMES if n.startswith("epilog-")]
    if not names:
        pytest.skip("no reference traces beside the repository")
    for name in names:
        trace, recording = opened(name), read_epilog(ANCHORS[name])
        # one record may be several events: counters before it, the end of an operation besides the EXIT
        ends = ("MPI_COLLECTIVE_END", "RMA_COLLECTIVE_END", "RMA_GROUP_SYNC")
        extra = [K.METRIC, *(K[k] for k in ends)]
        kind = trace.index["kind"][trace.index["row_of"]]
        kept = trace.index["row_of"][~np.isin(kind, extra)]
        numbers = {loc: i for i, loc in enumerate(trace.columns.locations["id"].tolist())}
        number_of = np.searchsorted(trace.columns.locations["first_row"], kept, "right") - 1
        assert number_of.tolist() == [numbers[e.location] for e in recording.events], name


# -- the documented scripts --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documented(opened):
    """Run all code of the manual, in order; returns the names it defines."""
    text = (Path(tracecols.__file__).parent / "docs" / "earl.md").read_text(encoding="utf-8")
    names: dict[str, object] = {"path": opened("data-hybrid_2x3").path}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, "earl.md", "exec"), names)
    return names


def test_manual__says_what_is_there(documented):
    assert dict(documented["t"].event(100))["enterptr"] == 99
    kinds = documented["trace"].read_events(0, columns=["kind"]).kind.value_counts()
    assert documented["p2"].count == kinds[12] + 1 == 719  # as many as ENTERs, and the end of the program
    assert documented["s"].count == 2  # the program, on both processes


SCRIPTED = (
    "data-hybrid_2x3", "data-late_sender", "otf2-wrong_order", "otf2-metrics_rusage", "otf2-omp_tasks", "otf2-hybrid_multi",
    "otf2-late_receiver", "epilog-cart_6", "epilog-fuzz_5", "epilog-p2p_4",
)  # fmt: skip
"""Traces with the events that the scripts look for, and with events that could disturb them: clocks that disagree,
tasks, unreceived messages."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SCRIPTED if n in ANCHORS])
def test_scripts__give_the_numbers_of_a_plain_computation(name, opened, recorded_of, documented):
    t = opened(name)
    trace, recorded = t.columns, recorded_of(name)
    regions = trace.regions["name"].tolist()
    state = States(recorded)
    inclusive, exclusive, wasted, late = Counter(), Counter(), 0, []
    entered = {}
    for i, e in enumerate(recorded.events):
        before = list(state.stack(e.location))
        state.step(e)
        entered[e] = state.enterptr
        if e.kind == "exit" and before:
            passed = e.time - before[-1].time
            inclusive[e.location, int(before[-1].region)] += passed
            exclusive[e.location, int(before[-1].region)] += passed
            if len(before) > 1:
                exclusive[e.location, int(before[-2].region)] -= passed
        send = state.sendptr.get(e)
        if e.kind == "recv" and send is not None:
            order = recorded.order
            if any(order[x] < order[send] for x in state.queue(send.process, e.process)):
                late.append(i + 1)
    for recv, send in state.sendptr.items():
        begins = entered[recv], entered[send]
        if None not in begins and [regions[int(x.region)] for x in begins] == ["MPI_Recv", "MPI_Send"]:
            wasted += max(begins[1].time - begins[0].time, 0)
    got_inclusive, got_exclusive = documented["region_statistics"](trace)
    assert got_inclusive.to_dict() == inclusive
    assert got_exclusive.to_dict() == exclusive
    assert documented["region_statistics_by_event"](t) == (inclusive, exclusive)
    assert documented["wasted_time"](trace) == documented["wasted_time_by_event"](t) == wasted
    assert documented["out_of_order"](t) == documented["out_of_order_by_event"](t) == late
    assert inclusive and (wasted > 0) >= (name == "data-late_sender") and bool(late) >= (name == "otf2-wrong_order")
