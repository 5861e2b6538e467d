"""Root causes through accelerators: what makes kernels of other ranks, and hosts, wait."""

from __future__ import annotations

import tarfile
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from conftest import SHARED, slow
from oracles import kineto_causes
from support.device_program import OPS, Rank, Simulation, random_ranks
from support.laws import divide, same
from support.offload_program import Offload
from support.severities import cube_of

import tracecols
from tracecols.kernels.chains import HOST
from tracecols.patterns.registry import CONVENTIONS
from tracecols.schema.causes import DEVICE_PARTS
from tracecols.testing import Program, severities

NXN, SYNC = "delay_device_nxn_aggregate", "delay_device_sync_aggregate"
WAITS = {
    "nxn": ("nccl_wait_nxn", "nccl_barrier_wait"), "12n": ("nccl_latebroadcast",), "n21": ("nccl_earlyreduce",),
    "latesender": ("nccl_latesender",), "latereceiver": ("nccl_latereceiver",),
    "sync": ("device_sync_wait", "device_copy_sync_wait"),
}  # fmt: skip
"""By kind of delay: the wait states whose sum equals its costs."""


def two(first: Rank, second: Rank, **more) -> Simulation:
    return Simulation([first, second], **more)


def costs(simulation, name=NXN):
    with simulation.program.trace() as trace:
        cube = trace.analyze()
        check(cube, trace)
        return severities(cube, name)


def check(cube, trace):
    """Check the laws: costs equal waits, the cube has no violations, and the critical path is as long as the run."""
    for kind, of in WAITS.items():
        found = sum(int(cube.cells[name].value.sum()) for name in of if name in cube.cells)
        assert int(cube.cells[f"delay_device_{kind}_aggregate"].value.sum()) == found
    assert cube.violations() == []
    path = trace.critical_path(raw=True)
    run = trace.manifest["last_time"] - trace.manifest["first_time"]
    assert int(cube.cells["critical_path"].value.sum()) == run
    assert int((path.end_time - path.begin_time).sum()) == run


def test_long_kernel__before_which_the_host_synchronises():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks).sync().collective().sync()

    found = costs(two(rank(10), rank(90)))
    # the waiting rank is followed back from the launch of its part, the last one from its begin: 1 is its latency
    assert found == {("k", 1, 1): 79, ("ncclAllReduce", 1, 1): 1}


def test_long_host():
    def rank(ticks):
        return Rank().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 79, ("ncclAllReduce", 1, 1): 1}


def test_long_kernel__on_which_a_stream_depends():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks, 1).wait_event(0).collective().sync()

    assert costs(two(rank(10), rank(90), n_streams=2)) == {("k", 1, 2): 80}


def test_event__a_stream_waits_for_what_was_launched_before_it_was_recorded(archive, opened):
    p = Offload(archive, 2)
    a, b = p.streams
    p.host.enter(0, "main")
    p.call(1, 2, "cuLaunchKernel", a).call(3, 4, "cuEventRecord", a, event=5).call(5, 6, "cuLaunchKernel", a)
    p.call(7, 8, "cuStreamWaitEvent", b, event=5).call(9, 10, "cuLaunchKernel", b)
    p.kernel(2, 50, 0, "producer").kernel(50, 150, 0, "later").kernel(50, 90, 1, "consumer")
    p.call(11, 91, "cuStreamSynchronize", b)
    p.host.leave(200, "main")
    trace = opened(archive)
    cube = trace.analyze()
    check(cube, trace)
    # the producer from its launch on, whose latency is 1; 79 ticks from 11 to 90, divided in proportion to 49 and 40
    found = {key: round(value * 1e9) for key, value in severities(cube, SYNC).items()}
    assert found == {("producer", 0, 1): 44, ("consumer", 0, 2): 35}
    predicted = [trace.what_if({name: x}).runtime for name, x in (("producer", 0.5), ("producer", 2), ("later", 1.2))]
    assert [round(of * 1e9) for of in predicted] == [200 - 24, 200 + 48, 200]


