"""Goals for the time and memory of commands and of questions in Python, on two cores with 24 GB; a table of results
has them next to the measured figures."""

from __future__ import annotations

from dataclasses import dataclass

SERIES = "goals"
"""The series of workloads on which only yardsticks and steps that have goals are measured."""


@dataclass(frozen=True)
class Goal:
    """A figure of a step on a workload that should be at most, or for rates at least, `value`."""

    workload: str
    step: str
    figure: str  # one of `benchmarks.results.GOAL_FIGURES`
    value: float
    base: str = ""  # the step to whose figure it is relative, of ratios and differences


CAUSES = [
    Goal(workload, "analyze_causes", "times the processor time", 1.6, "analyze_waits")
    for workload in ("dense-20M", "irregular-20M", "halo-20M", "bt-mz")
]

PERIODS = [
    Goal(workload, step, "times the time", 1.3, "command_store")
    for workload in ("dense-20M", "halo-20M")
    for step in ("command_bins", "command_phases")
]

REPLAY = [
    Goal("dense-20M", "command_replay", "s beyond", 1, "command_store"),
    Goal("dense-20M", "command_replay", "GB beyond", 0.3, "command_store"),
    Goal("dense-20M", "scenarios", "times the time", 2, "scenario"),
    Goal("halo-20M", "command_replay", "s beyond", 1, "command_store"),
    Goal("halo-20M", "command_replay", "GB beyond", 0.3, "command_store"),
    Goal("halo-20M", "scenarios", "times the time", 2, "scenario"),
    Goal("dense-100M", "command_replay", "s beyond", 6, "command_store"),
]

PYTHON = [
    Goal("halo-20M", "ask_messages", "s", 3),
    Goal("halo-20M", "ask_messages", "GB", 1.3),
    Goal("halo-20M", "ask_waits", "s", 2),
    Goal("halo-20M", "ask_waits", "GB", 0.8),
    Goal("halo-20M", "ask_critical_path", "s", 2),
    Goal("halo-20M", "ask_critical_path", "GB", 0.7),
]

LONG = [
    goal
    for workload in ("dense-1G", "dense-64-1G", "halo-1G")
    for goal in (
        Goal(workload, "command_store", "s", 120),
        Goal(workload, "command_store", "GB", 8),
        Goal(workload, "command_memory", "s", 180),
        Goal(workload, "command_memory", "GB", 2.5),
    )
]

GOALS = (
    Goal("dense-20M", "command_store", "s", 2.5),
    Goal("dense-20M", "command_store", "GB", 1),
    Goal("irregular-20M", "command_store", "s", 1.2),
    Goal("halo-20M", "command_store", "s", 2.2),
    *CAUSES,
    *PERIODS,
    *REPLAY,
    *PYTHON,
    *LONG,
    Goal("lopsided-1G", "command_memory", "GB", 4),
    Goal("one-process-1G", "command_memory", "GB", 4),
    Goal("locations-100000", "command_store", "s of processor time", 30),
    Goal("locations-100000", "command_store", "GB", 2),
    Goal("dense-20M", "convert_threads", "GB/s", 0.7),
    Goal("irregular-epilog", "convert_threads", "M events/s", 15),
    Goal("mg_S_4", "command", "s", 0.4),
    Goal("sweep3d_4", "command", "s", 0.4),
    Goal("bt-mz", "command", "s", 0.6),
    Goal("hybrid_2x3", "command_first", "s", 5),
    Goal("hybrid_2x3", "command_help", "s", 0.1),
)
"""All goals, in the order of the table."""

MEASURED = {(goal.workload, step) for goal in GOALS for step in (goal.step, goal.base) if step}
"""Workloads and steps of goals."""
