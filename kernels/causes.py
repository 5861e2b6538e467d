"""Who caused which wait: the last synchronisation with each partner, and the way of costs back through time."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel


@kernel
def _is_member(process, group, group_start, group_member):
    low, high = group_start[group], group_start[group + 1]
    while low < high:
        middle = (low + high) // 2
        if group_member[middle] < process:
            low = middle + 1
        else:
            high = middle
    return low < group_start[group + 1] and group_member[low] == process


@kernel
def find_last_synchronisations(
    location_start, partner, group, is_listed, group_start, group_member, query_start, query_process, last, last_group, used,
    found,
):  # fmt: skip
    """Find for queries (synchronisation point, process) the last point of the same location before that synchronises with the process.

    Parameters
    ----------
    location_start : (n_locations + 1,) int64
        First point of each location; they are in order.
    partner, group : (n,) int32
        The process that a point synchronises with, or a group of processes; -1 none.
    is_listed : (n_groups,) bool
        Whether a group is used once: its members are gone through. Others are communicators.
    group_start, group_member : (n_groups + 1,), (any,) int64
        Processes of each group, ascending.
    query_start : (n + 1,) int64
        Queries of each point.
    query_process : (n_queries,) int32
    last : (n_processes,) int64
        Scratch, -1.
    last_group, used : (n_groups,) int64
        Scratch.
    found : (n_queries,) int64, written
        Points, -1 none.
    """
    for location in range(location_start.size - 1):
        begin, end = location_start[location], location_start[location + 1]
        n_used = 0
        for i in range(begin, end):
            for q in range(query_start[i], query_start[i + 1]):
                r = query_process[q]
                best = last[r]
                for u in range(n_used):
                    # the group that was used last comes first
                    g = used[u]
                    if last_group[g] <= best:
                        break
                    if _is_member(r, g, group_start, group_member):
                        best = last_group[g]
                        break
                found[q] = best
            if partner[i] >= 0:
                last[partner[i]] = i
            g = group[i]
            if g >= 0:
                if is_listed[g]:
                    for j in range(group_start[g], group_start[g + 1]):
                        last[group_member[j]] = i
                else:
                    u = 0
                    while u < n_used and used[u] != g:
                        u += 1
                    if u == n_used:
                        n_used += 1
                    while u > 0:
                        used[u] = used[u - 1]
                        u -= 1
                    used[0] = g
                    last_group[g] = i
        for i in range(begin, end):
            if partner[i] >= 0:
                last[partner[i]] = -1
            g = group[i]
            if g >= 0 and is_listed[g]:
                for j in range(group_start[g], group_start[g + 1]):
                    last[group_member[j]] = -1


@kernel
def subtract_maps(
    start, cause_map, waiting_map, within_map, map_end, map_path, map_value, waiting_end, waiting_path, waiting_value,
    keeps_path, dense, out_end, out_path, out_value, total,
):  # fmt: skip
    """Find for pairs by how much more time the causing one spent than the waiting one, by call path.

    Parameters
    ----------
    start : int
        Pair to begin with.
    cause_map, waiting_map, within_map : (n,) int64
        Map of the causing side, of the waiting side (-1 none), and a map whose call paths are the only ones to count (-1 all).
    map_end, map_path, map_value, waiting_end, waiting_path, waiting_value
        Maps of both sides, as `sum_intervals` makes them.
    keeps_path : (n,) int32
        A call path that counts whether or not it is in `within_map`; -1 none.
    dense : (n_call_paths,) float64
        Zeros.
    out_end, out_path, out_value : (n,), (capacity,), (capacity,); written
    total : (n,) float64, written
        Sum of each pair.

    Returns
    -------
    int
        The pair to go on with: n, or less where the arrays of entries are full.
    """
    filled = out_end[start - 1] if start > 0 else np.int64(0)
    for i in range(start, cause_map.size):
        m, w, within = cause_map[i], waiting_map[i], within_map[i]
        begin, end = map_end[m - 1] if m > 0 else np.int64(0), map_end[m]
        if filled + end - begin > out_path.size:
            return i
        if w >= 0:
            for j in range(waiting_end[w - 1] if w > 0 else np.int64(0), waiting_end[w]):
                dense[waiting_path[j]] = waiting_value[j]
        k = map_end[within - 1] if within > 0 else np.int64(0)
        sum_ = 0.0
        for j in range(begin, end):
            c = map_path[j]
            if within >= 0:
                while k < map_end[within] and map_path[k] < c:
                    k += 1
                if not (k < map_end[within] and map_path[k] == c) and c != keeps_path[i]:
                    continue
            x = map_value[j] - dense[c]
            if x > 0:
                out_path[filled] = c
                out_value[filled] = x
                filled += 1
                sum_ += x
        if w >= 0:
            for j in range(waiting_end[w - 1] if w > 0 else np.int64(0), waiting_end[w]):
                dense[waiting_path[j]] = 0.0
        out_end[i] = filled
        total[i] = sum_
    return cause_map.size


@kernel
def sweep_costs(
    node, node_end, pair_start, pair_waiting, pair_kind, pair_scale, pair_whole, pair_wait, since, counts_from,
    n_waiting, wait, cause, location, p2p_kinds, thread_kind, open_pairs, at, ready, is_blocked, cost, shares, propagated,
):  # fmt: skip
    """Carry the costs of final waits back through time: a wait takes on the costs of those that it helped to cause.

    Every location goes back through its nodes until it meets a cause some of whose waiting points are still to come.

    Parameters
    ----------
    node : (n_nodes,) int64
        Points that wait for others or let others wait, location by location, the last one first.
    node_end : (n_locations + 1,) int64
        First node of each location.
    pair_start : (n_points + 1,) int64
        Pairs by the point that causes them.
    pair_waiting, pair_kind : (n_pairs,) int64, int8
        The waiting point, -1 for idle threads; kind of the wait.
    pair_scale, pair_whole, pair_wait : (n_pairs,) float64
        Seconds of waiting per second lost by the causing side; what that side lost and waited in the interval; what it waited.
    since, counts_from : (n_pairs,) int64
        The point after which the interval begins; the first point that takes on costs, later than the last one if none does.
    n_waiting : (n_points + 1,) int64
        How many points before each one wait.
    wait : (n_waits,) float64
        Of the points that wait, in order.
    cause : (n_points,) int64
        Of waiting points who causes the wait; -1 none.
    location : (n_points,) int64
    p2p_kinds, thread_kind : int
        Kinds below the first are point-to-point; kind of thread barriers, at which their own costs end.
    open_pairs : (n_points,) int64
        How many waiting points of each cause are to come.
    at, ready, is_blocked : (n_locations,) int64, int64, bool
        First node of each location; scratch, false.
    cost : (n_waits, n_kinds) float64, written
        Of each waiting point the seconds of final waits it helped to cause, by kind.
    shares : (n_pairs, n_kinds) float64, written
        Of each pair the costs of its waiting point per second that the causing side lost.
    propagated : (n_waits,) float64, written
        Of each waiting point how much of it lets others wait in point-to-point communication.

    Returns
    -------
    int
        How many nodes were gone through before all that they depend on, because they depend on each other.
    """
    n_locations, n_kinds = at.size, cost.shape[1]
    for i in range(n_locations):
        ready[i] = n_locations - 1 - i
    n_ready = n_locations
    n_forced, unfinished = 0, 0
    while True:
        forced = n_ready == 0
        if forced:
            # in a recording that contradicts itself points may wait for each other in a circle
            while unfinished < n_locations and at[unfinished] == node_end[unfinished + 1]:
                unfinished += 1
            if unfinished == n_locations:
                return n_forced
            ready[0] = unfinished
            is_blocked[unfinished] = False
            n_ready = 1
            n_forced += 1
        n_ready -= 1
        here = ready[n_ready]
        while at[here] < node_end[here + 1]:
            i = node[at[here]]
            if open_pairs[i] > 0 and not forced:
                is_blocked[here] = True
                break
            forced = False
            for p in range(pair_start[i], pair_start[i + 1]):
                if not pair_whole[p] > 0:
                    continue
                kind, scale, e = pair_kind[p], pair_scale[p], pair_waiting[p]
                if e >= 0 and n_waiting[e + 1] > n_waiting[e]:
                    for k in range(n_kinds):
                        if kind != thread_kind or k != thread_kind:
                            shares[p, k] = cost[n_waiting[e], k] / pair_whole[p]
                if not pair_wait[p] > 0:
                    continue
                if kind < p2p_kinds:
                    for v in range(n_waiting[since[p] + 1], n_waiting[i]):
                        propagated[v] = max(propagated[v], scale * wait[v])
                for v in range(n_waiting[max(since[p] + 1, counts_from[p])], n_waiting[i]):
                    for k in range(n_kinds):
                        share = shares[p, k] + (scale if k == kind else 0.0)
                        if share > 0:
                            cost[v, k] += wait[v] * share
            at[here] += 1
            x = cause[i]
            if x >= 0:
                open_pairs[x] -= 1
                other = location[x]
                if open_pairs[x] == 0 and is_blocked[other] and node[at[other]] == x:
                    is_blocked[other] = False
                    ready[n_ready] = other
                    n_ready += 1


@kernel
def walk_critical_path(
    start, stop_before, goes_on, is_end, team_start, team_member, wait, seen, work, until
):  # fmt: skip
    """Walk the critical path back through time, from stop to stop.

    Parameters
    ----------
    start : int
        The point it starts from.
    stop_before : (n_points,) int64
        The last point before each at which the walk stops; -1 none.
    goes_on : (n_points,) int64
        The point from which the path goes on; of barriers of threads -2 minus the number of the barrier.
    is_end : (n_points,) bool
        Where it ends.
    team_start, team_member : (n_barriers + 1,), (any,) int64
        The points of every barrier of threads: the path goes on from all that do not wait.
    wait : (n_points,) float64
    seen, work : (n_points,) bool, int64
        Scratch; false.
    until : (n_points,) int64, written
        Of stops on the path, which are -1 before, the point up to which their location is on it.

    Returns
    -------
    int
        The point up to which the location is on the path from its beginning; -1 if the path ends elsewhere.
    """
    beginning = np.int64(-1)
    n = 1
    work[0] = start
    while n > 0:
        n -= 1
        i = work[n]
        s = stop_before[i]
        if s < 0:
            beginning = i
            continue
        if until[s] >= 0:
            # two paths become one
            until[s] = min(until[s], i)
            continue
        until[s] = i
        if is_end[s]:
            continue
        if goes_on[s] >= 0:
            if not seen[goes_on[s]]:
                seen[goes_on[s]] = True
                work[n] = goes_on[s]
                n += 1
        else:
            team = -2 - goes_on[s]
            for j in range(team_start[team], team_start[team + 1]):
                m = team_member[j]
                if wait[m] == 0 and not seen[m]:
                    seen[m] = True
                    work[n] = m
                    n += 1
    return beginning
