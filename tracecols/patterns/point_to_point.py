"""Wait states of point-to-point communication: Late Sender, Late Receiver, and messages in wrong order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.mpi.waits import MPI, TEST, WAIT_FOR_SEVERAL, wait_for_receivers, wait_for_senders
from tracecols.enhance.scan.region_rules import RegionRule, called, either
from tracecols.kernels.orders import first_smaller
from tracecols.model.model import Model
from tracecols.patterns.base import Family, region_of
from tracecols.patterns.found_by import Pattern
from tracecols.patterns.matches import Cause, Causes, Matches
from tracecols.patterns.mpi import API

FAMILY = Family("point-to-point")
declare = FAMILY.declare

NEVER_LATE = either(called("mpi_test.*"), called("(?i:mpi_wait(all|some))"))
"""Calls whose receives never wait for late senders under the rules of EXPERT."""


def on_host(model: Model, matches: Matches) -> NDArray[np.bool_]:
    """Return a mask of the matches on CPUs: messages of kernels on streams are counted elsewhere (`patterns.nccl`)."""
    return ~model.locations.is_device[matches.location]


@declare(
    "mpi_latesender",
    "mpi_point2point",
    "Late Sender",
    "Time a receive waits because its message was sent late.",
    Pattern("messages", since="recv_enter_time", cause=Cause("send_location", "send_call_path", "send_enter_time")),
    scalasca={"calls": MPI, "never": TEST, "once": WAIT_FOR_SEVERAL, "clipped": True},
    expert={"calls": API, "never": NEVER_LATE, "once": None, "clipped": False},
    advice="Send earlier, or post the receive early without blocking and overlap it with computation.",
    delay="delay_latesender_aggregate",
    is_lost_in_reference=True,
)
def late_sender(
    model: Model,
    m: CompoundTable,
    parent: Matches,
    *,
    calls: RegionRule,
    never: RegionRule,
    once: RegionRule | None,
    clipped: bool,
) -> Matches:
    """Wait from the receiving call's ENTER to the sending call's ENTER; of several messages of one call, the
    largest."""
    wait, waits = wait_for_senders(model.facts, m, calls, never, once, clipped)
    return parent.where(waits, severity=wait)


def overtaking(model: Model, m: CompoundTable, late: Matches) -> NDArray[np.int64]:
    """Find, for each late sender, the first message (row of `messages`, -1 for none) that was sent before it and
    received after the call."""
    row = late.row
    several = region_of(model, m.recv_call_path[row], WAIT_FOR_SEVERAL)
    after_call = np.searchsorted(m.recv, m.recv_exit[row], "right")
    after_call = np.where(m.recv_exit[row] < 0, len(m), after_call)
    start = np.where(several, np.maximum(after_call, row + 1), row + 1)
    stop = np.searchsorted(m.recv_location, m.recv_location[row], "right")
    return first_smaller(m.send_time, row, start, stop)


def could_be_replaced(model: Model, m: CompoundTable, late: Matches) -> NDArray[np.bool_]:
    """Return a mask of the late senders for which a message sent earlier could have been received instead."""
    return overtaking(model, m, late) >= 0


def is_overtaken_in_flight(model: Model, m: CompoundTable, late: Matches) -> NDArray[np.bool_]:
    """Return a mask of the late senders for which a message sent earlier, from any sender, is still in flight to the
    receiver."""
    row = late.row
    sent = model.order.rank(m.send, m.send_time)
    stop = np.searchsorted(m.recv_location, m.recv_location[row], "right")
    return (first_smaller(sent, row, row + 1, stop) >= 0) | m.unreceived_before[row]


@declare(
    "mpi_latesender_wo",
    "mpi_latesender",
    "Messages in Wrong Order",
    "Late Sender time because messages are received in another order than they were sent.",
    Pattern("messages"),
    advice="Receive in the order of sending, or from any source as messages arrive.",
    scalasca={"is_overtaken": could_be_replaced},
    expert={"is_overtaken": is_overtaken_in_flight},
)
def late_sender_wrong_order(
    model: Model,
    m: CompoundTable,
    parent: Matches,
    *,
    is_overtaken: Callable[[Model, CompoundTable, Matches], NDArray[np.bool_]],
) -> Matches:
    """Late senders that a message sent earlier and received later could have preceded."""
    return parent.where(is_overtaken(model, m, parent))


def ranks_of_senders(model: Model, m: CompoundTable) -> NDArray[np.int32]:
    """Return the ranks of the senders, each in the communicator of its message; (n_messages,) int32."""
    return m.source


def processes_of_senders(model: Model, m: CompoundTable) -> NDArray[np.int32]:
    """Return the processes of the senders; (n_messages,) int32."""
    return model.locations.process[m.send_location]


def has_same_source(
    model: Model, m: CompoundTable, late: Matches, sources: Callable[[Model, CompoundTable], NDArray[np.int32]]
) -> NDArray[np.bool_]:
    """Return whether the overtaking message has the same source, for late senders in wrong order; (n_late,) bool."""
    source = sources(model, m)
    return source[overtaking(model, m, late)] == source[late.row]


# the reference compares ranks without regard to the communicator
BY_RANK = {"sources": ranks_of_senders}
BY_PROCESS = {"sources": processes_of_senders}


@declare(
    "mpi_lswo_different",
    "mpi_latesender_wo",
    "From Different Sources",
    "The overtaking message comes from another process.",
    Pattern("messages"),
    advice="Receive from any source, or swap the order in which processes are served.",
    scalasca=BY_RANK,
    exact=BY_PROCESS,
)
def from_different_sources(
    model: Model, m: CompoundTable, parent: Matches, *, sources: Callable[[Model, CompoundTable], NDArray[np.int32]]
) -> Matches:
    """Processes of both senders differ; for Scalasca their ranks, each in the communicator of its message."""
    return parent.where(~has_same_source(model, m, parent, sources))


@declare(
    "mpi_lswo_same",
    "mpi_latesender_wo",
    "From Same Source",
    "The overtaking message comes from the same process.",
    Pattern("messages"),
    advice="Send and receive in the same order, or use any tag.",
    scalasca=BY_RANK,
    exact=BY_PROCESS,
)
def from_same_source(
    model: Model, m: CompoundTable, parent: Matches, *, sources: Callable[[Model, CompoundTable], NDArray[np.int32]]
) -> Matches:
    """Both senders are of the same process; for Scalasca they have the same rank, each in the communicator of its
    message."""
    return parent.where(has_same_source(model, m, parent, sources))


def who_posts(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the threads that post the receives."""
    row = matches.row
    return Causes(model.order.locations_of(m.recv_post[row]), m.recv_post_call_path[row], m.recv_post_enter_time[row])


