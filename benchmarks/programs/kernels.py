# mypy: ignore-errors
"""Run scripts: once through all processes to find out when everything happens, and again per location to record it.

Both go by the same script and the same random numbers, which are a hash of (seed, location, turn, step). What a location
cannot know by itself, how long it had to wait, the first pass logs: one number per blocking step.
"""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel, part

# the columns of a script
(
    CODE, REGION, CHANNEL, PEER, COMM, TAG, LENGTH, MODE, FIRST, COUNT, SCALE, OP, ROOT, RECEIVED, REQUEST, TARGET,
    COUNTED,
) = range(17)  # fmt: skip
N_COLUMNS = 17

# its steps
(
    PROGRAM_BEGIN, PROGRAM_END, ENTER, EXIT, COMPUTE, SEND, RECV, ISEND, IRECV, WAIT, COLLECTIVE, MANAGEMENT, PARALLEL,
    RECV_ANY, REPLY, RECV_TASK, JUMP,
) = range(17)  # fmt: skip

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
)  # fmt: skip
(
    LATE_SENDER, WRONG_ORDER, LATE_RECEIVER, BARRIER_WAIT, BARRIER_COMPLETION, NXN_WAIT, NXN_COMPLETION, LATE_BROADCAST,
    EARLY_REDUCE, INIT_COMPLETION, FINALIZE_WAIT, IMPLICIT_BARRIER, CONTENTION_CRITICAL, CONTENTION_API, FORK, MANAGEMENT_TIME,
    BYTES_SENT, BYTES_RECEIVED, BYTES_OUT, BYTES_IN,
) = range(8, 28)  # fmt: skip

START = 1_000_000
"""Tick at which the recording begins."""
LATENCY = 1_200
STEP = 12
COLLECTIVE_COST = 900
MIDDLE = 1 << 32
"""Distance of the numbers of random draws within one step."""

# how the first pass ends
DONE, DEADLOCK, RING_FULL, LOG_FULL, TOO_LONG, STACK_FULL = range(6)

# the first pass works on
#   top (5,)                    how it ended and the process at which it did, messages, end of the recording, processes that can go on
#   state (n_processes, ...)    one row per process
#   ready (n_processes,)        processes that can go on
#   channels (n_channels, 6)    sending and receiving process; messages sent, posted, taken by the receiver, done with at the sender
#   slots (n_channels * ring, 10)  messages under way
#   stack (n_processes, any, 2) late senders that may still prove to be in wrong order: time of the send, waiting
#   operations (n_comms * generations, 4)  operation, members that have begun, latest begin, operation the root has begun
#   meetings (n_members * generations, 2)  begin and end of each member
#   generation (n_members,)     operations each member has begun
#   locks (n_processes, n_locks, 2)  release and number of the last acquisition
#   scratch (n_threads, 2)
# and finds out
#   places (n_locations, ...)   one row per location: log, events, severities
#   log (any,) int32            waiting of every location, where its place in `places` says
#   team_log (any,)             per process, for every parallel region: fork, turn and step, ends of barriers, join
#   visits (n_regions,), tree_uses (n_trees,)
STATUS, WHO, N_MESSAGES, END, N_READY = range(5)
(
    PC, TURN, STAGE, CLOCK, BLOCKED, ON, SOURCE, SP, CALL, IS_READY, IS_DONE, BEGINNING, TEAM_START, TEAM_AT, TEAM_END, RECORDS,
) = range(16)  # fmt: skip
N_RECORDS = 64
"""Recent WAITs of a process, of which a Late Receiver may still prove to be longer."""
AS_SENDER, AS_RECEIVER, IN_OPERATION, FROM_ANY = 1, 2, 3, 4
C_SENDER, C_RECEIVER, SENT, POSTED, TAKEN, DONE_WITH = range(6)
S_ENTER, S_TIME, S_ARRIVAL, S_LENGTH, S_TAG, S_MODE, S_POST, S_DONE_ENTER, S_DONE_EXIT, S_RECORD = range(10)
ALONE, NEVER = -1, -2
LOG_START, LOG_AT, LOG_END, N_EVENTS, FIRST_STEP, SPAN, SPAN_16, N_SPANS, SEVERITIES = range(9)
# spans lie between the first and the last ENTER or EXIT: of the program, or of a worker thread in each parallel region


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
    """Time before a step."""
    return 10 + (x & 31)


@part
def first_half(x):
    """Time from an ENTER to the event inside."""
    return 60 + ((x >> 5) & 127)


@part
def second_half(x):
    """Time from the event inside to the EXIT."""
    return 40 + ((x >> 12) & 63)


@part
def duration(quantiles, x, scale):
    """Random duration with mean `scale`."""
    return (scale * (quantiles[(x >> 18) & 4095] * 16 + ((x >> 36) & 15))) >> 14


@part
def tree_of(n_trees, x):
    """Random call tree; their number is a power of two."""
    return (x >> 30) & (n_trees - 1)


@part
def team_begins(fork, t, y):
    """Time at which a thread begins in its team."""
    return fork + 40 + (t > 0) * (300 + ((y >> 20) & 1023))


@part
def lock_is_held(quantiles, z, scale):
    """Time a thread keeps a lock."""
    return 80 + duration(quantiles, z, scale >> 4)


# -- the first pass ------------------------------------------------------------------------------------------------


@part
def make_ready(top, state, ready, p):
    """Let a process go on."""
    state[p, BLOCKED] = 0
    if state[p, IS_READY] == 0:
        state[p, IS_READY] = 1
        ready[top[N_READY]] = p
        top[N_READY] += 1


