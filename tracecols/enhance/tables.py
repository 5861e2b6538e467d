"""All steps of an analysis and all compound tables, each declared once; engine, `Trace`, documentation and checks derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.causes.charges import charge_delays, charge_run
from tracecols.enhance.causes.delays import find_delays, own_times, waiting_times
from tracecols.enhance.causes.index import index_points
from tracecols.enhance.causes.pairs import match_causes
from tracecols.enhance.causes.periods import divide_causes, divide_own_times, divide_run, find_arising
from tracecols.enhance.causes.points import (
    collective_points,
    late_receivers,
    late_senders,
    lock_points,
    startup_points,
    thread_points,
)
from tracecols.enhance.causes.segments import segments
from tracecols.enhance.causes.stretches import list_stretches
from tracecols.enhance.causes.sweep import find_critical_path, sweep_costs
from tracecols.enhance.clocks import (
    collective_conditions,
    find_clock_violations,
    message_conditions,
    startup_conditions,
    thread_conditions,
)
from tracecols.enhance.collectives import find_startups, match_collectives, outgoing_members
from tracecols.enhance.constructs import match_constructs, match_teams
from tracecols.enhance.created import match_created_threads
from tracecols.enhance.devices import match_devices
from tracecols.enhance.facts import Facts
from tracecols.enhance.file_operations import match_file_operations
from tracecols.enhance.instances import call_instances, profile, region_instances
from tracecols.enhance.locks import ACQUIRE, match_locks
from tracecols.enhance.messages import (
    RECEIVES,
    SENDS,
    find_late_calls,
    gather_sent,
    list_sends,
    match_messages,
    outgoing_messages,
    pair_requests,
)  # fmt: skip
from tracecols.enhance.nonblocking import match_nonblocking
from tracecols.enhance.scan import ACTION
from tracecols.enhance.steps import (
    BUCKET,
    CAUSES,
    CHARGES,
    CLOCKS,
    DELAYS,
    GLOBAL,
    RECEIVE,
    RUN,
    SEND,
    SPENT,
    SWEEP,
    WITHIN,
    Every,
    Step,
)
from tracecols.enhance.teams import Teams
from tracecols.enhance.windows import list_rma_operations, match_epochs, match_lock_epochs, match_window_collectives
from tracecols.kernels.actions import PUSH
from tracecols.schema import EventKind, Table, causes, clocks, compound


def find_teams(facts: Facts, members: NDArray[np.int64], only_global: bool) -> Teams:
    """Find the team instances of some locations.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    members : (n_members,) int64
        Rows of the locations of the partition, ascending.
    only_global : bool
        Whether only call instances count that concern the whole trace: one-sided communication, files, start and end of MPI.
    """
    return Teams(facts.store, facts.locations, np.zeros(0, np.int64) if only_global else members)


_LOCAL = ("facts", "scans", "members", "call_instances")
_PAIRS = ("sync_points", "delay_pairs", "point_index")

STEPS = (
    Step(find_teams, "", ("facts", "members", "only_global"), ("team_instances",)),
    Step(call_instances, "", ("facts", "scans", "members", "only_global", "team_instances"), ("call_instances",)),
    Step(profile, "", ("facts", "scans"), ("profile",)),
    Step(match_teams, WITHIN, ("facts", "scans", "team_instances"), ("teams",)),
    Step(match_constructs, WITHIN, ("facts", "call_instances", "team_instances"), ("constructs", "construct_members")),
    Step(
        match_devices, WITHIN, _LOCAL, ("kernels", "copies", "device_syncs", "device_intervals"),
    ),
    Step(match_created_threads, WITHIN, ("facts", "members", "call_instances"), ("created_threads",)),
    Step(match_locks, WITHIN, _LOCAL, ("lock_acquisitions", "lockptr")),
    Step(pair_requests, WITHIN, _LOCAL, ("point_to_point",)),
    Step(list_sends, WITHIN, ("point_to_point", "call_instances"), ("sends",)),
    Step(region_instances, WITHIN, ("facts", "scans", "members", "team_instances"), ("region_instances",)),
    Step(
        outgoing_messages, WITHIN, ("facts", "division", "spill", "point_to_point", "call_instances"),
        ("outgoing_messages",), keeps=("outgoing_messages",),
    ),
    Step(
        outgoing_members, WITHIN, (*_LOCAL, "division", "spill"), ("outgoing_members",), keeps=("outgoing_members",),
    ),
    Step(
        match_messages, RECEIVE, ("facts", "partition", Every("outgoing_messages"), "spill"),
        ("messages", "receives", "match_result"), keeps=("match_result",),
    ),
    Step(find_late_calls, RECEIVE, ("messages",), ("late_calls",), keeps=("late_calls",)),
    Step(
        gather_sent, SEND, ("facts", "partition", "outgoing_messages", Every("match_result"), "late_calls"),
        ("sent_messages",),
    ),
    Step(match_collectives, BUCKET, ("facts", "bucket", Every("outgoing_members")), ("collectives", "collective_members")),
    Step(find_startups, GLOBAL, ("facts", "call_instances"), ("startups",)),
    Step(list_rma_operations, GLOBAL, _LOCAL, ("rma_operations",)),
    Step(match_window_collectives, GLOBAL, (*_LOCAL, "rma_operations"), ("window_members",)),
    Step(match_lock_epochs, GLOBAL, _LOCAL, ("lock_epochs",)),
    Step(match_nonblocking, GLOBAL, _LOCAL, ("nonblocking_members",)),
    Step(match_epochs, GLOBAL, _LOCAL, ("epochs",)),
    Step(match_file_operations, GLOBAL, ("facts", "members", "call_instances"), ("file_operations", "file_members")),
    Step(
        message_conditions, RECEIVE, ("facts", "messages", "spill"), ("message_conditions",), keeps=("message_conditions",),
    ),
    Step(
        collective_conditions, BUCKET, ("facts", "collectives", "collective_members", "spill"), ("collective_conditions",),
        keeps=("collective_conditions",),
    ),
    Step(
        startup_conditions, GLOBAL, ("facts", "startups"), ("startup_conditions",), keeps=("startup_conditions",),
    ),
    Step(
        thread_conditions, WITHIN,
        (
            "facts", "members", "team_instances", "teams", "constructs", "construct_members", "lock_acquisitions",
            "created_threads", "spill",
        ),
        ("thread_conditions",), keeps=("thread_conditions",),
    ),
    Step(
        find_clock_violations, CLOCKS,
        (
            Every("message_conditions"), Every("collective_conditions"), "startup_conditions", Every("thread_conditions"),
        ),
        ("clock_violations",),
    ),
    Step(late_senders, RECEIVE, ("facts", "quirks", "messages", "spill"), ("late_senders",), keeps=("late_senders",)),
    Step(late_receivers, SEND, ("facts", "quirks", "sent_messages", "spill"), ("late_receivers",), keeps=("late_receivers",)),
    Step(
        collective_points, BUCKET, ("facts", "quirks", "collectives", "collective_members", "spill"), ("collective_points",),
        keeps=("collective_points",),
    ),
    Step(startup_points, GLOBAL, ("facts", "quirks", "startups"), ("startup_points",), keeps=("startup_points",)),
    Step(
        thread_points, WITHIN, ("facts", "quirks", "constructs", "construct_members", "teams", "spill"), ("thread_points",),
        keeps=("thread_points",),
    ),
    Step(
        lock_points, WITHIN, ("facts", "quirks", "lock_acquisitions", "created_threads", "spill"), ("lock_points",),
        keeps=("lock_points",),
    ),
    Step(
        match_causes, CAUSES,
        (
            "facts", "quirks", "scans", Every("late_senders"), Every("late_receivers"), Every("collective_points"), "startup_points",
            Every("thread_points"), Every("lock_points"),
        ),
        ("sync_points", "delay_pairs"), keeps=("sync_points", "delay_pairs"),
    ),
    Step(index_points, CAUSES, ("facts", "sync_points", "delay_pairs"), ("point_index",), keeps=("point_index",)),
    Step(
        segments, SPENT, ("facts", "quirks", "scans", "members", "team_instances", "sync_points", "point_index", "thread_points",
            "spill"),
        ("segments",), keeps=("segments",),
    ),
    Step(
        waiting_times, SPENT, ("facts", "quirks", "members", "division", *_PAIRS, "segments", "spill"),
        ("waiting_times",), keeps=("waiting_times",),
    ),
    Step(own_times, SPENT, ("facts", "quirks", "members", "sync_points", "point_index", "segments"), ("own_times",), keeps=("own_times",)),
    Step(
        divide_own_times, SPENT, ("facts", "quirks", "members", "sync_points", "point_index", "segments"), ("period_times",),
        keeps=("period_times",),
    ),
    Step(
        find_delays, DELAYS, ("facts", "quirks", "members", "partition", *_PAIRS, "segments", Every("waiting_times"), "spill"),
        ("delays",), keeps=("delays",),
    ),
    Step(sweep_costs, SWEEP, ("facts", "quirks", *_PAIRS, Every("delays")), ("factors",), keeps=("factors",)),
    Step(find_critical_path, SWEEP, ("facts", "quirks", "sync_points", "delay_pairs"), ("path",), keeps=("path",)),
    Step(list_stretches, SWEEP, ("facts", "quirks", "scans", "sync_points", "path"), ("critical_path_stretches",)),
    Step(
        find_arising, CHARGES, ("facts", "quirks", "members", *_PAIRS, "segments", "delays", "path"), ("arising",),
    ),
    Step(
        charge_delays, CHARGES, ("facts", "quirks", "members", *_PAIRS, "segments", "delays", "factors", "path", "arising"),
        ("charged_causes", "cause_weights"),
    ),
    Step(divide_causes, CHARGES, ("facts", "quirks", "charged_causes", "cause_weights"), ("root_causes",), keeps=("root_causes",)),
    Step(
        charge_run, RUN, ("facts", "quirks", *_PAIRS, "factors", Every("root_causes"), Every("own_times")), ("charged_run",),
    ),
    Step(
        divide_run, RUN,
        ("facts", "quirks", *_PAIRS, "factors", Every("root_causes"), Every("period_times"), "charged_run"), ("run_causes",),
    ),
)  # fmt: skip
"""In an order in which they could run. A step without a stage works in any of them, on the slice it is asked for."""

STEP_OF: Mapping[str, Step] = MappingProxyType({name: step for step in STEPS for name in step.makes})
"""The step that makes a value, by the value's name."""


