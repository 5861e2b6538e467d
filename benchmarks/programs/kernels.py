# mypy: ignore-errors
"""Run scripts in two passes: the first simulates all processes to find the times, the second records each location.

Both use the same script and the same random numbers, which are a hash of (seed, location, turn, step). Waiting times,
which depend on other locations, are logged by the first pass: one number per blocking step.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from tracecols.kernels.kernel import kernel, part

# fmt: off
# the columns of a script
(
    CODE, REGION, CHANNEL, PEER, COMM, TAG, LENGTH, MODE, FIRST, COUNT, SCALE, OP, ROOT, RECEIVED, REQUEST, TARGET,
    COUNTED,
) = range(17)
N_COLUMNS = 17

# its steps
(
    PROGRAM_BEGIN, PROGRAM_END, ENTER, EXIT, COMPUTE, SEND, RECV, ISEND, IRECV, WAIT, COLLECTIVE, MANAGEMENT, PARALLEL,
    RECV_ANY, REPLY, RECV_TASK, JUMP,
) = range(17)

# modes: of messages, collective operations, management calls, locks
EAGER, RENDEZVOUS = 0, 1
N_TO_N, BARRIER, ONE_TO_N, N_TO_ONE = 0, 1, 2, 3
PLAIN, INIT, FINALIZE = 0, 1, 2
NO_LOCK, CRITICAL, LOCK_API = 0, 1, 2

# columns of the requests that a WAIT completes
(R_CHANNEL, R_IS_SEND, R_ORDINAL, R_PEER, R_COMM, R_TAG, R_LENGTH, R_REQUEST) = range(8)

# regions of a parallel region follow each other
FOR, FOR_BARRIER, PARALLEL_BARRIER, CRITICAL_REGION, CRITICAL_BLOCK = 1, 2, 3, 4, 5

PROPERTIES = (
    "mpi_latesender", "mpi_latesender_wo", "mpi_latereceiver", "mpi_barrier_wait", "mpi_barrier_completion",
    "mpi_wait_nxn", "mpi_nxn_completion", "mpi_latebroadcast", "mpi_earlyreduce", "mpi_init_completion",
    "mpi_finalize_wait", "omp_ibarrier_wait", "omp_lock_contention_critical", "omp_lock_contention_api", "omp_fork",
    "omp_management", "bytes_sent", "bytes_rcvd", "bytes_cout", "bytes_cin",
)
(
    LATE_SENDER, WRONG_ORDER, LATE_RECEIVER, BARRIER_WAIT, BARRIER_COMPLETION, NXN_WAIT, NXN_COMPLETION, LATE_BROADCAST,
    EARLY_REDUCE, INIT_COMPLETION, FINALIZE_WAIT, IMPLICIT_BARRIER, CONTENTION_CRITICAL, CONTENTION_API, FORK, MANAGEMENT_TIME,
    BYTES_SENT, BYTES_RECEIVED, BYTES_OUT, BYTES_IN,
) = range(8, 28)

START = 1_000_000
"""Tick at which the recording begins."""
LATENCY = 1_200
STEP = 12
COLLECTIVE_COST = 900
MIDDLE = 1 << 32
"""Distance of the numbers of random draws within one step."""

# outcomes of the first pass
DONE, DEADLOCK, RING_FULL, LOG_FULL, TOO_LONG, STACK_FULL = range(6)

STATUS, WHO, N_MESSAGES, END, N_READY = range(5)
(
    PC, TURN, STAGE, CLOCK, BLOCKED, ON, SOURCE, SP, CALL, IS_READY, IS_DONE, BEGINNING, TEAM_START, TEAM_AT, TEAM_END, RECORDS,
) = range(16)
N_RECORDS = 64
"""Number of recent WAITs of a process, for which a longer Late Receiver may still be found."""
AS_SENDER, AS_RECEIVER, IN_OPERATION, FROM_ANY = 1, 2, 3, 4
C_SENDER, C_RECEIVER, SENT, POSTED, TAKEN, DONE_WITH = range(6)
S_ENTER, S_TIME, S_ARRIVAL, S_LENGTH, S_TAG, S_MODE, S_POST, S_DONE_ENTER, S_DONE_EXIT, S_RECORD = range(10)
ALONE, NEVER = -1, -2
LOG_START, LOG_AT, LOG_END, N_EVENTS, FIRST_STEP, SPAN, SPAN_16, N_SPANS, SEVERITIES = range(9)
# a span is the time from the first to the last ENTER or EXIT: of the program, or of a worker in each parallel region
# fmt: on


class Plan(NamedTuple):
    """The input of both passes; every ENTER and EXIT counts as `weight` events: two if counters are recorded with
    them."""

    seed: int
    n_turns: int
    n_threads: int
    weight: int
    ring: int  # messages on a channel that may be under way at the same time; a power of two
    generations: int  # operations on a communicator that may be under way at the same time; a power of two
    script: Any  # (n_steps, N_COLUMNS)
    spans: Any  # (n_processes, 5): steps of each: first, first of the body, after the body, after the last; number of its requests in a turn
    requests: Any  # (n, 8)
    comm_start: Any  # (n_comms + 1,)
    comm_members: Any  # processes of every communicator
    quantiles: Any  # (4096,) of the distribution of durations; their mean is 1024
    tree_start: Any  # (n_trees + 1,)
    tree: Any  # (3, any): events of call trees: time in 1/65536 of the whole, kind, region


class Run(NamedTuple):
    """State and results of the first pass; all arrays are int64 unless another type is named."""

    top: Any  # (5,): outcome and process that caused it, messages, end of the recording, processes that can continue
    state: Any  # (n_processes, ...)
    ready: Any  # (n_processes,): those that can continue
    channels: Any  # (n_channels, 6): sending and receiving process; messages sent, posted, taken by the receiver, done with at the sender
    slots: Any  # (n_channels * ring, 10): messages under way
    stack: (
        Any  # (n_processes, any, 2): late senders that may still prove to be in wrong order: time of the send, waiting
    )
    operations: Any  # (n_comms * generations, 4): operation, members that have begun, latest begin, operation the root has begun
    meetings: Any  # (n_members * generations, 2): begin and end of each member
    generation_of: Any  # (n_members,): operations each member has begun
    locks: Any  # (n_processes, n_locks, 2): release and number of the last acquisition
    scratch: Any  # (n_threads, 2)
    places: Any  # (n_locations, ...): log, events, severities
    log: Any  # int32: waiting times of every location, at the positions in its row of `places`
    team_log: Any  # per process, for every parallel region: fork, turn and step, ends of barriers, join
    visits: Any  # (n_regions,)
    tree_uses: Any  # (n_trees,)


# output of the second pass: columns of events, and per family of attributes a matrix, (n_columns, any): row, kind,
# values; `n` are the numbers of events and of attributes, the position of the first event in the location, and the
# positions at which the script and the logs continue
Out = namedtuple("Out", "n time kind region p2p coll threads locks control metrics")


# -- random numbers ------------------------------------------------------------------------------------------------


@part
def draw(seed, location, turn, step):
    """Return 63 random bits of a step."""
    x = (
        np.uint64(seed)
        + np.uint64(location + 1) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(turn + 1) * np.uint64(0xD1B54A32D192ED03)
        + np.uint64(step + 1) * np.uint64(0x8CB92BA72F3D8DD7)
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.int64(x >> np.uint64(1))


@part
def gap(x):
    """Return the time before a step."""
    return 10 + (x & 31)


@part
def first_half(x):
    """Return the time from an ENTER to the event inside."""
    return 60 + ((x >> 5) & 127)


@part
def second_half(x):
    """Return the time from the event inside to the EXIT."""
    return 40 + ((x >> 12) & 63)


@part
def duration(quantiles, x, scale):
    """Return a random duration with mean `scale`."""
    return (scale * (quantiles[(x >> 18) & 4095] * 16 + ((x >> 36) & 15))) >> 14


@part
def tree_of(n_trees, x):
    """Return a random call tree; the number of call trees is a power of two."""
    return (x >> 30) & (n_trees - 1)


@part
def team_begins(fork, t, y):
    """Return the time at which a thread begins in its team."""
    return fork + 40 + (t > 0) * (300 + ((y >> 20) & 1023))


@part
def lock_is_held(quantiles, z, scale):
    """Return the time for which a thread holds a lock."""
    return 80 + duration(quantiles, z, scale >> 4)


# -- the first pass ------------------------------------------------------------------------------------------------


@part
def make_ready(run, p):
    """Mark a process as ready to run."""
    run.state[p, BLOCKED] = 0
    if run.state[p, IS_READY] == 0:
        run.state[p, IS_READY] = 1
        run.ready[run.top[N_READY]] = p
        run.top[N_READY] += 1


@part
def wake(run, channel, side):
    """Wake the process at one side of a channel if it waits there."""
    p = run.channels[channel, side - 1]
    if run.state[p, BLOCKED] == side and run.state[p, ON] == channel:
        make_ready(run, p)


@part
def block(run, p, why, on):
    """Block a process."""
    run.state[p, BLOCKED], run.state[p, ON] = why, on


@part
def note(run, location, value):
    """Log a number of a location."""
    at = run.places[location, LOG_AT]
    if at >= run.places[location, LOG_END]:
        run.top[STATUS] = LOG_FULL
        return
    if value > 0x7FFFFFF0 or value < -0x7FFFFFF0:
        run.top[STATUS] = TOO_LONG
    run.log[at] = value
    run.places[location, LOG_AT] = at + 1


@part
def settle(plan, run, channel, s):
    """Charge a send that preceded its receive, once both sides are known."""
    post, enter, record = run.slots[s, S_POST], run.slots[s, S_DONE_ENTER], run.slots[s, S_RECORD]
    if run.slots[s, S_DONE_EXIT] > post and post > enter and record != NEVER:
        wait, p = post - enter, run.channels[channel, C_SENDER]
        if record == ALONE:
            run.places[p * plan.n_threads, LATE_RECEIVER] += wait
        elif wait > run.state[p, record]:
            run.places[p * plan.n_threads, LATE_RECEIVER] += wait - run.state[p, record]
            run.state[p, record] = wait


@part
def transferred(run, s, since):
    """Return the time at which a message that waits for its receive arrives."""
    return max(run.slots[s, S_TIME], since) + LATENCY + (run.slots[s, S_LENGTH] >> 2)


@part
def start_send(plan, run, channel, enter, length, tag, mode, x):
    """Send a message; return its slot."""
    k = run.channels[channel, SENT]
    if k - min(run.channels[channel, TAKEN], run.channels[channel, DONE_WITH]) >= plan.ring:
        run.top[STATUS] = RING_FULL
    s = channel * plan.ring + (k & (plan.ring - 1))
    time = enter + first_half(x)
    run.slots[s, S_ENTER], run.slots[s, S_TIME], run.slots[s, S_DONE_EXIT] = enter, time, -1
    run.slots[s, S_LENGTH], run.slots[s, S_TAG], run.slots[s, S_MODE] = length, tag, mode
    if mode == EAGER:
        run.slots[s, S_ARRIVAL] = time + LATENCY + (length >> 2) + ((x >> 42) & 511)
    elif run.channels[channel, POSTED] > k:
        run.slots[s, S_ARRIVAL] = transferred(run, s, run.slots[s, S_POST])
    else:
        run.slots[s, S_ARRIVAL] = -1
    run.channels[channel, SENT] = k + 1
    run.top[N_MESSAGES] += 1
    wake(run, channel, AS_RECEIVER)
    return s


@part
def finish_send(plan, run, channel, s, enter, leave, record):
    """Complete a send at the sender's side."""
    run.slots[s, S_DONE_ENTER], run.slots[s, S_DONE_EXIT], run.slots[s, S_RECORD] = enter, leave, record
    k = run.channels[channel, DONE_WITH]
    run.channels[channel, DONE_WITH] = k + 1
    if run.channels[channel, POSTED] > k:
        settle(plan, run, channel, s)


