"""Draw the timeline of a tiny program as SVG: what every location does, what is waited for, and for how long."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from tracecols.docs.site.examples import Example
from tracecols.schema import EventKind as K
from tracecols.testing import Location, Program

WIDTH, ROW_HEIGHT = 7.6, 0.62
"""Inches: of a picture, of a location."""

LABEL_SIZES, LETTER = (8, 7, 6), 0.0085
"""Points of names of regions, the first that fits; inches that a letter of one point takes."""

TEXT = "#123456"
"""Stands for the colour of the page's text, so that a picture fits light and dark pages."""

CAUSE = "#654321"
"""Stands for the colour of what is said beside the picture, `--timeline-cause` of the style sheet."""

COLOURS = {"mpi": "#e9b872", "openmp": "#a7c98b", "pthread": "#b9a5d6", "cuda": "#7fc4c1"}
TEAM = "#d8e6cb"
"""Of parallel regions, in which constructs are out."""
OTHER, OUTERMOST, WAIT, MESSAGE = "#8fb3d9", "#c3ccd6", "#b3261e", "#5b6b7b"

COPIES, COPY = (K.RMA_PUT, K.RMA_GET), "copy"
SENDS, RECEIVES = (K.MPI_SEND, K.MPI_ISEND), (K.MPI_RECV, K.MPI_IRECV)


def labels(program: Program) -> list[str]:
    """Return what the locations are called in the picture."""
    defined = program.definitions["locations"]
    several = len(program.masters) > 1
    if set(defined["type"]) != {"cpu_thread"}:
        return list(defined["name"])
    found = []
    for one in program.locations:
        rank, thread = f"rank {one.process}", f"thread {one.thread}"
        found.append(rank if program.n_threads == 1 else f"{rank}, {thread}" if several else thread)
    return found


def short(region: str) -> str:
    """Return the name of a region without what only a recording says."""
    return re.sub(r" @.*", "", region.removeprefix("!$omp ")).replace(" sblock", " section")


def region_intervals(location: Location, names: list[str]) -> list[tuple[int, int, int, str]]:
    """Return start, end, depth and name of every region instance of a location, the outer ones first."""
    found, stack = [], []
    for time, kind, region, _ in location.events:
        if kind == K.ENTER:
            stack.append((time, names[region]))
        elif kind == K.EXIT:
            start, name = stack.pop()
            found.append((start, time, len(stack), name))
        elif kind == K.RMA_OP_COMPLETE_BLOCKING:
            # of a device: a copy, which is no region
            start = max(at for at, what, *_ in location.events if what in COPIES and at <= time)
            found.append((start, time, len(stack), COPY))
    return sorted(found, key=lambda one: one[2])


def free_range(interval: tuple[int, int, int, str], every: list[tuple[int, int, int, str]]) -> tuple[int, int]:
    """Return the longest time range of a region instance in which it is the innermost one."""
    start, end, depth, _ = interval
    inner = sorted((a, b) for a, b, d, _ in every if d == depth + 1 and start <= a and b <= end)
    edges = [start, *(edge for pair in inner for edge in pair), end]
    return max(zip(edges[::2], edges[1::2], strict=True), key=lambda pair: pair[1] - pair[0])


def messages(program: Program) -> list[tuple[Location, int, Location, int]]:
    """Return sender, time of sending, receiver and time of receiving of all messages."""
    underway: dict[tuple[int, int, int], list[tuple[Location, int]]] = {}
    arrived: list[tuple[tuple[int, int, int], Location, int]] = []
    for one in program.masters:
        for time, kind, _, sides in one.events:
            side = sides.get("p2p", {})
            if kind in SENDS:
                underway.setdefault((one.process, side["peer"], side["tag"]), []).append((one, time))
            elif kind in RECEIVES:
                arrived.append(((side["peer"], one.process, side["tag"]), one, time))
    return [(*underway[key].pop(0), one, time) for key, one, time in arrived]


