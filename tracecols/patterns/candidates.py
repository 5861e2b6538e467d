"""Candidates for the phases of a program: regions and calls that every process executes equally often, and evenly.

Regions that differ only in a running number (`ProfilerStep#10`, `ProfilerStep#11`) are instances of one region: the
same call paths in them count as one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.scan.instances import walk_stacks
from tracecols.enhance.scan.location_scan import ACTION
from tracecols.enhance.scan.paths import merged_below_steps, merged_paths, without_numbers
from tracecols.enhance.scan.periods import FROM
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels.actions import POP, PUSH
from tracecols.model.model import Model

LEAST = 3
"""Minimum number of executions of a phase."""

LEAST_SCORE, LEAST_REGULAR = 0.005, 0.25
"""Minimum score (coverage times regularity) and regularity of a proposal: the standard deviation is three means at
most."""

PROPOSED = 24
"""Maximum number of proposals."""

ALIKE = 0.1
"""Relative difference of lengths and scores up to which candidates may be parts of one loop."""

LOOKED_AT = 4
"""Number of processes in which the lengths of phases are measured."""

MOST = 512
"""Maximum number of call paths whose lengths are measured: half of them with the largest inclusive time, half of them
entered least often."""


class Merged:
    """Call paths without the running numbers of steps (`enhance.scan.paths.without_numbers`).

    Parameters
    ----------
    model : Model
    masters : (n,) int64
        The first thread of every process.

    Attributes
    ----------
    names : (n_regions,) object
        Names of regions; steps have the name of their family.
    counts_as : (n_regions,) int64
        The region; the same number for all steps of a family.
    of : (n_call_paths,) int64
        The first of the call paths that are the same without numbers.
    below_steps : (n_call_paths,) int64
        The first of the call paths that differ in nothing but the numbers of the steps above them.
    is_declared : (n_call_paths,) bool
        Whether they end with a region that the recording declares a phase.
    """

    def __init__(self, model: Model, masters: NDArray[np.int64]) -> None:
        tree, regions = model.call_paths.whole, model.regions
        visits = _most_visits(model, masters)
        self.names, self.counts_as = without_numbers(regions.name, visits, regions.is_phase)
        self.of = merged_paths(tree.parent, tree.depth, self.counts_as[tree.region])
        self.below_steps = merged_below_steps(self.of, tree.parent, tree.region, self.counts_as, regions.is_phase)
        self.is_declared = regions.is_phase[tree.region]


def _most_visits(model: Model, masters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each region is entered by the thread that enters it most often; (n_regions,) int64."""
    profile, n = model.profile, len(model.regions)
    mine = np.flatnonzero(np.isin(profile.location, masters))
    key = profile.location[mine].astype(np.int64) * n + model.call_paths.region[profile.call_path[mine]]
    of, at = np.unique(key, return_inverse=True)
    result = np.zeros(n, np.int64)
    np.maximum.at(result, of % n, np.bincount(at, profile.visits[mine], of.size).astype(np.int64))
    return result


class Candidate(NamedTuple):
    """A region or call whose executions could be the phases of a program."""

    phases: str
    """The value for the parameter `phases`."""
    n_phases: int
    """Number of phases in every process."""
    coverage: float
    """Share of the time of the processes that lies in phases."""
    regularity: float
    """1 where all phases last equally long, 1/2 where their standard deviation is their mean."""
    mean: float
    """Their mean length in seconds."""
    is_declared: bool = False
    """Whether the recording declares them as phases."""

    @property
    def score(self) -> float:
        """Coverage times regularity."""
        return self.coverage * self.regularity


def propose_phases(model: Model) -> list[Candidate]:
    """Propose phases, the best ones first; phases that the recording declares precede all others.

    Every process executes their call path the same number of times, at least `LEAST`, on its first thread, and not in a
    parallel region, where phases would not include other threads. Their lengths are measured in some of the processes,
    in a second pass over their events. Of calls that belong to one loop, only the first of the outermost ones is
    proposed. Declared phases need not occur equally often, nor `LEAST` times.
    """
    locations = model.locations
    masters = distinct(locations.master[np.flatnonzero(locations.is_cpu)])
    masters = masters[masters >= 0]
    masters = masters[[model.scans[i].n > 0 for i in masters.tolist()]] if masters.size else masters
    merged = Merged(model, masters)
    paths = _equally_often(model, masters, merged)
    if not paths.size:
        return []
    found = _measured(model, merged, paths, _lengths(model, masters, merged, paths))
    return [
        c._replace(phases=c.phases + name)
        for c, k in _one_of_each_loop(model, paths, found)
        if (name := shortest_name(model, merged, int(paths[k])))
    ]