def blocking_late_receiver(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Wait from the ENTER of MPI_Send or MPI_Ssend to that of MPI_Recv, if the send had not returned by then."""
    call_path = m.send_call_path
    wait = np.where(m.send_enter >= 0, m.recv_enter_time - m.send_enter_time, 0)
    returned = (m.send_exit >= 0) & model.order.precedes(m.send_exit, m.send_exit_time, m.recv_enter, m.recv_enter_time)
    waits = (wait > 0) & ~returned & region_of(model, call_path, called("(?i:mpi_s?send)"))
    waits &= region_of(model, m.recv_call_path, called("(?i:mpi_recv)"))
    return parent.where(waits, severity=wait, call_path=call_path, location=m.send_location)


@declare(
    "mpi_latereceiver",
    "mpi_point2point",
    "Late Receiver",
    "Time a send waits because the receive was posted late.",
    Pattern("sent_messages", since="send_done_enter_time", cause=who_posts),
    advice="Post receives earlier; let sends not block. That the send waited for this reason is likely, not certain.",
    confidence=0.8,
    expert={"function": blocking_late_receiver},
    delay="delay_latereceiver_aggregate",
    is_lost_in_reference=True,
)
def late_receiver(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Wait from the completing call's ENTER to the receive's posting, if the call did not end before; of several, the
    largest."""
    wait, waits = wait_for_receivers(model.facts, m)
    # another thread than the one that sends may complete the send
    location = model.order.locations_of(m.send_done)
    return parent.where(waits, severity=wait, call_path=m.send_done_call_path, location=location)


@declare(
    "mpi_latereceiver_wo",
    "mpi_latereceiver",
    "Messages in Wrong Order",
    "Late Receiver time because another message of the same sender, sent before, is received still later.",
    Pattern("sent_messages"),
    advice="Send in the order in which the receivers get ready.",
    confidence=0.8,
    scalasca={"or_never": False},
    expert={"or_never": True},
)
def late_receiver_wrong_order(model: Model, m: CompoundTable, parent: Matches, *, or_never: bool) -> Matches:
    """Messages that the same sender sent earlier are still in flight; for EXPERT also if they are never received."""
    arrival = model.order.rank(m.recv, m.recv_time)
    # latest arrival among the messages a sender sent so far: a running maximum that starts anew with every sender
    base = m.send_location.astype(np.int64) * len(m)
    latest = np.maximum.accumulate(arrival + base) - base if len(m) else arrival
    overtaken = latest[parent.row] > arrival[parent.row]
    if or_never:
        overtaken |= m.unreceived_before[parent.row]
    return parent.where(overtaken)


for name, late, overtaken, waits_long, title in (
    ("comms", "mpi_cls_count", "mpi_clswo_count", "mpi_clr_count", "communications"),
    ("syncs", "mpi_sls_count", "mpi_slswo_count", "mpi_slr_count", "synchronizations"),
):
    has_payload = name == "comms"

    def instances(
        model: Model, m: CompoundTable, parent: Matches, late: Matches, has_payload: bool = has_payload
    ) -> Matches:
        """Instances of the wait state, of messages with or without payload."""
        return late.counted((m.length[late.row] != 0) == has_payload)

    @declare(
        f"{name}_send",
        f"{name}_p2p",
        "Sends",
        f"Number of sends ({title}).",
        Pattern("sends", since="send_time"),
        unit="occ",
    )
    def sends(model: Model, s: CompoundTable, parent: Matches, has_payload: bool = has_payload) -> Matches:
        """Sends with or without payload."""
        return parent.counted(((s.length != 0) == has_payload) & on_host(model, parent))

    declare(
        waits_long,
        f"{name}_send",
        "Late Receivers",
        f"Number of Late Receivers in {title}.",
        Pattern("sent_messages", since="send_done_enter_time", uses=("mpi_latereceiver",)),
        unit="occ",
    )(instances)

    @declare(
        f"{name}_recv",
        f"{name}_p2p",
        "Receives",
        f"Number of receives ({title}).",
        Pattern("receives", since="recv_time"),
        unit="occ",
    )
    def receives(model: Model, r: CompoundTable, parent: Matches, has_payload: bool = has_payload) -> Matches:
        """Receives with or without payload, including those without a send, just as sends without a receive count."""
        return parent.counted(((r.length != 0) == has_payload) & on_host(model, parent))

    declare(
        late,
        f"{name}_recv",
        "Late Senders",
        f"Number of Late Senders in {title}.",
        Pattern("messages", since="recv_time", uses=("mpi_latesender",)),
        unit="occ",
    )(instances)
    declare(
        overtaken,
        late,
        "Messages in Wrong Order",
        f"Number of Late Senders in {title} where messages are received in wrong order.",
        Pattern("messages", uses=("mpi_latesender_wo",)),
        unit="occ",
    )(instances)


@declare(
    "bytes_sent",
    "bytes_p2p",
    "Sent",
    "Bytes sent in point-to-point operations.",
    Pattern("sends", since="send_time"),
    unit="bytes",
)
def bytes_sent(model: Model, s: CompoundTable, parent: Matches) -> Matches:
    """Length of every message, at the call that starts its send."""
    return parent.where((s.length > 0) & on_host(model, parent), severity=s.length)


@declare(
    "bytes_rcvd",
    "bytes_p2p",
    "Received",
    "Bytes received in point-to-point operations.",
    Pattern("receives", since="recv_time"),
    unit="bytes",
)
def bytes_received(model: Model, r: CompoundTable, parent: Matches) -> Matches:
    """Length of every message as sent, else as received, at the call that completes its receive."""
    return parent.where((r.length > 0) & on_host(model, parent), severity=r.length)


NOTES = {
    "sends without receive": "they and their bytes count as sent; what they waited for is not known",
    "receives without send": (
        "they and their bytes, as far as recorded, count as received; what they waited for is not known"
    ),
    "messages received before they were sent": (
        "clocks disagree: tracecols convert --correct-clocks, or tracecols correct, mends it"
    ),
}
"""How an analysis treats messages with problems, by the name under which they are counted."""
