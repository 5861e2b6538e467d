"""Compute the severities of all properties: parents before children, each a mask and a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.model import Model
from tracecols.patterns.base import Conventions, Findings, Matches, Property
from tracecols.patterns.counters import counter_properties
from tracecols.patterns.profile import displaced_call_paths
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


def compute(model: Model, declared: list[Property], conventions: Conventions) -> dict[str, Cells]:
    """Compute the cells of properties given in depth-first order."""
    by_id = {p.id: p for p in declared}
    findings = Findings(model, conventions)
    masks: dict[str, NDArray[np.bool_]] = {}
    everywhere = np.ones(len(model.regions), bool)

    def mask_of(p: Property) -> NDArray[np.bool_]:
        """Which regions a property can be charged to: what its own rule and those above allow."""
        if p.id not in masks:
            above = mask_of(by_id[p.parent]) if p.parent and conventions.nested else everywhere
            masks[p.id] = above & p.regions(model.regions) if p.regions is not None else above
        return masks[p.id]

    for p in declared:
        if p.regions is not None:
            basis = findings.execution if p.measure == "execution" else findings.cells["visits"]
            findings.cells[p.id] = basis.on(mask_of(p)[model.call_paths.region])
        elif p.cells is not None:
            findings.cells[p.id] = p.cells(model, findings, **p.given)
        elif p.match is not None:
            table: CompoundTable = getattr(model, p.table)
            parent = by_id.get(p.parent)
            inherited = parent is not None and parent.match is not None and parent.table == p.table
            start = findings.matches[p.parent] if inherited else every_row(table)
            found = p.match(model, table, start, *(findings.matches[u] for u in p.uses), **p.given)
            allowed = np.append(mask_of(p)[model.call_paths.region], False)
            found = found.where(allowed[found.call_path])
            findings.matches[p.id] = found
            findings.cells[p.id] = found.cells()
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
    cells = compute(model, declared, CONVENTIONS[conventions])
    clock = model.store.manifest["clock"]
    found = counts(model)
    displaced = displaced_call_paths(model) if conventions == "scalasca" else 0
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


def counts(model: Model) -> dict[str, int]:
    """Count what could not be matched or contradicts itself; zeros are left out."""
    found = {
        "exits that do not match their enter": sum(s.bad_exits for s in model.scans),
        "region instances that never end": sum(s.open for s in model.scans),
        **model.messages.counts,
        **model.collectives.counts,
        **model.teams.counts,
        **model.constructs.counts,
        **model.window_members.counts,
        **model.epochs.counts,
        **model.lock_acquisitions.counts,
    }
    return {k: int(v) for k, v in found.items() if v}
