"""Exports of Nsight Systems as a source of definition tables and event columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Batch, Clock, Report
from tracecols.converters.intervals import INTERVAL, Nested, Sorted, Writer
from tracecols.converters.nccl import PARTNERS
from tracecols.converters.nesting import CALLS, KERNELS, OperationEvents, Rules
from tracecols.converters.nsight import content as c
from tracecols.converters.nsight.content import MOST_RANKS, Content
from tracecols.converters.nsight.definitions import Definitions, Places, recorded_ranks
from tracecols.converters.nsight.gather import ROOT_LEVEL, Recording
from tracecols.converters.nsight.mpi import Communicators, Found, write_calls
from tracecols.converters.nsight.operations import NO_COMMUNICATOR, Joined, Kernels, Ranks, find_members, join_members
from tracecols.converters.nsight.payloads import Payload, read_payload, read_schemas
from tracecols.errors import SourceError
from tracecols.given.quantities import counted
from tracecols.schema.enums import NCCL
from tracecols.work.executors import side_by_side
from tracecols.work.jobs import n_jobs


class Archive:
    """Exports of Nsight Systems (see `tracecols.converters.base.Source`): SQLite files, or folders of Parquet files,
    one per report of the run. Messages name all of them by `path`."""

    def __init__(self, files: Sequence[Path], path: Path) -> None:
        self.path, self.files = path, tuple(files)
        contents = [Content(file) for file in files]
        try:
            offsets, realtime = _offsets(contents)
            self._recording = Recording(contents, offsets)
            self._kernels = np.concatenate(self._recording.kernels)
            self._without_texts = [content.path.name for content in contents if not content.strings]
            payloads = self._payloads()
            in_communicators, created = self._ranks_of(payloads)
            self._places = places = Places(self._recording, recorded_ranks(self._recording, created))
            self._definitions = d = Definitions(self._recording, places)
            # a process without a rank, as a program that a rank has started, takes no part in MPI
            self._outside = set(places.unranked) if len(places.unranked) < len(places.processes) else set()
            by_rank = {rank: p for p, rank in places.ranks.items() if p not in self._outside}
            mpi_communicators = Communicators(contents, by_rank, offsets)
        finally:
            for content in contents:
                content.tables.close()
        self.format = f"Nsight Systems {contents[0].facts.get('EXPORT_SCHEMA_VERSION', '')}".rstrip()
        self.clock = self._clock(realtime)
        self._n_ranks = max([mpi_communicators.size, *(payload.n_ranks for _, _, payload in payloads)])
        joined, mpi = self._join(payloads or self._named_messages(), in_communicators, mpi_communicators)
        self._add_programs()
        regions = self._recording.regions
        self._keeps = np.zeros(len(regions.rows), np.uint8)
        self._keeps[[i for i, (*_, paradigm) in enumerate(regions.rows) if paradigm == NCCL]] = 1
        self._sorted = Sorted(self._recording.intervals, [one.number for one in places.locations])
        self._number_rows = np.full(self._recording.n_locations + 1, -1, np.int32)
        self._number_rows[list(places.rows)] = list(places.rows.values())
        d.add_communicators(joined.communicators, NCCL)
        if self._recording.mpi_calls.n_operations:
            masters = [places.master(row) for row in range(len(places.processes))]
            d.add("groups", type="comm_locations", paradigm="mpi", flags=0, members=masters)
            d.add_communicators(mpi.communicators, "mpi")
        for name, canonical, role, paradigm in regions.rows:
            d.add_region(name, role, paradigm, canonical)
        self.definitions = d.tables
        self.metric_types: list[list[str]] = []
        self.capabilities: frozenset[str] = frozenset()
        locations = range(len(places.locations))
        surveyed = list(side_by_side(n_jobs(None), self._survey_location, locations))
        self.definitions["locations"]["n_events"] = [n for n, _ in surveyed]
        on_stream = [one.stream is not None for one in places.locations]
        self._of_streams, self._of_threads = (
            sum((nested for (_, nested), on in zip(surveyed, on_stream, strict=True) if on == wanted), Nested())
            for wanted in (True, False)
        )
        self.properties = self._facts(contents, joined, mpi)

    # -- operations --------------------------------------------------------------------------------------------------

    def _payloads(self) -> list[tuple[int, int, Payload]]:
        """Read the payloads of NCCL ranges."""
        schemas: dict[int, Any] = {}
        for content in self._recording.contents:
            schemas |= read_schemas(content)
        found = ((thread, begin, read_payload(data, schemas)) for thread, begin, data in self._recording.payloads)
        return [(thread, begin, payload) for thread, begin, payload in found if payload is not None]

    def _named_messages(self) -> list[tuple[int, int, Payload]]:
        """Return payloads, in the group of all, for ranges that name the own rank and another (`nccl:send 0->1`)."""
        r = self._recording
        process_of_location = r.process_of_location
        names, found = [name for name, *_ in r.regions.rows], list[tuple[int, int, Payload]]()
        partners = {row: PARTNERS.search(names[row]) for row in r.regions.hints}
        for thread, begin, _, row in np.concatenate([np.zeros((0, 4), np.int64), *r.hints]).tolist():
            ranks = partners[row]
            if ranks is not None and self._places.ranks[process_of_location[thread]] == int(ranks[1]):
                function = r.regions.hints[row][1].function
                found.append((thread, begin, Payload(function, NO_COMMUNICATOR, 1, int(ranks[2]))))
        return found

    def _ranks_of(
        self, payloads: Sequence[tuple[int, int, Payload]]
    ) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
        """Return the ranks of processes in the communicators that they create, by communicator and process; and by
        process the rank in the largest of them."""
        process_of_location = self._recording.process_of_location
        ranks: dict[tuple[int, int], int] = {}
        largest: dict[int, tuple[int, int]] = {}
        for thread, _, payload in payloads:
            if payload.rank >= 0:
                p = process_of_location[thread]
                ranks[payload.communicator, p] = payload.rank
                largest[p] = max(largest.get(p, (0, 0)), (payload.n_ranks, payload.rank))
        return ranks, {p: rank for p, (_, rank) in largest.items()}

    def _clock(self, realtime: int) -> Clock:
        """Return the clock, which begins at the first event."""
        spans = [(low, high) for low, high in self._recording.spans if low <= high]
        first, last = min((low for low, _ in spans), default=0), max((high for _, high in spans), default=0)
        return Clock(10**9, first, last - first, realtime + first if realtime >= 0 else -1)

    def _join(
        self,
        payloads: list[tuple[int, int, Payload]],
        in_communicators: dict[tuple[int, int], int],
        of_mpi: Communicators,
    ) -> tuple[Joined, Found]:
        """Find the operations of NCCL and MPI, and their events."""
        r, kernels = self._recording, self._kernels
        launches, hints = np.concatenate(r.launches), np.concatenate(r.hints)
        members = find_members(kernels, r.regions.communicates, launches, hints, r.regions.hints, payloads)
        by_location = (r.process_of_location, r.devices)
        process, device = (np.array([of[i] for i in kernels[:, 0].tolist()], np.int64) for of in by_location)
        is_launched = np.zeros(len(members), bool)
        is_launched[launches[:, 0]] = True
        events = OperationEvents()
        found = Kernels(members, kernels, process, device, is_launched)
        joined, operations = join_members(found, Ranks(in_communicators, self._places.ranks), events)
        for communicator in joined.communicators:
            communicator.members = [self._places.rows[number] for number in communicator.members]
        mpi = write_calls(r.mpi_calls, len(members), of_mpi, len(joined.communicators), events)
        for communicator in mpi.communicators:
            rows = [self._places.processes.index(p) for p in communicator.members]
            communicator.members = [self._places.master(row) for row in rows]
        region = np.full(len(members) + r.mpi_calls.n_operations, -1, np.int32)
        for i, operation in operations.items():
            region[i] = r.regions.operation(int(kernels[i, 4]), operation)
        self._extra = events.extra(region)
        return joined, mpi

    def _add_programs(self) -> None:
        """Add the region of the program around all intervals of each thread; that of a master spans its report, but if
        only other processes have ranks, it is not known to run outside of its intervals."""
        r, places = self._recording, self._places
        programs = {
            row: value
            for table, row, name, value in zip(*self._definitions.tables["properties"].values(), strict=True)
            if (table, name) == ("processes", "program")
        }
        reports = [report for report, _ in r.processes]
        for row, (number, process, _, stream) in enumerate(places.locations):
            if number < 0 or stream is not None:
                continue
            low, high = r.intervals.span(number)
            if row == places.master(process) and places.processes[process] not in self._outside:
                first, last = r.spans[reports[places.processes[process]]]
                low, high = min(low, first), max(high, last)
            found = np.full(1, c.NOTHING, INTERVAL)
            found["begin"], found["end"], found["level"] = low, high, ROOT_LEVEL
            found["region"] = r.regions.program(programs.get(process, "program"))
            r.intervals.add(np.array([number]), found)

    # -- events --------------------------------------------------------------------------------------------------------

    def _writer(self, location: int) -> Writer:
        is_stream = self._places.locations[location].stream is not None
        last = self.clock.origin + self.clock.length
        return Writer(Rules(KERNELS if is_stream else CALLS, last, self._keeps, self._extra))

    def _pieces(self, location: int) -> Iterator[NDArray[Any]]:
        """Yield the intervals of a location, with rows as references to streams, and final numbers of operations."""
        for piece in self._sorted.pieces(location):
            found = piece.copy()
            found["stream"] = self._number_rows[found["stream"]]
            found["operation"] = self._recording.operations(found["operation"])
            yield found

    def _survey_location(self, location: int) -> tuple[int, Nested]:
        """Count the events of a location, and the changes made to its overlapping intervals."""
        writer = self._writer(location)
        n = sum(batch.events["time"].size for batch in writer.batches(self._pieces(location)))
        return n, writer.nested

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location as batches of columns (`converters.base.Source`)."""
        yield from self._writer(location).batches(self._pieces(location))

    # -- facts for the manifest ----------------------------------------------------------------------------------------

    def _facts(self, contents: Sequence[Content], joined: Joined, mpi: Found) -> dict[str, Any]:
        skipped = sum((content.skipped for content in contents), start=contents[0].skipped.__class__())
        facts = contents[0].facts
        left_out = {what: n for what, n in sorted(skipped.items()) if n}
        found: dict[str, Any] = {
            "recorded by": " ".join(
                facts[name] for name in ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION") if facts.get(name)
            ),
            "reports": [str(content.path) for content in contents] if len(contents) > 1 else [],
            "rows": {table: n for table, n in self._recording.counted.items() if n},
            "left out": left_out,
            "operations of NCCL": joined.n_operations,
            "kernels of NCCL that belong to no operation": joined.n_alone,
            "kernels of NCCL left out at the begin": joined.n_before,
            "messages and operations of MPI with unknown partners": mpi.n_unknown,
            "references to streams on which nothing ran": self._recording.n_unused,
            "kernels that overlapped on a stream": self._of_streams.n_cut,
            "nanoseconds cut off kernels": self._of_streams.time,
            "ranges and calls that overlapped on a thread": self._of_threads.n_cut,
            "nanoseconds cut off ranges and calls": self._of_threads.time,
        }
        found["notes"] = list(self._notes(contents, joined, mpi, left_out))
        return {k: v for k, v in found.items() if v}

    def _notes(self, contents: Sequence[Content], joined: Joined, mpi: Found, skipped: dict[str, int]) -> Iterator[str]:
        for name in self._without_texts:
            yield (
                f"{name} has no texts (table StringIds): calls and kernels have numbers for names, and operations of "
                "NCCL and of MPI are not known"
            )
        if (n := len(set(self._definitions.hosts))) > 1:
            yield (
                f"the reports of {n} hosts are related by the time of day (UTC) of these alone: waits between hosts "
                "are as exact as their clocks agree"
            )
        if (n := len(self._places.unranked)) and len(self._places.processes) > 1:
            given = "in the order of the reports and of" if len(contents) > 1 else "in the order of"
            if n < len(self._places.processes):
                given = f"after the others, {given}"
                yield f"{counted(n, 'process', 'processes')} without a rank: numbered {given} their identifiers"
            else:
                yield f"ranks are not recorded: processes are numbered {given} their process identifiers"
        n_ranked = len(self._places.processes) - n or n
        if n_ranked < self._n_ranks < MOST_RANKS:
            yield f"{n_ranked:,} of {self._n_ranks:,} ranks are given: waits for other ranks are lower bounds"
        if joined.n_without_bytes:
            yield (
                f"it is not recorded how much is sent in {counted(joined.n_without_bytes, 'kernel')} of NCCL: each "
                "counts as 1 byte; export with --include-blobs=true if the report has it"
            )
        if joined.n_alone:
            yield f"{counted(joined.n_alone, 'kernel')} of NCCL cannot be joined with those of other ranks"
        if joined.n_within:
            yield (
                f"{counted(joined.n_within, 'kernel')} of NCCL are of processes with several devices: operations "
                "between devices of one process are not joined, and waits in them are not known"
            )
        if joined.n_single and len(self._places.processes) >= self._n_ranks:
            yield (
                f"{counted(joined.n_single, 'kernel')} of NCCL have no others to be joined with, such as those in "
                "reports that are not given: waits in them are not known"
            )
        for cut, what in (
            (self._of_streams, "kernels of a stream"),
            (self._of_threads, "ranges and calls of a thread"),
        ):
            if cut.n_cut:
                yield (
                    f"{what} overlap {counted(cut.n_cut, 'time')}, by {cut.longest:,} ns at most and {cut.time:,} ns "
                    "in all: they were shortened or moved"
                )
        communicating = ("point2point", "barrier", "coll_")
        if not self._recording.mpi_calls.n_operations and any(
            paradigm == "mpi" and role.startswith(communicating) for *_, role, paradigm in self._recording.regions.rows
        ):
            yield "calls of MPI are recorded as ranges only: messages, collective operations and waits are not known"
        if mpi.n_unknown:
            yield (
                f"partners or communicators of {counted(mpi.n_unknown, 'call')} of MPI are not recorded "
                "(MPI_ANY_SOURCE, MPI_Sendrecv, persistent requests): their messages are left out"
            )
        if skipped:
            yield "rows left out: " + ", ".join(f"{n:,} {what}" for what, n in skipped.items())


def _offsets(contents: Sequence[Content]) -> tuple[list[int], int]:
    """Return the offset to add to the times of each export, and the nanoseconds since 1970 at time 0; -1 unknown."""
    utc = [content.utc() for content in contents]
    if len(contents) == 1:
        return [0], -1 if utc[0] is None else utc[0]
    known = [t for t in utc if t is not None]
    if len(known) < len(contents):
        lacking = contents[utc.index(None)].path
        raise SourceError(
            f"{lacking}: the time at which the recording began is not recorded (TARGET_INFO_SESSION_START_TIME)\n"
            "  without it several reports have no common time: convert each on its own"
        )
    base = min(known)
    return [t - base for t in known], base