@part
def wake(top, state, ready, channels, channel, side):
    """Let the process at one side of a channel go on if it waits there."""
    p = channels[channel, side - 1]
    if state[p, BLOCKED] == side and state[p, ON] == channel:
        make_ready(top, state, ready, p)


@part
def block(state, p, why, on):
    """Let a process wait."""
    state[p, BLOCKED] = why
    state[p, ON] = on


@part
def note(top, places, log, location, value):
    """Log a number of a location."""
    at = places[location, LOG_AT]
    if at >= places[location, LOG_END]:
        top[STATUS] = LOG_FULL
        return
    if value > 0x7FFFFFF0 or value < -0x7FFFFFF0:
        top[STATUS] = TOO_LONG
    log[at] = value
    places[location, LOG_AT] = at + 1


@part
def settle(state, places, n_threads, channels, channel, slots, s):
    """Charge a send that was there before its receive; both sides are known now."""
    post, enter, record = slots[s, S_POST], slots[s, S_DONE_ENTER], slots[s, S_RECORD]
    if slots[s, S_DONE_EXIT] > post and post > enter and record != NEVER:
        wait, p = post - enter, channels[channel, C_SENDER]
        if record == ALONE:
            places[p * n_threads, LATE_RECEIVER] += wait
        elif wait > state[p, record]:
            places[p * n_threads, LATE_RECEIVER] += wait - state[p, record]
            state[p, record] = wait


@part
def transferred(slots, s, since):
    """Time at which a message that waits for its receive has arrived."""
    return max(slots[s, S_TIME], since) + LATENCY + (slots[s, S_LENGTH] >> 2)


@part
def start_send(top, state, ready, channels, slots, ring, channel, enter, length, tag, mode, x):
    """Send a message; returns its slot."""
    k = channels[channel, SENT]
    if k - min(channels[channel, TAKEN], channels[channel, DONE_WITH]) >= ring:
        top[STATUS] = RING_FULL
    s = channel * ring + (k & (ring - 1))
    time = enter + first_half(x)
    slots[s, S_ENTER] = enter
    slots[s, S_TIME] = time
    slots[s, S_LENGTH] = length
    slots[s, S_TAG] = tag
    slots[s, S_MODE] = mode
    slots[s, S_DONE_EXIT] = -1
    if mode == EAGER:
        slots[s, S_ARRIVAL] = time + LATENCY + (length >> 2) + ((x >> 42) & 511)
    elif channels[channel, POSTED] > k:
        slots[s, S_ARRIVAL] = transferred(slots, s, slots[s, S_POST])
    else:
        slots[s, S_ARRIVAL] = -1
    channels[channel, SENT] = k + 1
    top[N_MESSAGES] += 1
    wake(top, state, ready, channels, channel, AS_RECEIVER)
    return s


@part
def finish_send(state, places, n_threads, channels, channel, slots, s, enter, leave, record):
    """Complete a send at the sender's side."""
    slots[s, S_DONE_ENTER] = enter
    slots[s, S_DONE_EXIT] = leave
    slots[s, S_RECORD] = record
    k = channels[channel, DONE_WITH]
    channels[channel, DONE_WITH] = k + 1
    if channels[channel, POSTED] > k:
        settle(state, places, n_threads, channels, channel, slots, s)


@part
def post(top, state, ready, places, n_threads, channels, slots, ring, channel, enter):
    """Post a receive."""
    k = channels[channel, POSTED]
    s = channel * ring + (k & (ring - 1))
    channels[channel, POSTED] = k + 1
    slots[s, S_POST] = enter
    if channels[channel, SENT] > k:
        if slots[s, S_ARRIVAL] < 0:
            slots[s, S_ARRIVAL] = transferred(slots, s, enter)
            wake(top, state, ready, channels, channel, AS_SENDER)
        settle(state, places, n_threads, channels, channel, slots, s)


@part
def overtake(state, stack, places, p, time, location):
    """Charge Late Senders that the message just received could have preceded: it was sent before."""
    sp = state[p, SP]
    while sp > 0 and stack[p, sp - 1, 0] > time:
        places[location, WRONG_ORDER] += stack[p, sp - 1, 1]
        sp -= 1
    state[p, SP] = sp


@part
def was_late(top, state, stack, places, p, time, wait, location):
    """Charge a Late Sender."""
    places[location, LATE_SENDER] += wait
    sp = state[p, SP]
    if sp >= stack.shape[1]:
        top[STATUS] = STACK_FULL
        return
    stack[p, sp, 0] = time
    stack[p, sp, 1] = wait
    state[p, SP] = sp + 1