INSIDE, AROUND = 0, 1
"""Phases that are instances of a call path, and phases from one call to the next (`FROM`)."""


class Lengths(NamedTuple):
    """Durations of some call paths, and from one call to the next, in some processes."""

    covered: NDArray[np.float64]
    mean: NDArray[np.float64]
    irregular: NDArray[np.float64]
    """`covered`, `mean` and `irregular`: (2, n), of `INSIDE` and `AROUND`, added up over processes: ticks that they
    cover, mean lengths, and their standard deviations as shares of the means."""
    first_enter: NDArray[np.int64]
    """(n,): the earliest in these processes."""
    visits: NDArray[np.int64]
    """(n,): number in the first process."""
    is_known: NDArray[np.bool_]
    """(n,): whether all of these processes have the same number."""
    whole: int
    """Ticks of these processes together."""
    n_processes: int


def _lengths(model: Model, masters: NDArray[np.int64], merged: Merged, paths: NDArray[np.int64]) -> Lengths:
    """Measure the instances of call paths in some processes."""
    looked_at = masters[distinct(np.linspace(0, masters.size - 1, LOOKED_AT).round().astype(np.int64))]
    visits = np.bincount(merged.of, _visits(model, masters[:1]), len(model.call_paths)).astype(np.int64)[paths]
    covered, mean, irregular = np.zeros((3, 2, paths.size))
    first_enter, is_known = np.full(paths.size, np.iinfo(np.int64).max), np.ones(paths.size, bool)
    for location in looked_at.tolist():
        for k, (enter, leave) in enumerate(_instances(model, model.team_instances, location, merged, paths)):
            if not enter.size or (enter.size != visits[k] and not merged.is_declared[paths[k]]):
                # where tasks were scheduled they count as visits
                is_known[k] = False
                continue
            first_enter[k] = min(first_enter[k], enter[0])
            for how, lengths in ((INSIDE, leave - enter), (AROUND, np.diff(enter))):
                if lengths.size:
                    # the last one of those around lasts about as long as the others
                    covered[how, k] += lengths.sum() * enter.size / lengths.size
                    mean[how, k] += lengths.mean()
                    irregular[how, k] += lengths.std() / max(lengths.mean(), 1)
    whole = sum(model.scans[i].last_time - model.scans[i].first_time for i in looked_at.tolist())
    return Lengths(covered, mean, irregular, first_enter, visits, is_known, whole, looked_at.size)


def _measured(model: Model, merged: Merged, paths: NDArray[np.int64], of: Lengths) -> list[tuple[Candidate, int, int]]:
    """Return the candidates that are declared or good enough, with the number of their call path in `paths` and its
    first ENTER."""
    found: list[tuple[Candidate, int, int]] = []
    for how, prefix in ((INSIDE, ""), (AROUND, FROM)):
        for k in np.flatnonzero(of.is_known).tolist():
            n = int(of.visits[k])
            is_declared = bool(merged.is_declared[paths[k]]) and not prefix
            regularity = 1 / (1 + float(of.irregular[how, k]) / of.n_processes)
            coverage = min(float(of.covered[how, k]) / max(of.whole, 1), 1.0)
            length = float(of.mean[how, k]) / of.n_processes / model.resolution
            candidate = Candidate(prefix, n, coverage, regularity, length, is_declared)
            is_good = n >= LEAST and regularity >= LEAST_REGULAR and candidate.score >= LEAST_SCORE
            if is_declared or is_good:
                found.append((candidate, k, int(of.first_enter[k])))
    return found


def _one_of_each_loop(
    model: Model, paths: NDArray[np.int64], found: list[tuple[Candidate, int, int]]
) -> list[tuple[Candidate, int]]:
    """Keep one of the candidates that are parts of the same loop: with equally many phases, about equally long.

    Of those nearly as good as the best, the outermost is kept; of several, the one that is entered first.
    """
    depth = model.call_paths.depth
    kept: list[tuple[Candidate, int]] = []
    rest = sorted(found, key=lambda f: (not f[0].is_declared, -round(f[0].score, 6), f[0].phases, f[1]))
    while rest and len(kept) < PROPOSED:
        best = rest[0][0]
        alike = [
            f
            for f in rest
            if f[0].phases == best.phases
            and f[0].n_phases == best.n_phases
            and abs(f[0].mean - best.mean) <= ALIKE * best.mean
        ]
        good = [f for f in alike if f[0].score >= (1 - ALIKE) * best.score and f[0].is_declared == best.is_declared]
        chosen = min(good, key=lambda f: (depth[paths[f[1]]], f[2], f[1]))
        kept.append(chosen[:2])
        gone = {id(f) for f in alike}
        rest = [f for f in rest if id(f) not in gone]
    return sorted(kept, key=lambda f: (not f[0].is_declared, -round(f[0].score, 6), f[0].n_phases, f[1]))


