"""Root causes by the conventions of Scalasca: delay costs, critical path, impact and imbalance (docs/root-causes.md),
and the table of waits.

Whole traces are compared with the reference in test_references.py; here stand a program worked out by hand, and what
must hold. The conventions `exact`, which are the default, are those of test_exact.py.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from otf2_writer import Archive

import tracecols
from tracecols.causes import points as of_points
from tracecols.causes import sweep
from tracecols.causes.quirks import OF_SCALASCA
from tracecols.causes.segments import LIMIT, open_map
from tracecols.causes.sweep import Amounts
from tracecols.errors import TracecolsError
from tracecols.kernels import causes, segments
from tracecols.patterns.found_by import Charged
from tracecols.patterns.registry import CONVENTIONS
from tracecols.schema import EventKind as K
from tracecols.schema.causes import CHARGED, DELAY_IDS, POINTS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.testing import Program, severities

KEPT = sorted(p.parent for p in DATA.glob("*/reference.parquet"))


def late_twice():
    """Return three ranks: 0 computes for long and lets 1 wait, which lets 2 wait.

    rank 0: A 1..11, MPI_Send 11..12 to 1. rank 1: A 1..5, MPI_Recv 5..12 from 0, B 12..14, MPI_Send 14..15 to 2. rank
    2: A 1..4, MPI_Recv 4..15 from 1. MPI_Init is 0..1, MPI_Finalize ends at 20.
    """
    program = Program(processes=3)
    first, second, third = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1).enter(1, "A")
    first.leave(11).enter(11, "MPI_Send").send(11, to=1).leave(12).enter(12, "MPI_Finalize").leave(20).leave(20)
    second.leave(5).enter(5, "MPI_Recv").receive(12, source=0).leave(12).enter(12, "B").leave(14)
    second.enter(14, "MPI_Send").send(14, to=2).leave(15).enter(15, "MPI_Finalize").leave(20).leave(20)
    third.leave(4).enter(4, "MPI_Recv").receive(15, source=1).leave(15).enter(15, "MPI_Finalize").leave(20).leave(20)
    return program


A, B, RECV, SEND, INIT, FINALIZE = (f"main/{n}" for n in ("A", "B", "MPI_Recv", "MPI_Send", "MPI_Init", "MPI_Finalize"))

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
    # back from rank 1, which enters MPI_Finalize last with rank 2 but has the lower rank
    "critical_path": {(RECV, 1): 1, (B, 1): 2, (SEND, 1): 1, (A, 0): 10, (INIT, 0): 1},
    # r = (15 - 17) / 3, (15 - 14) / 6, (15 - 10) / 10 by rank; lacking of A 0, 6, 7; of MPI_Recv 1, 0, 0; ...
    "critical_imbalance_impact": {(A, 0): 4.5, (SEND, 1): 0.5},
    # rank 1 has been everywhere: the reference divides by zero
    "inter_partition_imbalance": {},
    "intra_partition_imbalance": {(A, 0): 4.5, (SEND, 1): 0.5},
    "critical_path_activities": {
        (INIT, 0): 1, (INIT, 1): 1, (INIT, 2): 1, (A, 0): 10, (A, 1): 4, (A, 2): 3, (SEND, 0): 1, (SEND, 1): 1,
        (RECV, 1): 1, (RECV, 2): 1, (B, 1): 2,
    },
    "non_critical_path_activities": {(FINALIZE, 0): 5, (FINALIZE, 1): 5, (FINALIZE, 2): 5},
    # of A on the path 10, the mean of 10 + 4 + 3
    "critical_path_imbalance": {(A, 0): 10 - 17 / 3, (B, 1): 2 - 2 / 3, (RECV, 1): 1 - 2 / 3, (SEND, 1): 1 - 2 / 3},
    # computation of A is 10, 4, 3 and of B 0, 2, 0
    "imbalance_above": {(A, 0): 10 - 17 / 3, (B, 1): 2 - 2 / 3},
    "imbalance_above_single": {(B, 1): 2 / 3 * 2},
    "imbalance_below_singularity": {(B, 0): 2 / 3, (B, 2): 2 / 3},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("name", WORKED_OUT)
def test_root_causes__are_those_worked_out_by_hand(name, divided, monkeypatch):
    if divided:
        monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    with late_twice().trace() as trace:
        found = severities(trace.analyze("scalasca"), name)
    # thirds are no binary fractions
    assert found == pytest.approx(WORKED_OUT[name], abs=1e-12)


def test_delays__cost_as_much_as_is_waited():
    with late_twice().trace() as trace:
        cube = trace.analyze("scalasca")
    assert cube.total("delay") == pytest.approx(cube.total("mpi_latesender"))


def test_locations_without_events__do_not_end_at_a_point():
    """They ended at time 0, where nothing was recorded, which is later than all events if these have negative times."""
    program = Program(processes=2)
    first = program.masters[0]
    first.enter(-9, "main").enter(-9, "MPI_Init").leave(-8).leave(-1)
    with program.trace() as trace:
        points = trace.frame("sync_points", raw=True, conventions="scalasca")
        cube = trace.analyze("scalasca")
    assert points.location.tolist() == [0, 0] and points.kind.tolist() == [POINTS.index(k) for k in ("MPI_Init", "end")]
    assert cube.total("critical_path") > 0


def test_critical_path__is_as_long_as_from_start_to_end_of_mpi():
    with late_twice().trace() as trace:
        cube = trace.analyze("scalasca")
    assert cube.total("critical_path") == 15


def test_root_causes__of_large_traces_are_computed_only_when_asked_for(monkeypatch):
    monkeypatch.setattr("tracecols.search.limits.MOST_CALLS", 5)
    with late_twice().trace() as trace:
        cube = trace.analyze()
        assert not {"delay", "delay_latesender", "critical_path", "performance_impact"} & set(cube.properties.id)
        assert {"mpi_latesender", "imbalance"} <= set(cube.properties.id)
        (n,) = [n for note, n in cube.facts["counts"].items() if "root causes" in note]
        assert n > 5
        asked = trace.analyze(properties=["delay_latesender"])
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
    """Two processes of which only the first calls `solo`."""
    program = Program(processes=2)
    first, second = program.masters
    first.enter(0, "main").enter(0, "solo").leave(10).leave(20)
    second.enter(0, "main").leave(20)
    return program


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_imbalance__of_call_paths_counts_unless_an_openmp_region_is_entered(conventions):
    # solo: 10 ticks of one of two processes, 5 on average
    with defines(in_solo(), "!$omp parallel @a.c:1").trace() as trace:
        cube = trace.analyze(conventions)
    assert severities(cube, "imbalance_below_bypass") == {("main/solo", 1): 5}
    assert severities(cube, "imbalance_below_singularity") == {("main/solo", 1): 5}
    assert severities(cube, "imbalance_above_single") == {("main/solo", 0): 5}
    program = in_solo()
    program.masters[0].enter(20, "!$omp parallel @a.c:1").leave(21)
    with program.trace() as trace:
        cube = trace.analyze(conventions)
    assert ("main/solo", 1) not in severities(cube, "imbalance_below_bypass")


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_delays__exist_for_the_paradigms_whose_regions_are_entered(conventions):
    of_mpi, of_openmp = {"delay_mpi", "waitstates_propagating_vs_terminal"}, {"delay_omp"}
    with defines(late_twice(), "!$omp parallel @a.c:1").trace() as trace:
        found = set(trace.analyze(conventions).properties.id)
    assert of_mpi <= found
    assert not of_openmp & found
    program = defines(Program(processes=1), "MPI_Send")
    program.masters[0].enter(0, "main").enter(1, "!$omp parallel @a.c:1").leave(3).leave(4)
    with program.trace() as trace:
        found = set(trace.analyze(conventions).properties.id)
    assert of_openmp <= found
    assert not of_mpi & found


def imbalance_of_path(cube, waits):
    """Return the imbalance of a critical path by its formula (docs/root-causes.md), with the waits that are named."""
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


def test_imbalance_of_the_critical_path__takes_no_wait_for_work(archive, analyze):
    # the first waits 50 of its 65 ticks in MPI_Wait for the second to start the operation
    mpi = archive.mpi(2)
    for rank, start, done in zip(mpi.ranks, (10, 70), (75, 90), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Iallreduce").record(start, "NonBlockingCollectiveRequest", request=1)
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
        path = trace.critical_path("scalasca")
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
def test_critical_path__goes_on_where_it_ends_and_is_as_long_as_its_cells(folder, tmp_path):
    trace = tracecols.open(tracecols.convert(folder, tmp_path / "x.trace"))
    path = trace.critical_path("scalasca")
    assert (path.begin_time.to_numpy()[1:] == path.end_time.to_numpy()[:-1]).all()
    cells = trace.analyze("scalasca", properties=["critical_path"]).cells["critical_path"]
    assert (path.end_time - path.begin_time).sum() == pytest.approx(cells.value.sum(), rel=1e-9)
    # location by location
    on = np.bincount(path.location, path.end_time - path.begin_time, trace.manifest["n_locations"])
    assert on == pytest.approx(np.bincount(cells.location, cells.value, on.size), rel=1e-9, abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_root_causes__do_not_depend_on_partitions_threads_and_memory(folder, tmp_path, monkeypatch):
    store = tracecols.convert(folder, tmp_path / "x.trace")
    whole = tracecols.open(store, jobs=2).analyze()
    for module, name, value in (
        ("enhance.dataflow.partitions", "PARTITION_ROWS", 1),
        ("enhance.mpi.collectives", "BUCKET_ROWS", 5),
        ("enhance.dataflow.spill", "BUDGET", 0),
        ("enhance.scan.scan", "BATCH", 97),
        ("enhance.scan.scan", "WAVE", 97),
    ):
        monkeypatch.setattr(f"tracecols.{module}.{name}", value)
    divided = tracecols.open(store, jobs=1).analyze()
    for name in whole.properties.id:
        assert np.array_equal(whole.cells[name].key, divided.cells[name].key), name
        # bit for bit, although these are floating-point numbers
        assert np.array_equal(whole.cells[name].value, divided.cells[name].value), name


@pytest.mark.slow
@pytest.mark.parametrize("folder", KEPT, ids=lambda p: p.name)
def test_laws__hold_on_recorded_traces(folder, tmp_path):
    trace = tracecols.open(tracecols.convert(folder, tmp_path / "x.trace"))
    cube, model = trace.analyze("scalasca"), trace.model.with_quirks(OF_SCALASCA)
    points, pairs = model.sync_points, model.delay_pairs
    tiny = 1e-9 * cube.resolution

    # what does not lie on the critical path and what does is the time without waits
    own = model.get("own_times")
    together = cube.cells["critical_path_activities"] + cube.cells["non_critical_path_activities"]
    assert together.value.sum() == pytest.approx(own.time.sum() * cube.resolution)

    # waits are divided completely
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

    # costs are waits: none is charged twice; what the reference loses is told in docs/root-causes.md
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


def test_charges__keep_fractions_of_ticks_in_every_file(tmp_path):
    """A clock that ticks once a second: 4.5 seconds are no whole number of ticks."""
    with late_twice().trace() as trace:
        cube = trace.analyze("scalasca")
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
        assert "segments" not in trace.model._values
        trace.analyze(properties=["delay_latesender"])
        assert "segments" in trace.model._values


def test_pthreads__have_an_imbalance_but_no_root_causes():
    """A program without MPI and OpenMP is not replayed by the reference."""
    program = Program(processes=1, threads=2)
    for thread in program.locations:
        thread.enter(0, "main").enter(1, "work").leave(3).leave(4)
    with program.trace() as trace:
        cube = trace.analyze("scalasca")
    assert not {"delay", "critical_path", "performance_impact"} & set(cube.properties.id)
    assert "imbalance" in cube.properties.id


def test_titles__of_waits_mean_the_waits_and_not_their_root_causes():
    with late_twice().trace() as trace:
        cube = trace.analyze()
    assert cube.find_property("Late Sender") == "mpi_latesender"
    assert cube.find_property("Delay costs") == "delay"
    with pytest.raises(TracecolsError, match="have the title 'Short-term'"):
        cube.find_property("Short-term")


# -- tables that know who
# ---------------------------------------------------------------------------------------------------


def test_messages__know_the_events_that_complete_the_send_and_post_the_receive(tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    mpi = archive.mpi(2)
    with mpi.ranks[0] as rank:
        rank.enter(0, "MPI_Isend").isend(1, 1, mpi.world, request=7).leave(2, "MPI_Isend")
        rank.enter(3, "MPI_Wait").isend_complete(4, 7).leave(5, "MPI_Wait")
    with mpi.ranks[1] as rank:
        rank.enter(0, "MPI_Irecv").irecv_request(1, 3).leave(2, "MPI_Irecv")
        rank.enter(3, "MPI_Wait").irecv(6, 0, mpi.world, request=3).leave(7, "MPI_Wait")
    trace = tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace"))
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
def test_waits__add_up_to_the_severities(folder, tmp_path):
    trace = tracecols.open(tracecols.convert(folder, tmp_path / "x.trace"))
    cube, waits = trace.analyze(), trace.waits
    assert set(waits.property) == {p for p in set(waits.property) if p in cube.cells}
    for name, of in waits.groupby("property", observed=True):
        assert int((of.end_time - of.begin_time).sum()) == int(cube.cells[name].value.sum())
    # nobody waits for himself, nor longer than until the cause has come
    assert (waits.cause_location != waits.location).all()
    assert (waits.cause_time >= waits.end_time).all()


# -- kernels
# ----------------------------------------------------------------------------------------------------------------


def put(entries, limit, add):
    """Add entries to a map of so many call paths one after the other."""
    slot, path, value, floor = np.full(9, -1, np.int16), np.zeros(limit, np.int32), np.zeros(limit), np.zeros(1)
    n = 0
    for c, x in entries:
        n = add(c, x, n, slot, path, value, floor)
        assert floor[0] <= value[:n].min()
    return {int(path[i]): float(value[i]) for i in range(n)}


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-3, 5).map(float)), max_size=30), st.integers(1, 9))
@settings(deadline=None)
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
    assert put(entries, limit, segments.add) == expected
    assert put(entries, limit, segments.add.py_func) == expected


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
@settings(deadline=None)
def test_sums_of_intervals__are_those_of_each_by_itself(parts, waits, intervals, limit, prune):
    """Intervals that begin where the one before begins go on with its sums: that changes nothing, and waits are taken
    off each."""
    entries = [sorted(part.items()) for part in parts]
    spent = segments.Maps(
        np.cumsum([len(part) for part in entries]),
        np.array([c for part in entries for c, _ in part], np.int32),
        np.array([x for part in entries for _, x in part], float),
    )
    wait_path, wait = np.array([c for c, _ in waits], np.int32), np.array([x for _, x in waits], float)

    def sums(chosen, kernel):
        n = len(chosen)
        at = np.array(chosen, float).reshape(n, 6)
        first, stop = np.sort(np.minimum(at[:, :2], len(entries)).astype(np.int64), axis=1).T
        wait_first, wait_stop = np.sort(np.minimum(at[:, 2:4], len(waits)).astype(np.int64), axis=1).T
        inside = segments.Inside(wait_first, wait_stop, at[:, 4].astype(np.int32), at[:, 5].copy(), wait_path, wait)
        out = segments.Maps(np.zeros(n, np.int64), np.zeros(400, np.int32), np.zeros(400))
        waited, filling = np.zeros(9), open_map(np.float64, 9, limit)
        assert kernel(0, first, stop, inside, prune, spent, filling, waited, out) == n
        assert not waited.any() and (filling.slot == -1).all()  # as it was found
        bounds = zip(np.append(0, out.end[:-1]), out.end, strict=True)
        return [list(zip(out.path[a:b].tolist(), out.value[a:b].tolist(), strict=True)) for a, b in bounds]

    # those that begin together in the order in which they end, and in any
    for chosen in (intervals, sorted(intervals, key=lambda i: (min(i[:2]), min(i[2:4]), max(i[:2]), max(i[2:4])))):
        alone = [sums([interval], segments.sum_intervals)[0] for interval in chosen]
        assert sums(chosen, segments.sum_intervals) == alone
        assert sums(chosen, segments.sum_intervals.py_func) == alone
    if limit == 9:
        # the sums themselves, of call paths without waits
        interval = (*intervals[0][:2], 0, 0, -1, 0.0)
        low, high = sorted(min(k, len(entries)) for k in interval[:2])
        expected: dict[int, float] = {}
        for part in entries[low:high]:
            for c, x in part:
                expected[c] = expected.get(c, 0.0) + x
        assert sums([interval], segments.sum_intervals)[0] == sorted(expected.items())


POINT = st.one_of(
    st.tuples(st.just("partner"), st.integers(0, 3)),
    st.tuples(st.just("group"), st.integers(0, 2)),
    st.just(("none", 0)),
)
GROUPS = [[0, 1, 2, 3], [0, 2], [1, 3]]
LISTED = [False, False, True]


@given(st.lists(st.lists(POINT, max_size=8), min_size=1, max_size=3))
@settings(deadline=None)
def test_last_synchronisation__is_the_last_point_before_with_the_process(locations):
    points = [p for of in locations for p in of]
    n = len(points)
    start = np.cumsum([0, *map(len, locations)])
    partner = np.array([v if k == "partner" else -1 for k, v in points], np.int32)
    group = np.array([v if k == "group" else -1 for k, v in points], np.int32)
    query_start, query_process = np.arange(n + 1) * 4, np.tile(np.arange(4, dtype=np.int32), n)
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
        kernel(
            start,
            partner,
            group,
            np.array(LISTED),
            np.cumsum([0, *map(len, GROUPS)]),
            np.concatenate(GROUPS),
            query_start,
            query_process,
            np.full(4, -1, np.int64),
            np.zeros(3, np.int64),
            np.zeros(3, np.int64),
            found,
        )
        assert found.tolist() == expected


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_amounts__are_those_of_all_rows(dtype):
    of_all = np.array([0, 3, 0, -2, 5, 0], dtype)
    kind = np.array([0, 1, 1, 1, 0, 1], np.int8)
    amounts = Amounts.of(of_all)
    assert amounts.row.tolist() == [1, 3, 4] and amounts.row.dtype == np.int32
    for rows, expected in (([0, 1, 2, 4], ([1, 3], [3, 5])), ([2, 5], ([], [])), ([3], ([0], [-2])), ([], ([], []))):
        at, amount = amounts.among(np.array(rows, np.int64))
        assert (at.tolist(), amount.tolist()) == expected and amount.dtype == dtype
    assert [a.tolist() for a in amounts.positive_of(kind, 1)] == [[1], [3]]
    nothing = Amounts.of(np.zeros(3, dtype))
    assert [a.tolist() for a in nothing.among(np.arange(3))] == [[], []]


@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_costs__are_the_same_however_many_kinds_are_carried_back_at_a_time(conventions, tmp_path, monkeypatch):
    chosen = ["delay", "waitstates_direct_vs_indirect", "waitstates_propagating_vs_terminal"]
    trace = tracecols.open(tracecols.convert(DATA / "hybrid_2x3", tmp_path / "x.trace"))
    once = trace.analyze(conventions, properties=chosen)
    monkeypatch.setattr(sweep, "COSTS", 1)
    singly = trace.analyze(conventions, properties=chosen)
    for name in once.properties.id:
        assert np.array_equal(once.cells[name].key, singly.cells[name].key), name
        assert np.array_equal(once.cells[name].value, singly.cells[name].value), name


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_numbers_of_points__take_eight_bytes_where_there_are_many(conventions, monkeypatch):
    chosen = ["delay", "critical_path", "performance_impact", "waitstates_direct_vs_indirect"]

    def found():
        with late_twice().trace() as trace:
            cube = trace.analyze(conventions, properties=chosen)
            return cube, trace.model.with_quirks(CONVENTIONS[conventions].quirks).delay_pairs

    few, pairs = found()
    assert {pairs[c].dtype for c in ("cause", "waiting", "cause_since", "waiting_since")} == {np.dtype(np.int32)}
    monkeypatch.setattr(of_points, "NARROW", 1)
    many, pairs = found()
    assert pairs.cause.dtype == np.int64
    for name in few.properties.id:
        assert np.array_equal(few.cells[name].value, many.cells[name].value), name


def test_charged__properties_are_declared():
    from tracecols.patterns.registry import properties

    declared = {
        p.id for conventions in ("scalasca", "exact") for p in properties(conventions) if isinstance(p.found, Charged)
    }
    assert declared == set(CHARGED)
    assert LIMIT == 128


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "exact"])
def test_kernels__do_the_same_as_plain_python(conventions, tmp_path, monkeypatch):
    store = tracecols.convert(DATA / "omp_basic", tmp_path / "x.trace")
    chosen = ["delay", "critical_path", "performance_impact"]
    compiled = tracecols.open(store).analyze(conventions, properties=chosen)
    for module, names in (
        (segments, ("collect_segments", "sum_intervals")),
        (causes, ("find_last_synchronisations", "subtract_maps", "order_nodes", "scale_costs", "walk_critical_path")),
        (causes, ("divide_costs", "divide_amounts", "charge_call_paths")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
    with np.errstate(over="ignore"):
        plain = tracecols.open(store).analyze(conventions, properties=chosen)
    for name in compiled.properties.id:
        assert np.array_equal(compiled.cells[name].value, plain.cells[name].value), name