@dataclass(frozen=True)
class TableSpec:
    """A compound table.

    Attributes
    ----------
    schema : Table
        Its name and columns.
    charged : tuple of str, optional
        Columns that say where its rows are charged unless a pattern says otherwise: call path and location. Without them no
        pattern can match on it.
    counts : bool
        Whether it counts what contradicts itself.
    order : tuple of str
        Columns, declared or beside, by which the rows of the whole trace are ordered, so that slices can be put together; empty
        where there is only one slice.
    by_location : bool
        Whether its rows are those of the members of a slice one after the other, so that the step can make them for one
        location at a time.
    kinds : frozenset of int
        Kinds of events of which it has one row each, at most; empty where that is not known beforehand.
    """

    schema: Table
    charged: tuple[str, str] | None = None
    counts: bool = False
    order: tuple[str, ...] = ()
    by_location: bool = False
    kinds: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """What the table is called, everywhere."""
        return self.schema.name

    @property
    def stage(self) -> str:
        """The stage in which it is complete."""
        return STEP_OF[self.name].stage

    @property
    def references(self) -> Mapping[str, str]:
        """Its columns that hold rows of compound tables of the same slice, and the names of these."""
        return {c.name: c.target for c in self.schema.columns if c.target in STEP_OF}


def _kinds(mask: NDArray[np.bool_]) -> frozenset[int]:
    return frozenset(np.flatnonzero(mask).tolist())


