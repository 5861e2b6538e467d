"""Costs of teams of threads: the times between FORK and ENTER, and between EXIT and JOIN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import CONSTRUCTS
from tracecols.model.model import Model
from tracecols.severity.cells import Cells


@dataclass
class TeamTimes:
    """Costs of teams: times between FORK and ENTER, and between EXIT and JOIN, of every thread of every parallel
    region.
    """

    n_instances: int
    """Team instances."""
    fork: Cells
    join: Cells
    """`fork` and `join`: on the parallel region."""
    forks: Cells
    spent: Cells
    """`forks` and `spent`: `fork` times, and `fork` plus `join` times, of the forking threads, on the call path that
    forked."""
    in_reach: bool
    """Whether the reference analyser accepts such teams: it refuses teams that are smaller than their process, hence
    also nested ones, and MPI calls from other threads than the first."""

    @classmethod
    def none(cls) -> TeamTimes:
        return cls(0, Cells.empty(), Cells.empty(), Cells.empty(), Cells.empty(), True)

    @classmethod
    def of(cls, model: Model) -> TeamTimes:
        """Add up the costs of the teams of a model."""
        in_reach = not calls_mpi_from_workers(model)
        if not model.team_instances.n_instances:
            return replace(cls.none(), in_reach=in_reach)
        members, constructs, teams = model.construct_members, model.constructs, model.teams
        forked = teams.master >= 0
        in_reach &= bool((teams.n_threads[forked] == model.locations.n_threads[teams.master[forked]]).all())
        team = constructs.team[members.construct]
        row = np.flatnonzero((members.role_number == CONSTRUCTS.index("parallel")) & (teams.master[team] >= 0))
        team = team[row]
        call_path, location = members.call_path[row], members.location[row]
        labels = model.call_paths
        above = labels.whole.parent[labels.path_of(call_path)]
        mine = np.flatnonzero((teams.master[team] == location) & (above >= 0))
        above = above[mine]

        def above_in(period_of: NDArray[np.int32]) -> NDArray[np.int64]:
            """Return the call paths that forked, in the periods of `period_of`, or, where that is -1, in that of the
            parallel region."""
            return labels.find(above, np.where(period_of >= 0, period_of, call_path[mine]))

        def cells(of: NDArray[np.int64], at: NDArray[Any], begin: NDArray[np.int64], end: NDArray[np.int64]) -> Cells:
            row_of, path, ticks = labels.divide(at, begin[of], end[of], location[of])
            return Cells.sum(path, location[of][row_of], ticks)

        every = np.arange(row.size)
        to_fork = teams.fork_time[team], members.enter_time[row]
        to_join = members.exit_time[row], teams.join_time[team]
        # where the master spent them: a phase that begins at a call may begin between FORK and JOIN
        forks = cells(mine, above_in(teams.call_path[team[mine]]), *to_fork)
        return cls(
            teams.n_threads.size,
            cells(every, call_path, *to_fork),
            cells(every, call_path, *to_join),
            forks,
            forks + cells(mine, above_in(teams.join_call_path[team[mine]]), *to_join),
            in_reach,
        )

    def __add__(self, other: TeamTimes) -> TeamTimes:
        return TeamTimes(
            self.n_instances + other.n_instances,
            self.fork + other.fork,
            self.join + other.join,
            self.forks + other.forks,
            self.spent + other.spent,
            self.in_reach and other.in_reach,
        )


def calls_mpi_from_workers(model: Model) -> bool:
    """Return whether any thread but the master of its process has events of MPI."""
    workers = model.locations.workers
    mine = workers[np.isin(workers, model.members)]
    return any(model.store.n_rows(table, w) for table in ("p2p", "collectives") for w in mine.tolist())
