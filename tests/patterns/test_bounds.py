"""No severity is negative, none exceeds the time of its call path, and sums beyond 64 bits do not wrap."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import SHARED
from support.severities import cells, cube_of

import tracecols
from tracecols.enhance.dataflow.grouping import Segments
from tracecols.errors import AnalysisError, SeverityError
from tracecols.export.cube_read import read_cube
from tracecols.export.cubex import write_cubex
from tracecols.patterns import counters
from tracecols.severity.cells import Cells
from tracecols.severity.reduction import LARGEST, reduce_at, widened
from tracecols.testing import Program, assert_severities

small = pytest.mark.skipif(not (SHARED / "otf2_small").is_dir(), reason="no reference traces beside the repository")


def receive_once() -> Program:
    """Return a program with one receive of 21 ticks, 15 of which are waiting."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(20, "MPI_Send").send(21, to=1).leave(25).leave(30)
    receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).leave(26).leave(30)
    return program


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_pattern__that_exceeds_the_time_of_its_call_is_refused():
    @tracecols.pattern("twice", "mpi_latesender", "Twice", table="messages", summary="Wait states, doubled.")
    def twice(model, m, parent):
        return parent.where(np.ones(len(parent), bool), severity=2 * parent.severity)

    # 30 ticks in a call of 21
    with pytest.raises(
        AnalysisError, match="'twice' exceeds the time of its call path in 1 cell, most at main/MPI_Recv, rank 1"
    ):
        assert_severities(receive_once(), "twice", {}, patterns=[twice])


def test_pattern__that_is_negative_is_refused():
    @tracecols.pattern("minus", "mpi_latesender", "Minus", table="messages", summary="Wait states, negative.")
    def minus(model, m, parent):
        return parent.where(np.ones(len(parent), bool), severity=-parent.severity)

    with pytest.raises(AnalysisError, match="severities must not be negative"):
        assert_severities(receive_once(), "minus", {}, patterns=[minus])


@pytest.mark.parametrize("where", ["column", "parent", "constituent"])
def test_pattern__cannot_write_to_what_it_is_given(where):
    @tracecols.pattern(
        "writes",
        "mpi_latesender",
        "Writes",
        table="messages",
        summary="Writes to its input.",
        constituents={"same": tracecols.Constituent("recv", "messages", "recv")},
    )
    def writes(model, m, parent, *, same):
        if where == "column":
            m.send_enter_time[:] = 0
        elif where == "parent":
            parent.severity[:] = 0
        else:
            same.send_enter_time[:] = 0  # a copy: allowed, and without effect
        return parent.where(np.zeros(len(parent), bool))

    if where == "constituent":
        assert_severities(receive_once(), "mpi_latesender", {("main/MPI_Recv", 1): 15}, patterns=[writes])
        return
    with pytest.raises(AnalysisError, match=r"property 'writes'.*read-only"):
        assert_severities(receive_once(), "mpi_latesender", {("main/MPI_Recv", 1): 15}, patterns=[writes])


def test_waits__of_one_call_may_overlap():
    # two messages arrive in one call that is not MPI_Waitall: waits of 15 and 18 ticks in a call of 21
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(20, "MPI_Send").send(21, to=1).leave(22)
    sender.enter(23, "MPI_Send").send(23, to=1).leave(24).leave(30)
    receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).receive(25, source=0).leave(26).leave(30)
    cube = cube_of(program)
    assert cells(cube, "mpi_latesender") == {("MPI_Recv", 1): 33}
    assert (
        cube.facts["counts"]["cells with more waiting than time, because clocks disagree or waits of one call overlap"]
        == 1
    )


def test_waits__beyond_the_call_are_counted_where_clocks_disagree():
    # the clock of thread 1 is ahead: it enters the barrier at 90, when thread 0 has left it at 40
    program = Program(threads=2)
    first, second = program.locations
    first.enter(0, "main").fork(5).begin_team(6).enter(7, "!$omp parallel")
    first.enter(20, "!$omp barrier").leave(40).leave(95).end_team(96).join(97).leave(100)
    second.begin_team(6).enter(7, "!$omp parallel").enter(90, "!$omp barrier").leave(94).leave(95).end_team(96)
    cube = cube_of(program)
    assert cells(cube, "omp_ebarrier_wait") == {("!$omp barrier", 0): 70}
    assert (
        cube.facts["counts"]["cells with more waiting than time, because clocks disagree or waits of one call overlap"]
        == 1
    )


@pytest.mark.parametrize("op", ["gather", "gatherv", "reduce"])
def test_early_reduce__in_which_nobody_sends_is_no_wait(archive, analyze, op):
    # without senders there is no latest begin
    mpi = archive.mpi(3)
    for i, rank in enumerate(mpi.ranks):
        rank.collective(10 + i, 40 + i, mpi.world, op, 0, 0, 8 if i == 0 else 0)
    assert cells(analyze(archive), "mpi_earlyreduce") == {}


@pytest.mark.parametrize("op", ["scan", "exscan"])
def test_early_scan__before_anybody_sends_is_no_wait(archive, analyze, op):
    # rank 0 receives, and no rank up to 0 sends; rank 1 is its own latest sender; rank 2 begins at 10 and waits for
    # rank 1 until 30
    mpi = archive.mpi(3)
    for rank, begin, sent in zip(mpi.ranks, (20, 30, 10), (0, 8, 8), strict=True):
        rank.collective(begin, 50, mpi.world, op, None, sent, 8)
    assert cells(analyze(archive), "mpi_earlyscan") == {("MPI_" + op.capitalize(), 2): 20}


