"""Which regions and calls could be the phases of a program: what every process does equally often, and evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.instances import walk_stacks
from tracecols.enhance.scan.periods import FROM
from tracecols.enhance.scan.scan import ACTION
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels.actions import POP, PUSH
from tracecols.model.model import Model

LEAST = 3
"""Executions of a phase, at least."""

LEAST_SCORE, LEAST_REGULAR = 0.005, 0.25
"""Coverage times regularity, and regularity, of a proposal: a standard deviation of three means at most."""

PROPOSED = 24
"""Proposals, at most."""

ALIKE = 0.1
"""By how much the lengths and the scores of candidates may differ that are parts of one loop."""

LOOKED_AT = 4
"""Processes whose lengths of phases are looked at."""

MOST = 512
"""Call paths whose lengths are looked at: those that take most time with what they call and, as many, those entered
least often."""


@dataclass(frozen=True)
class Candidate:
    """A region or call whose executions could be the phases of a program.

    Attributes
    ----------
    phases : str
        What to give as `phases`.
    n_phases : int
        How many there are in every process.
    coverage : float
        Share of the time of the processes that lies in phases.
    regularity : float
        1 where all phases last equally long, 1/2 where their standard deviation is their mean.
    mean : float
        Their mean length in seconds.
    """

    phases: str
    n_phases: int
    coverage: float
    regularity: float
    mean: float

    @property
    def score(self) -> float:
        """Coverage times regularity."""
        return self.coverage * self.regularity


def propose_phases(model: Model) -> list[Candidate]:
    """Propose phases, the best ones first.

    Every process executes their call path the same number of times, at least `LEAST`, on its first thread, and not in a
    parallel region, where other threads would have no part in phases. Their lengths are those in some of the processes,
    by a second pass over the events of these. Of calls that belong to one loop only the first of the outermost is
    proposed.
    """
    locations = model.locations
    masters = np.unique(locations.master[np.flatnonzero(locations.is_cpu)])
    masters = masters[[model.scans[i].n > 0 for i in masters.tolist()]] if masters.size else masters
    paths = _equally_often(model, masters)
    if not paths.size:
        return []
    looked_at = masters[np.unique(np.linspace(0, masters.size - 1, LOOKED_AT).round().astype(np.int64))]
    whole = 0
    n = paths.size
    inside, around, mean_in, mean_around, irregular_in, irregular_around = (np.zeros(n) for _ in range(6))
    first_enter, is_known = np.full(n, np.iinfo(np.int64).max), np.ones(n, bool)
    visits = _visits(model, masters[:1])[paths]
    teams = model.team_instances
    for location in looked_at.tolist():
        scan = model.scans[location]
        whole += scan.last_time - scan.first_time
        for k, (enter, leave) in enumerate(_instances(model, teams, location, paths)):
            if enter.size != visits[k]:
                # where tasks were scheduled they count as visits
                is_known[k] = False
                continue
            lengths, gaps = leave - enter, np.diff(enter)
            inside[k] += lengths.sum()
            # the last one lasts about as long as the others
            around[k] += gaps.sum() * enter.size / gaps.size
            mean_in[k] += lengths.mean()
            mean_around[k] += gaps.mean()
            irregular_in[k] += lengths.std() / max(lengths.mean(), 1)
            irregular_around[k] += gaps.std() / max(gaps.mean(), 1)
            first_enter[k] = min(first_enter[k], enter[0])
    m = looked_at.size
    found: list[tuple[Candidate, int, int]] = []
    for prefix, covered, mean, irregular in (
        ("", inside, mean_in, irregular_in),
        (FROM, around, mean_around, irregular_around),
    ):
        for k in np.flatnonzero(is_known).tolist():
            coverage, regularity = min(float(covered[k]) / max(whole, 1), 1.0), 1 / (1 + float(irregular[k]) / m)
            length = float(mean[k]) / m / model.resolution
            candidate = Candidate(prefix, int(visits[k]), coverage, regularity, length)
            if regularity >= LEAST_REGULAR and candidate.score >= LEAST_SCORE:
                found.append((candidate, k, int(first_enter[k])))
    return [
        Candidate(c.phases + name, c.n_phases, c.coverage, c.regularity, c.mean)
        for c, k in _one_of_each_loop(model, paths, found)
        if (name := shortest_name(model, int(paths[k])))
    ]


def _one_of_each_loop(
    model: Model, paths: NDArray[np.int64], found: list[tuple[Candidate, int, int]]
) -> list[tuple[Candidate, int]]:
    """Keep one of the candidates that are parts of the same loop: as many, and about as long.

    Of those that are nearly as good as the best that is the outermost, of several the one that comes first.
    """
    depth = model.call_paths.depth
    kept: list[tuple[Candidate, int]] = []
    rest = sorted(found, key=lambda f: (-round(f[0].score, 6), f[0].phases, f[1]))
    while rest and len(kept) < PROPOSED:
        best = rest[0][0]
        alike = [
            f
            for f in rest
            if f[0].phases == best.phases
            and f[0].n_phases == best.n_phases
            and abs(f[0].mean - best.mean) <= ALIKE * best.mean
        ]
        good = [f for f in alike if f[0].score >= (1 - ALIKE) * best.score]
        chosen = min(good, key=lambda f: (depth[paths[f[1]]], f[2], f[1]))
        kept.append(chosen[:2])
        gone = {id(f) for f in alike}
        rest = [f for f in rest if id(f) not in gone]
    return sorted(kept, key=lambda f: (-round(f[0].score, 6), f[0].n_phases, f[1]))


def shortest_name(model: Model, path: int) -> str:
    """Return the shortest end of a call path that no other one has, as phases are given; empty if there is none.

    Parameters
    ----------
    path : int
        Number of the call path.
    """
    tree, names = model.call_paths, model.regions.name
    name_of = names[tree.region]
    fits, at = np.ones(len(tree), bool), np.arange(len(tree))
    end: list[str] = []
    level = path
    while level >= 0:
        name = names[tree.region[level]]
        fits &= (at >= 0) & (name_of[at] == name)
        end.insert(0, name)
        if fits.sum() == 1:
            break
        at = np.where(at >= 0, tree.parent[at], -1)
        level = int(tree.parent[level])
    # slashes in a name would divide it
    return "/".join(end) if fits.sum() == 1 and (len(end) == 1 or not any("/" in name for name in end)) else ""


def _visits(model: Model, masters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often some threads together enter each call path; (n_call_paths,) int64."""
    profile = model.profile
    mine = np.isin(profile.location, masters)
    return np.bincount(profile.call_path[mine], profile.visits[mine], len(model.call_paths)).astype(np.int64)


