"""Predictions in the terminal: the predicted runtime, and what would save most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tracecols.replay.replay import Changes
from tracecols.report.tables import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.replay.prediction import Prediction


def render(prediction: Prediction, savings: pd.DataFrame, factor: float, width: int = 160) -> Iterator[RenderableType]:
    """Yield the runtimes, and a table of what would be gained besides by making single call paths faster."""
    yield _runtimes(prediction, width)
    if prediction.changes == Changes():
        yield ""
        yield Text("What helps most", "bold")
        yield _gains(prediction, width)
    if savings.empty:
        return
    yield ""
    yield Text(f"Gain if one more call path took {factor:.4g} of its time, without what it calls", "bold")
    made = TextTable("gain", "of runtime", "computation", "largest", "<call path", width=width, spare=(3, 2))
    for row in savings.to_dict("records"):
        share = f"{row['share']:.1%}" if math.isfinite(row["share"]) else "-"
        seconds = [f"{row[name]:,.6f} s" for name in ("computation", "largest")]
        made.add(f"{row['saving']:,.6f} s", share, *seconds, row["path"])
    yield made


def render_slack(prediction: Prediction, slack: pd.DataFrame, width: int = 160) -> Iterator[RenderableType]:
    """Yield the runtimes, and a table of how much shorter single call paths can become before another path takes
    over."""
    yield _runtimes(prediction, width)
    yield ""
    yield Text(
        "How much shorter call paths on the critical path can become before another path through the program takes over",
        "bold",
    )
    if slack.empty:
        yield "No computation lies on it."
        return
    made = TextTable("slack", "on the critical path", "takes over at", "<call path", width=width, spare=(1,))
    for row in slack.to_dict("records"):
        limit = f"{row['limit']:.1%} of its time" if row["limit"] > 0 else "never"
        made.add(f"{row['slack']:,.6f} s", f"{row['critical']:,.6f} s", limit, row["path"])
    yield made


def _gains(prediction: Prediction, width: int) -> TextTable:
    """Return what changes of the whole run would save."""
    made = TextTable("gain", "of runtime", "<option", "<change", width=width)
    for row in prediction.gains.to_dict("records"):
        share = f"{row['share']:.1%}" if math.isfinite(row["share"]) else "-"
        made.add(f"{row['saving']:,.6f} s", share, row["option"], row["change"])
    return made


def _runtimes(prediction: Prediction, width: int) -> TextTable:
    """Return the recorded runtime, the predicted one, and that on an ideal network."""
    p = prediction
    change = f"{p.runtime / p.recorded_runtime - 1:+.1%}" if p.recorded_runtime else "-"
    made = TextTable("<", "runtime", "change", width=width)
    made.add("recorded", f"{p.recorded_runtime:,.6f} s", "")
    made.add(f"predicted: {p.changes}", f"{p.runtime:,.6f} s", change)
    made.add("the same on an ideal network", f"{p.shortest:,.6f} s", "")
    return made


def plain(prediction: Prediction, table: pd.DataFrame, factor: float | None) -> dict[str, Any]:
    """Return all numbers for JSON; what is not defined is null. Without a factor the table is that of slack."""
    rows = _rows(table)
    found: dict[str, Any] = {"slack": rows} if factor is None else {"factor": factor, "savings": rows}
    if prediction.changes == Changes():
        found = {"gains": _rows(prediction.gains), **found}
    return {**prediction.plain(), "on_an_ideal_network": prediction.shortest, **found}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON; what is not defined is null."""
    return [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in table.to_dict("records")
    ]
