"""Root causes: kinds of synchronisation points and of delays, and the tables that hold them."""

from __future__ import annotations

from tracecols.schema.columns import Column, Table, event, reference, table, ticks

POINTS = (
    "late sender", "send", "late receiver", "receive posted", "collective", "MPI_Init", "MPI_Finalize", "fork",
    "thread barrier", "end", "lock", "release", "created", "creates", "join", "thread ends", "operation", "lets go on",
    "launch", "device operation", "kernels of other ranks", "condition", "signal",
)  # fmt: skip
"""What happens at a synchronisation point, by number."""

N_MPI = 7
"""Kinds of points below this belong to MPI, all others except the end of a location to threads."""

DELAY_IDS = {
    "late_sender": "delay_latesender", "late_receiver": "delay_latereceiver", "barrier": "delay_barrier",
    "n_to_n": "delay_n2n", "one_to_n": "delay_12n", "n_to_one": "delay_n21", "thread_barrier": "delay_ompbarrier",
    "idle": "delay_ompidle", "startup": "delay_startup", "scan": "delay_scan", "lock": "delay_lock",
    "join": "delay_join", "one_sided": "delay_onesided", "nonblocking": "delay_nonblocking",
    "management": "delay_management", "file": "delay_file", "shmem": "delay_shmem", "condition": "delay_condition",
    "polling": "delay_polling",
}  # fmt: skip
"""By kind of delay: the property of its short-term costs; those in the long term end with `_longterm`."""

DELAYS = tuple(DELAY_IDS)
"""The waits that a delay causes, by number."""

UNKNOWN_DELAYS = DELAYS[DELAYS.index("startup") :]
"""Delays that the reference does not know."""

CHARGED = (
    *DELAY_IDS.values(),
    *(f"{name}_longterm" for name in DELAY_IDS.values()),
    "critical_path",
    "critical_path_activities",
    "non_critical_path_activities",
    "critical_imbalance_impact",
    "inter_partition_imbalance",
    "mpi_wait_indirect_latesender",
    "mpi_wait_indirect_latereceiver",
    "mpi_wait_propagating_ls",
    "mpi_wait_propagating_lr",
)
"""The properties that are charged, by number."""

SYNC_POINTS = table(
    "sync_points",
    "one event at which a location synchronises with others: it waits, or it makes others wait",
    reference("location", "locations", "location"),
    event("event", "the event; beyond all events for the end of the trace"),
    Column("kind", "int8", "what happens, `POINTS`", enum=POINTS),
    ticks("begin_time", "when its call, or the operation, begins"),
    Column("wait", "float64", "how long it waits", "sec"),
    Column("total", "float64", "how long its call takes", "sec"),
    Column("completion", "float64", "how much of that is after the wait of all", "sec"),
    reference("call_path", "call_paths", "call path of its call"),
)

DELAY_PAIRS = table(
    "delay_pairs",
    "one wait and who caused it, in the order of the causing points",
    Column("kind", "int8", "what is waited in, `DELAYS`", enum=DELAYS),
    Column("cause", "int64", "the point that makes others wait", "", "sync_points"),
    Column("waiting", "int64", "the point that waits; null for threads that idle", "", "sync_points"),
    Column("wait", "float64", "how long", "sec"),
    Column(
        "cause_since",
        "int64",
        "last point before the cause that synchronises with the waiting side; null: the beginning",
        "",
        "sync_points",
    ),
    Column("waiting_since", "int64", "last point before the waiting one with the causing side", "", "sync_points"),
)

WAITS = table(
    "waits",
    "one instance of a wait state, by location in the order in which they begin",
    Column("property", "string", "the wait state: id of a property"),
    reference("location", "locations", "location that waits"),
    reference("call_path", "call_paths", "call path that waits"),
    ticks("begin_time", "when waiting begins"),
    ticks("end_time", "when it ends"),
    reference("cause_location", "locations", "location that is waited for"),
    reference("cause_call_path", "call_paths", "call path in which it comes; null where that is not known"),
    ticks("cause_time", "when it comes"),
    source="wait states that say who causes them, by the conventions that are asked for",
)

CRITICAL_PATH = table(
    "critical_path_stretches",
    "one stretch of the critical path: while it is on one location, in the order of their begins",
    reference("location", "locations", "location it is on"),
    ticks("begin_time", "when it comes to this location, after waiting"),
    ticks("end_time", "when it goes on elsewhere, or ends"),
    Column(
        "reason",
        "int8",
        "the point at which it comes to this location, `POINTS`: what was waited for ends there; null where "
        "the recording begins",
        nullable=True,
    ),
    reference("begin_call_path", "call_paths", "call path of this point; null where the recording begins"),
    reference("end_call_path", "call_paths", "call path in which it goes on elsewhere"),
    Column("since", "int64", "the same point; null where the recording begins", "", "sync_points"),
    Column("until", "int64", "the point at which it goes on elsewhere, or ends", "", "sync_points"),
)

ROOT_CAUSES = table(
    "root_causes",
    "what one call path on one location is charged with",
    Column("property", "int16", "number of the property, `CHARGED`", enum=CHARGED),
    reference("call_path", "call_paths", "call path"),
    reference("location", "locations", "location"),
    Column("charged", "float64", "seconds, which are charged, not spent", "sec"),
)

DEVICE_DELAY_IDS = {
    "n_to_n": "delay_device_nxn", "one_to_n": "delay_device_12n", "n_to_one": "delay_device_n21",
    "late_sender": "delay_device_latesender", "late_receiver": "delay_device_latereceiver", "sync": "delay_device_sync",
}  # fmt: skip
"""By the wait of kernels and hosts: the property of its short-term costs; those in the long term end with
`_longterm`."""

DEVICE_DELAYS = tuple(DEVICE_DELAY_IDS)
"""The waits of kernels and hosts, by number."""

DEVICE_PARTS = ("delay_device_latency", "delay_device_unrecorded")
"""The properties that are parts of all costs of waits for kernels and copies: launch latency, and causes before the
recording."""

DEVICE_CHARGED = (
    *DEVICE_DELAY_IDS.values(),
    *(f"{name}_longterm" for name in DEVICE_DELAY_IDS.values()),
    *DEVICE_PARTS,
)
"""The properties of waits for kernels and copies that are charged, by number."""

DEVICE_CAUSES = table(
    "device_causes",
    "what one call path on one thread or stream is charged with of waits for kernels and copies",
    Column("property", "int16", "number of the property, `DEVICE_CHARGED`", enum=DEVICE_CHARGED),
    *ROOT_CAUSES.columns[1:],
)

RUN_CAUSES = Table("run_causes", ROOT_CAUSES.row, ROOT_CAUSES.columns)

NUMBER_OF_CHARGED = {
    ROOT_CAUSES.name: CHARGED, RUN_CAUSES.name: CHARGED, DEVICE_CAUSES.name: DEVICE_CHARGED,
}  # fmt: skip
"""By table: the properties that it charges, by number."""

IN_SECONDS = {
    table.name: frozenset(c.name for c in table.columns if c.unit == "sec")
    for table in (SYNC_POINTS, DELAY_PAIRS, ROOT_CAUSES, DEVICE_CAUSES, RUN_CAUSES)
}
"""By table the columns that are declared in seconds: computed in the unit of the conventions, which may be ticks."""

BY_CONVENTIONS = tuple(
    t.name for t in (WAITS, SYNC_POINTS, DELAY_PAIRS, CRITICAL_PATH, ROOT_CAUSES, DEVICE_CAUSES, RUN_CAUSES)
)
"""The tables of a trace that depend on the conventions."""
