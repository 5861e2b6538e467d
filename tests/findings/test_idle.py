"""Findings of programs whose devices are idle or busy all the time, and of the start of devices."""

import numpy as np
import pytest
from support.device_program import Rank, Simulation
from support.offload_program import Offload
from support.severities import cube_of

from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.definitions.regions import PHASE
from tracecols.findings.idle import find_gaps
from tracecols.findings.mended import mended_of
from tracecols.findings.starts import usual
from tracecols.severity import wording
from tracecols.severity.axes import SystemAxis
from tracecols.severity.finding import location_in_words
from tracecols.testing import Program


def findings_of(ranks, n=10, **given):
    return cube_of(Simulation(ranks, **given).program).diagnosis(n).findings


def idle(ranks, **given):
    return [f for f in findings_of(ranks, **given) if f.kind == "idle"]


def test_late_host__is_named_with_what_it_does_and_its_gain():
    host = Rank()
    for _ in range(5):
        host.work("assemble", 100).kernel("k", 60).sync()
    (found,) = idle([host])
    assert (found.rank, found.cause_region) == (0, "assemble")
    # nothing is pending in the 5 x 100 ticks of the host's work
    assert found.evidence["idle"] == 500
    assert (found.evidence["n_gaps"], found.evidence["regions"]) == (5, ["assemble"])
    assert found.gain == pytest.approx(500, abs=5)
    assert "the device of rank 0 has nothing to do 62% of the time, while its host is in assemble" in found.what
    assert "5 times until something is launched" in found.shows
    assert found.property == "device_idle"


def test_work_while_the_device_is_busy__is_no_cause():
    host = Rank()
    for _ in range(5):
        host.kernel("k", 1000).work("assemble", 900).sync()
    assert not idle([host])


def test_wait_after_each_tiny_kernel__gains_what_launching_ahead_does():
    ends = []
    for waits in (True, False):
        host = Rank().enter("step")
        for _ in range(40):
            host = host.kernel("k", 3).sync() if waits else host.kernel("k", 3)
        simulation = Simulation([host.sync().leave()])
        ends.append(simulation.end)
        if waits:
            found = cube_of(simulation.program).diagnosis().findings[0]
    assert (found.kind, found.cause_region) == ("idle", "step")
    assert found.gain == pytest.approx(ends[0] - ends[1], abs=2)


def test_launches_that_take_longer_than_kernels__gain_the_difference():
    program = Program(processes=1)
    (master,), stream = program.masters, program.stream(0)
    master.enter(0, "main").enter(0, "step")
    for t in range(0, 280, 7):
        master.launch(t, t + 7, stream)
        stream.kernel(t + 6, t + 10)
    master.synchronize(280, 285).leave(285).leave(285)
    first = cube_of(program).diagnosis().findings[0]
    assert (first.kind, first.cause_region) == ("idle", "cuLaunchKernel")
    assert first.gain == pytest.approx(40 * 3, rel=0.1)


def test_wait_before_the_host_computes__is_needed():
    host = Rank()
    for _ in range(30):
        host.work("assemble", 50).kernel("k", 60).sync()
    (found,) = idle([host])
    assert found.gain == pytest.approx(30 * 50, abs=5)


@pytest.mark.parametrize(
    ("regions", "in_calls", "words"),
    [
        ({"assemble": 0.9, "cuLaunchKernel": 0.1}, 0.1, "Shorten what hosts do"),
        ({"cuLaunchKernel": 1.0}, 1.0, "Launch several operations at once"),
        ({"aten::add": 0.4, "aten::mul": 0.4, "aten::sum": 0.2}, 0.0, "Launch several operations at once"),
    ],
)
def test_advice__for_many_short_gaps_asks_who_makes_them(regions, in_calls, words):
    e = {"n_gaps": 1000, "idle": 0.1, "in_memory": 0.0, "in_calls": in_calls}
    e |= {"regions": list(regions), "region_shares": list(regions.values())}
    subject = wording.Subject("step", "rank 0")
    assert wording.advice({"kind": "idle", "evidence": e}, subject).startswith(words)


def test_calls_for_memory_in_a_function__are_one_cause():
    host = Rank()
    for _ in range(5):
        host.enter("solve").work("cudaMalloc", 50).kernel("k", 100).sync().work("cudaFree", 40).leave()
    (found,) = idle([host])
    assert found.cause_region == "solve"
    assert found.gain == pytest.approx(5 * 90, abs=10)
    assert found.advice.startswith("Allocate memory once")


