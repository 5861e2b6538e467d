"""Findings of programs whose kernels communicate: the rank, and the code or kernel, that makes the kernels of all
others wait."""

import tarfile

import numpy as np
import pytest
from conftest import DATA, SHARED
from support.device_program import TRANSFER, Rank, Simulation
from support.severities import cube_of

import tracecols
from tracecols.findings.devices import of_transfers
from tracecols.findings.mended import mended_of
from tracecols.findings.scenarios import Scenarios
from tracecols.severity import wording


def first_of(simulation):
    return cube_of(simulation.program).diagnosis().findings[0]


def rank(host=10, kernel=10):
    """Return a rank with two operations, each after host work and a kernel."""
    found = Rank()
    for _ in range(2):
        found.work("work", host).kernel("k", kernel).collective().sync()
    return found


def test_late_host__is_named_with_its_gain():
    found = first_of(Simulation([rank(), rank(90), rank()]))
    assert (found.kind, found.rank, found.cause_region) == ("straggler", 1, "work")
    assert "its host takes too long in work" in found.what
    assert found.advice == "Let the host do less in work, or launch the communication before it."
    # 80 less for each of two operations, minus the part of latency, of 2 x 105 ticks
    assert found.gain == pytest.approx(160, abs=8)
    assert found.evidence["waits"] == pytest.approx(4 * 80, abs=8)
    assert found.evidence["n_last"] == 2
    assert "100% of such waits" in found.shows


def test_long_kernel__is_named_with_its_gain():
    found = first_of(Simulation([rank(), rank(), rank(kernel=70)]))
    assert (found.kind, found.rank, found.cause_region) == ("straggler", 2, "k")
    assert "its kernel k takes too long" in found.what
    assert "Balance the work of k" in found.advice
    assert found.gain == pytest.approx(120, abs=8)


def test_who_waits_itself__is_no_cause():
    # 2 is late in the first operation; because it waited there, 1 is late in the second one
    def one(first, second):
        return Rank().work("first", first).collective().sync().work("second", second).collective().sync()

    found = cube_of(Simulation([one(10, 10), one(10, 14), one(90, 10)]).program).diagnosis().findings
    assert [f.rank for f in found if f.kind == "straggler"] == [2]


def test_balanced_ranks__have_no_straggler():
    with Simulation([rank(), rank(), rank()]).program.trace() as trace:
        assert all(f.kind != "straggler" for f in trace.analyze().diagnosis().findings)


def test_hosts_that_never_wait__have_no_gain(data, opened):
    trace = opened(data / "kineto_gloo_3")
    found = trace.analyze().diagnosis().findings[0]
    assert (found.kind, found.rank, found.cause_region, found.gain) == ("straggler", 1, "SlowBackward", None)


def test_delay_before_the_recording__is_said():
    evidence = {
        "waits": 1.0,
        "share": 0.5,
        "n_last": 1,
        "on_host": 0.2,
        "on_stream": 0.0,
        "earlier": 0.0,
        "unrecorded": 0.8,
        "is_kernel": False,
    }
    facts = {"kind": "straggler", "evidence": evidence}
    subject = wording.Subject("forward", "rank 7")
    assert "late when its recording begins" in wording.what(facts, subject)
    assert wording.advice(facts, subject).startswith("Record the step before, too")
    assert "what is before the recording (80%)" in wording.evidence(facts, subject)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("archive", "rank", "region"),
    [
        ("kineto/dlrm_8rank_v100/dlrm_kineto.tar.gz", 7, "DistributedDataParallel.forward"),
        ("nsight/mfu_2gpu_before.sqlite", 1, "flash_fwd_kernel"),
    ],
)
def test_recorded__first_finding_names_the_rank_that_all_wait_for(archive, rank, region, opened, tmp_path):
    path = SHARED / archive
    if not path.exists():
        pytest.skip("no reference traces beside the repository")
    if path.suffix == ".gz":
        with tarfile.open(path) as packed:
            packed.extractall(tmp_path, filter="data")
        path = tmp_path / "dlrm_kineto"
    trace = opened(path)
    found = trace.analyze().diagnosis().findings[0]
    assert (found.kind, found.rank, found.cause_region) == ("straggler", rank, region)
    assert found.gain > 0
    # what-if names it in the same words
    assert found.what in mended_of(trace.what_if()).change.tolist()


