"""The tools: each answers the question of the command of the same name with a page of the result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from tracecols.enhance.mpi.neighbours import topology_of
from tracecols.errors import TracecolsError
from tracecols.findings.mended import mended_of
from tracecols.frames.bounded import Bounds
from tracecols.frames.catalog import Catalog
from tracecols.report import comparison, diagnosis, info, prediction, values
from tracecols.report.tables import plain_rows
from tracecols.serve.files import Files
from tracecols.serve.pages import SHORTER, Listing, page
from tracecols.severity.comparison import Comparison
from tracecols.severity.diagnosis import finding_with_cells
from tracecols.severity.finding import Finding

ROWS = 1_000
"""Maximum number of rows computed for a page: more than fit."""

SQL_SECONDS, SQL_MEMORY = 60.0, 1 << 30
"""Limits of a query in seconds and bytes."""

SHARE = "share"
"""Unit of shares: 1 is the whole."""

Tables = Mapping[str, list[dict[str, Any]]]


class Tools:
    """The tools, on the traces and cubes of some folders."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, path: str = "", table: str = "", first: int = 1) -> str:
        """Say what a trace or a severity cube holds: span, events, processes, what was not understood. Call it first.

        path: a .trace store, a trace archive (OTF2, EPILOG, Paraver, Kineto, Nsight) or a .severity cube. Without it,
        the ones that may be opened are listed. table: another table of the answer, such as communicators. first: number
        of the first row to show.
        """
        if not path:
            listed = {"files": self._files.listed()}
            return _answer({"may_be_opened": [str(p) for p in self._files.allowed]}, listed, "files", first)
        found = self._files.find(path)
        if self._files.is_cube(found):
            facts, tables = _divided(info.plain_cube(self._files.cube(path)))
            return _answer(facts, tables, table or "topologies", first, {}, "diagnose and show ask a cube")
        store = self._files.trace(path).store
        facts, tables = _divided(info.plain(store, topology_of(store)))
        more = "next: diagnose says what is wrong with the run; show quotes severities; sql asks the tables of events"
        tables = {"processes": [], **tables}
        return _answer({"path": str(found), **facts}, tables, table or "processes", first, {"span": "sec"}, more)

    def diagnose(self, path: str, table: str = "findings", with_startup: bool = False, first: int = 1) -> str:
        """Say what is wrong with the run of a trace or cube: its times, its efficiencies, and what costs most, who
        causes it, who pays, what mending it gains.

        table: findings, or efficiencies.
        with_startup: also look at what lies outside MPI_Init and MPI_Finalize.
        first: number of the first row to show.
        """
        found = self._files.cube(path).diagnosis(ROWS, with_startup=with_startup)
        facts, tables = _divided(found.to_dict(path))
        tables = {**tables, "findings": [_as_row(i, f) for i, f in enumerate(found.findings, 1)]}
        facts.pop("findings", None)
        seconds = dict.fromkeys(("runtime", "recorded", "between", "seconds", "apart", "beside", "gain"), "sec")
        units = {**seconds, "share": f"{SHARE} of seconds of all threads", "gain_share": f"{SHARE} of runtime"}
        more = "waits(finding=NUMBER) lists the cells that a finding explains; show(property=ID) where a property is"
        return _answer(facts, tables, table, first, units, more)

    def show(
        self,
        path: str,
        property: str = "",
        call_path: str = "",
        min_share: float = 0.005,
        with_startup: bool = False,
        first: int = 1,
    ) -> str:
        """Quote severities of a trace or cube: all properties; with a property its call paths; with a call path, too,
        its locations.

        property: id or title, such as mpi_latesender or "Late Sender".
        call_path: a whole path, a region, or a pattern such as */MPI_Recv; without a property it is that of time.
        min_share: leave out properties and call paths with less than this share of the whole; 0 shows all.
        with_startup: also count what lies outside MPI_Init and MPI_Finalize.
        first: number of the first row to show.
        """
        cube = self._files.cube(path)
        name, where = property or ("time" if call_path else None), call_path or None
        cube, note = (cube, "") if with_startup else values.in_focus(cube, name, where)
        facts, tables = _divided(values.plain(cube, name, where, _share(min_share)))
        unit = facts.get("unit", "")
        units = dict.fromkeys(("value", "inclusive", "exclusive"), unit) if unit else {}
        only = "properties" if name is None else "locations" if where else "call_paths"
        less = {
            "properties": "property=ID for its call paths",
            "call_paths": "call_path=REGION for its locations; a larger min_share for less",
        }
        facts |= {"note": note} if note else {}
        units |= {"share": f"{SHARE} of its root"} if name is None else {}
        return _answer(facts, {only: [], **tables}, only, first, units, less.get(only, ""))

    def waits(
        self,
        path: str,
        finding: int = 0,
        cause: str = "",
        cause_rank: int | None = None,
        property: str = "",
        first: int = 1,
    ) -> str:
        """List the waits of a cause, the longest first: the cells that a finding explains, or who waits for whom.

        finding: number of a finding of diagnose: its cells by property, call path and location.
        cause: without a finding: only waits for somebody who comes in this call path, region or pattern.
        cause_rank: only waits for this rank.
        property: only this wait state and those below it, by id or title.
        first: number of the first row to show.
        """
        if finding:
            return self._explained(path, finding, first)
        found = self._files.trace(path).waits_by_cause(cause or None, rank=cause_rank, property=property or None)
        columns = ("seconds", "longest_seconds", "longest_begin_seconds")
        facts = {"waits": int(found.n_waits.sum()), "seconds_of_all": float(found.seconds.sum())}
        units = {**dict.fromkeys(columns, "sec"), "seconds_of_all": "sec", "n_waits": "occ"}
        more = "cause, cause_rank and property narrow it"
        return _answer(facts, {"waits": plain_rows(found)}, "waits", first, units, more)

    def _explained(self, path: str, number: int, first: int) -> str:
        """Return a page with the cells that a finding explains."""
        f, cells, cube = finding_with_cells(self._files.cube(path), number)
        facts = {key: value for key, value in _as_row(number, f).items() if value is not None}
        units: dict[str, str] = {"value": "sec"} | {n: "sec" for n in ("seconds", "gain") if n in facts}
        more = f"show(property={f.property}) quotes the whole property"
        if not cells:
            return _answer(facts, {"cells": []}, "cells", first, units, "no cause of this finding is known; " + more)
        total = sum(map(len, cells.values()))
        before = _before(first, "cells", total)
        rows = values.plain_cells(cube, cells, slice(before, before + ROWS))
        return page(facts, Listing("cells", rows, units, before, total), more)

    def sql(self, path: str, query: str, first: int = 1) -> str:
        """Ask the tables of a trace with SQL (DuckDB): one query that only reads, at most 60 s and 1 GiB.

        "show tables" lists the tables (events, messages, collectives, waits, regions, locations, call_paths, ...),
        "describe messages" the columns of one. Times are ticks of the clock; order the rows, since further pages run
        the query again. first: number of the first row to show.
        """
        trace = self._files.trace(path)
        before = _before(first, "result")
        found = trace.catalog.sql(query, Bounds(before, ROWS, SQL_SECONDS, SQL_MEMORY))
        rows = plain_rows(found)
        facts: dict[str, Any] = {"ticks_per_second": int(trace.manifest["clock"]["resolution"])}
        if re.match(r"\s*show\b", query, re.IGNORECASE):
            others = " ".join(n for n in trace.catalog.names if {"name": n} not in rows)
            # texts that are too long are shortened
            facts["made_when_named"] = wrap(others, SHORTER[0][0])
        facts |= {} if rows else {"columns_of_no_rows": [str(c) for c in found.columns]}
        total = before + len(rows) if rows and len(rows) < ROWS else None
        units = _units_of(trace.catalog, query, [str(c) for c in found.columns])
        return page(
            facts, Listing("result", rows, units, before, total), "a narrower where, or fewer columns, for less"
        )

    def compare(
        self, paths: list[str], property: str = "", table: str = "", with_startup: bool = False, first: int = 1
    ) -> str:
        """Compare the severities of two or more runs, traces or cubes; the first is what the others are compared with.

        property: id or title: changes of this one and those below it only.
        table: properties (totals), or changes (of two runs, by property and call path), or scaling (of more).
        with_startup: also compare what lies outside MPI_Init and MPI_Finalize.
        first: number of the first row to show.
        """
        if len(paths) < 2:
            raise TracecolsError("a comparison needs two runs at least\n  give two paths or more")
        names = comparison.run_names([Path(path) for path in paths])
        runs = Comparison([self._files.cube(path) for path in paths], names, with_startup=with_startup)
        axis = runs.united[0].properties
        chosen = [runs.united[0].find_property(property)] if property else axis.roots
        name = "changes" if len(paths) == 2 else "scaling"
        found = runs.changes(*chosen) if name == "changes" else runs.scaling()
        facts, tables = _divided(comparison.as_plain(runs, name, found, []))
        facts |= {"runs": tables["runs"]}
        below = set(runs.below(*chosen))
        kept = {n: [r for r in tables.get(n, ()) if r["property"] in below] for n in (name, "properties")}
        # drop rows that are equal in both runs
        kept[name] = [r for r in kept[name] if r.get("change", 1)]
        kept["properties"] = [r for r in kept["properties"] if any(r[n] for n in runs.names)]
        units = {"runtime": "sec", "ratio": "of the first run", "change": "in the unit of the property"}
        more = "property narrows it; unit says what the numbers of a row are"
        return _answer(facts, kept, table or name, first, units, more)

    def what_if(
        self,
        path: str,
        scale: dict[str, float] | None = None,
        latency: float | None = None,
        bandwidth: float | None = None,
        transfer: float | None = None,
        openmp: float | None = None,
        balanced: bool = False,
        faster: float = 0.5,
        table: str = "",
        first: int = 1,
    ) -> str:
        """Predict the runtime of a trace with changes, by replay. Without changes: what mending each cause would save.

        scale: by region or pattern the factor for computation in it and in what it calls: {"solve": 0.5}.
        latency, bandwidth: another network, in seconds and in bytes per second.
        transfer, openmp: factor for what MPI, and OpenMP, take beyond waiting; 0 is ideal.
        balanced: every process computes as much as the mean of all, and so do its devices.
        faster: of the table savings: the part of its time that one more call path would take.
        table: mended (causes), gains (changes of the whole run) or savings (single call paths).
        first: number of the first row to show.
        """
        predicted = self._files.trace(path).what_if(
            scale, latency=latency, bandwidth=bandwidth, transfer=transfer, openmp=openmp, balanced=balanced
        )
        mended = mended_of(predicted)
        savings = predicted.savings(_share(faster), ROWS)
        facts, tables = _divided(prediction.plain(predicted, savings, faster, mended))
        name = table or ("savings" if not tables.get("mended") else "mended")
        units = dict.fromkeys(
            ("runtime", "recorded_runtime", "saving", "on_an_ideal_network", "computation", "largest"), "sec"
        )
        return _answer(facts, {"savings": [], **tables}, name, first, units | {"share": f"{SHARE} of runtime"})