def test_work_while_an_operation_is_pending__is_no_cause():
    # the first kernel occupies the stream of the second
    assert not idle([Rank().kernel("k", 100).kernel("k", 100).work("assemble", 190).sync()])


def test_two_causes__are_both_named_the_larger_first():
    host = Rank()
    for _ in range(3):
        host.work("assemble", 100).kernel("k", 60).sync().work("write", 50).kernel("k", 60).sync()
    assert [f.cause_region for f in idle([host])] == ["assemble", "write"]


def test_one_rank_that_takes_much_longer__is_named_although_all_idle():
    def one(ticks):
        host = Rank()
        for _ in range(5):
            host.work("assemble", ticks).kernel("k", 50).sync().collective().sync()
        return host

    (found,) = idle([one(20), one(80), one(20)])
    assert (found.rank, found.cause_region) == (1, "assemble")


@pytest.mark.parametrize(("late", "others", "rank", "gain"), [(400, 10, 1, 400 - 10), (300, 200, None, 300)])
def test_late_rank_of_several__is_named_unless_all_ranks_gain_clearly_more(late, others, rank, gain):
    def one(ticks):
        return Rank().work("assemble", ticks).kernel("k", 60).sync().work("assemble", ticks).kernel("k", 60).sync()

    (found,) = idle([one(others), one(late), one(others)])
    assert (found.rank, found.cause_region) == (rank, "assemble")
    assert found.gain == pytest.approx(2 * gain, abs=10)


def test_even_ranks__have_no_rank():
    one = Rank().work("assemble", 100).kernel("k", 20).sync().work("assemble", 100).kernel("k", 20).sync()
    (found,) = idle([one, one])
    assert found.rank is None
    assert found.what.startswith("devices have nothing to do 8")


def of_steps(kernels, hosts=(10, 10, 10), without_device=-1, names="kkk", barrier=1, paradigm=None):
    """Return the findings of a program whose processes meet after each of 8 steps of host work and two kernels."""
    program = Program(processes=3)
    streams = [program.stream(r) for r in range(3)]
    for name in names:
        program.region(name, paradigm)
    now = 0
    for _ in range(8):
        ends = []
        for r, (one, stream) in enumerate(zip(program.masters, streams, strict=True)):
            end = now + hosts[r]
            one.enter(now, "step").call(now, end, "prepare" if r != without_device else "on_host")
            if r != without_device:
                one.launch(end, end + 1, stream).launch(end + 1, end + 2, stream)
                between = end + 1 + kernels[r]
                stream.kernel(end + 1, between, names[r]).kernel(between, between + 50, "other")
                one.synchronize(end + 2, between + 51, stream)
                end = between + 51
            ends.append(one.leave(end).events[-1][0])
        now = max(ends) + barrier
        for one, end in zip(program.masters, ends, strict=True):
            one.enter(end, "meet").enter(end, "MPI_Barrier").begin_collective(end)
            one.end_collective(now, "barrier").leave(now).leave(now)
    return cube_of(program).diagnosis().findings


@pytest.mark.parametrize("paradigm", [None, "cuda"])
def test_long_kernel_of_one_rank__is_the_first_finding_with_its_gain(paradigm):
    first = of_steps((50, 50, 130), paradigm=paradigm)[0]
    assert (first.kind, first.rank, first.cause_region) == ("computation", 2, "k")
    assert "rank 2 stream CUDA[0:7] computes 2.6 times as long as the others in k" in first.what
    assert first.gain == pytest.approx(8 * 80, abs=8)


def test_slow_device_that_is_busy__is_named_before_the_busy_devices():
    first, *others = of_steps((400, 400, 500))
    assert (first.rank, first.cause_region, first.gain) == (2, "k", pytest.approx(8 * 100, abs=8))
    assert "device" in [f.kind for f in others]


def test_slow_device_of_several_of_a_process__is_named_with_its_gain():
    program = Program(processes=1)
    (master,), streams = program.masters, [program.stream(0, f"CUDA[{i}:7]") for i in range(3)]
    master.enter(0, "main")
    for t in range(0, 2000, 200):
        for i, stream in enumerate(streams):
            master.launch(t + i, t + i + 1, stream)
            stream.kernel(t + i + 5, t + i + (190 if i == 1 else 100), "k")
        master.synchronize(t + 3, t + 195)
    master.leave(2000)
    with program.trace() as trace:
        first = trace.analyze().diagnosis().findings[0]
        assert mended_of(trace.what_if()).change[0] == first.what
    assert (first.kind, first.cause_region) == ("computation", "k")
    assert "rank 0 stream CUDA[1:7] computes 1.9 times as long" in first.what
    assert first.gain == pytest.approx(10 * 90, abs=15)


