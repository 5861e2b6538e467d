"""Efficiencies in the terminal: the models of one or several runs side by side, and how the runs scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tracecols.report.tables import TextTable, plain_rows
from tracecols.report.text import text_width, value_in_words
from tracecols.severity.efficiencies import (
    MODEL_TITLES,
    MODELS,
    RUN,
    SCALING,
    is_above_one,
    is_of_several,
    why_above_one,
)

if TYPE_CHECKING:
    import pandas as pd

LOW, POOR = 0.9, 0.7
"""Efficiencies below the first are yellow, those below the second red."""


def _cell(value: float, unit: str) -> Text | str:
    words = value_in_words(value, unit)
    if unit != "share" or not math.isfinite(value) or value >= LOW:
        return words
    return Text(words, "red" if value < POOR else "yellow")


def render(
    tables: Sequence[pd.DataFrame], names: Sequence[str], scaling: pd.DataFrame | None, models: Sequence[str] = MODELS
) -> Iterator[RenderableType]:
    """Yield one table per model with a column per run (`SeverityCube.efficiencies`), and how the runs scale
    (`severity.efficiencies.scaling`)."""
    for table, name in zip(tables, names, strict=True):
        run = table[table["model"] == RUN].set_index("metric")
        is_divided = "ideal_runtime" in run.index and run.loc["processes", "value"] > 1
        network = f"; ideal network by {run.loc['ideal_runtime', 'by']}" if is_divided else ""
        yield Text(f"{name}: {run.loc['runtime', 'by']}{network}", "dim")
    is_alone = all((table.loc[table["metric"] == "processes", "value"] == 1).all() for table in tables)
    if is_alone:
        yield Text(
            "one process: communication is all that is not computation; what is about several processes is left out",
            "dim",
        )
    # the first and the last runs stay
    spare = tuple(range(2, len(names)))
    for model in models:
        of = [t[t["model"] == model].set_index("metric") for t in tables]
        metrics = [m for m in dict.fromkeys(m for t in of for m in t.index) if not (is_alone and is_of_several(m))]
        if not metrics:
            continue
        yield ""
        made = TextTable(f"<{MODEL_TITLES[model]}", *names, width=text_width(), spare=spare)
        depth: dict[str, int] = {}
        above: list[str] = []
        for metric in metrics:
            row = next(t.loc[metric] for t in of if metric in t.index)
            depth[metric] = depth.get(row["parent"], -1) + 1
            values = [float(t["value"].get(metric, math.nan)) for t in of]
            made.add("  " * depth[metric] + row["title"], *(_cell(value, row["unit"]) for value in values))
            if any(is_above_one(value, row["unit"]) for value in values):
                above.append(f"{row['title']} above 100 %: {why_above_one(metric)}")
        yield made
        yield from made.left_out("run")
        yield from (Text(said, "dim") for said in above)
    if scaling is not None:
        yield ""
        made = TextTable("<Scaling", *names, width=text_width(), spare=spare)
        for column, title in SCALING:
            values = scaling[column].tolist()
            if any(math.isfinite(v) for v in values):
                made.add(title, *(_cell(v, "ratio" if column == "speedup" else "share") for v in values))
        yield made
        yield from made.left_out("run")


def plain(
    tables: Sequence[pd.DataFrame], names: Sequence[str], scaling: pd.DataFrame | None, failed: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return all numbers for JSON; undefined values are null."""
    return {
        "format": "tracecols efficiencies",
        "runs": [{"name": name, "efficiencies": plain_rows(table)} for name, table in zip(names, tables, strict=True)],
        "scaling": [] if scaling is None else plain_rows(scaling),
        "failed": failed,
    }
