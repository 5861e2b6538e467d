"""Explicit tasks in predicted runs: threads take them as they become free, as in a simulation of the changed program."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import slow

from tracecols.kernels import tasks as kernels
from tracecols.replay.graph import BOUND_TASKS
from tracecols.replay.scenarios import recorded_runtime, runtimes_of
from tracecols.testing import Program

PARALLEL, BARRIER = "!$omp parallel @a.c:1", "!$omp implicit barrier @a.c:9"
CREATE, TASK, TASKWAIT = "!$omp create task @a.c:5", "!$omp task @a.c:5", "!$omp taskwait @a.c:7"
DELAY = 2
"""Ticks from when a thread is free, and a task there, to the begin of the task."""


class Simulation:
    """A team whose first thread creates tasks in batches, and waits for each batch but the last one in a taskwait; all
    threads that wait execute tasks, in the order of creation, each the first that is free.

    Tasks are long or short; `factor` is for the long ones.
    """

    def __init__(self, seed, factor=1.0, n_batches=1):
        rng = random.Random(seed)
        n_threads = rng.choice([2, 3, 4])
        self.program = Program(processes=1, threads=n_threads)
        self.at = self.program.locations
        self.free = [0] * n_threads
        self.at[0].enter(0, "main").fork(0)
        for i, one in enumerate(self.at):
            self.free[i] = 5 + rng.randrange(200) * (i > 0)
            one.begin_team(3).enter(3, PARALLEL).enter(4, "own").leave(self.free[i])
        for i, one in enumerate(self.at[1:], 1):
            one.enter(self.free[i], BARRIER)
        number = 0
        for batch in range(n_batches):
            made = []
            for _ in range(rng.randrange(4, 16)):
                number += 1
                t = self.free[0]
                self.at[0].enter(t, CREATE).create_task(t + 1, (0, number)).leave(t + 2)
                self.free[0] = t + 3 + rng.randrange(10)
                is_long = rng.random() < 0.3
                ticks = 40 * rng.randrange(5, 15) * factor if is_long else 10 * rng.randrange(4, 12)
                made.append((t + 1, number, "long" if is_long else "short", int(ticks)))
            is_last = batch == n_batches - 1
            self.at[0].enter(self.free[0], BARRIER if is_last else TASKWAIT)
            end = self.execute(made)
            if not is_last:
                self.free[0] = max(end, self.free[0]) + 1
                self.at[0].leave(self.free[0])
        self.end = max(self.free) + 2
        for one in self.at:
            one.leave(self.end).leave(self.end).end_team(self.end)
        self.at[0].join(self.end + 1).leave(self.end + 2)

    def execute(self, made):
        """Execute tasks, and return when all have ended."""
        last = 0
        for created, number, name, ticks in made:
            i = min(range(len(self.free)), key=lambda i: max(self.free[i], created))
            begin = max(self.free[i], created) + DELAY
            self.free[i] = begin + ticks
            one = self.at[i].switch_task(begin, (0, number)).enter(begin, TASK).enter(begin, name).leave(self.free[i])
            one.leave(self.free[i]).complete_task(self.free[i], (0, number)).switch_task(self.free[i], (i, 0))
            last = max(last, self.free[i])
        return last


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("seed", [*range(6), *slow(range(6, 40))])
def test_tasks__are_taken_by_threads_that_are_free(seed, n_batches):
    with Simulation(seed, n_batches=n_batches).program.trace() as trace:
        for factor in (0.25, 0.5, 2.0):
            there = Simulation(seed, factor, n_batches)
            predicted = trace.what_if({"long": factor})
            # the recorded placement may be the better one by chance; no prediction is longer than with it
            assert predicted.runtime == min(there.end + 2, trace.replay.runtime(predicted.time))


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_tasks__stay_in_the_recorded_run(seed, n_batches):
    with Simulation(seed, n_batches=n_batches).program.trace() as trace:
        graph, replay = trace.replay.graph, trace.replay
        tasks = graph.tasks
        assert tasks.units.begin.size > 3 and (tasks.units.creation >= 0).all()
        assert (tasks.units.awaited >= 0).any() == (n_batches > 1)
        np.testing.assert_array_equal(graph.sweep(), replay.nodes.time)
        edge, _, _ = tasks.placed(graph.edges, graph.time, graph.time)
        assert edge.size == 0 and graph.with_tasks_moved(graph.time) is None
        assert runtimes_of(replay, graph, [replay.scenario(trace.what_if().changes)]) == recorded_runtime(replay)


def test_tasks__are_placed_the_same_by_compiled_and_plain_code(monkeypatch):
    with Simulation(2, n_batches=3).program.trace() as trace:
        graph = trace.replay.graph
        time = trace.what_if({"long": 0.3}).time
        compiled = graph.tasks.placed(graph.edges, graph.time, time)
        assert compiled[0].size
        for name in ("_arrive", "_leave", "_count_placed", "_choose"):
            part = getattr(kernels, name)
            monkeypatch.setattr(kernels, name, getattr(part, "py_func", part))
        monkeypatch.setattr(kernels, "place_tasks", kernels.place_tasks.py_func)
        plain = graph.tasks.placed(graph.edges, graph.time, time)
        for one, other in zip(compiled, plain, strict=True):
            np.testing.assert_array_equal(one, other)


def test_tasks__that_wait_for_tasks_themselves_stay():
    """A task creates another one and waits for it; the other thread executes that."""
    program = Program(processes=1, threads=2)
    main, worker = program.locations
    main.enter(0, "main").fork(0)
    for one in program.locations:
        one.begin_team(3).enter(3, PARALLEL)
    main.enter(4, CREATE).create_task(4, (0, 1)).leave(5).enter(5, BARRIER)
    worker.enter(5, BARRIER)
    main.switch_task(6, (0, 1)).enter(6, TASK).enter(6, CREATE).create_task(7, (0, 2)).leave(8).enter(8, TASKWAIT)
    worker.switch_task(9, (0, 2)).enter(9, TASK).leave(109).complete_task(109, (0, 2)).switch_task(109, (1, 0))
    main.leave(110).leave(120).complete_task(120, (0, 1)).switch_task(120, (0, 0))
    for one in program.locations:
        one.leave(125).leave(125).end_team(125)
    main.join(126).leave(127)
    with program.trace() as trace:
        assert trace.replay.graph.tasks is None and trace.replay.counts == {BOUND_TASKS: 1}
        assert trace.what_if({"*task*": 0.5}).runtime < 127
