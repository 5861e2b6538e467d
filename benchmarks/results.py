"""What was measured: as JSON, as tables, and compared with what was measured before."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.peers import STEPS
from benchmarks.steps import GROUPS, YARDSTICKS
from benchmarks.workloads import SERIES

FORMAT, VERSION = "tracecols benchmarks", 1
PACKAGES = ("tracecols", "numpy", "pandas", "pyarrow", "numba", "llvmlite", "duckdb", "otf2", "pipit")

NOISE = 0.05
"""Changes up to this are none, however little the rounds differ; up to twice as much if there are fewer than three rounds."""

NOTHING = ("no such events", "not an OTF2 archive")
"""Reasons to leave a step out because there is nothing to measure."""

Results = dict[str, Any]


class ResultsError(Exception):
    """A file holds no results."""


# -- JSON --------------------------------------------------------------------------------------------------------------


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def load() -> float | None:
    """Return how many processes wanted to run during the last minute, on average."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def machine() -> dict[str, Any]:
    """Return what the figures depend on, without names of machines or paths."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _seconds(rounds: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(rounds), "min": min(rounds), "max": max(rounds), "rounds": rounds}


def summarize(measured: dict[str, Any], n_events: int) -> dict[str, Any]:
    """Turn what `benchmarks.process.measure` returns into figures: medians, per event, and as ratios to the yardsticks.

    Every key of a figure ends in its unit: `seconds`, `ns_per_event`, `bytes`; `times_copy` and `times_pyarrow` are ratios.
    """
    n = max(n_events, 1)
    seconds = _seconds(measured["seconds"])
    entry = {**measured, "seconds": seconds, "ns_per_event": seconds["median"] / n * 1e9}
    entry["yardsticks"] = {
        name: {
            "n_events": y["n_events"],
            "seconds": (of := _seconds(y["seconds"])),
            "ns_per_event": of["median"] / max(y["n_events"], 1) * 1e9,
        }
        for name, y in measured["yardsticks"].items()
    }
    for name, y in entry["yardsticks"].items():
        entry[f"times_{name}"] = entry["ns_per_event"] / y["ns_per_event"]
    if "parts" in measured:
        entry["parts"] = {
            name: {"seconds": (of := _seconds(rounds)), "ns_per_event": of["median"] / n * 1e9}
            for name, rounds in measured["parts"].items()
        }
    if "items" in measured:
        made = measured["items"]
        entry["items"] = {**made, "ns_each": seconds["median"] / made["n"] * 1e9 if made["n"] else None}
    return entry


def write(results: Results, path: Path) -> None:
    """Write results, completely or not at all."""
    building = path.with_name(f".{path.name}.partial")
    building.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    building.replace(path)


def read(path: Path) -> Results:
    """Read results.

    Raises
    ------
    ResultsError
        If the file holds none.
    """
    try:
        results: Results = json.loads(path.read_text(encoding="utf-8"))
        known = (results.get("format"), results.get("version")) == (FORMAT, VERSION)
    except (OSError, ValueError, AttributeError) as error:
        raise ResultsError(f"{path} cannot be read as results of 'python -m benchmarks run': {error}") from error
    if not known:
        raise ResultsError(f"{path} holds no results of 'python -m benchmarks run', or those of another version of it")
    return results


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass
class Sheet:
    """A table of texts, to be shown in a terminal, in Markdown, or in HTML."""

    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    n_words: int = 1
    """Columns in front that are no numbers."""

    def terminal(self) -> Table:
        """Return it for a terminal."""
        table = Table(title=self.title, title_justify="left", caption=self.note or None, caption_justify="left")
        for i, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if i < self.n_words else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return it in Markdown."""
        rule = ["---" if i < self.n_words else "---:" for i in range(len(self.headings))]
        lines = [f"**{self.title}**", ""]
        lines += ["| " + " | ".join(row) + " |" for row in (self.headings, rule, *self.rows)]
        return "\n".join([*lines, "", self.note] if self.note else lines)


