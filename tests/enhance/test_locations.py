"""The master of a process, and locations that are no CPU threads: device streams."""

import numpy as np
import pytest
from conftest import SHARED
from rich.console import Console
from support.severities import cells

import tracecols
from tracecols.enhance.definitions.locations import Locations
from tracecols.export.cube_read import read_cube
from tracecols.export.cubex import write_cubex
from tracecols.model.model import enhance as enhance_store
from tracecols.report.info import describe
from tracecols.search.cube import analyze_model
from tracecols.slices.opened import open_slice
from tracecols.store import Store

PARALLEL = "!$omp parallel @a.c:1"


def parallel(master, worker, team):
    """Record main from 0 to 100 with a parallel region from 20 to 80."""
    master.enter(0, "main").fork(20, 2).begin_team(20, team).call(20, 80, PARALLEL).end_team(80, team).join(80)
    master.leave(100, "main")
    worker.begin_team(20, team).call(20, 80, PARALLEL).end_team(80, team)


# -- masters (7) -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False], ids=["named by MPI", "the one that forks"])
def test_master__may_have_a_higher_identifier_than_its_worker(archive, enhance, named):
    process = archive.process()
    worker, master = archive.location("worker", process), archive.location("master", process)
    if named:
        archive.group("comm_locations", [master], "mpi")
    archive.group("comm_locations", [worker, master], "openmp")
    parallel(master, worker, archive.comm("", [0, 1], paradigm="openmp"))
    model = enhance(archive)
    assert model.locations.thread.tolist() == [1, 0]
    assert model.locations.master.tolist() == [1, 1]
    assert model.locations.workers.tolist() == [0]
    cube = analyze_model(model, "scalasca")
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 40}
    assert cells(cube, "time") == {(n, 0, *t): v for n, v in (("main", 40), (PARALLEL, 60)) for t in ((), (1,))}
    assert cube.facts["counts"] == {}
    # EXPERT depends on the master, too: outside of teams workers do nothing
    assert analyze_model(model, "expert").cells["time"].value.sum() == 200


def test_master__is_the_one_mpi_names_although_another_forks(archive, enhance):
    process = archive.process()
    a, b = (archive.location(name, process) for name in "ab")
    archive.group("comm_locations", [a], "mpi")
    a.call(0, 10, "main")
    b.enter(0, "main").fork(1, 1).join(2).leave(3, "main")
    assert enhance(archive).locations.thread.tolist() == [0, 1]


def test_master__is_the_first_to_fork_of_nested_teams(archive, enhance):
    process = archive.process()
    a, b = (archive.location(name, process) for name in "ab")
    b.enter(0, "main").fork(1, 1).join(9).leave(10, "main")
    a.enter(0, "main").fork(2, 1).join(3).leave(10, "main")
    assert enhance(archive).locations.thread.tolist() == [1, 0]


def test_master__without_a_fork_is_the_first_cpu_thread(archive, enhance):
    process = archive.process()
    for name, kind in (("stream", "gpu"), ("a", "cpu_thread"), ("b", "cpu_thread"), ("counter", "metric")):
        archive.location(name, process, kind)
    archive.locations[1].call(0, 10, "main")
    locations = enhance(archive).locations
    assert locations.thread.tolist() == [1, 0, 2, 3]
    assert locations.master.tolist() == [1, 1, 1, 1]


def test_master__forks_for_its_process_in_older_recordings(archive, enhance):
    # OmpFork and OmpJoin of the master; no thread says when it begins in the team, and a stream begins in none
    process = archive.process()
    worker, master = archive.location("worker", process), archive.location("master", process)
    stream = archive.location("stream", process, "gpu")
    master.enter(0, "main").record(20, "OmpFork", requested=2).call(21, 79, PARALLEL).record(80, "OmpJoin")
    master.leave(100, "main")
    worker.call(22, 78, PARALLEL)
    stream.call(30, 60, "kernel")
    model = enhance(archive)
    assert model.teams.n_threads.tolist() == [2]
    cube = analyze_model(model)
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 40}
    assert cube.cells["time"].value.sum() == 200
    assert "kernel" in cube.call_paths.path


