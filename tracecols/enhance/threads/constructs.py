"""Team instances and the OpenMP constructs their threads execute together (thesis 3.13, 3.19).

Within a process. One equality join on (team instance, role, k).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable, joined, pick
from tracecols.enhance.dataflow.grouping import Segments, bounded, combine, number_chronologically
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.definitions.regions import CONSTRUCTS as ROLES
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.location_scan import LocationScan, fork_spans
from tracecols.enhance.scan.scan import GROUP
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels import teams as kernels
from tracecols.schema.compound import CONSTRUCT_MEMBERS, CONSTRUCTS, TEAMS
from tracecols.vectors import offsets_of


@step(WITHIN, "teams")
def match_teams(facts: Facts, scans: Sequence[LocationScan], team_instances: Teams) -> CompoundTable:
    """Build the table of team instances, with the additional column `join_call_path`, the call path of the JOIN."""
    n = team_instances.n_instances
    master = pick(team_instances.location, team_instances.master).astype(np.int32)
    fork_row, join_row, fork_time, join_time = (np.full(n, -1, np.int64) for _ in range(4))
    call_path, join_call_path = (np.full(n, -1, np.int32) for _ in range(2))
    by_master = np.argsort(master, kind="stable")
    by_master = by_master[master[by_master] >= 0]
    masters, first = np.unique(master[by_master], return_index=True)
    first = np.append(first, by_master.size)
    sizes = np.array([scans[i].n_attributed for i in masters.tolist()], np.int64)
    for some in bounded(sizes, GROUP):
        locations = masters[some]
        spans = fork_spans([scans[i] for i in locations.tolist()], team_instances.events, facts.order)
        of = by_master[first[some.start] : first[some.stop]]
        k = np.searchsorted(locations, master[of])
        fork = spans.start[k] + team_instances.fork[of]
        fork_row[of], join_row[of] = spans.fork_row[fork], spans.join_row[fork]
        fork_time[of], join_time[of] = spans.fork_time[fork], spans.join_time[fork]
        numbers = [facts.call_paths.numbers[i] for i in locations.tolist()]
        first_node, number = offsets_of([n.size for n in numbers])[k], joined(numbers).astype(np.int32)
        for into, node in ((call_path, spans.node[fork]), (join_call_path, spans.join_node[fork])):
            into[of] = pick(number, np.where(node >= 0, first_node + node, -1))
    return CompoundTable(
        TEAMS,
        n,
        {
            "communicator": team_instances.communicator,
            "master": master,
            "fork": fork_row,
            "join": join_row,
            "fork_time": fork_time,
            "join_time": join_time,
            "call_path": call_path,
            "join_call_path": join_call_path,
            "n_threads": np.bincount(team_instances.instance, minlength=n).astype(np.int32),
            "turn": team_instances.turn,
            "team": team_instances.team_of_instance,
        },
        {
            "teams without a recorded FORK": int((master < 0).sum()),
            "threads that begin in undefined teams": team_instances.n_undefined,
        },
    )


@step(WITHIN, "constructs", "construct_members")
def match_constructs(
    facts: Facts, call_instances: CallInstances, team_instances: Teams
) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of OpenMP constructs and of the threads in them; `role_number` is the position in ROLES."""
    calls, n_begins = call_instances, team_instances.instance.size
    role_of, rows = facts.regions.construct[facts.call_paths.region], np.empty(calls.call_path.size, np.int64)
    n_rows, ascends = kernels.list_constructs(calls.call_path, calls.begin, calls.enter, role_of, rows)
    rows = rows[:n_rows]
    if not ascends:
        # calls are numbered in the order of their ENTERs unless an attributed event came first; sort them by row
        rows = rows[np.argsort(calls.enter[rows], kind="stable")]
    begin, enter, call_path = (of.take(rows) for of in (calls.begin, calls.enter_time, calls.call_path))
    role = role_of.take(call_path)
    team = team_instances.instance[begin]
    k = np.empty(rows.size, np.int64)
    kernels.count_constructs(begin, role, np.zeros((n_begins, len(ROLES)), np.int32), k)
    instance, head = number_chronologically(combine(team, role, k), enter)
    n = head.size
    segments = Segments(instance, n)
    n_members, latest = segments.count(), segments.max(enter)
    # no column refers to its table: such a cycle would keep the calls alive until the next garbage collection
    latest_member = cache(
        lambda: segments.min(np.where(enter == latest[instance], np.arange(instance.size), instance.size))
    )
    n_threads = np.bincount(team_instances.instance, minlength=team_instances.n_instances)
    names = np.array(ROLES, object)
    table = CompoundTable(
        CONSTRUCTS,
        n,
        {
            "team": team[head],
            "region": facts.call_paths.region[call_path[head]],
            "role": lambda: names[role[head]],
            "role_number": role[head],
            "n_members": n_members.astype(np.int32),
            "latest_enter_time": latest,
            "latest_location": lambda: pick(calls.location[rows], latest_member()),
            "latest_enter": lambda: pick(calls.enter[rows], latest_member()),
            "latest_member": latest_member,
            "earliest_enter_time": lambda: segments.min(enter),
            "first_enter": lambda: segments.min(calls.enter[rows]),
        },
        {"constructs that lack threads": int((n_members < n_threads[team[head]]).sum()) if n else 0},
    )
    members = CompoundTable(
        CONSTRUCT_MEMBERS,
        rows.size,
        {
            "construct": instance,
            "role": lambda: names[role],
            "role_number": role,
            "latest_enter_time": lambda: latest.take(instance),
            "location": calls.location.take(rows),
            "enter": calls.enter.take(rows),
            "exit": calls.exit.take(rows),
            "enter_time": enter,
            "exit_time": calls.exit_time.take(rows),
            "call_path": call_path,
            "task_time": calls.tasks[rows],
        },
    )
    return table, members
