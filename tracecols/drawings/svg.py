"""Draw a tiny program as SVG: the regions of each location, the waits with their lengths, and their cause."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tracecols.drawings.examples import Example, Interval
from tracecols.drawings.rows import COPY, RegionInterval, end_of, free_range, labels, messages, region_intervals, short
from tracecols.testing import Location, Program

LEFT, WIDTH, TOP, ROW, BOTTOM = 90, 640, 22, 44, 34
"""Sizes in user units: left margin, width of the picture, top margin, height of a location, bottom margin."""

LABEL_SIZES, LETTER = (10, 9, 8), 0.6
"""Font sizes of region names, of which the first that fits is used; width of a letter relative to the font size."""

COLOURS = {"mpi": "#e9b872", "openmp": "#a7c98b", "pthread": "#b9a5d6", "cuda": "#7fc4c1"}
TEAM = "#d8e6cb"
"""Colour of parallel regions, within which constructs are drawn."""
OTHER, OUTERMOST, WAIT, MESSAGE = "#8fb3d9", "#c3ccd6", "#b3261e", "#5b6b7b"
CAUSE = "var(--timeline-cause, #b3261e)"
"""Colour of the text above the rows; other text has the colour of the page's text."""


class Scale:
    """Converts times and locations to positions in the picture."""

    def __init__(self, program: Program) -> None:
        self.end = end_of(program)
        self.row = {id(one): i for i, one in enumerate(program.locations)}
        self.bottom = TOP + ROW * len(self.row)

    def x(self, time: float) -> float:
        """Return the horizontal position of a time."""
        return LEFT + (WIDTH - LEFT - 8) * time / self.end

    def y(self, location: Location) -> float:
        """Return the vertical position of the middle of a location."""
        return TOP + ROW * (self.row[id(location)] + 0.5)


def _rect(x: float, y: float, width: float, height: float, **style: str) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{more}/>'


def _text(x: float, y: float, text: str, size: float = 10, anchor: str = "middle", fill: str = "currentColor") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _colour(region: RegionInterval, paradigm: str) -> str:
    if region.name.startswith("!$omp parallel"):
        return TEAM
    return COLOURS.get(paradigm, OTHER if region.depth else OUTERMOST)


def _regions(program: Program, scale: Scale, one: Location) -> Iterator[str]:
    names, paradigms = program.definitions["regions"]["name"], program.definitions["regions"]["paradigm"]
    every = region_intervals(one, names)
    for region in every:
        half = ROW * (0.42 - 0.06 * min(region.depth, 3))
        paradigm = "cuda" if region.name == COPY else paradigms[names.index(region.name)]
        left, top = scale.x(region.start), scale.y(one) - half
        yield _rect(left, top, scale.x(region.end) - left, 2 * half, fill=_colour(region, paradigm), stroke="#fff")
        start, end = map(scale.x, free_range(region, every))
        text = short(region.name)
        size = next((size for size in LABEL_SIZES if end - start >= len(text) * size * LETTER), 0)
        if size and text != "main":
            yield _text((start + end) / 2, top + 11, text, size, fill="#1d232b")


def _wait(scale: Scale, name: str, interval: Interval) -> Iterator[str]:
    """Draw an interval that a property counts: hatched, with its length."""
    left, right, y = scale.x(interval.start), scale.x(interval.end), scale.y(interval.location)
    yield _rect(left, y - 3, right - left, 16, fill=f"url(#wait-{name})", stroke=WAIT)
    text = f"{interval.end - interval.start} s"
    width = 6.5 * len(text)
    yield _rect((left + right - width) / 2, y - 1.5, width, 13, fill="#fff")
    yield _text((left + right) / 2, y + 9, text, 10.5, fill=WAIT)


def _cause(scale: Scale, example: Example) -> Iterator[str]:
    """Mark the event that is waited for."""
    cause = example.cause
    if cause is None:
        return
    x, share = scale.x(cause.time), cause.time / scale.end
    yield f'<path d="M{x:.1f} {TOP - 4}V{scale.bottom}" stroke="{WAIT}" stroke-dasharray="3 2"/>'
    yield f'<circle cx="{x:.1f}" cy="{scale.y(cause.location):.1f}" r="4" fill="{WAIT}" stroke="#fff"/>'
    anchor = "end" if share > 0.6 else "middle" if share > 0.25 else "start"
    yield _text(x, TOP - 8, cause.what, anchor=anchor, fill=CAUSE)


def _axis(scale: Scale) -> Iterator[str]:
    y = scale.bottom + 2
    yield f'<path d="M{LEFT} {y}H{WIDTH - 8}" stroke="currentColor"/>'
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if scale.end <= 8 * step)
    for time in range(0, scale.end + 1, step):
        yield f'<path d="M{scale.x(time):.1f} {y}v4" stroke="currentColor"/>'
        yield _text(scale.x(time), y + 14, str(time), 9)
    yield _text((LEFT + WIDTH) / 2, y + 28, "time (s)", 9.5)


def draw(example: Example, name: str, title: str) -> str:
    """Draw the timeline of a program, with marked intervals, as the element ``svg``, which is as wide as its container.
    The result is deterministic.

    `name` makes the identifiers in the picture unique among all pictures; screen readers read `title` instead of the
    picture.
    """
    program, scale = example.program, Scale(example.program)
    parts = [
        f'<svg class="timeline" role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {scale.bottom + BOTTOM}" '
        'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" fill="none">',
        f'<defs><pattern id="wait-{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{WAIT}" fill-opacity="0.15"/>'
        f'<path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" stroke="{WAIT}" stroke-width="0.8"/></pattern>'
        f'<marker id="message-{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto">'
        f'<path d="M0 1L8 4L0 7Z" fill="{MESSAGE}"/></marker></defs>',
    ]
    for one, label in zip(program.locations, labels(program), strict=True):
        parts.append(_text(LEFT - 8, scale.y(one) + 4, label, anchor="end"))
        parts += _regions(program, scale, one)
    for interval in example.intervals:
        parts += _wait(scale, name, interval)
    parts += [
        f'<path d="M{scale.x(sent):.1f} {scale.y(sender):.1f}L{scale.x(received):.1f} {scale.y(receiver):.1f}" '
        f'stroke="{MESSAGE}" stroke-width="1.4" marker-end="url(#message-{name})"/>'
        for sender, sent, receiver, received in messages(program)
    ]
    return "\n".join([*parts, *_cause(scale, example), *_axis(scale), "</svg>"])
