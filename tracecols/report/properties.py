"""The tree of properties, and the full description of each: in the terminal, and as pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from rich.text import Text
from rich.tree import Tree

from tracecols.drawings.examples import shown_under
from tracecols.drawings.text import draw
from tracecols.enhance.dataflow.steps import summary_of
from tracecols.errors import AnalysisError
from tracecols.given.arguments import as_texts
from tracecols.model.tables import TABLES
from tracecols.patterns.base import Family, Property
from tracecols.patterns.plugins import installed
from tracecols.patterns.registry import properties
from tracecols.schema.properties import PARTS
from tracecols.schema.severity import CONVENTIONS
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.resolve import fitting, nearest


def declared(conventions: str, patterns: Iterable[Family]) -> list[Property]:
    """Return the properties of some conventions: built in, of installed packages, and given ones."""
    return properties(conventions, [p for family in (*installed(), *patterns) for p in family.properties])


def property_tree(conventions: str, patterns: Iterable[Family] = ()) -> Tree:
    """Make the tree of all properties of some conventions."""
    tree = Tree(Text(f"{conventions} conventions ({CONVENTIONS[conventions]})", "bold"))
    nodes = {"": tree}
    for p in declared(conventions, patterns):
        line = Text.assemble(p.title, ("  " + p.id, "cyan"), (f"  {p.found}", "dim"))
        if p.confidence < 1:
            line.append(f", confidence {p.confidence:g}", "dim")
        nodes[p.id] = nodes[p.parent].add(line)
    return tree


def facts(p: Property) -> Iterator[tuple[str, str]]:
    """Yield the declarations of a property as label and text."""
    yield "Unit", p.unit
    yield "Found by", str(p.found)
    of = p.pattern
    if of is not None:
        call_path, location = TABLES[of.table].charged or ("", "")
        yield "Charged to", f"{call_path} and {location} of {of.table}, unless the pattern says otherwise"
        if of.function is not None and of.function.__doc__:
            yield "Rule", summary_of(of.function)
        if of.since or of.until:
            yield "Interval", f"from {of.since}" if of.since else f"until {of.until}"
    for name, parameter in p.parameters.items():
        yield f"Parameter {name}", f"{parameter.doc}; {float(parameter.default):g} {parameter.unit}".rstrip()
    for name, c in of.constituents.items() if of else ():
        yield f"Constituent {name}", f"the {c.table} whose {c.column} is {c.pointer}"
    if p.is_wait:
        yield "Counts as", "waiting"
    elif p.part:
        yield "Counts as", PARTS[p.part]
    if p.delay:
        yield "Caused by", f"the call paths that {p.delay} is charged to"
    if p.needs:
        yield "Exists with", p.needs
    yield "Confidence", f"{p.confidence:g}"
    yield "Declared in", p.family


def named(names: Iterable[str], found: dict[str, list[Property]]) -> Iterator[tuple[str, Property]]:
    """Yield conventions and properties that match the given ids or titles; all if none are given. `found` holds all
    properties by conventions. Raises AnalysisError, with the nearest ids, if there is no such property."""
    axes = {c: PropertyAxis.of(all_of) for c, all_of in found.items()}
    if not names:
        yield from ((c, p) for c, all_of in found.items() for p in all_of)
        return
    for name in as_texts(names, "properties", AnalysisError):
        # several properties may share a title: all are shown
        fits = {c: set(fitting(axis, name)) for c, axis in axes.items()}
        if not any(fits.values()):
            near = list(dict.fromkeys(i for axis in axes.values() for i in nearest(axis, name)))
            hint = f"did you mean {', '.join(near)}?" if near else "tracecols patterns lists all"
            raise AnalysisError(f"no property {name!r}\n  {hint}")
        yield from ((c, p) for c, ids in fits.items() for p in found[c] if p.id in ids)


def guidance(p: Property, others: Iterable[Property]) -> str:
    """Return the advice for a property: its own; for a container, a reference to its children; else that of the nearest
    ancestor with advice among `others`, the properties of its conventions."""
    by_id = {q.id: q for q in others}
    if p.advice:
        return p.advice
    below = [q.id for q in by_id.values() if q.parent == p.id]
    if below:
        return f"Container: see the advice for {', '.join(below)}."
    above = by_id.get(p.parent)
    while above is not None and not above.advice:
        above = by_id.get(above.parent)
    return f"As for {above.title}: {above.advice}" if above is not None else ""


def about(names: Iterable[str], conventions: Iterable[str], patterns: Iterable[Family] = ()) -> Iterator[Text]:
    """Yield the full description of some properties under each of some conventions. Raises AnalysisError, with the
    nearest ids, if there is no such property."""
    given = list(patterns)
    found = {c: declared(c, given) for c in conventions}
    same: dict[tuple[str, str, str], list[str]] = {}
    for c, p in named(names, found):
        lines = [f"Parent: {p.parent}"] * bool(p.parent) + [f"{label}: {value}" for label, value in facts(p)]
        advice = guidance(p, found[c])
        body = "".join(f"  {line}\n" for line in (p.summary, *[advice] * bool(advice), *lines))
        same.setdefault((p.title, p.id, body), []).append(c)
    for (title, id, body), of in same.items():
        yield Text.assemble((title, "bold"), ("  " + id, "cyan"), (f"  {', '.join(of)} conventions\n", "dim"), body)
        yield from drawings(id, of)


def drawings(id: str, conventions: Collection[str]) -> Iterator[Text]:
    """Yield the small drawing of a wait state with its caption, if it has one by the rules of these conventions."""
    shown = next((known[id] for c in conventions if id in (known := shown_under(c))), None)
    if shown is not None:
        yield Text("".join(f"  {line}".rstrip() + "\n" for line in (shown.caption, "", *draw(shown.make()))))


def plain(names: Iterable[str], conventions: Iterable[str], patterns: Iterable[Family] = ()) -> list[dict[str, Any]]:
    """Return the declarations of some properties, or of all, as plain values for JSON. Raises AnalysisError, with the
    nearest ids, if there is no such property."""
    given = list(patterns)
    texts = ("id", "title", "parent", "unit", "summary", "advice")
    return [
        {"conventions": c, **{name: getattr(p, name) for name in texts}, "facts": dict(facts(p))}
        for c, p in named(names, {c: declared(c, given) for c in conventions})
    ]