@part
def post(plan, run, channel, enter):
    """Post a receive."""
    k = run.channels[channel, POSTED]
    s = channel * plan.ring + (k & (plan.ring - 1))
    run.channels[channel, POSTED] = k + 1
    run.slots[s, S_POST] = enter
    if run.channels[channel, SENT] > k:
        if run.slots[s, S_ARRIVAL] < 0:
            run.slots[s, S_ARRIVAL] = transferred(run, s, enter)
            wake(run, channel, AS_SENDER)
        settle(plan, run, channel, s)


@part
def overtake(run, p, time, location):
    """Charge earlier Late Senders as received in wrong order: the message just received was sent before theirs."""
    sp = run.state[p, SP]
    while sp > 0 and run.stack[p, sp - 1, 0] > time:
        run.places[location, WRONG_ORDER] += run.stack[p, sp - 1, 1]
        sp -= 1
    run.state[p, SP] = sp


@part
def was_late(run, p, time, wait, location):
    """Charge a Late Sender."""
    run.places[location, LATE_SENDER] += wait
    sp = run.state[p, SP]
    if sp >= run.stack.shape[1]:
        run.top[STATUS] = STACK_FULL
        return
    run.stack[p, sp, 0], run.stack[p, sp, 1] = time, wait
    run.state[p, SP] = sp + 1


