"""Predictions in the terminal: the predicted runtime, and what would save most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tracecols.enhance.paths import shortened
from tracecols.report.comparison import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.replay.prediction import Prediction


def render(prediction: Prediction, savings: pd.DataFrame, factor: float, width: int = 160) -> Iterator[RenderableType]:
    """Yield the runtimes, and a table of what would be gained besides by making single call paths faster."""
    p = prediction
    change = f"{p.runtime / p.recorded_runtime - 1:+.1%}" if p.recorded_runtime else "-"
    made = TextTable("<", "runtime", "change")
    made.add("recorded", f"{p.recorded_runtime:,.6f} s", "")
    made.add(f"predicted: {p.changes}", f"{p.runtime:,.6f} s", change)
    made.add("the same on an ideal network", f"{p.shortest:,.6f} s", "")
    yield made
    if savings.empty:
        return
    yield ""
    yield Text(f"Gain if one more call path took {factor:g} of its time, without what it calls", "bold")
    made = TextTable("gain", "of runtime", "computation", "largest", "<call path")
    for row in savings.to_dict("records"):
        share = f"{row['share']:.1%}" if math.isfinite(row["share"]) else "-"
        made.add(
            f"{row['saving']:,.6f} s", share, f"{row['computation']:,.6f} s", f"{row['largest']:,.6f} s", shortened(row["path"], width - 60)
        )  # fmt: skip
    yield made


def plain(prediction: Prediction, savings: pd.DataFrame, factor: float) -> dict[str, Any]:
    """Return all numbers for JSON; what is not defined is null."""
    rows = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in savings.to_dict("records")
    ]
    return {**prediction.plain(), "on_an_ideal_network": prediction.shortest, "factor": factor, "savings": rows}
