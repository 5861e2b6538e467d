"""Comparisons in the terminal and as plain values: changes between two runs, and the scaling of a series of runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tracecols.report.tables import TextTable, plain_rows
from tracecols.report.text import value_in_words
from tracecols.schema.properties import TIME
from tracecols.severity.comparison import COLUMNS, Comparison
from tracecols.severity.efficiencies import ratio
from tracecols.severity.focus import words_of

if TYPE_CHECKING:
    import pandas as pd

PHASES = 8
"""Number of phases or bins shown: those that changed most."""

MIN_SHARE = 0.005
"""Changes by less than this share of the root are not shown."""


def percent(ratio: float) -> str:
    """Write the relative growth in percent, or the factor if it is ten or more."""
    if ratio != ratio:
        return ""
    if ratio in (float("inf"), float("-inf")):
        return "new"
    return f"x {ratio:,.0f}" if abs(ratio) >= 10 else f"{ratio - 1:+.1%}"


class ComparisonDisplay:
    """Turn a comparison into text tables `width` characters wide: all properties, or the given ones and their
    descendants; of all properties, changes at call paths are those of the time, since causes and the critical path
    count the same time once more."""

    def __init__(
        self,
        runs: Comparison,
        properties: list[str] | None = None,
        rows: int = 15,
        regressed: set[str] | None = None,
        width: int = 160,
    ) -> None:
        self.runs, self.rows, self.regressed, self.width = runs, rows, regressed or set(), width
        self.axis = runs.united[0].properties
        self.chosen = properties or self.axis.roots
        self.located = properties or ([TIME] if TIME in self.axis.roots else self.axis.roots)

    def _runs(self) -> Iterator[RenderableType]:
        made = TextTable("<run", "processes", "threads", "runtime", "speedup", "efficiency", width=self.width)
        runtimes, sizes = self.runs.runtimes(), [self.runs.size(cube) for cube in self.runs.cubes]
        for name, (processes, threads), runtime in zip(self.runs.names, sizes, runtimes, strict=True):
            speedup = ratio(runtimes[0], runtime)
            gained = [f"{speedup:.2f}", f"{speedup * sizes[0][1] / threads:.1%}"]
            measured = [f"{runtime:,.6f} s", *(gained if self.runs.is_of_equal_parts else ["", ""])]
            made.add(name, f"{processes:,}", f"{threads:,}", *(measured if math.isfinite(speedup) else [""] * 3))
        yield made
        focus = dict.fromkeys(filter(None, (words_of(cube.facts) for cube in self.runs.cubes)))
        if focus:
            yield Text(f"focus: {', or '.join(focus)}; --with-startup shows all", "yellow")
        for note in self.runs.notes:
            yield Text(f"note: {note}", "yellow")
        yield ""

    def changes(self) -> Iterator[RenderableType]:
        """Yield the changes from the first to the last run: by property, then by property and call path."""
        yield from self._runs()
        first, last = self.runs.names[0], self.runs.names[-1]
        totals = self.runs.totals().set_index("property")
        shown = self._changed(totals)
        columns = ("<property", first, last, "change", f"of {first}", "<id for -p")
        made = TextTable(*columns, width=self.width, spare=(5, 3))
        for name in shown:
            row = totals.loc[name]
            title = Text("  " * self._depth(name, shown) + row.title)
            if name in self.regressed:
                title.append("  regressed", "bold bright_red")
            made.add(title, *self._cells(row, first, last), Text(name, "dim"))
        if not shown:
            yield Text(f"no property changed by {MIN_SHARE:.1%} of its root or more", "dim")
            return
        yield made
        yield ""
        yield from self._call_paths(first, last)
        if self.runs.has_phases:
            yield from self._phases(first, last)

    def _phases(self, first: str, last: str) -> Iterator[RenderableType]:
        name = next((n for n in self.chosen if self.axis.adds_up(n)), "")
        if not name:
            return
        unit, title = (getattr(self.axis, c)[self.axis.number[name]] for c in ("unit", "title"))
        table = self.runs.by_phase(name)
        table = table[table.change != 0].head(PHASES)
        kind = str(table.index.name)
        if table.empty:
            return
        yield ""
        yield Text(f"{kind.capitalize()}s that changed most, {title}, and the call path at which they did", "bold")
        columns = (kind, first, last, "change", f"of {first}", "", "<call path")
        made = TextTable(*columns, width=self.width, spare=(4, 1))
        for at, row in table.iterrows():
            values = [value_in_words(row[run], unit) if row[run] == row[run] else "none" for run in (first, last)]
            style = "red" if row.change > 0 else "green"
            made.add(
                f"{at}",
                *values,
                Text(value_in_words(row.change, unit, "+"), style),
                Text(percent(row.ratio), style),
                value_in_words(row.at_call_path, unit, "+"),
                row.call_path,
            )
        yield made

    def _cells(self, row: pd.Series, first: str, last: str) -> list[Text | str]:
        style = "red" if row.change > 0 else "green" if row.change < 0 else ""
        return [
            value_in_words(row[first], row.unit),
            value_in_words(row[last], row.unit),
            Text(value_in_words(row.change, row.unit, "+"), style),
            Text(percent(row.ratio), style),
        ]

    def _call_paths(self, first: str, last: str) -> Iterator[RenderableType]:
        units = [self.axis.unit_of(n) for n in self.located]
        unit = "sec" if "sec" in units else units[0]
        roots = [n for n, u in zip(self.located, units, strict=True) if u == unit and self.axis.adds_up(n)]
        if not roots:
            return
        changes = self.runs.changes(*roots, n=self.rows)
        least = MIN_SHARE / 5 * max(abs(self.runs.united[0].whole(n)) for n in roots)
        changes = changes[changes.change.abs() > least]
        if changes.empty:
            return
        yield Text("Largest changes, what each property has of its own at a call path", "bold")
        made = TextTable("change", first, last, "<property", "<call path", width=self.width, spare=(1, 2))
        for _, row in changes.iterrows():
            cells = self._cells(row, first, last)
            made.add(cells[2], *cells[:2], row.title, row.call_path)
        yield made

    def _changed(self, totals: pd.DataFrame) -> list[str]:
        """Return the properties that changed noticeably or regressed, and their ancestors, depth-first."""
        kept: set[str] = set()
        for name in self.runs.below(*self.chosen):
            whole = max(abs(c.whole(name)) for c in (self.runs.united[0], self.runs.united[-1]))
            noticeable = abs(totals.change[name]) >= MIN_SHARE * whole and totals.change[name]
            if noticeable or name in self.regressed:
                while name and name not in kept:
                    kept.add(name)
                    name = self.axis.parent[self.axis.number[name]]
        return [n for n in self.runs.below(*self.chosen) if n in kept]

    def _depth(self, name: str, shown: list[str]) -> int:
        depth = 0
        while (name := self.axis.parent[self.axis.number[name]]) in shown:
            depth += 1
        return depth

    def scaling(self) -> Iterator[RenderableType]:
        """Yield how a series of runs scales: elapsed time and efficiency, then the share of each property in every
        run."""
        yield from self._runs()
        scaling = self.runs.scaling()
        share = scaling.pivot_table(index="property", columns="run", values="share", dropna=False).fillna(0.0)
        total = scaling.pivot_table(index="property", columns="run", values="total", dropna=False)
        # the first and the last runs stay
        spare = tuple(range(2, len(self.runs.names)))
        made = TextTable("<property, share of its root", *self.runs.names, "<", width=self.width, spare=spare)
        shown: list[str] = []
        for name in self.runs.below(*self.chosen):
            at = self.axis.number[name]
            is_root = not self.axis.parent[at]
            if not total.loc[name].any() or (share.loc[name].abs().max() < MIN_SHARE and not is_root):
                continue
            shown.append(name)
            if is_root:
                cells = [value_in_words(total.loc[name, run], self.axis.unit[at]) for run in self.runs.names]
            else:
                cells = [f"{share.loc[name, run]:.1%}" for run in self.runs.names]
            mark = Text("regressed", "bold bright_red") if name in self.regressed else ""
            made.add("  " * self._depth(name, shown) + self.axis.title[at], *cells, mark)
        yield made
        yield from made.left_out("run")


def run_names(paths: Sequence[Path]) -> list[str]:
    """Name runs after their files: by stem if that is unique, else by path, else by stem and number."""

    def as_text(name: str) -> str:
        """Write bytes that are not UTF-8 with backslashes, for tables that take valid text only."""
        return name.encode("utf-8", "backslashreplace").decode("utf-8")

    for names in ([as_text(p.stem) for p in paths], [as_text(str(p)) for p in paths]):
        if len(set(names) - set(COLUMNS)) == len(paths):
            return names
    return [f"{as_text(p.stem)} ({i})" for i, p in enumerate(paths, 1)]


def as_plain(runs: Comparison, name: str, table: pd.DataFrame, regressed: list[str]) -> dict[str, Any]:
    """Return all numbers of a comparison for JSON, with `table` under the key `name`; NaN and infinity become None."""

    sizes = [runs.size(cube) for cube in runs.cubes]
    return {
        "format": "tracecols comparison",
        "runs": [
            {"name": n, "processes": p, "threads": t, "runtime": runtime if math.isfinite(runtime) else None}
            for n, (p, t), runtime in zip(runs.names, sizes, runs.runtimes(), strict=True)
        ],
        "notes": runs.notes,
        "regressed": regressed,
        "properties": plain_rows(runs.totals()),
        name: plain_rows(table),
    }
