"""Waits of kernels for those of other ranks, in collective operations and messages of NCCL, RCCL and oneCCL.

A rank that has waited in an operation knows that some others have begun their parts of it: they have *met*. Chains of
two ranks are compared since they met last (`causes.device_chains`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import lookup, number
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import BUCKET, CAUSES, RECEIVE, SEND, step
from tracecols.enhance.mpi.waits import (
    BARRIER,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    Participants,
    of_operations,
    synchronised,
    wait_for_receiving_kernels,
    wait_for_sending_kernels,
)
from tracecols.enhance.scan.facts import Facts
from tracecols.schema.causes import DEVICE_DELAYS
from tracecols.vectors import Ints, Mask

WAIT = ("row", "kind", "wait", "cause", "group")
"""Columns of a kernel that waits: row of its ENTER, kind of the wait (`DEVICE_DELAYS`), ticks waited, row of the kernel
it waits for, and the group that it has met then."""

PART = ("group", "process", "row")
"""Columns of a member of a group: the group, a process, and the row of its kernel."""


class KernelWaits(NamedTuple):
    """Kernels that wait (`WAIT`), and the groups that they meet (`PART`)."""

    waits: ColumnSource
    parts: ColumnSource


def _kept(waits: list[tuple[Ints, ...]], parts: list[tuple[Ints, ...]], spill: Spill) -> KernelWaits:
    """Concatenate and keep columns."""

    def columns(names: tuple[str, ...], of: list[tuple[Ints, ...]]) -> ColumnSource:
        joined = {name: np.concatenate([np.zeros(0, np.int64), *(p[i] for p in of)]) for i, name in enumerate(names)}
        return spill.keep(Columns(joined[names[0]].size, joined))

    return KernelWaits(columns(WAIT, waits), columns(PART, parts))


class _Rule(NamedTuple):
    """Masks of the participants that wait in some operations, and of those that they may wait for."""

    waiting: Mask
    among: Mask


def _everybody(p: Participants) -> _Rule:
    """Barriers."""
    return _Rule(np.ones(p.row.size, bool), np.ones(p.row.size, bool))


def _exchange(p: Participants) -> _Rule:
    """Operations of all with all: for those that send, if not all were inside at the same time."""
    return _Rule(synchronised(p)[2], p.all_meet() | (p.sent > 0))


def _from_root(p: Participants) -> _Rule:
    """Operations in which the root sends."""
    return _Rule(~p.is_root & (p.received > 0), p.is_root & (p.sent > 0))


def _to_root(p: Participants) -> _Rule:
    """Operations in which the root receives."""
    return _Rule(p.is_root & (p.received > 0), p.sent > 0)


OPERATIONS = (
    ("n_to_n", BARRIER, _everybody), ("n_to_n", N_TO_N, _exchange), ("one_to_n", ONE_TO_N, _from_root),
    ("n_to_one", N_TO_ONE, _to_root),
)  # fmt: skip
"""The kind of delay that costs are charged to, the operations, and their rule."""


@step(BUCKET, "device_members")
def device_members(
    facts: Facts, collectives: CompoundTable, collective_members: CompoundTable, spill: Spill
) -> KernelWaits:
    """Find the kernels that wait in collective operations, and those that they wait for."""
    m = collective_members
    waits: list[tuple[Ints, ...]] = []
    parts: list[tuple[Ints, ...]] = []
    for kind, ops, rule in OPERATIONS:
        row = np.flatnonzero(of_operations(collectives, m, ops, True))
        if not row.size:
            continue
        p = Participants(m, row)
        waiting, among = rule(p)
        cause = p.latest(among)
        wait = np.where(waiting & (cause >= 0), p.wait(p.latest_begin(among)), 0)
        enter, group = m.enter[row].astype(np.int64), collectives.first_end[m.collective[row]].astype(np.int64)
        at = np.flatnonzero(wait > 0)
        waits.append((enter[at], np.full(at.size, DEVICE_DELAYS.index(kind)), wait[at], enter[cause[at]], group[at]))
        met = np.flatnonzero(among & p.any(wait > 0))
        parts.append((group[met], facts.process[m.location[row[met]]].astype(np.int64), enter[met]))
    return _kept(waits, parts, spill)


@step(RECEIVE, "device_receives")
def device_receives(facts: Facts, messages: CompoundTable, spill: Spill) -> KernelWaits:
    """Find the kernels that wait for those that send to them."""
    m = messages
    wait, waits = wait_for_sending_kernels(facts, m)
    at = np.flatnonzero(waits)
    row = m.recv_enter[at]
    kind = np.full(at.size, DEVICE_DELAYS.index("late_sender"))
    met = np.flatnonzero(np.isin(m.recv_enter, row) & (m.send_enter >= 0)) if at.size else at
    part = m.recv_enter[met], facts.process[m.send_location[met]].astype(np.int64), m.send_enter[met]
    return _kept([(row, kind, wait[at], m.send_enter[at], row)], [part], spill)


@step(SEND, "device_sends")
def device_sends(facts: Facts, sent_messages: CompoundTable, spill: Spill) -> KernelWaits:
    """Find the kernels that wait for those that receive from them."""
    m = sent_messages
    wait, waits = wait_for_receiving_kernels(facts, m)
    at = np.flatnonzero(waits)
    row = m.send_done_enter[at]
    kind = np.full(at.size, DEVICE_DELAYS.index("late_receiver"))
    is_met = (m.recv_post_enter >= 0) & (m.recv_post_enter_time < m.send_done_exit_time)
    met = np.flatnonzero(np.isin(m.send_done_enter, row) & is_met) if at.size else at
    part = m.send_done_enter[met], facts.process[m.recv_location[met]].astype(np.int64), m.recv_post_enter[met]
    return _kept([(row, kind, wait[at], m.recv_post_enter[at], row)], [part], spill)


class DeviceWaits(NamedTuple):
    """The waits of the kernels of a trace."""

    waits: ColumnSource
    """`WAIT`, by row; groups are numbers of those in `start`."""
    start: Ints
    """(n_groups + 1,) int64: first part of each group."""
    process: Ints
    row: Ints
    """`process` and `row`: (n_parts,) int64, by group and process: the kernel of a process."""

    def of(self, row: Ints) -> Columns:
        """Return the waits of kernels, by their rows; 0 for `wait` and -1 for the other columns if a kernel does not
        wait."""
        at = lookup(self.waits.column("row"), row)
        columns = {name: pick(self.waits.column(name), at, 0 if name == "wait" else -1) for name in WAIT[1:]}
        return Columns(row.size, columns)

    def kernel_of(self, group: Ints, process: Ints) -> Ints:
        """Return the row of a process' kernel in a group; -1 none."""
        n = int(max(self.process.max(initial=0), process.max(initial=0))) + 1
        key = np.repeat(np.arange(self.start.size - 1), np.diff(self.start)) * n + self.process
        return np.where(group >= 0, pick(self.row, lookup(key, group * n + process)), -1)


@step(CAUSES, "device_waits")
def device_waits(
    every_device_members: Sequence[KernelWaits],
    every_device_receives: Sequence[KernelWaits],
    every_device_sends: Sequence[KernelWaits],
) -> DeviceWaits:
    """Join the waits of all kernels; of several waits of a kernel the longest counts."""
    found = [*every_device_members, *every_device_receives, *every_device_sends]
    waits, parts = (joined_columns([f[i] for f in found]) for i in range(2))
    order = np.lexsort((-waits.wait, waits.row))
    waits = waits.take(order[starts_run(waits.row[order])])
    group, first = number(np.concatenate([waits.group, parts.group]))
    columns = {name: waits[name] for name in WAIT} | {"group": group[: len(waits)]}
    group = group[len(waits) :]
    order = np.lexsort((parts.row, parts.process, group))
    start = np.searchsorted(group[order], np.arange(first.size + 1))
    return DeviceWaits(Columns(len(waits), columns), start, parts.process[order], parts.row[order])
