"""All steps of an analysis and all compound tables, each declared once; engine, `Trace`, documentation and checks derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.collectives import find_startups, match_collectives, outgoing_members
from tracecols.enhance.constructs import match_constructs, match_teams
from tracecols.enhance.facts import Facts
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
from tracecols.enhance.scan import ACTION
from tracecols.enhance.steps import BUCKET, GLOBAL, RECEIVE, SEND, WITHIN, Every, Step
from tracecols.enhance.teams import Teams
from tracecols.enhance.windows import match_epochs, match_window_collectives
from tracecols.kernels.stacks import PUSH
from tracecols.schema import EventKind, Table, compound


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
    Step(match_window_collectives, GLOBAL, _LOCAL, ("window_members",)),
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
            TableSpec(compound.STARTUPS, _HERE),
            TableSpec(compound.WINDOW_MEMBERS, _HERE, counts=True),
            TableSpec(compound.EPOCHS, ("wait_call_path", "target"), counts=True),
        )
    }
)  # fmt: skip
"""All compound tables by name."""


def tables_of(stage: str) -> tuple[TableSpec, ...]:
    """Return the tables that are complete in a stage."""
    return tuple(spec for spec in TABLES.values() if spec.stage == stage)