@part
def wait_for_requests(
    top, state, ready, places, n_threads, channels, slots, ring, stack, requests, log, p, first, n, x
):
    """Complete requests if all can be, and return when; else let the process wait, and return -1."""
    enter = state[p, CLOCK] + gap(x)
    for i in range(first + state[p, STAGE], first + n):
        channel = requests[i, R_CHANNEL]
        if requests[i, R_IS_SEND]:
            k = channels[channel, DONE_WITH] + requests[i, R_ORDINAL]
            fits = slots[channel * ring + (k & (ring - 1)), S_ARRIVAL] >= 0
        else:
            fits = channels[channel, SENT] > channels[channel, TAKEN] + requests[i, R_ORDINAL]
        if not fits:
            state[p, STAGE] = i - first
            block(state, p, AS_SENDER if requests[i, R_IS_SEND] else AS_RECEIVER, channel)
            return np.int64(-1)
    location = p * n_threads
    done = enter + first_half(x)
    late, late_time = np.int64(0), np.int64(0)
    for i in range(first, first + n):
        channel = requests[i, R_CHANNEL]
        if requests[i, R_IS_SEND]:
            k = channels[channel, DONE_WITH] + requests[i, R_ORDINAL]
            s = channel * ring + (k & (ring - 1))
            if slots[s, S_MODE] == RENDEZVOUS:
                done = max(done, slots[s, S_ARRIVAL])
        else:
            k = channels[channel, TAKEN] + requests[i, R_ORDINAL]
            s = channel * ring + (k & (ring - 1))
            done = max(done, slots[s, S_ARRIVAL])
            overtake(state, stack, places, p, slots[s, S_TIME], location)
            places[location, BYTES_RECEIVED] += slots[s, S_LENGTH]
            if slots[s, S_ENTER] - enter > late:
                late, late_time = slots[s, S_ENTER] - enter, slots[s, S_TIME]
    leave = done + n * STEP + second_half(x)
    # of several waits the longest counts, and Late Receivers only where no sender was late
    record = np.int64(NEVER)
    if late > 0:
        was_late(top, state, stack, places, p, late_time, late, location)
    else:
        record = RECORDS + state[p, CALL] % N_RECORDS
        state[p, CALL] += 1
        state[p, record] = 0
    for i in range(first, first + n):
        channel = requests[i, R_CHANNEL]
        if requests[i, R_IS_SEND]:
            s = channel * ring + (channels[channel, DONE_WITH] & (ring - 1))
            finish_send(state, places, n_threads, channels, channel, slots, s, enter, leave, record)
        else:
            channels[channel, TAKEN] += 1
    note(top, places, log, location, done - enter)
    return leave


@part
def wake_members(top, state, ready, comm_start, comm_members, comm):
    """Let all that wait in an operation on a communicator go on."""
    for i in range(comm_start[comm], comm_start[comm + 1]):
        q = comm_members[i]
        if state[q, BLOCKED] == IN_OPERATION and state[q, ON] == comm:
            make_ready(top, state, ready, q)


@part
def everybody_is_there(
    places, n_threads, meetings, comm_start, comm_members, seed, comm, generation, base, latest, n_bytes, is_management,
    mode,
):  # fmt: skip
    """End an operation in which all have waited for the last."""
    start = comm_start[comm]
    size = comm_start[comm + 1] - start
    earliest_end = np.int64(1) << 62
    for m in range(size):
        x = draw(seed, (1 << 40) + comm, generation, m)
        meetings[base + m, 1] = latest + COLLECTIVE_COST + (n_bytes >> 3) + (x & 255)
        earliest_end = min(earliest_end, meetings[base + m, 1])
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
        location = comm_members[start + m] * n_threads
        if waiting >= 0:
            places[location, waiting] += latest - meetings[base + m, 0]
        if completing >= 0:
            places[location, completing] += meetings[base + m, 1] - max(earliest_end, latest)


@part
def operate(
    top, state, ready, places, n_threads, operations, meetings, generation_of, comm_start, comm_members, generations, seed,
    script, p, pc, x,
):  # fmt: skip
    """Take part in a collective operation; returns when it ends, -1 if that is not known yet."""
    comm, m, mode, root = script[pc, CHANNEL], script[pc, PEER], script[pc, MODE], script[pc, ROOT]
    start = comm_start[comm]
    size = comm_start[comm + 1] - start
    enter = state[p, CLOCK] + gap(x)
    is_management = script[pc, CODE] == MANAGEMENT
    together = is_management or mode == N_TO_N or mode == BARRIER
    generation = generation_of[start + m] - (1 if state[p, STAGE] else 0)
    at = comm * generations + (generation & (generations - 1))
    base = start * generations + (generation & (generations - 1)) * size
    if state[p, STAGE] == 0:
        generation_of[start + m] = generation + 1
        if operations[at, 0] != generation:
            if operations[at, 0] >= 0 and operations[at, 1] < size:
                top[STATUS] = RING_FULL
            operations[at, 0] = generation
            operations[at, 1] = 0
            operations[at, 2] = -1
        operations[at, 1] += 1
        operations[at, 2] = max(operations[at, 2], enter)
        meetings[base + m, 0] = enter
        state[p, STAGE] = 1
        is_last = operations[at, 1] == size
        if together and is_last:
            everybody_is_there(
                places, n_threads, meetings, comm_start, comm_members, seed, comm, generation, base, operations[at, 2],
                script[pc, LENGTH], is_management, mode,
            )  # fmt: skip
        if m == root:
            operations[at, 3] = generation
        if (is_last and (together or mode == N_TO_ONE)) or (m == root and mode == ONE_TO_N):
            wake_members(top, state, ready, comm_start, comm_members, comm)
    cost = COLLECTIVE_COST + (script[pc, LENGTH] >> 3) + ((x >> 42) & 255)
    if together:
        if operations[at, 1] == size:
            return meetings[base + m, 1]
    elif m == root:
        if mode == ONE_TO_N:
            return enter + cost
        if operations[at, 1] == size:
            if size > 1:
                places[p * n_threads, EARLY_REDUCE] += operations[at, 2] - enter
            return operations[at, 2] + cost
    elif mode == N_TO_ONE:
        return enter + cost
    elif operations[at, 3] == generation:
        begun = meetings[base + root, 0]
        places[p * n_threads, LATE_BROADCAST] += max(begun - enter, 0)
        return max(begun, enter) + cost
    block(state, p, IN_OPERATION, comm)
    return np.int64(-1)


