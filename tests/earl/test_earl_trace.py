"""EARL: events as mappings and objects, definitions, whole columns, and the index that finds them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.recorded import Recorded
from support.earl_events import compare, compare_links, rows
from support.epilog_writer import merged
from support.random_epilog import random_recording
from support.random_programs import RandomProgram

import tracecols
from tracecols.earl import EventTrace, index
from tracecols.earl.events import ATTRIBUTES
from tracecols.earl.types import OF_KIND, PARENTS, TYPES, is_type, leaves
from tracecols.enhance.definitions import order
from tracecols.errors import StoreError

PARALLEL = "!$omp parallel @a.c:1"


@pytest.fixture
def opened(opened):
    """Convert an archive of `otf2_writer` and open it."""
    return lambda archive: EventTrace(opened(archive, jobs=1).store.path)


@pytest.fixture
def messages(archive, opened):
    """Two ranks: a message that waits, one that overtakes it, one that is never received, a barrier."""
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").enter(10, "MPI_Send").send(11, 1, mpi.world, 7, 64).leave(12, "MPI_Send")
    a.enter(20, "MPI_Send").send(21, 1, mpi.world, 8, 100).send(22, 1, mpi.world, 9, 1).leave(23, "MPI_Send")
    a.collective(50, 60, mpi.world, "allreduce", None, 8, 16).leave(100, "main")
    b.enter(1, "main").enter(5, "MPI_Recv").receive(30, 0, mpi.world, 8, 100).receive(31, 0, mpi.world, 7, 64).leave(32)
    b.collective(51, 61, mpi.world, "allreduce", None, 8, 16).leave(99, "main")
    return opened(archive)


def at(trace, ticks, loc, name="EVENT"):
    """Return the event of a type at a time of a location."""
    return next(e for e in trace.events(name, loc) if e.ticks == ticks)


# -- events ------------------------------------------------------------------------------------------------------------


def test_event__is_a_mapping_and_an_object(messages):
    recv = at(messages, 30, 1)
    assert dict(recv) == {
        "type": "RECV",
        "kind": "MPI_RECV",
        "pos": recv.pos,
        "loc_id": 1,
        "time": 3e-8,
        "enterptr": 3,
        "src_id": 0,
        "com_id": 0,
        "tag": 8,
        "length": 100,
        "sendptr": recv.sendptr.pos,
    }
    assert len(recv) == len(dict(recv)) and list(recv) == list(dict(recv))
    assert recv.sendptr == at(messages, 21, 0) and recv.sendptr.dest is messages.locs[1]
    assert recv.src is messages.locs[0] and recv.com.name == "MPI_COMM_WORLD" and recv.loc.proc.rank == 1
    assert recv.enterptr.reg.name == "MPI_Recv" and recv.enterptr.enterptr.reg.name == "main"
    assert recv.sendptr["dest_id"] == 1 and "src_id" not in recv.sendptr and recv.sendptr.src is None
    with pytest.raises(KeyError, match="RECV events have no 'root_id'"):
        recv["root_id"]
    assert (recv.dest, recv.dest_id, recv.lockptr, recv.forkptr, recv.cnodeptr, recv.root_id, recv.win) == (
        None, -1, None, None, None, -1, None,
    )  # fmt: skip


def test_event__is_compared_and_hashed_by_position(messages):
    first, last = messages.event(1), messages.event(len(messages))
    assert first == messages.event(1) and first != last and first < last and sorted([last, first])[0] == first
    assert len({first, messages.event(1), last}) == 2
    assert "ENTER main at 1, location 0, 0.000000000 s" in repr(first)


def test_event__exits_of_collective_operations_have_their_attributes(messages):
    leave = at(messages, 60, 0, "MPICEXIT")
    assert (leave["sent"], leave["recvd"], leave["root_id"], leave.com.size) == (8, 16, -1, 2)
    assert leave.is_type("EXIT") and leave.is_type("FLOW") and not leave.is_type("ENTER")
    assert messages.is_type(leave.pos, "EXIT")
    last = at(messages, 61, 1, "MPICEXIT")
    assert messages.mpicoll(leave.pos) == [] and messages.mpicoll(last.pos) == [leave, last]
    assert messages.mpicoll(last.pos + 1) == []


def test_event__root_and_ranks_go_through_the_communicator(archive, opened):
    mpi = archive.mpi(3)
    turned = archive.comm("turned", [2, 0], mpi.world)
    a, _, c = mpi.ranks
    a.collective(0, 9, turned, "bcast", 0, 0, 8).enter(10, "MPI_Send").send(11, 0, turned, 1, 4).leave(12, "MPI_Send")
    c.collective(0, 8, turned, "bcast", 0, 8, 8).enter(10, "MPI_Recv").receive(19, 1, turned, 1, 4).leave(20)
    t = opened(archive)
    assert at(t, 9, 0, "MPICEXIT").root is t.locs[2]
    assert (at(t, 11, 0).dest_id, at(t, 19, 2).src_id) == (2, 0)
    com = t.coms[turned]
    assert [com.rank(x) for x in t.locs] == [1, -1, 0] and com.proc(0) is t.procs[2]
    with pytest.raises(IndexError, match="no rank 2"):
        com.proc(2)


def test_event__counters_come_with_the_event_they_precede(archive, opened):
    mpi = archive.mpi(1)
    number = archive.metric_class(("CYCLES", "int64"), ("LOAD", "double"))
    (a,) = mpi.ranks
    for time, cycles in ((5, 70), (9, 90)):
        a.record(time, "Metric", source=number, values=[(4, cycles), (10, cycles / 2)])
        (a.enter if time == 5 else a.leave)(time, "f")
    a.enter(20, "g").leave(21, "g")
    t = opened(archive)
    enter = at(t, 5, 0, "ENTER")
    assert enter.metrics == {"CYCLES": 70, "LOAD": 35.0} and enter["CYCLES"] == 70 and enter.nmets == 2
    assert at(t, 9, 0, "EXIT")["LOAD"] == 45.0 and at(t, 20, 0).metrics == {}
    assert t.event(1).kind == "METRIC" and t.event(1).type == "EVENT" and t.event(1)["CYCLES"] == 70


def test_event__locks_know_the_one_before(archive, opened):
    (a, b), _ = archive.openmp(2)
    a.acquire(1, 5, 1).release(2, 5, 1)
    b.acquire(3, 5, 2).release(4, 5, 2).acquire(5, 6, 1, model=7).release(6, 6, 1, model=7)
    t = opened(archive)
    events = list(t)
    assert [e.type for e in events] == ["OMPALOCK", "OMPRLOCK", "OMPALOCK", "OMPRLOCK", "ALOCK", "RLOCK"]
    assert [e["lockptr"] for e in events] == [-1, 1, 2, 3, -1, 5] and [e["lock_id"] for e in events] == [5] * 4 + [
        6
    ] * 2
    assert rows(t.events("OMPSYNC")) == rows(events[:4]) and rows(t.events("SYNC")) == rows(events[4:])


def test_events__go_both_ways_and_can_be_chosen(messages):
    everything = list(messages)
    assert [e.pos for e in everything] == list(range(1, len(messages) + 1)) and messages.nevents == len(messages)
    assert list(reversed(messages)) == everything[::-1] == list(messages.events(backward=True))
    assert everything == sorted(everything, key=lambda e: (e.ticks, e.loc_id, e.row))
    for name in ("SEND", "RECV", "EXIT", "FLOW", "MPICEXIT", "TEAM"):
        expected = [e for e in everything if e.is_type(name)]
        assert list(messages.events(name)) == expected and messages.positions(name).tolist() == [
            e.pos for e in expected
        ]
        assert list(messages.events(name, backward=True)) == expected[::-1]
    assert [e.ticks for e in messages.events("SEND", 0, 21e-9, 22e-9)] == [21]
    assert [e.ticks for e in messages.events("RECV", start=31e-9)] == [31]
    assert list(messages.events("SEND", loc=1)) == []


@pytest.mark.parametrize("pos", [0, -1, 10**9, 1.5, "1", None])
def test_event__that_is_not_there_is_an_error(messages, pos):
    with pytest.raises(StoreError, match="numbered from 1"):
        messages.event(pos)
    if pos:
        for query in (messages.stack, messages.istack, messages.queue, messages.mpicoll, messages.ompcoll):
            with pytest.raises(StoreError, match="numbered from 1"):
                query(pos)


def test_names__that_are_not_there_are_errors(messages):
    for call in (
        lambda: messages.positions("ENTRY"),
        lambda: messages.is_type(1, "ENTRY"),
        lambda: messages.event(1).is_type("x"),
    ):
        with pytest.raises(StoreError, match=r"(?s)no event type .* there are EVENT, FLOW"):
            call()
    for call in (lambda: messages.stack(1, 2), lambda: messages.queue(1, -7), lambda: messages.stack(1, "0")):
        with pytest.raises(StoreError, match="no location"):
            call()
    for row in (99, 1.5):
        with pytest.raises(StoreError, match=f"no row {row}"):
            messages.event_of_row(row)
    with pytest.raises(StoreError, match="not a node of the call tree"):
        messages.callpath(2 if messages.event(2).type != "ENTER" else len(messages))


def test_event__the_receive_of_a_probed_message_has_the_attributes_of_its_send(archive, opened):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(1, 1, mpi.world, 7, 64).leave(2, "MPI_Send")
    fields = {"peer": 0, "communicator": mpi.world, "tag": 7, "message": 3}
    b.enter(3, "MPI_Mprobe").record(4, "MpiProbe", **fields).leave(5, "MPI_Mprobe")
    b.enter(6, "MPI_Mrecv").record(7, "MpiMrecv", message=3, length=64).leave(8, "MPI_Mrecv")
    recv = at(opened(archive), 7, 1)
    assert (recv.type, recv.kind) == ("RECV", "MPI_MRECV")
    assert (recv["src_id"], recv["com_id"], recv["tag"], recv["length"]) == (0, mpi.world, 7, 64)


# -- state -------------------------------------------------------------------------------------------------------------


def test_queue__messages_are_underway_until_they_are_received(messages):
    tags = {
        ticks: [e.tag for e in messages.queue(at(messages, ticks, loc).pos)]
        for ticks, loc in ((10, 0), (11, 0), (21, 0), (22, 0), (30, 1), (31, 1), (100, 0))
    }
    assert tags == {10: [], 11: [7], 21: [7, 8], 22: [7, 8, 9], 30: [7, 9], 31: [9], 100: [9]}
    assert messages.queue(len(messages), 0, 1) != [] == messages.queue(len(messages), 1)
    lengths = messages.queue_lengths()
    assert lengths.length.tolist() == [1, 2, 3, 2, 1] and (lengths.time * 1e9).round().tolist() == [11, 21, 22, 30, 31]
    assert messages.queue_lengths(src=1).empty and len(messages.queue_lengths(0, 1)) == 5
    m = messages.messages_underway()
    assert (
        m.recv.tolist()[-1] == len(messages) + 1 and m.send.is_monotonic_increasing and m.dest_id.tolist() == [1, 1, 1]
    )


def test_queue__cancelled_sends_are_never_in_it(archive, opened):
    mpi = archive.mpi(2)
    a, _ = mpi.ranks
    a.enter(0, "MPI_Isend").start_send(1, 1, mpi.world, 5, 7).start_send(2, 1, mpi.world, 6, 8).leave(3, "MPI_Isend")
    a.record(4, "MpiRequestCancelled", request=5)
    t = opened(archive)
    assert [e.tag for e in t.queue(len(t))] == [e.tag for e in t.queue(at(t, 3, 0).pos)] == [8]


def test_mpicoll__needs_all_participants_and_their_exits(archive, opened):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for rank, last in ((a, True), (b, False)):
        rank.collective(0, 10, mpi.world, "barrier").enter(20, "MPI_Barrier").begin_collective(20)
        rank.record(30, "MpiCollectiveEnd", op=0, communicator=mpi.world, root=None, sent=0, received=0)
        if last:
            rank.leave(31, "MPI_Barrier").collective(40, 50, mpi.world, "barrier")
    t = opened(archive)
    found = {e.ticks: t.mpicoll(e.pos) for e in t if t.mpicoll(e.pos)}
    # rank 1 does not leave the second barrier, and does not enter the third one
    assert {ticks: [e.loc_id for e in members] for ticks, members in found.items()} == {10: [0, 1]}


def test_stack__after_the_last_event(archive, opened):
    a, b, c = archive.mpi(3).ranks
    a.enter(0, "main").enter(1, "f")
    b.enter(0, "main").enter(1, "f").leave(2, "f")
    c.enter(0, "main").enter(1, "f").leave(2, "f").leave(3, "main")
    t = opened(archive)
    assert [[e.reg.name for e in t.stack(len(t), loc)] for loc in range(3)] == [["main", "f"], ["main"], []]
    assert t.stack_depths(0).depth.tolist() == [1, 2] and t.stack_depths(2).depth.tolist() == [1, 2, 1, 0]


def test_istack__a_worker_has_it_from_its_begin_to_its_end_in_the_team(archive, opened):
    (a, b), team = archive.openmp(2)
    a.enter(0, "main").fork(10, 2).begin_team(11, team).enter(12, PARALLEL).leave(20, PARALLEL).end_team(21, team).join(
        22
    )
    a.leave(30, "main")
    b.begin_team(13, team).enter(14, PARALLEL).leave(18, PARALLEL).end_team(19, team).call(25, 26, "alone")
    t = opened(archive)

    def names(ticks, loc, of):
        return [e.reg.name for e in t.istack(at(t, ticks, loc).pos, of)]

    assert names(12, 0, 1) == []
    assert names(13, 1, 1) == ["main"]
    assert names(14, 1, 1) == ["main", PARALLEL] and [e.loc_id for e in t.istack(at(t, 14, 1).pos)] == [0, 1]
    assert names(18, 1, 1) == ["main"] and names(19, 1, 1) == [] and names(25, 1, 1) == ["alone"]
    assert [e.reg.name for e in t.stack(at(t, 14, 1).pos)] == [PARALLEL]
    assert at(t, 22, 0, "JOIN").forkptr == at(t, 10, 0, "FORK")
    assert t.ompcoll(at(t, 20, 0).pos) == [at(t, 18, 1), at(t, 20, 0)]


def test_columns__are_what_single_queries_say(data, tmp_path):
    t = EventTrace(tracecols.convert(data / "hybrid_2x3", tmp_path / "h.trace"))
    for loc in (0, 4):
        depths = t.stack_depths(loc)
        for row in range(depths.index[0], depths.index[-1], 37):
            assert len(t.stack(int(depths.pos[row]), loc)) == depths.depth[row]
    lengths = t.queue_lengths(0)
    assert [len(t.queue(p, 0)) for p in lengths.pos.tolist()] == lengths.length.tolist()


quick = settings(max_examples=12)


@pytest.mark.slow
@quick
@given(seed=st.integers(0, 1 << 32), size=st.integers(0, 45))
def test_random_programs__states_and_links_are_those_of_the_definitions(tmp_path_factory, seed, size):
    folder = tmp_path_factory.mktemp("random")
    program = RandomProgram(seed, folder / "traces.otf2", size)
    trace = EventTrace(program.store(folder).path)
    recorded = Recorded(trace.columns)
    assert [e.row for e in recorded.events] == [e.row for e in program.events]
    compare(trace, recorded, seed)
    compare_links(trace, recorded)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_epilog__states_and_links_are_those_of_the_definitions(seed, tmp_path):
    # events of the same time in the order of the file, teams between FORK and JOIN, call sites
    recording = random_recording(seed, 3, 1 + seed % 3, 10, n_metrics=seed % 2, rma=seed % 2 == 0, tick=0.001)
    merged(recording).write(tmp_path / "x.elg")
    trace = EventTrace(tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace"))
    recorded = Recorded(trace.columns)
    compare(trace, recorded, seed)
    compare_links(trace, recorded)


# -- definitions -------------------------------------------------------------------------------------------------------


def test_definitions__are_linked(data, tmp_path):
    t = EventTrace(tracecols.convert(data / "hybrid_2x3", tmp_path / "h.trace"))
    assert [len(x) for x in (t.procs, t.thrds, t.locs, t.machs, t.nodes)] == [2, 6, 6, 1, 1]
    loc = t.locs[4]
    assert (loc.thrd_id, loc.thrd.id, loc.proc.id, loc.node.name, loc.mach.name) == (1, 1, 1, "vm", "Linux")
    assert (
        loc.thrd.loc is loc
        and t.procs[1].loc is t.locs[3]
        and t.nodes[0].procs == t.procs
        and t.machs[0].nodes == t.nodes
    )
    (cart,) = t.carts
    assert (cart.ndims, cart.dimv, cart.periodv, cart.com.size) == (2, (2, 3), (False, False), 6)
    assert all(cart.loc(cart.coords(x)) is x for x in t.locs) and cart.loc((9, 9)) is None
    world = next(c for c in t.coms if c.name == "MPI_COMM_WORLD")
    assert [world.rank(x) for x in t.locs] == [0, 0, 0, 1, 1, 1]
    own = next(c for c in t.coms if c.kind == "self")
    assert (own.size, own.rank(t.locs[5])) == (1, 0)
    main = next(r for r in t.regs if r.name == "main")
    assert main.file in t.files and main.begln > 0 and t.regs[main.id] is main
    assert (t.has_omp, t.has_shmem, t.has_mpi2, t.name) == (True, False, False, "h")
    assert repr(t) == "<EventTrace h.trace: 6,708 events, 6 locations>"


def test_call_tree__is_that_of_the_columns(data, tmp_path):
    t = EventTrace(tracecols.convert(data / "hybrid_2x3", tmp_path / "h.trace"))
    paths = t.columns.call_paths
    tree = t.calltree()
    assert sorted(rows(tree)) == sorted(paths.representative) and t.ctsize() == len(paths)
    for node in tree:
        path = paths.path[paths.representative == node.row].item()
        assert "/".join(x.reg.name for x in t.callpath(node)) == path
        assert t.callpath(node)[-1].cnodeptr == node
        for child in t.ctchildren(node.pos):
            assert child.cedgeptr == node
    visits = t.columns.profile.groupby("call_path").visits.sum()
    assert sum(t.ctvisits(n) for n in tree) == visits.sum() == len(t.positions("ENTER"))
    assert t.calltree(0) == [] and t.calltree(tree[5].pos) == tree[:6] and t.ctsize(tree[5].pos - 1) == 5
    assert [x for x in tree if x.cedgeptr is None] == t.ctroots()


def test_types__form_one_hierarchy():
    assert all(is_type(t, "EVENT") for t in TYPES) and set(PARENTS.values()) <= {"", *TYPES}
    assert set(OF_KIND.values()) <= set(ATTRIBUTES) and len(TYPES) == len(leaves("EVENT"))
    assert [TYPES[i] for i in leaves("P2P")] == ["P2P", "SEND", "RECV"] and not is_type("EVENT", "FLOW")


# -- the index ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(data, tmp_path):
    return tracecols.convert(data / "late_sender", tmp_path / "l.trace")


def no_build(monkeypatch):
    def build(_building):
        raise AssertionError("the index is made again")

    monkeypatch.setattr(index, "build", build)


def test_index__is_made_once(store, monkeypatch):
    first = EventTrace(store)
    assert (store / "enhanced" / "earl" / "manifest.json").is_file()
    no_build(monkeypatch)
    again = EventTrace(store)
    assert rows(again.stack(500)) == rows(first.stack(500)) and len(again) == len(first)
    assert "model" not in vars(again.columns)  # nothing is scanned


@pytest.mark.slow
def test_index__of_another_trace_is_made_again(store, data, tmp_path, monkeypatch):
    EventTrace(store, index=tmp_path / "index")
    other = tracecols.convert(data / "coll", tmp_path / "c.trace")
    assert EventTrace(other, index=tmp_path / "index").ctsize() == len(tracecols.open(other).call_paths)
    # converted again: the new store does not keep the index of the old one
    EventTrace(store)
    tracecols.convert(data / "coll", store)
    assert not (store / "enhanced").exists()
    no_build(monkeypatch)
    with pytest.raises(AssertionError, match="made again"):
        EventTrace(store)


def test_index__stands_elsewhere_if_the_store_cannot_be_written(store, tmp_path, monkeypatch):
    monkeypatch.setattr(index.os, "access", lambda *_: False)
    t = EventTrace(store)
    assert not (store / "enhanced").exists() and t.index.folder.is_dir() and len(t.stack(900))
    folder = t.index.folder
    del t
    assert not folder.exists()
    named = EventTrace(store, index=tmp_path / "mine")
    assert named.index.folder == tmp_path / "mine" and not (store / "enhanced").exists()


def test_index__that_cannot_be_made_leaves_nothing(store, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="exists and is not an index for EARL"):
        EventTrace(store, index=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"

    def full(_building):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "write_order", full)
    with pytest.raises(StoreError, match="No space left on device"):
        EventTrace(store, index=tmp_path / "index")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "l.trace"]


def test_index__that_is_damaged_says_what_to_do(store):
    EventTrace(store)
    (store / "enhanced" / "earl" / "enterptr.npy").write_bytes(b"")
    with pytest.raises(StoreError, match=r"remove .*, it is made again"):
        EventTrace(store).stack(100)
    shutil.rmtree(store / "enhanced")
    assert EventTrace(store).stack(100)


def test_index__does_not_depend_on_windows_and_blocks(data, tmp_path, monkeypatch):
    def columns(t):
        return {p.name: np.load(p).tolist() for p in t.index.folder.glob("*.npy") if p.name != "queue.latest.npy"}

    # with ties between locations, too
    for name in ("late_sender", "omp_basic"):
        store = tracecols.convert(data / name, tmp_path / f"{name}.trace")
        one = EventTrace(store, index=tmp_path / f"{name}.one")
        with monkeypatch.context() as patch:
            patch.setattr(order, "WINDOW", 64)
            patch.setattr(order, "SAMPLE", 4)
            other = EventTrace(store, index=tmp_path / f"{name}.other")
        assert columns(one) == columns(other)
        assert sorted(one.index["row_of"].tolist()) == list(range(len(one)))
        assert (one.index["row_of"][one.index["pos_of"]] == np.arange(len(one))).all()


@pytest.mark.parametrize("n", [126, 128, 130])
def test_index__numbers_of_events_at_the_edge_of_a_type(archive, opened, n):
    (a,) = archive.mpi(1).ranks
    for time in range(n):
        (a.leave if time % 2 else a.enter)(time, "f")
    t = opened(archive)
    assert t.index["pos_of"].dtype == (np.int8 if n < 128 else np.int16)
    assert len(t) == n and t.stack(n) == [] and rows(t.stack(n - 1)) == [n - 2] and t.event(n).pos == n


def test_index__holds_every_declared_column(store):
    t = EventTrace(store)
    names = {c.name for c in (*index.COLUMNS, *index.TABLES)}
    files = {p.stem for p in t.index.folder.glob("*.npy")}
    assert names <= files
    assert {f.partition(".")[0] for f in files - names} <= set(t.columns.store.tables)


def test_trace__without_events(archive, opened):
    archive.mpi(2)
    t = opened(archive)
    assert len(t) == 0 and list(t) == [] == t.calltree() == t.stack(0, 1) == t.queue(0)
    assert t.queue_lengths().empty and t.stack_depths(0).empty and t.positions("SEND").size == 0
    with pytest.raises(StoreError, match="no event 1"):
        t.event(1)