def shortest_name(model: Model, merged: Merged, path: int) -> str:
    """Return the shortest end of a call path that no other one has, in the form in which phases are given; empty if
    there is none. `path` is the first of the call paths that are the same without running numbers."""
    tree = model.call_paths
    name_of = merged.names[tree.region]
    fits, at = np.ones(len(tree), bool), np.arange(len(tree))
    is_unique = False
    end: list[str] = []
    level = path
    while level >= 0 and not is_unique:
        name = name_of[level]
        fits &= (at >= 0) & (name_of[at] == name)
        end.insert(0, name)
        is_unique = bool((merged.of[fits] == path).all())
        at = np.where(at >= 0, tree.parent[at], -1)
        level = int(tree.parent[level])
    # slashes in a name would divide it
    return "/".join(end) if is_unique and (len(end) == 1 or not any("/" in name for name in end)) else ""


def _visits(model: Model, masters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often some threads together enter each call path; (n_call_paths,) int64."""
    profile = model.profile
    mine = np.isin(profile.location, masters)
    return np.bincount(profile.call_path[mine], profile.visits[mine], len(model.call_paths)).astype(np.int64)


def _equally_often(model: Model, masters: NDArray[np.int64], merged: Merged) -> NDArray[np.int64]:
    """Find the call paths that all of some threads enter equally often, and declared phases; without those of
    artificial regions."""
    profile, tree = model.profile, model.call_paths
    mine = np.flatnonzero(np.isin(profile.location, masters) & (profile.visits > 0))
    n = len(tree)
    keys, at = np.unique(profile.location[mine] * np.int64(n) + merged.of[profile.call_path[mine]], return_inverse=True)
    path, visits = keys % n, np.bincount(at, profile.visits[mine], keys.size).astype(np.int64)
    least, most = np.full(n, np.iinfo(np.int64).max), np.zeros(n, np.int64)
    np.minimum.at(least, path, visits)
    np.maximum.at(most, path, visits)
    by_all = np.bincount(path, minlength=n) == masters.size
    fits = by_all & (least == most) & (least >= LEAST)
    fits |= by_all & merged.is_declared
    fits &= model.regions.role[tree.region] != "artificial"
    # regions that threads execute in parallel, and explicit tasks, begin no phases of the process
    alone = tree.region == model.regions.tasks
    if model.locations.n_processes < int(model.locations.is_cpu.sum()):
        alone |= (model.regions.paradigm == "openmp")[tree.region] & (model.regions.role[tree.region] == "parallel")
    for head in np.flatnonzero(alone).tolist():
        fits[head + 1 : tree.end[head]] = False
    found = np.flatnonzero(fits)
    if found.size > MOST:
        own = np.bincount(profile.call_path[mine], profile.exclusive[mine], n)
        before = np.concatenate([[0.0], np.cumsum(own)])
        inclusive = np.bincount(merged.of, before[tree.end] - before[:-1], n)
        by_time, by_visits = np.argsort(-inclusive[found], kind="stable"), np.argsort(most[found], kind="stable")
        found = found[distinct(np.concatenate([by_time[: MOST // 2], by_visits[: MOST // 2]]))]
    return found


def _instances(
    model: Model, teams: Teams, location: int, merged: Merged, paths: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return when a location enters and leaves some call paths, in ticks."""
    wanted = np.full(len(model.call_paths), -1, np.int64)
    wanted[paths] = np.arange(paths.size)
    of_node = wanted[merged.of][model.call_paths.numbers[location]]
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]] = []
    for events in walk_stacks(model.facts, model.scans, teams, np.array([location])):
        action = ACTION[events.kind]
        at = np.flatnonzero(((action == PUSH) | (action == POP)) & (events.node >= 0))
        which = of_node[events.node[at]]
        at, which = at[which >= 0], which[which >= 0]
        found.append((which, events.time[at], action[at] == PUSH))
    which, time, is_enter = (np.concatenate(c) for c in zip(*found, strict=True))
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(paths.size + 1))
    end = model.scans[location].last_time
    result = []
    for k in range(paths.size):
        mine = order[starts[k] : starts[k + 1]]
        enter, leave = time[mine][is_enter[mine]], time[mine][~is_enter[mine]]
        # an instance that never ends lasts until the end of the recording
        result.append((enter, np.append(leave, np.full(max(enter.size - leave.size, 0), end))[: enter.size]))
    return result
