"""Windows of processes: the events between two moments at which all threads may be divided (`enhance.scan.gaps`).

Steps that work on the events within processes see one window at a time, as if it were a separate trace: the rows of its
side tables, its call instances, and the numbers that its operations have in the whole process. If a team is open at
either end, they see its FORK, begins, ends and JOIN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tracecols.enhance.dataflow.columns import ColumnSlice
from tracecols.enhance.dataflow.grouping import Segments
from tracecols.enhance.dataflow.partitions import Division, Partition, Window
from tracecols.enhance.definitions.numbering import N_COLUMNS, Numbered, Numbering
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.gaps import SAMPLES, TABLES
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.region_rules import either, is_blocking_probe, is_in, is_polling
from tracecols.kernels.gaps import BEGIN, BEGINS, CALLS, END, EVENTS, FIRST_ROW, FORK, JOIN, STOP_ROW, Gaps
from tracecols.schema import EventKind
from tracecols.vectors import Ints, Mask


@dataclass(frozen=True)
class WindowScans(Sequence[LocationScan]):
    """The scans of all locations, one by one (no slices), some of them restricted to a window."""

    scans: Sequence[LocationScan]
    own: Mapping[int, LocationScan]
    """Restricted scans by location."""

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, location: Any) -> Any:
        return self.own.get(location) or self.scans[location]


def seen_in(window: Window, facts: Facts, scans: Sequence[LocationScan]) -> tuple[Facts, Sequence[LocationScan]]:
    """Return the facts and scans for steps that work on a window."""
    if window.first is None or window.stop is None:
        return facts, scans
    first, stop = window.first, window.stop
    store = facts.store.between(window.members, rows_of(window))
    seen = replace(facts, store=store, numbering=Numbering(window.numbers))
    seen.__dict__["memo"] = facts.memo
    own = {
        i: _between(scans[i], *of) for i, *of in zip(window.members.tolist(), first, stop, window.around, strict=True)
    }
    return seen, WindowScans(scans, own)


def rows_of(window: Window) -> dict[str, tuple[Ints, Ints]]:
    """Return the rows of side tables that lie in a window (`Store.between`)."""
    assert window.first is not None and window.stop is not None
    return {table: (window.first[:, k], window.stop[:, k]) for table, k in TABLES.items()}


def _between(scan: LocationScan, first: Ints, stop: Ints, around: Ints) -> LocationScan:
    """Return the scan of a location restricted to a window, with the events of teams that are open at its ends."""
    found = copy(scan)
    for name, k in (("calls", CALLS), ("events", EVENTS)):
        whole: ColumnSlice = getattr(scan, name)
        setattr(found, name, ColumnSlice(whole.source, whole.start + int(first[k]), whole.start + int(stop[k])))
    found.n_calls, found.n_attributed = len(found.calls), len(found.events)
    found.first_call, found.first_begin = int(first[CALLS]), int(first[BEGINS])
    whole = scan.events
    before, after = (
        tuple(ColumnSlice(whole.source, whole.start + e, whole.start + e + 1) for e in events.tolist() if e >= 0)
        for events in (around[:2], around[2:])
    )
    found.before, found.after = before, after
    return found


class _Cut(NamedTuple):
    """The boundary between two windows."""

    stop: Ints
    first: Ints
    """`stop` and `first`: (n_locations, 7), counts of rows before the boundary: `stop` ends the first window, `first`
    begins the second one. A team that is open at the boundary belongs to both windows."""
    ends: Ints
    begins: Ints
    """`ends` and `begins`: (n_locations, 2), attributed events with which the open team ends (end, JOIN) and begins
    (FORK, begin); -1 none."""

    @classmethod
    def at(cls, counted: Ints, around: Ints | None = None) -> _Cut:
        """Return the boundary with these counts of rows before it, given the events of an open team (`Gaps.around`)."""
        if around is None:
            nothing = np.full((len(counted), 2), -1)
            return cls(counted, counted, nothing, nothing)
        is_in, stop, first = around[:, BEGIN] >= 0, counted.copy(), counted.copy()
        stop[is_in, TABLES["threads"]] = around[is_in, STOP_ROW]
        first[is_in, TABLES["threads"]] = around[is_in, FIRST_ROW]
        first[is_in, BEGINS] -= 1
        return cls(stop, first, around[:, [END, JOIN]], around[:, [FORK, BEGIN]])


def divide_into_windows(division: Division, facts: Facts, scans: Sequence[LocationScan]) -> Division:
    """Divide partitions that consist of one process into windows, as far as the events of its threads allow."""
    if facts.numbering:
        return division
    windows: list[Window] = []
    for partition in division.partitions:
        parts = _windows_between(facts, partition, _cuts_of(facts, scans, partition), len(windows))
        windows += parts or [Window(len(windows), partition.number, partition.members)]
    return replace(division, windows=tuple(windows))


def _cuts_of(facts: Facts, scans: Sequence[LocationScan], partition: Partition) -> list[_Cut]:
    """Return the boundaries of the windows of a process, with its begin and end; empty if there is only one window."""
    members, process = partition.members, facts.process[partition.members]
    own = [scans[i] for i in members.tolist()]
    gaps = [scan.gaps for scan in own if scan.gaps is not None]
    if len(gaps) < len(own) or not gaps or (process != process[0]).any():
        return []
    # operations on a stream of a device may have been launched by the host any time before
    if facts.locations.is_device[members].any():
        return []
    valid = np.flatnonzero(_meet(gaps))
    counted, around = (np.stack([g[valid] for g in of], axis=1) for of in _columns(gaps, "counted", "around"))
    are_apart = ~_are_in_series(facts, own, members, counted)
    counted, around = counted[are_apart], around[are_apart]
    # if FORKs begin teams, all threads of the process begin with each FORK
    forker = np.searchsorted(members, [scan.forker for scan in own])
    begun = np.flatnonzero([scan.forker >= 0 for scan in own])
    counted[:, begun, BEGINS] = counted[:, forker[begun], BEGINS]
    rows = counted[:, :, [CALLS, EVENTS]].sum(axis=(1, 2)).tolist()
    total = sum(scan.n_calls + scan.n_attributed for scan in own)
    size = total * SAMPLES // (gaps[0].begin.size + 1)
    chosen, last = list[_Cut](), 0
    for k, (n, following) in enumerate(pairwise([*rows, total])):
        if last < n < total and following - last > size:
            chosen.append(_Cut.at(counted[k], around[k]))
            last = n
    if not chosen:
        return []
    in_all = np.zeros_like(chosen[0].first)
    in_all[:, CALLS], in_all[:, EVENTS] = [scan.n_calls for scan in own], [scan.n_attributed for scan in own]
    for table, k in TABLES.items():
        in_all[:, k] = facts.store.counts(table)[members]
    return [_Cut.at(np.zeros_like(in_all)), *chosen, _Cut.at(in_all)]


def _columns(gaps: Sequence[Gaps], *names: str) -> list[list[Ints]]:
    """Return some columns of `Gaps`, each as a list by location."""
    return [[getattr(g, name) for g in gaps] for name in names]


def _meet(gaps: Sequence[Gaps]) -> Mask:
    """Return a mask of the moments at which all threads of a process may be divided, with no open team, or one all of
    whose threads have entered the same number of constructs of each role; (n_moments,) bool."""
    begin, end = np.max([g.begin for g in gaps], axis=0), np.min([g.end for g in gaps], axis=0)
    instance, mark, teams, constructs, around = (
        np.array(of) for of in _columns(gaps, "instance", "mark", "teams", "constructs", "around")
    )
    team = instance.max(axis=0)
    is_in = instance >= 0
    is_one = ((instance == team) | ~is_in).all(axis=0) & (mark.sum(axis=0) == 0)
    # one of the threads forks the team
    is_one &= (team < 0) | ((around[:, :, FORK] >= 0) & is_in).sum(axis=0) == 1
    most = np.where(is_in[:, :, None], constructs, 0).max(axis=0)
    in_step = ((constructs == most) | ~is_in[:, :, None]).all(axis=(0, 2))
    return (begin < end) & (teams.sum(axis=0) == 0) & is_one & in_step


in_series = either(is_polling, is_blocking_probe)


def _are_in_series(facts: Facts, scans: Sequence[LocationScan], members: Ints, counted: Ints) -> Mask:
    """Return a mask of the moments at which the last call of any thread was a polling call or a probe. The series may
    continue, and must lie in one window with the call that receives; (n_moments,) bool."""
    result = np.zeros(len(counted), bool)
    if not in_series(facts.regions).any():
        return result
    for k, (location, scan) in enumerate(zip(members.tolist(), scans, strict=True)):
        last = counted[:, k, CALLS] - 1
        known = np.flatnonzero(last >= 0)
        call_path = facts.call_paths.numbers[location][scan.calls.column("node")[last[known]]]
        result[known] |= is_in(facts, call_path, in_series)
    return result


def _windows_between(facts: Facts, partition: Partition, cuts: Sequence[_Cut], number: int) -> list[Window]:
    """Return the windows of a process, numbered from `number` on, each with the numbers of collective operations before
    it; none if acquisition numbers of a lock are not greater in each window than in all earlier ones."""
    members, found = partition.members, list[Window]()
    process = int(facts.process[members[0]]) if members.size else -1
    collectives: Counter[int] = Counter()
    acquired: dict[int, int] = {}
    for begin, end in pairwise(cuts):
        before = [[Numbered.COLLECTIVE, process, c, 0, 0, 0, n] for c, n in collectives.items()]
        numbers = np.array(before, np.int64).reshape(-1, N_COLUMNS)
        around = np.hstack([begin.begins, end.ends])
        window = Window(number + len(found), partition.number, members, begin.first, end.stop, numbers, around)
        store = facts.store.between(members, rows_of(window))
        rows, _ = store.read_together("collectives", members, ["kind", "communicator"])
        ended = rows["communicator"][rows["kind"] == EventKind.MPI_COLLECTIVE_END]
        communicator, n_ended = np.unique(ended, return_counts=True)
        collectives.update(dict(zip(communicator.tolist(), n_ended.tolist(), strict=True)))
        rows, _ = store.read_together("locks", members, ["lock", "acquisition"])
        is_counted = rows["acquisition"] >= 0
        of, first = Segments.of(rows["lock"][is_counted].astype(np.int64))
        lowest, highest = (extreme(rows["acquisition"][is_counted]).tolist() for extreme in (of.min, of.max))
        locks = rows["lock"][is_counted][first].tolist()
        if any(low <= acquired.get(lock, -1) for lock, low in zip(locks, lowest, strict=True)):
            return []
        acquired |= dict(zip(locks, highest, strict=True))
        found.append(window)
    return found
