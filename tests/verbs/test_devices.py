"""Training steps, stragglers and kernels: small programs worked out by hand, and recorded ones counted a second time from
their files."""

import tarfile
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from conftest import SHARED
from oracles import device_answers, kineto_causes
from support.command_line import executed
from support.device_program import Rank, Simulation

import tracecols
from tracecols.errors import AnalysisError
from tracecols.report.devices import Answers, render
from tracecols.testing import Program

PARTS = ["compute_seconds", "overlapped_seconds", "exposed_seconds", "copy_seconds", "idle_seconds"]


def ticks(frame, columns, resolution=1):
    return [
        [round(v * resolution) if isinstance(v, float) else v for v in row] for row in frame[columns].to_numpy(object)
    ]


def one_rank():
    """Return two steps of 100 ticks and two streams: kernels and NCCL overlap, and some are launched early."""
    program = Program()
    host = program.masters[0]
    first, second = program.stream(0), program.stream(0)
    communicator = program.nccl_communicator("all", [second])
    host.enter(0, "step_1").launch(10, 12, first).launch(14, 16, second).leave(100)
    host.enter(100, "step_2").launch(130, 132, first).leave(200)
    first.kernel(20, 60, "gemm").kernel(150, 210, "gemm")
    second.collective(50, 90, communicator, "allreduce", sent=8, received=8, region="ncclAllReduce")
    return program


def test_training_steps__are_divided_as_worked_out_by_hand():
    with one_rank().trace() as trace:
        found = trace.training_steps("step")
        whole = trace.training_steps()
    # idle: 0 to 20, of which from 10 on the kernel is launched, and 90 to 100
    assert ticks(found, ["step", "rank", *PARTS, "host_bound_seconds"]) == [
        ["step_1", 0, 30, 10, 30, 0, 30, 20],
        ["step_2", 0, 50, 0, 0, 0, 50, 30],
    ]
    assert whole.step.tolist() == ["whole run"]
    assert ticks(whole, PARTS) == [[90, 10, 30, 0, 80]]


@pytest.mark.parametrize("steps, title", [("step", "Training steps"), (None, "Whole run")])
def test_command__calls_the_whole_run_no_training_step(steps, title):
    with one_rank().trace() as trace:
        found = Answers(trace.training_steps(steps), trace.stragglers(), trace.kernel_profile())
    first, *_ = (str(part) for part in render(found, 5))
    assert first.startswith(f"{title}: what devices do")


def test_kernel_profile__has_latencies_and_queues():
    with one_rank().trace() as trace:
        found = trace.kernel_profile().set_index("region_name")
    columns = ["n_kernels", "seconds", "min_seconds", "max_seconds", "latency_seconds", "max_latency_seconds"]
    assert ticks(found.loc[["gemm"]], columns) == [[2, 100, 40, 60, 15, 20]]
    assert found.queue_length.tolist() == [0, 0]


def test_queue_length__counts_what_was_launched_before_and_has_not_begun():
    program = Program()
    host, stream = program.masters[0], program.stream(0)
    host.enter(0, "main")
    for k in range(4):
        host.launch(1 + 2 * k, 2 + 2 * k, stream)
    host.leave(100)
    # launched at 1, 3, 5, 7; the second begins before the fourth is launched
    stream.kernel(2, 4, "a").kernel(6, 20, "a").kernel(20, 30, "b").kernel(30, 40, "c")
    with program.trace() as trace:
        found = trace.kernel_profile().set_index("region_name")
    assert found.queue_length.to_dict() == {"a": 0, "b": 1, "c": 1}
    assert found.max_queue_length.to_dict() == {"a": 0, "b": 1, "c": 1}


def test_stragglers__are_late_because_of_hosts_kernels_or_other_ranks():
    def rank(first, second, kernel):
        found = Rank().work("first", first).collective().sync().work("second", second)
        return found.kernel("k", kernel).collective().sync()

    with Simulation([rank(10, 10, 5), rank(10, 40, 5), rank(50, 10, 20)]).program.trace() as trace:
        found = trace.stragglers()
        waits = trace.analyze().total("nccl_wait_nxn")
    assert found["rank"].tolist() == [2, 1]
    assert found.n_last.tolist() == [1, 1]
    assert found.n_operations.tolist() == [2, 2]
    faults = ["host_seconds", "kernel_seconds", "earlier_wait_seconds", "latency_seconds", "unrecorded_seconds"]
    assert found.wait_seconds.sum() == pytest.approx(waits)
    assert np.allclose(found[faults].sum(axis=1), found.wait_seconds)
    assert found.fault.tolist() == ["host", "earlier_wait"]
    assert found.path.tolist() == ["main/first", "main/second"]


def test_answers__of_traces_without_devices_are_empty():
    program = Program()
    program.masters[0].enter(0, "main").leave(10)
    with program.trace() as trace:
        assert trace.training_steps().empty
        assert trace.stragglers().empty
        assert trace.stragglers(by="step").empty
        assert trace.kernel_profile().empty