@part
def wait_for_requests(plan, run, p, first, n, x):
    """Complete requests and return the time if all can be completed; else block the process and return -1."""
    enter = run.state[p, CLOCK] + gap(x)
    for i in range(first + run.state[p, STAGE], first + n):
        channel = plan.requests[i, R_CHANNEL]
        if plan.requests[i, R_IS_SEND]:
            k = run.channels[channel, DONE_WITH] + plan.requests[i, R_ORDINAL]
            fits = run.slots[channel * plan.ring + (k & (plan.ring - 1)), S_ARRIVAL] >= 0
        else:
            fits = run.channels[channel, SENT] > run.channels[channel, TAKEN] + plan.requests[i, R_ORDINAL]
        if not fits:
            run.state[p, STAGE] = i - first
            block(run, p, AS_SENDER if plan.requests[i, R_IS_SEND] else AS_RECEIVER, channel)
            return np.int64(-1)
    location = p * plan.n_threads
    done = enter + first_half(x)
    late, late_time = np.int64(0), np.int64(0)
    for i in range(first, first + n):
        channel = plan.requests[i, R_CHANNEL]
        if plan.requests[i, R_IS_SEND]:
            k = run.channels[channel, DONE_WITH] + plan.requests[i, R_ORDINAL]
            s = channel * plan.ring + (k & (plan.ring - 1))
            if run.slots[s, S_MODE] == RENDEZVOUS:
                done = max(done, run.slots[s, S_ARRIVAL])
        else:
            k = run.channels[channel, TAKEN] + plan.requests[i, R_ORDINAL]
            s = channel * plan.ring + (k & (plan.ring - 1))
            done = max(done, run.slots[s, S_ARRIVAL])
            overtake(run, p, run.slots[s, S_TIME], location)
            run.places[location, BYTES_RECEIVED] += run.slots[s, S_LENGTH]
            if run.slots[s, S_ENTER] - enter > late:
                late, late_time = run.slots[s, S_ENTER] - enter, run.slots[s, S_TIME]
    leave = done + n * STEP + second_half(x)
    # the longest of several waits counts, and Late Receivers only if no sender was late
    record = np.int64(NEVER)
    if late > 0:
        was_late(run, p, late_time, late, location)
    else:
        record = RECORDS + run.state[p, CALL] % N_RECORDS
        run.state[p, CALL] += 1
        run.state[p, record] = 0
    for i in range(first, first + n):
        channel = plan.requests[i, R_CHANNEL]
        if plan.requests[i, R_IS_SEND]:
            s = channel * plan.ring + (run.channels[channel, DONE_WITH] & (plan.ring - 1))
            finish_send(plan, run, channel, s, enter, leave, record)
        else:
            run.channels[channel, TAKEN] += 1
    note(run, location, done - enter)
    return leave


@part
def wake_members(plan, run, comm):
    """Wake all processes that wait in an operation on a communicator."""
    for i in range(plan.comm_start[comm], plan.comm_start[comm + 1]):
        q = plan.comm_members[i]
        if run.state[q, BLOCKED] == IN_OPERATION and run.state[q, ON] == comm:
            make_ready(run, q)


