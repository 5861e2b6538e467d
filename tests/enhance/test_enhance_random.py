"""Random programs: pointer attributes, call paths and compound tables equal those of the oracles."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import queues, stacks
from support.pointers import pointers_of
from support.random_programs import CONSTRUCT_NAMES, RandomProgram

from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.scan import batches
from tracecols.enhance.scan.batches import advance_together
from tracecols.enhance.scan.location_scan import BufferPool, RunningScan
from tracecols.model.model import enhance
from tracecols.work.large import LargeArrays

SEEDS = st.integers(0, 1 << 32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the programs; Hypothesis does not allow a function-scoped fixture per example."""
    return tmp_path_factory.mktemp("random")


@pytest.fixture
def fresh(folder):
    def new():
        path = folder / str(len(list(folder.iterdir())))
        path.mkdir()
        return path

    return new


def make(fresh, seed, size):
    path = fresh()
    program = RandomProgram(seed, path / "traces.otf2", size)
    return program, program.model(path)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Return random programs of any size with their models, shared by the tests of single definitions."""
    return [make(lambda: tmp_path_factory.mktemp("programs"), seed, seed % 46) for seed in range(60)]


def pointers(model):
    """Return the pointer columns of all events, by row."""
    parts = [pointers_of(model, i) for i in range(model.n_locations)]
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def paths_of(model):
    return [tuple(p.split("/")) for p in model.call_paths.paths_of(model.regions.name)]


def rows(of, null=-1):
    return {e.row: (target.row if target is not None else null) for e, target in of.items()}


def found(column):
    return {int(i): int(v) for i, v in enumerate(column) if v >= 0}


@pytest.mark.slow
def test_stacks__are_those_of_the_definition(programs):
    for program, model in programs:
        expected = stacks.Stacks(program.events, program.program)
        got = pointers(model)
        assert found(got["enterptr"]) == rows(expected.enterptr)
        assert found(got["exitptr"]) == rows(expected.exitptr)
        assert found(got["forkptr"]) == rows(expected.forkptr)
        names = paths_of(model)
        path = {i: names[v] for i, v in found(got["call_path"]).items()}
        assert path == {e.row: p for e, p in expected.path.items()}
        enters = [e for e in program.events if e.kind == "enter"]
        assert found(got["cnodeptr"]) == {e.row: expected.cnodeptr(e).row for e in enters}
        for e in enters:
            # TASKS has no ENTER
            if expected.path[e][-2:-1] != (stacks.TASKS,):
                above = expected.cedgeptr(e)
                assert got["cedgeptr"][e.row] == (-1 if above is None else above.row)


@pytest.mark.slow
def test_profile__is_time_and_visits_of_the_definition(programs):
    for program, model in programs:
        expected = stacks.Stacks(program.events, program.program)
        names, profile = paths_of(model), model.profile
        assert len(set(names)) == len(names)  # equal paths of different locations are merged
        cells = list(zip(profile.call_path.tolist(), profile.location.tolist(), strict=True))
        assert len(set(cells)) == len(cells)
        for measure in ("exclusive", "visits"):
            got = {
                (names[c], int(x)): int(v)
                for c, x, v in zip(profile.call_path, profile.location, profile[measure], strict=True)
                if v
            }
            assert got == {k: v for k, v in getattr(expected, measure).items() if v}
        opened = sum(e.kind == "enter" for e in program.events) - len(expected.exitptr)
        assert sum(s.open for s in model.scans) == opened
        assert sum(s.bad_exits for s in model.scans) == 0


@pytest.mark.slow
def test_messages__match_as_the_queues_of_the_definition(programs):
    for program, model in programs:
        assert found(pointers(model)["sendptr"]) == rows(queues.sendptr(program.events))
        m = model.messages
        posts = queues.posted_by(program.events)
        stack = stacks.Stacks(program.events, program.program)
        # the posting call: that of the receive itself where only a probe has the envelope
        post_of = {}
        request = {}
        for e in program.events:
            if e.kind == "post":
                request[e.process, e.request] = e
            if e.kind == "recv":
                post_of[e.row] = request.get((e.process, e.request), e) if e.request >= 0 else e
        for i, recv in enumerate(m.recv.tolist()):
            assert m.recv_post_enter[i] == stack.enterptr[post_of[recv]].row
        receives = [e for e in program.events if e.kind == "recv"]
        assert len(posts) == len(receives) == len(m)  # every receive has its message
        sends = [e for e in program.events if e.kind == "send"]
        never = queues.cancelled(program.events)
        assert m.counts["sends without receive"] == len(sends) - len(never & set(sends)) - len(m)
        assert m.counts["cancelled requests"] == len(never)
        assert len(model.sends) == len(sends)
        assert m.counts["messages received before they were sent"] == 0


@pytest.mark.slow
def test_collectives__are_the_instances_of_the_definition(programs):
    for program, model in programs:
        complete, left = queues.mpicoll(program.events, program.group)
        c, m = model.collectives, model.collective_members
        got = {}
        for instance, end in zip(m.collective.tolist(), m.end.tolist(), strict=True):
            got.setdefault(instance, set()).add(end)
        whole = {frozenset(v) for i, v in got.items() if c.n_members[i] == c.size[i]}
        assert whole == {frozenset(e.row for e in instance) for instance in complete}
        assert sum(len(v) for v in got.values()) == len(left) + sum(map(len, complete))
        assert c.counts["collective operations that lack participants"] == len(got) - len(whole)


@pytest.mark.slow
def test_constructs__are_the_instances_of_the_definition(programs):
    for program, model in programs:
        complete = queues.ompcoll(program.events, program.construct_team, program.members)
        m = model.construct_members
        got = {}
        for instance, leave in zip(m.construct.tolist(), m.exit.tolist(), strict=True):
            got.setdefault(instance, set()).add(leave)
        assert {frozenset(v) for v in got.values()} == {frozenset(e.row for e in i) for i in complete}
        assert model.constructs.counts["constructs that lack threads"] == 0
        assert len(model.teams) == len(program.members)
        assert (model.teams.master >= 0).all()
        enters = Counter(e.region in CONSTRUCT_NAMES for e in program.events if e.kind == "enter")
        assert len(m) == enters[True]


@pytest.mark.slow
def test_lockptr__is_that_of_the_definition(programs):
    for program, model in programs:
        assert found(pointers(model)["lockptr"]) == rows(queues.lockptr(program.events))
        a = model.lock_acquisitions
        assert len(a) == sum(e.kind == "acquire" for e in program.events)
        # in a valid trace the previous event of a lock is the release of the acquisition before
        events = {e.row: e for e in program.events}
        before = [events[r].time if r >= 0 else -1 for r in a.lockptr.tolist()]
        assert a.previous_release_time.tolist() == before


def tables(model):
    """Return all tables and the call tree of a model, for comparisons."""
    result = {
        name: getattr(model, name).frame()
        for name in (
            "profile", "messages", "sends", "collectives", "collective_members", "teams", "constructs",
            "construct_members", "lock_acquisitions", "startups",
        )
    }  # fmt: skip
    tree = model.call_paths
    return result, [tree.parent.tolist(), tree.region.tolist(), tree.representative.tolist(), tree.creation.tolist()]


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=SEEDS, batch=st.integers(1, 9), jobs=st.integers(2, 4))
def test_model__does_not_depend_on_batches_and_jobs(fresh, monkeypatch, seed, batch, jobs):
    _program, model = make(fresh, seed, 45)
    frames, tree = tables(model)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "BATCH", batch)
        again, same = tables(enhance(model.store, jobs))
    assert tree == same
    for name, frame in frames.items():
        assert frame.equals(again[name]), name


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=SEEDS, order=SEEDS)
def test_scan__does_not_depend_on_the_order_of_locations(fresh, seed, order):
    _program, model = make(fresh, seed, 45)
    n = model.store.n_events.size
    scans = [RunningScan(model.facts, model.team_instances, i) for i in range(n)]
    results, pool, spill = [s.result for s in scans], BufferPool(LargeArrays()), Spill()
    # not a generator of Hypothesis, which may choose the same location again and again
    chance = random.Random(order)
    # any location may continue at any time: it stops where it needs another that has not got that far
    for _ in range(1000):
        waiting = [s for s in scans if not s.result.done]
        if not waiting:
            break
        advance_together([chance.choice(waiting)], results, pool, spill)
    assert all(one.done for one in results)
    for one, other in zip(results, model.scans, strict=True):
        for name in ("parent", "entry", "row", "exclusive", "visits"):
            assert (one.paths.column(name) == other.paths.column(name)).all()
