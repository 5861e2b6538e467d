"""Pictures of answers, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from tracecols.errors import MissingExtraError
from tracecols.given.printable import one_line

ROWS = 15
"""Maximum number of bars of a picture."""

SERIES = 8
"""Maximum number of areas of a picture; the remaining ones are combined."""


def axes(ax: Any = None) -> Any:
    """Return axes to draw on, those of a new figure if none are given. Raises MissingExtraError if matplotlib is not
    installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "Answer.plot") from error
    return plt.subplots(figsize=(8, 4), layout="constrained")[1] if ax is None else ax


@dataclass(frozen=True)
class Picture:
    """The picture for an answer."""

    draw: Callable[[pd.DataFrame, Any], Any]
    """`draw(answer, ax)` returns the axes."""
    needs: frozenset[str]
    """Columns that the answer must have."""


def draw_matrix(frame: pd.DataFrame, ax: Any, sides: tuple[str, str], values: str, labels: tuple[str, str, str]) -> Any:
    """Draw sums by who is on each of two sides as a matrix; cells without data are empty. Without rows there are only
    labels. Each side is identified by the columns with this prefix: rank and thread, or the subdomain."""
    who = ("rank", "thread") if f"{sides[0]}rank" in frame else ("subdomain",)
    rows, columns = ([side + name for name in who if side + name in frame] for side in sides)
    table = pd.DataFrame(frame).pivot_table(index=rows, columns=columns, values=values, aggfunc="sum", observed=True)
    if table.size:
        image = ax.imshow(table.to_numpy(float, na_value=np.nan), aspect="auto", cmap="viridis")
        ax.figure.colorbar(image, ax=ax, label=labels[2])
    for axis, index, label in ((ax.yaxis, table.index, labels[0]), (ax.xaxis, table.columns, labels[1])):
        step = -(-len(index) // 32) or 1
        names = [_label(".".join(map(str, key)) if isinstance(key, tuple) else key) for key in index]
        axis.set_ticks(range(0, len(index), step), names[::step])
        axis.set_label_text(label)
    return ax


def draw_bars(
    frame: pd.DataFrame,
    ax: Any,
    subject: str,
    values: dict[str, str],
    label: str,
    names: Iterable[object] | None = None,
) -> Any:
    """Draw the first rows as horizontal bars, the first on top; `subject` is what each is about, by default a region
    (`names`)."""
    named = list(frame.region_name if names is None else names)[:ROWS]
    left = np.zeros(min(len(frame), ROWS))
    for column, legend in values.items():
        width = frame[column].to_numpy(float)[:ROWS]
        ax.barh(np.arange(width.size), width, left=left, label=legend)
        left = left + width
    ax.set_yticks(np.arange(left.size), [_label(name) for name in named])
    ax.set_ylabel(subject)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    if len(values) > 1:
        ax.legend(frameon=False)
    return ax


def _label(name: object, most: int = 40) -> str:
    """Return a name as a label: in one line, shortened in the middle, and with dollars as they are, since matplotlib
    reads the text between two of them as a formula."""
    text, half = one_line(str(name)), (most - 3) // 2
    return (text if len(text) <= most else f"{text[:half]}...{text[-half:]}").replace("$", r"\$")


def _legend(name: object) -> str:
    """Return a name as a label in a legend, from which matplotlib leaves out those that begin with an underscore."""
    label = _label(name)
    return f" {label}" if label.startswith("_") else label


WAITING = ("waits", "is waited for", "seconds")
"""Labels of a matrix of who waits for whom."""


def draw_histogram(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw numbers and bytes of messages by length."""
    at = np.arange(len(frame))
    ax.bar(at - 0.2, frame.n_messages, 0.4, label="messages", color="C0")
    ax.set_xticks(at, [f"{n:,}" for n in frame.from_bytes], rotation=45, ha="right")
    ax.set_xlabel("length from, bytes")
    ax.set_ylabel("messages")
    other = ax.twinx()
    other.bar(at + 0.2, frame.bytes, 0.4, label="bytes", color="C1")
    other.set_ylabel("bytes")
    ax.legend(
        *(a + b for a, b in zip(*(x.get_legend_handles_labels() for x in (ax, other)), strict=True)), frameon=False
    )
    return ax


def draw_comm_over_time(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw bytes per second over time."""
    edges = [*frame.begin_seconds, *frame.end_seconds[-1:]] if len(frame) else [0.0]
    width = (frame.end_seconds - frame.begin_seconds).to_numpy()
    for column, label in (("bytes_sent", "sent"), ("bytes_received", "received")):
        ax.stairs(np.divide(frame[column], width, out=np.zeros(width.size), where=width > 0), edges, label=label)
    ax.set_xlabel("seconds")
    ax.set_ylabel("bytes per second")
    ax.legend(frameon=False)
    return ax


def draw_flat_profile(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw exclusive times as bars."""
    columns = {"region_name": "region", "path": "call path", "paradigm": "paradigm"}
    column = next(c for c in columns if c in frame)
    return draw_bars(
        frame, ax, columns[column], {"exclusive_seconds": "exclusive"}, "exclusive time, seconds", frame[column]
    )


def draw_time_profile(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw shares over time as stacked areas, the largest groups at the bottom."""
    by = next(c for c in ("region_name", "paradigm", "path", "rank", "subdomain") if c in frame)
    table = pd.DataFrame(frame).pivot_table(
        index="begin_seconds", columns=by, values="share", aggfunc="sum", fill_value=0.0, observed=True
    )
    table = table[table.sum().sort_values(ascending=False, kind="stable").index]
    labels, areas = [_legend(name) for name in table.columns[:SERIES]], [*table.to_numpy().T[:SERIES]]
    if table.shape[1] > SERIES:
        labels.append("others")
        areas.append(table.iloc[:, SERIES:].sum(axis=1).to_numpy())
    ax.set_xlabel("seconds")
    ax.set_ylabel("share of all CPU threads")
    ax.set_ylim(0, 1)
    if areas:
        ax.stackplot(table.index, *areas, labels=labels, step="post")
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def draw_idle_time(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw idle and waiting times of threads as bars, those that lose most first."""
    lost = (frame.idle_seconds + frame.waiting_seconds).sort_values(ascending=False, kind="stable")
    frame = frame.loc[lost.index]
    names = (f"{r}.{t}" for r, t in zip(frame["rank"], frame.thread, strict=True))
    return draw_bars(frame, ax, "rank.thread", {"idle_seconds": "idle", "waiting_seconds": "waiting"}, "seconds", names)


def draw_iterations(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw the longest, the mean and the shortest instance of every iteration."""
    found = pd.DataFrame(frame).groupby("iteration").seconds.agg(["max", "mean", "min"])
    ax.fill_between(found.index, found["min"], found["max"], alpha=0.3, step="mid", label="shortest to longest")
    ax.plot(found.index, found["mean"], marker="o", markersize=3, label="mean")
    ax.set_xlabel("iteration")
    ax.set_ylabel("seconds")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def draw_top_instances(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw the time intervals of the instances and the times of their causes."""
    frame = frame.dropna(subset=["begin_seconds"])
    names = [f"{r}.{t}" for r, t in zip(frame["rank"], frame.thread, strict=True)]
    at = np.arange(len(frame))
    ax.barh(at, frame.end_seconds - frame.begin_seconds, left=frame.begin_seconds, label="waits")
    known = frame.cause_seconds.notna().to_numpy()
    ax.plot(frame.cause_seconds[known], at[known], "k|", markersize=12, label="the cause comes")
    ax.set_yticks(at, names)
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    ax.set_ylabel("rank.thread, the worst first")
    if len(frame):
        ax.legend(frameon=False)
    return ax


STEP_PARTS = {
    "compute_seconds": "compute", "overlapped_seconds": "overlapped communication",
    "exposed_seconds": "exposed communication", "copy_seconds": "copies", "idle_seconds": "idle",
}  # fmt: skip
FAULTS = {
    "host_seconds": "host", "kernel_seconds": "kernels", "earlier_wait_seconds": "earlier wait",
    "latency_seconds": "latency", "unrecorded_seconds": "before the recording",
}  # fmt: skip


def draw_training_steps(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw the activity of devices in the first steps as bars."""
    names = (f"{step}, rank {rank}" for step, rank in zip(frame["step"], frame["rank"], strict=True))
    return draw_bars(frame, ax, "step and rank", STEP_PARTS, "seconds", names)


def draw_stragglers(frame: pd.DataFrame, ax: Any) -> Any:
    """Draw the waiting time caused by each rank as bars, divided by the reason why the rank is late."""
    return draw_bars(frame, ax, "rank that is late", FAULTS, "waiting of others, seconds", frame["rank"])


PICTURES: Mapping[str, Picture] = MappingProxyType(
    {
        "comm_matrix": Picture(
            partial(draw_matrix, sides=("send_", "recv_"), values="bytes", labels=("sender", "receiver", "bytes")),
            frozenset({"send_rank", "recv_rank", "bytes"}),
        ),
        "message_histogram": Picture(draw_histogram, frozenset({"from_bytes", "n_messages", "bytes"})),
        "comm_over_time": Picture(
            draw_comm_over_time, frozenset({"begin_seconds", "end_seconds", "bytes_sent", "bytes_received"})
        ),
        "flat_profile": Picture(draw_flat_profile, frozenset({"exclusive_seconds"})),
        "recording_costs": Picture(
            partial(
                draw_bars, subject="region", values={"cost_seconds": "recording"}, label="time of recording, seconds"
            ),
            frozenset({"region_name", "cost_seconds"}),
        ),
        "load_imbalance": Picture(
            partial(draw_bars, subject="region", values={"lost_seconds": "lost"}, label="lost by imbalance, seconds"),
            frozenset({"region_name", "lost_seconds"}),
        ),
        "time_profile": Picture(draw_time_profile, frozenset({"begin_seconds", "share"})),
        "idle_time": Picture(draw_idle_time, frozenset({"rank", "thread", "idle_seconds", "waiting_seconds"})),
        "iterations": Picture(draw_iterations, frozenset({"iteration", "seconds"})),
        "late_senders": Picture(
            partial(draw_matrix, sides=("victim_", "culprit_"), values="seconds", labels=WAITING),
            frozenset({"victim_rank", "culprit_rank", "seconds"}),
        ),
        "waits_by_cause": Picture(
            partial(draw_matrix, sides=("", "cause_"), values="seconds", labels=WAITING),
            frozenset({"rank", "thread", "cause_rank", "cause_thread", "seconds"}),
        ),
        "top_instances": Picture(
            draw_top_instances, frozenset({"begin_seconds", "end_seconds", "rank", "thread", "cause_seconds"})
        ),
        "training_steps": Picture(draw_training_steps, frozenset({"step", "rank", *STEP_PARTS})),
        "stragglers": Picture(draw_stragglers, frozenset({"rank", *FAULTS})),
        "kernel_profile": Picture(
            partial(draw_bars, subject="kernel", values={"seconds": "time"}, label="seconds"),
            frozenset({"region_name", "seconds"}),
        ),
    }
)
"""The pictures by name of the question."""