@part
def everybody_is_there(plan, run, comm, generation, base, latest, n_bytes, is_management, mode):
    """End an operation in which all processes wait for the last one."""
    start = plan.comm_start[comm]
    size = plan.comm_start[comm + 1] - start
    earliest_end = np.int64(1) << 62
    for m in range(size):
        x = draw(plan.seed, (1 << 40) + comm, generation, m)
        run.meetings[base + m, 1] = latest + COLLECTIVE_COST + (n_bytes >> 3) + (x & 255)
        earliest_end = min(earliest_end, run.meetings[base + m, 1])
    waiting = completing = -1
    if is_management:
        if mode == INIT:
            completing = INIT_COMPLETION
        elif mode == FINALIZE:
            waiting = FINALIZE_WAIT
    elif size > 1:
        waiting = BARRIER_WAIT if mode == BARRIER else NXN_WAIT
        completing = BARRIER_COMPLETION if mode == BARRIER else NXN_COMPLETION
    for m in range(size):
        location = plan.comm_members[start + m] * plan.n_threads
        if waiting >= 0:
            run.places[location, waiting] += latest - run.meetings[base + m, 0]
        if completing >= 0:
            run.places[location, completing] += run.meetings[base + m, 1] - max(earliest_end, latest)


@part
def operate(plan, run, p, pc, x):
    """Take part in a collective operation; return the time at which it ends, -1 if that is not known yet."""
    script = plan.script
    comm, m, mode, root = script[pc, CHANNEL], script[pc, PEER], script[pc, MODE], script[pc, ROOT]
    start = plan.comm_start[comm]
    size = plan.comm_start[comm + 1] - start
    enter = run.state[p, CLOCK] + gap(x)
    is_management = script[pc, CODE] == MANAGEMENT
    together = is_management or mode == N_TO_N or mode == BARRIER
    generation = run.generation_of[start + m] - (1 if run.state[p, STAGE] else 0)
    at = comm * plan.generations + (generation & (plan.generations - 1))
    base = start * plan.generations + (generation & (plan.generations - 1)) * size
    if run.state[p, STAGE] == 0:
        run.generation_of[start + m] = generation + 1
        if run.operations[at, 0] != generation:
            if run.operations[at, 0] >= 0 and run.operations[at, 1] < size:
                run.top[STATUS] = RING_FULL
            run.operations[at, 0], run.operations[at, 1], run.operations[at, 2] = generation, 0, -1
        run.operations[at, 1] += 1
        run.operations[at, 2] = max(run.operations[at, 2], enter)
        run.meetings[base + m, 0] = enter
        run.state[p, STAGE] = 1
        is_last = run.operations[at, 1] == size
        if together and is_last:
            everybody_is_there(
                plan, run, comm, generation, base, run.operations[at, 2], script[pc, LENGTH], is_management, mode
            )
        if m == root:
            run.operations[at, 3] = generation
        if (is_last and (together or mode == N_TO_ONE)) or (m == root and mode == ONE_TO_N):
            wake_members(plan, run, comm)
    cost = COLLECTIVE_COST + (script[pc, LENGTH] >> 3) + ((x >> 42) & 255)
    if together:
        if run.operations[at, 1] == size:
            return run.meetings[base + m, 1]
    elif m == root:
        if mode == ONE_TO_N:
            return enter + cost
        if run.operations[at, 1] == size:
            if size > 1:
                run.places[p * plan.n_threads, EARLY_REDUCE] += run.operations[at, 2] - enter
            return run.operations[at, 2] + cost
    elif mode == N_TO_ONE:
        return enter + cost
    elif run.operations[at, 3] == generation:
        begun = run.meetings[base + root, 0]
        run.places[p * plan.n_threads, LATE_BROADCAST] += max(begun - enter, 0)
        return max(begun, enter) + cost
    block(run, p, IN_OPERATION, comm)
    return np.int64(-1)


@part
def add_span(run, location, end):
    """Add the time since the first ENTER, as counters do."""
    start = run.places[location, FIRST_STEP] - START
    run.places[location, SPAN] += end - START - start
    run.places[location, SPAN_16] += ((end - START) >> 4) - (start >> 4)
    run.places[location, N_SPANS] += 1