def test_kernels_that_are_uneven__are_on_streams():
    first = of_steps((50, 50, 130))[0]
    assert first.evidence["on_streams"]
    subject = wording.Subject("k", "", "thread")
    uneven = wording.what({"kind": "imbalance", "evidence": first.evidence}, subject)
    assert uneven.startswith("k is distributed unevenly over 3 streams")


def test_waits_in_one_rank__are_named_although_others_wait_in_mpi_for_it():
    program = Program(processes=3)
    streams = [program.stream(r) for r in range(3)]
    now, free, waits = [0] * 3, [0] * 3, [False, True, False]
    for r, master in enumerate(program.masters):
        master.enter(0, "main").enter(0, "solve")
        for _ in range(30):
            master.launch(now[r], now[r] + 2, streams[r])
            begin = max(now[r] + 5, free[r])
            free[r] = begin + 4
            streams[r].kernel(begin, free[r])
            now[r] += 2
            if waits[r]:
                master.synchronize(now[r], free[r] + 2)
                now[r] = free[r] + 2
        end = max(now[r], free[r]) + 2
        master.synchronize(now[r], end)
        now[r] = end
    last = max(now) + 1
    for r, master in enumerate(program.masters):
        master.enter(now[r], "MPI_Allreduce").begin_collective(now[r])
        master.end_collective(last, "allreduce", sent=8, received=8).leave(last).leave(last).leave(last)
    first = cube_of(program).diagnosis().findings[0]
    assert (first.kind, first.rank, first.cause_region) == ("idle", 1, "solve")
    assert first.gain == pytest.approx(now[1] - now[0], abs=12)


@pytest.mark.parametrize(
    ("kernels", "steps", "cause", "gain"),
    [
        # a kernel that only one rank executes; slow collective calls meanwhile; a late host without device
        ((5, 5, 130), {"names": "kkx"}, ("computation", 2, "x"), 125),
        ((50, 50, 50), {"barrier": 100}, ("collectives", None, "meet"), 100),
        ((50, 50, 0), {"hosts": (10, 10, 400), "without_device": 2}, ("computation", 2, "on_host"), 400 - 112),
    ],
)
def test_causes_outside_of_devices__are_named_although_devices_idle(kernels, steps, cause, gain):
    first = of_steps(kernels, **steps)[0]
    assert (first.kind, first.rank, first.cause_region) == cause
    assert first.gain == pytest.approx(8 * gain, rel=0.05)


def test_numbered_steps__are_one_cause():
    host = Rank()
    for i in range(6):
        host.enter(f"ProfilerStep#{i}").work("forward", 50).kernel("k", 60).sync().work("backward", 60).kernel("k", 60)
        host.sync().leave()
    found = idle([host])
    assert [(f.cause_region, f.evidence["idle"]) for f in found] == [("backward", 360), ("forward", 300)]


def test_phases_that_are_recorded__are_named_without_their_numbers():
    host = Rank()
    for i in range(4):
        host.enter(f"ProfilerStep#{i}").pause(100).kernel("k", 60).sync().leave()
    program = Simulation([host]).program
    regions = program.definitions["regions"]
    regions["flags"] = [PHASE * name.startswith("ProfilerStep") for name in regions["name"]]
    (found,) = (f for f in cube_of(program).diagnosis().findings if f.kind == "idle")
    # including one tick each from the end of the kernel to the return of the waiting call, and of latency
    assert (found.cause_region, found.evidence["idle"]) == ("ProfilerStep", 408)
    assert found.evidence["regions"] == ["ProfilerStep"]


def test_functions_that_are_called_alike__are_two_causes():
    host = Rank().work("solve_1", 100).kernel("k", 60).sync().work("solve_2", 90).kernel("k", 60).sync()
    assert [f.cause_region for f in idle([host])] == ["solve_1", "solve_2"]


def test_time_outside_of_all_regions__is_no_function():
    program = Simulation([Rank().work("assemble", 100).kernel("k", 20).sync()]).program
    master, stream = program.masters[0], program.locations[-1]
    end = 130
    master.call(end + 900, end + 910, "assemble").launch(end + 910, end + 911, stream)
    stream.kernel(end + 911, end + 931, "k")
    master.synchronize(end + 911, end + 932)
    (found,) = (f for f in cube_of(program).diagnosis(10).findings if f.kind == "idle")
    # without the 900 ticks between the two functions
    assert (found.cause_region, found.evidence["idle"]) == ("assemble", 100)


