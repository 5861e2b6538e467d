"""Draw a tiny program in plain characters, for the terminal."""

from __future__ import annotations

from tracecols.drawings.examples import Example
from tracecols.drawings.rows import end_of, labels, region_intervals, short

WIDTH = 72
"""Width of the timeline in characters."""


def _put(line: list[str], at: int, text: str) -> None:
    """Write a text into a line, cut at the end of the line."""
    line[at : at + len(text)] = text[: max(len(line) - at, 0)]


def draw(example: Example) -> list[str]:
    """Draw the timeline of a program in lines of ASCII: the regions of each location, its waits below them, and the
    cause."""
    program, end = example.program, end_of(example.program)
    names, called = program.definitions["regions"]["name"], labels(program)
    margin = max(map(len, called)) + 2

    def at(time: int) -> int:
        return time * (WIDTH - 1) // end

    lines = []
    for one, label in zip(program.locations, called, strict=True):
        line = [" "] * WIDTH
        for region in region_intervals(one, names):
            start, width = at(region.start), max(at(region.end) - at(region.start) + 1, 2)
            inner = "" if region.name == "main" else short(region.name)
            fill = "-" if region.depth else "."
            _put(line, start, f"|{(inner + fill * width)[: width - 2]}|")
        lines.append(f"{label:<{margin}}{''.join(line)}".rstrip())
        waits = [interval for interval in example.intervals if interval.location is one]
        if waits:
            line = [" "] * WIDTH
            for wait in waits:
                text = f" {wait.end - wait.start} s "
                width = max(at(wait.end) - at(wait.start), 1)
                _put(line, at(wait.start), text.center(width, "/") if width > len(text) + 1 else "/" * width)
            lines.append(f"{'':<{margin}}{''.join(line)}".rstrip())
    if example.cause is not None:
        where, text = at(example.cause.time), f"{example.cause.what} at {example.cause.time} s"
        before = where - len(text) - 1
        lines.append(" " * margin + (f"{' ' * before}{text} ^" if before >= 0 else f"{' ' * where}^ {text}"))
    return lines