@part
def run_team(plan, run, p, pc, turn, fork):
    """Run a parallel region; return the time of the join."""
    script = plan.script
    base, n_loops, scale, mode = script[pc, REGION], script[pc, COUNT], script[pc, SCALE], script[pc, MODE]
    mine = p * plan.n_threads
    at = run.state[p, TEAM_AT]
    if at + n_loops + 4 > run.state[p, TEAM_END]:
        run.top[STATUS] = LOG_FULL
        return fork
    run.state[p, TEAM_AT] = at + n_loops + 4
    run.team_log[at], run.team_log[at + 1] = fork, (turn << 24) | pc
    at += 2
    for t in range(plan.n_threads):
        enter = team_begins(fork, t, draw(plan.seed, mine + t, turn, pc)) + 20
        run.scratch[t, 0] = enter
        run.places[mine + t, FORK] += enter - fork
        run.places[mine + t, MANAGEMENT_TIME] += enter - fork
        if t:
            run.places[mine + t, FIRST_STEP] = enter
        run.places[mine + t, N_EVENTS] += 2 + plan.weight * (4 + 6 * n_loops) + 2 * (t == 0)
    run.visits[base] += plan.n_threads
    run.visits[base + PARALLEL_BARRIER] += plan.n_threads
    n_trees = plan.tree_start.size - 1
    for i in range(n_loops):
        latest = np.int64(0)
        for t in range(plan.n_threads):
            z = draw(plan.seed, mine + t, turn, pc + (i + 1) * MIDDLE)
            tree = tree_of(n_trees, z)
            run.tree_uses[tree] += 1
            run.places[mine + t, N_EVENTS] += plan.weight * (plan.tree_start[tree + 1] - plan.tree_start[tree])
            arrives = run.scratch[t, 0] + gap(z) + 10 + duration(plan.quantiles, z, scale) + 15
            run.scratch[t, 0] = arrives
            latest = max(latest, arrives)
        ends = latest + 25
        run.team_log[at] = ends
        at += 1
        for t in range(plan.n_threads):
            z = draw(plan.seed, mine + t, turn, pc + (i + 1) * MIDDLE)
            run.places[mine + t, IMPLICIT_BARRIER] += latest - run.scratch[t, 0]
            run.scratch[t, 0] = ends + ((z >> 50) & 63) + 10
    run.visits[base + FOR] += plan.n_threads * n_loops
    run.visits[base + FOR_BARRIER] += plan.n_threads * n_loops
    run.visits[script[pc, OP]] += plan.n_threads * n_loops
    if mode != NO_LOCK:
        for t in range(plan.n_threads):
            run.scratch[t, 0] += gap(draw(plan.seed, mine + t, turn, pc + 64 * MIDDLE))
            # threads in order of arrival
            k = t
            while k > 0 and run.scratch[run.scratch[k - 1, 1], 0] > run.scratch[t, 0]:
                run.scratch[k, 1] = run.scratch[k - 1, 1]
                k -= 1
            run.scratch[k, 1] = t
        lock = script[pc, CHANNEL]
        contention = CONTENTION_CRITICAL if mode == CRITICAL else CONTENTION_API
        released, number = run.locks[p, lock, 0], run.locks[p, lock, 1]
        for k in range(plan.n_threads):
            t = run.scratch[k, 1]
            arrives = run.scratch[t, 0]
            acquired = max(arrives + 25, released + 35)
            number += 1
            if number > 1 and released > arrives:
                run.places[mine + t, contention] += released - arrives
            note(run, mine + t, acquired - arrives)
            note(run, mine + t, number)
            released = acquired + lock_is_held(plan.quantiles, draw(plan.seed, mine + t, turn, pc + 64 * MIDDLE), scale)
            run.scratch[t, 0] = released + 12
            run.places[mine + t, N_EVENTS] += 2 + 4 * plan.weight
        run.locks[p, lock, 0], run.locks[p, lock, 1] = released, number
        run.visits[base + CRITICAL_REGION if mode == CRITICAL else script[pc, TAG]] += plan.n_threads
        run.visits[base + CRITICAL_BLOCK if mode == CRITICAL else script[pc, PEER]] += plan.n_threads
    latest = np.int64(0)
    for t in range(plan.n_threads):
        run.scratch[t, 0] += 12
        latest = max(latest, run.scratch[t, 0])
    ends = latest + 25
    run.team_log[at] = ends
    join = np.int64(0)
    for t in range(plan.n_threads):
        run.places[mine + t, IMPLICIT_BARRIER] += latest - run.scratch[t, 0]
        run.scratch[t, 0] = ends + ((draw(plan.seed, mine + t, turn, pc) >> 50) & 63) + 10
        join = max(join, run.scratch[t, 0] + 10 + 50)
        if t:
            add_span(run, mine + t, run.scratch[t, 0])
    for t in range(plan.n_threads):
        run.places[mine + t, MANAGEMENT_TIME] += join - run.scratch[t, 0]
    run.team_log[at + 1] = join
    return join