def test_master__is_known_in_a_piece_without_its_fork(archive, enhance):
    process = archive.process()
    worker, master = archive.location("worker", process), archive.location("master", process)
    archive.group("comm_locations", [worker, master], "openmp")
    parallel(master, worker, archive.comm("", [0, 1], paradigm="openmp"))
    store = enhance(archive).store
    seconds = 1 / store.manifest["clock"]["resolution"]
    with open_slice(store, None, 10 * seconds, 1) as piece:
        model = enhance_store(piece, 1)
        assert model.locations.master.tolist() == [1, 1]
        assert cells(analyze_model(model), "omp_idle_threads") == {("main", 0, 1): 10}


# -- devices (5) -------------------------------------------------------------------------------------------------------


OF_STREAMS = ("device_time", "device_kernel_executions", "device_copy_ops", "device_bytes")
"""Roots of the properties of devices; streams have no other properties."""


def accelerated(archive):
    """Make a process with two threads and a stream, and another stream in a separate location group."""
    threads, team = archive.openmp(2)
    process = threads[0].process
    parallel(*threads, team)
    archive.location("stream", process, "gpu").call(10, 90, "kernel")
    archive.location("counter", process, "metric")
    group = archive.process("GPU", kind="accelerator", creator=process)
    archive.location("another", group, "gpu").call(10, 90, "kernel")


@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_device_streams__are_no_cpus(archive, enhance, conventions):
    accelerated(archive)
    model = enhance(archive)
    assert model.locations.is_cpu.tolist() == [True, True, False, False, False]
    assert model.locations.is_device.tolist() == [False, False, True, False, True]
    cube = analyze_model(model, conventions)
    for name in cube.properties.id:
        streams = {2, 4} if cube.properties.root_of(name) in OF_STREAMS else set()
        assert not np.isin(cube.cells[name].location, list({2, 3, 4} - streams)).any(), name
    # two threads for 100 ticks
    assert cube.cells["time"].value.sum() == 200
    assert cube.cells["omp_idle_threads"].value.sum() == 40
    note = "device streams, which are no CPUs: their times and visits are left out"
    assert cube.facts["counts"] == {
        note: 2,
        "kernels whose launches are not recorded: late hosts and launch latency are not known": 2,
    }
    # both streams for the 100 ticks of their process
    assert cube.cells["device_time"].value.sum() == 200
    assert cube.cells["device_kernels"].value.sum() == 160
    assert [t.location.tolist() for t in cube.topologies] == [[0, 1]]
    assert cube.system.rank.tolist() == [0, 0, 0, 0, -1]
    assert [k for k in cube.system.kind if k in ("process", "accelerator")] == ["process", "accelerator"]


def test_device_streams__are_no_threads_that_properties_need(archive, enhance):
    process = archive.process()
    archive.location("thread", process).call(0, 10, "main")
    archive.location("stream", process, "gpu").call(0, 10, "kernel")
    archive.location("another", archive.process("GPU", kind="accelerator"), "gpu").call(0, 10, "kernel")
    assert "omp_idle_threads" not in analyze_model(enhance(archive), "expert").properties.id


def test_accelerators__without_a_creator_belong_to_the_only_process_of_the_closest_node(archive, enhance):
    # one device on the node of the first process, one on a board of the node of the second, one next to both nodes
    machine = archive.node("machine", "machine")
    nodes = [archive.node(f"node {k}", "node", machine) for k in range(2)]
    for node in nodes:
        archive.location("thread", archive.process(node=node)).call(0, 10, "main")
    for node in (nodes[0], archive.node("board", "board", nodes[1]), machine):
        group = archive.process("GPU", node, "accelerator")
        archive.location("stream", group, "gpu").call(2, 8, "kernel")
    assert enhance(archive).locations.process.tolist() == [0, 1, 0, 1, 4]


