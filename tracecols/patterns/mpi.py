"""MPI groups by region, and properties that count calls: times and visits of MPI regions."""

from __future__ import annotations

from tracecols.enhance.mpi.operation_waits import FENCE
from tracecols.enhance.mpi.waits import COMMUNICATORS
from tracecols.enhance.scan.region_rules import RegionRule, called, either, in_role, named
from tracecols.patterns.base import Family
from tracecols.patterns.found_by import InRegions, SumOf

FAMILY = Family("MPI groups")
declare = FAMILY.declare

FILE = (
    "mpi_file_(close|delete|get_(amode|atomicity|byte_offset|group|info|position(_shared)?|size|type_extent|view)|open"
    "|preallocate|seek(_shared)?|set_(atomicity|info|size|view)|sync)"
)
FILE_INDIVIDUAL = (
    "mpi_file_(delete|get_(amode|atomicity|byte_offset|group|info|position(_shared)?|size|type_extent|view)|"
    "seek(_shared)?)"
)
FILE_COLLECTIVE = "mpi_file_(close|open|preallocate|set_(atomicity|info|size|view)|sync)"
WINDOW = (
    "mpi_win_(allocate(_shared)?|attach|create(_dynamic|_keyval)?|delete_attr|detach|free(_keyval)?|get_(attr|group|"
    "info|name)"
    "|set_(attr|info|name)|shared_query)"
)
ACTIVE = "mpi_win_(complete|fence|post|start|test|wait)"
PASSIVE = "mpi_win_((flush(_local)?|lock|unlock)(_all)?|sync)"
TEST_OR_WAIT = "mpi_(test|wait)(all|any|some)?"
INDIVIDUAL_READ, INDIVIDUAL_WRITE, INDIVIDUAL_IO = (
    f"mpi_file_i?{verb}(_at|_shared)?" for verb in ("read", "write", "(read|write)")
)
COLLECTIVE_READ, COLLECTIVE_WRITE, COLLECTIVE_IO = (
    f"mpi_file_(i{verb}_(all|at_all)|{verb}_(all|at_all|ordered)(_begin|_end)?)"
    for verb in ("read", "write", "(read|write)")
)


def mpi(pattern: str) -> RegionRule:
    """Return a rule that selects regions of MPI by name."""
    return named(pattern, "mpi")


INDIVIDUAL_FILE, COLLECTIVE_FILE = mpi(f"{FILE_INDIVIDUAL}|{INDIVIDUAL_IO}"), mpi(f"{FILE_COLLECTIVE}|{COLLECTIVE_IO}")

# EXPERT goes by names alone, in lower or upper case
API = called("(?i:mpi).+")
BARRIERS = called("(?i:mpi_barrier.*)")
COLLECTIVE = called("(?i:mpi.*(_all|_op|bcast|gather|reduce|scan|scatter).*)")
POINT_TO_POINT = called("(?i:mpi(?!_win).(test.*|.*(buffer|cancel|get_count|probe|recv|request|send|start|wait).*))")
ONE_SIDED = called("(?i:mpi_(get|put))")
WINDOW_LOCK = called("(?i:mpi_win_(lock|unlock))")
WINDOW_MANAGEMENT = called("(?i:mpi_win_(create|free))")
GENERAL_ACTIVE = called("(?i:mpi_win).(post|start|complete|wait|test)")
WINDOW_SYNCHRONIZATION = either(FENCE, WINDOW_LOCK, WINDOW_MANAGEMENT, GENERAL_ACTIVE)


