"""Tables of results of pytest-benchmark, in Markdown: rates and their ratios to yardsticks, growth, and the figures of
other tools for the same work."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import goals
from benchmarks.peers import STEPS
from benchmarks.steps import GROUPS
from benchmarks.workloads import SERIES

MAIN = ("read", "analysis", "tables", "export")
"""Groups of steps whose rates are shown."""


class ResultsError(Exception):
    """A file without results."""


def read(paths: list[Path]) -> pd.DataFrame:
    """Read results, a row for each step and workload; if several files have it, the last one counts.

    Raises
    ------
    ResultsError
        If a file holds none.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            for b in found["benchmarks"]:
                step, facts = STEPS[b["params"]["name"]], b["extra_info"]
                stats = {name: b["stats"][name] for name in ("median", "min", "max", "rounds")}
                about = {"step": step.name, "group": step.group, "title": step.title, "machine": found["machine_info"]}
                rows[facts["workload"], step.name] = {**facts, **stats, **about}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{path} cannot be read as results of 'python -m benchmarks run': {error}") from error
    if not rows:
        raise ResultsError(f"no results of 'python -m benchmarks run' in {', '.join(map(str, paths)) or 'no files'}")
    order = list(STEPS)
    frame = pd.DataFrame(sorted(rows.values(), key=lambda r: (GROUPS.index(r["group"]), order.index(r["step"]))))
    # yardsticks are measured on some of the events
    of = frame["made"].where(frame["group"] == "yardsticks", frame["n_events"]).astype(float)
    frame["ns"], frame["rate"] = frame["median"] / of * 1e9, of / frame["median"] / 1e6
    yardstick = frame[frame["step"] == "pyarrow"].set_index("workload")["ns"]
    frame["times"] = frame["ns"] / frame["workload"].map(yardstick)
    return frame


def short(value: float | None) -> str:
    """Format a number with three digits."""
    if value is None or math.isnan(value):
        return ""
    if abs(value) < 1e-3:
        return f"{value:.1e}" if value else "0"
    value = float(f"{value:.3g}")
    return f"{value:,.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


def mebibytes(value: float) -> str:
    """Format an amount of memory in MiB."""
    return "" if math.isnan(value) else f"{value / 2**20:,.0f}"


def markdown(title: str, headings: list[str], rows: list[list[str]], n_words: int = 1) -> str:
    """Format a table whose first `n_words` columns are words."""
    rule = ["---" if i < n_words else "---:" for i in range(len(headings))]
    return "\n".join([f"**{title}**", "", *("| " + " | ".join(row) + " |" for row in (headings, rule, *rows))])


def _cells(frame: pd.DataFrame, columns: list[Any], by: str, show: Callable[[Any], str]) -> Iterator[list[str]]:
    """Yield, for each step, its title and the text of its cell in each column."""
    for _, of in frame.groupby("step", sort=False):
        rows = {getattr(row, by): row for row in of.itertuples()}
        yield [of["title"].iloc[0], *(show(rows[c]) if c in rows else "" for c in columns)]


def circumstances(found: pd.DataFrame) -> str:
    """Describe the machine and the conditions of the measurements."""
    m = found["machine"].iloc[-1]
    packages = ", ".join(f"{name} {version}" for name, version in m["packages"].items())
    return (
        f"{m['cpu']['count']} cores of {m['cpu']['brand_raw']}, {m['memory_bytes'] / 2**30:.0f} GiB, {m['system']} {m['machine']}; "
        f"python {m['python_version']}, {packages}. Medians of up to {found['rounds'].max()} rounds, each step in a process of its own, "
        f"{found['jobs'].max()} threads where there are several. Load of the machine before: {m['load']:.1f}."
    )


def overview(found: pd.DataFrame) -> str:
    """Tabulate the rates of the main steps on all workloads, with their ratio to pyarrow."""
    names = list(dict.fromkeys(found["workload"]))
    facts = found.groupby("workload").first().loc[names]

    def of(part: Any, show: Callable[[Any], str], title: str = "{}") -> list[list[str]]:
        return [[title.format(what), *cells] for what, *cells in _cells(found[part], names, "workload", show)]

    rows = of(found["group"] == "yardsticks", lambda r: short(r.rate), "yardstick: {}")
    rows += of(found["group"].isin(MAIN), lambda r: f"{short(r.rate)} ({short(r.times)})")
    rows.append(["M events", *map(short, facts["n_events"] / 1e6)])
    rows += [[f"{w}, B/event", *map(short, facts[f"{w}_bytes"] / facts["n_events"])] for w in ("archive", "store")]
    rows += of(found["step"].isin(["convert", "analyze"]), lambda r: mebibytes(r.peak_bytes), "{}: peak memory, MiB")
    return markdown("M events/s (times pyarrow)", ["step", *names], rows)


FIGURES: dict[str, Callable[[Any], str]] = {
    "step": lambda r: r.title,
    "seconds": lambda r: short(r.median),
    "least": lambda r: short(r.min),
    "most": lambda r: short(r.max),
    "ns/event": lambda r: short(r.ns),
    "CPU s": lambda r: short(r.processor_seconds),
    "peak MiB": lambda r: mebibytes(r.peak_bytes),
    "more than before, MiB": lambda r: mebibytes(r.peak_bytes - r.held_bytes),
    "scratch MB": lambda r: short(r.scratch_bytes / 1e6),
    "makes": lambda r: "" if math.isnan(r.made) else f"{r.made:,.0f}",
    "": lambda r: "; ".join(f"{what} {short(value)}" for what, value in r.notes.items()),
}