@pytest.mark.parametrize(("is_blocking", "of_default", "later"), [(True, 38, 40), (False, 0, 0)])
def test_null_stream__waits_for_streams_that_block_and_these_for_it(archive, opened, is_blocking, of_default, later):
    p = Offload(archive, 2)
    null, other = p.streams
    given = {"hipNullStream": null, **({} if is_blocking else {"hipStreamNonBlocking": other})}
    for name, stream in given.items():
        archive.define("LocationProperty", of=stream.id, name=archive.string(name), string_value=archive.string("yes"))
    p.host.enter(0, "main")
    for i, stream in enumerate((other, null, other)):
        p.call(1 + 2 * i, 2 + 2 * i, "hipLaunchKernel", stream)
    p.kernel(2, 50, 1, "first").kernel(50, 90, 0, "default").kernel(90, 140, 1, "third")
    p.call(7, 141, "hipStreamSynchronize", other)
    p.host.leave(200, "main")
    trace = opened(archive)
    cube = trace.analyze()
    check(cube, trace)
    # 133 ticks from 7 to 140, divided in proportion to 49, 40 and 50
    assert round(severities(cube, SYNC).get(("default", 0, 1), 0) * 1e9) == of_default
    assert round(trace.what_if({"default": 2}).runtime * 1e9) == 200 + later


def test_host_that_is_late_after_synchronising():
    def rank(ticks):
        return Rank().kernel("k", 30).sync().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 79, ("ncclAllReduce", 1, 1): 1}


def test_one_delay__is_charged_with_what_later_operations_wait():
    def rank(ticks):
        found = Rank().work("delay", ticks)
        for _ in range(3):
            found.work("equal", 20).collective()
        return found.sync()

    simulation = two(rank(1), rank(81))
    assert [simulation.waits[k, 0] for k in range(3)] == [80, 19, 19]
    found = costs(simulation)
    assert sum(found.values()) == 118
    assert found["main/delay", 1] == 117


def test_delay__goes_on_over_ranks():
    # rank 2 makes rank 1 wait in the first operation; rank 1 is late in the second one, for which rank 0 waits
    def rank(first, second):
        return Rank().work("first", first).collective().sync().work("second", second).collective().sync()

    simulation = Simulation([rank(10, 10), rank(10, 30), rank(50, 10)])
    found = costs(simulation)
    # first: 0 and 1 wait 40 each. Second: 0 and 2 wait 20 each; since it launched the first one, 1 took 20 more for
    # `second`, 3 for latency and transfer, and waited for 40: 40 * 40 / 63 go back to rank 2, whose latency is 1 of 41
    expected = {
        ("main/first", 2): 78 + 24,
        ("main/second", 1): 13,
        ("ncclAllReduce", 1, 1): 2,
        ("ncclAllReduce", 2, 1): 3,
    }
    assert found == expected


def test_hosts__wait_for_kernels_and_for_other_ranks():
    def rank(ticks):
        return Rank().work("work", ticks).kernel("k", 20).collective().sync()

    simulation = two(rank(10), rank(50))
    found = costs(simulation, SYNC)
    total = cube_of(simulation.program).total("device_sync_wait")
    assert sum(found.values()) == total
    # rank 0 waits for its kernel, and for rank 1, which computes for another 40 ticks
    assert found["main/work", 1] > found["k", 0, 1] > 0


@pytest.mark.parametrize(
    ("op", "root", "late", "name"),
    [
        ("bcast", 1, 1, "12n"),
        ("reduce", 0, 1, "n21"),
        ("message", 1, 1, "latesender"),
        ("message", 0, 1, "latereceiver"),
        ("exchange", 0, 1, "latesender"),
    ],
)
def test_operations_with_a_root_and_messages__are_charged_to_the_one_that_is_waited_for(op, root, late, name):
    ranks = [Rank().work("work", 90 if r == late else 10).collective(op, root=root).sync() for r in range(2)]
    region = {"bcast": "ncclBroadcast", "reduce": "ncclReduce"}.get(op, "ncclSendRecv")
    found = costs(Simulation(ranks), f"delay_device_{name}_aggregate")
    assert found == {("main/work", late): 79, (region, late, 1): 1}


