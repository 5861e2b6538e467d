"""All steps of an analysis and all compound tables, each declared once; engine, `Trace`, documentation and checks
derive from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from tracecols.causes import (
    charges,
    delays,
    device_chains,
    device_costs,
    device_operations,
    device_path,
    device_waits,
    host_lines,
    index,
    operations,
    pairs,
    periods,
    points,
    segments,
    stretches,
    sweep,
)
from tracecols.enhance import conditions as clock_conditions
from tracecols.enhance.dataflow.steps import Step, collect
from tracecols.enhance.devices import tables as device_tables
from tracecols.enhance.mpi import collectives, file_operations, messages, nonblocking, polls, processes, windows
from tracecols.enhance.scan import instances, notes
from tracecols.enhance.scan.gaps import IS_ACQUIRE
from tracecols.enhance.scan.location_scan import ACTION
from tracecols.enhance.threads import constructs, created, locks, ordered
from tracecols.kernels.actions import PUSH
from tracecols.schema import KINDS, EventKind, Table, causes, clocks, compound
from tracecols.vectors import Mask

STEPS = collect(
    (
        instances,
        notes,
        constructs,
        device_tables,
        created,
        locks,
        ordered,
        messages,
        collectives,
        processes,
        windows,
        nonblocking,
        polls,
        file_operations,
        clock_conditions,
        points,
        operations,
        pairs,
        index,
        segments,
        delays,
        periods,
        sweep,
        stretches,
        charges,
        device_operations,
        device_waits,
        host_lines,
        device_chains,
        device_costs,
        device_path,
    )
)
"""All steps, in an order in which they can run."""

STEP_OF: Mapping[str, Step] = MappingProxyType({name: step for step in STEPS for name in step.makes})
"""The step that makes a value, by the value's name."""


def read_by(steps: Iterable[Step], kept: Collection[str] = ()) -> set[str]:
    """Find the values that steps read, directly or through values made in between; those `kept` are not made again."""
    found: set[str] = set()
    waiting = list(steps)
    while waiting:
        for name, _ in waiting.pop().reads:
            if name in STEP_OF and name not in found:
                found.add(name)
                if name not in kept:
                    waiting.append(STEP_OF[name])
    return found


@dataclass(frozen=True)
class TableSpec:
    """A compound table."""

    schema: Table
    """Its name and columns."""
    charged: tuple[str, str] | None = None
    """Columns that say where its rows are charged unless a pattern says otherwise: call path and location. Without them
    no pattern can match on it."""
    counts: bool = False
    """Whether it counts recorded items that could not be matched or are inconsistent."""
    order: tuple[str, ...] = ()
    """Columns, declared or additional, by which the rows of the whole trace are ordered, so that slices can be merged;
    empty if there is only one slice."""
    by_location: bool = False
    """Whether its rows are ordered by the members of a slice, so that the step can make them for one location at a
    time."""
    kinds: frozenset[int] = frozenset()
    """Kinds of events that have at most one row each; empty if that is not known beforehand."""

    @property
    def name(self) -> str:
        """Name of the table, used everywhere."""
        return self.schema.name

    @cached_property
    def stage(self) -> str:
        """The stage in which it is complete."""
        return STEP_OF[self.name].stage

    @property
    def references(self) -> Mapping[str, str]:
        """Its columns that hold rows of compound tables of the same slice, and the names of these."""
        return {c.name: c.target for c in self.schema.columns if c.target in STEP_OF}


def _kinds(mask: Mask) -> frozenset[int]:
    return frozenset(np.flatnonzero(mask).tolist())


_HERE = ("call_path", "location")

_ENDS = frozenset({int(EventKind.MPI_COLLECTIVE_END), int(EventKind.COMM_CREATE)})
"""Kinds of events with which collective operations end."""

TABLES: Mapping[str, TableSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            TableSpec(compound.PROFILE),
            TableSpec(
                compound.REGION_INSTANCES, _HERE, order=("enter",), by_location=True, kinds=_kinds(ACTION == PUSH)
            ),
            TableSpec(
                compound.PARAMETER_VALUES,
                _HERE,
                order=("event",),
                by_location=True,
                kinds=frozenset(k for k in KINDS if k.family == "parameters"),
            ),
            TableSpec(compound.COUNTER_VALUES, _HERE, order=("event", "counter"), by_location=True),
            TableSpec(compound.LOCATION_MARKERS, _HERE, order=("location", "time", "marker"), by_location=True),
            TableSpec(compound.TEAMS, counts=True, order=("turn", "team")),
            TableSpec(compound.CONSTRUCTS, counts=True, order=("earliest_enter_time", "first_enter")),
            TableSpec(compound.CONSTRUCT_MEMBERS, _HERE, order=("enter",)),
            TableSpec(compound.LOCK_ACQUISITIONS, _HERE, counts=True, order=("acquire",), kinds=_kinds(IS_ACQUIRE)),
            TableSpec(compound.CREATED_THREADS, ("join_call_path", "join_location"), counts=True, order=("begin",)),
            TableSpec(compound.KERNELS, _HERE, counts=True, order=("enter_time", "enter")),
            TableSpec(compound.COPIES, _HERE, order=("begin_time", "event")),
            TableSpec(compound.DEVICE_SYNCS, _HERE, order=("enter",)),
            TableSpec(compound.DEVICE_INTERVALS, _HERE, order=("location", "begin_time")),
            TableSpec(compound.SENDS, _HERE, order=("send",), kinds=_kinds(messages.SENDS)),
            TableSpec(compound.RECEIVES, _HERE, order=("recv",), kinds=_kinds(messages.RECEIVES)),
            TableSpec(
                compound.MESSAGES,
                ("recv_call_path", "recv_location"),
                counts=True,
                order=("recv",),
                kinds=_kinds(messages.RECEIVES),
            ),
            TableSpec(
                compound.SENT_MESSAGES,
                ("send_done_call_path", "send_location"),
                order=("send",),
                kinds=_kinds(messages.SENDS),
            ),
            TableSpec(compound.COLLECTIVES, counts=True, order=("earliest_end_time", "first_end")),
            TableSpec(compound.COLLECTIVE_MEMBERS, _HERE, order=("end",), kinds=_ENDS),
            TableSpec(compound.NONBLOCKING_MEMBERS, ("done_call_path", "location"), counts=True),
            TableSpec(compound.POLLS, _HERE),
            TableSpec(compound.STARTUPS, _HERE),
            TableSpec(compound.CREATED_PROCESSES, ("create_call_path", "create_location")),
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
            TableSpec(causes.DEVICE_CAUSES),
            TableSpec(causes.RUN_CAUSES),
        )
    }
)
"""All compound tables by name."""


def tables_of(stage: str) -> tuple[TableSpec, ...]:
    """Return the tables that are complete in a stage."""
    return tuple(spec for spec in TABLES.values() if spec.stage == stage)