@kernel
def simulate(plan, run):
    """Run all processes to their ends."""
    script = plan.script
    n = plan.spans.shape[0]
    n_trees = plan.tree_start.size - 1
    for p in range(n - 1, -1, -1):
        run.state[p, PC] = plan.spans[p, 0]
        run.state[p, BEGINNING] = START + (draw(plan.seed, p * plan.n_threads, -1, -1) & 0x3FFF)
        run.state[p, CLOCK] = run.state[p, BEGINNING]
        make_ready(run, p)
    p, runs = np.int64(0), False
    while run.top[STATUS] == DONE:
        if not runs:
            if run.top[N_READY] == 0:
                # the first message to arrive is known once all others wait
                for q in range(n):
                    if run.state[q, BLOCKED] == FROM_ANY:
                        make_ready(run, q)
                        break
                else:
                    break
            run.top[N_READY] -= 1
            p, runs = run.ready[run.top[N_READY]], True
            run.state[p, IS_READY] = 0
            run.top[WHO] = p
        pc, turn, clock = run.state[p, PC], run.state[p, TURN], run.state[p, CLOCK]
        if pc == plan.spans[p, 2] and run.state[p, STAGE] == 0 and turn + 1 < plan.n_turns:
            turn, pc = turn + 1, plan.spans[p, 1]
            run.state[p, TURN], run.state[p, PC] = turn, pc
        if pc == plan.spans[p, 3]:
            run.state[p, IS_DONE] = 1
            run.top[END] = max(run.top[END], clock)
            runs = False
            continue
        code = script[pc, CODE]
        location = p * plan.n_threads
        x = draw(plan.seed, location, turn, pc)
        enter = clock + gap(x)
        following = pc + 1
        n_events = 1 + 2 * plan.weight
        leave = np.int64(-1)
        if code == COMPUTE:
            tree = tree_of(n_trees, x)
            run.tree_uses[tree] += 1
            n_events = plan.weight * (2 + plan.tree_start[tree + 1] - plan.tree_start[tree])
            leave = enter + duration(plan.quantiles, x, script[pc, SCALE])
        elif code == SEND or code == REPLY or code == ISEND:
            channel, mode, length = script[pc, CHANNEL], script[pc, MODE], script[pc, LENGTH]
            if code == REPLY:
                channel = plan.requests[script[pc, FIRST] + run.state[p, SOURCE], R_CHANNEL]
            if run.state[p, STAGE] == 0:
                s = start_send(plan, run, channel, enter, length, script[pc, TAG], mode, x)
                run.places[location, BYTES_SENT] += length
            else:
                s = channel * plan.ring + ((run.channels[channel, SENT] - 1) & (plan.ring - 1))
            if code == ISEND:
                leave = enter + first_half(x) + second_half(x)
            elif mode == EAGER:
                leave = enter + first_half(x) + second_half(x) + (length >> 3)
            elif run.slots[s, S_ARRIVAL] >= 0:
                leave = run.slots[s, S_ARRIVAL] + second_half(x)
                note(run, location, leave - enter)
            else:
                run.state[p, STAGE] = 1
                block(run, p, AS_SENDER, channel)
            if code != ISEND and leave >= 0:
                finish_send(plan, run, channel, s, enter, leave, ALONE)
        elif code == RECV or code == RECV_TASK or code == RECV_ANY or code == IRECV:
            channel = script[pc, CHANNEL]
            if code == RECV_ANY:
                channel = np.int64(-1)
                if run.state[p, STAGE]:
                    best = np.int64(1) << 62
                    for i in range(script[pc, COUNT]):
                        c = plan.requests[script[pc, FIRST] + i, R_CHANNEL]
                        k = run.channels[c, TAKEN]
                        arrival = run.slots[c * plan.ring + (k & (plan.ring - 1)), S_ARRIVAL]
                        if run.channels[c, SENT] > k and arrival < best:
                            best, channel, run.state[p, SOURCE] = arrival, c, i
                    if channel < 0:
                        run.top[STATUS] = DEADLOCK
                        break
            if channel >= 0 and (run.state[p, STAGE] == 0 or code == RECV_ANY):
                post(plan, run, channel, enter)
            if code == IRECV:
                leave = enter + first_half(x) + second_half(x)
            elif channel < 0:
                run.state[p, STAGE] = 1
                block(run, p, FROM_ANY, 0)
            elif run.channels[channel, SENT] <= run.channels[channel, TAKEN]:
                run.state[p, STAGE] = 1
                block(run, p, AS_RECEIVER, channel)
            else:
                k = run.channels[channel, TAKEN]
                s = channel * plan.ring + (k & (plan.ring - 1))
                done = max(enter + first_half(x), run.slots[s, S_ARRIVAL])
                overtake(run, p, run.slots[s, S_TIME], location)
                if run.slots[s, S_ENTER] > enter:
                    was_late(run, p, run.slots[s, S_TIME], run.slots[s, S_ENTER] - enter, location)
                run.places[location, BYTES_RECEIVED] += run.slots[s, S_LENGTH]
                run.channels[channel, TAKEN] = k + 1
                value = done - enter
                if code == RECV_TASK and run.slots[s, S_TAG] != script[pc, TAG]:
                    following = script[pc, TARGET]
                    value = ~value
                note(run, location, value)
                if code == RECV_ANY:
                    note(run, location, run.state[p, SOURCE])
                leave = done + second_half(x)
        elif code == WAIT:
            n_events = script[pc, COUNT] + 2 * plan.weight
            leave = wait_for_requests(plan, run, p, script[pc, FIRST], script[pc, COUNT], x)
        elif code == COLLECTIVE or code == MANAGEMENT:
            end = operate(plan, run, p, pc, x)
            if end >= 0:
                note(run, location, end - enter)
                leave, n_events = end, 2 * plan.weight
                if code == COLLECTIVE:
                    leave, n_events = end + second_half(x), 2 + 2 * plan.weight
                    run.places[location, BYTES_OUT] += script[pc, LENGTH]
                    run.places[location, BYTES_IN] += script[pc, RECEIVED]
                if script[pc, TARGET]:
                    # all messages sent from now on are later than those received so far
                    run.state[p, SP] = 0
        elif code == PARALLEL:
            n_events = 0
            leave = run_team(plan, run, p, pc, turn, enter)
        elif code == JUMP:
            following = script[pc, TARGET]
            leave, n_events = clock, 0
        else:
            leave, n_events = enter, 1
            if code == ENTER or code == EXIT:
                n_events = plan.weight
                if run.places[location, FIRST_STEP] < 0:
                    run.places[location, FIRST_STEP] = enter
                if pc >= plan.spans[p, 2] and code == EXIT:
                    add_span(run, location, enter)
        if leave < 0:
            runs = False
            continue
        if script[pc, COUNTED]:
            run.visits[script[pc, REGION]] += 1
        run.places[location, N_EVENTS] += n_events
        run.state[p, CLOCK], run.state[p, PC], run.state[p, STAGE] = leave, following, 0
    if run.top[STATUS] == DONE:
        for p in range(n):
            if run.state[p, IS_DONE] == 0:
                run.top[STATUS] = DEADLOCK
                run.top[WHO] = p


# -- the second pass -----------------------------------------------------------------------------------------------

