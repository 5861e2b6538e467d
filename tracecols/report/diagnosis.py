"""A diagnosis on one screen, and as HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap
from typing import Any

from tracecols.enhance.scan.paths import fitted
from tracecols.given.printable import escaped
from tracecols.given.quantities import counted, in_words
from tracecols.report.text import value_in_words
from tracecols.severity.diagnosis import Diagnosis, factors
from tracecols.severity.efficiencies import Metric, is_above_one, why_above_one
from tracecols.severity.finding import Finding, Place

WIDTH, HEIGHT = 100, 50
"""Maximum columns and lines of a diagnosis with up to five findings."""

INDENT = 10
"""Width of the labels in front of the details of a finding."""

IN_FULL = 2
"""Number of findings shown in full; of the others only title, gain, cause and advice are shown."""

NOTICEABLE = 0.05
"""If more than this share of the time in the focus lies outside the interval in which all processes are between
MPI_Init and MPI_Finalize, the diagnosis says so."""

NOTHING = "There is nothing to find: no thread has any time"
"""Shown instead of findings for a trace without events."""

NO_LOSSES = "No findings: they are about wait states and overheads, and this cube was narrowed to other properties"
"""Shown instead of findings for a cube with root causes, counts or computation only."""

STYLES: dict[str, dict[str, Any]] = {
    "": {},
    "bold": {"bold": True},
    "dim": {"dim": True},
    "heading": {"bold": True, "fg": "cyan"},
}
"""Styles of lines on a terminal, as `click.style` takes them."""

Line = tuple[str, str]
"""A line of text and its style, one of `STYLES`."""


def cut(text: str, width: int) -> str:
    """Cut a text that is too long at the end of a word."""
    if len(text) <= width:
        return text
    return text[: width - 3].rsplit(" ", 1)[0].rstrip(",;") + "..."


def duration(seconds: float) -> str:
    """Write seconds with about five significant digits: 0.012093 s, 44.240 s, 140 ns."""
    if 0 < seconds < 1e-5:
        return in_words(seconds, "seconds")
    digits = max(2, min(6, 4 - math.floor(math.log10(seconds)))) if seconds > 0 else 2
    return f"{seconds:,.{digits}f} s"


def heading(d: Diagnosis) -> Iterator[str]:
    """Yield the size of the run, and the part of it that the diagnosis covers."""
    recorded = f" of {duration(d.recorded)} recorded" if d.apart else ""
    parts = [
        duration(d.runtime) + recorded,
        counted(d.n_processes, "process", "processes"),
        counted(d.n_threads, "thread"),
        *([counted(d.n_devices, "device")] if d.n_devices else []),
        *([counted(d.n_events, "event")] if d.n_events else []),
    ]
    name = f"{d.name}: " if d.name else ""
    yield f"{name}{', '.join(parts)}"
    if d.narrowed:
        yield d.narrowed
    if d.about_causes and d.findings:
        yield d.about_causes
    if d.apart:
        yield f"{d.focus}; --with-startup shows all"
    if d.apart and math.isfinite(d.beside) and d.beside > NOTICEABLE * d.seconds > 0:
        yield (
            f"{d.beside / d.seconds:.0%} of it lies before the last process left MPI_Init, or after the first "
            "entered MPI_Finalize"
        )


COLUMNS = {
    "efficiency": "parallel_efficiency", "load balance": "load_balance", "communication": "communication_efficiency",
    "serialisation": "serialisation_efficiency", "transfer": "transfer_efficiency",
    "synchronisation": "synchronisation_efficiency",
}  # fmt: skip
"""Columns of the small table of efficiencies: title, and name of the metric without the prefix of the row."""

ROWS = {"Parallel": "", "  MPI": "mpi_", "  Offload": "host_offload_", "  OpenMP": "openmp_"}


def _mark(d: Diagnosis, metric: Metric) -> str:
    """Return the mark after a factor: < if it is the lowest, * if it is above 1."""
    if metric.metric == d.lowest:
        return " <"
    return " *" if is_above_one(metric.value, metric.unit) else "  "


def efficiency_rows(d: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    """Yield a title and the cells of each row of the small table of efficiencies; the lowest factor is marked with
    <."""
    shown = factors(d.efficiencies, d.has_teams)
    if not any(math.isfinite(m.value) for m in shown.values()):
        return
    rows = {}
    for title, front in ROWS.items():
        parts = [f"{front}{name}" for name in COLUMNS.values()]
        # the efficiency of a row is that of its model
        parts[0] = f"{front}efficiency" if front == "host_offload_" else parts[0]
        rows[title] = [shown.get(name) for name in parts]
    used = [i for i in range(len(COLUMNS)) if any(row[i] is not None for row in rows.values())]
    titles = list(COLUMNS)
    yield "< lowest", [f"{titles[i]}  " for i in used]
    for title, row in rows.items():
        cells = [value_in_words(m.value, "share") + _mark(d, m) if (m := row[i]) is not None else "" for i in used]
        if any(cells):
            yield title, cells


def explanations(d: Diagnosis) -> list[str]:
    """Return explanations of the small table of efficiencies: factors above 1, communication of a single process, and
    how serialisation and transfer were determined."""
    shown = factors(d.efficiencies, d.has_teams)
    above = [m.metric for m in shown.values() if is_above_one(m.value, m.unit)]
    found = [f"* above 100 %: {why}" for why in dict.fromkeys(map(why_above_one, above))]
    alone = shown.get("communication_efficiency")
    if alone is not None and d.n_processes == 1 and math.isfinite(alone.value):
        found.append(
            "one process: communication is all that is not computation, such as locks, waits and calls for devices"
        )
    by = [m.by for name, m in shown.items() if name.endswith("transfer_efficiency") and math.isfinite(m.value)]
    return found + ([d.about_network] if d.about_network else [f"ideal network by {variant}" for variant in by[:1]])


def efficiency_lines(d: Diagnosis, width: int = WIDTH) -> Iterator[Line]:
    """Yield the small table of efficiencies, and those of devices."""
    rows = list(efficiency_rows(d))
    column = 17
    if rows and 10 + column * len(rows[0][1]) > width:
        column = 14
    for i, (title, cells) in enumerate(rows):
        line = f"{title:<10}" + "".join(f"{cell[:column]:>{column}}" for cell in cells)
        yield line.rstrip(), "dim" if i == 0 else ""
    for said in explanations(d):
        yield from ((line, "dim") for line in wrap(said, width))
    if d.device_efficiencies:
        yield from ((line, "") for line in wrap(f"Devices   {device_line(d)}", width, subsequent_indent=" " * INDENT))


def device_line(d: Diagnosis, lowest: str = " <") -> str:
    """Return the efficiencies of devices, in words; `lowest` follows one of them if it is the lowest factor."""
    titles = {
        "device_parallel_efficiency": "efficiency",
        "device_load_balance": "load balance",
        "device_communication_efficiency": "communication",
        "device_orchestration_efficiency": "orchestration",
    }
    found = d.device_efficiencies
    return ", ".join(
        f"{title} {value_in_words(found[key], 'share')}" + lowest * (key == d.lowest)
        for key, title in titles.items()
        if key in found
    )


def headline(d: Diagnosis) -> str:
    """Return the line above the findings: the time that their shares refer to."""
    if not d.seconds and not d.apart:
        return NOTHING
    of = f"{duration(d.seconds)} of all threads"
    apart = f"; start-up and shutdown, {duration(d.apart)}, are set apart" if d.apart else ""
    if d.findings:
        return f"What costs most, of {of}{apart}"
    if d.n_findings:
        return f"{counted(d.n_findings, 'finding')}, none of them shown, of {of}{apart}"
    if not d.has_losses:
        return NO_LOSSES
    return f"Nothing {'of what is looked at ' * bool(d.narrowed)}costs as much as 0.5 % of {of}{apart}"


def percent(share: float) -> str:
    """Write a nonzero share in whole percent, or `<1%` if it rounds to 0 %."""
    return "<1%" if share <= 0.005 else f"{share:.0%}"


def place(where: Place, width: int, note: str = "") -> str:
    """Write a place and its share; a call path after many locations may take a line of its own."""
    after = f" on {where.n_call_paths:,} call paths" if where.n_call_paths > 1 else ""
    after += f" ({percent(where.share)}{note})"
    front = f"{where.location} in " if where.location else ""
    return front + fitted(where.call_path, max(width - len(front) - len(after), width // 2)) + after


def where_of(f: Finding, width: int) -> str:
    """Describe where a finding occurs: the call path with most of it, or the region if it is spread over many."""
    if f.region.n_call_paths > 1 and f.where.share < 0.5 and f.region.share > 1.5 * f.where.share:
        above, _, last = f.where.call_path.rpartition("/")
        if not above or last != f.region.call_path:
            return place(f.region, width)
        front = f"{place(f.region, 58)}, most in "
        return front + place(replace(f.where, call_path=above), width - len(front))
    return place(f.where, width)


def payers(f: Finding, width: int = WIDTH) -> str:
    """Describe which locations pay for a finding, with their shares: as many as fit, and the number of the others."""
    if f.is_even:
        return f"{f.n_paying:,} locations, all alike"
    named = [f"{p.location} ({percent(p.share)})" for p in f.paid_by]
    while True:
        more = f.n_paying - len(named)
        found = ", ".join([*named, *([f"and {more:,} more"] if more > 0 else [])])
        if len(found) <= width or len(named) <= 1:
            return cut(found, width)
        named.pop()


def details(f: Finding, source: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield the details of a finding: a label, and a text that may need several lines."""
    if f.gain is not None and f.gain_share is not None:
        yield "gain", f"{f.gain_share:.1%} of the runtime, {duration(f.gain)}, if it is mended"
    if f.what and f.cause is not None:
        yield "cause", place(replace(f.cause, share=1.0), width).removesuffix(" (100%)")
    if f.seconds:
        waits = f"{f.title}: " if f.what else ""
        yield "where", waits + where_of(f, max(width - len(waits), width // 2))
        yield "pays", payers(f, width)
    if f.meanwhile:
        named = ", ".join(f"{title} {share:.0%}" for title, share in f.meanwhile[:3])
        yield "meanwhile", cut(named, width)
    if not f.what and f.cause is not None:
        yield "cause", place(f.cause, width, " of the costs")
    if f.shows:
        yield "shows", f.shows
    if f.advice:
        yield "advice", f.advice
    yield "more", f.command(source)


BRIEF = ("gain", "cause", "advice")
"""Labels of the details shown of a finding that is not shown in full."""


def lines(d: Diagnosis, source: str = "CUBE", width: int = WIDTH) -> Iterator[Line]:
    """Yield the diagnosis line by line, with styles for a terminal."""
    for i, said in enumerate(heading(d)):
        yield from ((line, "bold" if i == 0 else "") for line in wrap(said, width, subsequent_indent="  "))
    table = list(efficiency_lines(d, width))
    if table:
        yield "", ""
        yield from table
    yield "", ""
    yield from ((line, "bold") for line in (wrap(headline(d), width) if width < WIDTH else [headline(d)]))
    for number, f in enumerate(d.findings, 1):
        costs = f"{f.share:6.1%} {duration(f.seconds):>12}" if f.seconds else " " * 19
        front = f"{number:2} {costs}  "
        for i, part in enumerate(wrap(f.what or f.title, width - len(front))):
            yield (front if not i else " " * len(front)) + part, "heading"
        yield from _detail_lines(f, source, width - 4 - INDENT, number > IN_FULL)


def _detail_lines(f: Finding, source: str, width: int, is_brief: bool) -> Iterator[Line]:
    """Yield the lines with the details of a finding, below its first line."""
    shown = BRIEF if f.what else ("where", *BRIEF)
    for word, said in details(f, source, width):
        if is_brief and word not in shown:
            continue
        texts = [said] if word == "more" else wrap(said, width, break_on_hyphens=False)
        for i, part in enumerate(texts):
            yield f"    {word if not i else '':<{INDENT}}{part}", "dim" if word == "more" else ""


def text(d: Diagnosis, source: str = "CUBE") -> str:
    """Return the diagnosis as plain text."""
    return "\n".join(line for line, _ in lines(d, source))


def costs_in_words(f: Finding) -> str:
    """Return share and seconds of a finding, as prefix of its title; empty if no time of threads is lost."""
    return f"{f.share:.1%}, {duration(f.seconds)}: " if f.seconds else ""


def finding_as_html(f: Finding) -> str:
    """Return a finding as HTML without anything executable; names are escaped."""
    items = "".join(f"<li>{word}: {escaped(line)}</li>" for word, line in details(f, "CUBE", 400) if word != "more")
    front = f"<p><b>{costs_in_words(f)}{escaped(f.what or f.title)}</b> <small>{escaped(f.property)}</small></p>"
    return f"{front}<ul>{items}</ul>"


def html_of(d: Diagnosis) -> str:
    """Return the diagnosis as HTML without anything executable; names are escaped."""
    head, *more = heading(d)
    parts = [f"<p><b>{escaped(head)}</b></p>", *(f"<p><small>{escaped(line)}</small></p>" for line in more)]
    rows = []
    for i, (title, cells) in enumerate(efficiency_rows(d)):
        tag = "td" if i else "th"
        written = [escaped(c) if not c.endswith("<") else f"<b>{escaped(c)}</b>" for c in cells]
        rows.append(f"<tr><th>{escaped(title)}</th>{''.join(f'<{tag}>{c}</{tag}>' for c in written)}</tr>")
    if rows:
        parts.append(f"<table>{''.join(rows)}</table>")
    devices = [f"Devices: {device_line(d, ' (lowest)')}"] if d.device_efficiencies else []
    parts.extend(f"<p><small>{escaped(line)}</small></p>" for line in (*explanations(d), *devices))
    parts.extend(finding_as_html(f) for f in d.findings)
    if not d.findings:
        parts.append(f"<p>{escaped(headline(d))}.</p>")
    return f"<div>{''.join(parts)}</div>"
