"""Chains of activity in processes with devices: back along the latest predecessors of operations on streams, and of
calls that wait for them, across hosts and streams.

All times are ticks. Nothing is allocated: the results of walks go to buffers; if one is full, the walk that did not fit
has to be repeated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.causes import divide
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.ordered import first_after

LATEST = int(np.iinfo(np.int64).max)
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
    """(n,) int64: by group, ascending: processes of the trace."""


class Hosts(NamedTuple):
    """Activity of some hosts as lines, one of a process or of each of its threads; and their waits for operations."""

    start: Ints
    """(n_lines + 1,) int64: first entry of each line."""
    time: Ints
    cell: Ints
    """`time` and `cell`: (n,) int64, time from which on the host is in a call path, and the cell of this."""
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
    """Sums by cell of one walk, and buffers for those of all walks."""

    sum: Ints
    met: Ints
    """`sum` and `met`: (n_cells,) int64, sums, zero between walks; the cells whose sum is not zero."""
    cell: NDArray[np.int32]
    ticks: Ints
    """`cell` and `ticks`: (room,) int32, int64, ticks that all walks have spent by cell, one walk after the other."""
    operation: Ints
    waited: Ints
    """`operation` and `waited`: (room,) int64, operations in which they have waited for other ranks, and for how
    long."""


class Walked(NamedTuple):
    """Where the walks of a run end: `n_cells`, `n_waits`, (n,) int64, one past the last entries of each; `held`, the
    operation that a chain ends at, -1 none."""

    n_cells: Ints
    n_waits: Ints
    held: Ints


@part
def _add(cell, ticks, n, sums):
    """Add ticks to a cell; return the number of cells met."""
    if ticks <= 0:
        return n
    if sums.sum[cell] == 0:
        sums.met[n] = cell
        n += 1
    sums.sum[cell] += ticks
    return n


@part
def _last_until(values, low, high, value):
    """Return the last position of `low <= i < high` with values[i] <= value; low - 1 if there is none."""
    return first_after(value, low, high, values) - 1


@part
def _last_exit(host, t, high, before, hosts):
    """Return the last exit of a line until a time: before position `high` or, if that is -1 since the last exit was on
    another line, earlier than that exit (`before`). So walks end even if clocks disagree."""
    if high >= 0:
        return _last_until(hosts.exit, hosts.exit_start[host], high, t)
    return _last_until(hosts.exit, hosts.exit_start[host], hosts.exit_start[host + 1], min(t, before - 1))


@part
def _add_host(host, begin, end, n, hosts, sums):
    """Add the activity of a host from one time to another."""
    if end <= begin:
        return n
    low, high = hosts.start[host], hosts.start[host + 1]
    i = _last_until(hosts.time, low, high, end - 1)
    while i >= low and end > begin:
        since = max(hosts.time[i], begin)
        n = _add(hosts.cell[i], end - since, n, sums)
        end = since
        i -= 1
    return _add(hosts.root[host], end - begin, n, sums)


@part
def _flush(n, at, sums):
    """Move the sums of a walk to the buffers of all walks; return where they end, -1 if they do not fit."""
    fits = at + n <= sums.cell.size
    for k in range(n):
        cell = sums.met[k]
        if fits:
            sums.cell[at + k] = cell
            sums.ticks[at + k] = sums.sum[cell]
        sums.sum[cell] = 0
    return at + n if fits else -1


@part
def _add_operation(o, begin, end, n, m, operations, sums):
    """Add the time of an operation, its wait, and the latency before it, from one time to another; return the numbers
    of cells and of waits, the latter -1 if there is no room for more."""
    since = max(operations.late[o], begin)
    if end > since:
        n = _add(operations.cell[o], end - since, n, sums)
        end = since
    since = max(operations.begin[o], begin)
    if end > since:
        if m >= sums.operation.size:
            return n, -1
        sums.operation[m], sums.waited[m] = o, end - since
        m += 1
        end = since
    return _add(operations.latency[o], end - begin, n, sums), m


@part
def _has_met(group, process, met):
    """Return whether a process is in a group."""
    if group < 0:
        return False
    low, high = met.start[group], met.start[group + 1]
    at = _last_until(met.process, low, high, process)
    return at >= low and met.process[at] == process


@kernel
def walk_waiting(first, start, other, operations, hosts, met, sums, walked):
    """Follow the chains of operations that wait, from their predecessors back to the operation that delayed their
    process last.

    Until a chain reaches the host, kernels on the same stream that communicate are skipped: they have not delayed the
    host. It ends at the end of the first operation after that in which its process waited and met the process that is
    waited for.

    Parameters
    ----------
    first : int
        The first walk to do.
    start, other : (n,) int64
        Operations, and the process that each waits for.

    Returns
    -------
    int
        The first walk that is not done.
    """
    at = walked.n_cells[first - 1] if first else 0
    for k in range(first, start.size):
        o = start[k]
        host, is_free, n, held = operations.host[o], True, 0, -1
        t, o = operations.free_since[o], operations.free_before[o]
        # calls that have waited, the last first
        high, on, before = np.int64(-1), np.int64(-1), LATEST
        while True:
            if o < 0:
                low = hosts.exit_start[host]
                i = low - 1 if o == NOTHING else _last_exit(host, t, high if host == on else -1, before, hosts)
                since = hosts.until[i] if i >= low else hosts.first
                if o == NOTHING:
                    n = _add(hosts.root[host], t - since, n, sums)
                elif i < low:
                    n = _add_host(host, since, t, n, hosts, sums)
                else:
                    n = _add_host(host, hosts.exit[i], t, n, hosts, sums)
                    n = _add(hosts.latency[i], hosts.exit[i] - since, n, sums)
                if i < low:
                    break
                high, on, before = i, host, hosts.exit[i]
                o, t, is_free = hosts.operation[i], min(t, since), False
            if operations.late[o] > operations.begin[o] and _has_met(operations.group[o], other[k], met):
                held = o
                break
            n, _ = _add_operation(o, min(operations.since[o], t), t, n, 0, operations, sums)
            t = min(operations.free_since[o] if is_free else operations.since[o], t)
            host = operations.host[o]
            o = operations.free_before[o] if is_free else operations.before[o]
        end = _flush(n, at, sums)
        if end < 0:
            return k
        at = end
        walked.n_cells[k], walked.held[k] = end, held
    return start.size


@kernel
def walk_causing(first, start, stop, operations, hosts, sums, walked):
    """Follow the chains of operations that others wait for, from their begin back to some times.

    Parameters
    ----------
    first : int
        The first walk to do.
    start, stop : (n,) int64
        Operations, and times at which to stop; before the first event of the trace: at the end of the chain.

    Returns
    -------
    int
        The first walk that is not done.
    """
    at, m = (walked.n_cells[first - 1], walked.n_waits[first - 1]) if first else (0, 0)
    for k in range(first, start.size):
        o, limit = start[k], stop[k]
        host = operations.host[o]
        since = max(operations.since[o], limit)
        n = _add(operations.latency[o], operations.begin[o] - since, 0, sums)
        t, o = since, operations.before[o]
        high, on, before = np.int64(-1), np.int64(-1), LATEST
        while t > limit:
            if o < 0:
                low = hosts.exit_start[host]
                i = low - 1 if o == NOTHING else _last_exit(host, t, high if host == on else -1, before, hosts)
                since = max(hosts.until[i] if i >= low else hosts.first, limit)
                if o == NOTHING:
                    n = _add(hosts.root[host], t - since, n, sums)
                elif i < low:
                    n = _add_host(host, since, t, n, hosts, sums)
                else:
                    leave = max(hosts.exit[i], limit)
                    n = _add_host(host, leave, t, n, hosts, sums)
                    n = _add(hosts.latency[i], leave - since, n, sums)
                if i < low:
                    break
                high, on, before = i, host, hosts.exit[i]
                o, t = hosts.operation[i], min(t, since)
                continue
            since = max(min(operations.since[o], t), limit)
            n, m = _add_operation(o, since, t, n, m, operations, sums)
            if m < 0:
                break
            t, host, o = since, operations.host[o], operations.before[o]
        end = _flush(n, at, sums)
        if end < 0 or m < 0:
            return k
        at = end
        walked.n_cells[k], walked.n_waits[k] = end, m
    return start.size


@kernel
def walk_waited_for(first, start, until, operations, sums, walked):
    """Follow the chains of operations that hosts wait for, from some times back until they reach a host.

    Parameters
    ----------
    first : int
        The first walk to do.
    start, until : (n,) int64
        Operations, and times to start from.

    Returns
    -------
    int
        The first walk that is not done.
    """
    at, m = (walked.n_cells[first - 1], walked.n_waits[first - 1]) if first else (0, 0)
    for k in range(first, start.size):
        o, t, n = start[k], until[k], 0
        while o >= 0:
            since = min(operations.since[o], t)
            n, m = _add_operation(o, since, t, n, m, operations, sums)
            if m < 0:
                break
            t, o = since, operations.before[o]
        end = _flush(n, at, sums)
        if end < 0 or m < 0:
            return k
        at = end
        walked.n_cells[k], walked.n_waits[k] = end, m
    return start.size


@kernel
def walk_path(host, operation, time, operations, hosts, other, cause, high_of, stretches):
    """Follow the critical path from its end to the begin of the trace, over hosts and streams of all processes.

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

    Returns
    -------
    int
        Number of stretches.
    """
    o, t, n = operation, time, 0
    while t > hosts.first and n < stretches.shape[1]:
        at, following, left = host, np.int64(NOTHING), np.int64(-1)
        if o < 0:
            low, high = hosts.exit_start[host], high_of[host]
            i = low - 1 if o == NOTHING else _last_until(hosts.exit, low, high, t)
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

    Returns
    -------
    int
        Number of cells in `sums.met`.
    """
    n = 0
    for k in range(host.size):
        if cell[k] >= 0:
            n = _add(cell[k], end[k] - begin[k], n, sums)
        else:
            n = _add_host(host[k], begin[k], end[k], n, hosts, sums)
    return n


