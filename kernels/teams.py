"""Team instances: the k-th begins of all threads in a team belong together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part

# effects of events
NEITHER, FORKS, BEGINS, JOINS, ENDS = range(5)


class Begins(NamedTuple):
    """Begins in teams, location by location."""

    location: NDArray[np.int32]
    """(n_begins,)"""
    team: NDArray[np.int64]
    """(n_begins,): number of its `ProcessTeams`."""
    instance: NDArray[np.int64]
    """(n_begins,): how often its location has begun in its team before; once numbered, the team instance."""
    fork: NDArray[np.int64]
    """(n_begins,): number of the last FORK of its location before; -1 none."""
    is_master: NDArray[np.bool_]
    """(n_begins,): whether its location has forked right before."""


class ProcessTeams(NamedTuple):
    """Teams as one process uses them: several may use one definition, each for teams of its own."""

    team: NDArray[np.int64]
    process: NDArray[np.int64]
    """`team` and `process`: (n,)"""


class Instances(NamedTuple):
    """Team instances: (n_instances,) each. How often its team has run before, the team, the begin of the thread that
    forked and the number of its FORK (-1 none), the last begin, and the number of begins."""

    turn: NDArray[np.int64]
    team: NDArray[np.int64]
    master: NDArray[np.int64]
    fork: NDArray[np.int64]
    last: NDArray[np.int64]
    size: NDArray[np.int64]


class Brackets(NamedTuple):
    """Pairs of events that nest, in the order in which they begin."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,), number of the event; -1 where a pair never ends."""
    below: NDArray[np.int64]
    """(n,): the last pair before that is open when one begins; -1 none."""


class Locations(NamedTuple):
    """Locations that begin in teams."""

    chosen: NDArray[np.int64]
    """(n,): their numbers among all."""
    forker: NDArray[np.int64]
    """(n_locations,): for locations without TEAM_BEGIN events, the location whose FORKs begin their teams; -1 for
    others."""
    process: NDArray[np.int32]
    """(n_locations,)"""
    event_start: NDArray[np.int64]
    begin_start: NDArray[np.int64]
    """`event_start` and `begin_start`: (n_locations + 1,), first event of teams, and first begin, of each location."""


@part
def count_turn(t, process, location, n_teams, last, teams):
    """Count a begin in team `t`; return the number of teams of processes."""
    if last[1, t] != location:
        if last[0, t] != process:
            teams.team[n_teams], teams.process[n_teams], last[3, t] = t, process, n_teams
            n_teams += 1
        last[0, t], last[1, t], last[2, t] = process, location, -1
    last[2, t] += 1
    return n_teams


@kernel
def list_begins(locations, meaning, kind, team, n_defined, last, teams, begins):
    """List the begins of locations, and number the teams of processes. Return the number of begins in undefined teams,
    and of teams of processes.

    Parameters
    ----------
    locations : Locations
        Those of a process one after the other.
    meaning : (256,) int8
        FORKS, BEGINS or NEITHER, by kind of event.
    kind, team : (n,) uint8, int32
        Events of teams, one location after the other.
    n_defined : int
        Number of defined teams; they are followed by one for each process, and by one for each location for undefined
        teams.
    last : (4, n_teams) int64
        The last process and the last location that have begun in each team, how often that location had before, and the
        number of the team of that process; written, initially -1.
    teams : ProcessTeams, written
    begins : Begins, written
    """
    n_undefined, n_teams, unknown = 0, np.int64(0), last.shape[1] - locations.forker.size
    for k in range(locations.chosen.size):
        location = locations.chosen[k]
        process = np.int64(locations.process[location])
        at, stop = locations.begin_start[location], locations.begin_start[location + 1]
        if locations.forker[location] >= 0:
            n_teams = count_turn(n_defined + process, process, location, n_teams, last, teams)
            for b in range(at, stop):
                begins.location[b], begins.is_master[b] = location, locations.forker[location] == location
                begins.team[b] = last[3, n_defined + process]
                begins.instance[b] = begins.fork[b] = b - at
            continue
        n_forks, has_forked = 0, False
        for e in range(locations.event_start[location], locations.event_start[location + 1]):
            what = meaning[kind[e]]
            if what == FORKS:
                n_forks += 1
            elif what == BEGINS:
                t = np.int64(team[e]) if team[e] >= 0 else unknown + location
                n_undefined += team[e] < 0
                n_teams = count_turn(t, process, location, n_teams, last, teams)
                begins.location[at], begins.team[at], begins.instance[at] = location, last[3, t], last[2, t]
                begins.fork[at], begins.is_master[at] = n_forks - 1, has_forked
                at += 1
            has_forked = what == FORKS
    return n_undefined, n_teams