@small
@pytest.mark.parametrize("name", ["gatherv_nosender", "scan_rank0_sends_nothing"])
def test_small_archives__nobody_sends(name, opened):
    cube = opened(SHARED / "otf2_small" / name).analyze()
    assert [p for p in cube.properties.id if "early" in p and cube.total(p)] == []
    assert max(cube.total(p) for p in cube.properties.id if cube.properties.root_of(p) == "time") == cube.total("time")


# -- sums beyond 64 bits -----------------------------------------------------------------------------------------------


@small
def test_small_archives__sums_beyond_64_bits(opened, tmp_path):
    # two locations of 6.9e6 s at 10^12 ticks per second: each fits into 64 bits, their sum does not
    cube = opened(SHARED / "otf2_small" / "sum_overflow").analyze()
    assert cube.total("time") == pytest.approx(13_835_058, abs=1)
    assert cube.by_call_path("time", "iii").max() == pytest.approx(13_835_058, abs=1)
    assert cube.by_system("time").max() == pytest.approx(13_835_058, abs=1)
    assert cube.frame("time").value.sum() == pytest.approx(13_835_058, abs=1)
    assert cube.on_topology(0, "time").min() > 0
    cube.report(tmp_path / "x.html")
    again = tracecols.SeverityCube.load(cube.save(tmp_path / "x.severity"))
    assert again.total("time") == cube.total("time")
    write_cubex(cube, tmp_path / "x.cubex")
    assert read_cube(tmp_path / "x.cubex").total("time") == pytest.approx(13_835_058, abs=1)


def test_widened__only_where_sums_could_exceed_64_bits():
    few = np.array([LARGEST // 2, LARGEST // 2], np.int64)
    assert widened(few).dtype == np.int64
    many = np.array([LARGEST, LARGEST, -LARGEST], np.int64)
    assert widened(many).dtype == object
    assert reduce_at(np.array([0, 0, 1]), many, 2).tolist() == [2 * LARGEST, -LARGEST]
    assert widened(np.zeros(0, np.int64)).sum() == 0


def test_cells__that_exceed_64_bits_are_refused():
    call_path, location = np.zeros(2, np.int32), np.zeros(2, np.int32)
    with pytest.raises(SeverityError, match="exceeds 9223372036854775807"):
        Cells.sum(call_path, location, np.array([LARGEST, 1], np.int64))
    with pytest.raises(SeverityError, match="exceeds"):
        Cells.sum(call_path, location, np.array([LARGEST + 1, 0], np.uint64))
    half = Cells.sum(call_path[:1], location[:1], np.array([LARGEST // 2 + 1], np.int64))
    with pytest.raises(SeverityError, match="exceeds"):
        half + half
    # sums that wrap on the way are right if the result fits
    wide = Cells.sum(np.zeros(3, np.int32), np.zeros(3, np.int32), np.array([LARGEST, LARGEST, -LARGEST], np.int64))
    assert wide.value.tolist() == [LARGEST]


def test_pattern__whose_sum_exceeds_64_bits_is_named():
    @tracecols.pattern("vast", "", "Vast", table="messages", unit="occ", summary="More than 64 bits.")
    def vast(model, m, parent):
        return parent.where(np.ones(len(parent), bool), severity=np.full(len(parent), LARGEST))

    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(1, "MPI_Send").send(2, to=1).send(3, to=1).leave(4).leave(30)
    receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).receive(25, source=0).leave(26).leave(30)
    with pytest.raises(AnalysisError, match=r"property 'vast'.*exceeds"):
        assert_severities(program, "vast", {}, patterns=[vast])


@pytest.mark.parametrize("n", [127, 128, 256])
def test_segments__any_of_many(n):
    # when they were counted in 8 bits, 128 true values counted as none
    segments = Segments(np.zeros(n, np.int64), 1)
    assert segments.any(np.ones(n, bool)).tolist() == [True]
    assert segments.any(np.zeros(n, bool)).tolist() == [False]


def test_counters__whose_sums_exceed_64_bits_are_rounded():
    # a counter may have any values: its sums must not stop an analysis
    location = np.zeros(2, np.int32)
    cells = counters._sum(location, location, np.array([LARGEST, LARGEST], np.int64))
    assert cells.value.tolist() == [2.0 * LARGEST]
    assert counters._sum(location, location, np.array([1, 2], np.int64)).value.dtype == np.int64


def test_cells__are_summed_alike_in_order_and_in_any():
    """Sorted cells are summed by neighbours; there, too, sums that wrap on the way are right if the result fits."""
    call_path, location = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 3, 3, 3, 3, 1])
    shuffled = np.array([4, 0, 5, 2, 1, 3])
    for value in (
        [1, 2, 3, 4, 5, 6],
        [1, 2, LARGEST, LARGEST, -LARGEST, 6],
        [1, 2, 5, -5, 0, 6],
        [0.5, 2.0, 1.0, 2.0, 3.0, 6.0],
    ):
        values = np.array(value)
        ordered = Cells.sum(call_path, location, values)
        other = Cells.sum(call_path[shuffled], location[shuffled], values[shuffled])
        assert ordered.key.tolist() == other.key.tolist()
        assert ordered.value.tolist() == other.value.tolist()
        assert ordered.value.dtype == other.value.dtype
        expected = [value[0], value[1], value[2] + value[3] + value[4], value[5]]
        assert ordered.value.tolist() == [x for x in expected if x]
