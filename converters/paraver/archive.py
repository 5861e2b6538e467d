"""A Paraver trace as a source of definition tables and event columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters import sides
from tracecols.converters.base import Batch, Clock, Loss, Report
from tracecols.converters.buffers import Events, PerThread, empty_sides
from tracecols.converters.paraver import decode, definitions, scan, types
from tracecols.converters.paraver.definitions import Definitions, tables_for_kernels
from tracecols.converters.paraver.files import DAMAGED, Header, line_of, read_header, read_names
from tracecols.converters.paraver.index import Index, type_table
from tracecols.converters.paraver.operations import Calls, Operations
from tracecols.converters.paraver.teams import ThreadEvents, find_teams
from tracecols.errors import SourceError
from tracecols.given.quantities import counted
from tracecols.kernels.arrays import doubled, empty, first
from tracecols.schema import EventKind as K
from tracecols.schema.enums import CORRELATION, VALUE_TYPES
from tracecols.work.executors import side_by_side
from tracecols.work.jobs import n_jobs

ROWS = 1 << 18
"""Events per batch, and so per row group of the store."""

LEAST_GAP = 1e-3
"""Records that end earlier than the header states by more than this share of the time are reported: a file that is cut
between two lines looks complete otherwise."""

OF_THREADS = {
    K.THREAD_FORK: ("team", "model", "requested"),
    **dict.fromkeys((K.THREAD_JOIN, K.THREAD_TEAM_BEGIN, K.THREAD_TEAM_END), ("team", "model")),
    **dict.fromkeys((K.THREAD_ACQUIRE_LOCK, K.THREAD_RELEASE_LOCK), ("model", "lock", "acquisition")),
    K.BUFFER_FLUSH: ("stop_time",),
}
"""Columns that the values of other events than those of `sides.VALUES` fill, in order."""
SIDE_COLUMNS = sides.side_columns(sides.VALUES | OF_THREADS)

WITHOUT = {
    ".pcf": "regions and counters have numbers for names, and operations of MPI are not known",
    ".row": "threads and nodes have numbers for names",
}
"""What is not known without a file, by its ending."""

WHAT_IS_WRONG = {
    decode.NO_BEGIN: "an event of type {} ends what has not begun",
    decode.OVERLAP: "a state begins before the one before it ends",
}


def _empty_buffers(rows: int) -> decode.Out:
    """Make the buffers of one thread, for `rows` events; pages that are never touched cost nothing."""
    stack, group = empty(decode.Stack, 1 << 10), empty(decode.Group, 1 << 10)
    return decode.Out(stack, group, empty(Events, rows), empty_sides(rows), np.empty(8 * rows, np.int64))


def types_of_locations(table: scan.TypeTable, is_device: bool, with_devices: bool) -> scan.TypeTable:
    """Return the types for streams of devices or for others; kernels are regions on streams, or if there are none."""
    action = table.action.copy()
    action[action == types.KERNEL] = types.REGION if is_device or not with_devices else types.IGNORED
    if not is_device:
        action[action == types.ON_STREAM] = types.REGION
    return table._replace(action=action)


@dataclass
class Surveyed:
    """The result of a first reading of a location."""

    n_events: int
    calls: Calls
    """Collective operations of the location."""
    fault: str
    """Why decoding ended early; empty if it did not."""
    n_impossible: int
    n_flush_readings: int
    n_crossed: int
    n_undefined: int
    n_cut: int
    """`n_impossible`, `n_flush_readings`, `n_crossed`, `n_undefined` and `n_cut`: impossible counter values, counter
    readings at the end of buffer flushes, regions that were left because an enclosing region was left, collective
    operations without a communicator of the header, and regions that end but have not begun."""


@dataclass
class _Reading:
    """The state of reading a location, and the side tables that are wanted."""

    columns_of: sides.SideColumns = field(default_factory=lambda: SIDE_COLUMNS)
    with_metrics: bool = True
    state: NDArray[np.int64] = field(default_factory=lambda: np.zeros(decode.DECODE_STATE, np.int64))
    n_operations: int = 0
    skipped: NDArray[np.int64] | None = None
    """See `decode.Tables`; None if nothing is skipped."""

    def __post_init__(self) -> None:
        self.state[decode.CALL_DEPTH] = -1
        self.state[decode.BARRIER_END] = decode.NOTHING


class Archive:
    """A Paraver trace (see `tracecols.converters.base.Source`): `*.prv`, plain or gzip; `.pcf` and `.row` are looked
    for beside it. `locks` are the values that name locks, by the number of the lock in the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.format = "Paraver"
        header, names = read_header(path), read_names(path)
        is_stream = np.array([*map(definitions.is_stream, definitions.names_of_threads(header, names))], bool)
        self._index = index = Index(path, header, type_table(names.labels), is_stream)
        numbers = sorted({*names.labels, *(number for number, _ in index.named)})
        self._types = type_table({n: names.labels.get(n, "") for n in numbers})
        action = self._types.action
        # locks are numbered: OTF2 has 32 bits for them, and these are addresses
        self.locks = np.unique([0, *(value for number, value in index.named if types.names_lock(number))])
        counters = [n for n, a in zip(numbers, action.tolist(), strict=True) if a == types.METRIC]
        with_mpi = bool(index.messages.columns.size) or any(types.is_call(*named) for named in index.named)
        self._definitions = d = Definitions(header, names, index.named, counters, numbers, with_mpi)
        self._types_of = [types_of_locations(self._types, is_device, any(d.is_device)) for is_device in (False, True)]
        self.clock = Clock(header.resolution, 0, max(header.duration, index.last))
        self._tables = tables_for_kernels(numbers, counters, d.regions, d.communicator_rows, header, names)
        self._rank = np.repeat(np.arange(len(d.first)), [n for n, _ in header.threads]).astype(np.int32)
        if index.launches.size:
            d.add("attribute_definitions", name=CORRELATION, type="uint64")
        self._is_posted = np.zeros(index.messages.columns.shape[1], np.uint8)
        self._find_teams()
        d.finish()
        self.definitions, self.metric_types = d.tables, d.metric_types
        self._regions = d.regions.for_kernels()
        self.capabilities: frozenset[str] = frozenset()
        self._buffers = PerThread(lambda: _empty_buffers(ROWS))
        self._survey(header.is_cut)
        of_user = {n for n, is_user in zip(numbers, self._tables.is_user.tolist(), strict=True) if is_user}
        has_functions = any(number in of_user for number, _ in index.named)
        self.properties = self._facts(header, names.missing, with_mpi and not has_functions)
        self._labels = names.labels

    def _facts(self, header: Header, missing: list[str], without_functions: bool) -> dict[str, Any]:
        left_out = {
            "messages within a task": self._index.n_within,
            "records of global operations (type 4)": self._index.n_global,
            "members of communicators that are no tasks": header.n_unknown_members,
            "impossible counter values": sum(s.n_impossible for s in self._surveyed),
            "counter readings of buffer flushes": sum(s.n_flush_readings for s in self._surveyed),
        }
        facts = {
            "recorded": header.recorded,
            "records": self._index.n_records,
            "left out": {what: n for what, n in left_out.items() if n},
            "threads with records out of order": self._index.n_disordered,
            "regions left with the one around them": sum(s.n_crossed for s in self._surveyed),
            "notes": [*self._notes(header, missing, without_functions)],
        }
        return {k: v for k, v in facts.items() if v}

    def _notes(self, header: Header, missing: list[str], without_functions: bool) -> Iterator[str]:
        stem, d, index = self.path.name.removesuffix(".gz").removesuffix(".prv"), self._definitions, self._index
        for ending in missing:
            yield f"{stem}{ending} is missing, so that {WITHOUT[ending]}"
        if d.regions.n_unnamed and ".pcf" not in missing:
            yield f"{stem}.pcf does not name {counted(d.regions.n_unnamed, 'call')} of MPI: what they do is not known"
        if d.n_names != len(d.is_device) and ".row" not in missing:
            yield (
                f"{stem}.row names {counted(d.n_names, 'thread')}, and the trace has {len(d.is_device):,}: its names "
                "are not used, and streams of devices are not known"
            )
        if without_functions:
            yield "functions of the program are known at calls of MPI only: computation between them has no call path"
        if not any(types.names_region(*named) for named in index.named):
            yield "no events say what threads do: all of their time counts as computation"
        if d.regions.outside >= 0:
            yield (
                "in burst mode only long computation is recorded: all other time counts as MPI, and what is waited "
                "for, serialisation and transfer are not known"
            )
        if d.regions.has_messages and len(d.first) > 1 and not index.messages.columns.size + index.n_within:
            yield (
                "no communications are recorded, though the program calls functions that send or receive: messages and "
                "waits for them are not known"
            )
        if index.n_records and header.duration - index.last > header.duration * LEAST_GAP:
            yield (
                f"the records end at {index.last / header.resolution:,.6f} s, and the header states "
                f"{header.duration / header.resolution:,.6f} s: the trace may be cut"
            )
        if n_undefined := sum(s.n_undefined for s in self._surveyed):
            yield (
                f"{counted(n_undefined, 'participation')} in collective operations on communicators "
                "that the header does not define: waits in them are not known"
            )
        if header.is_cut:
            n_cut = sum(s.n_cut for s in self._surveyed)
            yield (
                "the trace is a piece of another one: messages and collective operations that are not in it as a whole "
                "are left out"
                + (f", and {counted(n_cut, 'end')} of regions that have begun before it" if n_cut else "")
            )

    def _find_teams(self) -> None:
        n = self._index.n_locations
        self._is_worker = np.zeros(n, bool)
        none = np.zeros(0, np.int64)
        self._teams = [decode.Teams(none, none, none, none)] * n
        if not np.isin(self._types.action, (types.PARALLEL, types.PHASE, types.FUNCTION)).any():
            return
        events = list(side_by_side(n_jobs(None), self._thread_events, range(n)))
        d = self._definitions
        first = np.array(d.first)
        forks = np.add.reduceat(np.array([e.fork.size for e in events]), first) > 0
        self._is_worker = forks[self._rank] & ~np.isin(np.arange(n), first)
        self._teams = find_teams(events, d.first, lambda members: d.add_communicator("", "openmp", members))

    def _thread_events(self, location: int) -> ThreadEvents:
        found: list[list[NDArray[np.int64]]] = [[np.zeros(0, np.int64)] for _ in range(3)]
        none, phases = np.zeros(0, np.int64), np.zeros(1, np.int64)
        for words in self._index.words(location):
            n = decode.find_thread_events(words, self._types, phases.copy(), none, none, none)
            arrays = [np.empty(n, np.int64) for _ in range(3)]
            decode.find_thread_events(words, self._types, phases, *arrays)
            for rows, array in zip(found, arrays, strict=True):
                rows.append(array)
        time, action, value = (np.concatenate(rows) for rows in found)
        return ThreadEvents(time, action, value, self.clock.length)

    def _survey(self, is_cut: bool) -> None:
        """Read every location once: number of events, collective operations, faults."""
        locations = self.definitions["locations"]
        self._surveyed = list(side_by_side(n_jobs(None), self._survey_location, range(len(locations["id"]))))
        self._operations = Operations(
            [s.calls for s in self._surveyed], self._rank, self.definitions["communicators"]["members"], is_cut
        )
        # a skipped operation is a call without begin and end of the operation
        locations["n_events"] = [
            s.n_events - 2 * int(skipped.sum())
            for s, skipped in zip(self._surveyed, self._operations.skipped, strict=True)
        ]
        self.fault = self._index.fault
        if self._operations.fault and not self.fault:
            self.fault = f"{self.path}: {self._operations.fault}\n  {DAMAGED}"

    def _survey_location(self, location: int) -> Surveyed:
        n, calls, fault = 0, Calls(), ""
        reading = _Reading({"collectives": SIDE_COLUMNS["collectives"]}, with_metrics=False)
        try:
            for batch in self._batches(location, reading):
                n += batch.events["time"].size
                if "collectives" in batch.sides:
                    calls.add(batch.sides["collectives"], batch.events["time"], n)
        except SourceError as error:
            fault = str(error)
        counts = (decode.IMPOSSIBLE, decode.N_FLUSH_READINGS, decode.N_CROSSED, decode.N_UNDEFINED, decode.N_CUT)
        return Surveyed(n, calls, fault, *(int(reading.state[count]) for count in counts))

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location as batches of columns (`converters.base.Source`)."""
        if location == 0:
            for number, n in self._index.strange.items():
                label = self._labels.get(number, "")
                report.unknown[f"type {number}" + (f" ({label})" if label else "")] = n
        own = self._surveyed[location].fault
        fault = own or self.fault
        if fault and not salvage:
            raise SourceError(fault)
        reading = _Reading(skipped=self._operations.skipped[location].copy())
        # the survey has met the same error
        with suppress(SourceError):
            for batch in self._batches(location, reading):
                self._put_roots(batch, location, reading)
                self._put_correlations(batch, location, reading)
                yield batch
        if fault:
            report.lost.append(Loss(location, -1, fault.splitlines()[0]))

    def _put_roots(self, batch: Batch, location: int, reading: _Reading) -> None:
        """Fill in the roots of collective operations, which only the root itself records."""
        table = batch.sides.get("collectives")
        if table is not None:
            ends = table["kind"] == K.MPI_COLLECTIVE_END
            n = int(ends.sum())
            roots = self._operations.roots[location]
            table["root"][ends] = roots[reading.n_operations : reading.n_operations + n]
            reading.n_operations += n

    def _put_correlations(self, batch: Batch, location: int, reading: _Reading) -> None:
        """Give calls and the kernels that they launch the same correlation ID: a launch is a message from the begin of
        the innermost call to that of the kernel."""
        launches = self._index.launches
        of, at = (
            (scan.RECEIVER, scan.RECEIVED_AT) if self._definitions.is_device[location] else (scan.SENDER, scan.SENT_AT)
        )
        number = np.flatnonzero(launches[:, of] == location)
        enters = np.flatnonzero(batch.events["kind"] == K.ENTER)
        if not number.size or not enters.size:
            return
        wanted, time = launches[number, at], batch.events["time"][enters]
        last = np.searchsorted(time, wanted, "right") - 1
        begins = (last >= 0) & (time[last] == wanted)
        row, first_of = np.unique(enters[last[begins]], return_index=True)
        n_before = int(reading.state[decode.BASE]) - batch.events["time"].size
        batch.sides["attributes"] = {
            "row": row + n_before,
            "attribute": np.zeros(row.size, np.int32),
            "type": np.full(row.size, VALUE_TYPES.index("uint64"), np.uint8),
            "value": number[begins][first_of],
        }

    def _mail(self, location: int) -> decode.Mail:
        messages, n = self._index.messages, self._index.n_locations
        if not messages.columns.size:
            none = np.zeros(0, np.int64)
            return decode.Mail(messages.columns, none, none, none, self._is_posted, self._rank)
        return decode.Mail(
            messages.columns,
            messages.ordered(scan.SENDER, scan.SENT_AT, location, n),
            messages.ordered(scan.RECEIVER, scan.POSTED_AT, location, n),
            # the decoder changes the order of those that are received at one time
            messages.ordered(scan.RECEIVER, scan.RECEIVED_AT, location, n).copy(),
            self._is_posted,
            self._rank,
        )

    def _pieces(self, location: int) -> Iterator[tuple[NDArray[np.int64], bool]]:
        """Yield the words of a location, and whether they are the last."""
        pieces = self._index.words(location)
        before = next(pieces, np.zeros(0, np.int64))
        for words in pieces:
            yield before, False
            before = words
        yield before, True

    def _batches(self, location: int, reading: _Reading) -> Iterator[Batch]:
        """Decode the words of a location and yield full buffers. Raises SourceError if they are inconsistent, after the
        events before the error."""
        buffers, state = self._buffers.value, reading.state
        mail, teams = self._mail(location), self._teams[location]
        is_device = self._definitions.is_device[location]
        regions = self._regions
        if is_device or self._is_worker[location]:
            regions = regions._replace(program=-1)
        tables = self._tables if reading.skipped is None else self._tables._replace(skipped=reading.skipped)
        given = decode.Given(self._types_of[is_device], tables, regions, mail, teams)
        rest = np.zeros(0, np.int64)
        for piece, is_last in self._pieces(location):
            words = np.concatenate([rest, piece]) if rest.size else piece
            state[decode.AT] = 0
            if words.size > 2 * buffers.group.kind.size:
                buffers = self._buffers.value = buffers._replace(group=empty(decode.Group, words.size // 2 + 1))
            while True:
                why = decode.decode_words(words, is_last, self.clock.length, given, buffers, state)
                if why != decode.BUFFERS_FULL:
                    break
                if state[decode.EVENTS]:
                    yield self._batch(buffers, reading)
                else:
                    # the buffers are too small for the events of one time
                    larger = _empty_buffers(2 * buffers.events.time.size)
                    buffers = larger._replace(stack=doubled(buffers.stack), group=buffers.group)
                    self._buffers.value = buffers
            if why not in (decode.END, decode.MORE):
                yield self._batch(buffers, reading)
                raise self._error(why, location, state)
            rest = words[state[decode.AT] :]
        if state[decode.EVENTS] + state[decode.DEPTH] + decode.PER_GROUP > buffers.events.time.size:
            yield self._batch(buffers, reading)
        decode.close_all(teams, buffers.stack, buffers.events, buffers.sides, state)
        yield self._batch(buffers, reading)

    def _error(self, why: int, location: int, state: NDArray[np.int64]) -> SourceError:
        locations = self.definitions["locations"]
        task, thread = locations["process"][location] + 1, locations["thread"][location] + 1
        time = int(state[decode.TIME])
        line = line_of(self.path, task, thread, time)
        what = WHAT_IS_WRONG.get(why, f"decoding stopped ({why})").format(int(state[decode.WHAT]))
        return SourceError(f"{self.path}: line {line}: thread 1.{task}.{thread} at time {time}: {what}\n  {DAMAGED}")

    def _batch(self, buffers: decode.Out, reading: _Reading) -> Batch:
        """Turn filled buffers into columns, and empty them."""
        state = reading.state
        n, n_sides = int(state[decode.EVENTS]), int(state[decode.SIDES])
        decoded = first(buffers.sides, n_sides)
        batch = Batch(first(buffers.events, n)._asdict(), sides.side_tables(reading.columns_of, decoded))
        if "locks" in batch.sides:
            batch.sides["locks"]["lock"] = np.searchsorted(self.locks, batch.sides["locks"]["lock"])
        if reading.with_metrics:
            batch.sides |= sides.only_metrics(decoded, buffers.extra, self.metric_types)
        state[decode.BASE] += n
        state[[decode.EVENTS, decode.SIDES, decode.EXTRAS]] = 0
        return batch
