"""Descriptions of stores and cubes, for the terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table

from tracecols.enhance.definitions.topologies import Topology
from tracecols.given.printable import escaped
from tracecols.given.quantities import counted
from tracecols.model.table_files import find_tables
from tracecols.report.text import value_in_words
from tracecols.schema import DEFINITIONS, NAMES, not_analysed
from tracecols.schema.notes import fate, note, singular
from tracecols.severity import focus
from tracecols.severity.cube import SeverityCube
from tracecols.severity.narrowed import how_in_words
from tracecols.store import Store

SHOWN = 8
"""Maximum number of event kinds, of counters and of losses shown in a notebook."""


def _pairs(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _listing(title: str, columns: list[str], rows: list[list[Any]], right: int = 0) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, header_style="dim", padding=(0, 2, 0, 0)
    )
    for i, c in enumerate(columns):
        table.add_column(c, justify="right" if i < right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v) for v in row))
    return table


def plain(store: Store, found: Topology | None = None) -> dict[str, Any]:
    """Return the contents of `describe` as plain values, for JSON."""
    m, d = store.manifest, store.definitions
    clock, source = m["clock"], m["source"]
    locations, processes = d["locations"].to_pydict(), d["processes"].to_pydict()
    by_process = locations_by_process(locations, len(processes["id"]))
    listed = {
        "communicators": ("id", "name", "kind", "paradigm", "members"),
        "topologies": ("id", "name", "sizes", "dimensions", "periodic"),
        "metric_members": ("id", "name", "unit", "mode", "type"),
    }
    return {
        "format": "tracecols trace",
        "source": source,
        "clock": clock,
        "span": (m["last_time"] - m["first_time"]) / clock["resolution"],
        "n_events": m["n_events"],
        "n_locations": m["n_locations"],
        "events_by_kind": {NAMES.get(int(kind), str(kind)): n for kind, n in m["events_by_kind"].items()},
        "processes": [
            {"rank": rank, "name": name, "n_locations": n, "n_events": events}
            for rank, name, (n, events) in zip(processes["rank"], processes["name"], by_process, strict=True)
        ],
        "n_regions": len(d["regions"]),
        **{name: d[name].select(columns).to_pylist() for name, columns in listed.items()},
        "topology_found": None if found is None or found.found is None else found.to_dict() | found.found._asdict(),
        "enhanced": list(find_tables(store)),
        "not_understood": dict(m["not_understood"]),
        "not_analysed": dict(not_analysed(m)),
        "lost": list(m["lost"]),
    }


NEXT = (
    ("trace.analyze()", "the severity cube: every wait state, call path and location"),
    ("trace.analyze().diagnosis()", "what is wrong with the run"),
    ("trace.waits_by_cause()", "who waits for whom; a picture with .plot(), as of all that follow"),
    ("trace.time_profile(200)", "what the time is spent on, over time"),
    ("trace.load_imbalance()", "functions that are unequally distributed"),
    ("trace.comm_matrix()", "who sends how much to whom"),
    ("trace.messages", "a table as a data frame; dir(trace) has the others"),
    ("trace.what_if({'solve': 0.5})", "the run with faster code"),
)
"""Suggested calls for a trace in a notebook, with what they return."""


def html_of(store: Store) -> str:
    """Return a summary of a store and suggested calls as HTML without anything executable; names are escaped."""
    said = plain(store)
    kinds = sorted(said["events_by_kind"].items(), key=lambda kind: -kind[1])
    losses = [f"{n:,} {what}" if isinstance(n, int) else f"{n} {what}" for n, what in _trouble(store.manifest)]
    rows = {
        "source": f"{'/'.join(PurePath(said['source']['path']).parts[-2:])}, {said['source']['format']}",
        "span": value_in_words(said["span"], "sec"),
        "events": f"{said['n_events']:,}: {', '.join(f'{n:,} {kind}' for kind, n in kinds[:SHOWN])}",
        "locations": f"{said['n_locations']:,} of {counted(len(said['processes']), 'process', 'processes')}",
        "communicators": f"{len(said['communicators']):,}",
        "counters": ", ".join(f"{c['name']} ({c['unit']})" for c in said["metric_members"][:SHOWN]),
        "not understood": "; ".join(losses[:SHOWN]),
    }
    holds = "".join(f"<tr><th>{k}</th><td>{escaped(v)}</td></tr>" for k, v in rows.items() if v)
    calls = "".join(f"<tr><td><code>{escaped(call)}</code></td><td>{what}</td></tr>" for call, what in NEXT)
    return (
        f"<div><p><b>{escaped(store.path.name)}</b></p><table>{holds}</table>"
        f"<p>What to call next</p><table>{calls}</table></div>"
    )


def found_in_words(topology: Topology) -> str:
    """Describe the topology that was found from who sends to whom, and the confidence in it."""
    found = topology.found
    assert found is not None  # callers ask for one that was found
    shape = (
        ""
        if not found.is_grid
        else " of "
        + " x ".join(
            f"{size} (periodic)" if wraps else f"{size}"
            for size, wraps in zip(topology.sizes, topology.periodic, strict=True)
        )
    )
    return (
        f"Topology found from who sends to whom: a {found.kind}{shape}, "
        f"{counted(topology.location.size, 'process', 'processes')}; "
        f"confidence {found.confidence:.1%}, {found.explained:.1%} of the messages are between neighbours"
    )


COUNTER = ("name", "unit", "mode", "type")
"""Columns shown of a counter."""

N_ALWAYS = 3
"""Number of leading sections shown even if they are empty: processes, events, regions."""


def describe(store: Store, found: Topology | None = None) -> RenderableType:
    """Describe a store: source, span, locations, events by kind, regions, communicators, topologies, counters, losses;
    and the topology `found` from who sends to whom."""
    m, d = store.manifest, store.definitions
    events = sorted(m["events_by_kind"].items(), key=lambda kv: -kv[1])
    trouble = _trouble(m)
    left_out = [[n, what] for what, n in m["source"].get("left out", {}).items()]
    paradigms = Counter(d["regions"].column("paradigm").to_pylist())
    sections: list[tuple[str, list[str], list[list[Any]], int]] = [
        _processes(d),
        ("Events by kind", ["number", "kind"], [[n, NAMES.get(int(k), str(k))] for k, n in events], 1),
        ("Regions defined", ["number", "paradigm"], [[n, paradigm] for paradigm, n in paradigms.most_common()], 1),
        ("Communicators and teams", ["members", "kind", "paradigm", "name"], shorten(_communicators(d)), 1),
        ("Topologies", ["name", "dimensions"], shorten(_topologies(d)), 0),
        ("Counters", [*COUNTER], shorten(_rows_of(d["metric_members"], *COUNTER)), 0),
        ("Left out by the conversion", ["number", "what"], left_out, 1),
        ("Notes of the conversion", ["note"], [[text] for text in m["source"].get("notes", ())], 0),
        ("Not understood, not analysed or lost", ["number", "what"], trouble, 1),
    ]
    parts: list[RenderableType] = [_pairs(_facts_of(store))]
    for k, (title, heads, rows, right) in enumerate(sections):
        if found is not None and title == "Counters":
            parts += ["", found_in_words(found)]
        if rows or k < N_ALWAYS:
            parts += ["", _listing(title, heads, rows, right)]
    rest = "Everything else" if left_out else "Everything"
    return Group(*parts, *([] if trouble else ["", f"{rest} was understood."]))


def _facts_of(store: Store) -> list[tuple[str, str]]:
    """Return label and text of the facts about a store as a whole."""
    m, d = store.manifest, store.definitions
    clock, source, processes = m["clock"], m["source"], d["processes"].column("type").to_pylist()
    span = (m["last_time"] - m["first_time"]) / clock["resolution"]
    where = counted(len(processes) - processes.count("accelerator"), "process", "processes")
    size = sum(f.stat().st_size for t in ("definitions", *store.tables) for f in (store.path / t).glob("*.parquet"))
    each = f", {size / m['n_events']:,.1f} per event" if m["n_events"] else ""
    rows = [
        ("source", source["path"]),
        ("format", source["format"] + (f", written by {source['creator']}" if source.get("creator") else "")),
        ("span", f"{value_in_words(span, 'sec')}, clock of {clock['resolution']:,} ticks per second"),
    ]
    if clock["realtime"] > 0:
        rows.append(("recorded", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(clock["realtime"] / 1e9))))
    rows += [
        ("events", f"{m['n_events']:,} in {counted(m['n_locations'], 'location')} of {where}"),
        ("store", f"{size:,} bytes{each}; format {store.version}"),
    ]
    lacking = [
        f"{name}.{c.name}" for name, t in (*DEFINITIONS.items(), *store.tables.items()) for c in store.lacking(t)
    ]
    if lacking:
        rows.append(("older", f"the store lacks {', '.join(lacking)}: null or the declared default is read"))
    if store.note:
        rows.append(("newer", store.note))
    made = find_tables(store)
    if made:
        size = sum(table.n_bytes for table in made.values())
        rows.append(("enhanced", f"{', '.join(made)}; {size:,} bytes, which can be removed at any time"))
    missing = source.get("definitions missing among others", 0)
    if missing:
        rows.append(("definitions", f"{missing:,} are missing among others; if events lack, too, copy the trace again"))
    return rows


def _rows_of(table: pa.Table, *columns: str) -> list[list[Any]]:
    """Return some columns of a definition table as rows."""
    return [list(row.values()) for row in table.select(columns).to_pylist()]


def _processes(d: Mapping[str, pa.Table]) -> tuple[str, list[str], list[list[Any]], int]:
    locations, processes = d["locations"].to_pydict(), d["processes"].to_pydict()
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(locations["type"]).items())
    of = locations_by_process(locations, len(processes["id"]))
    rows = [
        [rank if rank >= 0 else "-", threads, n, name]
        for rank, (threads, n), name in zip(processes["rank"], of, processes["name"], strict=True)
    ]
    return f"Processes ({kinds})", ["rank", "locations", "events", "name"], shorten(rows), 3


def _communicators(d: Mapping[str, pa.Table]) -> list[list[Any]]:
    """List communicators and teams: members, kind, paradigm, name."""
    of = _rows_of(d["communicators"], "members", "kind", "paradigm", "name")
    # of MPI_COMM_SELF each process has one, whose member is not listed
    return [
        [1 if kind == "self" else len(members), kind, p, name or f"number {i}"]
        for i, (members, kind, p, name) in enumerate(of)
    ]


def _topologies(d: Mapping[str, pa.Table]) -> list[list[Any]]:
    of = _rows_of(d["topologies"], "name", "sizes", "dimensions", "periodic")
    return [[name, _dimensions(*grid)] for name, *grid in of]


def _dimensions(sizes: Sequence[int], names: Sequence[str], periodic: Sequence[bool]) -> str:
    return " x ".join(f"{s} {n}{' (periodic)' if p else ''}" for s, n, p in zip(sizes, names, periodic, strict=True))


def _trouble(m: Mapping[str, Any]) -> list[list[Any]]:
    """List records that were not understood or are not analysed, and events that were lost."""
    rows = [[n, f"records of {what}, {fate(what)}"] for what, n in m["not_understood"].items()]
    rows += [[n, f"records of {what}, kept but not analysed"] for what, n in not_analysed(m).items()]
    return rows + [
        [n if (n := loss["n_events"]) >= 0 else "some", f"events of location {loss['location']} lost: {loss['reason']}"]
        for loss in m["lost"]
    ]


def plain_cube(cube: SeverityCube) -> dict[str, Any]:
    """Return the contents of `describe_cube` as plain values, for JSON."""
    return {
        "format": "tracecols cube",
        "facts": cube.facts,
        "made": how_in_words(cube.facts),
        "n_properties": len(cube.properties.id),
        "n_call_paths": len(cube.call_paths),
        "n_locations": cube.system.n_locations,
        "n_cells": sum(len(cells) for cells in cube.cells.values()),
        "resolution": cube.resolution,
        "focus": focus.in_words(cube.focused().facts),
        "topologies": [t.to_dict() for t in cube.topologies],
    }


def describe_cube(cube: SeverityCube) -> RenderableType:
    """Describe a severity cube: its trace, how it was made, its size, and the notes of the analysis."""
    trace = cube.facts.get("trace") or {}
    source = (trace.get("source") or cube.facts.get("source") or {}).get("path", "")
    n_cells = [len(cells) for cells in cube.cells.values()]
    rows = [("source", str(source))] if source else []
    if trace:
        rows.append(("events", f"{trace['n_events']:,}"))
    rows += [
        ("made", how_in_words(cube.facts)),
        (
            "size",
            f"{sum(n > 0 for n in n_cells):,} of {counted(len(cube.properties.id), 'property', 'properties')} x "
            f"{counted(len(cube.call_paths), 'call path')} x "
            f"{counted(cube.system.n_locations, 'location')}, {note(sum(n_cells), 'cells that are not zero')}",
        ),
        ("times", f"{cube.resolution:,} ticks per second"),
    ]
    if words := focus.in_words(cube.focused().facts):
        rows.append(
            ("focus", f"{words.removeprefix('focus: ')}; start-up and shutdown are set apart where causes are ranked")
        )
    efficiencies = cube.facts.get("device_efficiencies") or {}
    listed = [[f"{value:.1%}", name.replace("_", " ")] for name, value in efficiencies.items() if name != "devices"]
    notes = [[n, singular(what) if n == 1 else what] for what, n in (cube.facts.get("counts") or {}).items()]
    parts: list[RenderableType] = [_pairs(rows), ""]
    topologies = [[t.name, _dimensions(t.sizes, t.dimensions, t.periodic)] for t in cube.topologies]
    parts.append(_listing("Topologies", ["name", "dimensions"], shorten(topologies)))
    if listed:
        n = len(efficiencies["devices"])
        parts += ["", _listing(f"Efficiencies of {counted(n, 'device')}", ["", "efficiency"], listed, 1)]
    if notes:
        parts += ["", _listing("Notes of the analysis", ["number", "what"], notes, 1)]
    return Group(*parts)


def locations_by_process(locations: dict[str, list[Any]], n: int) -> list[tuple[int, int]]:
    """Count locations and events of every process."""
    threads, events = [0] * n, [0] * n
    for process, count in zip(locations["process"], locations["n_events"], strict=True):
        threads[process] += 1
        events[process] += count
    return list(zip(threads, events, strict=True))


def shorten(rows: list[list[Any]], most: int = 16) -> list[list[Any]]:
    """Replace the middle of a long listing by a row with the number of rows left out."""
    if len(rows) <= most:
        return rows
    return [
        *rows[: most - 2],
        ["..."] + [f"({len(rows) - most + 1} more)" if i == len(rows[0]) - 2 else "" for i in range(len(rows[0]) - 1)],
        rows[-1],
    ]