def all_figures(name: str, found: pd.DataFrame) -> str:
    """Tabulate all figures of the steps on a workload."""
    of, rows = found.iloc[0], [[show(r) for show in FIGURES.values()] for r in found.itertuples()]
    title = f"{name}: {of['about']}; {of['n_events']:,} events, {of['n_locations']:,} locations"
    return markdown(title, list(FIGURES), rows)


def families(found: pd.DataFrame) -> str:
    """Tabulate the time of each family of patterns."""
    notes = {r.workload: (r.notes, r.n_events) for r in found[found["step"] == "patterns"].itertuples()}
    names = dict.fromkeys(family for of, _ in notes.values() for family in of)
    rows = [[f, *(short(of[f] / n * 1e9) if f in of else "" for of, n in notes.values())] for f in names]
    return markdown("Patterns by family, ns/event", ["family", *notes], rows) if notes else ""


def growth(found: pd.DataFrame, series: str) -> str:
    """Tabulate the change of cost per event and of memory along a series."""
    found = found[(found["series"] == series) & found["group"].isin(MAIN)].copy()
    if found.empty:
        # the column of this series may be missing, too
        return ""
    share = [row.get("p2p", 0) / n for row, n in zip(found["n_rows"], found["n_events"], strict=True)]
    found["place"] = share if series == "messages" else found[f"n_{series}"].astype(float)
    places = sorted(set(found["place"]))
    rows = list(_cells(found, places, "place", lambda r: f"{short(r.ns)}, {mebibytes(r.peak_bytes)} MiB"))
    headings = [SERIES[series], *(f"{x:,.0f}" if x >= 1 else short(x) for x in places)]
    return markdown(f"Growth with {series}, ns/event and peak memory", headings, rows)


def others(found: pd.DataFrame) -> str:
    """Tabulate the rates of other tools for the same work."""
    ours = found.set_index(["workload", "step"])["rate"].to_dict()
    rows = [
        [r.workload, r.title, short(r.rate), short(our), short(our / r.rate)]
        for r in found[found["group"] == "peers"].itertuples()
        if (our := ours.get((r.workload, STEPS[r.step].against))) is not None
    ]
    headings = ["workload", "who", "M events/s", "tracecols, M events/s", "times as fast"]
    return markdown("Others, the same archive and work", headings, rows, 2) if rows else ""


GOAL_FIGURES: dict[str, Callable[[Any, Any], float]] = {
    "s": lambda r, _: r["median"],
    "s of processor time": lambda r, _: r["processor_seconds"],
    "GB": lambda r, _: r["peak_bytes"] / 1e9,
    "s beyond": lambda r, base: r["median"] - base["median"],
    "GB beyond": lambda r, base: (r["peak_bytes"] - base["peak_bytes"]) / 1e9,
    "times the time": lambda r, base: r["median"] / base["median"],
    "times the processor time": lambda r, base: r["processor_seconds"] / base["processor_seconds"],
    "GB/s": lambda r, _: r["archive_bytes"] / r["median"] / 1e9,
    "M events/s": lambda r, _: r["rate"],
}
"""Figures that goals are set for, of the results of a step and those of the step to which they are relative."""


def _trace(row: dict[str, Any]) -> str:
    return f"{row['about']}; {short(row['n_events'] / 1e6)} M events"


def against_goals(found: pd.DataFrame) -> str:
    """Tabulate the figures that have goals."""
    rows_of = {(r["workload"], r["step"]): r for r in found.to_dict("records")}
    rows = []
    for goal in goals.GOALS:
        row, base = rows_of.get((goal.workload, goal.step)), rows_of.get((goal.workload, goal.base))
        if row is not None and (base is not None or not goal.base):
            figure = GOAL_FIGURES[goal.figure](row, base)
            to = "" if goal.figure.endswith("beyond") else "of "
            relative = f"{goal.figure} {to}{STEPS[goal.base].title}" if goal.base else goal.figure
            rows.append([STEPS[goal.step].title, _trace(row), relative, short(goal.value), short(figure)])
    return markdown("Goals", ["step", "trace", "figure", "goal", "measured"], rows, 3) if rows else ""


def yardsticks(found: pd.DataFrame) -> str:
    """Tabulate the yardsticks on the workloads of goals."""
    rows_of = {(r["workload"], r["step"]): r for r in found.to_dict("records")}
    names = "copy", "pyarrow"
    rows = [
        [_trace(next(filter(None, of))), *(short(row["rate"]) if row else "" for row in of)]
        for workload in dict.fromkeys(goal.workload for goal in goals.GOALS)
        if any(of := [rows_of.get((workload, name)) for name in names])
    ]
    return markdown("Yardsticks", ["trace", *(f"{name}, M events/s" for name in names)], rows) if rows else ""


def tables(found: pd.DataFrame) -> list[str]:
    """Return all tables: goals and yardsticks, figures on all workloads, growth, other tools, and all figures of each workload."""
    alone = found[found["series"] == ""]
    made = [circumstances(found), against_goals(found), yardsticks(found)]
    made += [overview(alone), families(alone)] if len(alone) else []
    made += [growth(found, series) for series in SERIES]
    made.append(others(found))
    return [*filter(None, made), *(all_figures(name, of) for name, of in found.groupby("workload", sort=False))]
