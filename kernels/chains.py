"""Chains of activity in processes with devices: back along the latest predecessors of operations on streams, and of
calls that wait for them, across hosts and streams.

All times are ticks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.causes import divide
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.ordered import last_until, place_of

EARLIEST, LATEST = (int(of) for of in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
HOST, NOTHING = -1, -2
"""Predecessors that are not operations: the launching call of the host, and anything before the recording."""

Ints = NDArray[np.int64]


class Operations(NamedTuple):
    """Kernels and copies of some processes, by process, stream and begin."""

    host: Ints
    """(n,) int64: the line of a host that launches it (`Hosts`)."""
    stream: Ints
    begin: Ints
    end: Ints
    """`stream`, `begin` and `end`: (n,) int64"""
    cell: Ints
    latency: Ints
    """`cell` and `latency`: (n,) int64, cell of its time, and of the time between its predecessor and its begin."""
    late: Ints
    """(n,) int64: time until which it waits for other ranks; `begin` if it does not."""
    group: Ints
    """(n,) int64: group of processes that it has met after its wait (`Met`), -1 none."""
    before: Ints
    since: Ints
    """`before` and `since`: (n,) int64, its latest predecessor, `HOST` or `NOTHING`, and when that ends; no later than
    `begin`."""
    free_before: Ints
    free_since: Ints
    """`free_before` and `free_since`: (n,) int64, the same, ignoring kernels on its stream that communicate."""


class Met(NamedTuple):
    """Groups of processes that kernels meet."""

    start: Ints
    """(n_groups + 1,) int64: first entry of each group."""
    process: Ints
    launched: Ints
    """`process` and `launched`: (n,) int64, by group and process, ascending: processes of the trace, and when each has
    launched its kernel; the begin of the kernel if that is not known, and that of the trace if neither is."""


class Hosts(NamedTuple):
    """Activity of some hosts as lines, one of a process or of each of its threads; and their waits for operations."""

    start: Ints
    """(n_lines + 1,) int64: first entry of each line."""
    time: Ints
    cell: NDArray[np.int32]
    """`time` and `cell`: (n,) int64, int32, time from which on the host is in a call path, and the cell of this."""
    root: Ints
    """(n_lines,) int64: cell of the time before the first entry."""
    exit_start: Ints
    """(n_lines + 1,) int64"""
    exit: Ints
    operation: Ints
    until: Ints
    latency: Ints
    """`exit`, `operation`, `until` and `latency`: (n_exits,) int64, by line in the order of time: time at which a call
    that has waited returns, the operation it waited for, time at which that, or the call, ended, and the cell of the
    time from then until it returns."""
    first: int
    """When the trace begins."""


class Sums(NamedTuple):
    """Sums of a walk by cell, and its waits for other ranks."""

    sum: Ints
    """(n_cells,) int64, zero between walks."""
    used: NDArray[np.bool_]
    many: NDArray[np.bool_]
    """`used` and `many`: (n_cells / 64 + 1,) and (n_cells / 4096 + 1,) bool, whether some of so many cells are not
    zero."""
    operation: Ints
    waited: Ints
    """`operation` and `waited`: (n_waits + 1,) int64, operations in which it waits, and for how long."""


class Waits(NamedTuple):
    """Waits of operations, ordered by the time of their causes, and those of hosts for operations."""

    operation: Ints
    """(n,) int64: the operation that waits; -1 if a host waits."""
    cause: Ints
    """(n,) int64: the operation that is waited for."""
    process: Ints
    since: Ints
    """`process` and `since`: (n,) int64, the process of the cause, and the time from which its chain goes back."""
    amount: Ints
    kind: Ints
    """`amount` and `kind`: (n,) int64, ticks, and the row of what they are charged to."""
    number: Ints
    """(n_operations,) int64: the wait of each operation; -1 none."""


class Cells(NamedTuple):
    """What the time of chains counts for, by process; the cells of a process in the order in which ticks are given."""

    first: Ints
    end: Ints
    """`first` and `end`: (n_lines,) int64, the cells of each line are among these."""
    group: Ints
    """(n_cells,) int64: equal for the same call path on several threads or streams."""
    here: Ints
    earlier: Ints
    """`here` and `earlier`: (n_operations,) int64, the cell of what is charged where an operation begins, and that of
    earlier waits that make it late."""


class Compared(NamedTuple):
    """Sums of two chains by group: (n_groups,) int64, zero between comparisons."""

    more: Ints
    less: Ints
    largest: Ints
    """One more than the cell with the most time of the former chain."""


class Weights(NamedTuple):
    """What a wait is charged to: (room,) int64, the cell, the earlier wait that it is passed on to (-1 none), the
    weight, and scratch memory to divide it."""

    cell: Ints
    target: Ints
    weight: Ints
    share: Ints
    remainder: Ints
    spare: Ints


@part
def _add(cell, ticks, sums):
    """Add ticks to a cell."""
    if ticks <= 0:
        return
    if sums.sum[cell] == 0:
        sums.used[cell >> 6] = sums.many[cell >> 12] = True
    sums.sum[cell] += ticks


@part
def _next(cell, end, sums):
    """Return the first cell with time from `cell` on, `end` if there is none before that."""
    while cell < end:
        if cell & 63 == 0 and not sums.used[cell >> 6]:
            cell += 4096 if cell & 4095 == 0 and not sums.many[cell >> 12] else 64
        elif sums.sum[cell] == 0:
            cell += 1
        else:
            return cell
    return end


@part
def _clear(cell, sums):
    """Set a cell to zero; until all others of its block are, too, they are found only from it on."""
    sums.sum[cell] = 0
    sums.used[cell >> 6] = sums.many[cell >> 12] = False


@part
def _last_exit(host, t, high, before, hosts):
    """Return the last exit of a line until a time: before position `high` or, if that is -1 since the last exit was on
    another line, earlier than that exit (`before`). So walks end even if clocks disagree."""
    if high >= 0:
        return last_until(t, hosts.exit_start[host], high, hosts.exit)
    return last_until(min(t, before - 1), hosts.exit_start[host], hosts.exit_start[host + 1], hosts.exit)


@part
def _add_host(host, begin, end, hosts, sums):
    """Add the activity of a host from one time to another."""
    if end <= begin:
        return
    low, high = hosts.start[host], hosts.start[host + 1]
    i = last_until(end - 1, low, high, hosts.time)
    while i >= low and end > begin:
        since = max(hosts.time[i], begin)
        _add(hosts.cell[i], end - since, sums)
        end = since
        i -= 1
    _add(hosts.root[host], end - begin, sums)


@part
def _add_operation(o, begin, end, n, operations, sums):
    """Add the time of an operation, its wait, and the latency before it, from one time to another; return the number of
    waits."""
    since = max(operations.late[o], begin)
    if end > since:
        _add(operations.cell[o], end - since, sums)
        end = since
    since = max(operations.begin[o], begin)
    if end > since:
        sums.operation[n], sums.waited[n] = o, end - since
        n += 1
        end = since
    _add(operations.latency[o], end - begin, sums)
    return n


@part
def _part_of(group, process, met):
    """Return the entry of a process in a group, -1 if it is not there."""
    if group < 0:
        return -1
    return place_of(process, met.start[group], met.start[group + 1], met.process)


@part
def _walk(o, t, host, limit, is_free, other, on_streams, operations, hosts, met, sums):
    """Follow a chain back from a time in an operation or, if `o` is negative, on a host; to a time (`limit`), until it
    reaches a host (`on_streams`), or to the end of the first operation in which its process waited and met another one
    (`other`, -1 none), unless that is before it reaches the host and kernels on the same stream that communicate are
    skipped (`is_free`): they have not delayed the host. Return this operation, -1 none, and the number of waits."""
    # calls that have waited, the last first
    high, on, before, n = np.int64(-1), np.int64(-1), LATEST, 0
    while t > limit and (o >= 0 or not on_streams):
        if o >= 0:
            if operations.late[o] > operations.begin[o] and _part_of(operations.group[o], other, met) >= 0:
                return o, n
            n = _add_operation(o, max(min(operations.since[o], t), limit), t, n, operations, sums)
            t = max(min(operations.free_since[o] if is_free else operations.since[o], t), limit)
            host, o = operations.host[o], operations.free_before[o] if is_free else operations.before[o]
            continue
        low = hosts.exit_start[host]
        i = low - 1 if o == NOTHING else _last_exit(host, t, high if host == on else -1, before, hosts)
        since = max(hosts.until[i] if i >= low else hosts.first, limit)
        if i < low:
            if o == NOTHING:
                _add(hosts.root[host], t - since, sums)
            else:
                _add_host(host, since, t, hosts, sums)
            break
        leave = max(hosts.exit[i], limit)
        _add_host(host, leave, t, hosts, sums)
        _add(hosts.latency[i], leave - since, sums)
        high, on, before = i, host, hosts.exit[i]
        o, t, is_free = hosts.operation[i], min(t, since), False
    return np.int64(-1), n


@part
def _add_waits(k, n, is_known, cell, m, waits, sums, weights):
    """Add the waits on a chain that go back to earlier waits, or the others, to the weights of a wait; the former in
    the order of these. Return the number of weights."""
    first = m
    for i in range(n - 1, -1, -1):
        target = waits.number[sums.operation[i]]
        if (0 <= target < k) != is_known:
            continue
        at = m
        while is_known and at > first and weights.target[at - 1] > target:
            weights.weight[at], weights.target[at] = weights.weight[at - 1], weights.target[at - 1]
            at -= 1
        weights.weight[at], weights.target[at] = sums.waited[i], target if is_known else -1
        weights.cell[m] = cell
        m += 1
    return m


@part
def _weigh(k, n, low, high, is_compared, waits, cells, compared, sums, weights):
    """Fill in the weights of a wait, in the order in which ticks are given; return their number. One that is not known,
    and one without any cause, is charged where the cause begins."""
    here, earlier, m = cells.here[waits.cause[k]], cells.earlier[waits.cause[k]], 0
    c = _next(low, high, sums)
    while c < high:
        if c == here or c == earlier:
            m = _add_waits(k, n, c == earlier, c, m, waits, sums, weights)
        else:
            g, weight = cells.group[c], sums.sum[c]
            if is_compared:
                weight = compared.more[g] - compared.less[g] if compared.largest[g] == c + 1 else np.int64(0)
            if weight > 0:
                weights.cell[m], weights.target[m], weights.weight[m] = c, -1, weight
                m += 1
        c = _next(c + 1, high, sums)
    if m == 0:
        weights.cell[0], weights.target[0], weights.weight[0] = here, -1, 1
    return max(m, 1)


@part
def _follow(k, low, high, waits, operations, hosts, met, cells, sums, compared):
    """Add up the chain of an operation that waits by group; return the time until which that of the cause goes back."""
    o, other = waits.operation[k], waits.process[k]
    held, _ = _walk(
        operations.free_before[o], operations.free_since[o], operations.host[o], EARLIEST, True, other, False,
        operations, hosts, met, sums,
    )  # fmt: skip
    c = _next(low, high, sums)
    while c < high:
        compared.less[cells.group[c]] += sums.sum[c]
        c = _next(c + 1, high, sums)
    at = _part_of(operations.group[held], other, met) if held >= 0 else -1
    return min(met.launched[at] if at >= 0 else hosts.first, waits.since[k])


@part
def _take(low, high, cells, sums, compared):
    """Add up the chain of a cause by group, and find the cell with the most time of each."""
    c = _next(low, high, sums)
    while c < high:
        g = cells.group[c]
        compared.more[g] += sums.sum[c]
        if compared.largest[g] == 0 or sums.sum[c] > sums.sum[compared.largest[g] - 1]:
            compared.largest[g] = c + 1
        c = _next(c + 1, high, sums)


@part
def _forget(low, high, cells, sums, compared):
    """Clear the sums of a chain."""
    c = _next(low, high, sums)
    while c < high:
        g = cells.group[c]
        compared.more[g] = compared.largest[g] = 0
        _clear(c, sums)
        c = _next(c + 1, high, sums)


@kernel
def charge_waits(which, waits, operations, hosts, met, cells, mine, theirs, compared, weights, charged, carried):
    """Charge waits to the time that the chains of their causes spent in excess of the chains of those that wait, and to
    waits on the former; from the last wait to the first: shares that earlier waits have caused are passed on to these.

    The chain of an operation that waits goes back from its predecessor to the operation that delayed its process last,
    that of the cause until its process launched its part of that operation. Waits of hosts are charged to the chain of
    the operation until it reaches a host.

    Parameters
    ----------
    which : (n_charged,) int64
        Numbers of waits, ascending.
    mine, theirs : Sums
        Scratch for the chain of the cause, and for that of who waits.
    charged : (n_rows, n_cells) int64
        Ticks by `waits.kind` or, if they are passed on by a later wait of that kind, by the number of kinds more; added
        to.
    carried : (n_kinds, n_waits) int64
        Amounts that later waits pass on to each wait, by their kind; added to. Without kinds, nothing is passed on.
    """
    n_kinds = carried.shape[0]
    cause, since, until, low, high, n = np.int64(-1), LATEST, LATEST, np.int64(0), np.int64(0), 0
    for row in range(which.size - 1, -1, -1):
        k = which[row]
        o, x = waits.operation[k], waits.cause[k]
        their_low = their_high = np.int64(0)
        limit = EARLIEST
        if o >= 0:
            host = operations.host[o]
            their_low, their_high = cells.first[host], cells.end[host]
            limit = _follow(k, their_low, their_high, waits, operations, hosts, met, cells, theirs, compared)
        if x != cause or waits.since[k] != since or limit != until:
            _forget(low, high, cells, mine, compared)
            host = operations.host[x]
            cause, since, until, low, high = x, waits.since[k], limit, cells.first[host], cells.end[host]
            _, n = _walk(x, since, host, limit, False, -1, o < 0, operations, hosts, met, mine)
            _take(low, high, cells, mine, compared)
            _add(cells.here[x], 1, mine)
            _add(cells.earlier[x], 1, mine)
        m = _weigh(k, n, low, high, o >= 0, waits, cells, compared, mine, weights)
        c = _next(their_low, their_high, theirs)
        while c < their_high:
            compared.less[cells.group[c]] = 0
            _clear(c, theirs)
            c = _next(c + 1, their_high, theirs)
        for kind in range(n_kinds + 1):
            is_own = kind == n_kinds
            total = waits.amount[k] if is_own else carried[kind, k]
            if total == 0:
                continue
            divide(total, weights.weight, 0, m, weights.share, weights.remainder, weights.spare)
            for i in range(m):
                if weights.target[i] >= 0 and n_kinds > 0:
                    carried[waits.kind[k] if is_own else kind, weights.target[i]] += weights.share[i]
                else:
                    charged[waits.kind[k] if is_own else n_kinds + kind, weights.cell[i]] += weights.share[i]
    _forget(low, high, cells, mine, compared)


@kernel
def walk_path(host, operation, time, operations, hosts, other, cause, high_of, stretches):
    """Follow the critical path from its end to the begin of the trace, over hosts and streams of all processes. Return
    the number of stretches.

    Parameters
    ----------
    host, operation, time : int
        Where it ends: on a line of a host (`HOST`), or in an operation.
    other : (n_exits,) int64
        The line on which the path continues at an exit that did not wait for an operation (`hosts.operation` is
        `HOST`).
    cause : (n,) int64
        The operation that an operation waits for; -1 none.
    high_of : (n_lines,) int64
        A copy of `hosts.exit_start` without the first element; overwritten.
    stretches : (5, room) int64
        To be filled, the last stretch first: line of the host, or the line that launches; operation or `HOST`; begin;
        end; and the exit after which a host continues, -1 none.
    """
    o, t, n = operation, time, 0
    while t > hosts.first and n < stretches.shape[1]:
        at, following, left = host, np.int64(NOTHING), np.int64(-1)
        if o < 0:
            low, high = hosts.exit_start[host], high_of[host]
            i = low - 1 if o == NOTHING else last_until(t, low, high, hosts.exit)
            since = hosts.first
            if i >= low:
                high_of[host] = left = i
                since, following = hosts.until[i], hosts.operation[i]
                if following == HOST:
                    host = other[i]
        elif operations.late[o] > operations.begin[o] and cause[o] >= 0 and t > operations.begin[o]:
            # continue at the begin of the operation that begins last
            since, following = operations.late[o], cause[o]
        else:
            since, following, host = operations.since[o], operations.before[o], operations.host[o]
        since = min(since, t)
        if since < t:
            stretches[0, n], stretches[1, n], stretches[2, n], stretches[3, n] = at, o, since, t
            stretches[4, n] = left
            n += 1
        t, o = since, following
    return n


@kernel
def spend_stretches(host, cell, begin, end, hosts, sums):
    """Add up stretches of the critical path by cell.

    Parameters
    ----------
    host, begin, end : (n,) int64
    cell : (n,) int64
        Cell of an operation; -1 for hosts.
    """
    for k in range(host.size):
        if cell[k] >= 0:
            _add(cell[k], end[k] - begin[k], sums)
        else:
            _add_host(host[k], begin[k], end[k], hosts, sums)


@kernel
def merge_threads(thread, time, is_enter, cell, stack_start, stack_time, stack_cell, depth, line_time, line_cell):
    """Merge the threads of a process into one line: at any time the most recently entered of all open regions. Return
    the number of entries of the line.

    Parameters
    ----------
    thread, time, cell : (n,) int64
        Of each ENTER and EXIT, in the order of time.
    is_enter : (n,) bool
    stack_start : (n_threads,) int64
        Where the stack of each thread begins in `stack_time` and `stack_cell`.
    depth : (n_threads,) int64
        Zero.
    line_time, line_cell : (n,) int64
        To be filled: time from which on the line is in a cell, and the cell; -1 none.
    """
    n = 0
    for k in range(thread.size):
        t = thread[k]
        if is_enter[k]:
            at = stack_start[t] + depth[t]
            stack_time[at], stack_cell[at] = time[k], cell[k]
            depth[t] += 1
        elif depth[t] > 0:
            depth[t] -= 1
        now, latest = np.int64(-1), np.int64(-1)
        is_open = False
        for other in range(depth.size):
            if depth[other] > 0:
                at = stack_start[other] + depth[other] - 1
                if not is_open or stack_time[at] > latest or (stack_time[at] == latest and other == t):
                    now, latest, is_open = stack_cell[at], stack_time[at], True
        if n > 0 and line_time[n - 1] == time[k]:
            n -= 1
        if n > 0 and line_cell[n - 1] == now:
            continue
        line_time[n], line_cell[n] = time[k], now
        n += 1
    return n
