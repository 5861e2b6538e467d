"""Where the time goes: by region, by process, by interval of time, by iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.scan.instances import scan_charges, scan_location
from tracecols.enhance.scan.paths import named
from tracecols.enhance.scan.periods import Divider, divide_intervals
from tracecols.errors import AnalysisError
from tracecols.given.arguments import show
from tracecols.model.model import Model
from tracecols.model.readable import Readable
from tracecols.schema import answers
from tracecols.schema.properties import IDLE
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import choose, declared_for, no_region
from tracecols.search.cube import analyze_model
from tracecols.search.matches import states_with_causes
from tracecols.severity.reduction import LARGEST, reduce_at, widened
from tracecols.verbs.answers import Answer, answer, sorted_by
from tracecols.verbs.passes import (
    SUBDOMAIN,
    add_up,
    add_up_all,
    check_choice,
    check_grouping,
    interval_edges,
    over_locations,
)


class Groups:
    """Groups of call paths: by name of the region, by its paradigm, or every call path by itself.

    `of` is the group of every call path, `n` the number of groups, and `column` the name of the column with the names
    of groups.
    """

    def __init__(self, model: Model, readable: Readable, by: str) -> None:
        tree, regions = model.call_paths, model.regions
        self._readable, self.column = readable, {"region": "region_name"}.get(by, by)
        self.names: NDArray[np.object_] | None = None
        if by == "path":
            self.of, self.n = np.arange(len(tree)), len(tree)
        else:
            texts = regions.name if by == "region" else regions.paradigm
            numbers, self.names = pd.factorize(texts)
            self.of, self.n = numbers[tree.region], len(self.names)
        self.paradigm = np.zeros(self.n, object)
        self.paradigm[self.of[::-1]] = regions.paradigm[tree.region[::-1]]

    def named(self, group: NDArray[np.int64]) -> pd.Categorical:
        """Return the names of groups."""
        if self.names is None:
            return self._readable.paths(group)
        return pd.Categorical(self.names[group])

    def columns(self, group: NDArray[np.int64]) -> dict[str, Any]:
        """Return the columns that identify the groups."""
        found: dict[str, Any] = {self.column: self.named(group)}
        return found if self.column != "region_name" else {**found, "paradigm": pd.Categorical(self.paradigm[group])}


def _is_outermost(group: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the call paths, in depth-first order, that have no ancestor of the same group; (n,) bool."""
    n = group.size
    order = np.lexsort((np.arange(n), group))
    # the largest end of the preceding call paths of the group
    reach = np.maximum.accumulate(end[order] + group[order] * (n + 1))
    before = np.concatenate([[-1], reach[:-1]]) if n else reach
    result = np.empty(n, bool)
    result[order] = before <= order + group[order] * (n + 1)
    return result


def _cpus_in_order(model: Model, readable: Readable) -> NDArray[np.int64]:
    """Return the CPU threads, ordered by rank and thread."""
    cpus = np.flatnonzero(model.locations.is_cpu)
    return cpus[np.lexsort((readable.thread[cpus], readable.rank[cpus]))]


def flat_profile(trace: OpenedTrace, by: str = "region") -> Answer:
    """Return the time of every region, summed over all locations, the longest first.

    Parameters
    ----------
    by : str
        `region` (all of one name), `path` or `paradigm`.

    Returns
    -------
    Answer
        `region_name` and `paradigm` (or `path`, or `paradigm`), `visits`, `exclusive_seconds`, `inclusive_seconds` (not
        by paradigm; of recursive calls, only the outermost count), `share` (of the exclusive time). The time of
        explicit tasks is counted twice, on the call path on which they were scheduled and on the call paths below
        TASKS, but once in the total that `share` refers to. `plot()` draws bars.
    """
    model, readable = trace.model, trace.readable
    check_choice(by, ("region", "path", "paradigm"), "grouping (by)")
    tree, table = model.call_paths, model.get("profile")
    groups = Groups(model, readable, by)
    exclusive, visits = (reduce_at(table.call_path, table[c], len(tree)) for c in ("exclusive", "visits"))
    # sums over call paths may exceed 64 bits even if the values of single call paths do not
    exclusive = widened(exclusive)
    before = np.concatenate([[0], np.cumsum(exclusive)])
    inclusive = before[tree.end] - before[:-1]
    group, own, n_visits = add_up(groups.of, exclusive, visits)
    # the time of explicit tasks is also counted on the call path on which they were scheduled
    in_tasks = np.zeros(len(tree), bool)
    for root in np.flatnonzero(tree.region == model.regions.tasks).tolist():
        in_tasks[root : tree.end[root]] = True
    whole = exclusive[~in_tasks].sum()
    columns = groups.columns(group) | {
        "visits": n_visits,
        "exclusive_seconds": readable.duration(own),
        "share": np.asarray(own / (whole or 1), np.float64),
    }
    if by != "paradigm":
        outermost = np.flatnonzero(_is_outermost(groups.of, tree.end))
        total = reduce_at(groups.of[outermost], inclusive[outermost], groups.n)
        columns["inclusive_seconds"] = readable.duration(total[group])
    made = answer(answers.FLAT_PROFILE, {k: v[n_visits > 0] for k, v in columns.items()})
    return sorted_by(made, "exclusive_seconds")