def _equally_often(model: Model, masters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the call paths that all of some threads enter equally often, without those of artificial regions."""
    profile, tree = model.profile, model.call_paths
    mine = np.flatnonzero(np.isin(profile.location, masters) & (profile.visits > 0))
    n, path, visits = len(tree), profile.call_path[mine], profile.visits[mine]
    least, most = np.full(n, np.iinfo(np.int64).max), np.zeros(n, np.int64)
    np.minimum.at(least, path, visits)
    np.maximum.at(most, path, visits)
    fits = (np.bincount(path, minlength=n) == masters.size) & (least == most) & (least >= LEAST)
    fits &= model.regions.role[tree.region] != "artificial"
    # what threads do beside each other, and explicit tasks, begin no phases of the process
    alone = tree.region == model.regions.tasks
    if model.locations.n_processes < int(model.locations.is_cpu.sum()):
        alone |= (model.regions.paradigm == "openmp")[tree.region] & (model.regions.role[tree.region] == "parallel")
    for head in np.flatnonzero(alone).tolist():
        fits[head + 1 : tree.end[head]] = False
    found = np.flatnonzero(fits)
    if found.size > MOST:
        own = np.bincount(profile.call_path[mine], profile.exclusive[mine], n)
        before = np.concatenate([[0.0], np.cumsum(own)])
        inclusive = before[tree.end] - before[:-1]
        by_time, by_visits = np.argsort(-inclusive[found], kind="stable"), np.argsort(most[found], kind="stable")
        found = found[np.unique(np.concatenate([by_time[: MOST // 2], by_visits[: MOST // 2]]))]
    return found


def _instances(
    model: Model, teams: Teams, location: int, paths: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return when a location enters and leaves some call paths, in ticks."""
    wanted = np.full(len(model.call_paths), -1, np.int64)
    wanted[paths] = np.arange(paths.size)
    of_node = wanted[model.call_paths.numbers[location]]
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
        # what never ends lasts as long as the recording
        result.append((enter, np.append(leave, np.full(max(enter.size - leave.size, 0), end))[: enter.size]))
    return result
