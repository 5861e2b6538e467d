"""The files of a Kineto trace, one per rank, as a source of definition tables and event columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Batch, Clock, Loss, Report
from tracecols.converters.intervals import INTERVAL, ROWS, Nested, Writer
from tracecols.converters.kineto import operations
from tracecols.converters.kineto.definitions import Definitions
from tracecols.converters.kineto.operations import Instance, Member, Operations
from tracecols.converters.kineto.recording import MOST_RANKS, Located, Recording, whole
from tracecols.converters.nesting import NESTED, OperationEvents, Rules
from tracecols.errors import SourceError
from tracecols.given.quantities import counted
from tracecols.schema import EventKind as K
from tracecols.work.executors import side_by_side
from tracecols.work.jobs import n_jobs

_HOST = re.compile(r"(.+?)_(\d+)\.\d+(\.pt)?\.trace\.json(\.gz)?")
"""File names given by torch.profiler.tensorboard_trace_handler: host, process and time."""
_RANK = re.compile(r"(?:rank|worker)[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)

PHASE_NAMES = {
    "X": "slices",
    "s": "flows",
    "t": "flows",
    "f": "flows",
    "M": "metadata",
    "i": "instants",
    "C": "counters",
    "": "events of other kinds",
}
LEFT_OUT = re.compile(
    r"|(gpu|mlu|GCU)_(user_annotation|USER_ANNOTATION)|(cuda|xpu|musa|gcu)_(sync|event)|overhead|Trace"
)
"""Categories of slices that are left out on purpose, because they repeat information of others."""

SINCE_1970 = 10**18
"""Times after this, in ns, count from 1970."""


class Archive:
    """A Kineto trace (see `tracecols.converters.base.Source`): files `*.json`, plain or gzip, one per rank; its path is
    that of the file, or the folder of all files."""

    def __init__(self, files: Sequence[Path], path: Path) -> None:
        self.path, self.files, self.format = path, tuple(files), "Kineto"
        recordings = list(side_by_side(n_jobs(None), Recording, files))
        for recording in recordings:
            if not recording.places:
                raise SourceError(
                    recording.fault
                    or f"{recording.path} has no slices of threads or streams\n"
                    "  expected a trace of the PyTorch profiler: events with ph X and a category such as cpu_op or "
                    "kernel"
                )
        ranks, self._note = _ranks_of(recordings)
        order = sorted(range(len(ranks)), key=lambda k: ranks[k])
        self._recordings, self._ranks = [recordings[k] for k in order], [ranks[k] for k in order]
        self._world = _world_size(self._recordings, self._ranks)
        hosts = [_host_of(recording) for recording in self._recordings]
        # clocks are compared between hosts; a rank of unknown host is treated as a host of its own
        apart = [host or f"that of rank {rank}" for host, rank in zip(hosts, self._ranks, strict=True)]
        found = operations.join(self._recordings, self._ranks, apart)
        self._check_joined(found)
        for recording, host in zip(self._recordings, apart, strict=True):
            for place in recording.places if host in found.offsets else ():
                place.slices.begin[:] += found.offsets[host]
                place.slices.end[:] += found.offsets[host]
        self._definitions = d = Definitions(self._recordings, self._ranks, hosts)
        self._put_operations(found)
        self._references = [
            recording.references([d.number[number, i] for i in range(len(recording.places))])
            for number, recording in enumerate(self._recordings)
        ]
        locations = d.tables["locations"]
        locations["n_events"] = [2 * self._slices(i).begin.size + self._extra[i].kind.size for i in range(len(d.order))]
        self.definitions, self.metric_types = d.tables, list[list[str]]()
        self.capabilities: frozenset[str] = frozenset()
        self.clock = self._clock()
        self.properties = self._facts(found)

    def _slices(self, location: int) -> Located:
        recording, place = self._definitions.order[location]
        return self._recordings[recording].places[place].slices

    def _clock(self) -> Clock:
        every = [self._slices(i) for i in range(len(self._definitions.order))]
        first = min((int(s.begin[0]) for s in every), default=0)
        last = max((int(s.end.max()) for s in every), default=0)
        return Clock(10**9, first, last - first, first if first > SINCE_1970 else -1)

    # -- operations ----------------------------------------------------------------------------------------------------

    def _check_joined(self, found: Operations) -> None:
        """Refuse files that do not belong together."""
        several = len(self._recordings) > 1 and not any(r.fault for r in self._recordings)
        if not several or any(len(i.members) > 1 for i in found.instances):
            return
        reasons = "".join(f"\n  {text}" for text in found.distrusted[:5])
        raise SourceError(
            f"the {len(self._recordings)} files in {self.path} have no collective operation in common{reasons}\n"
            "  expected one file of each rank of one run, recorded at the same time; convert files of other runs "
            "one by one"
        )

    def _put_operations(self, found: Operations) -> None:
        """Assign the operations to locations, and define their regions and communicators."""
        d = self._definitions
        communicators: dict[int, int] = {}
        of: dict[int, list[tuple[int, int, bool, tuple[int, ...]]]] = {}

        def put(m: Member, is_joined: bool, values: tuple[int, ...]) -> None:
            row = d.number[m.recording, m.location]
            of.setdefault(row, []).append((m.row, d.region_of(self._recordings[m.recording], m), is_joined, values))

        for instance in found.instances:
            if instance.group not in communicators:
                group = found.groups[instance.group]
                communicators[instance.group] = d.communicator(group, instance.members)
            root = self._root(instance, found)
            for k, m in enumerate(instance.members):
                assert m.operation is not None  # unknown operations are not joined
                given = root, m.sent, m.received
                if m.operation.op < 0:
                    # the partner; the receiver sends nothing, and the sender receives nothing
                    given = 1 - k, -1 if k else m.sent, m.received if k else -1
                put(m, True, (m.operation.op, communicators[instance.group], *given))
        for m in found.others:
            put(m, False, (-1, -1, -1, 0, 0))
        self._performed, self._extra = [], []
        for location in range(len(d.order)):
            rows = sorted(of.get(location, ()))
            number = np.arange(len(rows))
            values = np.array([r[3] for r in rows], np.int64).reshape(-1, 5)
            joined = np.array([r[2] for r in rows], bool)
            op, communicator, partner, sent, received = values.T
            performs, sends, receives = joined & (op >= 0), joined & (received < 0), joined & (sent < 0)
            events = OperationEvents()
            events.add_collectives(number[performs], *values[performs].T)
            for mask, kind, length in ((sends, K.MPI_SEND, sent), (receives, K.MPI_RECV, received)):
                message = (partner[mask], communicator[mask], np.zeros(int(mask.sum()), np.int64), length[mask])
                events.add_many(number[mask], kind == K.MPI_RECV, kind, *message)
            self._performed.append(np.array([r[0] for r in rows], np.int64))
            self._extra.append(events.extra(np.array([r[1] for r in rows], np.int32)))

    def _root(self, instance: Instance, found: Operations) -> int:
        """Return the root of an operation among the given ranks of its group; -1 if it has none or is not given."""
        root = next((m.root for m in instance.members if m.root >= 0), -1)
        group = found.groups[instance.group]
        if root < 0 or not group.ranks:
            return root if len(group.recordings) == group.size else -1
        wanted = group.ranks[root] if root < len(group.ranks) else -1
        return next((k for k, number in enumerate(group.recordings) if self._ranks[number] == wanted), -1)

    # -- facts ---------------------------------------------------------------------------------------------------------

    def _facts(self, found: Operations) -> dict[str, Any]:
        left_out: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        for recording in self._recordings:
            for (category, phase), n in recording.left_out.items():
                is_known = phase not in ("X", "") or (phase == "X" and LEFT_OUT.fullmatch(category))
                text = f"{category} {PHASE_NAMES[phase]}".strip()
                (left_out if is_known else self._unknown)[text] += n
            self._unknown["slices without numbers for process, thread and time"] += recording.n_strange
        facts = {
            "ranks": " ".join(map(str, self._ranks)),
            "world size": self._world,
            "left out": dict(sorted(left_out.items())),
            "operations": dict(sorted(found.counts.items())),
            "clock offsets added in ns": found.offsets,
            "notes": [*self._notes(found)],
        }
        return {k: v for k, v in facts.items() if v}

    def _notes(self, found: Operations) -> Iterator[str]:
        n = len(self._ranks)
        if self._note and n > 1:
            yield self._note
        if self._world > n:
            yield f"{n} of {self._world} ranks are given: waits for other ranks are lower bounds"
        elif n_single := sum(len(i.members) == 1 for i in found.instances):
            yield (
                f"{counted(n_single, 'operation')} between ranks have a single participant, such as those of ranks "
                "whose files are not given: waits in them are not known"
            )
        for changes, name in (
            ((r.threads for r in self._recordings), "slices of threads moved or shortened so that they nest"),
            ((r.streams for r in self._recordings), "slices of streams end where the next one begins"),
        ):
            all_of = sum(changes, Nested())
            if all_of.n_cut:
                longest, time = all_of.longest / 1000, all_of.time / 1000
                yield f"{all_of.n_cut:,} {name}, at most by {longest:,.3f} us, together {time:,.3f} us"
        if n_negative := sum(r.n_negative for r in self._recordings):
            yield f"{counted(n_negative, 'slice')} with a negative duration: they end when they begin"
        if n_untimed := sum(r.n_untimed for r in self._recordings):
            yield f"{counted(n_untimed, 'slice')} without a duration: they end when they begin"
        for text, number in sorted(found.counts.items()):
            yield f"{number:,} {text}"
        for text in found.distrusted:
            yield f"operations of {text}"
        assumed = sum(m.is_assumed for i in found.instances for m in i.members)
        if assumed:
            yield (
                f"bytes of {counted(assumed, 'participation', 'participations')} in collective operations are "
                "not recorded: 1 is assumed"
            )
        for host, offset in found.offsets.items():
            yield (
                f"clock of host {host}: {offset / 1000:+,.3f} us are added to its times, so that collective "
                "operations end together"
            )

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location as batches of columns (`converters.base.Source`)."""
        if location == 0:
            for what, n in self._unknown.items():
                if n:
                    report.unknown[what] = n
        number, _ = self._definitions.order[location]
        fault = self._recordings[number].fault
        if fault and not salvage:
            raise SourceError(fault)
        rules = Rules(NESTED, np.iinfo(np.int64).max, np.zeros(0, np.uint8), self._extra[location])
        yield from Writer(rules).batches(self._pieces(location, number))
        if fault:
            report.lost.append(Loss(location, -1, fault.splitlines()[0]))

    def _pieces(self, location: int, number: int) -> Iterator[NDArray[Any]]:
        s, region, performed = self._slices(location), self._definitions.regions[number], self._performed[location]
        is_host = self.definitions["locations"]["type"][location] == "cpu_thread"
        for start in range(0, s.begin.size, ROWS):
            here = slice(start, start + ROWS)
            found = np.full(s.begin[here].size, -1, INTERVAL)
            found["begin"], found["end"], found["region"] = s.begin[here], s.end[here], region[s.name[here]]
            found["correlation"], found["size"] = s.correlation[here], s.size[here]
            if is_host:
                found["stream"], found["event"] = self._references[number].of(s.correlation[here])
            first, stop = np.searchsorted(performed, (start, start + ROWS)).tolist()
            found["operation"][performed[first:stop] - start] = np.arange(first, stop)
            yield found


