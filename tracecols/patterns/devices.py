"""Devices: activity and waits of their streams, and the costs for the host.

The definitions follow CASITA's dependency rules for offloading (blocking and useless synchronisation, late launches).
Time of streams is not CPU time: it has a root property of its own, `device_time`, and every stream counts for the time
span of its process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.regions import COPY, LAUNCH, MANAGEMENT, MEMORY, SYNCHRONIZATION, WAIT, Regions
from tracecols.enhance.devices.calls import TO_DEVICE, TO_HOST, WITHIN_DEVICES
from tracecols.enhance.devices.intervals import COPYING, IDLE, KERNEL
from tracecols.enhance.devices.synchronisations import waits_of_hosts
from tracecols.enhance.scan.paths import outermost_of
from tracecols.enhance.scan.region_rules import RegionRule
from tracecols.model.model import Model
from tracecols.patterns.base import Family, Findings
from tracecols.patterns.found_by import Computed, InRegions, Pattern, SumOf
from tracecols.patterns.matches import Matches
from tracecols.severity.cells import Cells

FAMILY = Family("devices")
declare = FAMILY.declare

DIRECTIONS = (
    ("to_device", "To Device", "from the host to devices", TO_DEVICE),
    ("to_host", "To Host", "from devices to the host", TO_HOST),
    ("within", "Within Devices", "within devices, or between them", WITHIN_DEVICES),
)


def doing(*what: int) -> RegionRule:
    """Return a region rule that selects calls by what they do for devices (`Regions.device_call`)."""

    def rule(regions: Regions) -> np.ndarray:
        return np.isin(regions.device_call, what)

    return rule


# -- the host ----------------------------------------------------------------------------------------------------------

declare(
    "device_api",
    "execution",
    "Devices",
    "Time of the host in calls that manage and use devices (CUDA, HIP, OpenCL, OpenACC).",
    SumOf(),
    expert={},
    needs="device_calls",
    advice="Compare with the time of the streams: what the host does here it does not compute.",
    part="device",
)
for id, title, summary, calls in (
    ("device_management", "Management", "calls that manage devices, streams, events and code", (MANAGEMENT,)),
    ("device_launch", "Launch", "calls that launch kernels", (LAUNCH,)),
    ("device_memory", "Memory", "calls that allocate, set and free memory of devices", (MEMORY,)),
    (
        "device_synchronization",
        "Synchronization",
        "calls that wait for devices or order their work",
        (WAIT, SYNCHRONIZATION),
    ),
    ("device_copy_calls", "Copies", "calls that copy between host and devices", (COPY,)),
):
    declare(id, "device_api", title, f"Time of the host in {summary}.", InRegions(doing(*calls)), expert={})


@declare(
    "device_late_launch",
    "device_launch",
    "Late Launch",
    "Time in launching calls while the stream has nothing to do, until its kernel begins.",
    Pattern("kernels", since="wait_begin_time"),
    expert={},
    advice="Launch kernels ahead, so that the next one is there when one ends; join small kernels to larger ones.",
)
def late_launch(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The part of the launching call in which the stream is idle."""
    wait = np.minimum(m.launch_exit_time, m.enter_time) - m.wait_begin_time
    return parent.where(
        (m.launch_enter >= 0) & (wait > 0), severity=wait, call_path=m.launch_call_path, location=m.launch_location
    )


def waiting(m: CompoundTable) -> np.ndarray:
    """From entering the call, or the begin of the operation it waits for, to the end of that operation or of the
    call."""
    wait = np.minimum(m.exit_time, m.cause_end_time) - m.wait_begin_time
    return np.where(m.cause >= 0, np.minimum(wait, m.own_time), 0)


@declare(
    "device_early_wait",
    "device_synchronization",
    "Early Blocking Wait",
    "Time in a synchronisation while the last kernel or copy that was pending runs.",
    Pattern("device_syncs", since="wait_begin_time"),
    expert={},
    advice="Synchronise later and let the host compute meanwhile, or give the host a part of the kernel's work.",
)
def early_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The host waits for the kernel or copy that was pending and ended last."""
    wait = waiting(m)
    return parent.where(~m.is_copy & (wait > 0), severity=wait)


def waits_in(model: Model, m: CompoundTable, parent: Matches, *, copies: bool) -> Matches:
    """From the ENTER of the call, also where the operation has not begun by then."""
    _, wait = waits_of_hosts(model.facts, m, model.copies)
    return parent.where((m.is_copy == copies) & (wait > 0), severity=wait)


for id, of, title, summary, copies in (
    ("device_sync_wait", "device_synchronization", "Wait for Device", "synchronisations", False),
    ("device_copy_sync_wait", "device_copy_calls", "Wait for Blocking Copy", "blocking copies", True),
):
    declare(
        id,
        of,
        title,
        f"Time in {summary} until the last operation that they wait for has ended.",
        Pattern("device_syncs", since="enter_time"),
        overlaps=True,
        scalasca=None,
        exact={"copies": copies},
        delay="delay_device_sync_aggregate",
        advice="See what on the device, or which other rank, is waited for: delay costs name it.",
    )(waits_in)


@declare(
    "device_useless_sync",
    "device_synchronization",
    "Useless Synchronization",
    "Time in synchronisations at whose beginning nothing was pending.",
    Pattern("device_syncs", since="enter_time"),
    expert={},
    is_wait=False,
    advice="Leave the synchronisation out.",
)
def useless_sync(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Calls at whose begin all that they wait for has ended: they cost their own time."""
    return parent.where(~m.is_copy & (m.cause < 0) & (m.own_time > 0), severity=m.own_time)