@part
def add_span(places, location, end):
    """Add the time since the first ENTER, as counters do."""
    start = places[location, FIRST_STEP] - START
    places[location, SPAN] += end - START - start
    places[location, SPAN_16] += ((end - START) >> 4) - (start >> 4)
    places[location, N_SPANS] += 1


@part
def run_team(
    top, state, places, log, team_log, locks, scratch, visits, tree_uses, script, tree_start, quantiles, seed, n_threads, w,
    p, pc, turn, fork,
):  # fmt: skip
    """Run a parallel region; returns the time of the join."""
    base, n_loops, scale, mode = script[pc, REGION], script[pc, COUNT], script[pc, SCALE], script[pc, MODE]
    mine = p * n_threads
    at = state[p, TEAM_AT]
    if at + n_loops + 4 > state[p, TEAM_END]:
        top[STATUS] = LOG_FULL
        return fork
    state[p, TEAM_AT] = at + n_loops + 4
    team_log[at] = fork
    team_log[at + 1] = (turn << 24) | pc
    at += 2
    for t in range(n_threads):
        enter = team_begins(fork, t, draw(seed, mine + t, turn, pc)) + 20
        scratch[t, 0] = enter
        places[mine + t, FORK] += enter - fork
        places[mine + t, MANAGEMENT_TIME] += enter - fork
        if t:
            places[mine + t, FIRST_STEP] = enter
        places[mine + t, N_EVENTS] += 2 + w * (4 + 6 * n_loops) + 2 * (t == 0)
    visits[base] += n_threads
    visits[base + PARALLEL_BARRIER] += n_threads
    n_trees = tree_start.size - 1
    for i in range(n_loops):
        latest = np.int64(0)
        for t in range(n_threads):
            z = draw(seed, mine + t, turn, pc + (i + 1) * MIDDLE)
            tree = tree_of(n_trees, z)
            tree_uses[tree] += 1
            places[mine + t, N_EVENTS] += w * (tree_start[tree + 1] - tree_start[tree])
            arrives = scratch[t, 0] + gap(z) + 10 + duration(quantiles, z, scale) + 15
            scratch[t, 0] = arrives
            latest = max(latest, arrives)
        ends = latest + 25
        team_log[at] = ends
        at += 1
        for t in range(n_threads):
            z = draw(seed, mine + t, turn, pc + (i + 1) * MIDDLE)
            places[mine + t, IMPLICIT_BARRIER] += latest - scratch[t, 0]
            scratch[t, 0] = ends + ((z >> 50) & 63) + 10
    visits[base + FOR] += n_threads * n_loops
    visits[base + FOR_BARRIER] += n_threads * n_loops
    visits[script[pc, OP]] += n_threads * n_loops
    if mode != NO_LOCK:
        for t in range(n_threads):
            scratch[t, 0] += gap(draw(seed, mine + t, turn, pc + 64 * MIDDLE))
            # threads in the order in which they come
            k = t
            while k > 0 and scratch[scratch[k - 1, 1], 0] > scratch[t, 0]:
                scratch[k, 1] = scratch[k - 1, 1]
                k -= 1
            scratch[k, 1] = t
        lock = script[pc, CHANNEL]
        contention = CONTENTION_CRITICAL if mode == CRITICAL else CONTENTION_API
        released, number = locks[p, lock, 0], locks[p, lock, 1]
        for k in range(n_threads):
            t = scratch[k, 1]
            arrives = scratch[t, 0]
            acquired = max(arrives + 25, released + 35)
            number += 1
            if number > 1 and released > arrives:
                places[mine + t, contention] += released - arrives
            note(top, places, log, mine + t, acquired - arrives)
            note(top, places, log, mine + t, number)
            released = acquired + lock_is_held(quantiles, draw(seed, mine + t, turn, pc + 64 * MIDDLE), scale)
            scratch[t, 0] = released + 12
            places[mine + t, N_EVENTS] += 2 + 4 * w
        locks[p, lock, 0] = released
        locks[p, lock, 1] = number
        visits[base + CRITICAL_REGION if mode == CRITICAL else script[pc, TAG]] += n_threads
        visits[base + CRITICAL_BLOCK if mode == CRITICAL else script[pc, PEER]] += n_threads
    latest = np.int64(0)
    for t in range(n_threads):
        scratch[t, 0] += 12
        latest = max(latest, scratch[t, 0])
    ends = latest + 25
    team_log[at] = ends
    join = np.int64(0)
    for t in range(n_threads):
        places[mine + t, IMPLICIT_BARRIER] += latest - scratch[t, 0]
        scratch[t, 0] = ends + ((draw(seed, mine + t, turn, pc) >> 50) & 63) + 10
        join = max(join, scratch[t, 0] + 10 + 50)
        if t:
            add_span(places, mine + t, scratch[t, 0])
    for t in range(n_threads):
        places[mine + t, MANAGEMENT_TIME] += join - scratch[t, 0]
    team_log[at + 1] = join
    return join