# -- ranks and hosts of files ------------------------------------------------------------------------------------------


def _ranks_of(recordings: Sequence[Recording]) -> tuple[list[int], str]:
    """Return the ranks of files, from their content, else their names, else the devices that they use, else their
    order; and a note if these of several files are only concluded. Raises SourceError if a rank has two files."""
    note = ""
    ranks = [operations.recorded_rank(recording) for recording in recordings]
    if -1 in ranks:
        found = [_RANK.findall(recording.path.name) for recording in recordings]
        names = [int(numbers[-1]) if numbers else -1 for numbers in found]
        agree = all(rank in (-1, name) for rank, name in zip(ranks, names, strict=True))
        if agree and -1 not in names and len(set(names)) == len(names):
            return names, note
        if max(ranks) >= 0:
            lacks = recordings[ranks.index(-1)].path
            raise SourceError(
                f"{lacks} does not say its rank, and others do\n"
                "  expected distributedInfo with rank in each file, or in none"
            )
        devices = [{place.pid for place in recording.places if place.is_device} for recording in recordings]
        device = sorted(set[int]().union(*devices))
        # processes on one host, each with a device of its own
        by_device = len(device) == len(recordings) and all(len(used) == 1 for used in devices)
        ranks = [device.index(*used) for used in devices] if by_device else list(range(len(recordings)))
        order = "of the devices that they use" if by_device else "of the files"
        note = f"neither files nor their names state ranks: they are numbered in the order {order}"
    twice = [rank for rank, n in Counter(ranks).items() if n > 1]
    if twice:
        files = [str(r.path) for r, rank in zip(recordings, ranks, strict=True) if rank == twice[0]]
        raise SourceError(
            f"rank {twice[0]} has {len(files)} files: {', '.join(files)}\n  give one file of each rank of one run"
        )
    return ranks, note


