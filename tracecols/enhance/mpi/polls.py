"""Series of polling calls (MPI_Test and the like, MPI_Iprobe), and the calls that they wait for.

A series of polling calls of one location, without other call instances in between, ends with the call that completes an
operation, after MPI_Iprobe with the call that receives. All its calls wait for what the last call completes. MPI_Probe
and MPI_Mprobe right before a call that receives wait for the same message. A probe may also be followed by the call
that posts the receive of a message that is there.

Scope: series within a process; the awaited events come from messages and non-blocking collective operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import ends_run
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import lookup, mask_of
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import GLOBAL, RECEIVE, WITHIN, step
from tracecols.enhance.mpi.operation_waits import awaited_start, awaited_starters, depends_on_others
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.region_rules import is_blocking_probe, is_in, is_polling, named
from tracecols.schema import EventKind as K
from tracecols.schema.compound import POLLS
from tracecols.vectors import Ints, Mask

PROBE = named("mpi_im?probe", "mpi")
"""Calls that search for messages and receive none."""

COMPLETES = mask_of(
    (
        K.MPI_RECV,
        K.MPI_IRECV,
        K.MPI_MRECV,
        K.MPI_IMRECV,
        K.MPI_ISEND_COMPLETE,
        K.MPI_REQUEST_CANCELLED,
        K.NON_BLOCKING_COLLECTIVE_COMPLETE,
    )
)

CALL = ("location", "call_path", "enter", "exit", "enter_time", "exit_time")
POLL = {**dict.fromkeys(CALL, np.int64), "ends_in": np.int64, "is_last": np.bool_}
"""Columns of the calls of series: `ends_in` is the ENTER of the call that ends the series, `is_last` whether that is
the call itself."""
CAUSE = ("location", "event", "call_path", "enter_time", "exit_time")
AWAITED = {**POLL, **{f"cause_{name}": np.int64 for name in CAUSE}}

Awaited = dict[str, NDArray[Any]]


@step(WITHIN, "polling_calls")
def list_polling_calls(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances, spill: Spill
) -> ColumnSource:
    """List the polling calls of series that end with a call that completes an operation or receives."""
    calls = call_instances
    polls = is_in(facts, calls.call_path, is_polling)
    if not (polls | is_in(facts, calls.call_path, is_blocking_probe)).any():
        return _nothing(POLL)
    order = np.lexsort((calls.enter, calls.location))
    polls, location, enter = polls[order], calls.location[order], calls.enter[order]
    probes, blocks = (is_in(facts, calls.call_path[order], rule) for rule in (PROBE, is_blocking_probe))
    completes = polls & _completing(scans, members, calls)[order]
    # a series ends with or before such a call
    ends = np.flatnonzero(completes | ~polls)
    at = np.flatnonzero(polls)
    end = pick(np.append(ends, -1), np.searchsorted(ends, at))
    known = (end >= 0) & (pick(location, end) == location[at])
    at, end = at[known], end[known]
    known = completes[end] | probes[end - 1]
    at, end = at[known], end[known]
    before = np.flatnonzero(blocks[:-1] & ~(polls | blocks)[1:] & (location[1:] == location[:-1]))
    at, end = np.append(at, before), np.append(end, before + 1)
    columns = {name: getattr(calls, name)[order[at]].astype(np.int64) for name in CALL}
    columns |= {"ends_in": enter[end], "is_last": (at == end) | blocks[at]}
    return spill.keep(Columns(at.size, columns))


def _completing(scans: Sequence[LocationScan], members: Ints, calls: CallInstances) -> Mask:
    """Return a mask of the calls that complete an operation; (n_calls,) bool."""
    result = np.zeros(calls.enter.size, bool)
    for i in members.tolist():
        events = scans[i].events
        of = np.flatnonzero(COMPLETES[events.column("kind")])
        call = calls.number(np.full(of.size, i, np.int32), events.column("call")[of])
        result[call[call >= 0]] = True
    return result


def _nothing(of: dict[str, Any]) -> Columns:
    return Columns(0, {name: np.zeros(0, dtype) for name, dtype in of.items()})


@step(RECEIVE, "polled_messages")
def find_polled_messages(
    facts: Facts, messages: CompoundTable, own_polling_calls: Sequence[ColumnSource], spill: Spill
) -> ColumnSource:
    """Find the polling calls that wait for messages to be sent; of several messages, the last one sent counts."""
    polls = joined_columns(own_polling_calls)
    if not len(polls):
        return _nothing(AWAITED)
    m = messages
    cause = (m.send_location, m.send, m.send_call_path, m.send_enter_time, m.send_exit_time)
    # a probe may find messages whose receives are posted next, but not those whose receives were posted before
    could_be_found = (m.recv_post_enter == m.recv_enter) | (m.send_enter_time <= m.recv_post_enter_time)
    got_in = np.where(is_in(facts, m.recv_call_path, is_polling), m.recv_enter, -1)
    found = _awaited(polls, np.where(could_be_found, m.recv_post_enter, got_in), m.send_enter_time, cause)
    return spill.keep(Columns(found["enter"].size, found))


def _awaited(polls: ColumnSource, got_in: Ints, time: Ints, cause: Sequence[Any]) -> Awaited:
    """Return the calls of series that begin before the awaited event occurs; `AWAITED`.

    An awaited event at `time` is completed in the call with the ENTER `got_in`; `cause` has its `CAUSE` columns.
    """
    order = np.lexsort((time, got_in))
    order = order[ends_run(got_in[order])]
    thing = lookup(got_in[order], polls.column("ends_in"))
    at = np.flatnonzero(thing >= 0)
    thing = order[thing[at]]
    of_poll = {name: polls.column(name)[at] for name in POLL}
    # a location that sends to itself does not wait for itself
    waits = (time[thing] > of_poll["enter_time"]) & (cause[0][thing] != of_poll["location"])
    # a probe that blocks returns when a message has come
    returns_before = of_poll["exit_time"] < time[thing]
    waits &= ~(of_poll["is_last"] & (of_poll["enter"] != of_poll["ends_in"]) & returns_before)
    thing = thing[waits]
    return {name: column[waits] for name, column in of_poll.items()} | {
        f"cause_{name}": np.asarray(values)[thing].astype(np.int64) for name, values in zip(CAUSE, cause, strict=True)
    }


@step(GLOBAL, "polls")
def match_polls(
    facts: Facts,
    every_polling_calls: Sequence[ColumnSource],
    every_polled_messages: Sequence[ColumnSource],
    nonblocking_members: CompoundTable,
) -> CompoundTable:
    """Build the table of the polling calls that wait for messages and non-blocking collective operations.

    The last call of a series that completes a non-blocking operation is not included: it is in `nonblocking_members`.
    """
    parts: list[Awaited] = [{name: part.column(name) for name in AWAITED} for part in every_polled_messages]
    m = nonblocking_members
    if len(m):
        polls = joined_columns(every_polling_calls)
        cause = awaited_starters(m)
        known = (awaited_start(m) != -1) & (cause >= 0) & is_in(facts, m.done_call_path, is_polling)
        of = np.flatnonzero(depends_on_others(m) & known)
        by = cause[of]
        of_cause = (m.location, m.begin, m.begin_call_path, m.begin_time, m.begin_time)
        found = _awaited(polls, m.done_enter[of], awaited_start(m)[of], [column[by] for column in of_cause])
        earlier = ~found["is_last"]
        parts.append({name: column[earlier] for name, column in found.items()})
    columns = {name: np.concatenate([np.zeros(0, dtype), *(p[name] for p in parts)]) for name, dtype in AWAITED.items()}
    # if a call waits for several events, the last one counts
    order = np.lexsort((columns["cause_enter_time"], columns["enter"]))
    order = order[ends_run(columns["enter"][order])]
    columns = {name: column[order] for name, column in columns.items()}
    del columns["ends_in"]
    return CompoundTable(POLLS, order.size, columns)