@pytest.mark.parametrize("call", ["cudaMalloc", "cudaFree", "hipMalloc"])
def test_first_call_of_a_device__is_its_start(call):
    host = Rank().enter("set_up").work(call, 3000)
    for _ in range(5):
        host.work(call, 2)
    host.leave()
    for _ in range(5):
        host.work("assemble", 100).kernel("k", 60).sync()
    found = findings_of([host])
    (start,) = (f for f in found if f.kind == "device_start")
    assert start.seconds == 3000
    assert start.title.endswith("at the start of devices")
    assert start.advice.startswith("It happens once")
    assert found[0].cause_region == "assemble"
    assert not any(call in f.what for f in found)
    assert found[-1] is start


def test_later_call_that_takes_long__is_no_start():
    host = Rank()
    for ticks in (2, 2, 3000, 2):
        host.work("cudaMalloc", ticks).kernel("k", 60).sync()
    found = findings_of([host])
    assert not any(f.kind == "device_start" for f in found)
    assert (found[0].kind, found[0].cause_region) == ("idle", "cudaMalloc")
    assert found[0].advice.startswith("Allocate memory once")


def test_calls_that_always_take_long__are_no_start():
    host = Rank()
    for _ in range(4):
        host.work("cudaMalloc", 3000).kernel("k", 60).sync()
    assert not any(f.kind == "device_start" for f in findings_of([host]))


def test_busy_device__is_named_with_its_longest_kernels():
    host = Rank().kernel("gemm<float>(int)", 400).kernel("gemm<double>(int)", 300).kernel("relu", 200).kernel("add", 90)
    found = findings_of([host.sync()])[0]
    assert (found.kind, found.property) == ("device", "device_kernels")
    assert found.what == (
        "the device is busy 100% of the time: kernels determine the runtime, longest gemm (71%) and relu (20%)"
    )


def test_shares_of_gains__leave_out_contexts_of_devices(archive, opened):
    p = Offload(archive)
    host, work = p.host.enter(0, "main"), archive.region("assemble")
    p.call(0, 9000, "cuCtxCreate_v2")
    for t in range(9000, 9900, 100):
        # the second function takes less than 1 % of the run with its contexts, and more without them
        host.enter(t, work).leave(t + 45, work).enter(t + 45, "write").leave(t + 54, "write")
        p.call(t + 54, t + 55, "cuLaunchKernel", p.streams[0]).kernel(t + 55, t + 99)
        p.call(t + 55, t + 100, "cuStreamSynchronize", p.streams[0])
    host.leave(9900, "main")
    trace = opened(archive)
    idle = [f for f in trace.analyze().diagnosis().findings if f.kind == "idle"]
    assert [f.cause_region for f in idle] == ["assemble", "write"]
    assert mended_of(trace.what_if()).share.tolist() == pytest.approx([f.gain_share for f in idle])
    assert idle[0].gain_share == pytest.approx(0.45, abs=0.01)


def test_device_that_copies__is_busy_with_copies(archive, opened):
    host = Offload(archive)
    host.host.enter(0, "main")
    host.call(0, 2, "cuLaunchKernel", host.streams[0]).kernel(2, 10)
    host.call(10, 100, "cuMemcpyDtoH_v2").copy(12, 99, "to host", 64)
    host.host.leave(101, "main")
    (found,) = (f for f in opened(archive).analyze().diagnosis().findings if f.kind == "device")
    assert (found.property, found.cause_region) == ("device_copies", "cuMemcpyDtoH_v2")
    assert found.advice.startswith("Copy less")


def test_copies_that_hosts_wait_for__are_a_cause_with_its_gain(archive, opened):
    p = Offload(archive)
    host, steps = p.host.enter(0, "main"), archive.region("update")
    for t in range(10, 910, 100):
        host.enter(t, steps)
        p.call(t, t + 2, "cuLaunchKernel", p.streams[0]).kernel(t + 3, t + 30)
        p.call(t + 2, t + 81, "cuMemcpyDtoH_v2").copy(t + 30, t + 80, "to host", 64)
        host.leave(t + 90, steps)
    host.leave(1000, "main")
    first = opened(archive).analyze().diagnosis().findings[0]
    # with the return of each call
    assert (first.kind, first.rank, first.cause_region, first.gain_share) == ("copies", 0, "update", 9 * 51 / 1000)
    assert first.what.startswith("9 copies of 64 bytes between hosts and devices in update take ")


