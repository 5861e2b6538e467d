"""OpenMP and POSIX threads: management, barriers, locks."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.regions import CONSTRUCTS
from tracecols.enhance.mpi.waits import CONDITION, CRITICAL, MUTEX, OPENMP, wait_for_locks, wait_for_threads
from tracecols.model.model import Model
from tracecols.patterns.base import Cause, Causes, Family, Findings, Matches, called, either, in_role, named, region_of
from tracecols.severity.cells import Cells

FAMILY = Family("threads")
add, pattern = FAMILY.add, FAMILY.pattern

POSIX = named(".*", "pthread")

# what EXPERT takes for OpenMP: its API by name, and these constructs; others are plain execution
LOCK_API = called("(?i:omp).*lock")
BARRIERS = in_role(["barrier", "implicit_barrier"], "openmp")
SYNCHRONIZATION = either(LOCK_API, BARRIERS, in_role(["critical"], "openmp"))
RUN_TIME = either(called("(?i:omp).+"), SYNCHRONIZATION, in_role(["flush"], "openmp"))
API_CALL = in_role(["function", "wrapper"])
CRITICAL_CONSTRUCT = in_role(["critical"], "openmp")

add("omp_time", "execution", "OpenMP", "Time spent in the OpenMP run-time system and API.", of="children")


@FAMILY.basic(
    "omp_management", "omp_time", "Management",
    summary="Time spent creating teams of threads and ending them.",
    advice="Join small parallel regions to larger ones, or use fewer threads in them.",
)  # fmt: skip
def omp_management(model: Model, findings: Findings) -> Cells:
    """From FORK to each thread's ENTER, and from its EXIT to JOIN."""
    return findings.teams.fork + findings.teams.join


@FAMILY.basic(
    "omp", "execution", "OMP", summary="Time spent in the OpenMP run-time system and API, and forking.",
    scalasca=None, expert={"needs": "threads"},
)  # fmt: skip
def omp(model: Model, findings: Findings) -> Cells:
    """Region rule, and the time to fork, which lies on call paths of any region."""
    return findings.execution.on(RUN_TIME(model.regions)[model.call_paths.region]) + forks(model, findings)


def forks(model: Model, findings: Findings) -> Cells:
    """From FORK to the forking thread's ENTER, on the call path that forks."""
    return findings.teams.forks


@FAMILY.basic(
    "omp_fork", "omp_management", "Fork", summary="Time spent creating and starting teams of threads.",
    expert={"parent": "omp", "cells": forks},
)  # fmt: skip
def omp_fork(model: Model, findings: Findings) -> Cells:
    """From FORK to each thread's ENTER."""
    return findings.teams.fork


add(
    "omp_synchronization", "omp_time", "Synchronization", "Time spent in OpenMP synchronisation.",
    scalasca={"of": "children"}, expert={"parent": "omp", "regions": SYNCHRONIZATION},
)  # fmt: skip
add(
    "omp_barrier", "omp_synchronization", "Barrier", "Time spent in OpenMP barriers.",
    scalasca={"of": "children"}, expert={"regions": BARRIERS},
)  # fmt: skip
add(
    "omp_ebarrier", "omp_barrier", "Explicit", "Time spent in explicit OpenMP barriers.",
    regions=in_role(["barrier"], "openmp"), expert={"id": "omp_explicit_barrier"},
)  # fmt: skip
add(
    "omp_ibarrier", "omp_barrier", "Implicit", "Time spent in implicit OpenMP barriers.",
    regions=in_role(["implicit_barrier"], "openmp"), expert={"id": "omp_implicit_barrier"},
)  # fmt: skip


