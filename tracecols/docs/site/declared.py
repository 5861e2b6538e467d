"""Lists of the site that are made from declarations: tables, steps, properties, rules and constraints. Needs no Sphinx,
so that a cheap test can check them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tracecols.enhance.dataflow.steps import STAGES, summary_of
from tracecols.model.tables import STEPS, TABLES
from tracecols.patterns.base import Family, Property
from tracecols.patterns.constraints import CONSTRAINTS
from tracecols.patterns.registry import CONVENTIONS
from tracecols.report.properties import declared, facts, guidance
from tracecols.rules import RULES
from tracecols.schema import DEFINITIONS, EVENTS, KINDS, SIDE_TABLES, Column, Table, compound, metric_table
from tracecols.schema.answers import ANSWERS
from tracecols.schema.causes import WAITS
from tracecols.schema.facts import FACTS, Fact
from tracecols.schema.severity import SEVERITY_TABLES

SPOKEN = {"scalasca": "Scalasca", "expert": "EXPERT", "exact": "Exact"}


def _table(table: Table) -> str:
    lines = [f"### {table.name}\n", f"A row is {table.row}.", f"Source: {table.source}.\n" if table.source else ""]
    lines += ["| column | dtype | unit | points to | what |", "|---|---|---|---|---|"]
    lines += [
        f"| `{c.name}` | {c.dtype} | {c.unit} | {c.target} | {c.doc}{_numbers(c)}{_since(c)} |" for c in table.columns
    ]
    return "\n".join(lines) + "\n"


def _numbers(column: Column) -> str:
    """List the numbers of a short enumeration."""
    if not 0 < len(column.enum) < 8:
        return ""
    return ": " + ", ".join(f"{number} {name}" for number, name in enumerate(column.enum))


def _since(column: Column) -> str:
    if column.since == (0, 0):
        return ""
    return f" (since format {'.'.join(map(str, column.since))}; {column.absent!r} in older files)"


def _facts(fact: Fact, above: str = "") -> list[str]:
    """Return the table rows that describe the entries of an object."""
    lines = []
    for entry in (*fact.entries, *((fact.each,) if fact.each is not None and fact.kind == "object" else ())):
        name = f"{above}{entry.name}"
        always = ", always there" if entry.required else ""
        lines.append(f"| `{name}` | {entry.words}{always} | {entry.doc} |")
        lines += _facts(entry, f"{name}.") if entry.kind == "object" else []
    return lines


def schema() -> str:
    """Describe event kinds and all tables of a store, of the enhanced model and of a cube."""
    kinds = "\n".join(f"| {int(k)} | `{k.name}` | {k.family} | {k.doc} |" for k in KINDS)

    def section(title: str, tables: Iterable[Table]) -> str:
        return f"## {title}\n\n" + "\n".join(_table(t) for t in tables)

    return (
        f"## Event kinds\n\n| number | name | side table | what happens |\n|---|---|---|---|\n{kinds}\n\n"
        + section("Events", [EVENTS])
        + section("Side tables", [*SIDE_TABLES.values(), metric_table(0, ["int64", "float64"])])
        + section("Definitions", DEFINITIONS.values())
        + section("Enhanced events and call paths", [compound.EVENTS_WITH_POINTERS, compound.CALL_PATHS])
        + section("Compound tables", (spec.schema for spec in TABLES.values()))
        + section("Waits", [WAITS])
        + section("Answers", ANSWERS.values())
        + section("Severity cube", SEVERITY_TABLES.values())
        + "### facts\n\nWhat a cube says of itself: JSON in the manifest, and in an attribute of .cubex and .cube.\n\n"
        + "| entry | is | what |\n|---|---|---|\n"
        + "\n".join(_facts(FACTS))
        + "\n"
    )


STAGE_DOCS = {
    "": "any stage, on the slice it is asked for",
    "within": "per partition",
    "receive": "per partition",
    "send": "per partition",
    "bucket": "per range of collective operations",
    "global": "once",
    "clocks": "once",
    "causes": "once",
    "path": "once",
    "spent": "per partition",
    "delays": "per partition",
    "sweep": "once",
    "on_path": "per partition",
    "charges": "per partition",
    "run": "once",
}


def steps() -> str:
    """Draw the steps of an analysis, and list the inputs and outputs of each."""
    lines = [
        "```mermaid",
        "flowchart TD",
        "  scan[[scan_locations]] --> merge[[merge_call_paths]] --> facts([facts, scans])",
    ]
    for stage in ("", *STAGES):
        lines.append(f"  subgraph {stage or 'any'}")
        lines += [f"    {step.name}" for step in STEPS if step.stage == stage]
        lines.append("  end")
    maker = {name: step.name for step in STEPS for name in step.makes}
    for step in STEPS:
        for what in step.reads:
            if what.name in maker:
                lines.append(f"  {maker[what.name]} {'==>' if what.scope else '-->'}|{what.name}| {step.name}")
    lines += ["  facts --> any", "```\n", "Thick arrows: the values of all partitions.\n"]
    lines += ["| stage | step | what it does | reads | makes |", "|---|---|---|---|---|"]
    for step in STEPS:
        reads = ", ".join(f"{scope.removesuffix('_')} `{name}`".strip() for name, scope in step.reads)
        makes = ", ".join(f"`{name}`" + (" (kept)" if name in step.keeps else "") for name in step.makes)
        lines.append(
            f"| {step.stage or 'any'}: {STAGE_DOCS[step.stage]} | `{step.name}` | {step.doc} | {reads} | {makes} |"
        )
    return "\n".join(lines) + "\n"


def as_in_scalasca(conventions: str, patterns: Iterable[Family] = ()) -> set[str]:
    """Return the properties of the conventions `exact` that are the same as those of Scalasca; for others, none."""
    if conventions != "exact":
        return set()
    others = {p.id: replace(p, conventions=conventions) for p in declared("scalasca", patterns)}
    return {
        p.id
        for p in declared(conventions, patterns)
        if replace(others.get(p.id, p), needs=p.needs) == p and p.id in others
    }


def property_lists(patterns: Iterable[Family] = ()) -> str:
    """List all properties as trees: built in, of installed packages, and given ones."""
    parts = []
    for conventions in CONVENTIONS:
        parts.append(f"## {SPOKEN[conventions]} conventions\n")
        known = as_in_scalasca(conventions, patterns)
        if known:
            parts.append("Those of Scalasca, and:\n")
        depth: dict[str, int] = {}
        for p in declared(conventions, patterns):
            if p.id in known:
                continue
            depth[p.id] = depth.get(p.parent, -1) + 1
            text = (
                f"{'  ' * depth[p.id]}- [{p.title}](properties/{p.id}.md) `{p.id}` ({p.unit}; {p.found}): {p.summary}"
            )
            if p.confidence < 1:
                text += f" Confidence {p.confidence:g}."
            if p.overlaps:
                text += " Overlaps its siblings."
            if "grid" in p.needs:
                text += f" Where there is a {p.needs} (decisions/wavefront.md)."
            parts.append(text)
    return "\n".join(parts) + "\n"


def rules() -> str:
    """Describe all rules."""
    lines = []
    for r in RULES.values():
        lines.append(f"## {r.title} `{r.id}`\n\n{r.summary}\n")
        lines.append(f"*{summary_of(r.evaluate)}*\n")
        lines += [f"* `{name}`, {p.show(p.default) or 'none'} by default: {p.doc}." for name, p in r.parameters.items()]
        if r.needs == "trace":
            lines.append("* Needs the store.")
        if r.confidence < 1:
            lines.append(f"* Confidence {r.confidence}.")
        lines.append("")
    return "\n".join(lines)


def constraints() -> str:
    """Describe the constraints that a valid trace satisfies."""
    lines = ["| holds | else counted as | source | |", "|---|---|---|---|"]
    for c in CONSTRAINTS:
        doc = " ".join((c.find.__doc__ or "").split())
        lines.append(f"| {c.holds} | {c.name} | {c.source} | {doc} |")
    return "\n".join(lines) + "\n"


def described(p: Property, others: list[Property]) -> str:
    """Describe a property under some conventions."""
    text = f"{p.summary}\n"
    advice = guidance(p, others)
    if advice:
        text += f"\n*{advice}*\n"
    text += "\n| | |\n|---|---|\n"
    around = [("Parent", [p.parent] if p.parent else []), ("Children", [q.id for q in others if q.parent == p.id])]
    for label, ids in around:
        if ids:
            text += f"| {label} | {', '.join(f'[{i}]({i}.md)' for i in ids)} |\n"
    return text + "".join(f"| {label} | {value} |\n" for label, value in facts(p))


def property_pages(patterns: Iterable[Family] = ()) -> dict[str, str]:
    """Return a page for every property, by id; conventions with the same description share a section."""
    titles: dict[str, str] = {}
    found: dict[str, dict[str, list[str]]] = {}
    for conventions in CONVENTIONS:
        of_conventions = declared(conventions, patterns)
        known = as_in_scalasca(conventions, patterns)
        for p in of_conventions:
            if p.id in known:
                continue
            titles.setdefault(p.id, p.title)
            found.setdefault(p.id, {}).setdefault(described(p, of_conventions), []).append(conventions)
    return {
        name: f"# {titles[name]}\n\n`{name}`\n"
        + "".join(f"\n## {' and '.join(SPOKEN[c] for c in of)} conventions\n\n{text}" for text, of in texts.items())
        for name, texts in found.items()
    }


LISTS: dict[str, Callable[[], str]] = {
    "schema": schema,
    "steps": steps,
    "properties": property_lists,
    "rules": rules,
    "constraints": constraints,
}
"""Functions that make the lists added to pages when the site is built, by page."""