def test_small_copies__gain_the_time_of_their_calls_too(archive, opened):
    p = Offload(archive)
    host, steps = p.host.enter(0, "main"), archive.region("upload")
    for t in range(0, 1000, 20):
        host.enter(t, steps)
        p.call(t, t + 16, "cuMemcpyHtoD_v2", p.streams[0]).copy(t + 8, t + 12, "to device", 64)
        host.leave(t + 18, steps)
    p.call(1000, 1010, "cuLaunchKernel", p.streams[0]).kernel(1006, 2000)
    p.call(1010, 2001, "cuCtxSynchronize")
    host.leave(2001, "main")
    first = opened(archive).analyze().diagnosis().findings[0]
    assert (first.kind, first.cause_region) == ("copies", "upload")
    assert first.gain_share == pytest.approx(50 * 16 / 2001, rel=0.02)


def test_first_launch_of_a_kernel__loads_its_code():
    host = Rank()
    for _ in range(5):
        host.work("assemble", 100).kernel("k", 60).sync()
    program = Simulation([host]).program
    master, stream = program.masters[0], program.locations[-1]
    end = 1000
    master.enter(end, "more").launch(end + 10, end + 5010, stream)
    stream.kernel(end + 5005, end + 5065, "other")
    master.synchronize(end + 5010, end + 5066).leave(end + 5070)
    (start,) = (f for f in cube_of(program).diagnosis(10).findings if f.kind == "device_start")
    # the part of the launch before the kernel
    assert start.seconds == 4995
    assert start.where.call_path == "more/cuLaunchKernel"


def gaps_of(rows, last=1000, until="launch"):
    """Return begins of the gaps of device 0 with operations (begin, end, launch), and the launches that end them."""
    begin, end, launch = (np.array(of, np.int64) for of in zip(*rows, strict=True))
    nothing = np.zeros(begin.size, np.int64)
    columns = {"process": nothing, "host": nothing, "location": nothing, "row": np.arange(begin.size)}
    columns |= {"begin": begin, "end": end, "launch_time": launch}
    found = find_gaps(Columns(begin.size, columns), np.zeros(1, np.int32), np.array([0]), np.array([last]))
    return list(zip(found.begin.tolist(), found[until].tolist(), strict=True))


@pytest.mark.parametrize(
    ("rows", "until", "gaps"),
    [
        ([(50, 100, 20), (200, 300, 150)], "launch", [(0, 20), (100, 150), (300, 1000)]),
        # the third was launched at 110, before the second, on another stream: what begins later is pending
        ([(50, 100, 20), (200, 210, 150), (220, 300, 110)], "launch", [(0, 20), (100, 110), (300, 1000)]),
        # launches take 30 ticks to begin what they launch, so that what was launched a little before begins late
        ([(50, 100, 20), (110, 150, 90), (165, 200, 105)], "end", [(0, 50), (100, 110), (200, 1000)]),
        # nothing is known before what has no launch
        ([(50, 100, -1), (200, 300, -1)], "launch", []),
        ([(50, 100, -1), (200, 300, -1), (500, 1000, 450)], "launch", [(300, 450)]),
    ],
)
def test_gaps__end_with_the_first_launch(rows, until, gaps):
    assert gaps_of(rows, until=until) == gaps


@pytest.mark.parametrize("seed", range(5))
def test_usual__is_the_median_of_calls_that_are_not_the_first(seed):
    random = np.random.default_rng(seed)
    process, region = random.integers(2, size=12), random.integers(4, size=12)
    ticks, is_first = random.integers(100, size=12), random.random(12) < 0.4
    expected = []
    for i in range(12):
        later = ~is_first & (process == process[i])
        same = later & (region == region[i])
        of = np.sort(ticks[same if same.any() else later])
        expected.append(of[(of.size - 1) // 2] if of.size else np.inf)
    assert usual(process, region, ticks, is_first).tolist() == expected


@pytest.mark.parametrize("is_created, expected", [(True, "rank 3 stream HIP[0:0]"), (False, "stream HIP[0:0]")])
def test_stream_of_a_device_that_is_a_process__has_the_rank_of_the_process_it_belongs_to(is_created, expected):
    # the device is below the process, or next to it
    parent = [-1, 0, 1, 1 if is_created else 0, 3]
    kinds = ["machine", "process", "thread", "accelerator", "stream"]
    of = np.array([3, -1], np.int32), np.zeros(2, np.int32), ["main", "HIP[0:0]"], ["cpu_thread", "gpu"]
    system = SystemAxis(kinds, [""] * 5, parent, [-1, -1, 0, -1, 1], *of)
    assert location_in_words(system, 1) == expected
