"""SHMEM: time in its functions by their names, as EXPERT groups them, and wait states from the records of one-sided
communication.

From descriptions, for want of recordings: EXPERT's groups, and under the default conventions the same groups of regions
of paradigm shmem. The wait states are those of MPI: barriers and collective operations of an active set, and its locks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.mpi.waits import BARRIER as BARRIERS
from tracecols.enhance.mpi.waits import N_TO_N, ONE_TO_N
from tracecols.enhance.scan.region_rules import RegionRule, called, either, named
from tracecols.model.model import Model
from tracecols.patterns.base import Family, region_of
from tracecols.patterns.found_by import InRegions, Pattern
from tracecols.patterns.matches import Matches
from tracecols.schema.enums import COLLECTIVE_OPS

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
    """Regions of SHMEM by lower-case name."""
    return named(pattern, "shmem")


ANY = shmem(".*")
_COLLECTIVE = shmem("p?shmem.*(broadcast|collect|_to_all|alltoall|reduce).*")
_BARRIER = shmem("p?shmem_(barrier|sync|team_sync).*")
_LOCK, _WAIT = shmem("p?shmem_.*_lock"), shmem("p?shmem_.*(wait|wait_until|_test)(_.*)?")
_INIT_EXIT = shmem("p?shmem_(init|finalize|init_thread)|start_pes|_?shmem_finalize")
_MEMORY = shmem("(p?shmem_)?(sh)?(malloc|calloc|free|realloc|align|memalign|palloc|pdeallc|pclmove)")
_ONE_SIDED = shmem(
    "p?shmem_(?!info|.*_(lock|wait|test|until)).*(get|put|_g|_p|swap|add|inc|fetch|set|_and|_or|_xor)([0-9_].*)?"
)

for id, parent, title, what, regions, recorded in (
    ("shmem", "execution", "SHMEM", "calls of SHMEM", either(COMMUNICATION, SYNCHRONIZATION), ANY),
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
    # a title that MPI's properties have alone stays theirs
    ours = (
        {"found": InRegions(recorded), "needs": "shmem_calls"}
        if is_root
        else {"found": InRegions(recorded), "title": f"SHMEM {title}"}
    )
    declare(
        id, parent, title, f"Time spent in {what}.", InRegions(regions), scalasca=ours,
        expert={"needs": "shmem"} if is_root else {},
    )  # fmt: skip


def until(m: CompoundTable, time: NDArray[np.int64], ops: tuple[str, ...]) -> NDArray[np.int64]:
    """From own enter to a time, or to the end of the call; 0 for other operations and where the time is not known."""
    known = np.isin(m.op, [COLLECTIVE_OPS.index(op) for op in ops]) & (time >= 0)
    return np.where(known, np.minimum(time, m.exit_time) - m.enter_time, 0)


def wait_for_last(model: Model, m: CompoundTable, parent: Matches, *, ops: tuple[str, ...]) -> Matches:
    """Until the last one has entered."""
    wait = until(m, m.latest_enter_time, ops)
    return parent.where((wait > 0) & region_of(model, m.call_path, ANY), severity=wait)


for id, parent, title, what, ops in (
    ("shmem_barrier_wait", "shmem_barrier", "Wait at SHMEM Barrier", "a barrier", BARRIERS),
    ("shmem_wait_nxn", "shmem_collective", "Wait at SHMEM N x N", "an n-to-n operation", N_TO_N),
):
    declare(
        id, parent, title, f"Time in {what} of SHMEM until the last process of the active set has reached it.",
        Pattern("window_members", since="enter_time"), scalasca={"ops": ops}, expert={"ops": ops},
        advice="Balance the work in front of it.",
    )(wait_for_last)  # fmt: skip


@declare(
    "shmem_latebroadcast", "shmem_collective", "Late SHMEM Broadcast",
    "Time in a broadcast of SHMEM until its root has reached it.", Pattern("window_members", since="enter_time"),
    expert={}, advice="Let the root begin earlier, or choose the process that is ready first.",
)  # fmt: skip
def late_broadcast(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Until the root has entered."""
    wait = np.where(m.is_root, 0, until(m, m.root_enter_time, ONE_TO_N))
    return parent.where((wait > 0) & region_of(model, m.call_path, ANY), severity=wait)


@declare(
    "shmem_lock_competition", "shmem_p2p_synchronization", "SHMEM Lock Competition",
    "Time in shmem_set_lock until the process that held the lock before releases it.",
    Pattern("lock_epochs", until="previous_release_time"), expert={}, advice="Hold locks shorter, or use several.",
)  # fmt: skip
def lock_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that takes the lock to its release before."""
    wait = np.minimum(m.previous_release_time, m.lock_exit_time) - m.lock_enter_time
    waits = (m.previous_release_time >= 0) & (wait > 0) & region_of(model, m.lock_call_path, ANY)
    return parent.where(waits, severity=wait)
