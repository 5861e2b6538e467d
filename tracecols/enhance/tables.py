"""All steps of an analysis and all compound tables, each declared once; engine, `Trace`, documentation and checks derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.collectives import find_startups, match_collectives, outgoing_members
from tracecols.enhance.constructs import match_constructs, match_teams
from tracecols.enhance.created import match_created_threads
from tracecols.enhance.devices import match_devices
from tracecols.enhance.facts import Facts
from tracecols.enhance.instances import call_instances, profile, region_instances
from tracecols.enhance.locks import match_locks
from tracecols.enhance.messages import (
    find_late_calls,
    gather_sent,
    list_sends,
    match_messages,
    outgoing_messages,
    pair_requests,
)  # fmt: skip
from tracecols.enhance.nonblocking import match_nonblocking
from tracecols.enhance.steps import BUCKET, GLOBAL, RECEIVE, SEND, WITHIN, Every, Step
from tracecols.enhance.teams import Teams
from tracecols.enhance.windows import list_rma_operations, match_epochs, match_lock_epochs, match_window_collectives
from tracecols.schema import Table, compound


def find_teams(facts: Facts, members: NDArray[np.int64], only_global: bool) -> Teams:
    """Find the team instances of some locations."""
    return Teams(facts.store, facts.locations, np.zeros(0, np.int64) if only_global else members)


_LOCAL = ("facts", "scans", "members", "call_instances")

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
    """

    schema: Table
    charged: tuple[str, str] | None = None
    counts: bool = False

    @property
    def name(self) -> str:
        """What the table is called, everywhere."""
        return self.schema.name

    @property
    def stage(self) -> str:
        """The stage in which it is complete."""
        return STEP_OF[self.name].stage


_HERE = ("call_path", "location")

TABLES: Mapping[str, TableSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            TableSpec(compound.PROFILE),
            TableSpec(compound.REGION_INSTANCES, _HERE),
            TableSpec(compound.TEAMS, counts=True),
            TableSpec(compound.CONSTRUCTS, counts=True),
            TableSpec(compound.CONSTRUCT_MEMBERS, _HERE),
            TableSpec(compound.LOCK_ACQUISITIONS, _HERE, counts=True),
            TableSpec(compound.CREATED_THREADS, ("join_call_path", "join_location"), counts=True),
            TableSpec(compound.KERNELS, _HERE, counts=True),
            TableSpec(compound.COPIES, ("call_path", "location")),
            TableSpec(compound.DEVICE_SYNCS, _HERE),
            TableSpec(compound.DEVICE_INTERVALS, _HERE),
            TableSpec(compound.SENDS, _HERE),
            TableSpec(compound.RECEIVES, _HERE),
            TableSpec(compound.MESSAGES, ("recv_call_path", "recv_location"), counts=True),
            TableSpec(compound.SENT_MESSAGES, ("send_done_call_path", "send_location")),
            TableSpec(compound.COLLECTIVES, counts=True),
            TableSpec(compound.COLLECTIVE_MEMBERS, _HERE),
            TableSpec(compound.NONBLOCKING_MEMBERS, ("done_call_path", "location"), counts=True),
            TableSpec(compound.STARTUPS, _HERE),
            TableSpec(compound.WINDOW_MEMBERS, _HERE, counts=True),
            TableSpec(compound.RMA_OPERATIONS, _HERE),
            TableSpec(compound.LOCK_EPOCHS, ("lock_call_path", "location")),
            TableSpec(compound.EPOCHS, ("wait_call_path", "target"), counts=True),
        )
    }
)
"""All compound tables by name."""


def tables_of(stage: str) -> tuple[TableSpec, ...]:
    """Return the tables that are complete in a stage."""
    return tuple(spec for spec in TABLES.values() if spec.stage == stage)
