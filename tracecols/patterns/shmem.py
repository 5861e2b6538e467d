"""SHMEM: time in its functions by their names, as EXPERT groups them, and wait states from the records of one-sided
communication.

For want of recordings, they follow descriptions: EXPERT's groups, and, under the default conventions, the same groups
of regions of paradigm shmem. The wait states are those of MPI: barriers and collective operations of an active set, and
its locks.
"""

from __future__ import annotations

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.mpi.operation_waits import SHMEM, are_of, wait_for_shmem_locks, wait_in_shmem
from tracecols.enhance.mpi.waits import BARRIER as BARRIERS
from tracecols.enhance.mpi.waits import N_TO_N, ONE_TO_N
from tracecols.enhance.scan.region_rules import RegionRule, called, either, named
from tracecols.model.model import Model
from tracecols.patterns.base import Family
from tracecols.patterns.found_by import InRegions, Pattern
from tracecols.patterns.matches import Matches
from tracecols.patterns.windows import LAST_AT_WINDOWS, OWNER_BEFORE

FAMILY = Family("SHMEM")
declare = FAMILY.declare

COLLECTIVE = called("shmem_.*(broadcast|collect|_to_all).*")
ONE_SIDED = called("shmem_.*(get|put|_g|_p|swap|add|inc)([0-9_].*)?")
BARRIER = called("shmem_barrier.*")
LOCK = called("shmem_.*_lock")
WAIT = called("shmem_.*(wait|wait_until)")
INIT_EXIT = called("shmem_(init|finalize)|start_pes")
MEMORY = called("sh(malloc|free|realloc|memalign)")
COMMUNICATION = either(COLLECTIVE, ONE_SIDED)
SYNCHRONIZATION = either(BARRIER, LOCK, WAIT, INIT_EXIT, MEMORY)


def shmem(pattern: str) -> RegionRule:
    """Return a rule that selects regions of SHMEM by lower-case name."""
    return named(pattern, "shmem")


_COLLECTIVE = shmem("p?shmem.*(broadcast|collect|_to_all|alltoall|reduce).*")
_BARRIER = shmem("p?shmem_(barrier|sync|team_sync).*")
_LOCK, _WAIT = shmem("p?shmem_.*_lock"), shmem("p?shmem_.*(wait|wait_until|_test)(_.*)?")
_INIT_EXIT = shmem("p?shmem_(init|finalize|init_thread)|start_pes|_?shmem_finalize")
_MEMORY = shmem("(p?shmem_)?(sh)?(malloc|calloc|free|realloc|align|memalign|palloc|pdeallc|pclmove)")
_ONE_SIDED = shmem(
    "p?shmem_(?!info|.*_(lock|wait|test|until)).*(get|put|_g|_p|swap|add|inc|fetch|set|_and|_or|_xor)([0-9_].*)?"
)

ADVICE = {
    "shmem": "Compare with the number of operations and what they transfer; overlap transfers with computation.",
    "shmem_init_exit": "It happens once: measure a longer run, or ignore it.",
    "shmem_memory_management": (
        "Allocate once and use the memory again: allocation of symmetric memory synchronises all processes."
    ),
}

for id, parent, title, what, regions, recorded in (
    ("shmem", "execution", "SHMEM", "calls of SHMEM", either(COMMUNICATION, SYNCHRONIZATION), SHMEM),
    (
        "shmem_communication",
        "shmem",
        "Communication",
        "SHMEM calls that transfer data",
        COMMUNICATION,
        either(_COLLECTIVE, _ONE_SIDED),
    ),
    ("shmem_collective", "shmem_communication", "Collective", "collective communication", COLLECTIVE, _COLLECTIVE),
    ("shmem_rma_communication", "shmem_communication", "One-sided", "one-sided communication", ONE_SIDED, _ONE_SIDED),
    (
        "shmem_synchronization",
        "shmem",
        "Synchronization",
        "SHMEM calls that synchronise",
        SYNCHRONIZATION,
        either(_BARRIER, _LOCK, _WAIT, _INIT_EXIT, _MEMORY),
    ),
    ("shmem_barrier", "shmem_synchronization", "Barrier", "barriers", BARRIER, _BARRIER),
    (
        "shmem_p2p_synchronization",
        "shmem_synchronization",
        "P2P Synchronization",
        "locks and waits",
        either(LOCK, WAIT),
        either(_LOCK, _WAIT),
    ),
    ("shmem_init_exit", "shmem_synchronization", "Init/Exit", "initialisation and finalisation", INIT_EXIT, _INIT_EXIT),
    ("shmem_memory_management", "shmem_synchronization", "Memory Management", "management of memory", MEMORY, _MEMORY),
):
    is_root = parent == "execution"
    # titles of MPI properties stay unique
    ours = (
        {"found": InRegions(recorded), "needs": "shmem_calls"}
        if is_root
        else {"found": InRegions(recorded), "title": f"SHMEM {title}"}
    )
    declare(
        id,
        parent,
        title,
        f"Time spent in {what}.",
        InRegions(regions),
        scalasca=ours,
        expert={"needs": "shmem"} if is_root else {},
        advice=ADVICE.get(id, ""),
    )


BALANCE = "Balance the work in front of it."


def wait_in_operation(model: Model, m: CompoundTable, parent: Matches, *, ops: tuple[str, ...]) -> Matches:
    """From own enter until the last process has entered, or the root."""
    wait, waits = wait_in_shmem(model.facts, m)
    return parent.where(waits & are_of(m, ops), severity=wait)


LAST = "the last process of the active set"

for id, parent, title, what, who, ops, advice in (
    ("shmem_barrier_wait", "shmem_barrier", "Wait at SHMEM Barrier", "a barrier", LAST, BARRIERS, BALANCE),
    ("shmem_wait_nxn", "shmem_collective", "Wait at SHMEM N x N", "an n-to-n operation", LAST, N_TO_N, BALANCE),
    (
        "shmem_latebroadcast",
        "shmem_collective",
        "Late SHMEM Broadcast",
        "a broadcast",
        "its root",
        ONE_TO_N,
        "Let the root begin earlier, or choose the process that is ready first.",
    ),
):
    declare(
        id,
        parent,
        title,
        f"Time in {what} of SHMEM until {who} has reached it.",
        Pattern("window_members", since="enter_time", cause=LAST_AT_WINDOWS),
        scalasca={"ops": ops},
        expert={"ops": ops},
        advice=advice,
        delay="delay_shmem_aggregate",
    )(wait_in_operation)


@declare(
    "shmem_lock_competition",
    "shmem_p2p_synchronization",
    "SHMEM Lock Competition",
    "Time in shmem_set_lock until the process that held the lock before releases it.",
    Pattern("lock_epochs", since="lock_enter_time", cause=OWNER_BEFORE),
    expert={},
    advice="Hold locks shorter, or use several.",
    delay="delay_shmem_aggregate",
)
def lock_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that takes the lock to its release by the previous owner."""
    wait, waits = wait_for_shmem_locks(model.facts, m)
    return parent.where(waits, severity=wait)
