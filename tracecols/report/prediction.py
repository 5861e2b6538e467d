"""Predictions in the terminal: the predicted runtime, and the changes that would save most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from tracecols.report.tables import TextTable, plain_rows
from tracecols.report.text import value_in_words

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.replay.prediction import Prediction

LEAST = 0.0005
"""Call paths that would save less than this share of the runtime are not printed: it is written with one decimal of a
percent."""


def render(
    prediction: Prediction, savings: pd.DataFrame, factor: float, mended: pd.DataFrame | None = None, width: int = 160
) -> Iterator[RenderableType]:
    """Yield the runtimes, the gains from mending causes of lost time and from changes of the whole run, and the
    additional gains from making single call paths faster.

    `mended` is None for a prediction with changes.
    """
    yield _runtimes(prediction, width)
    if mended is not None:
        yield ""
        gains = _together(prediction.gains, mended)
        yield Text("What helps most" if len(gains) else "Neither another network nor balance helps", "bold")
        yield from _gains(gains, width)
    savings = savings[~(savings["share"] < LEAST)]
    if savings.empty:
        return
    yield ""
    one = "one more call path" if mended is None else "one call path"
    yield Text(f"Gain if {one}, without its callees, took {factor:.4g} of its time", "bold")
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
        "How much shorter call paths on the critical path can become before another path through the program takes "
        "over",
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


def _together(gains: pd.DataFrame, mended: pd.DataFrame) -> pd.DataFrame:
    """Return the savings of changes and mended causes, the largest first."""
    import pandas as pd

    both = pd.concat([mended.assign(option=""), gains] if len(mended) else [gains])
    return both[both["saving"] > 0].sort_values("saving", ascending=False, kind="stable")


def _gains(gains: pd.DataFrame, width: int) -> Iterator[str]:
    """Yield the savings of changes as lines; long ones are wrapped, not cut."""
    for row in gains.to_dict("records"):
        share = f"{row['share']:.1%}" if math.isfinite(row["share"]) else "-"
        begin = f"{row['saving']:>12,.6f} s {share:>7}   "
        change = f"{row['option']}: {row['change']}" if row["option"] else row["change"]
        yield from wrap(change, width, initial_indent=begin, subsequent_indent=" " * len(begin))


def _runtimes(prediction: Prediction, width: int) -> TextTable:
    """Return the recorded runtime, the predicted one, and that on an ideal network."""
    p = prediction
    change = f"{p.runtime / p.recorded_runtime - 1:+.1%}" if p.recorded_runtime else "-"
    made = TextTable("<", "runtime", "change", width=width)
    made.add("recorded", value_in_words(p.recorded_runtime, "sec"), "")
    made.add(f"predicted: {p.changes}", value_in_words(p.runtime, "sec"), change)
    made.add("the same on an ideal network", value_in_words(p.shortest, "sec"), "")
    return made


def plain(
    prediction: Prediction, table: pd.DataFrame, factor: float | None, mended: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Return all numbers for JSON; undefined values are null. If `factor` is None, `table` is that of slack."""
    rows = plain_rows(table)
    found: dict[str, Any] = {"slack": rows} if factor is None else {"factor": factor, "savings": rows}
    if mended is not None:
        found = {"gains": plain_rows(prediction.gains), "mended": plain_rows(mended), **found}
    return {"format": "tracecols prediction", **prediction.plain(), "on_an_ideal_network": prediction.shortest, **found}
