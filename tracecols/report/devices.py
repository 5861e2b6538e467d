"""Activity of devices, in the terminal and as plain values: training steps, stragglers, kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from tracecols.given.printable import printable
from tracecols.given.quantities import in_words
from tracecols.report.tables import TextTable, middle_out, more_rows, plain_rows
from tracecols.verbs.devices import FAULTS, WHOLE

if TYPE_CHECKING:
    import pandas as pd

PARTS = {
    "compute_seconds": "compute", "overlapped_seconds": "overlap", "exposed_seconds": "exposed",
    "copy_seconds": "copies", "idle_seconds": "idle", "host_bound_seconds": "host", "waiting_seconds": "waits",
}  # fmt: skip
"""Columns and titles of the shares of a step; host-bound time is part of idle time, waiting part of communication."""

LONGEST = 60
"""Maximum number of characters shown of a kernel's name."""


class Answers(NamedTuple):
    """The answers of `Trace.training_steps`, `stragglers` and `kernel_profile`."""

    steps: pd.DataFrame
    stragglers: pd.DataFrame
    kernels: pd.DataFrame


def render(found: Answers, rows: int, width: int = 160) -> Iterator[RenderableType]:
    """Yield the first rows of each answer as a table under a title."""
    made = (
        _steps(found.steps[:rows], width),
        _stragglers(found.stragglers[:rows], width),
        _kernels(found.kernels[:rows], width),
    )
    of = "Training steps" if set(found.steps.step) != {WHOLE} else "Whole run"
    titles = (
        f"{of}: what devices do (host: part of idle that hosts cause; waits: part of communication)",
        "Stragglers: who begins operations last, what others wait (waits), and why",
        "Kernels by time: latency from launch to begin, operations queued before",
    )
    for k, (title, table, whole) in enumerate(zip(titles, made, found, strict=True)):
        if whole.empty:
            continue
        yield from [""] * (k > 0)
        yield Text(title, "bold")
        yield table
        yield from more_rows(len(whole), rows)


def _steps(steps: pd.DataFrame, width: int) -> TextTable:
    made = TextTable("<step", "rank", "<device", "takes", *PARTS.values(), width=width, spare=(2, 7, 10, 5))
    for row in steps.to_dict("records"):
        parts = [_share(row[name], row["seconds"]) for name in PARTS]
        made.add(str(row["step"]), str(row["rank"]), str(row["device"]), _seconds(row["seconds"]), *parts)
    return made


def _stragglers(stragglers: pd.DataFrame, width: int) -> TextTable:
    titles = ("host", "kernels", "earlier", "latency", "before")
    made = TextTable("rank", "last", "waits", "of all", *titles, "<host or kernel", width=width, spare=(7, 3))
    for row in stragglers.to_dict("records"):
        parts = [_share(row[name], row["wait_seconds"]) for name in FAULTS.values()]
        last = f"{row['n_last']:,}/{row['n_operations']:,}"
        made.add(
            str(row["rank"]), last, _seconds(row["wait_seconds"]), f"{row['share']:.1%}", *parts, _text(row["path"])
        )
    return made


def _kernels(kernels: pd.DataFrame, width: int) -> TextTable:
    titles = ("time", "of all", "kernels", "mean", "max", "latency", "queue")
    made = TextTable("<kernel", *titles, width=width, spare=(5, 2))
    for row in kernels.to_dict("records"):
        queue = "-" if math.isnan(row["queue_length"]) else f"{row['queue_length']:,.1f}"
        times = [_seconds(row[name]) for name in ("mean_seconds", "max_seconds", "latency_seconds")]
        made.add(
            middle_out(_text(row["region_name"]), LONGEST),
            _seconds(row["seconds"]),
            f"{row['share']:.1%}",
            f"{row['n_kernels']:,}",
            *times,
            queue,
        )
    return made


def _text(value: Any) -> str:
    """Return a name; an empty text if it is null."""
    return printable(value) if isinstance(value, str) else ""


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else in_words(value, "seconds")


def _share(value: float, whole: float) -> str:
    return "-" if math.isnan(value) or not whole else f"{value / whole:.1%}"


def plain(found: Answers) -> dict[str, Any]:
    """Return all rows of all answers for JSON; undefined values are null."""
    return {"format": "tracecols devices"} | {name: plain_rows(frame) for name, frame in found._asdict().items()}