@kernel
def simulate(
    seed, n_turns, n_threads, w, ring, generations, script, spans, requests, comm_start, comm_members, quantiles, tree_start,
    top, state, ready, channels, slots, stack, operations, meetings, generation_of, locks, scratch, places, log, team_log,
    visits, tree_uses,
):  # fmt: skip
    """Run all processes to their ends.

    Parameters
    ----------
    seed, n_turns, n_threads, w : int
        `w` events stand for every ENTER and EXIT: two if counters are recorded with them.
    ring, generations : int
        Messages on a channel, and operations on a communicator, that may be under way at the same time; powers of two.
    script : (n_steps, N_COLUMNS) int64
    spans : (n_processes, 5) int64
        Steps of each process: first, first of the body, behind the body, behind the last; number of its requests in a turn.
    requests : (n, 8) int64
    comm_start, comm_members : (n_comms + 1,), (n,) int64
        Processes of every communicator.
    quantiles : (4096,) int64
        Of the distribution of durations; their mean is 1024.
    tree_start : (n_trees + 1,) int64
    """
    n = spans.shape[0]
    n_trees = tree_start.size - 1
    for p in range(n - 1, -1, -1):
        state[p, PC] = spans[p, 0]
        state[p, BEGINNING] = START + (draw(seed, p * n_threads, -1, -1) & 0x3FFF)
        state[p, CLOCK] = state[p, BEGINNING]
        make_ready(top, state, ready, p)
    p, runs = np.int64(0), False
    while top[STATUS] == DONE:
        if not runs:
            if top[N_READY] == 0:
                # what arrives first is known when all others wait
                for q in range(n):
                    if state[q, BLOCKED] == FROM_ANY:
                        make_ready(top, state, ready, q)
                        break
                else:
                    break
            top[N_READY] -= 1
            p, runs = ready[top[N_READY]], True
            state[p, IS_READY] = 0
            top[WHO] = p
        pc, turn, clock = state[p, PC], state[p, TURN], state[p, CLOCK]
        if pc == spans[p, 2] and state[p, STAGE] == 0 and turn + 1 < n_turns:
            turn, pc = turn + 1, spans[p, 1]
            state[p, TURN] = turn
            state[p, PC] = pc
        if pc == spans[p, 3]:
            state[p, IS_DONE] = 1
            top[END] = max(top[END], clock)
            runs = False
            continue
        code = script[pc, CODE]
        location = p * n_threads
        x = draw(seed, location, turn, pc)
        enter = clock + gap(x)
        following = pc + 1
        n_events = 1 + 2 * w
        leave = np.int64(-1)
        if code == COMPUTE:
            tree = tree_of(n_trees, x)
            tree_uses[tree] += 1
            n_events = w * (2 + tree_start[tree + 1] - tree_start[tree])
            leave = enter + duration(quantiles, x, script[pc, SCALE])
        elif code == SEND or code == REPLY or code == ISEND:
            channel, mode, length = script[pc, CHANNEL], script[pc, MODE], script[pc, LENGTH]
            if code == REPLY:
                channel = requests[script[pc, FIRST] + state[p, SOURCE], R_CHANNEL]
            if state[p, STAGE] == 0:
                s = start_send(
                    top, state, ready, channels, slots, ring, channel, enter, length, script[pc, TAG], mode, x
                )  # fmt: skip
                places[location, BYTES_SENT] += length
            else:
                s = channel * ring + ((channels[channel, SENT] - 1) & (ring - 1))
            if code == ISEND:
                leave = enter + first_half(x) + second_half(x)
            elif mode == EAGER:
                leave = enter + first_half(x) + second_half(x) + (length >> 3)
            elif slots[s, S_ARRIVAL] >= 0:
                leave = slots[s, S_ARRIVAL] + second_half(x)
                note(top, places, log, location, leave - enter)
            else:
                state[p, STAGE] = 1
                block(state, p, AS_SENDER, channel)
            if code != ISEND and leave >= 0:
                finish_send(state, places, n_threads, channels, channel, slots, s, enter, leave, ALONE)
        elif code == RECV or code == RECV_TASK or code == RECV_ANY or code == IRECV:
            channel = script[pc, CHANNEL]
            if code == RECV_ANY:
                channel = np.int64(-1)
                if state[p, STAGE]:
                    best = np.int64(1) << 62
                    for i in range(script[pc, COUNT]):
                        c = requests[script[pc, FIRST] + i, R_CHANNEL]
                        k = channels[c, TAKEN]
                        if channels[c, SENT] > k and slots[c * ring + (k & (ring - 1)), S_ARRIVAL] < best:
                            best = slots[c * ring + (k & (ring - 1)), S_ARRIVAL]
                            channel = c
                            state[p, SOURCE] = i
                    if channel < 0:
                        top[STATUS] = DEADLOCK
                        break
            if channel >= 0 and (state[p, STAGE] == 0 or code == RECV_ANY):
                post(top, state, ready, places, n_threads, channels, slots, ring, channel, enter)
            if code == IRECV:
                leave = enter + first_half(x) + second_half(x)
            elif channel < 0:
                state[p, STAGE] = 1
                block(state, p, FROM_ANY, 0)
            elif channels[channel, SENT] <= channels[channel, TAKEN]:
                state[p, STAGE] = 1
                block(state, p, AS_RECEIVER, channel)
            else:
                k = channels[channel, TAKEN]
                s = channel * ring + (k & (ring - 1))
                done = max(enter + first_half(x), slots[s, S_ARRIVAL])
                overtake(state, stack, places, p, slots[s, S_TIME], location)
                if slots[s, S_ENTER] > enter:
                    was_late(
                        top, state, stack, places, p, slots[s, S_TIME], slots[s, S_ENTER] - enter, location
                    )  # fmt: skip
                places[location, BYTES_RECEIVED] += slots[s, S_LENGTH]
                channels[channel, TAKEN] = k + 1
                value = done - enter
                if code == RECV_TASK and slots[s, S_TAG] != script[pc, TAG]:
                    following = script[pc, TARGET]
                    value = ~value
                note(top, places, log, location, value)
                if code == RECV_ANY:
                    note(top, places, log, location, state[p, SOURCE])
                leave = done + second_half(x)
        elif code == WAIT:
            n_events = script[pc, COUNT] + 2 * w
            leave = wait_for_requests(
                top, state, ready, places, n_threads, channels, slots, ring, stack, requests, log, p, script[pc, FIRST],
                script[pc, COUNT], x,
            )  # fmt: skip
        elif code == COLLECTIVE or code == MANAGEMENT:
            end = operate(
                top, state, ready, places, n_threads, operations, meetings, generation_of, comm_start, comm_members,
                generations, seed, script, p, pc, x,
            )  # fmt: skip
            if end >= 0:
                note(top, places, log, location, end - enter)
                leave, n_events = end, 2 * w
                if code == COLLECTIVE:
                    leave, n_events = end + second_half(x), 2 + 2 * w
                    places[location, BYTES_OUT] += script[pc, LENGTH]
                    places[location, BYTES_IN] += script[pc, RECEIVED]
                if script[pc, TARGET]:
                    # all messages sent from now on are later than those received so far
                    state[p, SP] = 0
        elif code == PARALLEL:
            n_events = 0
            leave = run_team(
                top, state, places, log, team_log, locks, scratch, visits, tree_uses, script, tree_start, quantiles, seed,
                n_threads, w, p, pc, turn, enter,
            )  # fmt: skip
        elif code == JUMP:
            following = script[pc, TARGET]
            leave, n_events = clock, 0
        else:
            leave, n_events = enter, 1
            if code == ENTER or code == EXIT:
                n_events = w
                if places[location, FIRST_STEP] < 0:
                    places[location, FIRST_STEP] = enter
                if pc >= spans[p, 2] and code == EXIT:
                    add_span(places, location, enter)
        if leave < 0:
            runs = False
            continue
        if script[pc, COUNTED]:
            visits[script[pc, REGION]] += 1
        places[location, N_EVENTS] += n_events
        state[p, CLOCK] = leave
        state[p, PC] = following
        state[p, STAGE] = 0
    if top[STATUS] == DONE:
        for p in range(n):
            if state[p, IS_DONE] == 0:
                top[STATUS] = DEADLOCK
                top[WHO] = p


