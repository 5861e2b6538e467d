"""Kernels that communicate (NCCL, RCCL, oneCCL): waiting in collective operations and messages between streams,
transfer, and how much of it computation covers.

The definitions are those of MPI, applied to kernels: a kernel begins and ends with its operation, waits at most until
its end, and is charged to its stream. A waiting kernel does not keep the host waiting; its costs for others follow from
`causes.device_costs`.
"""

from __future__ import annotations

from functools import partial

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.devices.intervals import KERNEL
from tracecols.enhance.mpi.waits import NCCL, wait_for_receiving_kernels, wait_for_sending_kernels
from tracecols.model.model import Model
from tracecols.patterns import collective
from tracecols.patterns.base import Family, Findings, region_of
from tracecols.patterns.devices import declare_covered
from tracecols.patterns.found_by import Computed, Pattern
from tracecols.patterns.matches import Cause, Matches
from tracecols.severity.cells import Cells

FAMILY = Family("nccl")
declare = FAMILY.declare

ON_DEVICE = {"on_device": True}


@declare(
    "nccl_communication",
    "device_kernels",
    "NCCL Communication",
    "Time in which kernels communicate with other devices (NCCL, RCCL, oneCCL), on their streams.",
    Pattern("device_intervals", since="begin_time"),
    expert={},
    needs="nccl",
    is_wait=False,
    advice="See what of it is waiting for others, and what computation does not cover.",
)
def communication(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Kernels of the paradigm."""
    return parent.where((m.state[parent.row] == KERNEL) & region_of(model, m.call_path[parent.row], NCCL))


declare_covered(
    FAMILY,
    "nccl_communication",
    (
        "nccl_overlapped",
        "NCCL Overlapped",
        "Time of communication beside which kernels of computation run on other streams of the device.",
    ),
    ("nccl_exposed", "NCCL Exposed", "Time of communication beside which no kernel of computation runs on the device."),
    "Communicate in pieces as results are ready, on a stream of its own, while others are computed.",
)

# -- collective operations: found as those of MPI ----------------------------------------------------------------------

BALANCE = "See which of its kernels or of the host's calls makes the last rank late, and balance that."

for id, title, summary, function, cause, advice, delay in (
    (
        "nccl_wait_nxn",
        "NCCL Wait at N x N",
        "Time of a kernel in an n-to-n operation until the last rank has begun its own.",
        collective.wait_at_n_to_n,
        collective.last_to_exchange,
        BALANCE,
        "delay_device_nxn_aggregate",
    ),
    (
        "nccl_barrier_wait",
        "NCCL Wait at Barrier",
        "Time of a kernel in a barrier until the last rank has begun its own.",
        collective.barrier_wait,
        collective.last_of_all,
        BALANCE,
        "delay_device_nxn_aggregate",
    ),
    (
        "nccl_latebroadcast",
        "NCCL Late Broadcast",
        "Time of a kernel that receives in a 1-to-n operation until the root has begun its own.",
        collective.late_broadcast,
        collective.root_of,
        "Launch the kernel of the root earlier, or shorten what is before it on its stream.",
        "delay_device_12n_aggregate",
    ),
    (
        "nccl_earlyreduce",
        "NCCL Early Reduce",
        "Time of the root's kernel in an n-to-1 operation until the last of those that send has begun its own.",
        collective.early_reduce,
        collective.last_to_reduce,
        BALANCE,
        "delay_device_n21_aggregate",
    ),
):
    declare(
        id,
        "nccl_communication",
        title,
        summary,
        Pattern("collective_members", since="begin_time", cause=partial(cause, on_device=True)),
        scalasca=ON_DEVICE,
        expert=ON_DEVICE,
        advice=advice,
        delay=delay,
    )(function)

for id, title, function in (
    ("nccl_nxn_completion", "NCCL N x N Completion", collective.n_to_n_completion),
    ("nccl_barrier_completion", "NCCL Barrier Completion", collective.barrier_completion),
):
    declare(
        id,
        "nccl_communication",
        title,
        "Time of a kernel after the first rank has ended its own.",
        Pattern("collective_members", until="end_time"),
        is_wait=False,
        scalasca=ON_DEVICE,
        expert=ON_DEVICE,
        advice="Usually small; large values point to the links between devices, or to clocks that disagree.",
    )(function)


# -- messages ----------------------------------------------------------------------------------------------------------


@declare(
    "nccl_latesender",
    "nccl_communication",
    "NCCL Late Sender",
    "Time of a kernel that receives until that of the sender begins.",
    Pattern("messages", since="recv_enter_time", cause=Cause("send_location", "send_call_path", "send_enter_time")),
    expert={},
    advice="Launch the sending kernel earlier, or shorten what is before it on its stream.",
    delay="delay_device_latesender_aggregate",
)
def late_sender(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the begin of one kernel to that of the other; of several messages of a kernel the largest."""
    wait, waits = wait_for_sending_kernels(model.facts, m)
    return parent.where(waits, severity=wait)


@declare(
    "nccl_latereceiver",
    "nccl_communication",
    "NCCL Late Receiver",
    "Time of a kernel that sends until that of the receiver begins.",
    Pattern(
        "sent_messages",
        since="send_done_enter_time",
        cause=Cause("recv_location", "recv_post_call_path", "recv_post_enter_time"),
    ),
    expert={},
    advice="Launch the receiving kernel earlier, or shorten what is before it on its stream.",
    delay="delay_device_latereceiver_aggregate",
)
def late_receiver(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the begin of one kernel to that of the other; of several messages of a kernel the largest, and none where
    it waits for a late sender."""
    wait, waits = wait_for_receiving_kernels(model.facts, m)
    return parent.where(waits, severity=wait, call_path=m.send_done_call_path, location=m.send_location)


NOT_TRANSFER = tuple(
    p.id for p in FAMILY.properties if p.parent == "nccl_communication" and not p.overlaps and p.conventions == "exact"
)
"""The parts of communication that are not transfer."""


@declare(
    "nccl_transfer",
    "nccl_communication",
    "NCCL Transfer",
    "Time of communication in which no other rank is waited for.",
    Computed(uses=("nccl_communication", *NOT_TRANSFER)),
    expert={},
    advice="Send less, in larger pieces, or over faster links.",
)
def transfer(model: Model, findings: Findings) -> Cells:
    """The remainder."""
    rest = findings.cells["nccl_communication"]
    for name in NOT_TRANSFER:
        rest = rest - findings.cells[name]
    return rest.where(rest.value != 0)


# -- counts ------------------------------------------------------------------------------------------------------------


@declare(
    "nccl_operations",
    "",
    "Communication of Devices",
    "Number of collective operations that kernels take part in.",
    Pattern("collective_members", since="begin_time"),
    unit="occ",
    expert={},
    needs="nccl",
    advice="Join small operations to larger ones (buckets): each has a latency of its own.",
)
def operations(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Participants on streams."""
    return parent.counted(m.on_device)


for id, title, column in (("nccl_bytes_sent", "Sent", "sent"), ("nccl_bytes_received", "Received", "received")):

    @declare(
        id,
        "",
        f"Bytes {title} by Devices",
        f"Bytes {title.lower()} in collective operations of kernels.",
        Pattern("collective_members", since="begin_time"),
        unit="bytes",
        expert={},
        needs="nccl",
        advice="Compare with the size of what is exchanged, such as gradients: smaller types send less.",
    )
    def moved(model: Model, m: CompoundTable, parent: Matches, column: str = column) -> Matches:
        """Bytes of participants on streams."""
        return parent.where(m.on_device & (m[column] > 0), severity=m[column])