def short(value: float | None) -> str:
    """Write a number with three digits."""
    if value is None or math.isnan(value):
        return ""
    if not value:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    value = float(f"{value:.3g}")
    return f"{value:,.{max(2 - math.floor(math.log10(abs(value))), 0)}f}"


def mebibytes(value: int | None) -> str:
    """Write an amount of memory."""
    return "" if value is None else f"{value / 2**20:,.0f}"


def is_measured(entry: dict[str, Any] | None) -> bool:
    """Whether there are figures of a step."""
    return entry is not None and "seconds" in entry


def measured_steps(workloads: Iterable[dict[str, Any]], groups: Iterable[str] = GROUPS) -> list[str]:
    """Return the steps that were measured on any workload, in the order of groups and of declaration."""
    found = {name for w in workloads for name, e in w["steps"].items() if is_measured(e)}
    return [s.name for group in groups for s in STEPS.values() if s.group == group and s.name in found]


def of_workload(name: str, workload: dict[str, Any]) -> Sheet:
    """Return all figures of a workload."""
    facts = workload["facts"]
    n = facts["n_events"]
    sizes = {"decode": facts["archive_bytes"], "convert": facts["store_bytes"]}
    sheet = Sheet(
        f"{name}: {workload['about']}; {n:,} events, {facts['n_locations']:,} locations, {facts['format']}",
        ["step", "seconds", "least", "most", "ns/event", "M events/s", "x copy", "x pyarrow", "B/event", "peak MiB", "makes"],
    )  # fmt: skip
    for step in measured_steps([workload]):
        e = workload["steps"][step]
        s = e["seconds"]
        made = f"{e['items']['n']:,} {e['items']['what']}" if "items" in e else ""
        sheet.rows.append(
            [
                STEPS[step].title, short(s["median"]), short(s["min"]), short(s["max"]), short(e["ns_per_event"]),
                short(1e3 / e["ns_per_event"]), short(e["times_copy"]), short(e["times_pyarrow"]),
                short(sizes[step] / n) if step in sizes else "", mebibytes(e["peak_bytes"]), made,
            ]
        )  # fmt: skip
    return sheet


def exceptions(results: Results) -> Sheet:
    """Return what has failed, and what was left out though there was something to measure."""
    sheet = Sheet("Not measured", ["workload", "step", "why"], n_words=3)
    left_out: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for name, w in results["workloads"].items():
        if "failed" in w:
            sheet.rows.append([name, "all", f"FAILED: {w['failed']}"])
        for step, e in w["steps"].items():
            if "failed" in e:
                sheet.rows.append([name, step, f"FAILED: {e['failed']}"])
            elif "left_out" in e and e["left_out"] not in NOTHING:
                of, steps = left_out.setdefault(e["left_out"], ({}, {}))
                of[name] = steps[step] = None
    sheet.rows += [[", ".join(of), ", ".join(steps), why] for why, (of, steps) in left_out.items()]
    return sheet


def _sound(results: Results, series: str = "") -> dict[str, dict[str, Any]]:
    return {n: w for n, w in results["workloads"].items() if w["series"] == series and "facts" in w and w["steps"]}


def overview(results: Results) -> Sheet | None:
    """Return rates of the main steps on all workloads, with their ratio to pyarrow; None if there are none."""
    found = _sound(results)
    sheet = Sheet("M events/s (times pyarrow)", ["step", *found])
    entries = [[e for e in w["steps"].values() if is_measured(e)] for w in found.values()]
    for yardstick in YARDSTICKS:
        rates = [
            statistics.median(1e3 / e["yardsticks"][yardstick]["ns_per_event"] for e in of) if of else None
            for of in entries
        ]
        what = {"copy": "yardstick: copy of the columns", "pyarrow": "yardstick: pyarrow writes the columns"}[yardstick]
        sheet.rows.append([what, *map(short, rates)])
    for step in measured_steps(found.values(), ("read", "analysis", "tables", "export")):
        cells = []
        for w in found.values():
            e = w["steps"].get(step)
            cells.append(f"{short(1e3 / e['ns_per_event'])} ({short(e['times_pyarrow'])})" if is_measured(e) else "")
        sheet.rows.append([STEPS[step].title, *cells])
    facts = [w["facts"] for w in found.values()]
    sheet.rows.append(["M events", *(short(f["n_events"] / 1e6) for f in facts)])
    sheet.rows.append(["archive, B/event", *(short(f["archive_bytes"] / f["n_events"]) for f in facts)])
    sheet.rows.append(["store, B/event", *(short(f["store_bytes"] / f["n_events"]) for f in facts)])
    for step in ("convert", "analyze"):
        peaks = [w["steps"].get(step) for w in found.values()]
        if any(map(is_measured, peaks)):
            cells = [mebibytes(e["peak_bytes"]) if is_measured(e) else "" for e in peaks]
            sheet.rows.append([f"{STEPS[step].title}: peak memory, MiB", *cells])
    return sheet if found else None