# -- the second pass -----------------------------------------------------------------------------------------------

(
    K_ENTER, K_EXIT, K_SEND, K_ISEND, K_ISEND_COMPLETE, K_IRECV_REQUEST, K_RECV, K_IRECV, K_BEGIN, K_END, K_METRIC, K_FORK,
    K_JOIN, K_TEAM_BEGIN, K_TEAM_END, K_ACQUIRE, K_RELEASE, K_PROGRAM_BEGIN, K_PROGRAM_END,
) = (12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 31, 53, 54, 55, 56, 57, 58, 83, 84)  # fmt: skip
OPENMP = 3

# what it fills: time, kind, region of events; per family of attributes a matrix, (n_columns, any): row, kind, values;
# `n` are the numbers of events and of attributes, the place in the location, and where the script and the logs go on
EVENTS, P2P, COLL, THREADS, LOCKS, CONTROL, METRICS = range(7)
(E_TURN, E_PC, E_CLOCK, E_LOG, E_TEAM, E_SOURCE, E_BASE, E_DONE) = range(7, 15)
N_OUT = 15


@part
def put(n, time, kind, region, t, k, r):
    """Append an event; returns its place in the location."""
    i = n[EVENTS]
    time[i] = t
    kind[i] = k
    region[i] = r
    n[EVENTS] = i + 1
    return n[E_BASE] + i


@part
def put_step(n, time, kind, region, metrics, w, t, k, r):
    """Append an ENTER or EXIT, counters before it."""
    i = n[EVENTS]
    if w == 2:
        m = n[METRICS]
        row = n[E_BASE] + i
        time[i] = t
        kind[i] = K_METRIC
        region[i] = -1
        metrics[0, m] = row
        metrics[1, m] = 3 * (t - START) + row
        metrics[2, m] = (t - START) >> 4
        n[METRICS] = m + 1
        i += 1
    time[i] = t
    kind[i] = k
    region[i] = r
    n[EVENTS] = i + 1


@part
def put_message(n, time, kind, region, p2p, t, k, peer, communicator, tag, length, request):
    """Append an event of a message or request."""
    i = n[P2P]
    p2p[0, i] = put(n, time, kind, region, t, k, -1)
    p2p[1, i] = k
    p2p[2, i] = peer
    p2p[3, i] = communicator
    p2p[4, i] = tag
    p2p[5, i] = length
    p2p[6, i] = request
    n[P2P] = i + 1


@part
def put_operation(n, time, kind, region, coll, t, k, op, communicator, root, sent, received):
    """Append an event of a collective operation."""
    i = n[COLL]
    coll[0, i] = put(n, time, kind, region, t, k, -1)
    coll[1, i] = k
    coll[2, i] = op
    coll[3, i] = communicator
    coll[4, i] = root
    coll[5, i] = sent
    coll[6, i] = received
    n[COLL] = i + 1


