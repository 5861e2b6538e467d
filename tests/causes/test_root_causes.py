"""Root causes by the conventions of Scalasca: delay costs, critical path, impact and imbalance (docs/root-causes.md),
and the table of waits.

Whole traces are compared with the reference in test_references.py; this module has a program worked out by hand, and
laws. The default conventions, `exact`, are tested in test_exact.py.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from support.late_senders import FINALIZE, INIT, RECV, SEND, A, B, late_twice
from support.laws import divide, same
from support.otf2_writer import Archive
from support.severities import cube_of

import tracecols
from tracecols.causes import near, sweep
from tracecols.causes import points as of_points
from tracecols.causes.index import Ranges
from tracecols.causes.pairs import RANGES, _ranges_of_rows
from tracecols.causes.points import Synchronisation
from tracecols.causes.quirks import NONE, OF_SCALASCA
from tracecols.causes.segments import LIMIT
from tracecols.causes.sweep import Amounts
from tracecols.drawings.examples import EXAMPLES
from tracecols.enhance.dataflow.columns import Columns, pieced
from tracecols.enhance.dataflow.spill import Spill, SpilledColumns
from tracecols.errors import TracecolsError
from tracecols.kernels import causes, costs, edges, groups, segments, sums
from tracecols.kernels import intervals as intervals_of
from tracecols.kernels import points as ranking
from tracecols.kernels.ranks import count_rows, no_ranks
from tracecols.patterns.found_by import Charged
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.schema import EventKind as K
from tracecols.schema.causes import CHARGED, DELAY_IDS, DEVICE_CHARGED, POINTS, SYNC_POINTS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.testing import Program, severities
from tracecols.work import large
from tracecols.work.large import FEWEST, LargeArrays

KEPT = sorted(p.parent for p in DATA.glob("*/reference.parquet"))


WORKED_OUT = {
    # rank 1 waits 6 for 0, and rank 2 waits 10 for 1: of those 6 go back to the wait of rank 1
    "delay_latesender": {(A, 0): 6, (A, 1): 1, (RECV, 1): 1, (B, 1): 2},
    "delay_latesender_longterm": {(A, 0): 6},
    "delay_latesender_aggregate": {(A, 0): 12, (A, 1): 1, (RECV, 1): 1, (B, 1): 2},
    "delay": {(A, 0): 12, (A, 1): 1, (RECV, 1): 1, (B, 1): 2},
    "mpi_wait_indirect_latesender": {(RECV, 2): 6},
    "mpi_wait_direct_latesender": {(RECV, 1): 6, (RECV, 2): 4},
    "mpi_wait_propagating_ls": {(RECV, 1): 6},
    "mpi_wait_terminal_ls": {(RECV, 2): 10},
    # back from rank 1: ranks 1 and 2 enter MPI_Finalize last, and the lower rank is taken
    "critical_path": {(RECV, 1): 1, (B, 1): 2, (SEND, 1): 1, (A, 0): 10, (INIT, 0): 1},
    # r = (15 - 17) / 3, (15 - 14) / 6, (15 - 10) / 10 by rank; less than the path: A 0, 6, 7; MPI_Recv 1, 0, 0; ...
    "critical_imbalance_impact": {(A, 0): 4.5, (SEND, 1): 0.5},
    # rank 1 visits all call paths: the reference divides by zero
    "inter_partition_imbalance": {},
    "intra_partition_imbalance": {(A, 0): 4.5, (SEND, 1): 0.5},
    "critical_path_activities": {
        (INIT, 0): 1, (INIT, 1): 1, (INIT, 2): 1, (A, 0): 10, (A, 1): 4, (A, 2): 3, (SEND, 0): 1, (SEND, 1): 1,
        (RECV, 1): 1, (RECV, 2): 1, (B, 1): 2,
    },
    "non_critical_path_activities": {(FINALIZE, 0): 5, (FINALIZE, 1): 5, (FINALIZE, 2): 5},
    # A: 10 on the path less the mean of 10, 4 and 3
    "critical_path_imbalance": {(A, 0): 10 - 17 / 3, (B, 1): 2 - 2 / 3, (RECV, 1): 1 - 2 / 3, (SEND, 1): 1 - 2 / 3},
    # computation of A is 10, 4, 3 and of B 0, 2, 0
    "imbalance_above": {(A, 0): 10 - 17 / 3, (B, 1): 2 - 2 / 3},
    "imbalance_above_single": {(B, 1): 2 / 3 * 2},
    "imbalance_below_singularity": {(B, 0): 2 / 3, (B, 2): 2 / 3},
}  # fmt: skip


@pytest.mark.parametrize("divided", [False, True])
def test_root_causes__are_those_worked_out_by_hand(divided, monkeypatch):
    if divided:
        monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    cube = cube_of(late_twice(), "scalasca")
    for name, expected in WORKED_OUT.items():
        # thirds are not exact in binary
        assert severities(cube, name) == pytest.approx(expected, abs=1e-12), name


def test_locations_without_events__do_not_end_at_a_point():
    """They used to end at time 0, which is later than all events if these have negative times."""
    program = Program(processes=2)
    first = program.masters[0]
    first.enter(-9, "main").enter(-9, "MPI_Init").leave(-8).leave(-1)
    with program.trace() as trace:
        points = trace.frame("sync_points", raw=True, conventions="scalasca")
        cube = trace.analyze("scalasca")
    assert points.location.tolist() == [0, 0] and points.kind.tolist() == [POINTS.index(k) for k in ("MPI_Init", "end")]
    assert cube.total("critical_path") > 0


@pytest.mark.slow
def test_root_causes__for_which_there_is_no_room_are_computed_only_when_asked_for(monkeypatch):
    monkeypatch.setattr("tracecols.search.limits.CALL_BYTES", 1 << 26)
    with late_twice().trace() as trace:
        # arrays that do not fit into memory go to files
        monkeypatch.setattr("tracecols.work.executors.free_for_files", lambda folder: 1 << 40)
        assert trace.analyze(memory="400MB").total("delay_latesender") > 0
        monkeypatch.setattr("tracecols.work.executors.free_for_files", lambda folder: 0)
        assert trace.analyze(memory="4GB").total("delay_latesender") > 0
        cube = trace.analyze(memory="400MB")
        assert not {"delay", "delay_latesender", "critical_path", "performance_impact"} & set(cube.properties.id)
        assert {"mpi_latesender", "imbalance"} <= set(cube.properties.id)
        (n,) = [n for note, n in cube.facts["counts"].items() if "root causes" in note]
        assert n > 5
        # files that the scan has written need no more room
        monkeypatch.setattr(Spill, "n_written", 1 << 40)
        assert trace.analyze(memory="400MB").total("delay_latesender") > 0
        asked = trace.analyze(properties=["delay_latesender"], memory="400MB")
    assert severities(asked, "delay_latesender") == {(A, 0): 6, (A, 1): 1, (RECV, 1): 1, (B, 1): 2}
    assert not any("root causes" in note for note in asked.facts["counts"])


def test_imbalance__of_large_programs_is_computed_only_when_asked_for(monkeypatch):
    monkeypatch.setattr("tracecols.search.limits.MOST_SPREAD", 5)
    with late_twice().trace() as trace:
        cube = trace.analyze()
        assert not {"imbalance", "imbalance_below", "imbalance_below_bypass"} & set(cube.properties.id)
        assert {"mpi_latesender", "critical_path_imbalance"} <= set(cube.properties.id)
        (n,) = [n for note, n in cube.facts["counts"].items() if "computational imbalance" in note]
        assert n == 3 * len(cube.call_paths)
        asked = trace.analyze(properties=["imbalance"])
    assert asked.total("imbalance") > 0
    assert not any("computational imbalance" in note for note in asked.facts["counts"])


def defines(program, *regions):
    """Define regions that the program may never enter, as recorders do for all libraries they were built for."""
    for region in regions:
        program.region(region)
    return program


def in_solo():
    """Return a program of two processes, of which only the first calls `solo`."""
    program = Program(processes=2)
    first, second = program.masters
    first.enter(0, "main").enter(0, "solo").leave(10).leave(20)
    second.enter(0, "main").leave(20)
    return program


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_imbalance__of_call_paths_counts_unless_an_openmp_region_is_entered(conventions):
    # solo: 10 ticks of one of two processes, 5 on average
    cube = cube_of(defines(in_solo(), "!$omp parallel @a.c:1"), conventions)
    assert severities(cube, "imbalance_below_bypass") == {("main/solo", 1): 5}
    assert severities(cube, "imbalance_below_singularity") == {("main/solo", 1): 5}
    assert severities(cube, "imbalance_above_single") == {("main/solo", 0): 5}
    program = in_solo()
    program.masters[0].enter(20, "!$omp parallel @a.c:1").leave(21)
    cube = cube_of(program, conventions)
    assert ("main/solo", 1) not in severities(cube, "imbalance_below_bypass")


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_delays__exist_for_the_paradigms_whose_regions_are_entered(conventions):
    of_mpi, of_openmp = {"delay_mpi", "waitstates_propagating_vs_terminal"}, {"delay_omp"}
    found = set(cube_of(defines(late_twice(), "!$omp parallel @a.c:1"), conventions).properties.id)
    assert of_mpi <= found
    assert not of_openmp & found
    program = defines(Program(processes=1), "MPI_Send")
    program.masters[0].enter(0, "main").enter(1, "!$omp parallel @a.c:1").leave(3).leave(4)
    found = set(cube_of(program, conventions).properties.id)
    assert of_openmp <= found
    assert not of_mpi & found


def imbalance_of_path(cube, waits):
    """Return the imbalance of a critical path by its formula (docs/root-causes.md), where `waits` are no work."""
    n = cube.system.n_locations
    ticks = {name: cube.by_call_path(name, "iie") / cube.scale(name) for name in ("time", "critical_path", *waits)}
    path, work = ticks["critical_path"], ticks["time"] - sum(ticks[name] for name in waits)
    factor = np.maximum(path - work / n, 0) / np.where(path > 0, path, 1)
    own = cube.cells["critical_path"]
    return {
        (c, i): v * factor[c]
        for c, i, v in zip(own.call_path.tolist(), own.location.tolist(), own.value.tolist(), strict=True)
        if v * factor[c]
    }


@pytest.mark.slow
def test_imbalance_of_the_critical_path__takes_no_wait_for_work(archive, analyze):
    # the first waits 50 of its 65 ticks in MPI_Wait for the second to start the operation
    mpi = archive.mpi(2)
    for rank, start, done in zip(mpi.ranks, (10, 70), (75, 90), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Iallreduce").start_collective(start, 1)
        rank.leave(start, "MPI_Iallreduce").enter(start + 10, "MPI_Wait").record(
            done,
            "NonBlockingCollectiveComplete",
            op=COLLECTIVE_OPS.index("allreduce"),
            communicator=mpi.world,
            root=None,
            sent=8,
            received=8,
            request=1,
        ).leave(done, "MPI_Wait").leave(100, "main")
    for conventions, waits in (("exact", ["mpi_nonblocking_collective_wait"]), ("scalasca", [])):
        cube = analyze(archive, conventions)
        assert cube.cells["mpi_nonblocking_collective_wait"].value.tolist() == [50]
        found = cube.cells["critical_path_imbalance"]
        keys = zip(found.call_path.tolist(), found.location.tolist(), strict=True)
        expected = imbalance_of_path(cube, waits)
        assert dict(zip(keys, found.value.tolist(), strict=True)) == pytest.approx(expected) and expected


def test_critical_path__is_a_table_of_stretches():
    with late_twice().trace() as trace:
        path = trace.critical_path("scalasca", raw=True)
    assert path.to_dict("records") == [
        {
            "location": 0,
            "begin_time": 0,
            "end_time": 11,
            "reason": "MPI_Init",
            "begin_call_path": INIT,
            "end_call_path": SEND,
        },
        {
            "location": 1,
            "begin_time": 11,
            "end_time": 15,
            "reason": "late sender",
            "begin_call_path": RECV,
            "end_call_path": FINALIZE,
        },
    ]


@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_critical_path__goes_on_where_it_ends_and_is_as_long_as_its_cells(folder, opened):
    trace = opened(folder)
    path = trace.critical_path("scalasca", raw=True)
    assert (path.begin_time.to_numpy()[1:] == path.end_time.to_numpy()[:-1]).all()
    cells = trace.analyze("scalasca", properties=["critical_path"]).cells["critical_path"]
    assert (path.end_time - path.begin_time).sum() == pytest.approx(cells.value.sum(), rel=1e-9)
    # location by location
    on = np.bincount(path.location, path.end_time - path.begin_time, trace.manifest["n_locations"])
    assert on == pytest.approx(np.bincount(cells.location, cells.value, on.size), rel=1e-9, abs=1.0)


def test_charges__that_are_all_zero_have_the_same_type_for_any_partitions(monkeypatch):
    with EXAMPLES["mpi_polling_wait"].make().program.trace() as trace:
        whole = trace.analyze("scalasca")
        divide(monkeypatch)
        monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 3)
        same(whole, tracecols.open(trace.path).analyze("scalasca"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_root_causes__do_not_depend_on_partitions_threads_and_memory(folder, tmp_path, monkeypatch):
    store = tracecols.convert(folder, tmp_path / "x.trace")
    whole = tracecols.open(store, jobs=2).analyze("scalasca")
    divide(monkeypatch)
    # bit for bit, although these are floating-point numbers
    same(whole, tracecols.open(store, jobs=1).analyze("scalasca"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_laws__hold_on_recorded_traces(folder, opened):
    trace = opened(folder)
    cube, model = trace.analyze("scalasca"), trace.model.with_quirks(OF_SCALASCA)
    points, pairs = model.sync_points, model.delay_pairs
    tiny = 1e-9 * cube.resolution

    # activities on and off the critical path add up to the time without waits
    own = model.get("own_times")
    together = cube.cells["critical_path_activities"] + cube.cells["non_critical_path_activities"]
    assert together.value.sum() == pytest.approx(own.time.sum() * cube.resolution)

    # the two parts of each division add up to the wait
    if "waitstates_direct_vs_indirect" in cube.cells:
        for kind, short in (("latesender", "ls"), ("latereceiver", "lr")):
            wait = cube.total(f"mpi_{kind}")
            for one, other in (
                (f"mpi_wait_direct_{kind}", f"mpi_wait_indirect_{kind}"),
                (f"mpi_wait_terminal_{short}", f"mpi_wait_propagating_{short}"),
            ):
                assert cube.total(one) + cube.total(other) == pytest.approx(wait, abs=1e-12)
                assert (cube.cells[one].value >= 0).all()
                assert (cube.cells[other].value >= 0).all()

    # no wait is charged twice; docs/root-causes.md lists the waits that the reference loses
    for k, name in enumerate(DELAY_IDS.values()):
        if name != "delay_ompidle" and name in cube.cells:
            waited = pairs.wait[pairs.kind == k].sum()
            costs = cube.total(f"{name}_aggregate")
            assert costs <= waited * (1 + 1e-9) + 1e-12, name
            if folder.name in ("late_sender", "omp_basic"):
                assert costs == pytest.approx(waited, rel=5e-4), name

    # one path: from the start of MPI on the last rank to its end on the first
    path = model.get("path")
    kinds = points.kind[path.since]
    if POINTS.index("MPI_Init") in kinds and POINTS.index("thread barrier") not in kinds:
        end = points.begin_time[path.until[points.kind[path.until] == POINTS.index("MPI_Finalize")]]
        begin = points.begin_time[path.since[kinds == POINTS.index("MPI_Init")]]
        assert cube.cells["critical_path"].value.sum() == pytest.approx(int(end[0] - begin[0]), abs=tiny)


@pytest.mark.slow
def test_charges__keep_fractions_of_ticks_in_every_file(tmp_path):
    """A clock that ticks once a second: 4.5 seconds are no whole number of ticks."""
    cube = cube_of(late_twice(), "scalasca")
    saved = tracecols.SeverityCube.load(cube.save(tmp_path / "x.severity"))
    assert saved.frame("critical_imbalance_impact").value.tolist() == [4.5, 0.5]
    from tracecols.export.tables import export

    for name in ("x.parquet", "x.cubex"):
        export(tmp_path / "x.severity", tmp_path / name)
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame.value[frame.property == "critical_imbalance_impact"].tolist() == [4.5, 0.5]
    again = tracecols.read_cube(tmp_path / "x.cubex")
    assert severities(again, "critical_imbalance_impact") == severities(cube, "critical_imbalance_impact")


def test_narrowed__to_other_properties_walks_over_the_events_once():
    with late_twice().trace() as trace:
        trace.analyze(properties=["mpi_latesender", "comms"])
        assert "segments" not in trace.model_of(with_focus=True)._values
        trace.analyze(properties=["delay_latesender"])
        assert "segments" in trace.model_of(with_focus=True)._values


def test_pthreads__have_an_imbalance_but_no_root_causes():
    """A program without MPI and OpenMP is not replayed by the reference."""
    program = Program(processes=1, threads=2)
    for thread in program.locations:
        thread.enter(0, "main").enter(1, "work").leave(3).leave(4)
    cube = cube_of(program, "scalasca")
    assert not {"delay", "critical_path", "performance_impact"} & set(cube.properties.id)
    assert "imbalance" in cube.properties.id


def test_titles__of_waits_mean_the_waits_and_not_their_root_causes():
    cube = cube_of(late_twice())
    assert cube.find_property("Late Sender") == "mpi_latesender"
    assert cube.find_property("Delay costs") == "delay"
    with pytest.raises(TracecolsError, match="have the title 'Short-term'"):
        cube.find_property("Short-term")


# -- tables that record partners and causes ----------------------------------------------------------------------------


def test_messages__know_the_events_that_complete_the_send_and_post_the_receive(opened, tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    mpi = archive.mpi(2)
    with mpi.ranks[0] as rank:
        rank.enter(0, "MPI_Isend").start_send(1, 1, mpi.world, request=7).leave(2, "MPI_Isend")
        rank.enter(3, "MPI_Wait").complete_send(4, 7).leave(5, "MPI_Wait")
    with mpi.ranks[1] as rank:
        rank.enter(0, "MPI_Irecv").post_receive(1, 3).leave(2, "MPI_Irecv")
        rank.enter(3, "MPI_Wait").complete_receive(6, 0, mpi.world, request=3).leave(7, "MPI_Wait")
    trace = opened(archive)
    m, kind = trace.messages, trace.events.kind
    assert kind.loc[m.send_done].tolist() == [K.MPI_ISEND_COMPLETE]
    assert kind.loc[m.recv_post].tolist() == [K.MPI_IRECV_REQUEST]


def test_waits__say_who_causes_them():
    with late_twice().trace() as trace:
        ticks = trace.waits
    assert ticks.property.tolist() == ["mpi_finalize_wait", "mpi_latesender", "mpi_latesender"]
    assert ticks[["location", "begin_time", "end_time", "cause_location", "cause_time"]].to_numpy().tolist() == [
        [0, 12, 15, 1, 15],
        [1, 5, 11, 0, 11],
        [2, 4, 14, 1, 14],
    ]


@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_waits__add_up_to_the_severities(folder, opened):
    trace = opened(folder)
    cube, waits = trace.analyze(), trace.waits
    assert set(waits.property) == {p for p in set(waits.property) if p in cube.cells}
    for name, of in waits.groupby("property", observed=True):
        assert int((of.end_time - of.begin_time).sum()) == int(cube.cells[name].value.sum())
    # no location waits for itself, nor beyond the time of the cause
    assert (waits.cause_location != waits.location).all()
    assert (waits.cause_time >= waits.end_time).all()


# -- kernels -----------------------------------------------------------------------------------------------------------


def empty_sum(n, limit):
    """Make scratch for the sum of an interval of n call paths, of which it holds at most `limit`."""
    state = np.zeros(sums.N_STATE, np.int64)
    state[sums.EPOCH], state[sums.FIRST] = 1, -1
    scratch = np.zeros(1), state, np.zeros(n // 64 + 1, np.int64), np.zeros(n // 4096 + 1, np.int64)
    return sums.Sum(np.zeros(n, np.int32), np.empty(n), np.zeros(n), np.empty(limit, np.int32), *scratch)


def put(entries, limit):
    """Add entries one by one to a sum that holds at most `limit` call paths."""
    sum_, n = empty_sum(9, limit), 0
    for c, x in entries:
        n = sums.add_time(c, x, 1, n, sum_)
        assert sum_.floor[0] <= sum_.time[sum_.path[:n]].min()
    return {int(c): float(sum_.time[c]) for c in sum_.path[:n]}


def put_at_once(entries, limit):
    """Do the same with the kernel, which leaves out zeros."""
    spent = intervals_of.Entries(np.array([c for c, _ in entries], np.int32), np.array([x for _, x in entries], float))
    return dict(added_up(intervals_of.sum_intervals, spent, empty_sum(9, limit), 9))


def added_up(kernel, spent, sum_, n):
    """Add up all entries with a kernel; return call paths and their times."""
    nothing, no_waits = np.zeros(1, np.int64), intervals_of.Entries(np.zeros(0, np.int32), np.zeros(0))
    no_call = np.full(1, -1, np.int32), np.zeros(1)
    spans = intervals_of.Spans(nothing, np.array([spent.path.size]), nothing, nothing, *no_call)
    out = segments.Maps(np.zeros(1, np.int64), np.zeros(n + 1, np.int32), np.zeros(n + 1))
    assert kernel(0, spans, spent, no_waits, False, sum_, out) == 1
    return list(zip(out.path[: out.end[0]].tolist(), out.value[: out.end[0]].tolist(), strict=True))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-3, 5).map(float)), max_size=30), st.integers(1, 9))
def test_map_of_times__holds_so_many_call_paths_and_throws_away_the_smallest(entries, limit):
    expected: dict[int, float] = {}
    for c, x in entries:
        if c in expected or len(expected) < limit:
            expected[c] = expected.get(c, 0.0) + x
        else:
            smallest = min(expected, key=lambda k: (expected[k], k))
            if expected[smallest] < x:
                del expected[smallest]
                expected[c] = x
    assert put(entries, limit) == expected
    assert put_at_once(entries, limit) == {c: x for c, x in expected.items() if x}


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.integers(0, 8), st.integers(1, 9).map(float), max_size=5), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4).map(float)), max_size=6),
    st.lists(
        st.tuples(*[st.integers(0, 6)] * 4, st.integers(-1, 8), st.integers(0, 3).map(float)), min_size=1, max_size=12
    ),
    st.sampled_from([2, 3, 9]),
    st.booleans(),
)
def test_sums_of_intervals__are_those_of_each_by_itself(parts, waits, intervals, limit, prune):
    """Intervals with the same begin as the one before reuse its sums, which must not change the result; waits are
    subtracted from each."""
    entries = [sorted(part.items()) for part in parts]
    begin = np.cumsum([0, *map(len, entries)])
    spent = intervals_of.Entries(
        np.array([c for part in entries for c, _ in part], np.int32),
        np.array([x for part in entries for _, x in part], float),
    )
    waiting = intervals_of.Entries(np.array([c for c, _ in waits], np.int32), np.array([x for _, x in waits], float))

    def summed(chosen, kernel):
        n = len(chosen)
        at = np.array(chosen, float).reshape(n, 6)
        first, stop = begin[np.sort(np.minimum(at[:, :2], len(entries)).astype(np.int64), axis=1)].T
        wait_first, wait_stop = np.sort(np.minimum(at[:, 2:4], len(waits)).astype(np.int64), axis=1).T
        spans = intervals_of.Spans(first, stop, wait_first, wait_stop, at[:, 4].astype(np.int32), at[:, 5].copy())
        out = segments.Maps(np.zeros(n, np.int64), np.zeros(400, np.int32), np.zeros(400))
        assert kernel(0, spans, spent, waiting, prune, empty_sum(9, limit), out) == n
        bounds = zip(np.append(0, out.end[:-1]), out.end, strict=True)
        return [list(zip(out.path[a:b].tolist(), out.value[a:b].tolist(), strict=True)) for a, b in bounds]

    # in any order, and with intervals of the same begin in the order of their ends
    for chosen in (intervals, sorted(intervals, key=lambda i: (min(i[:2]), min(i[2:4]), max(i[:2]), max(i[2:4])))):
        alone = [summed([interval], intervals_of.sum_intervals)[0] for interval in chosen]
        assert summed(chosen, intervals_of.sum_intervals) == alone
        assert summed(chosen, intervals_of.sum_intervals.py_func) == alone
    if limit == 9:
        # the sums themselves, without waits
        interval = (*intervals[0][:2], 0, 0, -1, 0.0)
        low, high = sorted(min(k, len(entries)) for k in interval[:2])
        expected: dict[int, float] = {}
        for part in entries[low:high]:
            for c, x in part:
                expected[c] = expected.get(c, 0.0) + x
        assert summed([interval], intervals_of.sum_intervals)[0] == sorted(expected.items())


@given(st.lists(st.lists(st.integers(0, 9000), unique=True, max_size=60), min_size=1, max_size=4))
@settings(max_examples=50)
def test_sums_of_intervals__are_in_the_order_of_call_paths(parts):
    """Many call paths are sorted by bits, few one by one."""
    spent = intervals_of.Entries(np.array([c for part in parts for c in part], np.int32), np.ones(sum(map(len, parts))))
    paths, counts = np.unique(spent.path, return_counts=True)
    expected = list(zip(paths.tolist(), counts.tolist(), strict=True))
    with np.errstate(over="ignore"):
        for kernel in (intervals_of.sum_intervals, intervals_of.sum_intervals.py_func):
            assert added_up(kernel, spent, empty_sum(9001, 9001), 300) == expected


@pytest.mark.parametrize("n", [3, 200])
def test_segments__have_their_call_paths_in_order_whatever_is_met_first(n):
    """When they are added to a full sum later, it drops the smallest entry, so their order matters."""
    entries = {int(c): float(c % 7 + 1) for c in np.random.default_rng(n).permutation(9000)[:n]}
    sum_, n_paths = empty_sum(9000, n), 0
    for c, x in entries.items():
        n_paths = sums.add_time(c, x, 1, n_paths, sum_)
    out = segments.Maps(np.zeros(1, np.int64), np.zeros(n + 2, np.int32), np.zeros(n + 2))
    with np.errstate(over="ignore"):
        assert segments.take_out(n_paths, sum_, out, 5, 3) == 5 + n
    assert list(zip(out.path[2:].tolist(), out.value[2:].tolist(), strict=True)) == sorted(entries.items())


@given(
    st.lists(st.sets(st.integers(0, 130)), min_size=1, max_size=4),
    st.lists(st.integers(-1, 140), max_size=12),
    st.integers(0, 15),
)
def test_points__are_numbered_by_rank(rows, wanted, ends):
    """Locations have 131 rows each, and some have another point at their end."""
    n = len(rows)
    first_row, has_end = np.arange(n + 1) * 131, np.array([ends >> i & 1 for i in range(n)])
    row = np.array([131 * i + r for i, of in enumerate(rows) for r in sorted(of, reverse=True)], np.int64)
    all_points = [
        (i, r) for i, of in enumerate(rows) for r in [*sorted(131 * i + r for r in of), *["end"] * has_end[i]]
    ]
    real = [k for k, (_, r) in enumerate(all_points) if r != "end"]
    wanted = np.array([w if w < 0 else w % (131 * n) for w in wanted], np.int64)
    for kernel in (lambda f: f, lambda f: np.errstate(over="ignore")(f.py_func)):
        ranks = no_ranks(131 * n + 1)
        kernel(ranking.mark_rows)(row, np.zeros(row.size, np.int32), ranks)
        assert kernel(count_rows)(ranks) == row.size
        of = ranking.Rows(ranks, first_row, np.append(0, np.cumsum(has_end)))
        start, found, last = np.zeros(n + 1, np.int64), np.zeros(wanted.size, np.int64), np.zeros(wanted.size, np.int64)
        kernel(ranking.start_locations)(of, start)
        assert start.tolist() == [sum(i < k for i, _ in all_points) for k in range(n + 1)]
        kernel(ranking.number_rows)(wanted, of, found)
        by_row = {r: k for k, (_, r) in enumerate(all_points) if r != "end"}
        assert found.tolist() == [by_row.get(w, -1) for w in wanted.tolist()]
        kernel(ranking.number_rows_before)(wanted, of, start, last)
        assert last.tolist() == [
            max((k for k in real if w >= 0 and all_points[k][1] < w), default=-1) for w in wanted.tolist()
        ]


def is_in_one(first, stop, bounds):
    """Return whether all rows of some ranges are between the same two adjacent bounds."""
    rows = [row for a, b in zip(first.tolist(), stop.tolist(), strict=True) for row in range(a, b)]
    return any(a <= min(rows, default=a) and max(rows, default=a) < b for a, b in pairwise(bounds))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=20), st.integers(0, 4))
def test_near__has_the_rows_that_are_needed(tmp_path, monkeypatch, ranges, bits):
    columns = Columns(110, {"x": np.arange(110) ** 3, "y": np.arange(110.0)})
    (tmp_path / "columns").unlink(missing_ok=True)
    monkeypatch.setattr(near, "BITS", bits)
    first = np.array([a for a, _ in ranges], np.int64)
    stop = first + np.array([n for _, n in ranges], np.int64)
    spilled = SpilledColumns(columns, {}, tmp_path / "columns")
    in_memory = [columns.take(np.arange(a, b)) for a, b in pairwise((0, 50, 50, 57, 110))]
    pieces = pieced(in_memory)
    assert pieces.search("x", [-1, 0, 49**3 + 1, 57**3, 10**9]).tolist() == [0, 0, 50, 57, 110]
    for source in (columns, spilled, pieces):
        at, (x, y) = near.near_rows(source, first, stop, ("x", "y"), LargeArrays())
        for a, (begin, n) in zip(at.tolist(), ranges, strict=True):
            if n:
                assert x[a : a + n].tolist() == columns.x[begin : begin + n].tolist()
                assert y[a : a + n].tolist() == columns.y[begin : begin + n].tolist()
        found = source.several_at(("y", "x"), np.append(first, -1), -7)
        assert [of.tolist() for of in found] == [[*of[first].tolist(), -7] for of in (columns.y, columns.x)]
        kept = near.KeptTable(SYNC_POINTS, 110, dict.fromkeys(SYNC_POINTS.names, columns.x), {"y": source})
        # read in more than one block
        monkeypatch.setattr(large, "BLOCK", 3)
        assert kept.at("y", first).tolist() == columns.y[first].tolist()
        assert kept.at("location", first).tolist() == columns.x[first].tolist()
        assert kept.rows("y", 7, 200).tolist() == columns.y[7:].tolist()
        for a, b in zip(first.tolist(), stop.tolist(), strict=True):
            some = near.some_rows(source, "y", a, b, LargeArrays())
            assert some.tolist() == columns.y[a:b].tolist()
            if source is pieces and b > a and is_in_one(np.array([a]), np.array([b]), [0, 50, 57, 110]):
                assert any(np.shares_memory(some, piece.y) for piece in in_memory)
        # rows in one piece in memory are not copied
        is_shared = any(x is piece.x for piece in (columns, *in_memory))
        if source is not spilled and is_in_one(first, stop, [0, 110] if source is columns else [0, 50, 57, 110]):
            assert is_shared
        elif not is_shared:
            # at most a group of rows more at both ends of each range
            assert x.size <= min(110, (stop - first).sum() + 2 * ((1 << bits) - 1) * np.count_nonzero(stop > first))


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 31), st.integers(0, 31), st.booleans())
def test_points_between__are_those_at_some_rows_in_the_order_in_which_they_are_found(event, first, stop, by_event):
    rows = {"event": np.array(event, np.int64), "location": np.arange(len(event), dtype=np.int32), "kind": 0}
    found = Synchronisation(NONE, [rows], [], Spill(), by_event).points
    assert len(found) == bool(event)
    some = {"event": np.zeros(0, np.int64), "location": np.zeros(0, np.int32)}
    for part in found:
        some = part.between(first, stop, ["event", "location"])
        assert part.between(first, stop, ["kind"])["kind"].tolist() == [0]
    pairs = list(zip(some["event"].tolist(), some["location"].tolist(), strict=True))
    expected = [(e, i) for i, e in enumerate(event) if first <= e < stop]
    if by_event:
        assert pairs == sorted(expected)
    else:
        assert [pair for pair in pairs if first <= pair[0] < stop] == expected


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("process", [[0], [0, 0, 0], [0, 0, 1, 1, 2], list(range(2000)), [0, 1, 0, 1, 2, 2, 3, 3]])
def test_ranges_of_rows__have_all_rows_and_begin_with_processes(process, jobs):
    n_rows = len(process) * 10
    facts = SimpleNamespace(process=np.array(process), first_rows=np.arange(len(process)) * 10)
    for memory, many in ((None, False), (0, True)):
        n_points = 5 * FEWEST if many else n_rows
        ranges = _ranges_of_rows(facts, n_rows, n_points, LargeArrays(memory).by_threads(jobs))
        assert [*ranges[0][:1], *(stop for _, stop in ranges)] == [*(start for start, _ in ranges), n_rows]
        fewest = max(2 * jobs, 5 if many else 1)
        assert ranges[0][0] == 0 and fewest <= len(ranges) <= RANGES
        if len(ranges) > fewest:
            assert all(process[start // 10] != process[start // 10 - 1] for start, _ in ranges[1:])


@given(st.lists(st.integers(0, 5), max_size=8), st.data())
def test_ranges__are_listed_piece_by_piece(sizes, data):
    start = np.append(0, np.cumsum(sizes)) + 100
    members = np.array(sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1)) if sizes else st.just([]))), np.int64)
    expected = [n for k in members.tolist() for n in range(start[k], start[k + 1])]
    found = Ranges.between(start, members)
    assert len(found) == len(expected)
    # ranges of neighbouring members are one run
    runs = [(range(len(expected))[here], range(10**3)[of]) for here, of in found.runs()]
    assert [k for here, _ in runs for k in here] == [*range(len(expected))]
    assert [n for _, of in runs for n in of] == expected
    assert len(runs) == sum(a + 1 != b for a, b in pairwise([-1, *expected]))
    size = data.draw(st.integers(1, 7))
    for begin in range(0, len(expected), size):
        here = slice(begin, min(begin + size, len(expected)))
        assert found[here].tolist() == expected[here]
        # where each range begins among them
        of, bounds = found.of(here), found.bounds(here, found.of(here))
        for k, low, high in zip(members[of].tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            assert all(start[k] <= n < start[k + 1] for n in found[here][low:high].tolist())


POINT = st.one_of(
    st.tuples(st.just("partner"), st.integers(0, 3)),
    st.tuples(st.just("group"), st.integers(0, 2)),
    st.just(("none", 0)),
)
GROUPS = [[0, 1, 2, 3], [0, 2], [1, 3]]
LISTED = [False, False, True]


@given(st.lists(st.lists(POINT, max_size=8), min_size=1, max_size=3))
def test_last_synchronisation__is_the_last_point_before_with_the_process(locations):
    points = [p for of in locations for p in of]
    n = len(points)
    start = np.cumsum([0, *map(len, locations)])
    partner = np.array([v if k == "partner" else -1 for k, v in points], np.int32)
    group = np.array([v if k == "group" else -1 for k, v in points], np.int32)
    # in any order
    order = np.arange(4 * n)[::-1].copy()
    queries = causes.Queries(order, np.repeat(np.arange(n), 4)[order], np.tile(np.arange(4, dtype=np.int32), n)[order])
    groups = causes.Groups(
        group, np.arange(2), np.array(LISTED), np.cumsum([0, *map(len, GROUPS)]), np.concatenate(GROUPS)
    )
    expected = []
    for of in range(len(locations)):
        for i in range(start[of], start[of + 1]):
            for r in range(4):
                before = [
                    j for j in range(start[of], i) if partner[j] == r or (group[j] >= 0 and r in GROUPS[group[j]])
                ]
                expected.append(max(before, default=-1))
    for kernel in (causes.find_last_synchronisations, causes.find_last_synchronisations.py_func):
        found = np.zeros(4 * n, np.int64)
        kernel(start, partner, groups, queries, np.full(4, -1, np.int64), *np.zeros((2, 3), np.int64), found)
        assert found[order].tolist() == expected


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_amounts__are_those_of_all_rows(dtype):
    of_all = np.array([0, 3, 0, -2, 5, 0], dtype)
    kind = np.array([0, 1, 1, 1, 0, 1], np.int8)
    amounts = Amounts.of(of_all)
    assert amounts.row.tolist() == [1, 3, 4] and amounts.row.dtype == np.int32
    assert amounts.amount.tolist() == [3, -2, 5] and amounts.amount.dtype == dtype
    assert [a.tolist() for a in amounts.positive_of(kind, 1)] == [[1], [3]]
    assert [a.tolist() for a in Amounts.of(np.zeros(3, dtype)).positive_of(kind[:0], 1)] == [[], []]


def test_list_charges__has_own_waits_by_kind_then_later_ones():
    """Of four pairs of kinds 1, 0, 1 and 1, the first has no own charge, but 7 of kind 0 and 8 of kind 1 later."""
    kind, charged = np.array([1, 0, 1, 1], np.int8), np.array([0, 4, 5, 6])
    begin, of_kind = np.array([0, 3, 3, 4, 4], np.int32), np.array([0, 0, 1, 0], np.int8)
    shares = costs.OfPairs(begin, of_kind, np.array([0, 7, 8, 9]))
    for count, write in (
        (costs.count_charges, costs.list_charges),
        (costs.count_charges.py_func, costs.list_charges.py_func),
    ):
        n_of, pair = np.zeros(4, np.int64), np.array([0, 1, 2])
        count(pair, kind, charged, shares, n_of)
        assert n_of.tolist() == [1, 1, 2, 1]
        row, amount = np.zeros(5, np.int32), np.zeros(5, np.int64)
        write(pair, kind, charged, shares, np.cumsum(n_of) - n_of, row, amount)
        assert (row.tolist(), amount.tolist()) == ([1, 2, 0, 2, 0], [4, 5, 7, 9, 8])


def test_amounts__are_put_in_the_order_of_pairs_and_added_up_by_kind():
    """Pair 2 is charged twice with kind 1, the second time after it was processed; pair 0 has no charges."""
    log = [(2, 1, 5), (2, 3, 6), (1, 0, 7), (2, 1, 8)]
    first = costs.Passed(np.array([2, 1, 0], np.int8), *_columns(log[:3]), np.array([3]))
    again = costs.Passed(np.array([0, 0, 1], np.int8), *_columns(log[3:]), np.array([1]))
    for count, place in (
        (groups.reduce_groups, costs.place_amounts),
        (groups.reduce_groups.py_func, costs.place_amounts.py_func),
    ):
        left, given = np.zeros(3, np.int8), [(np.array([2, 1, 0]), first), (np.array([0, 1, 2]), again)]
        for pair, of in given:
            count(pair, of.n, left, groups.SUM)
        begin = np.append(0, np.cumsum(left))
        found = costs.OfPairs(begin, np.zeros(4, np.int8), np.zeros(4, np.int64))
        for pair, of in given:
            place(pair, of, left, found)
        rows = [
            {(p, int(found.kind[i])): int(found.amount[i]) for i in range(begin[p], begin[p + 1]) if found.amount[i]}
            for p in range(3)
        ]
        assert rows == [{}, {(1, 0): 7}, {(2, 1): 13, (2, 3): 6}]


def _columns(log):
    """Return kinds and amounts, with room for one more."""
    return np.array([k for _, k, _ in log] + [0], np.int8), np.array([a for _, _, a in log] + [0])


def test_costs__that_come_after_they_were_to_be_passed_on_are_charged_too():
    """Each of two locations waits for what the other one does after its own wait. Of the wait of 80 of the first pair,
    40 go back to the wait of 100 and so to the second pair, of whose costs 8 and 21 come back."""
    numbers = [np.array(of, np.int32) for of in ([1, 3], [2, 0], [-1, 1])]
    before, wait = np.array([0, 1, 1, 2, 2], np.int32), np.array([100, 80])
    caused = costs.Caused(np.array([5, 6], np.int8), *numbers, np.zeros(0, np.int32), before, wait)
    charged, index = np.array([80, 100]), SimpleNamespace(waits_before=before, start=np.array([0, 2, 4]))
    given = np.array([0, 1], np.int32), caused, np.array([100, 300]), charged, np.zeros(2, np.int64), index
    found = sweep._divided(*given, LargeArrays())
    rows = [{*zip(found.kind[of].tolist(), found.amount[of].tolist(), strict=True)} for of in _each(found.begin)]
    assert (charged.tolist(), rows) == ([40, 79], [{(5, 8), (6, 21)}, {(5, 32)}])
    assert charged.sum() + found.amount.sum() == wait.sum()


def _each(begin):
    """Return the slices between successive begins."""
    return [slice(*of) for of in pairwise(begin.tolist())]


def test_lists_of_amounts__get_wider_numbers_where_they_need_them(monkeypatch):
    monkeypatch.setattr(sweep, "ROOM", 4)
    monkeypatch.setattr(of_points, "NARROW", 5)
    pool = sweep._Pool(3, np.int64, LargeArrays())
    pool.arrays.head[:] = [2, -1, 0]
    assert (pool.arrays.head.dtype, pool.arrays.below.dtype, pool.free) == (np.int32, np.int32, 4)
    pool.arrays.below[:], pool.arrays.state[2] = [1, -1, -1, -1], 4
    pool.grow()
    assert (pool.arrays.head.dtype, pool.arrays.below.dtype, pool.free) == (np.int64, np.int64, 8)
    assert (pool.arrays.head.tolist(), pool.arrays.below[:4].tolist()) == ([2, -1, 0], [1, -1, -1, -1])


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_costs__are_the_same_however_little_room_there_is_at_first(conventions, opened, monkeypatch):
    chosen = ["delay", "waitstates_direct_vs_indirect", "waitstates_propagating_vs_terminal"]
    trace = opened(DATA / "hybrid_2x3")
    once = trace.analyze(conventions, properties=chosen)
    monkeypatch.setattr(sweep, "ROOM", 1)
    singly = trace.analyze(conventions, properties=chosen)
    for name in once.properties.id:
        assert np.array_equal(once.cells[name].key, singly.cells[name].key), name
        assert np.array_equal(once.cells[name].value, singly.cells[name].value), name


@pytest.mark.slow
def test_numbers_of_points__take_eight_bytes_where_there_are_many(monkeypatch):
    # by one set of conventions: nothing else calls these kernels, and they take seconds to compile
    chosen = ["delay", "critical_path", "performance_impact", "waitstates_direct_vs_indirect"]

    def found():
        with late_twice().trace() as trace:
            cube = trace.analyze(properties=chosen)
            return cube, trace.model.with_quirks(CONVENTIONS["exact"].quirks).delay_pairs

    few, pairs = found()
    assert {pairs[c].dtype for c in ("cause", "waiting", "cause_since", "waiting_since")} == {np.dtype(np.int32)}
    monkeypatch.setattr(of_points, "NARROW", 1)
    many, pairs = found()
    assert pairs.cause.dtype == np.int64
    for name in few.properties.id:
        assert np.array_equal(few.cells[name].value, many.cells[name].value), name


def test_charged__properties_are_declared():
    declared = {
        p.id for conventions in ("scalasca", "exact") for p in properties(conventions) if isinstance(p.found, Charged)
    }
    assert declared == {*CHARGED, *DEVICE_CHARGED}
    assert LIMIT == 128


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_kernels__do_the_same_as_plain_python(conventions, tmp_path, monkeypatch):
    store = tracecols.convert(DATA / "omp_basic", tmp_path / "x.trace")
    chosen = ["delay", "critical_path", "performance_impact"]
    compiled = tracecols.open(store).analyze(conventions, properties=chosen)
    for module, names in (
        (edges, ("collect_locations", "collect_with_edges", "collect_segments", "finish_location")),
        (intervals_of, ("sum_intervals", "compare_sides")),
        (ranking, ("mark_rows", "number_rows", "start_locations", "place_points")),
        (costs, ("order_pairs", "scale_costs", "divide_costs", "settle_costs", "count_charges", "list_charges")),
        (costs, ("place_amounts",)),
        (causes, ("find_last_synchronisations", "divide_amounts", "charge_call_paths", "walk_critical_path")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    with np.errstate(over="ignore"):
        plain = tracecols.open(store).analyze(conventions, properties=chosen)
    for name in compiled.properties.id:
        assert np.array_equal(compiled.cells[name].value, plain.cells[name].value), name


@pytest.mark.parametrize("conventions", ["exact", "scalasca"])
def test_idle_threads__of_a_team_that_never_joins_cost_the_same_in_any_partition(conventions, monkeypatch):
    """Where no location of a partition has a JOIN, idle intervals began elsewhere."""
    program = Program(processes=2, threads=3)
    program.masters[0].enter(0, "main").fork(1).join(90).leave(91)
    program.masters[1].enter(3, "MPI_Init").fork(17).begin_team(18).enter(18, "!$omp parallel @a.c:1")
    with program.trace() as trace:
        whole = trace.analyze(conventions).cells["delay_ompidle"]
        monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
        divided = trace.analyze(conventions).cells["delay_ompidle"]
    assert (whole.key.tolist(), whole.value.tolist()) == (divided.key.tolist(), divided.value.tolist())