def load_imbalance(trace: OpenedTrace, over: str = "rank") -> Answer:
    """Return the imbalance of the exclusive time of every region, the costliest first.

    Parameters
    ----------
    over : str
        `rank` or `thread`: the units compared.

    Returns
    -------
    Answer
        `region_name`, `paradigm`, `mean_seconds`, `min_seconds`, `max_seconds`, `max_rank` (and `max_thread`),
        `imbalance` (maximum divided by mean), `lost_seconds` (total waiting time of the others if all synchronise after
        it). `plot()` draws bars.
    """
    model, readable = trace.model, trace.readable
    check_choice(over, ("rank", "thread"), "distribution (over)")
    table, groups = model.get("profile"), Groups(model, readable, "region")
    cpus = _cpus_in_order(model, readable)
    # units compared: the CPU threads, or the ranks, in order
    unit, units = pd.factorize(cpus if over == "thread" else readable.rank[cpus])
    members = cpus[np.searchsorted(unit, np.arange(len(units)))]
    number = np.full(model.n_locations, -1, np.int64)
    number[cpus] = unit
    n = max(members.size, 1)
    at = number[table.location]
    key, ticks = add_up((groups.of[table.call_path] * n + at)[at >= 0], table.exclusive[at >= 0])
    group, member = np.divmod(key, n)
    start = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(start, append=group.size)
    shown = group[start]
    if int(np.abs(ticks).max(initial=0)) * n > LARGEST:
        # sums over locations may exceed 64 bits
        ticks = ticks.astype(object)
    total = np.add.reduceat(ticks, start)
    most = np.maximum.reduceat(ticks, start)
    # the minimum is 0 if a rank or thread never enters the region
    least = np.where(counts < n, 0, np.minimum.reduceat(ticks, start))
    is_most = np.flatnonzero(ticks == np.repeat(most, counts))
    chosen = is_most[np.unique(group[is_most], return_index=True)[1]]
    worst = members[member[chosen]]
    resolution = model.resolution
    mean = total / n
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = groups.columns(shown) | {
            "mean_seconds": np.asarray(mean / resolution, np.float64),
            "min_seconds": readable.duration(least),
            "max_seconds": readable.duration(most),
            "max_rank": readable.rank[worst],
            "imbalance": np.asarray(most, np.float64) / np.asarray(mean, np.float64),
            "lost_seconds": readable.duration(most * n - total),
        }
    if over == "thread":
        columns["max_thread"] = readable.thread[worst]
    made = answer(answers.LOAD_IMBALANCE, {k: v[(total > 0).astype(bool)] for k, v in columns.items()})
    return sorted_by(made, "lost_seconds")


def time_profile(trace: OpenedTrace, bins: int = 50, by: str = "paradigm") -> Answer:
    """Return the activity of the CPU threads over time: exclusive time by intervals.

    Parameters
    ----------
    bins : int
        Number of intervals of equal length from the first event to the last.
    by : str
        `paradigm`, `region`, `path`, `rank` or `subdomain` (if the trace was opened with subdomains).

    Returns
    -------
    Answer
        A row per interval and group: `begin_seconds`, `end_seconds`, the group, `seconds`, `share` (of the time of all
        CPU threads in the interval). All time that CPU threads spend on call paths is included, until the end of the
        recording. The time of explicit tasks is counted once: on the call paths below TASKS, and outside of the regions
        of a task on the call path on which it was scheduled (`flat_profile` counts all of it there as well). `plot()`
        draws areas.
    """
    model, readable = trace.model, trace.readable
    check_grouping(readable, by, ("paradigm", "region", "path", "rank"))
    edges = interval_edges(model, bins)
    cpus = np.flatnonzero(model.locations.is_cpu)
    numbers: dict[str, NDArray[Any]] = {"rank": readable.rank, SUBDOMAIN: readable.subdomain_numbers}
    of_location = numbers.get(by)
    groups = Groups(model, readable, by if of_location is None else "paradigm")
    members = distinct([] if of_location is None else of_location[cpus])
    n = max(groups.n if of_location is None else members.size, 1)
    divider = Divider.of_bins(edges, model.n_locations)

    def visit(location: int) -> tuple[NDArray[np.int64], ...]:
        begin, end, path = scan_charges(model.facts, model.scans, model.team_instances, location)
        where = np.full(begin.size, location)
        row, piece, length = divide_intervals(divider, np.minimum(begin, end), np.maximum(begin, end), where)
        at = divider.bin_of(piece, where[row])[0].astype(np.int64)
        length = np.where(end[row] < begin[row], -length, length)
        group = groups.of[path[row]] if of_location is None else np.searchsorted(members, of_location[location])
        return add_up(at * n + group, length)

    key, ticks = add_up_all(over_locations(model, cpus, visit), 1)
    key, ticks = key[ticks != 0], ticks[ticks != 0]
    at, group = np.divmod(key, n)
    what: dict[str, Any] = {
        "rank": lambda: {"rank": members[group]},
        SUBDOMAIN: lambda: {"subdomain": readable.subdomains_named(members[group])},
    }.get(by, lambda: {groups.column: groups.named(group)})()
    width = np.diff(edges)[at] * max(cpus.size, 1)
    return answer(
        answers.TIME_PROFILE,
        {
            "begin_seconds": readable.seconds(edges[:-1])[at],
            "end_seconds": readable.seconds(edges[1:])[at],
            **what,
            "seconds": readable.duration(ticks),
            "share": np.asarray(ticks / np.maximum(width, 1), np.float64),
        },
    )


