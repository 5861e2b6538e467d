"""Devices: kernels and their launches, copies, waiting calls, idle streams; compared with a plain twin on recorded
traces."""

import numpy as np
import pytest
from conftest import SHARED, slow
from oracles.devices import find_devices
from support.laws import same
from support.offload_program import Offload, small
from support.slices import CALLS, analyze_piece

import tracecols
from tracecols.enhance.dataflow import partitions
from tracecols.model.model import enhance as enhance_store
from tracecols.report.info import describe_cube
from tracecols.schema.enums import COPIED_BYTES, CORRELATION
from tracecols.search.cube import analyze_model
from tracecols.search.matches import find_timed
from tracecols.store import Store

WITH_STREAMS = ("cuda_simple", "sptc", "mi300", "jacobi_gpu", "xeonphi_jacobi")
TWIN = (
    "device_kernels", "device_copies", "device_copies_to_device", "device_copies_to_host", "device_copies_hidden",
    "device_copies_exposed", "device_idle", "device_idle_before_launch", "device_idle_after_launch", "device_late_launch",
    "device_early_wait", "device_useless_sync", "device_copy_wait", "device_blocking_copy",
)  # fmt: skip


def ticks(cube, name):
    """Return the total of a property in ticks, 0 if it does not exist."""
    return int(cube.cells[name].value.sum()) if name in cube.cells else 0


def check_sums(cube, model):
    """Check that on every stream kernels, copies and idle time fill the span of its process."""
    # the negative root of programs with tasks, as in the reference, does not concern devices
    assert [v for v in cube.violations() if "device" in v] == []
    for location in np.flatnonzero(model.locations.is_device).tolist():
        parts = [
            int(cube.cells[name].value[cube.cells[name].location == location].sum())
            for name in ("device_time", "device_kernels", "device_copies", "device_idle")
        ]
        assert parts[0] == sum(parts[1:])
    assert ticks(cube, "device_copies") == ticks(cube, "device_copies_hidden") + ticks(cube, "device_copies_exposed")