@part
def put_thread(n, time, kind, region, threads, t, k, team, model, requested):
    """Append an event of a team."""
    i = n[THREADS]
    threads[0, i] = put(n, time, kind, region, t, k, -1)
    threads[1, i] = k
    threads[2, i] = team
    threads[3, i] = model
    threads[4, i] = requested
    n[THREADS] = i + 1


@part
def put_lock(n, time, kind, region, locks, t, k, lock, acquisition):
    """Append an event of a lock."""
    i = n[LOCKS]
    locks[0, i] = put(n, time, kind, region, t, k, -1)
    locks[1, i] = k
    locks[2, i] = lock
    locks[3, i] = acquisition
    n[LOCKS] = i + 1


@part
def put_tree(n, time, kind, region, metrics, w, tree_start, tree, number, start, length):
    """Append a call tree."""
    for j in range(tree_start[number], tree_start[number + 1]):
        t = start + ((length * tree[0, j]) >> 16)
        put_step(n, time, kind, region, metrics, w, t, tree[1, j], tree[2, j])


@part
def put_team(
    n, time, kind, region, threads, locks, metrics, seed, n_threads, w, script, quantiles, tree_start, tree, log, team_log,
    location, t, at,
):  # fmt: skip
    """Append what a thread does in a parallel region; returns the time of the join."""
    fork, turn, pc = team_log[at], team_log[at + 1] >> 24, team_log[at + 1] & 0xFFFFFF
    base, n_loops, scale = script[pc, REGION], script[pc, COUNT], script[pc, SCALE]
    at += 2
    y = draw(seed, location, turn, pc)
    if t == 0:
        put_thread(n, time, kind, region, threads, fork, K_FORK, -1, OPENMP, n_threads)
    now = team_begins(fork, t, y)
    put_thread(n, time, kind, region, threads, now, K_TEAM_BEGIN, script[pc, COMM], -1, -1)
    now += 20
    put_step(n, time, kind, region, metrics, w, now, K_ENTER, base)
    for i in range(n_loops):
        z = draw(seed, location, turn, pc + (i + 1) * MIDDLE)
        now += gap(z)
        put_step(n, time, kind, region, metrics, w, now, K_ENTER, base + FOR)
        now += 10
        put_step(n, time, kind, region, metrics, w, now, K_ENTER, script[pc, OP])
        length = duration(quantiles, z, scale)
        put_tree(
            n, time, kind, region, metrics, w, tree_start, tree, tree_of(tree_start.size - 1, z), now, length
        )  # fmt: skip
        now += length
        put_step(n, time, kind, region, metrics, w, now, K_EXIT, script[pc, OP])
        put_step(n, time, kind, region, metrics, w, now + 15, K_ENTER, base + FOR_BARRIER)
        now = team_log[at] + ((z >> 50) & 63)
        at += 1
        put_step(n, time, kind, region, metrics, w, now, K_EXIT, base + FOR_BARRIER)
        now += 10
        put_step(n, time, kind, region, metrics, w, now, K_EXIT, base + FOR)
    if script[pc, MODE] != NO_LOCK:
        z = draw(seed, location, turn, pc + 64 * MIDDLE)
        now += gap(z)
        k = n[E_LOG]
        acquired, number = now + log[k], np.int64(log[k + 1])
        n[E_LOG] = k + 2
        released = acquired + lock_is_held(quantiles, z, scale)
        # a region around the lock and a block in it; or a call that takes it and one that gives it back
        first, second = script[pc, TAG], script[pc, PEER]
        inner_first, inner_second = K_EXIT, K_ENTER
        inner, other, outer = first, second, second
        if script[pc, MODE] == CRITICAL:
            first = base + CRITICAL_REGION
            inner_first, inner_second = K_ENTER, K_EXIT
            inner = other = base + CRITICAL_BLOCK
            outer = first
        put_step(n, time, kind, region, metrics, w, now, K_ENTER, first)
        put_lock(n, time, kind, region, locks, acquired, K_ACQUIRE, script[pc, CHANNEL], number)
        put_step(n, time, kind, region, metrics, w, acquired + 9, inner_first, inner)
        put_step(n, time, kind, region, metrics, w, released - 8, inner_second, other)
        put_lock(n, time, kind, region, locks, released, K_RELEASE, script[pc, CHANNEL], number)
        now = released + 12
        put_step(n, time, kind, region, metrics, w, now, K_EXIT, outer)
    put_step(n, time, kind, region, metrics, w, now + 12, K_ENTER, base + PARALLEL_BARRIER)
    now = team_log[at] + ((y >> 50) & 63)
    put_step(n, time, kind, region, metrics, w, now, K_EXIT, base + PARALLEL_BARRIER)
    now += 10
    put_step(n, time, kind, region, metrics, w, now, K_EXIT, base)
    put_thread(n, time, kind, region, threads, now + 10, K_TEAM_END, script[pc, COMM], -1, -1)
    join = team_log[at + 1]
    if t == 0:
        put_thread(n, time, kind, region, threads, join, K_JOIN, -1, OPENMP, -1)
    n[E_TEAM] = at + 2
    return join