@declare(
    "device_copy_wait",
    "device_copy_calls",
    "Wait for Pending Work",
    "Time in a blocking copy while the last kernel or copy that was pending before it runs.",
    Pattern("device_syncs", since="wait_begin_time"),
    expert={},
    advice="Copy later, or asynchronously, and let the host compute meanwhile.",
)
def copy_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """A copy that returns only when it is done is a synchronisation as well."""
    wait = waiting(m)
    return parent.where(m.is_copy & (wait > 0), severity=wait)


@declare(
    "device_blocking_copy",
    "device_copy_calls",
    "Blocking Copy",
    "Time the host waits in a copying call for the transfer itself, though it could go on.",
    Pattern("copies", since="begin_time"),
    overlaps=True,
    expert={},
    advice="Copy asynchronously, from pinned memory, on a stream of its own.",
)
def blocking_copy(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The part of the transfer in the call, if the call returns only after it."""
    wait = m.end_time - np.maximum(m.begin_time, m.copy_enter_time)
    waits = (m.copy_enter >= 0) & (m.copy_exit_time >= m.end_time) & (wait > 0)
    return parent.where(waits, severity=wait, call_path=m.copy_call_path, location=m.copy_location)


# -- the streams -------------------------------------------------------------------------------------------------------


def in_state(model: Model, m: CompoundTable, parent: Matches, *, state: int) -> Matches:
    """Intervals in which a stream is in one state."""
    return parent.where(m.state[parent.row] == state)


@declare(
    "device_time",
    "",
    "Device Time",
    "Time of all streams of devices, from the first event of their process to the last.",
    Pattern("device_intervals", since="begin_time"),
    expert={},
    needs="devices",
    is_wait=False,
    advice="Expand the property: kernels are useful time, copies and idle time are losses.",
)
def device_time(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """All intervals."""
    return parent.where(m.end_time > m.begin_time, severity=m.end_time - m.begin_time)


for id, title, summary, advice, state in (
    (
        "device_kernels",
        "Kernels",
        "Time in which a kernel runs on a stream, on the call path of the kernel.",
        "Tune the kernels with the largest shares.",
        KERNEL,
    ),
    (
        "device_copies",
        "Copies",
        "Time in which a copy runs on a stream and no kernel, on the call path of the call that asks for it.",
        "Copy less, or while kernels run.",
        COPYING,
    ),
    (
        "device_idle",
        "Idle",
        (
            "Time in which a stream does nothing, on the call path of the call that ends it: this code keeps the "
            "device waiting."
        ),
        "Find out whether the host is late, or the work that the stream depends on.",
        IDLE,
    ),
):
    declare(
        id,
        "device_time",
        title,
        summary,
        Pattern("device_intervals"),
        advice=advice,
        is_wait=False,
        scalasca={"state": state},
        expert={"state": state},
    )(in_state)


def of_direction(model: Model, m: CompoundTable, parent: Matches, *, direction: int) -> Matches:
    """Copies of one direction."""
    return parent.where(m.direction[parent.row] == direction)


for name, title, where, direction in DIRECTIONS:
    declare(
        f"device_copies_{name}",
        "device_copies",
        title,
        f"Copies {where}.",
        Pattern("device_intervals"),
        is_wait=False,
        scalasca={"direction": direction},
        expert={"direction": direction},
    )(of_direction)


def hidden(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The part that kernels cover."""
    time = m.hidden_time[parent.row]
    return parent.where(time > 0, severity=time)


def exposed(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The remainder."""
    rest = parent.severity - m.hidden_time[parent.row]
    return parent.where(rest > 0, severity=rest)


def declare_covered(
    family: Family, parent: str, covered: tuple[str, str, str], remainder: tuple[str, str, str], advice: str
) -> None:
    """Declare the part of a property of intervals on streams that kernels of computation on other streams of the device
    cover, and the remainder: given are id, title and summary of both, and the advice for the remainder."""
    found = Pattern("device_intervals", since="begin_time")
    given: dict[str, Any] = {"overlaps": True, "expert": {}, "is_wait": False}
    id, title, summary = covered
    family.declare(id, parent, title, summary, found, **given)(hidden)
    id, title, summary = remainder
    family.declare(id, parent, title, summary, found, advice=advice, **given)(exposed)


declare_covered(
    FAMILY,
    "device_copies",
    ("device_copies_hidden", "Hidden", "Time of copies beside which kernels run on other streams of the device."),
    ("device_copies_exposed", "Exposed", "Time of copies beside which no kernel runs on the device."),
    "Copy on another stream while kernels run: in pieces, before they are needed.",
)


def not_requested(m: CompoundTable, parent: Matches) -> np.ndarray:
    """The part of idle intervals before the call that ends them; -1 if that is not known."""
    begin, end, request = m.begin_time[parent.row], m.end_time[parent.row], m.request_time[parent.row]
    return np.where(request != -1, np.clip(request, begin, end) - begin, -1)


@declare(
    "device_idle_before_launch",
    "device_idle",
    "Before Launch",
    "Idle time of a stream in which nothing had been asked of it: the host is late.",
    Pattern("device_intervals", since="begin_time"),
    expert={},
    is_wait=False,
    advice="Launch ahead of time; move what the host does in between to other threads or to the device.",
)
def idle_before_launch(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Until the ENTER of the call that launches the kernel or copy that ends it; all of it at the end of the
    program."""
    late = not_requested(m, parent)
    return parent.where(late > 0, severity=late)


@declare(
    "device_idle_after_launch",
    "device_idle",
    "After Launch",
    "Idle time of a stream after its next kernel or copy was asked for: latency, other streams, or what it depends on.",
    Pattern("device_intervals", until="end_time"),
    expert={},
    is_wait=False,
    advice="Look at what runs on other streams meanwhile; without that it is latency, which larger kernels hide.",
)
def idle_after_launch(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the ENTER of that call on."""
    late = not_requested(m, parent)
    rest = np.where(late >= 0, parent.severity - late, 0)
    return parent.where(rest > 0, severity=rest)


# -- counts ------------------------------------------------------------------------------------------------------------


@declare(
    "device_launches",
    "",
    "Kernel Launches",
    "Number of calls that launch kernels. Calls inside of others, of the driver in those of CUDA's runtime or of "
    "OpenACC, are part of these.",
    Computed(uses=("visits",)),
    unit="occ",
    expert={},
    needs="device_calls",
    advice="Join short kernels, or launch them as a graph: each launch takes time of the host.",
)
def launches(model: Model, findings: Findings) -> Cells:
    """Visits of the outermost call paths that launch."""
    tree = model.call_paths
    launching = model.regions.device_call[tree.region] == LAUNCH
    outermost = outermost_of(launching, tree.end) == np.arange(len(tree))
    cells = findings.cells["visits"]
    return cells.where(outermost[cells.call_path])


@declare(
    "device_kernel_executions",
    "",
    "Kernel Executions",
    "Number of kernels executed, on their streams.",
    Pattern("kernels", since="enter_time"),
    unit="occ",
    expert={},
    needs="devices",
    advice="Join short kernels: between two of them the device does nothing for some microseconds.",
)
def kernel_executions(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """All kernels."""
    return parent.counted(np.ones(len(parent), bool))


@declare(
    "device_copy_ops",
    "",
    "Device Copies",
    "Number of copies, on their streams and the call paths of the calls that ask for them.",
    Pattern("copies", since="begin_time"),
    unit="occ",
    expert={},
    needs="devices",
    advice="Copy few large blocks in place of many small ones.",
)
def copy_ops(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """All copies."""
    return parent.counted(np.ones(len(parent), bool))


@declare(
    "device_bytes",
    "",
    "Bytes Copied",
    "Bytes copied between host and devices and within devices.",
    Pattern("copies", since="begin_time"),
    unit="bytes",
    expert={},
    needs="devices",
    advice="Keep data on the device between kernels, and copy only what the other side needs.",
)
def copied_bytes(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Bytes of copies, where they are recorded."""
    return parent.where(m.bytes > 0, severity=m.bytes)


for parent_id, unit, what in (
    ("device_copy_ops", "occ", "Number of copies"),
    ("device_bytes", "bytes", "Bytes copied"),
):
    for name, title, where, direction in DIRECTIONS:
        declare(
            f"{parent_id}_{name}",
            parent_id,
            title,
            f"{what} {where}.",
            Pattern("copies"),
            unit=unit,
            scalasca={"direction": direction},
            expert={"direction": direction},
        )(of_direction)
