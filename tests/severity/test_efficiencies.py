"""Efficiencies: worked out by hand for a few calls, identities on recorded traces, and refused requests."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.command_line import executed, run
from support.efficiencies import check_identities, values
from support.severities import cube_of
from support.small_cubes import small_cube

import tracecols
from tracecols.errors import AnalysisError, SeverityError
from tracecols.export.tables import export
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.report.diagnosis import duration
from tracecols.report.efficiency import render
from tracecols.report.text import value_in_words
from tracecols.report.viewer.overview import overview
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.severity import SeverityCube
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.diagnosis import factors, lowest
from tracecols.severity.efficiencies import (
    Requirement,
    RunTimes,
    failures,
    is_of_several,
    metrics,
    scaling,
    tabulate,
    times_of,
)
from tracecols.testing import Program

PARALLEL, BARRIER = "!$omp parallel @a.c:1", "!$omp implicit barrier @a.c:9"


def barrier_after(*computing, start=0, stop=100):
    """Let every rank compute for a time, and then wait in a barrier until the end."""
    program = Program(len(computing))
    for one, seconds in zip(program.masters, computing, strict=True):
        one.enter(0, "main")
        if start:
            one.enter(0, "MPI_Init").leave(start)
        begin = start + seconds
        one.enter(begin, "MPI_Barrier").begin_collective(begin).end_collective(start + stop, "barrier").leave(
            start + stop
        )
        if start:
            one.enter(start + stop, "MPI_Finalize").leave(start + stop + 10)
        one.leave(start + stop + (10 if start else 0))
    return program


def team(master, workers, begin, stops, end):
    """Run a parallel region on some threads, each of which computes until its time of `stops`."""
    threads = [master, *workers]
    master.fork(begin)
    for one, stop in zip(threads, stops, strict=True):
        one.begin_team(begin).enter(begin, PARALLEL).enter(stop, BARRIER).leave(end).leave(end).end_team(end)
    master.join(end)


def hybrid():
    """Two processes with two threads: both compute for 40 s, the second master for 40 s more, then a barrier."""
    program = Program(2, 2)
    for i, barrier in ((0, 40), (1, 80)):
        master, worker = program.locations[2 * i : 2 * i + 2]
        master.enter(0, "main")
        team(master, [worker], 0, (40, 40), 40)
        master.enter(barrier, "MPI_Barrier").begin_collective(barrier).end_collective(100, "barrier").leave(100).leave(
            100
        )
    return program


# -- by hand -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 10], ids=["without MPI_Init", "MPI_Init and MPI_Finalize are left out"])
def test_mpi__load_balance_and_communication_of_a_barrier(start):
    # 60 and 80 of 100 s: mean 70, largest 80; the first waits 20 s for the second, then both take 20 s to transfer
    table = cube_of(barrier_after(60, 80, start=start)).efficiencies()
    run, mpi = values(table, "run"), values(table, "mpi")
    assert (run["runtime"], run["useful_mean"], run["useful_max"], run["ideal_runtime"]) == (100, 70, 80, 80)
    assert mpi == pytest.approx(
        {
            "parallel_efficiency": 0.7,
            "load_balance": 0.875,
            "communication_efficiency": 0.8,
            "serialisation_efficiency": 1.0,
            "transfer_efficiency": 0.8,
        }
    )
    by = table.set_index(["model", "metric"])["by"]
    assert by["mpi", "transfer_efficiency"] == "replay"
    assert by["run", "runtime"] == ("MPI_Init to MPI_Finalize" if start else "whole run")
    # a program without OpenMP has no rows of it
    assert set(table.model) == {"run", "mpi", "computation"}


def test_mpi__without_its_start_the_runtime_is_that_of_the_run():
    # no process is recorded from the first event to the last
    program = Program(2)
    first, second = program.masters
    first.enter(0, "main").enter(60, "MPI_Send").send(60, to=1).leave(61).leave(70)
    second.enter(30, "main").enter(40, "MPI_Recv").receive(61, source=0).leave(61).leave(100)
    with program.trace() as trace:
        got = trace.analyze(ideal_network=True).efficiencies().set_index(["model", "metric"]).value
        # the receive ends when the send begins
        assert (got["run", "runtime"], got["run", "ideal_runtime"]) == (trace.what_if().runtime, 99) == (100, 99)
        divided = trace.analyze(bins=2).efficiencies().set_index("metric").value
    assert (got["mpi", "transfer_efficiency"], divided["runtime"]) == (pytest.approx(0.99), 100)


def test_openmp__serial_part_and_unequal_threads():
    program = Program(1, 2)
    master, worker = program.locations
    master.enter(0, "main")
    team(master, [worker], 20, (50, 60), 60)
    master.leave(100)
    # useful 20 + 30 + 40 and 40 s; nothing is MPI, so all that is lost is OpenMP's
    table = cube_of(program).efficiencies()
    both = values(table, "hybrid multiplicative")
    # a program without MPI has no rows of it
    assert not [m for m in table.metric if "mpi" in m.split("_") or m.startswith(("process_", "transfer"))]
    assert both["openmp_parallel_efficiency"] == both["parallel_efficiency"] == pytest.approx(0.65)
    assert both["openmp_load_balance"] == pytest.approx(65 / 90)
    # the worker idles for 60 serial s: 30 s per thread on average; in the region 5 s per thread on average
    added = values(table, "hybrid additive")
    assert added["thread_efficiency"] == pytest.approx(0.65)
    assert added["amdahl_efficiency"] == pytest.approx(0.7)
    assert added["openmp_region_efficiency"] == pytest.approx(0.95)


def test_hybrid__both_models():
    table = cube_of(hybrid()).efficiencies()
    # useful 40, 40, 80, 40; outside MPI 40, 40, 80, 80: the worker idles in MPI_Barrier as long as its master is there
    assert values(table, "hybrid multiplicative") == pytest.approx(
        {
            "parallel_efficiency": 0.5, "mpi_parallel_efficiency": 0.6, "mpi_load_balance": 0.75,
            "mpi_communication_efficiency": 0.8, "mpi_serialisation_efficiency": 1.0, "mpi_transfer_efficiency": 0.8,
            "openmp_parallel_efficiency": 0.5 / 0.6, "openmp_load_balance": 0.625 / 0.75,
            "openmp_communication_efficiency": 1.0,
        }
    )  # fmt: skip
    # in regions 40, serial 0 and 40: mean 60, largest 80; the worker lacks 40 s of one process: 10 of each thread
    assert values(table, "hybrid additive") == pytest.approx(
        {
            "parallel_efficiency": 0.5, "process_efficiency": 0.6, "process_load_balance": 0.8,
            "process_communication_efficiency": 0.8, "process_serialisation_efficiency": 1.0,
            "process_transfer_efficiency": 0.8, "thread_efficiency": 0.9, "amdahl_efficiency": 0.9,
            "openmp_region_efficiency": 1.0,
        }
    )  # fmt: skip


def test_single_process__is_as_efficient_as_can_be():
    program = Program()
    program.masters[0].enter(0, "main").leave(50)
    table = cube_of(program).efficiencies()
    assert (table[table.unit == "share"]["value"] == 1).all()


UNEVEN = RunTimes(
    20.0, np.array([5.0, 5, 5]), np.array([10.0, 10, 5]), np.array([0, 0, 1]), np.array([10.0, 10, 5]), np.zeros(3), 20.0, "approximation", "whole run"
)  # fmt: skip
"""Processes with two threads and with one; all threads compute for 5 s, and are outside MPI for 10 and 5 s."""


def test_openmp_load_balance__above_one_is_explained_where_it_stands():
    found = {m.metric: m for m in metrics(UNEVEN)}
    # load balance 5 / 5, MPI load balance (25 / 3) / 10
    assert found["openmp_load_balance"].value == pytest.approx(1.2)
    words = "threads share computation more evenly than processes share the time outside MPI"
    shown = "".join(map(str, render([tabulate(UNEVEN)], ["run"], None)))
    assert f"OpenMP load balance above 100 %: {words}" in shown and shown.count("above 100 %") == 1

    cube = cube_of(Program(processes=2, threads=1))
    d = replace(cube.diagnosis(), efficiencies=tuple(metrics(UNEVEN)), has_teams=True)
    assert "120.0% *" in d.text() and f"* above 100 %: {words}" in d.text() and words in d._repr_html_()
    assert words in overview(cube, d)["efficiency_lines"][0]
    assert "above 100 %" not in cube.diagnosis().text()


def test_one_process__has_nothing_that_is_about_several():
    alone = replace(
        UNEVEN,
        useful=np.array([5.0]),
        outside=np.array([20.0]),
        process=np.zeros(1, np.int64),
        openmp=np.zeros(1),
        serial=np.array([5.0]),
    )
    shown = "".join(map(str, render([tabulate(alone)], ["run"], None, ["run"])))
    assert "what is about several processes is left out" in shown and "ideal network" not in shown
    kept = [m.metric for m in metrics(alone) if not is_of_several(m.metric)]
    assert not {"serialisation_efficiency", "mpi_load_balance", "process_load_balance"} & set(kept)
    # the values shown still add up
    values = {m.metric: m.value for m in metrics(alone)}
    assert {"process_efficiency", "thread_efficiency"} <= set(kept)
    assert values["process_efficiency"] + values["thread_efficiency"] - 1 == pytest.approx(
        values["parallel_efficiency"]
    )

    program = Program(processes=1)
    program.locations[0].enter(0, "main").enter(2, "MPI_Barrier").leave(8).leave(10)
    d = cube_of(program).diagnosis()
    assert d.lowest == "communication_efficiency"
    assert "transfer_efficiency" not in factors(d.efficiencies, d.has_teams)
    assert "one process: communication is all that is not computation" in d.text() and "ideal network" not in d.text()


def test_trace_without_events__has_a_diagnosis_that_can_be_read():
    text = cube_of(Program(processes=1)).diagnosis().text()
    assert "There is nothing to find: no thread has any time" in text
    assert "lowest" not in text and "nan" not in text and "0.5 %" not in text


def test_durations__that_are_short_are_not_shown_as_zero():
    assert [duration(s) for s in (1.4e-7, 2.5e-6, 0.0, 0.000123)] == ["140 ns", "2.5 us", "0.00 s", "0.000123 s"]
    assert value_in_words(1.4e-7, "sec") == "140 ns" and value_in_words(0.0, "sec") == "0.000000 s"


@pytest.mark.parametrize(
    ("value", "unit", "sign", "words"),
    [
        (1234.5, "sec", "", "1,234.500000 s"), (-2e-6, "sec", "+", "-2 us"), (2e-6, "sec", "+", "+2 us"),
        (3.29e-5, "sec/occ", "", "32.9 us"), (0.0, "sec/occ", "", "0.000000 s"), (3214.0, "occ", "", "3,214"),
        (32145.5, "occ", "", "32,146"), (2.5, "bytes/occ", "", "2.5 bytes"), (30816.0, "bytes", "+", "+30,816 bytes"),
        (7.0, "#", "", "7"), (-14.0, "sec/1", "", "-14 sec/1"), (float("nan"), "sec", "", "-"),
    ],
)  # fmt: skip
def test_value__is_written_with_its_unit(value, unit, sign, words):
    assert value_in_words(value, unit, sign) == words


def test_within__is_of_a_region_and_what_it_calls():
    program = Program(2)
    for one, seconds in zip(program.masters, (30, 40), strict=True):
        one.enter(0, "main").enter(10, "solve").enter(10 + seconds, "MPI_Barrier").begin_collective(10 + seconds)
        one.end_collective(60, "barrier").leave(60).leave(60).leave(90)
    mpi = values(cube_of(program).efficiencies(within="solve", ideal="approximation"), "mpi")
    assert mpi["parallel_efficiency"] == pytest.approx(35 / 50)
    assert mpi["load_balance"] == pytest.approx(35 / 40)
    assert mpi["transfer_efficiency"] == pytest.approx(0.8)


def test_counters__of_computation_only():
    cells = {("main", 0, 0): 10.0, ("main/MPI_Send", 0, 0): 5.0}
    counted = {("main", 0, 0): 400, ("main/MPI_Send", 0, 0): 77}
    cycles = {("main", 0, 0): 200, ("main/MPI_Send", 0, 0): 55}
    cube = small_cube(
        {
            "time": {k: int(1000 * v) for k, v in cells.items()},
            "execution": {k: int(1000 * v) for k, v in cells.items()},
            "comp": {("main", 0, 0): 10000},
            "PAPI_TOT_INS": counted,
            "PAPI_TOT_CYC": cycles,
        },
        units={"PAPI_TOT_INS": "#", "PAPI_TOT_CYC": "#"},
        parents={"execution": "time", "comp": "execution"},
    )
    computation = values(cube.efficiencies(), "computation")
    assert computation == {"useful_total": 10, "instructions": 400, "cycles": 200, "frequency": 20, "ipc": 2}


# -- identities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["late_sender", "coll", "hybrid_2x3", "omp_basic"])
def test_identities__hold_on_recorded_traces(data, opened, name):
    cube = opened(data / name).analyze()
    table = cube.efficiencies()
    check_identities(table)
    shares = table[table.unit == "share"]["value"]
    assert ((shares > 0) & (shares <= 1 + 1e-12)).all()


@pytest.mark.parametrize("ending", [".cubex", ".cube"])
def test_cubes_of_other_formats__have_the_same_efficiencies(data, opened, tmp_path, ending):
    cube = opened(data / "hybrid_2x3").analyze()
    export(cube.save(tmp_path / "x.severity"), tmp_path / f"x{ending}")
    other = tracecols.read_cube(tmp_path / f"x{ending}").efficiencies()
    # other formats exclude time outside of the focus only by call path
    table = cube.replaced(outside=None).efficiencies()
    assert other["metric"].tolist() == table["metric"].tolist()
    assert other["value"].tolist() == pytest.approx(table["value"].tolist(), rel=1e-9)


# -- several runs ------------------------------------------------------------------------------------------------------


def run_table(threads, runtime, useful, instructions, cycles):
    metrics = {
        "processes": threads, "threads": threads, "runtime": runtime, "parallel_efficiency": useful / threads / runtime,
        "useful_total": useful, "instructions": instructions, "ipc": instructions / cycles, "frequency": cycles / useful,
    }  # fmt: skip
    return pd.DataFrame({"metric": list(metrics), "value": list(metrics.values())})


def test_scaling__factors_multiply_to_the_speedup():
    tables = [run_table(2, 60.0, 100.0, 1000.0, 500.0), run_table(4, 40.0, 125.0, 1100.0, 600.0)]
    runs = scaling(tables, ["2", "4"])
    second = runs.iloc[1]
    assert second.speedup == 1.5
    assert second.computation_scalability == 0.8
    product = second.instruction_scalability * second.ipc_scalability * second.frequency_scalability
    assert product == pytest.approx(second.computation_scalability)
    assert second.global_efficiency == pytest.approx(125 / 160 * 0.8)
    # the speedup is the growth of threads times that of the global efficiency
    assert second.speedup == pytest.approx(2 * second.global_efficiency / runs.iloc[0].global_efficiency)
    # twice the threads on twice the problem: 31.25 s per thread in place of 50
    assert scaling(tables, ["2", "4"], weak=True).computation_scalability[1] == pytest.approx(50 / 31.25)


# -- requirements and the command --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "metric", "bound"),
    [
        ("parallel efficiency>=0.8", "parallel_efficiency", 0.8), ("Load balance >= 80%", "load_balance", 0.8),
        ("runtime<=12", "runtime", 12), ("MPI serialization efficiency>=1e-1", "mpi_serialisation_efficiency", 0.1),
    ],
)  # fmt: skip
def test_requirement__is_read(text, metric, bound):
    found = Requirement.of(text)
    assert (found.metric, found.bound, found.at_least) == (metric, bound, ">=" in text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("load balance", "not a requirement"), ("load balance>=x", "not a requirement"), ("load balans>=1", "did you mean load_balance"), ("load balance>=nan", "not a requirement")],
)  # fmt: skip
def test_requirement__that_cannot_be_read_is_refused(text, words):
    with pytest.raises(SeverityError, match=words):
        Requirement.of(text)


def test_failures__what_is_not_defined_fails():
    table = pd.DataFrame({"metric": ["load_balance"], "value": [math.nan]})
    failed = failures(table, [Requirement.of("load balance>=0.1"), Requirement.of("ipc>=1")])
    assert [f["metric"] for f in failed] == ["load_balance", "ipc"]


@pytest.fixture
def severity(tmp_path):
    cube_of(barrier_after(60, 80)).save(tmp_path / "run.severity")
    return tmp_path / "run.severity"


def test_command__prints_models_and_scaling(severity):
    output = executed("efficiency", severity, severity)
    assert "MPI (POP)" in output
    assert "Hybrid" not in output
    assert "Computation scalability" in output
    assert "ideal network by replay" in output


def test_command__what_is_required_and_not_fulfilled_is_exit_code_3(severity):
    assert run("efficiency", severity, "--require", "parallel efficiency>=0.7").exit_code == 0
    failed = executed("efficiency", severity, "--require", "parallel efficiency>=0.71", "--json", code=3)
    assert "required parallel efficiency >= 0.71, found 0.7" in failed
    assert run("efficiency", severity, "--require", "nonsense>=1").exit_code == 2


def test_command__json_has_null_for_what_is_not_defined(tmp_path):
    program = Program(2)
    for one in program.masters:
        one.enter(5, "MPI_Init").leave(5)
    cube_of(program).save(tmp_path / "nothing.severity")
    result = run("efficiency", tmp_path / "nothing.severity", "--json")
    plain = json.loads(result.output, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    found = {m["metric"]: m["value"] for m in plain["runs"][0]["efficiencies"]}
    assert found["runtime"] == 0
    assert found["parallel_efficiency"] is None
    assert found["load_balance"] is None


# -- refused requests --------------------------------------------------------------------------------------------------


def test_cube_without_time__is_refused():
    cube = small_cube({"mpi": {("main", 0, 0): 3}})
    with pytest.raises(SeverityError, match="no property time"):
        cube.efficiencies()


def test_difference_of_cubes__is_refused():
    cube = cube_of(barrier_after(60, 80))
    with pytest.raises(SeverityError, match="one run"):
        (cube - cube).efficiencies()


def test_unknown_region__is_refused():
    with pytest.raises(SeverityError, match="nowhere"):
        cube_of(barrier_after(60, 80)).efficiencies(within="nowhere")


# -- one-sided communication -------------------------------------------------------------------------------------------


def test_waits_of_windows_and_files__are_not_shortened_by_an_ideal_network(archive, analyze):
    # two processes wait 40 of 100 s for each other in turn, and 5 s while the network transfers
    mpi = archive.mpi(2)
    window = archive.define("RmaWin", name=archive.string("w"), comm=mpi.world, flags=0)
    handle = archive.define(
        "IoHandle", name=archive.string(""), file=None, io_paradigm=0, io_handle_flags=0, comm=mpi.world, parent=None
    )
    closed = {"op": 0, "level": 3, "window": window, "root": None, "sent": 0, "received": 0}
    for i, rank in enumerate(mpi.ranks):
        for begin, end, late, name, record, fields in (
            (10, 35, 0, "MPI_Win_fence", "RmaCollectiveEnd", closed),
            (40, 65, 1, "MPI_Win_free", "RmaCollectiveEnd", closed),
            (70, 95, 0, "MPI_File_close", "IoDestroyHandle", {"handle": handle}),
        ):
            begin = end - 5 if i == late else begin
            rank.enter(begin, name).record(end, record, **fields).leave(end, name)
        rank.enter(96, "MPI_Get").leave(100, "MPI_Get")
    cube = analyze(archive)
    found = {
        p: int(cube.cells[p].value.sum())
        for p in ("mpi_rma_wait_at_fence", "mpi_rma_wait_at_free", "mpi_mgmt_file_wait")
    }
    assert found == {"mpi_rma_wait_at_fence": 20, "mpi_rma_wait_at_free": 20, "mpi_mgmt_file_wait": 20}
    table = cube.efficiencies(ideal="approximation").set_index(["model", "metric"])["value"]
    # the network takes 5 of each of the three calls, and the get
    assert table["run", "runtime"] - table["run", "ideal_runtime"] == pytest.approx(19e-9)


# -- waits -------------------------------------------------------------------------------------------------------------


def test_waits_in_non_blocking_collectives__are_not_shortened_by_an_ideal_network(archive, analyze):
    # the first waits from 20 for the last, which starts at 70; its call ends at 75, and it computes for 43 of 100 ticks
    mpi = archive.mpi(2)
    for rank, start, done in zip(mpi.ranks, (10, 70), (75, 90), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Iallreduce").start_collective(start, 1)
        rank.leave(start + 2, "MPI_Iallreduce").enter(start + 10, "MPI_Wait")
        rank.complete_collective(done, "allreduce", 1, sent=8, received=8, communicator=mpi.world)
        rank.leave(done, "MPI_Wait").leave(100, "main")
    cube = analyze(archive)
    assert cube.cells["mpi_nonblocking_collective_wait"].value.tolist() == [50]
    table = cube.efficiencies(ideal="approximation").set_index(["model", "metric"])["value"]
    assert table["run", "ideal_runtime"] == pytest.approx(93e-9)


def test_waits_that_overlap__count_no_more_than_the_call(archive, analyze):
    # one MPI_Waitall of 60 ticks waits for a message and for a barrier, 50 ticks for each, at the same time
    mpi = archive.mpi(2)
    first, second = mpi.ranks
    first.enter(0, "main").enter(4, "MPI_Irecv").post_receive(4, 1).leave(5, "MPI_Irecv")
    second.enter(0, "main")
    for rank, start in zip(mpi.ranks, (10, 70), strict=True):
        rank.enter(start, "MPI_Ibarrier").start_collective(start, 2).leave(start, "MPI_Ibarrier")
    second.enter(70, "MPI_Send").send(70, 0, mpi.world).leave(71, "MPI_Send")
    first.enter(20, "MPI_Waitall").complete_receive(80, 1, mpi.world, 1)
    second.enter(71, "MPI_Wait")
    for rank, call in zip(mpi.ranks, ("MPI_Waitall", "MPI_Wait"), strict=True):
        rank.complete_collective(80, "barrier", 2, communicator=mpi.world).leave(80, call).leave(100, "main")
    cube = analyze(archive)
    for name in ("mpi_latesender", "mpi_nonblocking_collective_wait"):
        assert cube.cells[name].value.tolist() == [50]
    table = cube.efficiencies(ideal="approximation").set_index(["model", "metric"])["value"]
    # the whole run except for one tick in MPI_Irecv
    assert table["run", "ideal_runtime"] == pytest.approx(99e-9)


def alltoallv_wait(**more):
    @tracecols.pattern(
        "alltoallv_wait", "mpi_collective", "Wait at Alltoallv", table="collective_members", summary="A wait.", **more
    )
    def wait(model, m, parent):
        waits = (m.op == COLLECTIVE_OPS.index("alltoallv")) & (m.begin_time < 50)
        return parent.where(waits, severity=50 - m.begin_time)

    return wait


@pytest.mark.parametrize(("more", "ideal"), [({}, 90), ({"is_wait": False}, 70)])
def test_waits_of_plugins__count_unless_they_are_declared_not_to_be_waits(archive, opened, tmp_path, more, ideal):
    # the first waits 40 ticks for the second, which is in another call for 20 ticks
    mpi = archive.mpi(2)
    for rank, begin in zip(mpi.ranks, (10, 50), strict=True):
        rank.enter(0, "main").collective(begin, 60, mpi.world, "alltoallv", None, 8, 8)
    mpi.ranks[1].enter(60, "MPI_Comm_rank").leave(80, "MPI_Comm_rank")
    for rank in mpi.ranks:
        rank.leave(100, "main")
    trace = opened(archive)
    cube = trace.analyze(patterns=[alltoallv_wait(**more)])
    export(cube.save(tmp_path / "x.severity"), tmp_path / "x.cubex")
    for found in (cube, SeverityCube.load(tmp_path / "x.severity"), tracecols.read_cube(tmp_path / "x.cubex")):
        assert ("alltoallv_wait" in found.properties.waits("mpi")) == (more == {})
        table = found.efficiencies(ideal="approximation").set_index(["model", "metric"])["value"]
        assert table["run", "ideal_runtime"] == pytest.approx(ideal * 1e-9)


def test_waits__are_all_that_patterns_find_but_what_is_declared_not_to_be_one():
    completion = {"mpi_init_completion", "mpi_barrier_completion", "mpi_nxn_completion", "device_useless_sync"}
    for conventions in CONVENTIONS:
        declared = properties(conventions)
        axis = PropertyAxis.of(declared)
        of_cpus = [p for p in declared if axis.root_of(p.id) == "time"]
        found = {p.id for p in of_cpus if p.pattern is not None and p.unit == "sec"}
        assert {p.id for p in of_cpus if p.is_wait and p.pattern is not None} == found - completion
        assert {p.id for p in declared if p.says_cause} <= {p.id for p in declared if p.is_wait}
        # cubes that do not record waits have the same ones
        assert replace(axis, is_wait=[]).waits("time") == axis.waits("time")


# -- the replay that a cube keeps --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, data):
    """Return a recorded hybrid trace, its cube, and the cube that keeps the replay."""
    folder = tmp_path_factory.mktemp("ideal")
    trace = tracecols.open(tracecols.convert(data / "hybrid_2x3", folder / "h.trace"))
    kept = trace.analyze(ideal_network=True)
    kept.save(folder / "h.severity")
    return trace, trace.analyze(), kept


def test_ideal_network__of_a_cube_is_the_replay_of_its_trace(recorded, tmp_path):
    trace, plain, kept = recorded
    wanted = trace.efficiencies()
    pd.testing.assert_frame_equal(kept.efficiencies(), wanted)
    assert set(wanted.query("metric == 'transfer_efficiency'")["by"]) == {"replay"}
    # the replay is the default
    assert all((kept.cells[name].value == plain.cells[name].value).all() for name in plain.properties.id)
    pd.testing.assert_frame_equal(plain.efficiencies(), wanted)
    approximated = kept.efficiencies(ideal="approximation")
    assert approximated.value.ne(wanted.value).any() and approximated.metric.tolist() == wanted.metric.tolist()
    # for parts that were not replayed, and for the whole run, communication is not divided
    for undivided in (kept.efficiencies("h_coll"), kept.efficiencies(with_startup=True)):
        assert not {"transfer_efficiency", "mpi_serialisation_efficiency", "ideal_runtime"} & set(undivided.metric)
        assert "mpi_communication_efficiency" in set(undivided.metric)
    # the replay is kept in files and in cubes of the focus
    loaded = tracecols.SeverityCube.load(trace.path.with_suffix(".severity"))
    pd.testing.assert_frame_equal(loaded.efficiencies(), wanted)
    pd.testing.assert_frame_equal(loaded.focused().efficiencies(), wanted)


def test_ideal_network__is_what_diagnosis_and_report_tell(recorded):
    trace, plain, kept = recorded
    told = {m.metric: (m.value, m.by) for m in kept.diagnosis().efficiencies if m.model == "hybrid multiplicative"}
    wanted = trace.efficiencies().query("model == 'hybrid multiplicative'").set_index("metric")
    assert told == dict(zip(wanted.index, zip(wanted.value, wanted.by, strict=True), strict=True))
    assert "\nideal network by replay\n" in str(kept.diagnosis())
    # start-up and shutdown are no part of the replay
    assert "replay" not in {m.by for m in kept.diagnosis(with_startup=True).efficiencies}
    facts = {name: fact for name, fact in plain.facts.items() if name != "ideal_runtime"}
    undivided = plain.replaced(facts=facts).diagnosis()
    assert "ideal network" not in str(undivided) and not re.search("serialisation +transfer", str(undivided))
    assert "\ncommunication is not divided; tracecols analyze --ideal-network" in str(undivided)
    for other in (kept.diagnosis(), kept.diagnosis(with_startup=True), trace.analyze(within="h_coll").diagnosis()):
        assert "not divided" not in str(other)


def test_approximated_factors__are_never_the_lowest(recorded):
    _, plain, _ = recorded
    found = tuple(metrics(times_of(plain, ideal="approximation")))
    shown = {m.metric for m in found if m.by == "approximation"}
    assert {"serialisation_efficiency", "mpi_transfer_efficiency"} <= shown
    worst = tuple(m._replace(value=0.001) if m.metric in shown else m for m in found)
    assert lowest(worst, True, {}) and lowest(worst, True, {}) not in shown


@pytest.mark.slow
def test_ideal_network__of_pieces_regions_and_periods(recorded):
    trace, plain, _ = recorded
    region = trace.analyze(within="h_coll", ideal_network=True)
    pd.testing.assert_frame_equal(region.efficiencies(), trace.efficiencies("h_coll"))
    piece = trace.analyze(start=0.3, stop=0.4, ideal_network=True)
    pd.testing.assert_frame_equal(piece.efficiencies(), trace.efficiencies(start=0.3, stop=0.4))
    divided = trace.analyze(bins=4, ideal_network=True)
    assert divided.periods is not None
    pd.testing.assert_frame_equal(divided.efficiencies(), trace.efficiencies())
    for narrowed in ({"properties": "mpi"}, {"locations": 0}, {"rank": 0}):
        with pytest.raises(AnalysisError, match="narrowed to some properties or locations"):
            trace.analyze(**narrowed, ideal_network=True)
    with pytest.raises(SeverityError, match="made without a replay"):
        trace.analyze(properties=["time", "comp", "mpi"]).efficiencies(ideal="replay")
    with pytest.raises(SeverityError, match="without start-up and shutdown only\n  leave with_startup out"):
        trace.efficiencies(ideal="replay", with_startup=True)
    with pytest.raises(SeverityError, match="there are approximation, replay"):
        plain.efficiencies(ideal="exact")


@pytest.mark.slow
def test_ideal_network__on_the_command_line(recorded, tmp_path):
    trace, _, kept = recorded
    out = tmp_path / "x.severity"
    assert "ideal network by replay\n" in executed("analyze", trace.path, "-o", out, "--ideal-network")
    assert tracecols.SeverityCube.load(out).facts["ideal_runtime"] == kept.facts["ideal_runtime"]
    for given, by in ([], "replay"), (["--ideal", "replay"], "replay"), (["--ideal", "approximation"], "approximation"):
        assert f"ideal network by {by}" in executed("efficiency", out, *given)
    wrong = executed("analyze", trace.path, "-p", "mpi", "--ideal-network", code=1)
    assert "leave out --property and --locations, or --ideal-network" in wrong


@pytest.mark.parametrize(
    ("narrowed", "said"),
    [
        # the times of the other rank would be lost, and all of execution would be computation
        ({"locations": 0}, "this cube has the times of some only: locations 0"),
        ({"properties": ["time", "execution"]}, "narrowed to other properties: time, execution"),
        ({"properties": ["time", "mpi"]}, "or name comp, too"),
    ],
)
def test_efficiencies__of_a_cube_that_lacks_times_or_computation_are_refused(narrowed, said):
    program = Program(processes=2)
    for one, ticks in zip(program.masters, (40, 90), strict=True):
        one.enter(0, "main").enter(ticks, "MPI_Barrier").begin_collective(ticks).end_collective(95, "barrier")
        one.leave(95).leave(100)
    with program.trace() as trace:
        whole = trace.efficiencies().set_index("metric").value
        with pytest.raises(SeverityError, match=said):
            trace.analyze(**narrowed).efficiencies()
        narrow = trace.analyze(properties=["comp"]).efficiencies().set_index("metric").value
    # 40 + 5 and 90 + 5 of 2 x 100
    assert whole["parallel_efficiency"] == narrow["parallel_efficiency"] == 0.7
