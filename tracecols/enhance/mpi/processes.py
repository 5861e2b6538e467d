"""Processes that are created while the program runs: the calls that create them, and their begins.

The inter-communicator between a process and its creators is created in MPI_Comm_spawn on the one side, and in MPI_Init
or MPI_Comm_get_parent on the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable, joined
from tracecols.enhance.dataflow.grouping import latest_before
from tracecols.enhance.dataflow.steps import GLOBAL, step
from tracecols.enhance.mpi.collectives import OutgoingMembers
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CALL
from tracecols.enhance.scan.region_rules import either, is_in, named
from tracecols.enhance.threads.created import times_of
from tracecols.schema.compound import CREATED_PROCESSES

SPAWN = named("mpi_comm_spawn(_multiple)?", "mpi")
SPAWNED = either(named("mpi_init(_thread)?", "mpi"), named("mpi_comm_get_parent", "mpi"))

MEMBER = ("key", "communicator", "location", *CALL)


@step(GLOBAL, "created_processes")
def find_created_processes(facts: Facts, every_outgoing_members: Sequence[OutgoingMembers]) -> CompoundTable:
    """Build the table of processes that are created by others."""
    # nothing is read if there are no inter-communicators
    of = [(o.members, len(o.members) if facts.communicators.is_inter.any() else 0) for o in every_outgoing_members]
    m = {name: joined([rows.rows(name, 0, n) for rows, n in of]) for name in MEMBER}
    on_both = facts.communicators.are_inter(m["communicator"])
    m = {name: column[on_both] for name, column in m.items()}
    creates, created = (np.flatnonzero(is_in(facts, m["call_path"], rule)) for rule in (SPAWN, SPAWNED))
    location = m["location"][created].astype(np.int64)
    begin = facts.first_rows[location]
    begin_time = np.array([times_of(facts.store, i, np.zeros(1, np.int64))[0] for i in location.tolist()], np.int64)
    last = latest_before(m["key"][creates], m["enter_time"][creates], m["key"][created], begin_time)
    known, by = last >= 0, creates[last[last >= 0]]
    return CompoundTable(
        CREATED_PROCESSES,
        by.size,
        {
            "location": location[known].astype(np.int32),
            "begin": begin[known],
            "begin_time": begin_time[known],
            "communicator": m["communicator"][by].astype(np.int32),
            "create_location": m["location"][by].astype(np.int32),
            **{f"create_{name}": m[name][by] for name in CALL},
        },
    )