def test_late_in_numbered_steps__is_one_cause():
    # late by 30 in forward of each step, and once by 60 in setup
    def one(setup, forward):
        found = Rank()
        for i in range(4):
            found.enter(f"ProfilerStep#{i}").work("forward", forward).leave()
            found.work(f"{'data' if i else 'setup'}", setup if not i else 5)
            found.kernel("k", 10).collective().sync()
        return found

    found = first_of(Simulation([one(5, 10), one(65, 40), one(5, 10)]))
    # forward: 4 x 30; setup: 60
    assert (found.kind, found.rank, found.cause_region) == ("straggler", 1, "forward")


def test_host_that_is_late_where_nobody_waits_for_it__too__gains_all_of_it():
    late, *others = (rank(host).work("work", host) for host in (90, 10, 10))
    found = first_of(Simulation([others[0], late, others[1]]))
    assert (found.kind, found.rank, found.cause_region) == ("straggler", 1, "work")
    assert found.gain == pytest.approx(240, abs=10)


def test_host_that_is_late_in_many_functions__is_named_rather_than_a_kernel():
    def one(host, kernel):
        found = Rank()
        for _ in range(3):
            for region in "abcd":
                found.work(region, host)
            found.kernel("k", kernel).collective().sync()
        return found

    found = first_of(Simulation([one(10, 10), one(30, 50), one(10, 10)]))
    assert found.rank == 1 and found.cause_region in "abcd" and "its host takes too long" in found.what
    assert found.gain == pytest.approx(3 * 120, rel=0.1)


def test_cause_in_one_rank_that_gains_more_than_others_wait_for_the_late_one__comes_first():
    late, other = rank(40), rank().work("write", 500).kernel("k", 10).sync()
    found = cube_of(Simulation([other, late, rank()]).program).diagnosis().findings
    assert [(f.kind, f.rank, f.cause_region) for f in found[:2]] == [("idle", 0, "write"), ("straggler", 1, "work")]


def uneven(ticks):
    """Simulate ranks whose two kernels take the time of their batch (step, rank) in each step."""
    ranks = [Rank() for _ in ticks[0]]
    for step in ticks:
        for rank, of in zip(ranks, step, strict=True):
            rank.kernel("forward", of).kernel("backward", 2 * of).collective().sync()
    return Simulation(ranks)


def test_kernels_that_take_longer_on_another_rank_each_time__are_one_cause_with_its_gain():
    batches = [(90, 10, 20, 40), (10, 90, 30, 30), (20, 30, 90, 20), (40, 30, 20, 70)] * 2
    same = [(40, 40, 40, 40)] * 8
    found = first_of(simulation := uneven(batches))
    assert (found.kind, found.rank, found.cause_region) == ("changing", None, "backward")
    assert found.what.startswith("backward and forward take longest on another stream each time")
    assert found.advice.startswith("Balance the work of the kernels each time")
    assert found.gain == pytest.approx(simulation.end - uneven(same).end, abs=8)


def test_two_ranks_that_are_late_together__come_before_each_of_them():
    found = cube_of(uneven([(40, 40, 90, 90)] * 6).program).diagnosis().findings
    assert (found[0].kind, found[0].seconds > 0) == ("slow", True)
    assert found[0].what.startswith("rank 2 stream CUDA[0:7] and rank 3 stream CUDA[0:7] compute 2.2 times as long")
    assert found[0].gain == pytest.approx(6 * 3 * 50, rel=0.05)
    assert all(f.kind != "straggler" for f in found)


def test_transfers_that_other_kernels_wait_for__gain_what_overlapping_them_does():
    ranks = [Rank() for _ in range(3)]
    for _ in range(20):
        for one in ranks:
            one.kernel("k", 5).collective()
    found = first_of(simulation := Simulation(ranks))
    assert (found.kind, found.rank) == ("transfers", None)
    assert found.what.startswith("60 kernels launched in main communicate for 2 s each beyond waiting")
    assert found.gain == pytest.approx(20 * TRANSFER, abs=TRANSFER) and found.gain < simulation.end
    # on another stream they are overlapped
    for one in ranks:
        one.steps = [(*of[:2], 1, *of[3:]) if of[0] == "collective" else of for of in one.steps]
    overlapped = cube_of(Simulation(ranks, n_streams=2).program).diagnosis().findings
    assert all(f.kind != "transfers" for f in overlapped)


def test_transfers__are_those_of_devices(store_of, monkeypatch):
    """Hosts are in operations of the same library for a ninth of the time."""
    monkeypatch.setattr("tracecols.findings.devices.tried", lambda _s, found: found)
    trace = tracecols.open(store_of(DATA / "kineto_gloo_3"))
    s = Scenarios(trace.replay)
    nodes = np.concatenate([c.change.node for c in of_transfers(s)])
    assert nodes.size == 9
    assert s.model.locations.is_device[s.graph.nodes.location[nodes]].all()
