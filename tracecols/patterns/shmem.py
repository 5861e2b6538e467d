"""SHMEM by the names of its functions, as EXPERT groups them; from its description, for want of recordings."""

from __future__ import annotations

from tracecols.patterns.base import Family, called, either

FAMILY = Family("SHMEM")

COLLECTIVE = called("shmem_.*(broadcast|collect|_to_all).*")
ONE_SIDED = called("shmem_.*(get|put|_g|_p|swap|add|inc)([0-9_].*)?")
BARRIER = called("shmem_barrier.*")
LOCK = called("shmem_.*_lock")
WAIT = called("shmem_.*(wait|wait_until)")
INIT_EXIT = called("shmem_(init|finalize)|start_pes")
MEMORY = called("sh(malloc|free|realloc|memalign)")
COMMUNICATION = either(COLLECTIVE, ONE_SIDED)
SYNCHRONIZATION = either(BARRIER, LOCK, WAIT, INIT_EXIT, MEMORY)

for id, parent, title, what, regions in (
    ("shmem", "execution", "SHMEM", "calls of SHMEM", either(COMMUNICATION, SYNCHRONIZATION)),
    ("shmem_communication", "shmem", "Communication", "SHMEM calls that transfer data", COMMUNICATION),
    ("shmem_collective", "shmem_communication", "Collective", "collective communication", COLLECTIVE),
    ("shmem_rma_communication", "shmem_communication", "One-sided", "one-sided communication", ONE_SIDED),
    ("shmem_synchronization", "shmem", "Synchronization", "SHMEM calls that synchronise", SYNCHRONIZATION),
    ("shmem_barrier", "shmem_synchronization", "Barrier", "barriers", BARRIER),
    ("shmem_p2p_synchronization", "shmem_synchronization", "P2P Synchronization", "locks and waits", either(LOCK, WAIT)),
    ("shmem_init_exit", "shmem_synchronization", "Init/Exit", "initialisation and finalisation", INIT_EXIT),
    ("shmem_memory_management", "shmem_synchronization", "Memory Management", "management of memory", MEMORY),
):  # fmt: skip
    needs = {"needs": "shmem"} if parent == "execution" else {}
    FAMILY.add(id, parent, title, f"Time spent in {what}.", regions=regions, scalasca=None, expert=needs)