def families(results: Results) -> Sheet | None:
    """Return what each family of patterns takes; None if that was not measured."""
    found = {n: w for n, w in _sound(results).items() if is_measured(w["steps"].get("patterns"))}
    names = dict.fromkeys(p for w in found.values() for p in w["steps"]["patterns"]["parts"])
    sheet = Sheet("Patterns by family, ns/event", ["family", *found])
    for family in names:
        parts = [w["steps"]["patterns"]["parts"].get(family) for w in found.values()]
        sheet.rows.append([family, *(short(p["ns_per_event"]) if p else "" for p in parts)])
    return sheet if found else None


def queries(results: Results) -> Sheet | None:
    """Return what questions to a trace take; None if that was not measured."""
    found = _sound(results)
    steps = measured_steps(found.values(), ("queries",))
    sheet = Sheet("Queries, milliseconds (rows)", ["query", *found])
    for step in steps:
        entries = [w["steps"].get(step) for w in found.values()]
        cells = [
            f"{short(e['seconds']['median'] * 1e3)} ({e['items']['n']:,})" if is_measured(e) else "" for e in entries
        ]
        sheet.rows.append([STEPS[step].title, *cells])
    return sheet if steps else None


def place_in(series: str, facts: dict[str, Any]) -> float:
    """Return where a workload stands in a series (`SERIES`)."""
    if series == "messages":
        return facts["n_rows"].get("p2p", 0) / facts["n_events"]
    return float(facts[f"n_{series}"])


def growth(results: Results, series: str) -> Sheet | None:
    """Return how cost per event and memory change along a series; None if it was not measured."""
    found = sorted(_sound(results, series).values(), key=lambda w: place_in(series, w["facts"]))
    places = [place_in(series, w["facts"]) for w in found]
    sheet = Sheet(
        f"Growth with {series}, ns/event",
        [SERIES[series], *(f"{x:,.0f}" if x >= 1 else short(x) for x in places)],
    )
    for step in measured_steps(found, ("read", "analysis", "tables", "export")):
        entries = [w["steps"].get(step) for w in found]
        sheet.rows.append([STEPS[step].title, *(short(e["ns_per_event"]) if is_measured(e) else "" for e in entries)])
    for step in ("convert_threads", "scan", "patterns", "analyze"):
        entries = [w["steps"].get(step) for w in found]
        if any(map(is_measured, entries)):
            cells = [mebibytes(e["peak_bytes"]) if is_measured(e) else "" for e in entries]
            sheet.rows.append([f"{STEPS[step].title}: peak memory, MiB", *cells])
    return sheet if sheet.rows else None


def peers(results: Results) -> Sheet | None:
    """Return how fast others do the same work; None if none was measured."""
    sheet = Sheet("Others, the same archive and work", ["workload", "who", "M events/s", "tracecols, M events/s", "times as fast"], n_words=2)  # fmt: skip
    for name, w in results["workloads"].items():
        for step, e in w["steps"].items():
            ours = w["steps"].get(STEPS[step].against) if step in STEPS else None
            if is_measured(e) and is_measured(ours):
                theirs, our = e["ns_per_event"], ours["ns_per_event"]
                sheet.rows.append([name, STEPS[step].title, short(1e3 / theirs), short(1e3 / our), short(theirs / our)])
    return sheet if sheet.rows else None