def test_late_sender__who_waits_for_another_one_passes_it_on():
    # 0 is late for 1, so that 1 is late for 2
    def rank(ticks):
        return Rank().work("work", ticks).collective("message", root=0).sync().collective("message", root=1).sync()

    ranks = [rank(ticks) for ticks in (50, 10, 10)]
    found = costs(Simulation(ranks), "delay_device_latesender_aggregate")
    assert found["main/work", 0] > 70
    assert ("main/work", 1) not in found


def test_chains__go_on_through_operations_in_which_both_ranks_have_not_met():
    # 1 is delayed by 0, which does not communicate with 2: work that 1 and 2 both do before is no cause
    first = Rank().work("late", 50).collective("message", root=0).sync()
    second = Rank().work("equal", 30).collective("message", root=0).sync().collective("message", root=1)
    third = Rank().work("equal", 30).work("more", 70).collective("message", root=0).collective("message", root=1)
    first.collective("message", root=1)
    found = costs(Simulation([first, second, third]), "delay_device_latereceiver_aggregate")
    assert set(found) == {("main/more", 2)}


def waits_of(cube) -> dict[str, dict[int, float]]:
    """Return the waiting time of kernels by wait state and rank."""
    found: dict[str, dict[int, float]] = {}
    for name in (name for kind, names in WAITS.items() if kind != "sync" for name in names if name in cube.cells):
        for key, value in severities(cube, name).items():
            of_state = found.setdefault(name, {})
            of_state[key[1]] = of_state.get(key[1], 0) + value
    return found


@pytest.mark.parametrize("ops", [OPS, *slow([(("allreduce", "barrier"),)])], ids=["all", "n x n"])
@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_random_programs__to_the_tick(seed, ops):
    simulation = random_ranks(seed, ops=ops)
    with simulation.program.trace() as trace:
        cube = trace.analyze()
        assert waits_of(cube) == simulation.states
        check(cube, trace)
        with pytest.MonkeyPatch.context() as patch:
            divide(patch)
            same(cube, tracecols.open(trace.path, jobs=1).analyze())


@pytest.mark.slow
def test_chains__to_the_begin_of_the_trace_are_not_kept():
    rng = np.random.default_rng(1)
    ranks = [Rank(), Rank()]
    for i in range(1000):
        for rank in ranks:
            rank.work(f"work {i}", int(rng.integers(10, 50))).collective()
    with Simulation(ranks).program.trace() as trace:
        tracemalloc.start()
        trace.analyze()
        trace.stragglers()
        # 1,000 pairs of chains with 500 call paths on average
        assert tracemalloc.get_traced_memory()[1] < 10e6
        tracemalloc.stop()


# -- programs with MPI or OpenMP ---------------------------------------------------------------------------------------


def path_of(program):
    """Return the stretches of the critical path, the reason for each, and its time by region and rank."""
    with program.trace() as trace:
        cube = trace.analyze()
        check(cube, trace)
        found = trace.critical_path(raw=True)
        regions = {(p.rsplit("/")[-1], i): v for (p, i, *_), v in severities(cube, "critical_path").items()}
    stretches = [tuple(row) for row in found[["location", "begin_time", "end_time"]].itertuples(index=False)]
    return stretches, ["" if pd.isna(k) else str(k) for k in found.reason], regions


