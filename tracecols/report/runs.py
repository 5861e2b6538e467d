"""Experiments for people: tables in the terminal, Markdown for summaries of continuous integration, and a page with
trends."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from tracecols.given.parameters import COUNTS
from tracecols.given.printable import escaped, printable
from tracecols.given.quantities import counted, in_words
from tracecols.report.comparison import percent
from tracecols.report.screen import Screen
from tracecols.report.tables import TextTable, more_rows
from tracecols.report.text import value_in_words
from tracecols.runs.folder import in_words as parameter_in_words
from tracecols.runs.series import Series
from tracecols.verbs.pictures import axes

if TYPE_CHECKING:
    import pandas as pd

SIGNATURE = "<!-- tracecols trend -->"
"""Marks pages and Markdown as made by tracecols."""

PICTURES = 12
"""Maximum number of cells whose trend is drawn."""


def runs_table(frame: pd.DataFrame, width: int) -> TextTable:
    """Return the runs of an experiment as a table; times are UTC, as runs of several machines may be in one folder."""
    names = [name for name in frame.columns if name not in ("run", "added", "runtime")]
    # numbers are aligned as such
    titles = [name if frame[name].dtype.kind in "if" else f"<{name}" for name in names]
    made = TextTable("<run", "<added (UTC)", *titles, "runtime", width=width, spare=(1,))
    for row in frame.to_dict("records"):
        values = ["" if _is_missing(row[name]) else parameter_in_words(row[name]) for name in names]
        runtime = "" if row["runtime"] != row["runtime"] else in_words(row["runtime"], "seconds")
        made.add(row["run"], str(row["added"])[:16].replace("T", " "), *values, runtime)
    return made


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def amount(value: float, unit: str) -> str:
    """Write a value of a property, or of a computed metric, with its unit."""
    if COUNTS.get(unit) in ("seconds", "bytes"):
        sign = "-" if value < 0 else ""
        return sign + in_words(abs(value), COUNTS[unit])
    if unit == "occ":
        return f"{value:,.15g}"
    return value_in_words(value, unit)


def severities_shown(table: pd.DataFrame, series: Series, rows: int, width: int) -> Iterator[RenderableType]:
    """Yield the severities of a series as a table, those that vary most first."""
    yield head_of(series)
    labels = list(table.columns[3:])
    made = TextTable("<property", "<call path", *labels, width=width, spare=tuple(range(2, len(labels))))
    for row in table.head(rows).to_dict("records"):
        made.add(row["title"], row["call_path"], *(amount(row[label], series.unit) for label in labels))
    yield made
    yield from more_rows(len(table), rows)
    yield from made.left_out("earlier position")


def change_in_words(row: Any, unit: str) -> str:
    """Describe a change: value before, value after, difference and ratio."""
    sign = "+" if row.after >= row.before else "-"
    before, after, by = (amount(value, unit) for value in (row.before, row.after, abs(row.after - row.before)))
    return f"{before} -> {after}, {sign}{by}, {percent(row.ratio)}"


def direction(row: Any, series: Series) -> str:
    """Name the direction of a change: `slower` or `faster` for times, else `more` or `less`."""
    if COUNTS.get(series.unit) == "seconds" and series.adds_up:
        return "slower" if row.after > row.before else "faster"
    return "more" if row.after > row.before else "less"


def head_of(series: Series) -> str:
    """Describe a series: numbers of runs and positions."""
    sizes, runs = series.sizes, counted(len(series.runs), "run")
    if not series.along:
        return f"{runs} in the order in which they were added"
    few, many = int(sizes.min()), int(sizes.max())
    repeated = "" if many == 1 else f", {few} runs each" if few == many else f", {few} to {many} runs each"
    return f"{runs}, {counted(sizes.size, 'position')} along {series.along}{repeated}"


def changes_shown(series: Series, table: pd.DataFrame, rate: float, rows: int, width: int) -> Iterator[RenderableType]:
    """Yield the changes of a series, one by one."""
    yield Text(head_of(series), "dim")
    if table.empty:
        yield f"Nothing changed by more than noise (false alarms in at most {rate:.3g} of such series)."
    for (_, since, chance), part in table.groupby(["position", "since", "chance"], sort=True):
        total, cells = part.iloc[0], part.iloc[1:]
        yield ""
        yield Text(
            f"{direction(total, series)} since {since}: {change_in_words(total, series.unit)} (chance {chance:.3g})",
            "bold",
        )
        made = TextTable("<property", "<call path", "before", "after", "change", width=width)
        for row in cells.head(rows).itertuples():
            before, after = amount(row.before, series.unit), amount(row.after, series.unit)
            made.add(row.title, row.call_path, before, after, percent(row.ratio))
        if len(cells):
            yield made
            yield from more_rows(len(cells), rows)
        else:
            yield "  no call path by itself changed by more than noise"


def growth_shown(series: Series, table: pd.DataFrame, at: float, rows: int, width: int) -> Iterator[RenderableType]:
    """Yield the growth models of a series, those that will grow most first."""
    yield Text(f"{head_of(series)}{'; per thread' if series.adds_up else ''}", "dim")
    growing = table[table.coefficient != 0]
    if growing.empty:
        yield "Nothing grows by more than noise."
        return
    largest = series.labels[-1]
    made = TextTable("<property", "<call path", "<model", f"at {largest}", f"at {at:g}", width=width)
    for row in growing.head(rows).itertuples():
        measured, predicted = amount(row.measured, series.unit), amount(max(row.predicted, 0.0), series.unit)
        made.add(row.title, row.call_path, row.model, measured, predicted)
    yield made
    yield from more_rows(len(growing), rows)
    yield (
        f"{len(table) - len(growing):,} of {counted(len(table), 'call path')} with properties do not grow by "
        "more than noise."
    )


def markdown(series: Series, table: pd.DataFrame, rate: float, rows: int) -> str:
    """Return the changes as Markdown, for summaries of continuous integration."""
    lines, unit = [SIGNATURE, "## Trend", "", f"{_cell(head_of(series))}.", ""], _cell(series.unit)
    if table.empty:
        lines.append(f"Nothing changed by more than noise (false alarms in at most {rate:.3g} of such series).")
    for (_, since, chance), part in table.groupby(["position", "since", "chance"], sort=True):
        total, cells = part.iloc[0], part.iloc[1:]
        word = direction(total, series).capitalize()
        change = change_in_words(total, unit)
        lines += [f"**{word} since {_cell(since)}**: {change} (chance {chance:.3g})", ""]
        if len(cells):
            lines += ["| property | call path | before | after | change |", "|---|---|---:|---:|---:|"]
        for row in cells.head(rows).itertuples():
            before, after = amount(row.before, unit), amount(row.after, unit)
            lines.append(f"| {_cell(row.title)} | {_cell(row.call_path)} | {before} | {after} | {percent(row.ratio)} |")
        if len(cells) > rows:
            lines += ["", f"{counted(len(cells) - rows, 'more row')}: `--rows`"]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    """Return a name as Markdown text with all markup characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#+!|~" else c for c in printable(text).replace("\n", " "))