# fmt: off
(
    K_ENTER, K_EXIT, K_SEND, K_ISEND, K_ISEND_COMPLETE, K_IRECV_REQUEST, K_RECV, K_IRECV, K_BEGIN, K_END, K_METRIC, K_FORK,
    K_JOIN, K_TEAM_BEGIN, K_TEAM_END, K_ACQUIRE, K_RELEASE, K_PROGRAM_BEGIN, K_PROGRAM_END,
) = (12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 31, 53, 54, 55, 56, 57, 58, 83, 84)
# fmt: on
OPENMP = 3

EVENTS, P2P, COLL, THREADS, LOCKS, CONTROL, METRICS = range(7)
(E_TURN, E_PC, E_CLOCK, E_LOG, E_TEAM, E_SOURCE, E_BASE, E_DONE) = range(7, 15)
N_OUT = 15


@part
def put(out, t, k, r):
    """Append an event; return its position in the location."""
    i = out.n[EVENTS]
    out.time[i], out.kind[i], out.region[i] = t, k, r
    out.n[EVENTS] = i + 1
    return out.n[E_BASE] + i


@part
def put_step(plan, out, t, k, r):
    """Append an ENTER or EXIT, preceded by counters if they are recorded."""
    if plan.weight == 2:
        m = out.n[METRICS]
        row = put(out, t, K_METRIC, -1)
        out.metrics[0, m], out.metrics[1, m], out.metrics[2, m] = row, 3 * (t - START) + row, (t - START) >> 4
        out.n[METRICS] = m + 1
    put(out, t, k, r)


@part
def put_with(out, columns, family, t, k, values):
    """Append an event with attributes: of a message, a collective operation, a team or a lock."""
    i = out.n[family]
    columns[0, i], columns[1, i] = put(out, t, k, -1), k
    for j in range(len(values)):
        columns[2 + j, i] = values[j]
    out.n[family] = i + 1


@part
def put_tree(plan, out, number, start, length):
    """Append a call tree."""
    for j in range(plan.tree_start[number], plan.tree_start[number + 1]):
        t = start + ((length * plan.tree[0, j]) >> 16)
        put_step(plan, out, t, plan.tree[1, j], plan.tree[2, j])


@part
def put_team(plan, run, out, location, t, at):
    """Append the events of a thread in a parallel region; return the time of the join."""
    script = plan.script
    fork, turn, pc = run.team_log[at], run.team_log[at + 1] >> 24, run.team_log[at + 1] & 0xFFFFFF
    base, n_loops, scale = script[pc, REGION], script[pc, COUNT], script[pc, SCALE]
    at += 2
    y = draw(plan.seed, location, turn, pc)
    if t == 0:
        put_with(out, out.threads, THREADS, fork, K_FORK, (-1, OPENMP, plan.n_threads))
    now = team_begins(fork, t, y)
    put_with(out, out.threads, THREADS, now, K_TEAM_BEGIN, (script[pc, COMM], -1, -1))
    now += 20
    put_step(plan, out, now, K_ENTER, base)
    for i in range(n_loops):
        z = draw(plan.seed, location, turn, pc + (i + 1) * MIDDLE)
        now += gap(z)
        put_step(plan, out, now, K_ENTER, base + FOR)
        now += 10
        put_step(plan, out, now, K_ENTER, script[pc, OP])
        length = duration(plan.quantiles, z, scale)
        put_tree(plan, out, tree_of(plan.tree_start.size - 1, z), now, length)
        now += length
        put_step(plan, out, now, K_EXIT, script[pc, OP])
        put_step(plan, out, now + 15, K_ENTER, base + FOR_BARRIER)
        now = run.team_log[at] + ((z >> 50) & 63)
        at += 1
        put_step(plan, out, now, K_EXIT, base + FOR_BARRIER)
        now += 10
        put_step(plan, out, now, K_EXIT, base + FOR)
    if script[pc, MODE] != NO_LOCK:
        z = draw(plan.seed, location, turn, pc + 64 * MIDDLE)
        now += gap(z)
        k = out.n[E_LOG]
        acquired, number = now + run.log[k], np.int64(run.log[k + 1])
        out.n[E_LOG] = k + 2
        released = acquired + lock_is_held(plan.quantiles, z, scale)
        # a region around the lock and a block in it; or a call that takes the lock and one that releases it
        first, second = script[pc, TAG], script[pc, PEER]
        inner_first, inner_second = K_EXIT, K_ENTER
        inner, other, outer = first, second, second
        if script[pc, MODE] == CRITICAL:
            first = base + CRITICAL_REGION
            inner_first, inner_second = K_ENTER, K_EXIT
            inner = other = base + CRITICAL_BLOCK
            outer = first
        put_step(plan, out, now, K_ENTER, first)
        put_with(out, out.locks, LOCKS, acquired, K_ACQUIRE, (script[pc, CHANNEL], number))
        put_step(plan, out, acquired + 9, inner_first, inner)
        put_step(plan, out, released - 8, inner_second, other)
        put_with(out, out.locks, LOCKS, released, K_RELEASE, (script[pc, CHANNEL], number))
        now = released + 12
        put_step(plan, out, now, K_EXIT, outer)
    put_step(plan, out, now + 12, K_ENTER, base + PARALLEL_BARRIER)
    now = run.team_log[at] + ((y >> 50) & 63)
    put_step(plan, out, now, K_EXIT, base + PARALLEL_BARRIER)
    now += 10
    put_step(plan, out, now, K_EXIT, base)
    put_with(out, out.threads, THREADS, now + 10, K_TEAM_END, (script[pc, COMM], -1, -1))
    join = run.team_log[at + 1]
    if t == 0:
        put_with(out, out.threads, THREADS, join, K_JOIN, (-1, OPENMP, -1))
    out.n[E_TEAM] = at + 2
    return join


