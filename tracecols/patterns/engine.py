"""Compute the severities of all properties: parents before children, each a mask and a sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.model import Model
from tracecols.enhance.topologies import given_topology
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


BY_PROCESS = ("construct_members", "lock_acquisitions")
"""Tables that join the threads of one process only; the others join processes."""


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
        for part in model.parts():
            self.findings.teams += TeamTimes.of(part)
            self._match(part, [p for p in declared if p.table in BY_PROCESS])
            self.counts.update(counts_by_process(part))
        exchange = model.exchange()
        self._match(exchange, [p for p in declared if p.match is not None and p.table not in BY_PROCESS])
        self.counts.update(counts_of_exchange(exchange))

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

    def _match(self, view: Model, patterns: list[Property]) -> None:
        """Match patterns in a view of the model, and add what they find."""
        matches: dict[str, Matches] = {}
        cells = self.findings.cells
        for p in patterns:
            assert p.match is not None
            table: CompoundTable = getattr(view, p.table)
            parent = self._by_id.get(p.parent)
            inherited = parent is not None and parent.match is not None and parent.table == p.table
            start = matches[p.parent] if inherited else every_row(table)
            found = p.match(view, table, start, *(matches[u] for u in p.uses), **p.given)
            allowed = np.append(self._mask(p)[self.model.call_paths.region], False)
            matches[p.id] = found = found.where(allowed[found.call_path])
            cells[p.id] = cells[p.id] + found.cells() if p.id in cells else found.cells()

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


def analyze_model(
    model: Model,
    conventions: str = "scalasca",
    topologies: Sequence[Mapping[str, Any]] = (),
    more: Sequence[Property] = (),
) -> SeverityCube:
    """Compute the severity cube of an enhanced model.

    Parameters
    ----------
    model : Model
    conventions : str
        Which analyser's rules to follow.
    topologies : sequence of mapping, optional
        Topologies given by hand (see `enhance.topologies.given_topology`), besides those of the trace.
    more : sequence of Property, optional
        Properties to compute besides those of the conventions.
    """
    if topologies:
        axis = SystemAxis.of(model.store)
        model = model.with_topologies([given_topology(t, axis.rank, axis.thread) for t in topologies])
    declared = properties(conventions, [*counter_properties(model), *more], model)
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
        model.topologies,
    )


def counts_by_location(model: Model) -> dict[str, int]:
    """Count what contradicts itself at one location, and in the definitions."""
    return {
        "exits that do not match their enter": sum(s.bad_exits for s in model.scans),
        "region instances that never end": sum(s.open for s in model.scans),
        "positions that do not fit their topology": model.misplaced,
    }


def counts_by_process(part: Model) -> dict[str, int]:
    """Count what contradicts itself among the threads of processes."""
    return {**part.teams.counts, **part.constructs.counts, **part.lock_acquisitions.counts}


def counts_of_exchange(exchange: Model) -> dict[str, int]:
    """Count what contradicts itself among processes."""
    tables = (exchange.messages, exchange.collectives, exchange.window_members, exchange.epochs)
    return {k: v for t in tables for k, v in t.counts.items()}


def counts(model: Model) -> dict[str, int]:
    """Count what could not be matched or contradicts itself; zeros are left out."""
    found = Counter(counts_by_location(model))
    for part in model.parts():
        found.update(counts_by_process(part))
    found.update(counts_of_exchange(model.exchange()))
    return {k: int(v) for k, v in found.items() if v}