def draw(example: Example, name: str, title: str) -> str:
    """Draw the timeline of a program.

    Parameters
    ----------
    example : Example
        The program, with the intervals to be marked.
    name : str
        Makes the identifiers in the picture unlike those of other pictures.
    title : str
        Read out instead of the picture.

    Returns
    -------
    str
        The element ``svg``. The same on every run.
    """
    program = example.program
    names, paradigms = program.definitions["regions"]["name"], program.definitions["regions"]["paradigm"]
    locations = program.locations
    row = {id(one): len(locations) - 1 - i for i, one in enumerate(locations)}
    end = max(one.events[-1][0] for one in locations if one.events)
    height = ROW_HEIGHT * len(locations) + 0.75
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "hatch.linewidth": 0.8}
    ):
        figure = Figure(figsize=(WIDTH, height))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.13, 0.42 / height, 0.86, 1 - 0.75 / height))
        axes.set_xlim(0, end)
        axes.set_ylim(-0.5, len(locations) - 0.5)
        inches = WIDTH * 0.86 / end
        for one in locations:
            y = row[id(one)]
            every = region_intervals(one, names)
            for start, stop, depth, region in every:
                paradigm = "cuda" if region == COPY else paradigms[names.index(region)]
                colour = COLOURS.get(paradigm, OTHER if depth else OUTERMOST)
                colour = TEAM if region.startswith("!$omp parallel") else colour
                half = 0.36 - 0.05 * min(depth, 3)
                axes.barh(
                    y,
                    stop - start,
                    left=start,
                    height=2 * half,
                    color=colour,
                    edgecolor="#ffffff",
                    linewidth=0.6,
                    zorder=2 + depth,
                )
                text = short(region)
                left, right = free_range((start, stop, depth, region), every)
                size = next((size for size in LABEL_SIZES if (right - left) * inches >= len(text) * size * LETTER), 0)
                if size and region != "main":
                    axes.text(
                        (left + right) / 2,
                        y + half - 0.1,
                        text,
                        ha="center",
                        va="center",
                        fontsize=size,
                        color="#1d232b",
                        zorder=20,
                    )
        for interval in example.intervals:
            y = row[id(interval.location)]
            axes.barh(
                y - 0.1,
                interval.end - interval.start,
                left=interval.start,
                height=0.3,
                facecolor=WAIT,
                alpha=0.18,
                zorder=15,
            )
            axes.barh(
                y - 0.1,
                interval.end - interval.start,
                left=interval.start,
                height=0.3,
                facecolor="none",
                edgecolor=WAIT,
                hatch="////",
                linewidth=1,
                zorder=16,
            )
            axes.text(
                (interval.start + interval.end) / 2,
                y - 0.1,
                f"{interval.end - interval.start} s",
                ha="center",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                color=WAIT,
                zorder=21,
                bbox={"facecolor": "#ffffff", "edgecolor": "none", "pad": 1},
            )
        for sender, sent, receiver, received in messages(program):
            axes.annotate(
                "",
                xy=(received, row[id(receiver)]),
                xytext=(sent, row[id(sender)]),
                zorder=18,
                arrowprops={"arrowstyle": "-|>", "color": MESSAGE, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0},
            )
        cause = example.cause
        if cause is not None:
            y = row[id(cause.location)]
            axes.axvline(cause.time, color=WAIT, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1.5)
            axes.plot([cause.time], [y], marker="o", markersize=7, color=WAIT, markeredgecolor="#ffffff", zorder=22)
            axes.text(
                cause.time,
                len(locations) - 0.45,
                cause.what,
                ha="right" if cause.time > end * 0.6 else "center" if cause.time > end * 0.25 else "left",
                va="bottom",
                fontsize=8.5,
                color=CAUSE,
            )
        axes.set_yticks([row[id(one)] for one in locations], labels(program), fontsize=9, color=TEXT)
        axes.tick_params(axis="x", labelsize=8, colors=TEXT)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("time (s)", fontsize=8.5, color=TEXT, labelpad=2)
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(TEXT)
        return _as_element(figure, title)


def _as_element(figure: Figure, title: str) -> str:
    """Write a figure as an element of a page: without a background, in the colour of the page's text."""
    file = io.StringIO()
    nothing: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(TEXT, "currentColor").replace(CAUSE, "var(--timeline-cause, #b3261e)")
    text = re.sub(r" <metadata>.*?</metadata>\n", "", text, flags=re.DOTALL)
    text = re.sub(
        r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt"|(?<=<svg )(.*?)width="[\d.]+pt"', r"\1", text, count=2
    )
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    text = text.replace("<svg ", f'<svg class="timeline" role="img" aria-label="{label}" ', 1)
    # an empty line would end the HTML block of a Markdown page
    return re.sub(r"\n\s*\n", "\n", text)