def last_thread(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the threads that enter constructs last."""
    last = model.constructs.latest_member[m.construct[matches.row]]
    return Causes(m.location[last], m.call_path[last], m.enter_time[last])


OWNER_BEFORE = Cause("previous_owner", "previous_call_path", "previous_release_time")


def barrier_wait(model: Model, m: CompoundTable, parent: Matches, role: str, by_process: bool) -> Matches:
    """From own enter to the latest enter of the team, without tasks that were executed in the barrier.

    For EXPERT tasks do not matter, and all threads of the process have to come.
    """
    wait = m.latest_enter_time - m.enter_time
    fits = m.role_number == CONSTRUCTS.index(role)
    if by_process:
        fits &= model.constructs.n_members[m.construct] == model.locations.n_threads[m.location]
    else:
        wait = wait - m.task_time
    return parent.where(fits & (wait > 0), severity=wait)


@pattern(
    "omp_ebarrier_wait", "omp_ebarrier", "Wait at Explicit Barrier", table="construct_members", since="enter_time", ends_with_call=False, cause=last_thread,
    summary="Time in an explicit barrier until the last thread of the team has reached it.",
    advice="Balance the work in front of the barrier.",
    expert={"parent": "omp_explicit_barrier", "by_process": True},
)  # fmt: skip
def explicit_barrier_wait(model: Model, m: CompoundTable, parent: Matches, *, by_process: bool = False) -> Matches:
    """Wait at barriers of role barrier."""
    return barrier_wait(model, m, parent, "barrier", by_process)


@pattern(
    "omp_ibarrier_wait", "omp_ibarrier", "Wait at Implicit Barrier", table="construct_members", since="enter_time", ends_with_call=False, cause=last_thread,
    summary="Time in an implicit barrier until the last thread of the team has reached it.",
    advice="Try another schedule, balance the work, or use nowait where the barrier is not needed.",
    expert={"parent": "omp_implicit_barrier", "by_process": True},
)  # fmt: skip
def implicit_barrier_wait(model: Model, m: CompoundTable, parent: Matches, *, by_process: bool = False) -> Matches:
    """Wait at barriers of role implicit barrier."""
    return barrier_wait(model, m, parent, "implicit_barrier", by_process)


add(
    "omp_critical",
    "omp_synchronization",
    "Critical",
    "Time spent waiting at critical sections and in atomics.",
    regions=in_role(["critical", "atomic"], "openmp"),
)
add(
    "omp_lock_api", "omp_synchronization", "Lock API", "Time spent in calls of the OpenMP lock API.",
    regions=named("omp_(destroy|init|set|test|unset)(_nest)?_lock", "openmp"),
)  # fmt: skip


def contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that acquires the lock to the release by its owner before; order 0 means no
    acquisition."""
    wait, waits = wait_for_locks(model.facts, m)
    return parent.where(waits, severity=wait)


@pattern(
    "omp_lock_contention_critical", "omp_critical", "Contention", table="lock_acquisitions", since="enter_time",
    ends_with_call=False, cause=OWNER_BEFORE,
    summary="Time lost before a critical section because another thread is inside.",
    advice="Make critical sections shorter or fewer, or stagger the arrival of threads.",
)  # fmt: skip
def critical_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a critical region."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, CRITICAL))


@pattern(
    "omp_lock_contention_api", "omp_lock_api", "Contention", table="lock_acquisitions", since="enter_time",
    ends_with_call=False, cause=OWNER_BEFORE,
    summary="Time lost waiting for a lock that another thread holds.",
    advice="Hold locks shorter, use more of them, or data structures without locks.",
)  # fmt: skip
def lock_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by any other OpenMP region."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, OPENMP) & ~region_of(model, found.call_path, CRITICAL))


@pattern(
    "omp_lock_competition", "omp_synchronization", "Lock Competition", table="lock_acquisitions", since="enter_time",
    summary="Time lost waiting for a lock or a critical section that another thread holds.",
    advice="Hold locks shorter, use more of them, or data structures without locks.",
    scalasca=None, expert={},
)  # fmt: skip
def lock_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that acquires the lock to the last event of that lock before (lockptr, thesis 3.16)."""
    wait = np.where(m.lockptr >= 0, m.lockptr_time - m.enter_time, 0)
    # mutexes of POSIX threads, which EXPERT did not know, are none of OpenMP's locks
    waits = (wait > 0) & (m.enter >= 0) & ~region_of(model, parent.call_path, POSIX)
    return parent.where(waits, severity=wait)


@pattern(
    "omp_lock_api", "omp_lock_competition", "API", table="lock_acquisitions", since="enter_time",
    summary="Time lost waiting for a lock that another thread holds.", scalasca=None, expert={},
)  # fmt: skip
def api_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a function."""
    return parent.where(region_of(model, parent.call_path, API_CALL))


@pattern(
    "omp_lock_critical", "omp_lock_competition", "Critical", table="lock_acquisitions", since="enter_time",
    summary="Time lost before a critical section because another thread is inside.", scalasca=None, expert={},
)  # fmt: skip
def critical_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by a critical region."""
    return parent.where(region_of(model, parent.call_path, CRITICAL_CONSTRUCT))


add(
    "omp_ordered",
    "omp_synchronization",
    "Ordered",
    "Time spent waiting to enter ordered sections.",
    regions=in_role(["ordered"], "openmp"),
    is_wait=True,
)
add(
    "omp_taskwait",
    "omp_synchronization",
    "Taskwait",
    "Time spent waiting for child tasks.",
    regions=in_role(["task_wait"], "openmp"),
    is_wait=True,
)
add(
    "omp_flush", "omp_time", "Flush", "Time spent in OpenMP flush directives.", regions=in_role(["flush"], "openmp"),
    expert={"parent": "omp"},
)  # fmt: skip

add("pthread_time", "execution", "POSIX Threads", "Time spent in calls of the POSIX threads API.", of="children")
add(
    "pthread_management", "pthread_time", "Management", "Time spent in management of POSIX threads.",
    regions=named("pthread_(cancel|create|detach|exit|join)", "pthread"),
)  # fmt: skip


def thread_joined(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the threads whose ends are waited for; no call path ends them."""
    row = matches.row
    return Causes(m.location[row], np.full(row.size, -1), m.end_time[row])


@pattern(
    "pthread_join_wait", "pthread_management", "Wait at Join", table="created_threads", since="join_enter_time", cause=thread_joined,
    summary="Time lost in joining a thread that still runs.",
    advice="Join later, give the joining thread a part of the work, or balance the work of the threads.",
)  # fmt: skip
def join_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that joins to the end of the thread, within the call."""
    until, waits = wait_for_threads(m)
    return parent.where(waits, severity=until - m.join_enter_time)


add(
    "pthread_synchronization",
    "pthread_time",
    "Synchronization",
    "Time spent in synchronisation of POSIX threads.",
    of="children",
)
add(
    "pthread_lock_api", "pthread_synchronization", "Mutex", "Time spent in the mutex API.",
    regions=named("pthread_mutex_(destroy|init|lock|trylock|unlock)", "pthread"),
)  # fmt: skip


@pattern(
    "pthread_lock_contention_mutex_lock", "pthread_lock_api", "Contention", table="lock_acquisitions", since="enter_time",
    ends_with_call=False, cause=OWNER_BEFORE,
    summary="Time lost waiting for a mutex that another thread holds.",
)  # fmt: skip
def mutex_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by mutex calls."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, MUTEX))


add(
    "pthread_conditional", "pthread_synchronization", "Condition", "Time spent in the condition variable API.",
    regions=named("pthread_cond_(broadcast|destroy|init|signal|timedwait|wait)", "pthread"),
)  # fmt: skip


@pattern(
    "pthread_lock_contention_conditional", "pthread_conditional", "Contention", table="lock_acquisitions", since="enter_time",
    ends_with_call=False, cause=OWNER_BEFORE,
    summary="Time lost waiting for a mutex after a condition was signalled.",
)  # fmt: skip
def condition_contention(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Locks acquired by waiting for a condition."""
    found = contention(model, m, parent)
    return found.where(region_of(model, found.call_path, CONDITION))