def test_device_streams__are_told_from_processes(archive, enhance, tmp_path):
    accelerated(archive)
    store = enhance(archive).store
    console = Console(width=120)
    with console.capture() as text:
        console.print(describe(store))
    assert "5 locations of 1 process" in text.get()
    cube = analyze_model(enhance_store(store, 1))
    write_cubex(cube, tmp_path / "x.cubex")
    again = read_cube(tmp_path / "x.cubex")
    assert again.system.kind.count("accelerator") == 1
    assert again.system.rank.tolist() == cube.system.rank.tolist()


@pytest.mark.parametrize("paradigm", ["openmp", "mpi", "cuda"])
def test_gpu_locations__on_which_openmp_or_mpi_runs_are_cpus(archive, enhance, paradigm):
    # recordings of many-core cards declare threads as gpu
    process = archive.process()
    archive.location("thread", process).call(0, 100, "main")
    region = archive.region("something", "function" if paradigm == "mpi" else "loop", paradigm)
    archive.location("card", process, "gpu").call(50, 60, region)
    store = enhance(archive).store
    is_cpu = paradigm != "cuda"
    assert Locations.of(store).is_cpu.tolist() == [True, is_cpu]
    # a piece knows it although these regions do not run in it
    with open_slice(store, None, 40 / store.manifest["clock"]["resolution"], 1) as piece:
        assert Locations.of(piece).is_cpu.tolist() == [True, is_cpu]
        assert cells(analyze_model(enhance_store(piece, 1)), "time") == {("main", 0): 40} | (
            {("main", 0, 1): 40} if is_cpu else {}
        )


def test_gpu_locations__that_only_transfer_for_openmp_are_devices(archive, enhance):
    process = archive.process()
    archive.location("thread", process).call(0, 100, "main")
    archive.location("card", process, "gpu").call(50, 60, archive.region("!$omp targetupdate", "code", "openmp"))
    assert enhance(archive).locations.is_device.tolist() == [False, True]


def test_gpu_locations__that_openmp_lists_are_cpus(archive, enhance):
    process = archive.process()
    threads = [archive.location("thread", process), archive.location("card", process, "gpu")]
    archive.group("comm_locations", threads, "openmp")
    threads[0].call(0, 100, "main")
    assert enhance(archive).locations.is_cpu.all()


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(SHARED.glob("otf2_gpu/*/traces.otf2")), ids=lambda p: p.parent.name)
def test_recorded_devices__are_not_among_cpus(folder, tmp_path):
    model = enhance_store(Store(tracecols.convert(folder, tmp_path / "x.trace")), 1)
    table = model.store.definitions["locations"].to_pydict()
    # the OpenMP regions on streams of the old recording of a many-core card are transfers, no work of a team
    assert model.locations.is_cpu.tolist() == [kind == "cpu_thread" for kind in table["type"]]
    for conventions in ("scalasca", "expert"):
        cube = analyze_model(model, conventions)
        counters = set(model.store.definitions["metric_members"].column("name").to_pylist())
        for name in cube.properties.id:
            if name in counters:
                continue  # counters are on the locations at which they are recorded
            of_streams = cube.properties.root_of(name) in OF_STREAMS
            allowed = model.locations.is_device if of_streams else model.locations.is_cpu
            assert allowed[cube.cells[name].location].all(), name
        assert (
            cube.facts["counts"].get("device streams, which are no CPUs: their times and visits are left out", 0)
            == model.locations.is_device.sum()
        )


@pytest.mark.parametrize("name", ["master_higher_id", "gpu_stream_idle"])
def test_small_archives__are_right(shared_traces, tmp_path, name):
    folder = shared_traces / "otf2_small" / name
    cube = analyze_model(enhance_store(Store(tracecols.convert(folder, tmp_path / "x.trace")), 1))
    assert cube.total("time") == pytest.approx(400e-9, abs=1e-15)
    assert cube.total("omp_limited_parallelism") == 0
