"""Replay of programs whose kernels communicate: faster code shortens the waits of others, exact to the tick."""

from __future__ import annotations

import pytest
from conftest import slow
from support.device_program import OPS, Rank, Simulation, random_ranks

from tracecols.testing import Program, severities


def runtime(simulation: Simulation, scale: dict | None = None) -> float:
    """Return the predicted end of the run, in ticks since its start."""
    with simulation.program.trace() as trace:
        return trace.what_if(scale).runtime


SCALES = {}, {"kernel0": 0.5}, {"work0": 0.5}, {"kernel1": 2, "work1": 0.5}
DRAWN = [(seed, SCALES[seed % 4], (("allreduce", "barrier"), OPS)[seed // 4 % 2]) for seed in range(24)]
"""Seeds of random programs, the factors by region, and the operations of the programs."""


@pytest.mark.parametrize(("seed", "scale", "ops"), [*DRAWN[:8], *slow(DRAWN[8:])])
def test_random_programs__are_predicted_as_they_are_simulated(seed, scale, ops):
    recorded = random_ranks(seed, ops=ops)
    with recorded.program.trace() as trace:
        known = set(trace.call_paths.path.str.split("/").str[-1])
        chosen = {name: factor for name, factor in scale.items() if name in known}
        first = trace.manifest["first_time"]
        predicted = trace.what_if(chosen).runtime
    assert predicted == random_ranks(seed, ops=ops, scale=chosen).end - first


@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_random_programs__half_of_what_is_blamed_shortens_run_and_waits(seed):
    given = {"ops": OPS, "delay": 1000}
    recorded, faster = random_ranks(seed, **given), random_ranks(seed, **given, scale={"delay": 0.5})
    with recorded.program.trace() as trace:
        first = trace.manifest["first_time"]
        costs = trace.analyze().frame("delay_device")
        costs = costs[costs["rank"].notna()].groupby("call_path", observed=True).value.sum()
        assert str(costs.idxmax()).endswith("delay")
        assert trace.what_if({"delay": 0.5}).runtime == faster.end - first
    assert faster.end < recorded.end
    assert sum(faster.waits.values()) < sum(recorded.waits.values())


@pytest.mark.slow
def test_less_time_on_the_blamed_call_path__shortens_the_run():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks).sync().collective().sync()

    simulation = Simulation([rank(10), rank(90)])
    with simulation.program.trace() as trace:
        assert severities(trace.analyze(), "delay_device_nxn")["k", 1, 1] == 79
    # half of 90 is saved; the wait of 80 becomes 40
    assert runtime(simulation) - runtime(simulation, {"k": 0.5}) == 45


def test_latency_of_a_launch__passes_while_the_stream_is_busy():
    program = Program(processes=1)
    (master,), stream = program.masters, program.stream(0)
    master.enter(0, "main").launch(0, 2, stream).call(2, 22, "work").launch(22, 24, stream)
    stream.kernel(5, 15).kernel(27, 37)
    master.synchronize(24, 38, stream).leave(38)
    with program.trace() as trace:
        assert trace.what_if().runtime == 38
        # launched at 2, the second kernel begins when the first one ends
        assert trace.what_if({"work": 0}).runtime == 26


def test_kernels__under_way_when_the_recording_begins_do_not_keep_it_from_being_predicted():
    # the first kernel is launched before the recording begins; 10 of the 20 ticks of the second one are saved
    program = Program(processes=1)
    (master,), stream = program.masters, program.stream(0)
    master.enter(0, "main").launch(1, 2, stream, site=2).synchronize(3, 31, stream).leave(40)
    stream.kernel(0, 10, "k", site=1).kernel(10, 30, "k", site=2)
    with program.trace() as trace:
        assert trace.what_if().runtime == 40
        assert trace.what_if({"k": 0.5}).runtime == 25


def test_balanced__devices_take_the_mean_too():
    def rank(host, kernel):
        return Rank().work("work", host).kernel("k", kernel).sync().collective().sync()

    with Simulation([rank(10, 20), rank(50, 100)]).program.trace() as trace:
        recorded, predicted = trace.what_if().runtime, trace.what_if(balanced=True).runtime
    # hosts work 30 instead of 50, kernels take 60 instead of 100; calls of hosts and transfer are part of the means, so
    # the saving is somewhat smaller
    assert recorded - predicted == pytest.approx(20 + 40, abs=7)
