"""Questions about accelerators: how devices spend training steps, which rank is late and why, which kernels take the
time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.causes.device_chains import BEFORE, LATENCY, ON_HOST, ON_STREAM, WAITING
from tracecols.causes.device_costs import DeviceDelays
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, latest_before, lookup, number
from tracecols.enhance.dataflow.steps import CAUSES, SPENT, SWEEP, WITHIN
from tracecols.enhance.scan.paths import named_or_numbered
from tracecols.errors import AnalysisError
from tracecols.given.arguments import show
from tracecols.model.model import Model
from tracecols.model.readable import nullable
from tracecols.patterns.candidates import Merged
from tracecols.patterns.registry import CONVENTIONS
from tracecols.schema import answers
from tracecols.schema.enums import NCCL
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import no_region
from tracecols.vectors import Ints
from tracecols.verbs.answers import Answer, answer, sorted_by
from tracecols.verbs.passes import check_choice, merged
from tracecols.verbs.times import instances_of

WHOLE = "whole run"
"""Name of the only step of a program without steps."""


class Steps(NamedTuple):
    """The training steps of every process, by process and begin."""

    process: Ints
    begin: Ints
    end: Ints
    """`process`, `begin` and `end`: (n,) int64"""
    name: NDArray[np.object_]
    """(n,)"""

    def at(self, process: Ints, time: Ints) -> Ints:
        """Return the step of a process in which each time lies; -1 in none."""
        step = latest_before(self.process, self.begin, process, time)
        return np.where(time < pick(self.end, step), step, -1)


def find_steps(trace: OpenedTrace, steps: str | None) -> Steps:
    """Return the training steps: instances of some regions on the first thread of each process that enters any; the
    whole run if `steps` is None and no phases are recorded. Raises AnalysisError if no region has that name."""
    model = trace.model
    tree, regions, process = model.call_paths, model.regions, np.asarray(model.facts.process, np.int64)
    first, last = (int(model.store.manifest[name] or 0) for name in ("first_time", "last_time"))
    if steps is not None and not isinstance(steps, str):
        raise AnalysisError(f"steps are given by the name of a region, not as {show(steps)}\n  give one name")
    chosen = regions.is_phase if steps is None else named_or_numbered(regions.name, steps)
    chosen = chosen[tree.region]
    if steps is not None and not chosen.any():
        raise no_region(steps, regions.name[tree.region].tolist())
    location, path, _, begin, end, _ = instances_of(model, chosen)
    mine = model.locations.is_cpu[location]
    location, path, begin, end = (of[mine] for of in (location, path, begin, end))
    if not location.size:
        of = distinct(process[model.locations.is_device | model.locations.is_cpu])
        return Steps(of, np.full(of.size, first), np.full(of.size, last), np.full(of.size, WHOLE, object))
    order = np.lexsort((begin, trace.readable.thread[location], process[location]))
    of = process[location[order]]
    # the first thread of each process
    head = pick(location[order], np.searchsorted(of, of))
    order = order[location[order] == head]
    return Steps(process[location[order]], begin[order], end[order], regions.name[tree.region[path[order]]])


# -- steps -------------------------------------------------------------------------------------------------------------

COMPUTES, COMMUNICATES, COPIES, PENDING, WAITS = range(5)
"""Activities that may overlap on a device."""

STATES = (
    "compute_seconds",
    "overlapped_seconds",
    "exposed_seconds",
    "copy_seconds",
    "pending_seconds",
    "host_bound_seconds",
)
"""Mutually exclusive states of a device; in the last two it is idle."""


def training_steps(trace: OpenedTrace, steps: str | None = None) -> Answer:
    """Return the activity of the devices in every training step: by step, rank and device.

    Parameters
    ----------
    steps : str, optional
        The region that is a step: its name, a shell pattern, or a name without running numbers (`ProfilerStep`). By
        default the regions recorded as phases, such as `ProfilerStep#12` of PyTorch; the whole run if there are none.

    Returns
    -------
    Answer
        `step`, `rank`, `device`, `begin_seconds`, `end_seconds`, `seconds`, which is the sum of `compute_seconds`
        (kernels run, none of which communicates), `overlapped_seconds` (kernels compute and communicate),
        `exposed_seconds` (kernels only communicate), `copy_seconds` (only copies run) and `idle_seconds` (nothing
        runs). `host_bound_seconds` is the part of the idle time in which no launched operation is pending; null where
        no launches are recorded. `waiting_seconds` is the part of communication spent waiting for kernels of other
        ranks. A step lasts as long as its region on the host; work that devices do for it afterwards counts in the next
        one. `plot()` draws bars.

    Raises
    ------
    AnalysisError
        If no region has that name.
    """
    model, readable = trace.model, trace.readable
    found = find_steps(trace, steps)
    exact = model.with_quirks(CONVENTIONS[DEFAULT].quirks)

    def visit(of_slice: Model, _stage: str) -> list[Ints]:
        return _states_of_steps(of_slice, found)

    with exact.divided() as run:
        parts = list(run.stages(visit, [SPENT]))
    nothing = np.zeros(0, np.int64)
    step, device, knows, *ticks = (np.concatenate([nothing, *(p[i] for p in parts)]) for i in range(10))
    process = found.process[step]
    rank = readable.rank[_first_of_process(model)[process]]
    # ranks in the order of their steps
    turn = np.arange(found.process.size) - np.searchsorted(found.process, found.process)
    order = np.lexsort((device, rank, turn[step]))
    step, device, knows, rank = step[order], device[order], knows[order] > 0, rank[order]
    ticks = [of[order] for of in ticks]
    seconds = dict(zip((*STATES, "waiting_seconds"), map(readable.duration, ticks), strict=True))
    _, host_bound = seconds.pop("pending_seconds"), seconds.pop("host_bound_seconds")
    return answer(
        answers.TRAINING_STEPS,
        {
            "step": pd.Categorical(found.name[step]),
            "rank": rank,
            "device": pd.Categorical(np.array([*model.locations.device_names, ""], object)[device]),
            "begin_seconds": readable.seconds(found.begin[step]),
            "end_seconds": readable.seconds(found.end[step]),
            "seconds": readable.duration(found.end[step] - found.begin[step]),
            **seconds,
            "idle_seconds": readable.duration(ticks[4] + ticks[5]),
            "host_bound_seconds": np.where(knows, host_bound, np.nan),
        },
    )


def _first_of_process(model: Model) -> Ints:
    """Return the first location of every process; (n_processes,) int64."""
    process = np.asarray(model.facts.process, np.int64)
    result = np.zeros(int(process.max(initial=-1)) + 1, np.int64)
    result[process[::-1]] = np.arange(process.size)[::-1]
    return result


def _operations(model: Model) -> Columns:
    """Return the kernels and copies of a slice: `location`, `begin`, `end`, `launch` (time of the launch, -1 unknown),
    `row`, and `what` (the activity)."""
    kernels, copies, regions = model.kernels, model.copies, model.regions
    communicates = (regions.paradigm == NCCL)[
        model.call_paths.whole.region[model.call_paths.path_of(kernels.call_path)]
    ]
    columns = {
        "location": np.concatenate([kernels.location, copies.location]).astype(np.int64),
        "row": np.concatenate([kernels.enter, copies.event]),
        "begin": np.concatenate([kernels.enter_time, copies.begin_time]),
        "end": np.concatenate([np.maximum(kernels.exit_time, kernels.enter_time), copies.end_time]),
        "launch": np.concatenate(
            [
                np.where(kernels.launch_enter >= 0, kernels.launch_enter_time, -1),
                np.where(copies.copy_enter >= 0, copies.copy_enter_time, -1),
            ]
        ),
        "what": np.concatenate([np.where(communicates, COMMUNICATES, COMPUTES), np.full(len(copies), COPIES)]),
    }
    return Columns(columns["row"].size, columns)


def _states_of_steps(model: Model, steps: Steps) -> list[Ints]:
    """Return for every step on every device of a slice: number of the step, device, whether launches are known, ticks
    in each of `STATES`, and ticks of waiting."""
    of, locations = _operations(model), model.locations
    members = model.members[locations.is_device[model.members]]
    pairs = np.unique(
        np.stack([np.asarray(model.facts.process, np.int64)[members], locations.device[members].astype(np.int64)], 1),
        axis=0,
    )
    step, at = _steps_of_devices(steps, pairs[:, 0])
    device = pairs[:, 1][at]
    wait = lookup(model.get("device_waits").waits.column("row"), of.row)
    waiting = pick(model.get("device_waits").waits.column("wait"), wait, 0)
    launched = np.where((of.launch != -1) & (of.launch < of.begin), of.launch, of.begin)
    begin = np.concatenate([of.begin, launched, of.begin])
    end = np.concatenate([of.end, of.begin, np.minimum(of.begin + waiting, of.end)])
    what = np.concatenate([of.what, np.full(len(of), PENDING), np.full(len(of), WAITS)])
    where = np.tile(locations.device[of.location].astype(np.int64), 3)
    ticks = _time_in_states(where, begin, end, what, device, steps.begin[step], steps.end[step])
    knows = np.isin(device, locations.device[of.location[of.launch != -1]]).astype(np.int64)
    return [step, device, knows, *ticks]


def _steps_of_devices(steps: Steps, process: Ints) -> tuple[Ints, Ints]:
    """Return pairs of a step and a device of its process: number of the step, and index into `process`."""
    first, stop = (np.searchsorted(steps.process, process, side) for side in ("left", "right"))
    at = np.repeat(np.arange(process.size), stop - first)
    return np.arange(at.size) - np.repeat(np.cumsum(stop - first) - stop, stop - first), at


def _time_in_states(
    device: Ints, begin: Ints, end: Ints, what: Ints, window_device: Ints, window_begin: Ints, window_end: Ints
) -> list[Ints]:
    """Return the ticks in each of `STATES`, and those in which kernels wait, for intervals of devices; intervals of a
    device do not overlap; O(n log n)."""
    n, m = begin.size, window_begin.size
    where = np.concatenate([device, device, window_device, window_device])
    time = np.concatenate([begin, end, window_begin, window_end])
    order = np.lexsort((time, where))
    where, time = where[order], time[order]
    running = []
    for k in range(WAITS + 1):
        change = np.zeros(2 * n + 2 * m, np.int64)
        change[:n] += what == k
        change[n : 2 * n] -= what == k
        running.append(np.cumsum(change[order]) > 0)
    state = np.select(
        [
            running[COMPUTES] & running[COMMUNICATES],
            running[COMPUTES],
            running[COMMUNICATES],
            running[COPIES],
            running[PENDING],
        ],
        [1, 0, 2, 3, 4],
        5,
    )
    rows = np.flatnonzero((where[1:] == where[:-1]) & (time[1:] > time[:-1]))
    length = time[rows + 1] - time[rows]
    window = latest_before(window_device, window_begin, where[rows], time[rows])
    inside = (window >= 0) & (time[rows] < pick(window_end, window))
    rows, length, window = rows[inside], length[inside], window[inside]
    ticks = Segments(window * len(STATES) + state[rows], m * len(STATES)).sum(length).reshape(m, len(STATES))
    waiting = Segments(window, m).sum(np.where(running[WAITS][rows], length, 0))
    return [*ticks.T, waiting]


# -- stragglers --------------------------------------------------------------------------------------------------------

FAULTS = {
    ON_HOST: "host_seconds", ON_STREAM: "kernel_seconds", WAITING: "earlier_wait_seconds", LATENCY: "latency_seconds",
    BEFORE: "unrecorded_seconds",
}  # fmt: skip
"""Reasons why a rank is late, and the columns with the waiting time of others due to each."""


def stragglers(trace: OpenedTrace, by: str = "rank", steps: str | None = None) -> Answer:
    """Return the ranks that begin operations of NCCL and the like last, how long others wait for them, and why they are
    late; the one that costs most first.

    Parameters
    ----------
    by : str
        `rank`, or `step` (step and rank).
    steps : str, optional
        With `by="step"`: the region that is a step, as for `training_steps`.

    Returns
    -------
    Answer
        (`step`,) `rank`, `n_operations` (number of its operations in which a rank waits; not by step), `n_last` (number
        of operations in which others wait for this rank), `wait_seconds` (their waiting time), `share` (of all such
        waits). The waiting time is divided by the reason why the rank is late: `host_seconds` (its host takes longer),
        `kernel_seconds` (earlier kernels on its streams take longer), `earlier_wait_seconds` (it has waited for other
        ranks itself), `latency_seconds` (from launch to begin), `unrecorded_seconds` (before its recording begins).
        `fault` is the reason with the largest share, `path` the call path of the host or the kernel with the largest
        excess time, and `path_seconds` the waiting time it causes. `plot()` draws bars.

    Raises
    ------
    AnalysisError
        If no region has that name.
    """
    model, readable = trace.model, trace.readable
    check_choice(by, ("rank", "step"), "grouping (by)")
    found = find_steps(trace, steps) if by == "step" else None
    process, (delays, taken) = np.asarray(model.facts.process, np.int64), _delays(model)
    of = process[delays.waits.cause_location]
    step = np.zeros(of.size, np.int64) if found is None else found.at(of, delays.waits.cause_time)
    key, first = number(combine(of, step))
    of, step = of[first], step[first]
    masters = distinct(model.locations.master[model.locations.is_cpu])
    # call paths that differ only in the number of a step are merged
    same = Merged(model, masters).below_steps
    by_fault, largest = np.zeros((len(FAULTS), first.size), np.int64), np.zeros((2, first.size), np.int64)
    for i, blame in enumerate(delays.blame(key, first.size)):
        by_fault[:, i] = [blame.ticks[blame.spent_in == k].sum() for k in FAULTS]
        mine = np.isin(blame.spent_in, (ON_HOST, ON_STREAM))
        largest[:, i] = _largest_path(same[blame.call_path[mine]], blame.ticks[mine])
    fault, (path, ticks) = by_fault.argmax(0), largest
    columns: dict[str, Any] = {
        "rank": readable.rank[_first_of_process(model)[of]],
        "n_last": np.bincount(key[delays.waits.is_longest > 0], minlength=first.size),
        "wait_seconds": readable.duration(by_fault.sum(0)),
        "share": by_fault.sum(0) / max(int(by_fault.sum()), 1),
        **dict(zip(FAULTS.values(), map(readable.duration, by_fault), strict=True)),
        "fault": pd.Categorical(np.array([c.removesuffix("_seconds") for c in FAULTS.values()], object)[fault]),
        "path": readable.paths(path),
        "path_seconds": readable.duration(ticks),
    }
    if found is None:
        columns["n_operations"] = np.bincount(taken, minlength=int(process.max(initial=0)) + 1)[of]
    else:
        columns["step"] = pd.Categorical(np.array([*found.name, None], object)[step])
    return sorted_by(answer(answers.STRAGGLERS, columns), "wait_seconds")


def _delays(model: Model) -> tuple[DeviceDelays, Ints]:
    """Return the waits for late kernels, and the process of every participant in operations in which a participant
    waits."""
    exact = model.with_quirks(CONVENTIONS[DEFAULT].quirks)

    def visit(of_slice: Model, stage: str) -> Any:
        return of_slice.get("device_waits" if stage == CAUSES else "device_delays")

    with exact.divided() as run:
        waits, delays = run.stages(visit, [CAUSES, SWEEP])
    group = np.repeat(np.arange(waits.start.size - 1), np.diff(waits.start))
    return delays, waits.process[np.unique(combine(group, waits.process), return_index=True)[1]]


def _largest_path(path: Ints, ticks: Ints) -> tuple[int, int]:
    """Return the call path with most ticks, the first of several, and the ticks; -1 and 0 without any."""
    if not path.size:
        return -1, 0
    paths, group = np.unique(path, return_inverse=True)
    sums = Segments(group, paths.size).sum(ticks)
    most = sums.argmax()
    return int(paths[most]), int(sums[most])


# -- kernels -----------------------------------------------------------------------------------------------------------


def kernel_profile(trace: OpenedTrace, by: str = "region") -> Answer:
    """Return the time of every kernel, and the latency from its launch to its begin, the kernels with most time first.

    Parameters
    ----------
    by : str
        `region` (all of one name) or `rank` (name and rank).

    Returns
    -------
    Answer
        `region_name`, `paradigm` (`nccl` communicates), (`rank`,) `n_kernels`, `seconds`, `share` (of the time of all
        kernels), `mean_seconds`, `min_seconds`, `max_seconds`; for the `n_launched` kernels whose launches are
        recorded: `latency_seconds` and `max_latency_seconds` (mean and maximum from the ENTER of the launch to the
        begin), `queue_length` and `max_queue_length` (mean and maximum number of kernels and copies launched to the
        stream before that had not begun at the launch). `plot()` draws bars.
    """
    model, readable = trace.model, trace.readable
    check_choice(by, ("region", "rank"), "grouping (by)")
    regions = model.regions
    of_region, first = number(combine(*(pd.factorize(of)[0] for of in (regions.name, regions.paradigm))))

    def visit(of_slice: Model, _stage: str) -> Ints:
        return _profile(of_slice, of_region, readable.rank if by == "rank" else np.zeros(model.n_locations, np.int64))

    with model.divided() as run:
        parts = list(run.stages(visit, [WITHIN]))
    name, rank, n, ticks, launched, latency, queue, *largest = merged(np.concatenate(parts, axis=1), *KEYS_AND_SUMS)
    shortest, longest, slowest, fullest = -largest[0], *largest[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {
            "region_name": pd.Categorical(regions.name[first][name]),
            "paradigm": pd.Categorical(regions.paradigm[first][name]),
            "n_kernels": n,
            "seconds": readable.duration(ticks),
            "share": ticks / max(int(ticks.sum()), 1),
            "mean_seconds": ticks / n / model.resolution,
            "min_seconds": readable.duration(shortest),
            "max_seconds": readable.duration(longest),
            "n_launched": launched,
            "latency_seconds": latency / launched / model.resolution,
            "max_latency_seconds": np.where(launched > 0, readable.duration(slowest), np.nan),
            "queue_length": queue / launched,
            "max_queue_length": nullable(fullest, launched == 0),
        }
    if by == "rank":
        columns["rank"] = rank
    return sorted_by(answer(answers.KERNEL_PROFILE, columns), "seconds")


KEYS_AND_SUMS = 2, 5
"""Numbers of key rows and of summed rows of a profile; the maximum is taken of all other rows."""


def _profile(model: Model, of_region: Ints, rank: NDArray[Any]) -> Ints:
    """Return the kernels of a slice, merged by name and rank."""
    k, of = model.kernels, _operations(model)
    known = k.launch_enter >= 0
    queue = _queue_length(of)[: len(k)]
    ticks = np.maximum(k.exit_time, k.enter_time) - k.enter_time
    latency = np.where(known, np.maximum(k.enter_time - k.launch_enter_time, 0), 0)
    tree = model.call_paths.whole
    columns = [
        of_region[tree.region[model.call_paths.path_of(k.call_path)]],
        rank[k.location],
        np.ones(len(k)),
        ticks,
        known,
        latency,
        queue,
        -ticks,
        ticks,
        latency,
        queue,
    ]
    return merged(np.stack([np.asarray(c).astype(np.int64) for c in columns]), *KEYS_AND_SUMS)


def _queue_length(of: Columns) -> Ints:
    """Count for each kernel and copy the operations launched to its stream before that had not begun at its launch; 0
    if its launch is unknown."""
    known = np.flatnonzero(of.launch != -1)
    n = known.size
    # an operation that begins at the time of a launch is no longer in the queue
    is_launch = np.repeat([False, True], n)
    time = np.concatenate([of.begin[known], of.launch[known]])
    order = np.lexsort((np.tile(of.row[known], 2), is_launch, time, np.tile(of.location[known], 2)))
    waiting = np.cumsum(np.where(is_launch[order], 1, -1))
    at = order >= n
    result = np.zeros(of.row.size, np.int64)
    result[known[order[at] - n]] = np.maximum(waiting[at] - 1, 0)
    return result