declare(
    "mpi",
    "execution",
    "MPI",
    "Time spent in MPI calls.",
    InRegions(mpi("(?!parallel$).*")),
    expert={"found": InRegions(API), "needs": "processes"},
    part="mpi",
    advice="Compare with the number of operations and what they transfer; overlap them with computation.",
)
declare(
    "mpi_management",
    "mpi",
    "Management",
    "Time spent in MPI calls that manage objects: start and end, communicators, files, windows.",
    SumOf(),
    is_heading=True,
)
declare(
    "mpi_init_exit",
    "mpi_management",
    "Init/Finalize",
    "Time spent in MPI initialisation and finalisation.",
    InRegions(mpi("mpi_(init(_thread|ialized)?|finalized?|session_(init|finalize))")),
    expert={"parent": "mpi", "title": "Init/Exit", "found": InRegions(called("(?i:mpi_(init|init_thread|finalize))"))},
    advice="Usually the launch of processes and connections; matters in short runs only: let measured runs take "
    "longer.",
)
declare(
    "mpi_mgmt_comm",
    "mpi_management",
    "Communicator",
    "Time spent in management of communicators, groups and topologies.",
    InRegions(COMMUNICATORS),
    advice="Creating communicators synchronises their members; do it once and reuse them.",
)
declare("mpi_mgmt_file", "mpi_management", "File", "Time spent in management of files.", InRegions(mpi(FILE)))
declare("mpi_mgmt_win", "mpi_management", "Window", "Time spent in management of windows.", InRegions(mpi(WINDOW)))
declare(
    "mpi_synchronization",
    "mpi",
    "Synchronization",
    "Time spent in MPI calls that synchronise processes.",
    SumOf(),
    expert={"found": InRegions(either(BARRIERS, WINDOW_SYNCHRONIZATION))},
    is_heading=True,
)
declare(
    "mpi_sync_collective",
    "mpi_synchronization",
    "Collective",
    "Time spent in MPI barriers.",
    InRegions(in_role(["barrier"], "mpi")),
    expert={"title": "Barrier", "found": InRegions(BARRIERS)},
    advice="Remove barriers that correctness does not need; balance the work in front of the others.",
)
declare(
    "mpi_rma_synchronization",
    "mpi_synchronization",
    "One-sided",
    "Time spent in synchronisation of one-sided communication.",
    SumOf(),
    expert={"found": InRegions(WINDOW_SYNCHRONIZATION), "needs": "windows"},
)
for id, title, what, rule in (
    ("mpi_rma_window_management", "Window Management", "creating and freeing windows", WINDOW_MANAGEMENT),
    ("mpi_rma_fence", "Fence", "in fences", FENCE),
    (
        "mpi_rma_gat_synchronization",
        "General Active Target Synchronization",
        "opening and closing access and exposure epochs",
        GENERAL_ACTIVE,
    ),
    ("mpi_rma_lock_synchronization", "Lock Synchronization", "locking and unlocking windows", WINDOW_LOCK),
):
    declare(id, "mpi_rma_synchronization", title, f"Time spent {what}.", InRegions(rule), scalasca=None, expert={})
declare(
    "mpi_rma_sync_active",
    "mpi_rma_synchronization",
    "Active Target",
    "Time spent in fences and general active target synchronisation.",
    InRegions(mpi(ACTIVE)),
)
declare(
    "mpi_rma_sync_passive",
    "mpi_rma_synchronization",
    "Passive Target",
    "Time spent in locks and flushes of windows.",
    InRegions(mpi(PASSIVE)),
)
declare(
    "mpi_communication",
    "mpi",
    "Communication",
    "Time spent in MPI calls that transfer data.",
    SumOf(),
    expert={"found": InRegions(either(COLLECTIVE, ONE_SIDED, POINT_TO_POINT))},
    is_heading=True,
)
declare(
    "mpi_point2point",
    "mpi_communication",
    "Point-to-point",
    "Time spent in point-to-point communication.",
    InRegions(either(in_role(["point2point"], "mpi"), mpi(TEST_OR_WAIT))),
    expert={"found": InRegions(POINT_TO_POINT)},
    advice="Compare with the number and size of messages; overlap transfers with computation.",
    is_heading=True,
)
declare(
    "mpi_collective",
    "mpi_communication",
    "Collective",
    "Time spent in collective communication.",
    InRegions(in_role(["coll_one2all", "coll_all2one", "coll_all2all", "coll_other"], "mpi")),
    expert={"found": InRegions(COLLECTIVE)},
    advice="Much of it may be waiting for the last participant: see the properties below and the balance of the "
    "work before.",
)
declare(
    "mpi_rma_communication",
    "mpi_communication",
    "One-sided",
    "Time spent in one-sided communication.",
    InRegions(in_role(["rma", "atomic"], "mpi")),
    expert={"found": InRegions(ONE_SIDED), "needs": "windows"},
)
declare(
    "mpi_io",
    "mpi",
    "File I/O",
    "Time spent in MPI file I/O.",
    SumOf(),
    expert={"found": InRegions(called("(?i:mpi_file.*)"))},
    part="io",
    advice="Read and write large pieces, collectively; look at who writes.",
)
declare(
    "mpi_io_individual", "mpi_io", "Individual", "Time spent in individual file I/O.", InRegions(mpi(INDIVIDUAL_IO))
)
declare(
    "mpi_io_collective", "mpi_io", "Collective", "Time spent in collective file I/O.", InRegions(mpi(COLLECTIVE_IO))
)