def test_mpi__who_waits_for_a_host_that_waits_for_a_kernel_leads_to_the_kernel():
    program = Program(processes=2)
    first, second = program.masters
    stream = program.stream(0)
    first.enter(0, "main").launch(5, 6, stream).synchronize(10, 91, stream)
    first.enter(95, "MPI_Send").send(95, to=1).leave(97).leave(100)
    stream.kernel(6, 90, "k")
    second.enter(0, "main").enter(20, "MPI_Recv").receive(98, source=0).leave(99).leave(110)
    stretches, reasons, regions = path_of(program)
    # 1 waits from 20 until 95, 0 for its kernel from 10 until 90
    assert stretches == [(0, 0, 5), (2, 5, 90), (0, 90, 95), (1, 95, 110)]
    assert reasons == ["", "launch", "device operation", "late sender"]
    assert regions["k", 0] == 85


def test_mpi__without_waits_for_devices_the_path_stays_on_hosts():
    program = Program(processes=2)
    first, second = program.masters
    stream = program.stream(0)
    first.enter(0, "main").launch(5, 6, stream).enter(50, "MPI_Send").send(50, to=1).leave(52).leave(100)
    stream.kernel(6, 90, "k")
    second.enter(0, "main").enter(20, "MPI_Recv").receive(53, source=0).leave(54).leave(110)
    stretches, reasons, _ = path_of(program)
    assert stretches == [(0, 0, 50), (1, 50, 110)]
    assert reasons == ["", "late sender"]


def test_openmp__a_thread_that_waits_for_a_kernel_lets_its_team_wait():
    program = Program(threads=2)
    master, worker = program.masters[0], program.locations[1]
    stream = program.stream(0)
    master.enter(0, "main").fork(10)
    for thread in (master, worker):
        thread.begin_team(10).enter(11, "!$omp parallel")
    worker.launch(20, 21, stream).synchronize(22, 71, stream)
    stream.kernel(21, 70, "k")
    for thread, come in ((master, 30), (worker, 72)):
        thread.enter(come, "!$omp implicit barrier").leave(80).leave(81).end_team(82)
    master.join(83).leave(90)
    stretches, reasons, regions = path_of(program)
    assert stretches == [(0, 0, 10), (1, 10, 20), (2, 20, 70), (1, 70, 72), (0, 72, 90)]
    assert reasons == ["", "fork", "launch", "device operation", "thread barrier"]
    # the time from the FORK on counts for the parallel region
    assert regions["!$omp parallel", 0] == 11


# -- recorded programs -------------------------------------------------------------------------------------------------


def costs_of(cube, names):
    """Return the concatenated frames of some properties."""
    return pd.concat([cube.frame(name) for name in names])


def converted(archive, tmp_path):
    if not archive.exists():
        pytest.skip("no reference traces beside the repository")
    return tracecols.open(tracecols.convert(archive, tmp_path / "x.trace"))