def _answer(
    facts: Mapping[str, Any],
    tables: Tables,
    name: str,
    first: int,
    units: Mapping[str, str] | None = None,
    more: str = "",
) -> str:
    """Write a page of one of several tables, with the number of rows of each of the others."""
    if name not in tables and tables:
        raise TracecolsError(f"the answer has no table {name!r}\n  there are {', '.join(tables)}")
    rows = tables.get(name, [])
    before = _before(first, name, len(rows))
    others = {n: len(of) for n, of in tables.items() if n != name}
    facts = {**facts, "other_tables": others} if others else facts
    shown = {unit: of for unit, of in (units or {}).items() if unit in facts or (rows and unit in rows[0])}
    more = "; ".join(filter(None, [more, "table=NAME for another table" if others else ""]))
    return page(facts, Listing(name, rows[before:], shown, before, len(rows)), more)


def _divided(plain: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Divide the JSON output of a command into facts and tables (lists of objects)."""
    tables = {k: v for k, v in plain.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    return {k: v for k, v in plain.items() if k not in tables}, tables


def _as_row(number: int, f: Finding) -> dict[str, Any]:
    """Return a finding as a row: its numbers, and its texts in the diagnosis."""
    said = dict(diagnosis.details(f, "", 400))
    words = {word: said.get(word) for word in ("cause", "where", "pays", "meanwhile", "shows", "advice")}
    numbers = {"seconds": f.seconds, "share": f.share, "gain": f.gain, "gain_share": f.gain_share}
    who = {"rank": f.rank, "thread": f.thread, "region": f.cause_region or None}
    return {"number": number, "finding": f.what or f.title, "property": f.property, **numbers, **who, **words}


def _units_of(catalog: Catalog, query: str, columns: list[str]) -> dict[str, str]:
    """Return the units of the columns of a result that have the names of declared columns of the tables in a query."""
    names = {word.lower() for word in re.findall(r"\w+", query)} & set(catalog.names)
    declared = [c for name in sorted(names) for c in catalog.declared(name).columns]
    return {c.name: c.unit for c in declared if c.unit and c.name in columns}


def _before(first: int, name: str, total: int | None = None) -> int:
    """Return the number of rows before the first one to show; `total` is the number of rows of the table, None if
    unknown."""
    if first < 1:
        raise TracecolsError(f"{first} is not the number of a row (first)\n  give a number from 1 on")
    if total is not None and first > max(total, 1):
        raise TracecolsError(f"there is no row {first:,}: the table {name} has {total:,}\n  give first from 1 on")
    return first - 1


def _share(share: float) -> float:
    if not 0 <= share <= 1:
        raise TracecolsError(f"{share} is not a share\n  give a number from 0 to 1, such as 0.005")
    return share
