"""OpenMP and POSIX threads: management, barriers, locks."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.regions import CONSTRUCTS
from tracecols.enhance.mpi.waits import CRITICAL, MUTEX, OPENMP, wait_for_locks, wait_for_signals, wait_for_threads
from tracecols.enhance.scan.region_rules import CONDITION, called, either, in_role, named
from tracecols.model.model import Model
from tracecols.patterns.base import Family, Findings, region_of
from tracecols.patterns.found_by import Computed, InRegions, Pattern, SumOf
from tracecols.patterns.matches import Cause, Causes, Matches
from tracecols.severity.cells import Cells

FAMILY = Family("threads")
declare = FAMILY.declare

POSIX = named(".*", "pthread")

# EXPERT counts the OpenMP API, by name, and these constructs as OpenMP; others are plain execution
LOCK_API = called("(?i:omp).*lock")
BARRIERS = in_role(["barrier", "implicit_barrier"], "openmp")
SYNCHRONIZATION = either(LOCK_API, BARRIERS, in_role(["critical"], "openmp"))
RUN_TIME = either(called("(?i:omp).+"), SYNCHRONIZATION, in_role(["flush"], "openmp"))
API_CALL = in_role(["function", "wrapper"])
CRITICAL_CONSTRUCT = in_role(["critical"], "openmp")

declare(
    "omp_time",
    "execution",
    "OpenMP",
    "Time spent in the OpenMP run-time system and API.",
    SumOf(),
    advice="Join small parallel regions and barriers, or use fewer threads for them.",
)


@declare(
    "omp_management",
    "omp_time",
    "Management",
    "Time spent creating teams of threads and ending them.",
    Computed(),
    advice="Join small parallel regions to larger ones, or use fewer threads in them.",
    is_heading=True,
    part="management",
    is_lost_in_reference=True,
)
def omp_management(model: Model, findings: Findings) -> Cells:
    """From FORK to each thread's ENTER, and from its EXIT to JOIN."""
    return findings.teams.fork + findings.teams.join


@declare(
    "omp",
    "execution",
    "OMP",
    "Time spent in the OpenMP run-time system and API, and forking.",
    Computed(),
    scalasca=None,
    expert={"needs": "threads"},
)
def omp(model: Model, findings: Findings) -> Cells:
    """Time in regions that fit the rule, and the time to fork, which lies on call paths of any region."""
    return findings.execution.on(RUN_TIME(model.regions)[model.call_paths.region]) + forks(model, findings)


def forks(model: Model, findings: Findings) -> Cells:
    """From FORK to the forking thread's ENTER, on the call path that forks."""
    return findings.teams.forks


@declare(
    "omp_fork",
    "omp_management",
    "Fork",
    "Time spent creating and starting teams of threads.",
    Computed(),
    expert={"parent": "omp", "function": forks},
    advice="Join small parallel regions to larger ones, or use fewer threads in them.",
)
def omp_fork(model: Model, findings: Findings) -> Cells:
    """From FORK to each thread's ENTER."""
    return findings.teams.fork


declare(
    "omp_synchronization",
    "omp_time",
    "Synchronization",
    "Time spent in OpenMP synchronisation.",
    SumOf(),
    expert={"parent": "omp", "found": InRegions(SYNCHRONIZATION)},
    is_heading=True,
)
declare(
    "omp_barrier",
    "omp_synchronization",
    "Barrier",
    "Time spent in OpenMP barriers.",
    SumOf(),
    expert={"found": InRegions(BARRIERS)},
    is_heading=True,
)


