"""Replay of programs whose kernels communicate: what is faster lets others wait less, to the tick."""

from __future__ import annotations

import pytest
from support.device_program import Rank, Simulation, random_ranks

from tracecols.testing import severities


def runtime(simulation: Simulation, scale: dict | None = None) -> float:
    """The predicted end of the run, in ticks since it starts."""
    with simulation.program.trace() as trace:
        return trace.what_if(scale).runtime


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 80))])
@pytest.mark.parametrize("scale", [{}, {"kernel0": 0.5}, {"work0": 0.5}, {"kernel1": 2, "work1": 0.5}])
def test_random_programs__are_predicted_as_they_are_simulated(seed, scale):
    recorded = random_ranks(seed, always_late=True)
    with recorded.program.trace() as trace:
        known = set(trace.call_paths.path.str.split("/").str[-1])
        chosen = {name: factor for name, factor in scale.items() if name in known}
        first = trace.manifest["first_time"]
        predicted = trace.what_if(chosen).runtime
    expected = random_ranks(seed, always_late=True, scale=chosen)
    assert predicted == expected.end - first


def test_less_time_on_the_blamed_call_path__shortens_the_run():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks).sync().collective().sync()

    simulation = Simulation([rank(10), rank(90)])
    with simulation.program.trace() as trace:
        cube = trace.analyze()
        assert severities(cube, "delay_device_nxn") == {("k", 1, 1): 80}
    # of 90 half; the wait of 80 is 40 then
    assert runtime(simulation) - runtime(simulation, {"k": 0.5}) == 45
