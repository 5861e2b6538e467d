"""References that are undefined (-1): they name nothing, and never the last row of a table."""

import json

import numpy as np
import pytest
from support.laws import same

import tracecols
from tracecols.enhance.definitions.communicators import Communicators
from tracecols.export.viewers import export_timeline
from tracecols.patterns.constraints import find_violations
from tracecols.search.cube import analyze_model
from tracecols.slices.source import StoreSource

UNDEFINED_COMMUNICATOR = "participants of collective operations on undefined communicators"


def told(model):
    """Return count and descriptions of the first instances, by the name of the violated constraint."""
    return {v.constraint.name: (v.count, [words for *_, words in v.first]) for v in find_violations(model)}


@pytest.mark.parametrize("last", ["world", "self"])
def test_collectives__on_undefined_communicators_are_not_joined(last, archive, enhance):
    mpi = archive.mpi(2)
    if last == "self":
        archive.comm_self()
    for i, rank in enumerate(mpi.ranks):
        rank.enter(0, "main").collective(10 + 20 * i, 40, None, "barrier").collective(
            50 + 20 * i, 80, None, "allreduce", None, 8, 8
        )
        rank.leave(90, "main")
    model = enhance(archive)
    c, m = model.collectives, model.collective_members
    # four operations of one participant each, on a communicator without members
    assert m.collective.tolist() == [0, 2, 1, 3] or sorted(m.collective.tolist()) == [0, 1, 2, 3]
    assert (c.n_members.tolist(), c.size.tolist(), c.communicator.tolist()) == ([1] * 4, [0] * 4, [-1] * 4)
    assert m.rank.tolist() == [-1] * 4
    cube = analyze_model(model)
    # rank 1 comes 20 ticks later, but it is not known that rank 0 waits for it
    assert cube.total("mpi_barrier_wait") == cube.total("mpi_wait_nxn") == 0
    # bytes and operations count all the same
    assert (cube.total("bytes_cout"), cube.total("bytes_cin"), cube.total("comms_cxch")) == (16, 16, 2)
    assert cube.facts["counts"] == {UNDEFINED_COMMUNICATOR: 4}
    assert told(model) == {
        UNDEFINED_COMMUNICATOR: (
            4,
            ["barrier on an unknown communicator"] * 2 + ["allreduce on an unknown communicator"],
        )
    }


@pytest.mark.slow
def test_collectives__on_undefined_communicators_do_not_depend_on_the_partition(archive, enhance, monkeypatch):
    mpi = archive.mpi(3)
    archive.comm_self()
    for i, rank in enumerate(mpi.ranks):
        for t in range(0, 300, 100):
            rank.collective(t + i, t + 40, None, "barrier").collective(t + 50 + i, t + 90, mpi.world, "barrier")
    whole = analyze_model(enhance(archive))
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    parts = analyze_model(enhance(archive))
    assert whole.facts["counts"] == parts.facts["counts"] == {UNDEFINED_COMMUNICATOR: 9}
    assert whole.total("mpi_barrier_wait") == pytest.approx(9e-9)
    same(whole, parts)


def test_messages__on_undefined_communicators_are_not_joined(archive, enhance):
    a, b = archive.mpi(2).ranks
    a.enter(0, "MPI_Send").send(1, 1, None, 7, 64).leave(2, "MPI_Send")
    b.enter(0, "MPI_Recv").receive(5, 0, None, 7, 64).leave(6, "MPI_Recv")
    model = enhance(archive)
    assert len(model.messages) == 0
    assert told(model) == {
        "sends without receive": (1, ["sends 64 bytes to rank 1 of an unknown communicator, tag 7, in 'MPI_Send'"]),
        "receives without send": (1, ["receives from rank 0 of an unknown communicator, tag 7"]),
    }


def test_communicators__have_a_null(archive, enhance):
    mpi = archive.mpi(2)
    archive.comm_self()
    mpi.ranks[0].call(0, 1, "f")
    model = enhance(archive)
    c = Communicators(model.store, model.process)
    null, process = np.array([-1, -1], np.int32), np.array([0, 1], np.int32)
    assert c.size_of(null).tolist() == [0, 0]
    assert c.rank_of(null, process).tolist() == [-1, -1]
    assert c.process_of(null, np.array([0, 0]), process).tolist() == [-1, -1]
    every = np.array([-1, 0, 1, -1, 0, 1], np.int32)
    channel = c.channel(every, np.array([0, 0, 0, 1, 1, 1], np.int32)).tolist()
    # only on communicator 0 both processes have the same channel
    assert channel[1] == channel[4] == 0
    assert len(set(channel)) == 5
    assert min(channel) == 0


