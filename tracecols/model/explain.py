"""The plan of an analysis before it runs: its steps, how often each runs, and the bytes it keeps for later steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracecols.causes.device_operations import OPERATION, SYNC
from tracecols.causes.device_waits import PART, WAIT
from tracecols.causes.points import OF_PAIR, OF_POINT, number_type
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import mask_of
from tracecols.enhance.dataflow.partitions import BUCKET_ROWS, divide
from tracecols.enhance.dataflow.steps import BUCKET, ONCE, Step
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.mpi.collectives import MEMBER
from tracecols.enhance.mpi.file_operations import MANAGES
from tracecols.enhance.mpi.messages import KEY, RECEIVES, RECV_HALF, SEND_HALF, SENDS
from tracecols.enhance.mpi.polls import AWAITED, POLL
from tracecols.enhance.scan.gaps import IS_ACQUIRE
from tracecols.enhance.scan.location_scan import ATTRIBUTED
from tracecols.enhance.threads.created import KINDS as LIVES
from tracecols.model.tables import STEP_OF, STEPS, read_by
from tracecols.schema import EventKind, compound
from tracecols.schema.causes import DELAYS
from tracecols.schema.scans import ATTRIBUTED_EVENTS, CALL_INSTANCES
from tracecols.store import Store

OF_OPERATIONS = MANAGES | mask_of(
    (
        EventKind.RMA_COLLECTIVE_END, EventKind.RMA_GROUP_SYNC, EventKind.RMA_REQUEST_LOCK, EventKind.RMA_ACQUIRE_LOCK,
        EventKind.RMA_RELEASE_LOCK, EventKind.RMA_PUT, EventKind.RMA_GET, EventKind.NON_BLOCKING_COLLECTIVE_REQUEST,
        EventKind.NON_BLOCKING_COLLECTIVE_COMPLETE, EventKind.IO_OPERATION_BEGIN,
    )
)  # fmt: skip
"""Kinds of events at which operations wait that the reference does not support (`causes.operations`)."""


@dataclass(frozen=True)
class PlannedStep:
    """A step of an analysis that is going to run."""

    stage: str
    name: str
    """`stage` and `name`: of the step; the scan and the merging of call trees come before all stages."""
    doc: str
    """What the step does."""
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    """`reads` and `makes`: names of values; `every x` means the values of all partitions."""
    n_slices: int
    """Number of times it runs: once per group of processes, partition or bucket, or once."""
    n_bytes: int
    """Bytes it keeps for later steps, at most; 0 if its values are freed with its slice."""


def row_bytes(names: Sequence[str]) -> int:
    """Return the bytes of one row of some columns of messages or participants."""
    known = {
        c.name: np.dtype(c.dtype).itemsize for t in (compound.MESSAGES, compound.COLLECTIVE_MEMBERS) for c in t.columns
    }
    known |= {"source_process": 4, "destination_process": 8, "key": 8, "root": 4, "op": 2, "begin": 8}
    return sum(known[name] for name in names)


def needed_steps(values: Iterable[str]) -> list[Step]:
    """Find the steps that make some values, with all that these need, in the order of `STEPS`."""
    wanted = {name for name in values if name in STEP_OF}
    wanted |= read_by(STEP_OF[name] for name in wanted)
    return [step for step in STEPS if not wanted.isdisjoint(step.makes)]


def _of_causes(
    store: Store, kinds: Mapping[int, int], n_sends: int, n_receives: int, n_members: int, is_divided: bool
) -> dict[str, int]:
    """Bound the bytes that the steps of root causes keep, assuming that everybody waits and every event changes the
    call path."""
    point, pair = (sum(np.dtype(t).itemsize for t in of.values()) for of in (OF_POINT, OF_PAIR))
    n_events = int(store.manifest["n_events"])
    threads = {int(EventKind.THREAD_FORK), int(EventKind.OMP_FORK)} & set(kinds)
    n_regions = n_events // 2 if threads else 0
    n_locks = store.definitions["locations"].num_rows + sum(n for k, n in kinds.items() if IS_ACQUIRE[k])
    n_operations = sum(n for k, n in kinds.items() if OF_OPERATIONS[k]) + kinds.get(int(EventKind.MPI_REQUEST_TEST), 0)
    n_lives = sum(kinds.get(int(k), 0) for k in LIVES)
    n_pairs = n_receives + n_sends + n_members + n_regions + n_locks + n_operations + n_lives
    n_points = (
        2 * (n_receives + n_sends + n_locks + n_operations)
        + n_members
        + n_regions
        + n_lives
        + 5 * store.definitions["locations"].num_rows
    )
    index = n_points * (2 * number_type(n_points)().itemsize + 12)
    entries = 12 * n_events
    # call paths in periods also have exclusive time between events
    of_periods = 22 * n_events if is_divided else 0
    return {
        "late_senders": n_receives * (2 * point + pair),
        "late_receivers": n_sends * (2 * point + pair),
        "collective_points": n_members * (point + pair),
        "operation_points": n_operations * (2 * point + pair),
        "startup_points": 4 * store.definitions["locations"].num_rows * point,
        "lock_points": n_locks * (2 * point + pair),
        "created_points": n_lives * (point + pair),
        "thread_regions": 45 * n_regions,
        "thread_points": n_regions * (point + pair),
        "sync_points": n_points * point,
        "delay_pairs": n_pairs * (pair + 32),
        "point_index": index,
        "segments": entries,
        "own_times": 16 * n_events,
        "delays": 32 * n_pairs + entries,
        "delay_periods": (17 * n_pairs if is_divided else 0) + of_periods,
        "factors": n_pairs * 8 * (len(DELAYS) + 2) + 16 * n_points,
        "path": 16 * n_points,
        "path_charges": (38 if is_divided else 16) * n_points,
        "root_causes": 18 * n_events,
        "period_times": of_periods,
        **_of_devices(store, n_members, n_receives, n_sends, n_events),
    }


def _of_devices(store: Store, n_members: int, n_receives: int, n_sends: int, n_events: int) -> dict[str, int]:
    """Bound the bytes kept by the steps that follow chains over devices, if there are streams, assuming that every
    second event begins an operation, and that each is on a call path of its own. All chains are joined to be compared,
    so they are there twice."""
    if "gpu" not in store.definitions["locations"].column("type").to_pylist():
        n_members = n_receives = n_sends = n_events = 0
    operation, wait = 8 * len(OPERATION) + 8 * len(SYNC), 8 * len(WAIT) + 8 * len(PART)
    n_waits = n_members + n_receives + n_sends
    return {
        "device_operations": operation * n_events // 2,
        "device_members": wait * n_members,
        "device_receives": wait * n_receives,
        "device_sends": wait * n_sends,
        "device_waits": wait * n_waits,
        "host_lines": 32 * n_events,
        "device_chains": 2 * (16 * 8 // 2 + 12 + 32) * n_events,
        "device_path": 8 * 8 * n_events,
    }


def _of_clocks(store: Store, kinds: Mapping[int, int], n_receives: int, n_members: int) -> dict[str, int]:
    """Bound the bytes that clock conditions keep: at most three edges for a participant, two for a thread in a
    barrier."""
    edge = 18
    has_threads = {int(EventKind.THREAD_FORK), int(EventKind.OMP_FORK), int(EventKind.THREAD_BEGIN)} & set(kinds)
    return {
        "message_conditions": edge * n_receives,
        "collective_conditions": 3 * edge * n_members,
        "startup_conditions": 4 * edge * store.definitions["locations"].num_rows,
        "thread_conditions": edge * int(store.manifest["n_events"]) if has_threads else 0,
    }


def _bytes_kept(store: Store, is_divided: bool) -> dict[str, int]:
    """Bound the bytes that values take which steps keep for later steps."""
    kinds = {int(k): int(n) for k, n in store.manifest["events_by_kind"].items()}
    n_sends, n_receives = (sum(n for k, n in kinds.items() if mask[k]) for mask in (SENDS, RECEIVES))
    n_members = kinds.get(int(EventKind.MPI_COLLECTIVE_END), 0)
    # tests that fail are recorded, probes that fail are not
    n_polls = n_receives + kinds.get(int(EventKind.MPI_REQUEST_TEST), 0)
    return {
        "outgoing_messages": n_sends * row_bytes(SEND_HALF) + n_receives * row_bytes([*KEY, *RECV_HALF]),
        "match_result": n_sends * np.dtype(np.int64).itemsize,
        "late_calls": 16 * n_receives,
        "polling_calls": np.dtype(np.int64).itemsize * len(POLL) * n_polls,
        "polled_messages": np.dtype(np.int64).itemsize * len(AWAITED) * n_polls,
        "outgoing_members": n_members * row_bytes(MEMBER),
        "thread_lives": 92 * sum(kinds.get(int(k), 0) for k in LIVES),
        **_of_clocks(store, kinds, n_receives, n_members),
        **_of_causes(store, kinds, n_sends, n_receives, n_members, is_divided),
    }


def explain(store: Store, values: Iterable[str], is_divided: bool = False) -> list[PlannedStep]:
    """Plan the steps that make some values of a trace, in the order in which they run; only definitions and the numbers
    of events are read.

    Numbers of slices and bytes are estimates: the number of call instances is assumed to be that of attributed events.
    """
    process, kept = Definitions.of(store).process, _bytes_kept(store, is_divided)
    by_kind = store.manifest["events_by_kind"]
    families = [t for t in ("p2p", "collectives", "locks", "rma") if t in store.tables]
    rows = np.array([sum(store.n_rows(t, i) for t in families) for i in range(process.size)], np.int64)
    n_partitions = len(divide(process, 2 * rows))
    n_members = int(by_kind.get(str(int(EventKind.MPI_COLLECTIVE_END)), 0))
    slices = {BUCKET: -(-n_members // BUCKET_ROWS) if n_partitions > 1 else 1, **dict.fromkeys(ONCE, 1)}
    scanned = sum(np.dtype(c.dtype).itemsize for t in (CALL_INSTANCES, ATTRIBUTED_EVENTS) for c in t.columns)
    scan = PlannedStep(
        "scan",
        "scan_locations",
        "Pass over the events of every location: region stack, call paths, exclusive times.",
        ("events", *families),
        ("scans",),
        int(distinct(process).size),
        scanned * sum(int(n) for k, n in by_kind.items() if ATTRIBUTED[int(k)]),
    )
    merging = "Merge the call paths of all locations into one tree."
    plan = [scan, PlannedStep("scan", "merge_call_paths", merging, ("scans",), ("facts",), 1, 0)]
    for step in needed_steps(values):
        n_bytes = sum(kept[name] for name in step.keeps) if n_partitions > 1 else 0
        n_slices = slices.get(step.stage, n_partitions)
        reads = tuple(map(str, step.reads))
        plan.append(PlannedStep(step.stage or "any", step.name, step.doc, reads, step.makes, n_slices, n_bytes))
    return plan
