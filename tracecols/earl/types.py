"""The hierarchy of event types (thesis, figure 3.8; EARL 2), and the type of each kind of event.

Types are names, where possible those of EARL; events that EARL does not know are plain `EVENT`, and their `kind` is
more specific.
"""

from __future__ import annotations

from tracecols.schema import EventKind as K

PARENTS: dict[str, str] = {
    "EVENT": "",
    "FLOW": "EVENT",
    "ENTER": "FLOW",
    "EXIT": "FLOW",
    "MPICEXIT": "EXIT",
    "OMPCEXIT": "EXIT",
    "MPIWCEXIT": "EXIT",
    "MPIWEXIT": "EXIT",
    "COLLEXIT": "EXIT",
    "P2P": "EVENT",
    "SEND": "P2P",
    "RECV": "P2P",
    "TEAM": "EVENT",
    "FORK": "TEAM",
    "JOIN": "TEAM",
    "OMPSYNC": "EVENT",
    "OMPALOCK": "OMPSYNC",
    "OMPRLOCK": "OMPSYNC",
    "SYNC": "EVENT",
    "ALOCK": "SYNC",
    "RLOCK": "SYNC",
    "MPIRMA": "EVENT",
    "MPIRMACOMM": "MPIRMA",
    "MPIPUT1TS": "MPIRMACOMM",
    "MPIPUT1TE": "MPIRMACOMM",
    "MPIGET1TS": "MPIRMACOMM",
    "MPIGET1TE": "MPIRMACOMM",
    "MPIGET1TO": "MPIRMACOMM",
    "MPIRMASYNC": "MPIRMA",
    "MPIWLOCK": "MPIRMASYNC",
    "MPIWUNLOCK": "MPIRMASYNC",
    "RMACOMM": "EVENT",
    "PUT1TS": "RMACOMM",
    "PUT1TE": "RMACOMM",
    "GET1TS": "RMACOMM",
    "GET1TE": "RMACOMM",
}
"""Parent of each type."""

TYPES: tuple[str, ...] = tuple(PARENTS)
"""The types by their number in an index."""

NUMBER: dict[str, int] = {name: i for i, name in enumerate(TYPES)}

OF_KIND: dict[K, str] = {
    K.ENTER: "ENTER",
    K.PROGRAM_BEGIN: "ENTER",
    K.CALLING_CONTEXT_ENTER: "ENTER",
    K.EXIT: "EXIT",
    K.PROGRAM_END: "EXIT",
    K.CALLING_CONTEXT_EXIT: "EXIT",
    K.MPI_SEND: "SEND",
    K.MPI_ISEND: "SEND",
    K.MPI_RECV: "RECV",
    K.MPI_IRECV: "RECV",
    K.MPI_MRECV: "RECV",
    K.MPI_IMRECV: "RECV",
    K.THREAD_FORK: "FORK",
    K.OMP_FORK: "FORK",
    K.THREAD_JOIN: "JOIN",
    K.OMP_JOIN: "JOIN",
    K.THREAD_ACQUIRE_LOCK: "OMPALOCK",
    K.OMP_ACQUIRE_LOCK: "OMPALOCK",
    K.THREAD_RELEASE_LOCK: "OMPRLOCK",
    K.OMP_RELEASE_LOCK: "OMPRLOCK",
    K.RMA_PUT: "MPIPUT1TS",
    K.RMA_PUT_AT_TARGET: "MPIPUT1TE",
    K.RMA_GET_AT_TARGET: "MPIGET1TS",
    K.RMA_GET: "MPIGET1TO",
    K.RMA_ACQUIRE_LOCK: "MPIWLOCK",
    K.RMA_RELEASE_LOCK: "MPIWUNLOCK",
}
"""The type of each kind, if the kind alone determines it; measurement switched off and on is an ENTER and an EXIT."""

WITHOUT_WINDOW: dict[str, str] = {
    "MPIPUT1TS": "PUT1TS",
    "MPIPUT1TE": "PUT1TE",
    "MPIGET1TS": "GET1TS",
    "MPIGET1TO": "EVENT",
    "MPIWLOCK": "ALOCK",
    "MPIWUNLOCK": "RLOCK",
}
"""Types of one-sided communication without a window, which is not MPI's, by the type with a window."""

OF_END: dict[K, str] = {
    K.MPI_COLLECTIVE_END: "MPICEXIT",
    K.RMA_COLLECTIVE_END: "MPIWCEXIT",
    K.RMA_GROUP_SYNC: "MPIWEXIT",
}
"""The type of an EXIT whose region instance holds an event of this kind."""

LOCKS: dict[str, str] = {"OMPALOCK": "ALOCK", "OMPRLOCK": "RLOCK"}
"""Types of lock events of paradigms other than OpenMP, by OpenMP's type."""


def is_type(name: str, ancestor: str) -> bool:
    """Return whether a type is another one or is below it.

    Examples
    --------
    >>> is_type("MPICEXIT", "EXIT"), is_type("ENTER", "EXIT")
    (True, False)
    """
    while name and name != ancestor:
        name = PARENTS[name]
    return bool(name)


def leaves(ancestor: str) -> list[int]:
    """Return the numbers of a type and of all types below it."""
    return [i for i, name in enumerate(TYPES) if is_type(name, ancestor)]
