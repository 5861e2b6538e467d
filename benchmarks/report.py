"""Plots as PNG, and one HTML page that holds them and all tables."""

from __future__ import annotations

import base64
import html
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import results as kept
from benchmarks.peers import STEPS
from benchmarks.workloads import SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31", "#7f7f7f", "#b2df8a", "#6a3d9a",
)  # fmt: skip
"""Told apart by people with any colour vision, the first seven (Okabe and Ito)."""

MAIN = ("decode", "convert_threads", "scan", "patterns", "analyze", "export_otf2")

SMALLEST = 100_000
"""Events of a trace whose cost per event is worth drawing."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 78em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; display: block; overflow-x: auto }
th, td { padding: .2em .7em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th { border-bottom: 2px solid #888 } .word { text-align: left } img { max-width: 100% } h2 { margin-top: 2em }
"""


def _figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for a in axes:
        a.spines[["top", "right"]].set_visible(False)
        a.grid(alpha=0.3)
        a.set_axisbelow(True)
    return figure, list(axes)


def _plain(axis: Any) -> None:
    """Write plain numbers on a logarithmic axis, between powers of ten only where there is room."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
    axis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    axis.set_tick_params(which="both", labelsize=9)


def _large_enough(results: kept.Results) -> dict[str, dict[str, Any]]:
    return {
        n: w
        for n, w in results["workloads"].items()
        if not w["series"] and "facts" in w and w["facts"]["n_events"] >= SMALLEST
    }


def plot_steps(results: kept.Results) -> Figure | None:
    """Draw ns/event of every step on every workload that is no part of a series, nor so small that it tells nothing."""
    found = _large_enough(results)
    steps = kept.measured_steps(found.values(), ("read", "analysis", "tables", "export"))
    if not steps:
        return None
    figure, (axes,) = _figure(10, 1.6 + 0.36 * len(steps))
    for i, (name, w) in enumerate(found.items()):
        at = [(w["steps"][s]["ns_per_event"], y) for y, s in enumerate(steps) if kept.is_measured(w["steps"].get(s))]
        if at:
            shift = 0.5 * (i / max(len(found) - 1, 1) - 0.5)
            axes.plot(
                [x for x, _ in at], [y + shift for _, y in at], "o", ms=5, label=name, color=COLOURS[i % len(COLOURS)]
            )
    axes.set_xscale("log")
    axes.set_yticks(range(len(steps)), [STEPS[s].title for s in steps])
    _plain(axes.xaxis)
    axes.set_ylim(len(steps) - 0.5, -0.5)
    axes.set_xlabel("ns per event of the trace")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=9)
    return figure


def plot_growth(results: kept.Results, series: str) -> Figure | None:
    """Draw ns/event and memory along a series."""
    found = [w for w in results["workloads"].values() if w["series"] == series and "facts" in w]
    steps = [s for s in MAIN if s in kept.measured_steps(found)]
    if len(found) < 2 or not steps:
        return None
    figure, (time, memory) = _figure(11, 4.2, 2)
    for i, step in enumerate(steps):
        at = sorted(
            (kept.place_in(series, w["facts"]), w["steps"][step])
            for w in found
            if kept.is_measured(w["steps"].get(step))
        )
        x, entries = [p for p, _ in at], [e for _, e in at]
        middle = [e["ns_per_event"] for e in entries]
        scale = [e["ns_per_event"] / e["seconds"]["median"] for e in entries]
        spread = [
            [m - e["seconds"]["min"] * s for m, e, s in zip(middle, entries, scale, strict=True)],
            [e["seconds"]["max"] * s - m for m, e, s in zip(middle, entries, scale, strict=True)],
        ]
        colour = COLOURS[i % len(COLOURS)]
        time.errorbar(x, middle, spread, fmt="o-", ms=5, capsize=3, color=colour, label=STEPS[step].title)
        memory.plot(x, [e["peak_bytes"] / 2**20 for e in entries], "o-", ms=5, color=colour)
    for axes, title in ((time, "ns per event"), (memory, "most memory held, MiB")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain(axes.xaxis)
        _plain(axes.yaxis)
        axes.set_xlabel(SERIES[series])
        axes.set_title(title, loc="left", fontsize=11)
    figure.legend(*time.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def plot_families(results: kept.Results) -> Figure | None:
    """Draw what the families of patterns take, one bar per workload."""
    found = {
        n: w["steps"]["patterns"]["parts"]
        for n, w in _large_enough(results).items()
        if kept.is_measured(w["steps"].get("patterns"))
    }
    if not found:
        return None
    figure, (axes,) = _figure(10, 1.6 + 0.36 * len(found))
    left = [0.0] * len(found)
    for i, family in enumerate(dict.fromkeys(f for parts in found.values() for f in parts)):
        width = [parts[family]["ns_per_event"] if family in parts else 0.0 for parts in found.values()]
        axes.barh(range(len(found)), width, left=left, height=0.7, label=family, color=COLOURS[i % len(COLOURS)])
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("ns per event of the trace")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=9)
    return figure


def plot_peers(results: kept.Results) -> Figure | None:
    """Draw how much faster tracecols does what others do."""
    sheet = kept.peers(results)
    rows = [row for row in sheet.rows if not results["workloads"][row[0]]["series"]] if sheet is not None else []
    if not rows:
        return None
    figure, (axes,) = _figure(10, 1.4 + 0.3 * len(rows))
    whos = list(dict.fromkeys(row[1] for row in rows))
    values = [float(row[4].replace(",", "")) for row in rows]
    axes.barh(range(len(rows)), values, height=0.7, color=[COLOURS[whos.index(row[1]) % len(COLOURS)] for row in rows])
    axes.bar_label(axes.containers[0], [row[4] for row in rows], padding=3, fontsize=8)
    axes.axvline(1, color="#222", lw=1)
    axes.set_xscale("log")
    _plain(axes.xaxis)
    axes.margins(x=0.1)
    axes.set_yticks(range(len(rows)), [f"{row[1]}, {row[0]}" for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("tracecols is as many times as fast")
    return figure


PLOTS: dict[str, tuple[str, Callable[[kept.Results], Figure | None]]] = {
    "steps": ("Cost of every step", plot_steps),
    "families": ("Patterns by family", plot_families),
    **{
        f"growth-{series}": (f"Growth with {series}", lambda results, series=series: plot_growth(results, series))
        for series in SERIES
    },
    "peers": ("Others, the same archive and work", plot_peers),
}


def _html_table(sheet: kept.Sheet) -> str:
    def row(cells: list[str], tag: str) -> str:
        words = [' class="word"' if i < sheet.n_words else "" for i in range(len(cells))]
        return "".join(f"<{tag}{w}>{html.escape(c)}</{tag}>" for w, c in zip(words, cells, strict=True))

    body = "".join(f"<tr>{row(r, 'td')}</tr>\n" for r in sheet.rows)
    note = f"<p>{html.escape(sheet.note)}</p>" if sheet.note else ""
    return f"<h3>{html.escape(sheet.title)}</h3>\n<table><tr>{row(sheet.headings, 'th')}</tr>\n{body}</table>{note}\n"


def write_report(results: kept.Results, folder: Path) -> list[Path]:
    """Write the plots as PNG, and `report.html`, which needs no other file; returns what was written.

    Without matplotlib (extra `benchmark`) there are tables only, and a word about it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written, pictures = [], []
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("no plots: they need matplotlib\n  install it with: pip install 'tracecols[benchmark]'", file=sys.stderr)
    else:
        for name, (title, draw) in PLOTS.items():
            figure = draw(results)
            if figure is None:
                continue
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=130)
            written.append(folder / f"{name}.png")
            written[-1].write_bytes(buffer.getvalue())
            code = base64.b64encode(buffer.getvalue()).decode()
            title = html.escape(title)
            pictures.append(f'<h2>{title}</h2>\n<img alt="{title}" src="data:image/png;base64,{code}">\n')
    tables = "".join(map(_html_table, kept.sheets(results)))
    details = [kept.of_workload(n, w) for n, w in results["workloads"].items() if "facts" in w]
    failed = kept.exceptions(results)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>tracecols: benchmarks</title><style>{STYLE}</style>\n'
        f"<h1>tracecols: benchmarks</h1><p>{html.escape(results['started'])}. {html.escape(kept.circumstances(results))}</p>\n"
        f"{''.join(pictures)}<h2>Tables</h2>\n{tables}<h2>All figures</h2>\n{''.join(map(_html_table, details))}"
        f"{_html_table(failed) if failed.rows else ''}</html>\n"
    )
    written.append(folder / "report.html")
    written[-1].write_text(page, encoding="utf-8")
    return written
