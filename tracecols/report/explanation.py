"""The steps of an analysis, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from tracecols.analysis.request import Request
from tracecols.model.explain import PlannedStep, explain
from tracecols.model.tables import TABLES
from tracecols.patterns.base import Family
from tracecols.patterns.plugins import installed
from tracecols.patterns.registry import needed, properties
from tracecols.report.screen import Screen
from tracecols.store import Store


def tables_for(conventions: str, families: Iterable[Family], chosen: Iterable[str] | None) -> list[str]:
    """Return the names of the compound tables that the chosen properties (by default all) need, sorted."""
    declared = properties(conventions, [p for family in (*installed(), *families) for p in family.properties])
    if chosen is not None:
        computed, _ = needed(declared, chosen)
        declared = [p for p in declared if p.id in computed]
    found = {c.table for p in declared if p.pattern for c in p.pattern.constituents.values()}
    # tables that the profile of every analysis needs, and those counted in the stages of the tables found
    found |= {p.table for p in declared if p.table} | {"profile", "teams", "construct_members"}
    stages = {TABLES[name].stage for name in found}
    return sorted(found | {spec.name for spec in TABLES.values() if spec.counts and spec.stage in stages})


def describe(plan: Iterable[PlannedStep]) -> Table:
    """Lay out planned steps as a table."""
    table = Table("stage", "step", "reads", "makes", "times", "kept", box=None, header_style="bold", pad_edge=False)
    last = ""
    for step in plan:
        kept = f"{step.n_bytes / 1e6:,.1f} MB" if step.n_bytes else ""
        table.add_row(
            "" if step.stage == last else step.stage,
            step.name,
            ", ".join(step.reads),
            ", ".join(step.makes),
            f"{step.n_slices:,}",
            kept,
        )
        last = step.stage
    return table


def print_plan(store: Store, request: Request) -> None:
    """Print the steps of an analysis of a store: what each reads and makes, how often it runs, and an upper bound of
    the bytes it keeps."""
    tables = tables_for(request.conventions, request.families, request.choice.properties)
    Screen().print(describe(explain(store, tables, bool(request.choice.periods.facts()))))