def analyzed(model, *conventions):
    """Return the cube of a model, after `check_sums`."""
    cube = analyze_model(model, *conventions)
    check_sums(cube, model)
    return cube


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a function that makes the enhanced model of a recorded trace with accelerators, once per name."""
    if not (SHARED / "otf2_gpu").is_dir():
        pytest.skip("no reference traces beside the repository")
    models = {}

    def model(name):
        if name not in models:
            path = tmp_path_factory.mktemp(name) / "x.trace"
            models[name] = enhance_store(Store(tracecols.convert(SHARED / "otf2_gpu" / name / "traces.otf2", path)), 1)
        return models[name]

    return model


# -- recorded traces ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_STREAMS)
@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_recorded_devices__agree_with_a_plain_twin(recorded, name, conventions):
    model = recorded(name)
    twin = find_devices(model.store)
    cube = analyzed(model, conventions)
    of_xeonphi = name == "xeonphi_jacobi"  # its copies overlap: the twin models queues only and omits them
    for property_id in TWIN if not of_xeonphi else ("device_kernels",):
        assert ticks(cube, property_id) == twin.totals[property_id], property_id
    assert ticks(cube, "device_kernel_executions") == len(twin.kernels)
    assert ticks(cube, "device_copy_ops") == len(twin.copies)
    assert ticks(cube, "device_bytes") == sum(c.bytes for c in twin.copies)
    if of_xeonphi:
        return
    for (property_id, stream), value in twin.by_stream.items():
        cells = cube.cells[property_id]
        assert int(cells.value[cells.location == stream].sum()) == value, (property_id, stream)
    idle = cube.cells["device_idle"]
    for (_, path), value in twin.by_path.items():
        here = [i for i, p in enumerate(cube.call_paths.path) if p == path]
        assert int(idle.value[np.isin(idle.call_path, here)].sum()) >= value, path


@pytest.mark.parametrize(("name", "n"), [("cuda_simple", 40), ("sptc", 17), ("mi300", 2), ("jacobi_gpu", 4000)])
def test_recorded_kernels__all_have_their_launch(recorded, name, n):
    kernels = recorded(name).kernels
    assert len(kernels) == n
    assert (kernels.launch_enter >= 0).all()
    assert (kernels.launch_enter_time <= kernels.enter_time).all()
    assert np.unique(kernels.launch_enter).size == n
    assert not any(kernels.counts.values())


def test_cuda_simple__transfers_cost_five_times_what_kernels_do(recorded):
    model = recorded("cuda_simple")
    cube = analyzed(model)
    twin = find_devices(model.store)
    copies, kernels = (sum(a.end - a.begin for a in x) for x in (twin.copies, twin.kernels))
    assert ticks(cube, "device_copies") == copies == 143468068
    assert ticks(cube, "device_kernels") == kernels
    assert copies > 5 * kernels
    # no copy is hidden, and most of the time in the device API is spent in blocking copies
    assert ticks(cube, "device_copies_hidden") == 0
    assert ticks(cube, "device_copy_calls") > 0.9 * ticks(cube, "device_api")
    # streams are not workers: only OpenMP threads count as idle
    assert model.locations.is_cpu[cube.cells["omp_idle_threads"].location].all()


@pytest.mark.slow
def test_jacobi_gpu__starves_the_device_because_the_host_is_late(recorded):
    model = recorded("jacobi_gpu")
    cube = analyzed(model)
    time, late = ticks(cube, "device_time"), ticks(cube, "device_idle_before_launch")
    assert late == find_devices(model.store).totals["device_idle_before_launch"]
    # 89.6 of 90.7 s; kernels take less than 1 %
    assert late / time > 0.98
    assert ticks(cube, "device_kernels") / time < 0.01
    # the device waits for calls that copy and launch, not for the end of the program
    idle = cube.cells["device_idle"]
    names = np.array(cube.call_paths.name)[idle.call_path]
    assert (
        idle.value[np.isin(names, ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuLaunchKernel"])].sum()
        > 0.95 * idle.value.sum()
    )


def test_sptc__hides_two_thirds_of_its_copies_behind_kernels(recorded):
    model = recorded("sptc")
    cube = analyzed(model)
    twin = find_devices(model.store)
    hidden = sum(c.hidden for c in twin.copies)
    assert ticks(cube, "device_copies_hidden") == hidden
    assert 0.68 < hidden / ticks(cube, "device_copies") < 0.70
    assert model.locations.device_names == ("CUDA[0]",)
    assert ticks(cube, "device_bytes_to_host") == 268435456


def test_mi300__waits_for_each_of_two_devices_in_turn(recorded):
    model = recorded("mi300")
    cube = analyzed(model)
    # the host blocks for as long as kernels run
    wait, kernels = ticks(cube, "device_early_wait"), ticks(cube, "device_kernels")
    assert wait == find_devices(model.store).totals["device_early_wait"]
    assert 0.999 < wait / kernels <= 1
    assert wait / ticks(cube, "time") > 0.88
    # one device works while the other one idles
    assert model.locations.device_names == ("HIP Context 0", "HIP Context 1")
    assert ticks(cube, "device_idle") > ticks(cube, "device_kernels")
    axis = cube.system
    streams = [i for i, kind in enumerate(axis.kind) if kind == "stream"]
    assert [axis.kind[axis.parent[i]] for i in streams] == ["accelerator"] * 2
    assert [axis.kind[axis.parent[axis.parent[i]]] for i in streams] == ["process"] * 2


def test_xeonphi_jacobi__copies_more_than_it_computes(recorded):
    model = recorded("xeonphi_jacobi")
    cube = analyzed(model)
    assert ticks(cube, "device_copies_to_device") > ticks(cube, "device_kernels")
    note = "kernels whose launches are not recorded: late hosts and launch latency are not known"
    assert cube.facts["counts"][note] == len(model.kernels) == 201


@pytest.mark.parametrize("name", ["mpi_tags", "ompt_nested"])
def test_recorded_traces_without_devices__have_no_properties_of_devices(recorded, name):
    assert not [p for p in analyze_model(recorded(name)).properties.id if p.startswith("device")]


# -- small programs, worked out by hand --------------------------------------------------------------------------------


def totals(cube):
    """Return all properties of devices that are not zero, in ticks."""
    return {p: ticks(cube, p) for p in cube.properties.id if p.startswith("device") and ticks(cube, p)}


def test_small_program__has_what_is_on_paper(archive, enhance):
    small(archive)
    cube = analyzed(enhance(archive))
    assert totals(cube) == {
        "device_api": 39, "device_launch": 3, "device_late_launch": 3, "device_synchronization": 5,
        "device_useless_sync": 5, "device_copy_calls": 31, "device_copy_wait": 20, "device_blocking_copy": 8,
        "device_copy_sync_wait": 30,
        "device_time": 100, "device_kernels": 26, "device_copies": 8, "device_copies_to_host": 8,
        "device_copies_exposed": 8, "device_idle": 66, "device_idle_before_launch": 60, "device_idle_after_launch": 6,
        "device_launches": 1, "device_kernel_executions": 1, "device_copy_ops": 1, "device_copy_ops_to_host": 1,
        "device_bytes": 64, "device_bytes_to_host": 64,
    }  # fmt: skip
    idle = cube.cells["device_idle"]
    names = [cube.call_paths.path[i] for i in idle.call_path.tolist()]
    # the launch ends 14 idle ticks, the copy 2, the end of the program 50
    assert dict(zip(names, idle.value.tolist(), strict=True)) == {
        "main": 50,
        "main/cuLaunchKernel": 14,
        "main/cuMemcpyDtoH_v2": 2,
    }
    assert idle.location.tolist() == [1, 1, 1]
    kernels = cube.cells["device_kernels"]
    assert [cube.call_paths.path[i] for i in kernels.call_path.tolist()] == ["kernel"]
    # computation is the rest of the time
    assert ticks(cube, "comp") == 61


def test_late_launch__lies_in_the_launching_call(archive, enhance):
    """It does so if the kernel begins after the call has returned."""
    small(archive)
    ((_, found, (begin, end), _),) = find_timed(enhance(archive), ["device_late_launch"])
    # the call from 10 to 13, and the kernel at 14
    assert (begin.tolist(), end.tolist(), found.severity.tolist()) == ([10], [13], [3])


def test_early_wait__is_for_what_was_pending_and_ended_last(archive, enhance):
    p = Offload(archive, 2)
    a, b = p.streams
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", a).call(3, 4, "cuLaunchKernel", b)
    p.kernel(2, 30, 0).kernel(10, 50, 1)
    # the first call waits for stream a only, until 30, the second one for all, until the kernel on b ends at 50
    p.call(20, 31, "cuStreamSynchronize", a).call(40, 55, "cuCtxSynchronize")
    p.host.leave(60, "main")
    model = enhance(archive)
    table = model.device_syncs
    assert table.stream.tolist() == [1, -1]
    assert table.cause_location.tolist() == [1, 2]
    assert model.device_syncs.wait_begin_time.tolist() == [20, 40]
    assert ticks(analyzed(model), "device_early_wait") == 10 + 10


def test_event_synchronisation__waits_for_what_came_before_the_event(archive, enhance):
    p = Offload(archive, 2)
    a, b = p.streams
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", a).call(3, 4, "cuEventRecord", a, event=5)
    p.call(5, 6, "cuLaunchKernel", a).call(7, 8, "cuLaunchKernel", b)
    p.kernel(2, 30, 0).kernel(30, 70, 0).kernel(8, 90, 1)
    p.call(10, 31, "cuEventSynchronize", event=5)
    p.host.leave(100, "main")
    model = enhance(archive)
    assert model.device_syncs.cause_end_time.tolist() == [30]
    assert ticks(analyzed(model), "device_early_wait") == 20


def test_call_sites__join_launches_with_kernels_without_a_stream(archive, enhance):
    p = Offload(archive, 2)
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", callsite=7).call(3, 4, "cuLaunchKernel", callsite=9).call(
        5, 6, "cuLaunchKernel", callsite=7
    )
    p.kernel(10, 20, 1, callsite=9).kernel(11, 12, 0, callsite=7).kernel(30, 31, 1, callsite=7)
    p.host.leave(40, "main")
    kernels = enhance(archive).kernels
    assert dict(zip(kernels.enter_time.tolist(), kernels.launch_enter_time.tolist(), strict=True)) == {
        10: 3,
        11: 1,
        30: 5,
    }


def test_correlation_ids__join_calls_with_all_that_they_ask_for(archive, enhance):
    p = Offload(archive, 2)
    number, n_bytes = archive.attribute(CORRELATION, "uint64"), archive.attribute(COPIED_BYTES, "uint64")

    def call(begin, end, name, correlation):
        p.host.record(begin, "Enter", region=p.region(name), attributes=[(number, "uint64", correlation)])
        p.host.leave(end, p.region(name))

    def act(begin, end, name, correlation, stream=0, role="function", copied=None):
        given = [(number, "uint64", correlation)] + ([(n_bytes, "uint64", copied)] if copied is not None else [])
        p.streams[stream].record(begin, "Enter", region=p.region(name, role), attributes=given)
        p.streams[stream].leave(end, p.region(name, role))

    p.host.enter(0, "main")
    # the kernel of launch 5 and the launch of kernel 4 are not recorded; a graph has two kernels
    call(1, 2, "cudaLaunchKernel", 5)
    call(3, 4, "cudaGraphLaunch", 6)
    call(5, 6, "cudaMemcpyAsync", 8)
    call(7, 8, "cudaMemcpyAsync", 7)
    act(0, 1, "k", 4)
    act(10, 20, "k", 6)
    act(20, 30, "k", 6, 1)
    act(30, 31, "[CUDA memcpy HtoD]", 7, 0, "data_transfer", 64)
    act(32, 33, "[CUDA memcpy DtoH]", 9, 0, "data_transfer")
    p.host.leave(40, "main")
    model = enhance(archive)
    kernels, copies = model.kernels, model.copies
    launched = dict(zip(kernels.enter_time.tolist(), kernels.launch_enter_time.tolist(), strict=True))
    assert launched == {0: -1, 10: 3, 20: 3}
    assert (copies.copy_enter_time.tolist(), copies.bytes.tolist()) == ([7, -1], [64, -1])
    assert copies.direction.tolist() == [1, 2]
    assert kernels.counts["launches without a kernel"] == kernels.counts["kernels without a launch"] == 1
    assert kernels.counts["copies whose call is not known"] == kernels.counts["copies without bytes"] == 1


def test_copies__beside_kernels_of_another_stream_are_hidden(archive, enhance):
    p = Offload(archive, 2)
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", p.streams[0]).call(3, 4, "cuMemcpyHtoDAsync_v2", p.streams[1])
    p.kernel(5, 20, 0).copy(10, 30, "to device", 100, stream=1)
    p.host.leave(40, "main")
    model = enhance(archive)
    assert model.copies.hidden_time.tolist() == [10]
    assert model.copies.copy_enter_time.tolist() == [3]
    cube = analyzed(model)
    assert (ticks(cube, "device_copies_hidden"), ticks(cube, "device_copies_exposed")) == (10, 10)
    # the call returns at once
    assert ticks(cube, "device_blocking_copy") == 0


# -- what is not recorded, and damage ----------------------------------------------------------------------------------


def test_launches_without_references__are_told_in_a_note(archive, enhance):
    p = Offload(archive, 2)
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel").call(3, 4, "cuLaunchKernel").kernel(5, 20, 0).kernel(5, 30, 1)
    p.host.leave(40, "main")
    cube = analyzed(enhance(archive))
    note = "kernels whose launches are not recorded: late hosts and launch latency are not known"
    assert cube.facts["counts"][note] == 2
    # idle time before the launch can still be distinguished
    assert ticks(cube, "device_kernels") == 40
    assert ticks(cube, "device_idle_before_launch") == 10 + 20
    assert ticks(cube, "device_idle") == 40


@pytest.mark.parametrize("jobs", [1, 2])
def test_damaged_references__are_counted(archive, enhance, jobs):
    p = Offload(archive, 1)
    p.host.enter(0, "main")
    # a stream that does not exist, one that is no stream, and fewer launches than kernels
    p.call(1, 2, "cuLaunchKernel", 4711).call(3, 4, "cuLaunchKernel", p.host).call(5, 6, "cuLaunchKernel", p.streams[0])
    p.kernel(7, 8).kernel(9, 10)
    # a copy that never ends, with a remote rank that the communicator of its window does not have
    p.streams[0].record(20, "RmaGet", window=p.window, remote=17, received=8, matching=1)
    p.host.leave(40, "main")
    cube = analyzed(enhance(archive, jobs))
    counts = cube.facts["counts"]
    assert counts["references of calls to streams that do not exist in their process"] == 2
    assert counts["kernels without a launch"] == 1
    assert counts["copies that never end"] == 1


def test_launches__without_a_kernel_and_after_it_are_counted(archive, enhance):
    p = Offload(archive, 1)
    p.host.enter(0, "main")
    p.call(10, 12, "cuLaunchKernel", p.streams[0]).call(13, 14, "cuLaunchKernel", p.streams[0])
    p.kernel(7, 20)
    p.host.leave(40, "main")
    model = enhance(archive)
    assert model.kernels.counts["launches without a kernel"] == 1
    assert model.kernels.counts["kernels that begin before their launch"] == 1
    analyzed(model)


def test_kernels_that_never_end__run_until_the_end_of_their_stream(archive, enhance):
    p = Offload(archive, 1)
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", p.streams[0])
    p.streams[0].enter(5, p.region("kernel", "function"))
    p.host.leave(40, "main")
    model = enhance(archive)
    assert model.kernels.exit.tolist() == [-1]
    analyzed(model)


def test_overlapping_and_nested_regions__count_once(archive, enhance):
    p = Offload(archive, 1)
    p.host.enter(0, "main")
    outer, inner = p.region("outer", "function"), p.region("inner", "function")
    p.streams[0].enter(10, outer).call(20, 30, inner)
    p.copy(35, 60, "to host")
    archive.locations[1].items.sort(key=lambda item: item[0])
    p.streams[0].leave(50, outer)
    archive.locations[1].items.sort(key=lambda item: item[0])
    p.host.leave(100, "main")
    cube = analyzed(enhance(archive))
    kernels = cube.cells["device_kernels"]
    paths = [cube.call_paths.path[i] for i in kernels.call_path.tolist()]
    assert dict(zip(paths, kernels.value.tolist(), strict=True)) == {"outer": 30, "outer/inner": 10}
    # the part of the copy during a kernel does not count
    assert ticks(cube, "device_copies") == 10


# -- efficiencies ------------------------------------------------------------------------------------------------------


def test_efficiencies__are_those_of_talp(archive, enhance):
    # two devices: kernels on one for 40 (two streams at a time for 10), on the other for 20, with a copy of 10
    p = Offload(archive, 2)
    stream = archive.location("CUDA[1:7]", kind="gpu")
    p.streams.append(stream)
    p.host.enter(0, "main")
    p.kernel(10, 40, 0).kernel(30, 50, 1).kernel(20, 40, 2).call(60, 80, "cuCtxSynchronize")
    stream.record(50, "RmaGet", window=p.window, remote=0, received=8, matching=1)
    stream.record(60, "RmaOpCompleteBlocking", window=p.window, matching=1)
    p.host.leave(100, "main")
    found = analyzed(enhance(archive)).facts["device_efficiencies"]
    assert found == {
        "devices": ["CUDA[0]", "CUDA[1]"],
        "device_parallel_efficiency": 60 / 200,
        "device_load_balance": 60 / 80,
        "device_communication_efficiency": 40 / 40,
        "device_orchestration_efficiency": 40 / 100,
        "host_offload_efficiency": 80 / 100,
    }
    product = np.prod(
        [found[f"device_{x}"] for x in ("load_balance", "communication_efficiency", "orchestration_efficiency")]
    )
    assert product == pytest.approx(found["device_parallel_efficiency"])


def test_efficiencies__stand_in_the_description_of_a_cube(archive, enhance):
    from rich.console import Console

    small(archive)
    console = Console(width=120)
    with console.capture() as text:
        console.print(describe_cube(analyzed(enhance(archive))))
    # kernels run for 26 of 100 ticks
    assert "26.0%" in text.get()
    assert "device parallel efficiency" in text.get()


# -- divisions and numbers of threads ----------------------------------------------------------------------------------


def test_partitions__change_nothing(archive, enhance, monkeypatch):
    for k in range(3):
        p = Offload(archive, 2)
        p.host.enter(0, "main")
        p.call(10 + k, 13 + k, "cuLaunchKernel", p.streams[0]).kernel(14 + k, 40, 0)
        p.call(20, 51, "cuMemcpyDtoH_v2").copy(42, 50, "to host", 64, k % 2)
        p.call(60, 65 + k, "cuCtxSynchronize")
        p.host.leave(100, "main")
    one = analyzed(enhance(archive))
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 4)
    model = enhance(archive, 2)
    with model.divided() as run:
        assert len(run.division) == 3
    many = analyzed(model)
    assert many.facts["device_efficiencies"] == one.facts["device_efficiencies"]
    same(one, many)


# -- other writers -----------------------------------------------------------------------------------------------------


def test_opencl__queues_are_streams_and_calls_refer_to_them(archive, enhance):
    process = archive.process()
    host = archive.location("Master thread", process)
    queue = archive.location("OpenCL[0:1]", process, "gpu")
    reference = archive.attribute("OPENCL_QUEUE_REF", "location")

    def call(begin, end, name):
        region = archive.region_of(name) if name in archive._regions else archive.region(name, "wrapper", "opencl")
        host.record(begin, "Enter", region=region, attributes=[(reference, "location", queue.id)]).leave(end, region)

    kernel = archive.region("vector_add", "function", "opencl")
    host.enter(0, "main")
    call(10, 12, "clEnqueueNDRangeKernel")
    call(14, 50, "clFinish")
    host.leave(60, "main")
    queue.call(13, 48, kernel)
    model = enhance(archive)
    cube = analyzed(model)
    assert model.kernels.launch_enter_time.tolist() == [10]
    assert ticks(cube, "device_launch") == 2
    assert ticks(cube, "device_early_wait") == 34
    assert model.locations.device_names == ("OpenCL[0]",)


def test_openacc__calls_enclose_those_of_the_driver(archive, enhance):
    p = Offload(archive)
    region = {n: archive.region(n, "wrapper", "openacc") for n in ("acc_wait@a.c:7", "acc_compute_construct@a.c:5")}
    p.host.enter(0, "main").enter(5, region["acc_compute_construct@a.c:5"])
    p.call(6, 8, "cuLaunchKernel", p.streams[0])
    p.host.leave(10, region["acc_compute_construct@a.c:5"]).enter(12, region["acc_wait@a.c:7"])
    p.call(14, 31, "cuStreamSynchronize", p.streams[0])
    p.host.leave(33, region["acc_wait@a.c:7"]).leave(40, "main")
    p.kernel(9, 30)
    cube = analyzed(enhance(archive))
    # the wait belongs to the call of the driver; it counts once
    assert ticks(cube, "device_early_wait") == 16
    assert ticks(cube, "device_synchronization") == 21
    assert ticks(cube, "device_management") == 3


def test_streams_of_rocprof__copies_are_regions_without_bytes(archive, enhance):
    host = archive.location("Thread 1", archive.process("process"))
    group = archive.process("GPU 0", kind="accelerator")
    compute = archive.location("Thread 1, Compute on GPU 0, Queue 1", group, "gpu")
    copies = archive.location("Copy to GPU 0", group, "gpu")
    host.call(0, 100, "main")
    compute.call(20, 60, archive.region("kernel", "function", "hip"))
    copies.call(10, 30, archive.region("MEMORY_COPY_HOST_TO_DEVICE", "data_transfer", "hip"))
    model = enhance(archive)
    cube = analyzed(model)
    assert (len(model.kernels), len(model.copies)) == (1, 1)
    assert ticks(cube, "device_time") == 200
    assert (ticks(cube, "device_kernels"), ticks(cube, "device_copies"), ticks(cube, "device_copies_hidden")) == (
        40,
        20,
        10,
    )
    counts = cube.facts["counts"]
    assert counts["copies without bytes"] == 1
    assert ticks(cube, "device_copies_to_device") == 20
    assert counts["kernels whose launches are not recorded: late hosts and launch latency are not known"] == 1


def test_waits_on_streams__are_idle_time(archive, enhance):
    p = Offload(archive)
    p.host.call(0, 100, "main")
    p.streams[0].call(10, 30, p.region("kernel")).call(30, 60, archive.region("wait", "task_wait", "cuda"))
    cube = analyzed(enhance(archive))
    assert (ticks(cube, "device_kernels"), ticks(cube, "device_idle")) == (20, 80)


# -- counters ----------------------------------------------------------------------------------------------------------


def test_counters__of_streams_and_of_mere_counters_stand_at_their_locations(archive, enhance):
    p = Offload(archive)
    board = archive.location("board", kind="metric")
    counter = archive.metric_class(("joules", "uint64"))
    p.host.call(0, 100, "main")

    def sample(location, time, value):
        location.record(time, "Metric", source=counter, values=[(4, value)])

    sample(p.streams[0], 5, 10)
    p.streams[0].enter(10, p.region("kernel"))
    sample(p.streams[0], 20, 17)
    p.streams[0].leave(30, p.region("kernel"))
    sample(p.streams[0], 40, 20)
    for time, value in ((0, 100), (50, 130), (90, 170)):
        sample(board, time, value)
    cube = analyzed(enhance(archive))
    cells = cube.cells["joules"]
    found = {
        (cube.call_paths.path[c], int(at)): int(v)
        for c, at, v in zip(cells.call_path, cells.location, cells.value, strict=True)
        if v
    }
    assert found == {("kernel", 1): 7, ("main", 1): 3, ("main", 2): 70}


def test_idle_regions_of_streams__are_no_kernels(archive, enhance):
    # Score-P's feature `idle`: idle regions on the first stream of a context may contain copies
    p = Offload(archive)
    idle = archive.region("COMPUTE IDLE", "artificial", "cuda")
    p.host.enter(0, "main")
    p.call(5, 8, "cuLaunchKernel", p.streams[0])
    p.host.leave(100, "main")
    p.streams[0].enter(0, idle).leave(10, idle)
    p.kernel(10, 30)
    p.streams[0].enter(30, idle)
    p.copy(50, 60, "to host", 64)
    p.streams[0].leave(100, idle)
    model = enhance(archive)
    cube = analyzed(model)
    assert len(model.kernels) == 1
    assert (ticks(cube, "device_kernels"), ticks(cube, "device_copies"), ticks(cube, "device_idle")) == (20, 10, 70)


def opencl(archive, names):
    """Make a process with OpenCL queues as Score-P records them: named after their devices, and not referred to by
    calls."""
    process = archive.process()
    host = archive.location("Master thread", process)
    queues = [archive.location(name, process, "gpu") for name in names]
    archive.group("comm_locations", [host, *queues], "opencl")
    kernel = archive.region("$vector_add", "function", "opencl")

    def call(begin, end, name, role="wrapper"):
        region = archive.region_of(name) if name in archive._regions else archive.region(name, role, "opencl")
        host.call(begin, end, region)

    host.enter(0, "main")
    return host, queues, call, kernel


def test_opencl__waiting_in_score_p_before_clfinish_is_that_of_clfinish(archive, enhance):
    host, (queue,), call, kernel = opencl(archive, ["Tesla K20Xm"])
    finish = archive.region("clFinish", "wrapper", "opencl")
    call(10, 12, "clEnqueueNDRangeKernel")
    host.enter(20, finish)
    call(21, 51, "WAIT FOR COMMAND QUEUE", "artificial")
    call(51, 55, "BUFFER FLUSH", "artificial")
    host.leave(57, finish).leave(100, "main")
    queue.call(13, 50, kernel)
    model = enhance(archive)
    cube = analyzed(model)
    assert ticks(cube, "device_early_wait") == 29
    assert ticks(cube, "device_useless_sync") == 0
    assert model.locations.device_names == ("Tesla K20Xm",)


def test_opencl__a_call_inside_of_another_one_is_for_the_same_queue(archive, enhance):
    host, queues, call, kernel = opencl(archive, ["OpenCL[0:1]", "OpenCL[0:2]"])
    reference = archive.attribute("OPENCL_QUEUE_REF", "location")
    finish = archive.region("clFinish", "wrapper", "opencl")
    enqueue = archive.region("clEnqueueNDRangeKernel", "wrapper", "opencl")
    for begin, queue in zip((10, 14), queues, strict=True):
        host.record(begin, "Enter", region=enqueue, attributes=[(reference, "location", queue.id)])
        host.leave(begin + 2, enqueue)
    host.record(20, "Enter", region=finish, attributes=[(reference, "location", queues[0].id)])
    call(21, 51, "WAIT FOR COMMAND QUEUE", "artificial")
    host.leave(57, finish).leave(100, "main")
    queues[0].call(13, 30, kernel)
    queues[1].call(17, 50, kernel)
    # the other queue is not waited for
    assert ticks(analyzed(enhance(archive)), "device_early_wait") == 30 - 21


def test_opencl__queues_of_different_devices_are_told_apart_by_their_names(archive, enhance):
    host, (a, b, c), _, kernel = opencl(archive, ["Tesla K20Xm", "Intel(R) Xeon(R) CPU", "Tesla K20Xm"])
    host.leave(100, "main")
    a.call(0, 50, kernel)
    b.call(0, 50, kernel)
    c.call(20, 40, kernel)
    model = enhance(archive)
    assert model.locations.device_names == ("Tesla K20Xm", "Intel(R) Xeon(R) CPU")
    assert analyzed(model).facts["device_efficiencies"]["device_parallel_efficiency"] == 0.5


def test_calls_that_name_no_stream__wait_for_what_ended_in_them(archive, enhance):
    # a process with two devices: the first call waits for the first device, on which nothing is pending at the second
    # call
    p = Offload(archive)
    other = archive.location("CUDA[1:7]", p.host.process, "gpu")
    p.streams.append(other)
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", p.streams[0]).call(3, 4, "cuLaunchKernel", other)
    p.kernel(2, 30, 0).kernel(20, 90, 1)
    p.call(10, 32, "cuCtxSynchronize").call(40, 91, "cuCtxSynchronize")
    p.host.leave(100, "main")
    model = enhance(archive)
    assert model.device_syncs.cause_end_time.tolist() == [30, 90]
    assert ticks(analyzed(model), "device_early_wait") == 20 + 50


@pytest.mark.parametrize(("properties", "wait"), [((), 0), ((0,), 40), ((0, 1), 0)])
def test_null_stream__is_waited_for_with_all_streams_that_block(archive, enhance, properties, wait):
    p = Offload(archive, 2)
    text = archive.string
    for stream, name in ((0, "hipNullStream"), (1, "hipStreamNonBlocking")):
        if stream in properties:
            archive.define("LocationProperty", of=p.streams[stream].id, name=text(name), string_value=text("yes"))
    p.host.enter(0, "main")
    p.call(1, 2, "hipLaunchKernel", p.streams[1]).kernel(5, 60, 1)
    p.call(20, 61, "hipStreamSynchronize", p.streams[0])
    p.host.leave(100, "main")
    assert ticks(analyzed(enhance(archive)), "device_early_wait") == wait


def test_launches__inside_of_launches_are_part_of_them(archive, enhance):
    p = Offload(archive)
    p.host.enter(0, "main")
    for begin, outer in (
        (10, archive.region("acc_launch_kernel@a.c:3", "wrapper", "openacc")),
        (30, p.region("cudaLaunchKernel")),
    ):
        p.host.enter(begin, outer)
        p.call(begin + 1, begin + 5, "cuLaunchKernel", p.streams[0])
        p.host.leave(begin + 6, outer)
        p.kernel(begin + 7, begin + 12)
    p.call(50, 51, "cuLaunchKernel", p.streams[0]).kernel(52, 53)
    p.host.leave(100, "main")
    cube = analyzed(enhance(archive))
    cells = cube.cells["device_launches"]
    names = [cube.call_paths.name[i] for i in cells.call_path.tolist()]
    assert dict(zip(names, cells.value.tolist(), strict=True)) == {
        "acc_launch_kernel@a.c:3": 1,
        "cudaLaunchKernel": 1,
        "cuLaunchKernel": 1,
    }
    assert ticks(cube, "device_kernel_executions") == 3


def test_calls_inside_of_others__are_for_their_stream(archive, enhance):
    host, (a, b), _, kernel = opencl(archive, ["A", "B"])
    reference = archive.attribute("OPENCL_QUEUE_REF", "location")
    launch, finish, wait = (
        archive.region(n, role, "opencl")
        for n, role in (
            ("clEnqueueNDRangeKernel", "wrapper"),
            ("clFinish", "wrapper"),
            ("WAIT FOR COMMAND QUEUE", "artificial"),
        )
    )
    for begin, queue in ((1, a), (3, b)):
        host.record(begin, "Enter", region=launch, attributes=[(reference, "location", queue.id)]).leave(
            begin + 1, launch
        )
    host.record(20, "Enter", region=finish, attributes=[(reference, "location", a.id)])
    host.call(20, 31, wait).leave(32, finish).leave(100, "main")
    a.call(5, 30, kernel)
    b.call(5, 25, kernel)
    model = enhance(archive)
    # the wait lasts until the end of the kernel on A, the referenced queue
    assert model.device_syncs.cause_end_time.tolist() == [30]
    assert ticks(analyzed(model), "device_early_wait") == 10


LIBRARIES = (
    ("zeCommandListAppendLaunchKernel", "unknown", "launch"), ("zeCommandQueueSynchronize", "user", "synchronization"),
    ("zeCommandListAppendMemoryCopy", "compiler", "copy_calls"), ("zeMemAllocDevice", "none", "memory"),
    ("zeInit", "mtapi", "management"), ("urEnqueueKernelLaunch", "user", "launch"), ("piQueueFinish", "user", "synchronization"),
    ("sycl::queue::submit", "user", "launch"), ("sycl::queue::wait", "user", "synchronization"),
    ("sycl::queue::memcpy", "user", "copy_calls"), ("cudaLaunchKernel", "compiler", "launch"), ("clFinish", "winthread", "synchronization"),
    ("clGetPlatformIDs", "winthread", "management"), ("acc_upload@a.c:3", "qtthread", "copy_calls"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "paradigm", "group"), [*LIBRARIES[::4], *slow(x for i, x in enumerate(LIBRARIES) if i % 4)]
)
def test_libraries__are_known_by_the_names_of_their_functions(archive, enhance, name, paradigm, group):
    p = Offload(archive)
    p.host.enter(0, "main").call(10, 30, archive.region(name, "function", paradigm)).leave(100, "main")
    model = enhance(archive)
    cube = analyzed(model)
    assert ticks(cube, f"device_{group}") == ticks(cube, "device_api") == 20
    assert ticks(cube, "comp") == 80
    assert not model.locations.are_created


@pytest.mark.parametrize(
    "name",
    ["cleanup", "cuteness", "urgent", *slow(["clInit", "hipster", "zero", "submit", "update", "acc_update", "pi"])],
)
def test_functions_of_the_program__are_no_calls_for_devices(archive, enhance, name):
    p = Offload(archive)
    p.host.enter(0, "main").call(10, 30, archive.region(name, "function", "compiler")).leave(100, "main")
    cube = analyzed(enhance(archive))
    assert "device_api" not in cube.cells or not ticks(cube, "device_api")
    assert ticks(cube, "comp") == 100


# -- pieces of a trace -------------------------------------------------------------------------------------------------


def launched_ahead(archive):
    """Make launches ahead of their kernels, an asynchronous copy that takes long, and a call that waits."""
    p = Offload(archive, 2)
    a, b = p.streams
    p.host.enter(0, "main")
    for begin in (1, 3, 5, 44):
        p.call(begin, begin + 1, "cuLaunchKernel", a)
    p.call(48, 49, "cuMemcpyHtoDAsync_v2", b).call(50, 51, "cuMemcpyHtoDAsync_v2", b)
    for begin, end in ((10, 20), (25, 45), (46, 60), (70, 75)):
        p.kernel(begin, end)
    p.copy(52, 66, "to device", 100, 1).copy(70, 80, "to device", 10, 1)
    p.call(60, 76, "cuStreamSynchronize", a)
    p.host.leave(100, "main")
    return p


@pytest.mark.slow
@pytest.mark.parametrize("cut", [2, 5, 15, 20, 22, 30, 45, 47, 50, 55, 65, 68, 73, 90])
def test_pieces__have_kernels_and_copies_that_were_asked_for_before(archive, enhance, cut):
    launched_ahead(archive)
    store = enhance(archive).store
    whole = analyze_model(enhance_store(store, 1))
    found, launches = {}, []
    for start, stop in ((None, cut), (cut, None)):
        model, cube = analyze_piece(store, start, stop)
        check_sums(cube, model)
        counts = cube.facts["counts"]
        assert "kernels without a launch" not in counts
        assert "kernels that begin before their launch" not in counts
        assert "copies that never end" not in counts
        assert "copies whose call is not known" not in counts
        kernels = model.kernels
        launches += [
            pair
            for pair in zip(kernels.exit_time.tolist(), kernels.launch_enter_time.tolist(), strict=True)
            if pair[1] >= 0
        ]
        for name in (
            "device_kernels",
            "device_copies",
            "device_idle",
            "device_bytes",
            "device_early_wait",
            "device_time",
        ):
            found[name] = found.get(name, 0) + ticks(cube, name)
    assert found == {name: ticks(whole, name) for name in found}
    # the launch of a kernel that ends in a piece is right, or not known
    true = {20: 1, 45: 3, 60: 5, 75: 44}
    assert [pair for pair in launches if pair[0] in true and pair[1] not in (true[pair[0]], cut)] == []


def test_pieces__say_what_was_asked_for_before(archive, enhance):
    launched_ahead(archive)
    store = enhance(archive).store
    _, cube = analyze_piece(store, 47, None)
    counts = cube.facts["counts"]
    # the kernels from 46 to 60 and from 70 to 75 are both launched before the piece
    assert counts["kernels launched before the piece"] == 2
    assert "launches without a kernel" not in counts
    # idle from 60 to 70, after the launch of the next kernel
    idle = cube.cells["device_idle_after_launch"]
    assert int(idle.value[idle.location == 1].sum()) == 10
    assert ticks(cube, "device_idle_before_launch") == 25 + (50 - 47) - 2 + 20
    assert "copies requested before the piece" not in counts
    _, cube = analyze_piece(store, 55, None)
    assert cube.facts["counts"]["copies requested before the piece"] == 2


@pytest.mark.slow
def test_pieces__say_when_their_end_cuts_through_a_call_that_waits(archive, enhance):
    launched_ahead(archive)
    store = enhance(archive).store
    for start, stop, n in ((None, 68, 1), (68, None, 1), (None, 58, 0)):
        _, cube = analyze_piece(store, start, stop)
        assert cube.facts["counts"].get(CALLS, 0) == n


@pytest.mark.parametrize("sites", [(7, 9, 7), (None, None, None)], ids=["by call site", "of one stream"])
def test_pieces__of_launches_that_refer_to_no_stream(archive, enhance, sites):
    names_sites = sites[0] is not None
    p = Offload(archive, 2)
    p.host.enter(0, "main")
    for begin, site in zip((1, 3, 30), sites, strict=True):
        p.call(begin, begin + 1, "cuLaunchKernel", callsite=site)
    # by call site, the second launch belongs to the first kernel, on another stream
    p.kernel(20, 25, int(names_sites), callsite=sites[1]).kernel(26, 28, 0, callsite=sites[0])
    p.kernel(40, 45, 0, callsite=sites[2])
    p.host.leave(100, "main")
    store = enhance(archive).store
    for start, launches in (
        (None, [3 if names_sites else 1, 1 if names_sites else 3, 30]),
        (10, [-1, -1, 30]),
        (27, [-1, 30]),
    ):
        model, _ = analyze_piece(store, start, None)
        assert model.kernels.launch_enter_time.tolist() == launches


def test_launches__of_library_and_driver_without_references_are_one(archive, enhance):
    p = Offload(archive)
    p.host.enter(0, "main")
    for begin in (10, 30):
        p.host.enter(begin, p.region("cudaLaunchKernel"))
        p.call(begin + 1, begin + 5, "cuLaunchKernel")
        p.host.leave(begin + 6, p.region("cudaLaunchKernel"))
    for begin in (50, 70):
        p.host.enter(begin, p.region("cudaMemcpyAsync"))
        p.call(begin + 1, begin + 5, "cuMemcpyDtoHAsync_v2")
        p.host.leave(begin + 6, p.region("cudaMemcpyAsync"))
    p.kernel(20, 25).kernel(40, 45).copy(60, 65, "to host").copy(80, 85, "to host")
    p.host.leave(100, "main")
    model = enhance(archive)
    assert model.kernels.launch_enter_time.tolist() == [11, 31]
    assert model.copies.copy_enter_time.tolist() == [51, 71]


def test_calls_without_streams__are_reported(archive, analyze):
    host = archive.location("Master thread", archive.process())
    host.enter(0, "main").call(10, 12, archive.region("acc_launch_kernel@a.c:3", "wrapper", "openacc"))
    host.call(20, 25, archive.region("acc_upload@a.c:2", "wrapper", "openacc")).leave(100, "main")
    cube = analyze(archive)
    told = [n for what, n in cube.facts["counts"].items() if "no streams of devices" in what]
    assert told == [2]
    assert ticks(cube, "device_api") == 7