def page(series: Series, table: pd.DataFrame, rate: float, rows: int, title: str) -> str:
    """Return a self-contained page with the trends of the total and of the cells that changed. Raises MissingExtraError
    if matplotlib is not installed."""
    pictures = [_picture(series, series.totals, "total")]
    cells = table[table.property != ""].drop_duplicates(["property", "call_path"]).head(PICTURES)
    number = {cell: i for i, cell in enumerate(zip(series.properties, series.call_paths, strict=True))}
    for row in cells.itertuples():
        i = number[row.property, row.call_path]
        pictures.append(_picture(series, series.cells[:, i], series.cell(i)))
    words = "\n".join(_as_text(part, 120) for part in changes_shown(series, table, rate, rows, 120))
    return (
        f'<!doctype html>\n<html lang="en">\n{SIGNATURE}\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n"
        "<style>body{font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "pre{overflow-x:auto}figure{margin:1rem 0}svg{max-width:100%;height:auto}</style>\n</head>\n<body>\n"
        f"<h1>{escaped(title)}</h1>\n<pre>{escaped(words)}</pre>\n{''.join(pictures)}</body>\n</html>\n"
    )


def _as_text(shown: RenderableType, width: int) -> str:
    console = Screen(file=io.StringIO(), width=width, color_system=None, soft_wrap=True)
    console.print(shown)
    file: Any = console.file
    return str(file.getvalue()).rstrip("\n")


def _picture(series: Series, values: np.ndarray[Any, Any], title: str) -> str:
    """Draw the runs at each position as points, and their means as a line."""
    ax = axes()
    ax.plot(series.position, values, "o", alpha=0.5)
    ax.plot(range(len(series.labels)), [values[series.at(i)].mean() for i in range(len(series.labels))], "-")
    step = max(len(series.labels) // 12, 1)
    shown = range(0, len(series.labels), step)
    # escape dollar signs, which would begin mathematics
    ax.set_xticks(list(shown), [series.labels[i][:12].replace("$", r"\$") for i in shown], rotation=30)
    ax.set_xlabel((series.along or "run").replace("$", r"\$"))
    words = {"sec": "seconds", "occ": "occurrences"}.get(series.unit, series.unit)
    ax.set_ylabel((f"{words} of all threads" if series.adds_up else words).replace("$", r"\$"))
    ax.set_ylim(bottom=0)
    ax.set_title(title.replace("$", r"\$"), fontsize="small", wrap=True)
    file = io.StringIO()
    ax.figure.savefig(file, format="svg")
    import matplotlib.pyplot as plt

    plt.close(ax.figure)
    text = file.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>\n"
