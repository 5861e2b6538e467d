"""Wait states as intervals of time: where, from when, to when.

`find_waits` is the one place that asks the patterns for single matches; it is to be replaced by `Trace.matches`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.model import Model
from tracecols.export.tables import ExportError
from tracecols.patterns.base import Matches, Property
from tracecols.patterns.engine import Search
from tracecols.patterns.registry import CONVENTIONS, properties

BEGINS: dict[str, str] = {
    "messages": "recv_enter_time",
    "collective_members": "begin_time",
    "construct_members": "enter_time",
    "lock_acquisitions": "enter_time",
    "startups": "enter_time",
}
"""When a wait state begins, by the table its matches are rows of; it lasts as long as its severity says."""

BEGINS_ELSEWHERE: dict[str, str] = {
    "mpi_latereceiver": "send_done_enter_time",
    "mpi_latereceiver_wo": "send_done_enter_time",
}
"""The same for properties that are charged to another call."""

ENDS: dict[str, str] = {
    "mpi_barrier_completion": "end_time",
    "mpi_nxn_completion": "end_time",
    "mpi_init_completion": "exit_time",
}
"""When it ends, for properties that cost the end of an operation."""


@dataclass
class Waits:
    """The wait states of a property, ordered by location.

    Attributes
    ----------
    id, title : str
        Of the property.
    location : (n,) int32
        Where time is lost.
    begin, end : (n,) int64
        From when to when, ticks; the difference is the severity.
    """

    id: str
    title: str
    location: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


class _Matching(Search):
    """A search for some properties and those they narrow or use, which keeps their wait states."""

    def __init__(self, model: Model, declared: list[Property], chosen: set[str]) -> None:
        self._chosen = chosen
        self.found: dict[str, list[Waits]] = {id: [] for id in chosen}
        super().__init__(model, declared, CONVENTIONS["scalasca"])

    def _match(self, view: Model, patterns: list[Property]) -> dict[str, Matches]:
        matches = super()._match(view, patterns)
        for p in patterns:
            if p.id in self._chosen:
                m, table = matches[p.id], getattr(view, p.table)
                begin, end = _interval(p, table, m)
                self.found[p.id].append(Waits(p.id, p.title, m.location, begin, end))
        return matches


def _interval(p: Property, table: CompoundTable, m: Matches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if p.id in ENDS:
        end = table[ENDS[p.id]][m.row]
        return end - m.severity, end
    begin = table[BEGINS_ELSEWHERE.get(p.id, BEGINS[p.table])][m.row]
    return begin, begin + m.severity


def find_waits(model: Model, ids: Iterable[str]) -> list[Waits]:
    """Find the single wait states of some properties, by the rules of Scalasca.

    To be replaced by `Trace.matches`, which returns one row per match: location, call path, begin and end time, severity.

    Parameters
    ----------
    model : Model
    ids : iterable of str
        Ids of properties in seconds that patterns find on compound tables.

    Raises
    ------
    ExportError
        If there is no such property, or it has no wait states that stand somewhere in time.
    """
    declared = properties("scalasca", model=model)
    by_id = {p.id: p for p in declared}
    possible = {p.id for p in properties("scalasca") if p.unit == "sec" and p.table in BEGINS}
    chosen = list(dict.fromkeys(ids))
    for id in chosen:
        if id not in possible:
            raise ExportError(f"no wait states of a property {id!r} to show\n  there are {', '.join(sorted(possible))}")
    needed: set[str] = set()
    waiting = [id for id in chosen if id in by_id]
    while waiting:
        p = by_id[waiting.pop()]
        if p.id not in needed:
            needed.add(p.id)
            waiting += [*([p.parent] if p.parent else []), *p.uses]
    found = _Matching(model, [p for p in declared if p.id in needed], set(chosen) & set(by_id)).found
    result = []
    for id in chosen:
        parts = found.get(id, [])
        if parts:
            location = np.concatenate([w.location for w in parts])
            order = np.argsort(location, kind="stable")
            columns = (np.concatenate([getattr(w, c) for w in parts])[order] for c in ("begin", "end"))
            result.append(Waits(id, parts[0].title, location[order], *columns))
    return result