declare(
    "syncs",
    "",
    "Synchronizations",
    "Number of synchronisation operations.",
    SumOf(),
    unit="occ",
    advice="Leave out synchronisation that no data depends on, and join what is left: each operation may make "
    "processes wait.",
)
declare(
    "comms",
    "",
    "Communications",
    "Number of communication operations.",
    SumOf(),
    unit="occ",
    advice="Compare with the bytes transferred: many operations with few bytes each cost latency; send larger "
    "messages in place of them.",
)
declare(
    "bytes",
    "",
    "Bytes Transferred",
    "Number of bytes transferred.",
    SumOf(),
    unit="bytes",
    advice="Compare with what the algorithm has to exchange: do not send data twice, or to processes that do not "
    "use it.",
)
declare(
    "mpi_file_ops",
    "",
    "MPI File Operations",
    "Number of MPI file operations.",
    SumOf(),
    unit="occ",
    advice="Collect data in memory and read or write large blocks: each operation has a fixed cost.",
)
for id, parent, title, what in (
    ("syncs_p2p", "syncs", "Point-to-point", "point-to-point operations without payload"),
    ("comms_p2p", "comms", "Point-to-point", "point-to-point operations with payload"),
    ("comms_coll", "comms", "Collective", "collective operations with payload"),
    ("comms_rma", "comms", "One-sided", "one-sided operations"),
):
    declare(id, parent, title, f"Number of {what}.", SumOf(), unit="occ")
for id, title, what in (("bytes_p2p", "Point-to-point", "point-to-point"), ("bytes_coll", "Collective", "collective")):
    declare(id, "bytes", title, f"Bytes transferred in {what} operations.", SumOf(), unit="bytes")
for id, parent, title, what, rule in (
    ("comms_rma_puts", "comms_rma", "Puts", "put operations", mpi("mpi_r?put")),
    ("comms_rma_gets", "comms_rma", "Gets", "get operations", mpi("mpi_r?get")),
    ("comms_rma_atomics", "comms_rma", "Atomics", "atomic one-sided operations", in_role(["atomic"], "mpi")),
    ("mpi_file_iops", "mpi_file_ops", "Individual", "individual MPI file operations", INDIVIDUAL_FILE),
    ("mpi_file_irops", "mpi_file_iops", "Reads", "individual reads", mpi(INDIVIDUAL_READ)),
    ("mpi_file_iwops", "mpi_file_iops", "Writes", "individual writes", mpi(INDIVIDUAL_WRITE)),
    ("mpi_file_cops", "mpi_file_ops", "Collective", "collective MPI file operations", COLLECTIVE_FILE),
    ("mpi_file_crops", "mpi_file_cops", "Reads", "collective reads", mpi(COLLECTIVE_READ)),
    ("mpi_file_cwops", "mpi_file_cops", "Writes", "collective writes", mpi(COLLECTIVE_WRITE)),
):
    declare(id, parent, title, f"Number of {what}.", InRegions(rule, "visits"), unit="occ")