@pytest.fixture(scope="module")
def gloo(store_of, data):
    return store_of(data / "kineto_gloo_3")


def test_steps__of_an_unknown_region_are_refused_in_the_words_of_python_or_of_the_shell(gloo):
    message = "no call path enters a region 'xyz'\n  "
    with pytest.raises(AnalysisError, match=message + "see trace.call_paths"):
        tracecols.open(gloo).training_steps("xyz")
    printed = executed("devices", gloo, "--steps", "xyz", code=1)
    assert printed == f"error: {message}tracecols show CUBE -p visits shows where regions are entered\n"


@pytest.mark.slow
def test_answers__do_not_depend_on_partitions(gloo):
    def ask(trace):
        return (trace.training_steps(), trace.stragglers(), trace.stragglers(by="step"), trace.kernel_profile("rank"))

    whole = ask(tracecols.open(gloo, jobs=1))
    with mock.patch("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1):
        divided = ask(tracecols.open(gloo, jobs=2))
    for one, other in zip(whole, divided, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert whole[1]["rank"].tolist() == [1]
    assert "SlowBackward" in whole[1].path[0]
    assert whole[0].step.value_counts().to_dict() == {"ProfilerStep#2": 3, "ProfilerStep#3": 3, "ProfilerStep#4": 3}


# -- recorded programs -------------------------------------------------------------------------------------------------


def check_steps(trace, processes):
    """Compare training steps with those counted from the files, to the tick."""
    found = trace.training_steps()
    expected = {rank: device_answers.steps_of(process) for rank, process in processes.items()}
    for rank, of in found.groupby("rank"):
        columns = list(expected[rank][0])
        assert ticks(of, columns, 10**9) == [list(step.values()) for step in expected[rank]]
    assert sorted(found["rank"].unique()) == sorted(expected)
    assert np.allclose(found[PARTS].sum(axis=1), found.seconds, rtol=0, atol=1e-12)


def check_kernels(trace, processes):
    """Compare kernels with those counted from the files."""
    found = trace.kernel_profile().set_index("region_name")
    expected = device_answers.kernels_of(processes)
    assert set(found.index) == set(expected)
    for name, row in found.iterrows():
        of = expected[name]
        assert (row.n_kernels, round(row.seconds * 1e9)) == (len(of["ticks"]), sum(of["ticks"]))
        assert (row.n_launched, row.max_queue_length) == (len(of["latency"]), max(of["queue"]))
        assert row.latency_seconds == pytest.approx(sum(of["latency"]) / len(of["latency"]) / 1e9)
        assert row.queue_length == pytest.approx(sum(of["queue"]) / len(of["queue"]))


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory):
    archive = SHARED / "kineto" / "dlrm_8rank_v100" / "dlrm_kineto.tar.gz"
    if not archive.exists():
        pytest.skip("no reference traces beside the repository")
    folder = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "dlrm_kineto", tracecols.open(tracecols.convert(folder / "dlrm_kineto", folder / "dlrm.trace"))


@pytest.mark.slow
def test_dlrm__steps_and_kernels_are_those_of_the_files(dlrm):
    folder, trace = dlrm
    processes = device_answers.read_kineto(folder)
    check_steps(trace, processes)
    check_kernels(trace, processes)


@pytest.mark.slow
def test_dlrm__stragglers_are_those_of_the_definition(dlrm):
    folder, trace = dlrm
    found = trace.stragglers()
    # expected.json: the last rank of each operation, and how long the others wait
    assert found[["rank", "n_last"]].to_numpy().tolist() == [[7, 5], [5, 2], [4, 1]]
    waits = [26435 + 6231 + 1161 + 871 + 854, 2903 + 3379, 5009]
    assert (found.wait_seconds * 1e6).round().astype(int).tolist() == waits
    chains = kineto_causes.Chains(kineto_causes.read(folder))
    expected = chains.faults()
    names = dict(zip(kineto_causes.SPENT_IN, ("host", "kernel", "latency", "unrecorded"), strict=True)) | {
        "waits": "earlier_wait"
    }
    for row in found.to_dict("records"):
        for what, name in names.items():
            assert row[f"{name}_seconds"] * 1e6 == pytest.approx(expected.get((row["rank"], what), 0), abs=0.5)


@pytest.mark.slow
def test_mfu__steps_kernels_and_stragglers(opened):
    archive = SHARED / "nsight" / "mfu_2gpu_before.sqlite"
    if not archive.exists():
        pytest.skip("no reference traces beside the repository")
    trace = opened(archive)
    first, last = (trace.manifest[name] for name in ("first_time", "last_time"))
    processes = device_answers.read_nsight(archive, first, last)
    check_steps(trace, processes)
    check_kernels(trace, processes)
    found = trace.stragglers()
    assert found[["rank", "n_last", "fault", "path"]].to_numpy().tolist() == [
        [1, 22, "kernel", "flash_fwd_kernel"],
        [0, 11, "kernel", "flash_fwd_kernel"],
    ]
    assert (found.wait_seconds * 1e3).round(3).tolist() == [10.898, 2.477]
