"""Compute the severities of all properties: parents before children, each a mask and a sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.model import Model
from tracecols.patterns.base import Conventions, Findings, Matches, Property
from tracecols.patterns.counters import counter_properties
from tracecols.patterns.profile import TeamTimes, displaced_call_paths
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube

# Where the rows of a table are charged unless a pattern says otherwise: call path and location.
CHARGED: dict[str, tuple[str, str]] = {
    "messages": ("recv_call_path", "recv_location"),
    "sent_messages": ("send_done_call_path", "send_location"),
    "sends": ("call_path", "location"),
    "collective_members": ("call_path", "location"),
    "construct_members": ("call_path", "location"),
    "lock_acquisitions": ("call_path", "location"),
    "startups": ("call_path", "location"),
    "window_members": ("call_path", "location"),
    "epochs": ("wait_call_path", "target"),
}


def every_row(table: CompoundTable) -> Matches:
    """Match all rows of a table with severity 0, charged where the table says."""
    call_path, location = CHARGED[table.table.name]
    n = len(table)
    return Matches(np.arange(n), np.zeros(n, np.int64), table[call_path], table[location])


BY_PROCESS = ("construct_members", "lock_acquisitions", "sends")
"""Tables of what happens within processes."""

BY_RANGE = ("collective_members",)
"""Tables that are divided by ranges of collective operations."""

AT_ONCE = ("startups", "window_members", "epochs")
"""Tables that join all processes."""


Result = TypeVar("Result")


def run_in_parts(
    model: Model, run: Callable[[Model, Sequence[str]], Result], pool: ThreadPoolExecutor
) -> Iterator[Result]:
    """Run a step on all compound tables: on every part with what it sees, step by step, parts side by side.

    Parameters
    ----------
    run : callable
        `run(view, tables)` gets a part of the trace and the names of the tables that are complete in it.

    Yields
    ------
    Result
        In the same order for every number of threads.
    """
    exchange = model.divided()
    parts = range(exchange.n_parts)

    def within(part: int) -> Result:
        view = exchange.view(part)
        result = run(view, BY_PROCESS)
        exchange.post(view)
        return result

    yield from pool.map(within, parts)
    for tables in (("messages",), ("sent_messages",)):
        yield from pool.map(lambda part, tables=tables: run(exchange.view(part), tables), parts)
    yield from pool.map(lambda of: run(exchange.range_view(of), BY_RANGE), range(len(exchange.ranges)))
    yield run(model.whole, AT_ONCE)


@dataclass
class Found:
    """What a search finds in a part of the trace."""

    cells: dict[str, Cells]
    teams: TeamTimes
    counts: dict[str, int]


class Search:
    """The search for all properties in a model.

    Parameters
    ----------
    model : Model
    declared : list of Property
        In depth-first order.
    conventions : Conventions

    Attributes
    ----------
    findings : Findings
    counts : dict of str to int
        What could not be matched or contradicts itself.
    """

    def __init__(self, model: Model, declared: list[Property], conventions: Conventions) -> None:
        self.model, self.declared, self.nested = model, declared, conventions.nested
        self._by_id = {p.id: p for p in declared}
        self._masks: dict[str, NDArray[np.bool_]] = {}
        self.findings = Findings(model, conventions, TeamTimes.none())
        self.counts: Counter[str] = Counter()
        with ThreadPoolExecutor(model.jobs) as pool:
            for found in run_in_parts(model, self._search, pool):
                self.findings.teams += found.teams
                self.counts.update(found.counts)
                cells = self.findings.cells
                for name, more in found.cells.items():
                    cells[name] = cells[name] + more if name in cells else more

    def _search(self, view: Model, tables: Sequence[str]) -> Found:
        """Match the patterns of some tables in a part of the trace."""
        matches: dict[str, Matches] = {}
        for p in self.declared:
            if p.match is None or p.table not in tables:
                continue
            table: CompoundTable = getattr(view, p.table)
            parent = self._by_id.get(p.parent)
            inherited = parent is not None and parent.match is not None and parent.table == p.table
            start = matches[p.parent] if inherited else every_row(table)
            found = p.match(view, table, start, *(matches[u] for u in p.uses), **p.given)
            matches[p.id] = found.where(np.append(self._mask(p)[self.model.call_paths.region], False)[found.call_path])
        by_process = tables is BY_PROCESS
        return Found(
            {name: m.cells() for name, m in matches.items()},
            TeamTimes.of(view) if by_process else TeamTimes.none(),
            counts_of(view, tables),
        )

    def _mask(self, p: Property) -> NDArray[np.bool_]:
        """Which regions a property can be charged to: what its own rule and those above allow."""
        if p.id not in self._masks:
            above = (
                self._mask(self._by_id[p.parent])
                if p.parent and self.nested
                else np.ones(len(self.model.regions), bool)
            )
            self._masks[p.id] = above & p.regions(self.model.regions) if p.regions is not None else above
        return self._masks[p.id]

    def cells(self) -> dict[str, Cells]:
        """Return the cells of all properties."""
        model, declared, findings = self.model, self.declared, self.findings
        for p in declared:
            if p.regions is not None:
                basis = findings.execution if p.measure == "execution" else findings.cells["visits"]
                findings.cells[p.id] = basis.on(self._mask(p)[model.call_paths.region])
            elif p.cells is not None:
                findings.cells[p.id] = p.cells(model, findings, **p.given)
        return self._sums()

    def _sums(self) -> dict[str, Cells]:
        declared, findings = self.declared, self.findings
        for p in reversed(declared):
            if p.of == "children":
                cells = Cells.empty()
                for child in declared:
                    if child.parent == p.id:
                        cells = cells + findings.cells[child.id]
                findings.cells[p.id] = cells
        for p in declared:
            if p.of == "rest":
                cells = findings.cells[p.parent]
                for sibling in declared:
                    if sibling.parent == p.parent and sibling.id != p.id:
                        cells = cells - findings.cells[sibling.id]
                findings.cells[p.id] = cells
        return findings.cells


def analyze_model(model: Model, conventions: str = "scalasca") -> SeverityCube:
    """Compute the severity cube of an enhanced model.

    Parameters
    ----------
    model : Model
    conventions : str
        Which analyser's rules to follow.
    """
    declared = properties(conventions, counter_properties(model), model)
    search = Search(model, declared, CONVENTIONS[conventions])
    cells = search.cells()
    clock = model.store.manifest["clock"]
    found = {k: int(v) for k, v in (counts_by_location(model) | search.counts).items() if v}
    displaced = displaced_call_paths(model, search.findings) if conventions == "scalasca" else 0
    if displaced:
        found["call paths counted outside their parallel region, as the reference does"] = displaced
    facts: dict[str, Any] = {
        "conventions": conventions,
        "resolution": clock["resolution"],
        "trace": {k: model.store.manifest[k] for k in ("source", "n_events", "n_locations", "first_time", "last_time")},
        "counts": found,
    }
    return SeverityCube(
        PropertyAxis.of(declared),
        CallAxis.of(model.call_paths, model.regions),
        SystemAxis.of(model.store),
        {p.id: cells[p.id] for p in declared},
        facts,
    )


def counts_by_location(model: Model) -> dict[str, int]:
    """Count what contradicts itself at one location."""
    return {
        "exits that do not match their enter": sum(s.bad_exits for s in model.scans),
        "region instances that never end": sum(s.open for s in model.scans),
    }


COUNTED = {
    "construct_members": ("teams", "constructs"),
    "lock_acquisitions": ("lock_acquisitions",),
    "messages": ("messages",),
    "collective_members": ("collectives",),
    "window_members": ("window_members",),
    "epochs": ("epochs",),
}
"""Tables that count what contradicts itself, by the table patterns are matched on."""


def counts_of(view: Model, tables: Sequence[str]) -> dict[str, int]:
    """Count what contradicts itself in some tables of a part of the trace."""
    return {k: v for t in tables for name in COUNTED.get(t, ()) for k, v in getattr(view, name).counts.items()}


def counts(model: Model) -> dict[str, int]:
    """Count what could not be matched or contradicts itself; zeros are left out."""
    found = Counter(counts_by_location(model))
    with ThreadPoolExecutor(model.jobs) as pool:
        for more in run_in_parts(model, counts_of, pool):
            found.update(more)
    return {k: int(v) for k, v in found.items() if v}