_HERE = ("call_path", "location")

TABLES: Mapping[str, TableSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            TableSpec(compound.PROFILE),
            TableSpec(compound.REGION_INSTANCES, _HERE, order=("enter",), by_location=True, kinds=_kinds(ACTION == PUSH)),
            TableSpec(compound.TEAMS, counts=True, order=("turn", "team")),
            TableSpec(compound.CONSTRUCTS, counts=True, order=("earliest_enter_time", "first_enter")),
            TableSpec(compound.CONSTRUCT_MEMBERS, _HERE, order=("enter",)),
            TableSpec(compound.LOCK_ACQUISITIONS, _HERE, counts=True, order=("acquire",), kinds=_kinds(ACQUIRE)),
            TableSpec(compound.CREATED_THREADS, ("join_call_path", "join_location"), counts=True, order=("begin",)),
            TableSpec(compound.KERNELS, _HERE, counts=True, order=("enter_time", "enter")),
            TableSpec(compound.COPIES, _HERE, order=("begin_time", "event")),
            TableSpec(compound.DEVICE_SYNCS, _HERE, order=("enter",)),
            TableSpec(compound.DEVICE_INTERVALS, _HERE, order=("location", "begin_time")),
            TableSpec(compound.SENDS, _HERE, order=("send",), kinds=_kinds(SENDS)),
            TableSpec(compound.RECEIVES, _HERE, order=("recv",), kinds=_kinds(RECEIVES)),
            TableSpec(
                compound.MESSAGES, ("recv_call_path", "recv_location"), counts=True, order=("recv",), kinds=_kinds(RECEIVES),
            ),
            TableSpec(
                compound.SENT_MESSAGES, ("send_done_call_path", "send_location"), order=("send",), kinds=_kinds(SENDS),
            ),
            TableSpec(compound.COLLECTIVES, counts=True, order=("earliest_end_time", "first_end")),
            TableSpec(
                compound.COLLECTIVE_MEMBERS, _HERE, order=("end",), kinds=frozenset({int(EventKind.MPI_COLLECTIVE_END)}),
            ),
            TableSpec(compound.NONBLOCKING_MEMBERS, ("done_call_path", "location"), counts=True),
            TableSpec(compound.STARTUPS, _HERE),
            TableSpec(compound.WINDOW_MEMBERS, _HERE, counts=True),
            TableSpec(compound.RMA_OPERATIONS, _HERE),
            TableSpec(compound.LOCK_EPOCHS, ("lock_call_path", "location")),
            TableSpec(compound.EPOCHS, ("wait_call_path", "target"), counts=True),
            TableSpec(compound.FILE_OPERATIONS, _HERE),
            TableSpec(compound.FILE_MEMBERS, _HERE, counts=True),
            TableSpec(clocks.CLOCK_VIOLATIONS),
            TableSpec(causes.SYNC_POINTS),
            TableSpec(causes.DELAY_PAIRS),
            TableSpec(causes.CRITICAL_PATH),
            TableSpec(causes.ROOT_CAUSES, order=("property", "call_path", "location")),
            TableSpec(causes.RUN_CAUSES),
        )
    }
)  # fmt: skip
"""All compound tables by name."""


def tables_of(stage: str) -> tuple[TableSpec, ...]:
    """Return the tables that are complete in a stage.

    Parameters
    ----------
    stage : str
        A name in `steps.STAGES`.
    """
    return tuple(spec for spec in TABLES.values() if spec.stage == stage)