@kernel
def merge_threads(thread, time, is_enter, cell, stack_start, stack_time, stack_cell, depth, line_time, line_cell):
    """Merge the threads of a process into one line: at any time the most recently entered of all open regions.

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

    Returns
    -------
    int
        How many there are.
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


@kernel
def sweep_waits(start, amount, of, first, n, weight, target, short, passed, carried, share, remainder, spare):
    """Divide the costs of some waits among their causes, from the last wait to the first: shares that earlier waits
    have caused are passed on to these.

    Parameters
    ----------
    start : int
        The first of these waits.
    amount, of : (n_waits,) int64
        Cost and kind of each wait, ordered by the time of its cause.
    first, n : (n_swept,) int64
        First weight of each of these waits, and number of weights, at least one.
    weight : (n_weights,) int64
    target : (n_weights,) int64
        The wait, earlier than its own, that the share of a weight is passed on to; -1 if it is charged.
    short : (n_weights,) int64
        To be filled: amount charged for the wait itself.
    passed : (n_kinds, n_weights) int64
        To be filled: amounts charged for later waits, by their kind.
    carried : (n_kinds, n_waits) int64
        Amounts that later waits pass on to each wait, by their kind; added to.
    share, remainder, spare : (largest n,) int64
        Scratch.
    """
    n_kinds = carried.shape[0]
    for row in range(first.size - 1, -1, -1):
        k = start + row
        for kind in range(n_kinds + 1):
            is_own = kind == n_kinds
            total = amount[k] if is_own else carried[kind, k]
            if total == 0:
                continue
            divide(total, weight, first[row], n[row], share, remainder, spare)
            for i in range(n[row]):
                at = first[row] + i
                if share[i] == 0:
                    continue
                if target[at] >= 0:
                    carried[of[k] if is_own else kind, target[at]] += share[i]
                elif is_own:
                    short[at] = share[i]
                else:
                    passed[kind, at] += share[i]