def test_teams__that_are_undefined_are_not_joined(archive, enhance):
    mpi = archive.mpi(2)
    region = "!$omp parallel @a.c:1"
    for i, rank in enumerate(mpi.ranks):
        rank.enter(0, "main").fork(10, 1).begin_team(11, None).enter(12, region).enter(
            13 + 20 * i, "!$omp barrier @a.c:2"
        )
        rank.leave(60, "!$omp barrier @a.c:2").leave(61, region).end_team(62, None).join(63).leave(70, "main")
    model = enhance(archive)
    assert (model.teams.n_threads.tolist(), model.teams.communicator.tolist()) == ([1, 1], [-1, -1])
    assert analyze_model(model).total("omp_ebarrier_wait") == 0
    assert told(model) == {"threads that begin in undefined teams": (2, [])}
    # in a trace slice from 20 to 30, only the first process is within the barrier
    pieces = StoreSource(model.store, start=20, stop=30)
    assert [e.kind for e in pieces._slices[0].before].count(12) == 3
    assert [e.kind for e in pieces._slices[1].before].count(12) == 2


def test_windows__that_are_undefined_are_not_joined(archive, enhance):
    mpi = archive.mpi(2)
    archive.define("RmaWin", self=archive.new_id("RmaWin"), name=archive.string("w"), comm=mpi.world, flags=0)
    for rank in mpi.ranks:
        rank.enter(0, "MPI_Win_fence").record(1, "RmaCollectiveBegin")
        rank.record(2, "RmaCollectiveEnd", op=0, level=0, window=None, root=None, sent=0, received=0).leave(
            3, "MPI_Win_fence"
        )
    model = enhance(archive)
    assert len(model.window_members) == 0
    assert told(model) == {"operations on undefined windows": (2, [])}


def test_groups__without_locations_have_no_epochs(archive, enhance):
    """Members of a group of regions are no locations, and must not be taken for the last process."""
    mpi = archive.mpi(2)
    window = archive.define("RmaWin", self=archive.new_id("RmaWin"), name=archive.string("w"), comm=mpi.world, flags=0)
    regions = archive.group("regions", [archive.region_of(f"f{i}") for i in range(9)])
    for name, rank in (("MPI_Win_start", mpi.ranks[0]), ("MPI_Win_post", mpi.ranks[1])):
        end = {"MPI_Win_start": "MPI_Win_complete", "MPI_Win_post": "MPI_Win_wait"}[name]
        for t, region in ((0, name), (10, end)):
            rank.enter(t, region).record(t + 1, "RmaGroupSync", level=1, window=window, group=regions).leave(
                t + 2, region
            )
    assert len(enhance(archive).epochs) == 0


def test_calling_contexts__without_a_region_enter_an_unknown_one(archive, enhance):
    """Not the last region of the table, which is the one above tasks or that of a call site."""
    mpi = archive.mpi(1)
    context = archive.define("CallingContext", region=None, source_code_location=None, parent=None)
    a = mpi.ranks[0].enter(0, "main")
    for at, of in ((10, context), (20, None)):
        a.record(at, "CallingContextEnter", calling_context=of, unwind=1)
        a.record(at + 5, "CallingContextLeave", calling_context=of)
    a.leave(40, "main")
    model = enhance(archive)
    tree = model.call_paths
    assert [(model.regions.name[r], d) for r, d in zip(tree.region, tree.depth, strict=True)] == [
        ("main", 0),
        ("UNKNOWN", 1),
    ]
    assert (model.profile.exclusive.tolist(), model.profile.visits.tolist()) == ([30, 10], [1, 2])
    assert told(model) == {}


def test_timeline__of_an_operation_that_says_nothing(archive, tmp_path):
    """Without communicator, root and bytes the instant has no details; it could not be written as Chrome's JSON."""
    mpi = archive.mpi(2)
    mpi.ranks[0].collective(10, 40, None, "barrier", None, None, None).collective(50, 60, mpi.world, "barrier")
    store = tracecols.convert(archive.write(), tmp_path / "x.trace", jobs=1)
    export_timeline(store, tmp_path / "x.trace.json", jobs=1)
    events = json.loads((tmp_path / "x.trace.json").read_text())["traceEvents"]
    assert [e["args"] for e in events if e.get("name") == "barrier" and "args" in e] == [
        {},
        {"communicator": "MPI_COMM_WORLD", "sent": 0, "received": 0},
    ]