def idle_time(trace: OpenedTrace, conventions: str = DEFAULT) -> Answer:
    """Return the idle and waiting time of every CPU thread.

    Parameters
    ----------
    conventions : str
        As for `analyze`.

    Returns
    -------
    Answer
        `rank`, `thread`, `total_seconds` (for which its core is reserved), `idle_seconds` (without work, outside of
        parallel regions), `waiting_seconds` (in the wait states of `waits`), `share` (of idle and waiting time in the
        total). `plot()` draws bars.
    """
    model, readable = trace.model, trace.readable
    waits = states_with_causes(model, conventions)
    idle = [p.id for p in declared_for(model, conventions, ()) if p.id == IDLE]
    cube = analyze_model(model, conventions, choice=choose(["time", *idle, *waits], None, None, None))
    nothing = np.zeros(cube.system.n_locations)
    total = cube.by_location("time")
    of_idle = sum((cube.by_location(p) for p in idle), nothing)
    waiting = sum((cube.by_location(p) for p in waits), nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (of_idle + waiting) / total, 0.0)
    columns: dict[str, Any] = {
        **readable.who(np.arange(cube.system.n_locations)),
        "total_seconds": total,
        "idle_seconds": of_idle,
        "waiting_seconds": waiting,
        "share": share,
    }
    cpus = _cpus_in_order(model, readable)
    return answer(answers.IDLE_TIME, {name: values[cpus] for name, values in columns.items()})


def iterations(trace: OpenedTrace, region: str) -> Answer:
    """Return the numbered instances of a region on every location: the duration of each iteration.

    Parameters
    ----------
    region : str
        Its name, or a shell pattern; of nested instances, only the outermost counts.

    Returns
    -------
    Answer
        `iteration` (from 0 on every location), `rank`, `thread`, `begin_seconds`, `end_seconds`, `seconds`. `plot()`
        draws the longest, the mean and the shortest of every iteration.

    Raises
    ------
    AnalysisError
        If no region has that name.
    """
    model, readable = trace.model, trace.readable
    tree, names = model.call_paths, model.regions.name
    if not isinstance(region, str):
        raise AnalysisError(
            f"a region is given by its name, not as {show(region)}\n  give one name, or a shell pattern"
        )
    chosen = named(names, region)[tree.region]
    if not chosen.any():
        raise no_region(region, names[tree.region].tolist())
    location, _, number, begin, end, is_over = instances_of(model, chosen)
    order = np.lexsort((location, readable.thread[location], readable.rank[location], number))
    location, number, begin, end, is_over = (of[order] for of in (location, number, begin, end, is_over))
    return answer(
        answers.ITERATIONS,
        {
            "iteration": number,
            **readable.who(location),
            "begin_seconds": readable.seconds(begin),
            "end_seconds": np.where(is_over, readable.seconds(end), np.nan),
            "seconds": np.where(is_over, readable.duration(end - begin), np.nan),
        },
    )


def instances_of(model: Model, chosen: NDArray[np.bool_]) -> tuple[NDArray[Any], ...]:
    """Return the outermost instances of the chosen call paths, location by location: location, call path, number on the
    location from 0, begin, end, and whether they end; those that never end have the end of the recording. Times are in
    ticks, and may be negative."""
    tree = model.call_paths
    heads = np.flatnonzero(chosen & _is_outermost(np.where(chosen, 0, 1 + np.arange(len(tree))), tree.end))

    nothing = (*(np.zeros(0, np.int64),) * 5, np.zeros(0, bool))

    def visit(location: int) -> tuple[NDArray[Any], ...]:
        numbers = model.call_paths.numbers[location]
        if not np.isin(numbers, heads).any():
            return nothing
        s = scan_location(model.facts, model.scans, model.team_instances, location)
        at = np.flatnonzero(s.is_enter() & np.append(np.isin(numbers, heads), False)[s.node])
        leave = s.exitptr[at]
        is_over = leave >= 0
        end = pick(s.time, np.where(is_over, leave - model.scans[location].first_row, -1))
        path = numbers[s.node[at]].astype(np.int64)
        last = int(model.store.manifest["last_time"])
        return np.full(at.size, location), path, np.arange(at.size), s.time[at], np.where(is_over, end, last), is_over

    parts = over_locations(model, np.arange(model.n_locations), visit)
    return tuple(map(np.concatenate, zip(nothing, *parts, strict=True)))