def sheets(results: Results) -> list[Sheet]:
    """Return the tables of a README: what was measured on all workloads, growth, and others."""
    found = [overview(results), families(results), queries(results)]
    found += [growth(results, series) for series in SERIES]
    found.append(peers(results))
    return [s for s in found if s is not None]


def circumstances(results: Results) -> str:
    """Say what the figures were measured on and how."""
    m, v, o = results["machine"], results["versions"], results["options"]
    memory = f", {m['memory_bytes'] / 2**30:.0f} GiB" if m["memory_bytes"] else ""
    packages = ", ".join(f"{name} {version}" for name, version in v.items())
    loads = [w["load"] for w in results["workloads"].values() if w.get("load") is not None]
    return (
        f"{m['cores']} cores of {m['processor']}{memory}, {m['system']}; {packages}. Medians of up to {o['rounds']} rounds, each step "
        f"in a process of its own, {o['jobs']} threads where there are several. "
        + (f"Load of the machine before each workload: {min(loads):.1f} to {max(loads):.1f}." if loads else "")
    )


# -- comparison --------------------------------------------------------------------------------------------------------


def _yardstick(entry: dict[str, Any], which: str) -> float:
    """Return the geometric mean of the yardsticks: nanoseconds per event, at the median, the least or the most."""
    values = [y["seconds"][which] / y["n_events"] * 1e9 for y in entry["yardsticks"].values()]
    return math.exp(statistics.fmean(map(math.log, values)))


def compare(old: Results, new: Results) -> tuple[Sheet, int]:
    """Compare two results step by step.

    The corrected ratio is that of the times in units of the yardsticks of the same process, so that a slower machine
    does not count. A change is marked if it is more than `NOISE` and the ranges of all rounds do not overlap, even with the
    range of the yardsticks added.

    Returns
    -------
    sheet : Sheet
    n_slower : int
        Steps that are slower beyond noise.
    """
    sheet = Sheet(
        "New against old: below 1 is faster",
        ["workload", "step", "old, ns/event", "new, ns/event", "ratio", "corrected", "memory", ""], n_words=2,
    )  # fmt: skip
    n_slower = 0
    left_out = []
    for name, w in new["workloads"].items():
        before = old["workloads"].get(name)
        if before is None or "facts" not in before or "facts" not in w:
            left_out.append(name)
            continue
        if abs(before["facts"]["n_events"] / w["facts"]["n_events"] - 1) > 0.01:
            left_out.append(f"{name} (another size)")
            continue
        for step in measured_steps([w]):
            a, b = before["steps"].get(step), w["steps"][step]
            if not is_measured(a):
                continue
            corrected = (b["ns_per_event"] / _yardstick(b, "median")) / (a["ns_per_event"] / _yardstick(a, "median"))
            least, most = (
                [e["seconds"][x] / e["seconds"]["median"] * e["ns_per_event"] / _yardstick(e, y) for e in (a, b)]
                for x, y in (("min", "max"), ("max", "min"))
            )
            apart = least[1] > most[0] or least[0] > most[1]
            mark = ""
            few = min(len(e["seconds"]["rounds"]) for e in (a, b)) < 3
            if apart and abs(corrected - 1) > NOISE * (1 + few):
                mark = "slower" if corrected > 1 else "faster"
                n_slower += corrected > 1
            sheet.rows.append(
                [
                    name, STEPS[step].title, short(a["ns_per_event"]), short(b["ns_per_event"]),
                    f"{b['ns_per_event'] / a['ns_per_event']:.2f}", f"{corrected:.2f}",
                    f"{b['peak_bytes'] / a['peak_bytes']:.2f}", mark,
                ]
            )  # fmt: skip
    left_out += [name for name in old["workloads"] if name not in new["workloads"]]
    if left_out:
        sheet.note = f"in one of them only, or not comparable: {', '.join(left_out)}"
    return sheet, n_slower