@kernel
def record(
    seed, n_turns, n_threads, w, script, spans, requests, quantiles, tree_start, tree, log, team_log, team_end, location, room,
    n, time, kind, region, p2p, coll, threads, locks, control, metrics,
):  # fmt: skip
    """Fill the columns with what a location does next, as far as there is room; see `simulate`.

    Parameters
    ----------
    tree : (3, any) int64
        Events of call trees: time in 1/65536 of the whole, kind, region.
    team_end : int
        Where the process's part of `team_log` ends.
    room : int
        Events that one step makes at most.
    """
    p, number = location // n_threads, location % n_threads
    size = time.size - room
    if number:
        while n[EVENTS] <= size and n[E_TEAM] < team_end:
            put_team(
                n, time, kind, region, threads, locks, metrics, seed, n_threads, w, script, quantiles, tree_start, tree, log,
                team_log, location, number, n[E_TEAM],
            )  # fmt: skip
        n[E_DONE] = n[E_TEAM] >= team_end
        return
    turn, pc, clock = n[E_TURN], n[E_PC], n[E_CLOCK]
    while n[EVENTS] <= size:
        if pc == spans[p, 2] and turn + 1 < n_turns:
            turn, pc = turn + 1, spans[p, 1]
        if pc == spans[p, 3]:
            n[E_DONE] = 1
            break
        code, r = script[pc, CODE], script[pc, REGION]
        x = draw(seed, location, turn, pc)
        enter = clock + gap(x)
        following = pc + 1
        at = n[E_LOG]
        if code == JUMP:
            pc = script[pc, TARGET]
            continue
        if code == PARALLEL:
            clock = put_team(
                n, time, kind, region, threads, locks, metrics, seed, n_threads, w, script, quantiles, tree_start, tree, log,
                team_log, location, number, n[E_TEAM],
            )  # fmt: skip
            pc = following
            continue
        if code == PROGRAM_BEGIN or code == PROGRAM_END:
            k = K_PROGRAM_BEGIN if code == PROGRAM_BEGIN else K_PROGRAM_END
            i = n[CONTROL]
            control[0, i] = put(n, time, kind, region, enter, k, r)
            control[1, i] = k
            n[CONTROL] = i + 1
            clock, pc = enter, following
            continue
        if code != EXIT:
            put_step(n, time, kind, region, metrics, w, enter, K_ENTER, r)
            if code == ENTER:
                clock, pc = enter, following
                continue
        clock = enter
        message, when, peer, tag, length = (
            -1,
            enter + first_half(x),
            script[pc, PEER],
            script[pc, TAG],
            script[pc, LENGTH],
        )
        request = np.int64(-1)
        communicator = script[pc, COMM]
        if code == COMPUTE:
            clock = enter + duration(quantiles, x, script[pc, SCALE])
            put_tree(
                n, time, kind, region, metrics, w, tree_start, tree, tree_of(tree_start.size - 1, x), enter, clock - enter
            )  # fmt: skip
        elif code == SEND or code == REPLY:
            message = K_SEND
            if code == REPLY:
                peer = requests[script[pc, FIRST] + n[E_SOURCE], R_PEER]
            if script[pc, MODE] == EAGER:
                clock = when + second_half(x) + (length >> 3)
            else:
                clock = enter + log[at]
                n[E_LOG] = at + 1
        elif code == RECV or code == RECV_TASK or code == RECV_ANY:
            message = K_RECV
            waited = np.int64(log[at])
            n[E_LOG] = at + 1
            if code == RECV_ANY:
                n[E_SOURCE] = log[at + 1]
                n[E_LOG] = at + 2
                peer = requests[script[pc, FIRST] + n[E_SOURCE], R_PEER]
            elif waited < 0:
                waited, tag, length, following = ~waited, tag + 1, script[pc, RECEIVED], script[pc, TARGET]
            when = enter + waited
            clock = when + second_half(x)
        elif code == ISEND or code == IRECV:
            message = K_ISEND
            request = turn * spans[p, 4] + script[pc, REQUEST]
            clock = when + second_half(x)
            if code == IRECV:
                message, peer, communicator, tag, length = K_IRECV_REQUEST, -1, -1, -1, -1
        elif code == WAIT:
            clock = enter + log[at]
            n[E_LOG] = at + 1
            for i in range(script[pc, FIRST], script[pc, FIRST] + script[pc, COUNT]):
                k, peer, communicator, tag, length = K_ISEND_COMPLETE, -1, -1, -1, -1
                if requests[i, R_IS_SEND] == 0:
                    k, peer, communicator = K_IRECV, requests[i, R_PEER], requests[i, R_COMM]
                    tag, length = requests[i, R_TAG], requests[i, R_LENGTH]
                put_message(
                    n, time, kind, region, p2p, clock, k, peer, communicator, tag, length,
                    turn * spans[p, 4] + requests[i, R_REQUEST],
                )  # fmt: skip
                clock += STEP
            clock += second_half(x)
        elif code == COLLECTIVE or code == MANAGEMENT:
            clock = enter + log[at]
            n[E_LOG] = at + 1
            if code == COLLECTIVE:
                put_operation(n, time, kind, region, coll, enter, K_BEGIN, -1, -1, -1, -1, -1)
                put_operation(
                    n, time, kind, region, coll, clock, K_END, script[pc, OP], communicator, script[pc, ROOT], length,
                    script[pc, RECEIVED],
                )  # fmt: skip
                clock += second_half(x)
        if message >= 0:
            put_message(n, time, kind, region, p2p, when, message, peer, communicator, tag, length, request)
        put_step(n, time, kind, region, metrics, w, clock, K_EXIT, r)
        pc = following
    n[E_TURN] = turn
    n[E_PC] = pc
    n[E_CLOCK] = clock