def last_thread(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the threads that enter constructs last."""
    last = model.constructs.latest_member[m.construct[matches.row]]
    return Causes(m.location[last], m.call_path[last], m.enter_time[last])


OWNER_BEFORE = Cause("previous_owner", "previous_call_path", "previous_release_time")
SIGNALLER = Cause("signal_location", "signal_call_path", "signal_time")


def barrier_wait(model: Model, m: CompoundTable, parent: Matches, *, role: str, by_process: bool = False) -> Matches:
    """From own enter to the latest enter of the team, without tasks that were executed in the barrier.

    Barriers that are never left have no time, and so no wait. EXPERT ignores tasks, and requires all threads of the
    process to take part.
    """
    wait = m.latest_enter_time - m.enter_time
    fits = (m.role_number == CONSTRUCTS.index(role)) & (m.exit >= 0)
    if by_process:
        fits &= model.constructs.n_members[m.construct] == model.locations.n_threads[m.location]
    else:
        wait = wait - m.task_time
    return parent.where(fits & (wait > 0), severity=wait)


for id, expert_id, title, role, advice in (
    ("omp_ebarrier", "omp_explicit_barrier", "Explicit", "barrier", "Balance the work in front of the barrier."),
    (
        "omp_ibarrier",
        "omp_implicit_barrier",
        "Implicit",
        "implicit_barrier",
        "Try another schedule, balance the work, or use nowait where the barrier is not needed.",
    ),
):
    declare(
        id,
        "omp_barrier",
        title,
        f"Time spent in {title.lower()} OpenMP barriers.",
        InRegions(in_role([role], "openmp")),
        expert={"id": expert_id},
    )
    declare(
        f"{id}_wait",
        id,
        f"Wait at {title} Barrier",
        f"Time in an {title.lower()} barrier until the last thread of the team has reached it.",
        Pattern("construct_members", since="enter_time", cause=last_thread, ends_with_call=False),
        advice=advice,
        scalasca={"role": role},
        expert={"parent": expert_id, "role": role, "by_process": True},
        delay="delay_ompbarrier_aggregate",
        is_lost_in_reference=True,
    )(barrier_wait)
declare(
    "omp_critical",
    "omp_synchronization",
    "Critical",
    "Time spent waiting at critical sections and in atomics.",
    InRegions(in_role(["critical", "atomic"], "openmp")),
)
declare(
    "omp_lock_api",
    "omp_synchronization",
    "Lock API",
    "Time spent in calls of the OpenMP lock API.",
    InRegions(named("omp_(destroy|init|set|test|unset)(_nest)?_lock", "openmp")),
)


def contention(model: Model, m: CompoundTable, parent: Matches, since: str = "enter_time") -> Matches:
    """From entering the call that acquires the lock to its release by the previous owner; order 0 means no
    acquisition."""
    wait, waits = wait_for_locks(model.facts, m, since)
    return parent.where(waits, severity=wait)


@declare(
    "omp_lock_contention_critical",
    "omp_critical",
    "Contention",
    "Time lost before a critical section because another thread is inside.",
    Pattern("lock_acquisitions", since="enter_time", cause=OWNER_BEFORE, ends_with_call=False),
    advice="Make critical sections shorter or fewer, or stagger the arrival of threads.",
    delay="delay_lock_aggregate",
    is_lost_in_reference=True,
)
def critical_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a critical region."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, CRITICAL))


@declare(
    "omp_lock_contention_api",
    "omp_lock_api",
    "Contention",
    "Time lost waiting for a lock that another thread holds.",
    Pattern("lock_acquisitions", since="enter_time", cause=OWNER_BEFORE, ends_with_call=False),
    advice="Hold locks shorter, use more of them, or data structures without locks.",
    delay="delay_lock_aggregate",
    is_lost_in_reference=True,
)
def lock_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by any other OpenMP region."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, OPENMP) & ~region_of(model, found.call_path, CRITICAL))


@declare(
    "omp_lock_competition",
    "omp_synchronization",
    "Lock Competition",
    "Time lost waiting for a lock or a critical section that another thread holds.",
    Pattern("lock_acquisitions", since="enter_time"),
    advice="Hold locks shorter, use more of them, or data structures without locks.",
    scalasca=None,
    expert={},
)
def lock_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that acquires the lock to the previous event of the same lock (lockptr, thesis 3.16)."""
    wait = np.where(m.lockptr >= 0, m.lockptr_time - m.enter_time, 0)
    # mutexes of POSIX threads, which EXPERT did not know, are not OpenMP locks
    waits = (wait > 0) & (m.enter >= 0) & ~region_of(model, parent.call_path, POSIX)
    return parent.where(waits, severity=wait)


@declare(
    "omp_lock_api",
    "omp_lock_competition",
    "API",
    "Time lost waiting for a lock that another thread holds.",
    Pattern("lock_acquisitions", since="enter_time"),
    scalasca=None,
    expert={},
)
def api_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a function."""
    return parent.where(region_of(model, parent.call_path, API_CALL))


@declare(
    "omp_lock_critical",
    "omp_lock_competition",
    "Critical",
    "Time lost before a critical section because another thread is inside.",
    Pattern("lock_acquisitions", since="enter_time"),
    scalasca=None,
    expert={},
)
def critical_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a critical region."""
    return parent.where(region_of(model, parent.call_path, CRITICAL_CONSTRUCT))


declare(
    "omp_ordered",
    "omp_synchronization",
    "Ordered",
    "Time spent waiting to enter ordered sections.",
    InRegions(in_role(["ordered"], "openmp")),
    is_wait=True,
    is_lost_in_reference=True,
    advice="Do less in ordered sections, or collect results and use them in order after the loop.",
)
declare(
    "omp_taskwait",
    "omp_synchronization",
    "Taskwait",
    "Time spent waiting for child tasks.",
    InRegions(in_role(["task_wait"], "openmp")),
    is_wait=True,
    advice="Create tasks early and of similar size, and wait for them late.",
)
declare(
    "omp_flush",
    "omp_time",
    "Flush",
    "Time spent in OpenMP flush directives.",
    InRegions(in_role(["flush"], "openmp")),
    expert={"parent": "omp"},
    advice="Leave out flushes that a barrier, an atomic operation or a lock implies.",
)

declare(
    "pthread_time",
    "execution",
    "POSIX Threads",
    "Time spent in calls of the POSIX threads API.",
    SumOf(),
    advice="Hold locks shorter, use more of them, and create threads once instead of often.",
)
declare(
    "pthread_management",
    "pthread_time",
    "Management",
    "Time spent in management of POSIX threads.",
    InRegions(named("pthread_(cancel|create|detach|exit|join)", "pthread")),
)


def thread_joined(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the threads whose ends are waited for; their call path is -1."""
    row = matches.row
    return Causes(m.location[row], np.full(row.size, -1), m.end_time[row])


@declare(
    "pthread_join_wait",
    "pthread_management",
    "Wait at Join",
    "Time lost in joining a thread that still runs.",
    Pattern("created_threads", since="join_enter_time", cause=thread_joined),
    advice="Join later, give the joining thread a part of the work, or balance the work of the threads.",
    delay="delay_join_aggregate",
)
def join_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that joins to the end of the thread, within the call."""
    until, waits = wait_for_threads(m)
    return parent.where(waits, severity=until - m.join_enter_time)


declare(
    "pthread_synchronization",
    "pthread_time",
    "Synchronization",
    "Time spent in synchronisation of POSIX threads.",
    SumOf(),
)
declare(
    "pthread_lock_api",
    "pthread_synchronization",
    "Mutex",
    "Time spent in the mutex API.",
    InRegions(named("pthread_mutex_(destroy|init|lock|trylock|unlock)", "pthread")),
)


@declare(
    "pthread_lock_contention_mutex_lock",
    "pthread_lock_api",
    "Contention",
    "Time lost waiting for a mutex that another thread holds.",
    Pattern("lock_acquisitions", since="enter_time", cause=OWNER_BEFORE, ends_with_call=False),
    delay="delay_lock_aggregate",
)
def mutex_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by mutex calls."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, MUTEX))


declare(
    "pthread_conditional",
    "pthread_synchronization",
    "Condition",
    "Time spent in the condition variable API.",
    InRegions(named("pthread_cond_(broadcast|destroy|init|signal|timedwait|wait)", "pthread")),
    advice="Who waits for a condition waits for work: give it out earlier or in larger portions, or use fewer threads.",
)


@declare(
    "pthread_lock_contention_conditional",
    "pthread_conditional",
    "Contention",
    "Time lost waiting for a mutex after a condition was signalled.",
    Pattern("lock_acquisitions", since="enter_time", cause=OWNER_BEFORE, ends_with_call=False),
    delay="delay_lock_aggregate",
    exact={"since": "lock_wait_time", "after_signal": True},
)
def condition_contention(model: Model, m: CompoundTable, parent: Matches, *, after_signal: bool = False) -> Matches:
    """Locks acquired by waiting for a condition.

    For Scalasca the time before the signal is contention, too.
    """
    found = contention(model, m, parent, "lock_wait_time" if after_signal else "enter_time")
    return found.where(region_of(model, found.call_path, CONDITION))


@declare(
    "pthread_condition_wait",
    "pthread_conditional",
    "Wait for Condition",
    "Time lost waiting for another thread to signal a condition: waiting for work.",
    Pattern("lock_acquisitions", since="enter_time", cause=SIGNALLER),
    advice="Give out work earlier or in larger portions, or use fewer threads.",
    delay="delay_condition_aggregate",
    scalasca=None,
    exact={},
)
def condition_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that waits to the signal."""
    wait, waits = wait_for_signals(m)
    return parent.where(waits, severity=wait)