@kernel
def record(plan, run, out, team_end, location, room):
    """Fill the columns with the next events of a location while there is room; see `simulate`.

    The process's part of `team_log` ends at `team_end`; one step makes `room` events at most.
    """
    script = plan.script
    p, number = location // plan.n_threads, location % plan.n_threads
    size = out.time.size - room
    if number:
        while out.n[EVENTS] <= size and out.n[E_TEAM] < team_end:
            put_team(plan, run, out, location, number, out.n[E_TEAM])
        out.n[E_DONE] = out.n[E_TEAM] >= team_end
        return
    turn, pc, clock = out.n[E_TURN], out.n[E_PC], out.n[E_CLOCK]
    while out.n[EVENTS] <= size:
        if pc == plan.spans[p, 2] and turn + 1 < plan.n_turns:
            turn, pc = turn + 1, plan.spans[p, 1]
        if pc == plan.spans[p, 3]:
            out.n[E_DONE] = 1
            break
        code, r = script[pc, CODE], script[pc, REGION]
        x = draw(plan.seed, location, turn, pc)
        enter = clock + gap(x)
        following = pc + 1
        at = out.n[E_LOG]
        if code == JUMP:
            pc = script[pc, TARGET]
            continue
        if code == PARALLEL:
            clock = put_team(plan, run, out, location, number, out.n[E_TEAM])
            pc = following
            continue
        if code == PROGRAM_BEGIN or code == PROGRAM_END:
            k = K_PROGRAM_BEGIN if code == PROGRAM_BEGIN else K_PROGRAM_END
            i = out.n[CONTROL]
            out.control[0, i] = put(out, enter, k, r)
            out.control[1, i] = k
            out.n[CONTROL] = i + 1
            clock, pc = enter, following
            continue
        if code != EXIT:
            put_step(plan, out, enter, K_ENTER, r)
            if code == ENTER:
                clock, pc = enter, following
                continue
        clock = enter
        message, when, communicator = -1, enter + first_half(x), script[pc, COMM]
        peer, tag, length, request = script[pc, PEER], script[pc, TAG], script[pc, LENGTH], np.int64(-1)
        if code == COMPUTE:
            clock = enter + duration(plan.quantiles, x, script[pc, SCALE])
            put_tree(plan, out, tree_of(plan.tree_start.size - 1, x), enter, clock - enter)
        elif code == SEND or code == REPLY:
            message = K_SEND
            if code == REPLY:
                peer = plan.requests[script[pc, FIRST] + out.n[E_SOURCE], R_PEER]
            if script[pc, MODE] == EAGER:
                clock = when + second_half(x) + (length >> 3)
            else:
                clock = enter + run.log[at]
                out.n[E_LOG] = at + 1
        elif code == RECV or code == RECV_TASK or code == RECV_ANY:
            message = K_RECV
            waited = np.int64(run.log[at])
            out.n[E_LOG] = at + 1
            if code == RECV_ANY:
                out.n[E_SOURCE] = run.log[at + 1]
                out.n[E_LOG] = at + 2
                peer = plan.requests[script[pc, FIRST] + out.n[E_SOURCE], R_PEER]
            elif waited < 0:
                waited, tag, length, following = ~waited, tag + 1, script[pc, RECEIVED], script[pc, TARGET]
            when = enter + waited
            clock = when + second_half(x)
        elif code == ISEND or code == IRECV:
            message = K_ISEND
            request = turn * plan.spans[p, 4] + script[pc, REQUEST]
            clock = when + second_half(x)
            if code == IRECV:
                message, peer, communicator, tag, length = K_IRECV_REQUEST, -1, -1, -1, -1
        elif code == WAIT:
            clock = enter + run.log[at]
            out.n[E_LOG] = at + 1
            for i in range(script[pc, FIRST], script[pc, FIRST] + script[pc, COUNT]):
                k, peer, communicator, tag, length = K_ISEND_COMPLETE, -1, -1, -1, -1
                if plan.requests[i, R_IS_SEND] == 0:
                    k, peer, communicator = K_IRECV, plan.requests[i, R_PEER], plan.requests[i, R_COMM]
                    tag, length = plan.requests[i, R_TAG], plan.requests[i, R_LENGTH]
                request = turn * plan.spans[p, 4] + plan.requests[i, R_REQUEST]
                put_with(out, out.p2p, P2P, clock, k, (peer, communicator, tag, length, request))
                clock += STEP
            clock += second_half(x)
        elif code == COLLECTIVE or code == MANAGEMENT:
            clock = enter + run.log[at]
            out.n[E_LOG] = at + 1
            if code == COLLECTIVE:
                put_with(out, out.coll, COLL, enter, K_BEGIN, (-1, -1, -1, -1, -1))
                ended = (script[pc, OP], communicator, script[pc, ROOT], length, script[pc, RECEIVED])
                put_with(out, out.coll, COLL, clock, K_END, ended)
                clock += second_half(x)
        if message >= 0:
            put_with(out, out.p2p, P2P, when, message, (peer, communicator, tag, length, request))
        put_step(plan, out, clock, K_EXIT, r)
        pc = following
    out.n[E_TURN], out.n[E_PC], out.n[E_CLOCK] = turn, pc, clock
