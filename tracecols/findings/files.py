"""Files that processes write or read one after the other, although all call at the same time, or slowly, all alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import Segments, occurrence
from tracecols.enhance.scan.region_rules import called, either, in_role, named
from tracecols.findings.cause import CLEARLY, NOBODY, Cause, tried
from tracecols.findings.overheads import joined_partners, largest
from tracecols.findings.scenarios import Change, Scenarios, together
from tracecols.replay.nodes import NodeClass
from tracecols.vectors import Ints, Mask

MPI_FILES = named("mpi_file_(i?read|i?write).*", "mpi")
"""Calls of MPI that read or write files."""

FILES = either(
    MPI_FILES,
    in_role(("file_io", "file_io_metadata")),
    called(
        "p?(read|write)v?(64)?|f(read|write|printf|puts|putc|gets|getc|flush|sync)|f?(open|close|stat)(at|64)?|lseek(64)?"
        "|H5[DF](read|write|open|create|close)[0-9]?|nc(mpi)?_(get|put)_.*|nc(mpi)?_(open|create|close|enddef)"
    ),
)
"""Regions that read or write files, open or close them, or ask for their properties."""

IN_LINE = "in_line"
"""Key in the evidence of `turns`: seconds of each access to files after those of other processes before it, all of
which are called at the same time."""

LEAST = 3
"""Number of processes from which on a queue of their calls can be distinguished from work that differs among them."""

ALIKE = 0.5
"""Share of the mean time at the head of the queue that each call has to have there at least."""


class Accesses(NamedTuple):
    """Accesses to files, in the order of the nodes at which they end, or before which the process does nothing else."""

    node: Ints
    """(n,): these nodes, ascending."""
    ticks: Ints
    """(n,)"""
    row: Ints
    """(n,): row of the computation, -1 for calls of MPI, which are nodes."""

    def some(self, which: Ints) -> Accesses:
        """Return some of them."""
        return Accesses(*(column[which] for column in self))


def of_files(s: Scenarios) -> list[Cause]:
    """Return the causes that processes access files one after the other, or slowly, with their gains, by region."""
    on_files = np.append(FILES(s.model.regions)[s.call_paths.region], False)
    if not on_files.any():
        return []
    c, nodes = s.computation, s.graph.nodes
    rows = np.flatnonzero(on_files[c.call_path] & s.in_window[c.node])
    calls = np.flatnonzero(s.in_window & (nodes.kind == NodeClass.OPAQUE) & on_files[s.call_path])
    node = np.concatenate([c.node[rows], calls])
    found = Accesses(
        node,
        np.concatenate([c.ticks[rows], np.maximum(s.weight[calls], 0)]),
        np.concatenate([rows, np.full(calls.size, -1)]),
    ).some(np.argsort(node, kind="stable"))
    path = np.where(found.row >= 0, pick(c.call_path, found.row), s.call_path[found.node])
    user = _callers(s, on_files[:-1])[path]
    single = ((*group, ()) for group in largest(s, np.arange(path.size), found.ticks, user))
    alone, joined = (tried(s, list(_causes(s, found, path, of))) for of in (single, _of_several(s, found, path, user)))
    return joined_partners(s, alone, joined)


Group = tuple[int, Ints, dict[str, Any], tuple[int, ...]]
"""A call path of the program, accesses for which it counts, evidence, and call paths of other functions for which they
count as well."""


def _of_several(s: Scenarios, found: Accesses, path: Ints, user: Ints) -> Iterator[Group]:
    """Yield the accesses by each region that several functions of the program call, those with most ticks first."""
    region = s.call_paths.region.astype(np.int64)
    for name in distinct(region[path]).tolist():
        of = np.flatnonzero(region[path] == name)
        by_path = np.bincount(user[of], found.ticks[of], len(s.call_paths))
        by_region = np.bincount(region, by_path, len(s.model.regions))
        callers = np.flatnonzero(by_region > 0)
        if callers.size > 1:
            callers = callers[np.argsort(-by_region[callers], kind="stable")]
            first, *others = (int(np.where(region == r, by_path, -1.0).argmax()) for r in callers.tolist())
            yield first, of, {}, tuple(others)


def _callers(s: Scenarios, on_files: Mask) -> Ints:
    """Return for each call path the nearest one above it, or itself, of a function of the program that is not on files
    itself (`fwrite` calls `write`); or the call path if there is none; (n_call_paths,) int64."""
    parent, user = s.call_paths.parent.tolist(), s.user_call_path.tolist()
    result = list(user)
    # those above come first
    for path in np.flatnonzero(on_files).tolist():
        if parent[path] >= 0:
            result[path] = result[parent[path]]
    return np.array(result, np.int64)


def _causes(s: Scenarios, found: Accesses, path: Ints, groups: Iterable[Group]) -> Iterator[Cause]:
    most = max(distinct(s.model.locations.master[s.locations]).size, 2)
    for where, of, family, others in groups:
        mine = found.some(of)
        by_location = np.bincount(s.graph.nodes.location[mine.node], mine.ticks)
        by_location = by_location[by_location > 0]
        are_alike = by_location.size > most / 2 and by_location.max() < CLEARLY * by_location.mean()
        evidence = family | _called(s, path[of], mine.ticks)
        served = _served(s, mine)
        if served.size:
            each = float(served.mean()) / s.resolution
            change = _shorter(s, mine, mine.ticks - served)
            yield Cause("turns", where, NOBODY, change, partners=others, evidence=evidence | {IN_LINE: each})
        elif (mine.row >= 0).all() and are_alike:
            # calls of MPI are found by `overheads`, what few or some processes do longer as computation
            yield Cause("calls", where, NOBODY, _shorter(s, mine, mine.ticks), partners=others, evidence=evidence)


def _served(s: Scenarios, a: Accesses) -> Ints:
    """Return the ticks of each access after the one before it has ended, if each process waits in its access until
    those before have ended; empty if not. The k-th accesses of all processes are one round."""
    location, end = s.graph.nodes.location[a.node].astype(np.int64), s.time[a.node]
    n = np.bincount(location)
    n = n[n > 0]
    if n.size < LEAST or n.min() < n.max():
        return NOBODY
    turn = occurrence(location)
    order = np.lexsort((end, turn))
    before = np.append(-1, order[:-1])
    since = np.where(starts_run(turn[order]), end[order] - a.ticks[order], end[before])
    served = np.empty(end.size, np.int64)
    served[order] = np.minimum(a.ticks[order], end[order] - since)
    alike = n.size * int(Segments(turn, int(n[0])).min(served).sum()) >= ALIKE * served.sum()
    # in a queue of n calls, the k-th one takes k times as long as the first
    waits = a.ticks.sum() >= ALIKE * (n.size + 1) / 2 * served.sum()
    return served if alike and waits and served.sum() > 0 else NOBODY


def _shorter(s: Scenarios, a: Accesses, less: Ints) -> Change:
    """Return the change in which accesses take less time."""
    of_rows = a.row >= 0
    in_rows = s.less_computation(a.node[of_rows], less[of_rows])
    return together([in_rows, Change(a.node[~of_rows], less[~of_rows])])


def _called(s: Scenarios, path: Ints, ticks: Ints) -> dict[str, Any]:
    """Return how often files are accessed, and the name of the region in which most of the time is spent."""
    profile, region = s.model.profile, s.call_paths.region
    most = int(np.bincount(region[path], ticks).argmax())
    of_profile = s.model.call_paths.path_of(profile.call_path)
    n = int(profile.visits[np.isin(of_profile, distinct(path[region[path] == most]))].sum())
    return {"call": str(s.model.regions.name[most]), "n_calls": n, "n_called": n}