def _world_size(recordings: Sequence[Recording], ranks: Sequence[int]) -> int:
    """Return the number of ranks of the run. Raises SourceError if files disagree, or a rank is not below it."""
    sizes = {size: r.path for r in recordings if (size := whole(r.distributed.get("world_size"), MOST_RANKS)) > 0}
    if len(sizes) > 1:
        (one, first), (other, second), *_ = sorted(sizes.items())
        raise SourceError(
            f"the files are of different runs: {first} is of a run of {one:,} ranks, {second} of {other:,}\n"
            "  give the files of one run"
        )
    size = max(sizes, default=0)
    if size and len(recordings) > 1 and max(ranks) >= size:
        at = recordings[list(ranks).index(max(ranks))].path
        raise SourceError(f"{at} is of rank {max(ranks)} in a run of {size:,} ranks\n  give the files of one run")
    return max(size, len(ranks))


def _host_of(recording: Recording) -> str:
    """Return the host of a file, from its content, or its name if that has its process, too; empty if unknown."""
    for key in ("hostname", "host_name"):
        if isinstance(recording.head.get(key), str):
            return str(recording.head[key])
    found = _HOST.fullmatch(recording.path.name)
    pids = {place.pid for place in recording.places if not place.is_device}
    return found[1] if found and int(found[2]) in pids else ""