@pytest.mark.slow
def test_dlrm__hosts_of_one_rank_let_all_others_wait(tmp_path):
    archive = SHARED / "kineto" / "dlrm_8rank_v100" / "dlrm_kineto.tar.gz"
    if archive.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(tmp_path / "unpacked", filter="data")
        archive = tmp_path / "unpacked" / "dlrm_kineto"
    trace = converted(archive, tmp_path)
    cube = trace.analyze()
    check(cube, trace)
    # us, by rank
    waits = cube.frame("nccl_wait_nxn").groupby("rank").value.sum() * 1e6
    assert waits.round().astype(int).tolist() == [5580, 11125, 3280, 9571, 6370, 6041, 3342, 1534]
    # The design of these costs named 44,443 for rank 7, found by a prototype that is not kept, which most likely ordered
    # slices that begin in the same microsecond by an unstable sort (docs/decisions/kineto.md). A second reading of the
    # definition, in plain Python from the JSON, agrees with the cube to less than a microsecond: 44,523.
    ranks = kineto_causes.read(archive)
    assert [sum(of) for of in zip(*((r.n_calls, len(r.waits), r.n_refuted) for r in ranks.values()), strict=True)] == [
        88, 64, 33,
    ]  # fmt: skip
    expected = kineto_causes.Chains(ranks).costs()
    caused = costs_of(cube, ("delay_device_nxn", "delay_device_nxn_longterm")).groupby("rank").value.sum() * 1e6
    assert caused.sum() == pytest.approx(46843)
    assert caused.round().to_dict() == {4: 1151, 5: 1169, 7: 44523}
    for rank, value in caused.items():
        assert value == pytest.approx(sum(v for key, v in expected.items() if key[0] == rank), abs=0.5)
    # by where the time is spent: host (with time before the recording), streams, latency
    found = {name: cube.total(name) * 1e6 for name in ("device_sync_wait", *DEVICE_PARTS)}
    assert found["device_sync_wait"] == pytest.approx(19_997)
    of_hosts = cube.total("delay_device_sync_longterm") * 1e6
    assert round(of_hosts) == 19_581
    parts = {what: sum(v for key, v in expected.items() if key[1] == what) for what in kineto_causes.SPENT_IN}
    assert {what: round(value) for what, value in parts.items()} == {
        "host": 11_092, "stream": 58, "latency": 315, "before the recording": 35_377,
    }  # fmt: skip
    by_path = costs_of(cube, ("delay_device_nxn", "delay_device_nxn_longterm")).groupby("call_path").value.sum() * 1e6
    in_forward = sum(v for path, v in by_path.items() if path.startswith("ProfilerStep#10/## forward ##"))
    assert in_forward == pytest.approx(
        sum(v for (_, what, path), v in expected.items() if what == "host" and path[1:2] == ("## forward ##",)),
        rel=0.02,
    )
    # all eight begin late because they are launched late: no kernel holds a stream
    operations = trace.model.with_quirks(CONVENTIONS["exact"].quirks).get("device_operations").operations
    waits = trace.model.with_quirks(CONVENTIONS["exact"].quirks).get("device_waits").waits
    causes = np.unique(waits.column("cause"))
    assert causes.size == 8
    assert set(operations.before[np.isin(operations.row, causes)].tolist()) == {HOST}
    on_path = cube.cells["critical_path"]
    on_host = ~trace.model.locations.is_device[on_path.location]
    assert on_path.value[on_host].sum() == 20_724_000
    assert on_path.value.sum() == 20_866_000


@pytest.mark.slow
def test_mfu__a_kernel_lets_the_other_rank_wait(tmp_path):
    trace = converted(SHARED / "nsight" / "mfu_2gpu_before.sqlite", tmp_path)
    cube = trace.analyze()
    check(cube, trace)
    waits = cube.frame("nccl_wait_nxn").groupby("rank").value.sum() * 1e3
    assert waits.round(3).tolist() == [10.898, 2.477]
    caused = cube.frame(NXN).sort_values("value", ascending=False).iloc[0]
    assert (caused.call_path, caused["rank"]) == ("flash_fwd_kernel", 1)
    # us; the design's prototype had 10,819 and 2,557, and 322,971 for hosts
    by_rank = costs_of(cube, ("delay_device_nxn", "delay_device_nxn_longterm")).groupby("rank").value.sum() * 1e6
    assert by_rank.round().to_dict() == {0: 2502, 1: 10873}
    assert round(cube.total("device_sync_wait") * 1e6) == 324_374
    on_path = cube.cells["critical_path"]
    assert round(on_path.value.sum() / 1000) == 299_986
    assert round(on_path.value[~trace.model.locations.is_device[on_path.location]].sum() / 1000) == 97_855
    # in all 33, an earlier kernel on its stream makes the last rank begin late
    model = trace.model.with_quirks(CONVENTIONS["exact"].quirks)
    causes = np.unique(model.get("device_waits").waits.column("cause"))
    operations = model.get("device_operations").operations
    assert causes.size == 33
    assert (operations.before[np.isin(operations.row, causes)] >= 0).all()
    assert trace.model.locations.is_device[cube.cells[NXN].location].any()
