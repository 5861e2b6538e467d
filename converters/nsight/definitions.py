"""The definition tables of exports of Nsight Systems: processes by rank, their threads and streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tracecols.converters.definition_tables import DefinitionTables
from tracecols.converters.intervals import ATTRIBUTES
from tracecols.converters.nsight.content import MOST_RANKS, Content, process_id, process_of, thread_of
from tracecols.converters.nsight.gather import Recording, Stream
from tracecols.converters.nsight.operations import Communicator

_RANK = re.compile(r"MPI Rank (\d+)")
"""Thread names that contain the rank, in older versions."""


NULL_STREAM = 3
KINDS_OF_STREAMS = {2: "CUDA_STREAM_NON_BLOCKING", NULL_STREAM: "CUDA_NULL_STREAM"}
"""Properties of locations by flags of streams (CUpti_ActivityStreamFlag)."""


class Location(NamedTuple):
    """A thread or a stream."""

    number: int
    """Number of the location; -1 for a thread without events."""
    process: int
    """Row of its process."""
    identifier: int
    """Identifier of a thread; -1 for streams."""
    stream: Stream | None
    """None for threads."""


class Places:
    """The rows of processes and locations.

    Attributes
    ----------
    processes : list of int
        Numbers of the processes, in rank order.
    ranks : dict of int to int
        Rank by the number of the process; processes of which it is not recorded follow the others.
    locations : list of Location
        By row.
    rows : dict of int to int
        Row by the number of the location.
    unranked : list of int
        Processes whose rank is not recorded; all of them if recorded ranks contradict each other.
    """

    def __init__(self, recording: Recording, recorded: Mapping[int, int]) -> None:
        keys = list(recording.processes)
        used = {process for process, _ in (*recording.threads, *recording.streams)}
        known = {p: rank for p, rank in recorded.items() if p in used}
        if len(set(known.values())) < len(known) or max(known.values(), default=0) + len(used) > MOST_RANKS:
            known = {}
        self.unranked = sorted(used - set(known), key=lambda p: keys[p])
        self.processes = [*sorted(known, key=lambda p: known[p]), *self.unranked]
        free = max(known.values(), default=-1) + 1
        self.ranks = known | {p: free + k for k, p in enumerate(self.unranked)}
        self.locations: list[Location] = []
        for row, p in enumerate(self.processes):
            threads = {t: n for (of, t), n in recording.threads.items() if of == p}
            main = process_id(keys[p][1])
            if not threads:
                # a process needs a thread that launches
                threads = {main: -1}
            self.locations += [
                Location(threads[t], row, t, None) for t in sorted(threads, key=lambda t: (t != main, t))
            ]
            streams = {s: n for (of, s), n in recording.streams.items() if of == p}
            device = {s: recording.devices[n] for s, n in streams.items()}
            order = sorted(streams, key=lambda s: (device[s], s.number, s.context))
            self.locations += [Location(streams[s], row, -1, s) for s in order]
        self.rows = {one.number: row for row, one in enumerate(self.locations) if one.number >= 0}

    def master(self, process: int) -> int:
        """Return the row of the first thread of a process, by its row."""
        return next(row for row, one in enumerate(self.locations) if one.process == process)


def recorded_ranks(recording: Recording, created: Mapping[int, int]) -> dict[int, int]:
    """Return the ranks of processes, from MPI, else from thread names, else from an NCCL communicator.

    `created` is, by process, its rank in the largest NCCL communicator whose creation is recorded.
    """
    found: dict[int, int] = {}
    for report, content in enumerate(recording.contents):
        for rows in content.rows("MPI_RANKS", dict.fromkeys(("globalTid", "rank"), pa.int64())):
            for process, rank in zip(process_of(rows["globalTid"]).tolist(), rows["rank"].tolist(), strict=True):
                number = recording.processes.get((report, process))
                if number is not None and 0 <= rank < MOST_RANKS:
                    found[number] = rank
    if not found:
        process_of_location = recording.process_of_location
        for number, name in recording.thread_names.items():
            if (rank_name := _RANK.fullmatch(name)) and int(rank_name[1]) < MOST_RANKS:
                found[process_of_location[number]] = int(rank_name[1])
    return found or dict(created)


class Definitions(DefinitionTables):
    """The definition tables of exports."""

    def __init__(self, recording: Recording, places: Places) -> None:
        super().__init__()
        self._recording, self._places = recording, places
        self._processes()
        self._locations()
        for name, _, kind in ATTRIBUTES:
            self.add("attribute_definitions", name=name, type=kind)

    def _processes(self) -> None:
        contents = self._recording.contents
        keys = list(self._recording.processes)
        machine = self.add("system_tree_nodes", name="machine", class_name="machine")
        self.hosts = [_host(content, k) for k, content in enumerate(contents)]
        nodes = {
            host: self.add("system_tree_nodes", name=host, class_name="node", parent=machine)
            for host in dict.fromkeys(self.hosts)
        }
        names = [_names_of_processes(content) for content in contents]
        for p in self._places.processes:
            report, process = keys[p]
            rank = self._places.ranks[p]
            row = self.add_process(f"Rank {rank}", nodes[self.hosts[report]], rank)
            for name, value in (("pid", str(process_id(process))), ("program", names[report].get(process, ""))):
                if value:
                    self.add("properties", table="processes", of=row, name=name, value=value)

    def _locations(self) -> None:
        places = self._places
        names = self._recording.thread_names | _names_of_threads(self._recording)
        kinds = self._kinds_of_streams()
        labels: set[tuple[int, str]] = set()
        thread: dict[int, int] = {}
        for number, process, identifier, stream in places.locations:
            if stream is None:
                name = names.get(number, "") or f"Thread {identifier}"
            else:
                name = f"CUDA[{self._recording.devices[number]}:{stream.number}]"
                if (process, name) in labels:
                    name += f" of context {stream.context}"
                labels.add((process, name))
            row = self.add_location(name, process, thread.setdefault(process, 0), is_device=stream is not None)
            if stream is not None and (kind := kinds(places.processes[process], stream)):
                self.add("properties", table="locations", of=row, name=kind, value="yes")
            thread[process] += 1
        threads = [row for row, one in enumerate(places.locations) if one.stream is None]
        if len(threads) > len(places.processes):
            # libraries create threads as needed: they are not CPUs that idle
            self.add("groups", type="comm_locations", paradigm="pthread", flags=0, members=threads)

    def _kinds_of_streams(self) -> Callable[[int, Stream], str]:
        """Return a function that says by process whether a stream is the null stream of its context, or does not block
        with it.

        Null streams may have no rows in the table of streams: they are older than the streams that a program creates.
        """
        keys = list(self._recording.processes)
        flags: dict[tuple[int, int, int], dict[int, int]] = {}
        columns = dict.fromkeys(("processId", "contextId", "streamId", "flag"), pa.int64())
        for report, content in enumerate(self._recording.contents):
            for rows in content.rows("TARGET_INFO_CUDA_STREAM", columns):
                for process, context, stream, flag in zip(*(rows[name].tolist() for name in columns), strict=True):
                    flags.setdefault((report, process, context), {})[stream] = flag

        def kind_of(p: int, stream: Stream) -> str:
            report, process = keys[p]
            known = flags.get((report, process_id(process), stream.context), {})
            flag = known.get(stream.number, NULL_STREAM if known and stream.number < min(known) else 0)
            return KINDS_OF_STREAMS.get(flag, "")

        return kind_of

    def add_communicators(self, communicators: Sequence[Communicator], paradigm: str) -> None:
        """Define communicators, whose members are rows of locations."""
        for communicator in communicators:
            self.add_communicator(communicator.name, paradigm, communicator.members)


def _host(content: Content, number: int) -> str:
    """Return the name of the machine of a report."""
    for name, value in content.values("TARGET_INFO_SYSTEM_ENV", {"name": pa.string(), "value": pa.string()}):
        if name == "Hostname" and value:
            return str(value)
    return content.facts.get("EXPORT_HOST", "") or f"node {number}"


def _names_of_processes(content: Content) -> dict[int, str]:
    """Return the names of programs by machine and process."""
    return {
        int(process_of(np.array(identifier))): name
        for identifier, name in content.named("PROCESSES", "globalPid", "name").items()
    }


def _names_of_threads(recording: Recording) -> dict[int, str]:
    found: dict[int, str] = {}
    for report, content in enumerate(recording.contents):
        for identifier, name in content.named("ThreadNames", "globalTid", "nameId").items():
            one = np.array(identifier)
            process = recording.processes.get((report, int(process_of(one))))
            number = recording.threads.get((process, int(thread_of(one)))) if process is not None else None
            if number is not None:
                found[number] = name
    return found