@part
def begin_bracket(event, top, brackets, n):
    """Begin pair `n` while pair `top` is open; return the pair that is open then."""
    brackets.begin[n], brackets.end[n], brackets.below[n] = event, -1, top
    return n


@part
def end_bracket(event, top, brackets):
    """End the pair that is open, if any; return the pair that is open then."""
    if top < 0:
        return top
    brackets.end[top] = event
    return brackets.below[top]


@kernel
def list_visits(meaning, kind, forks, visits, fork):
    """List when a location is in teams.

    Parameters
    ----------
    meaning : (256,) int8
        FORKS, JOINS, BEGINS, ENDS or NEITHER, by kind of event.
    kind : (n,) uint8
        Events of threads.
    forks, visits : Brackets, written
        From each FORK to its JOIN, and from each begin in a team to its end.
    fork : (n_visits,) int64, written
        The FORK right before each begin, -1 none.
    """
    n_forks, n, open_fork, open_visit, before = np.int64(0), np.int64(0), np.int64(-1), np.int64(-1), np.int8(NEITHER)
    for e in range(kind.size):
        what = meaning[kind[e]]
        if what == NEITHER:
            continue
        if what == FORKS:
            open_fork = begin_bracket(e, open_fork, forks, n_forks)
            n_forks += 1
        elif what == JOINS:
            open_fork = end_bracket(e, open_fork, forks)
        elif what == BEGINS:
            fork[n] = n_forks - 1 if before == FORKS else -1
            open_visit = begin_bracket(e, open_visit, visits, n)
            n += 1
        else:
            open_visit = end_bracket(e, open_visit, visits)
        before = what


@kernel
def number_instances(teams, most, start, position, begins, instances):
    """Number team instances by turn, then by team.

    Parameters
    ----------
    teams : (n_teams,) int64
        Teams in order; overwritten.
    most, start : (n_teams,) int64
        How often each team runs, and the number of instances of the teams before it.
    position : (n_instances,) int64, written
        Instances by team and turn.
    begins : Begins, written
        Those of the instances.
    instances : Instances, written
        Initially `master` and `fork` are -1, and `size` is 0.
    """
    n, n_left, turn = 0, teams.size, 0
    while n_left > 0:
        left = 0
        for k in range(n_left):
            t = teams[k]
            position[start[t] + turn] = n
            instances.turn[n], instances.team[n] = turn, t
            n += 1
            if most[t] > turn + 1:
                teams[left] = t
                left += 1
        n_left, turn = left, turn + 1
    for b in range(begins.team.size):
        i = position[start[begins.team[b]] + begins.instance[b]]
        begins.instance[b] = i
        instances.last[i] = b
        instances.size[i] += 1
        if begins.is_master[b]:
            instances.master[i], instances.fork[i] = b, begins.fork[b]


@kernel
def number_calls(count, node, team, first_node, number, first_begin, call_path, begin):
    """Number the call paths of call instances in the merged tree, and their team begins among those of all locations.

    Parameters
    ----------
    count : (n_locations,) int64
        Call instances of each location, one location after the other.
    node, team : (n,) int32, int64
        Call path and begin in a team (-1 none) of each, as their locations number them.
    first_node, number : (n_locations,), (any,) int64
        Where the call paths of each location begin in `number`, and their numbers in the merged tree.
    first_begin : (n_locations,) int64
        Offset of the numbers of its team begins among all.
    call_path, begin : (n,) int64, written
    """
    stop = 0
    for k in range(count.size):
        start, stop = stop, stop + count[k]
        for i in range(start, stop):
            call_path[i] = number[first_node[k] + node[i]]
            begin[i] = team[i] + first_begin[k] if team[i] >= 0 else -1


@kernel
def list_constructs(call_path, begin, enter, role, listed):
    """List the call instances of constructs that threads execute in teams. Return their number, and whether they are in
    the order of their ENTERs.

    Parameters
    ----------
    call_path, begin, enter : (n,) int64
        Call paths, team begins (-1 none), and rows of ENTERs.
    role : (n_call_paths,) int8
        Role of the construct of each call path; -1 none.
    listed : (n,) int64, written
        The call instances.
    """
    n, ascends = 0, True
    for i in range(call_path.size):
        if begin[i] >= 0 and role[call_path[i]] >= 0:
            ascends = ascends and (n == 0 or enter[listed[n - 1]] <= enter[i])
            listed[n] = i
            n += 1
    return n, ascends


@kernel
def count_constructs(begin, role, seen, k):
    """Number the constructs of each role that a thread enters in a team.

    Parameters
    ----------
    begin, role : (n,) int64, int8
        Begin of the thread in the team; role of the construct.
    seen : (n_begins, n_roles) int32, counted up
    k : (n,) int64, written
        Number of those that it has entered before.
    """
    for i in range(begin.size):
        k[i] = seen[begin[i], role[i]]
        seen[begin[i], role[i]] += 1
