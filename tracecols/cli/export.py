"""tracecols export"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from tracecols.cli.output import echo
from tracecols.cli.vocabulary import PATH, grouped, option
from tracecols.schema.causes import BY_CONVENTIONS
from tracecols.schema.notes import note
from tracecols.schema.severity import DEFAULT

TIMELINES = (".pftrace", ".perfetto-trace", ".trace.json")
PIECES = (".otf2", *TIMELINES)
"""Endings of formats with events, of which a time range or some locations can be written."""


class TableOptions(NamedTuple):
    """Options for writing a table."""

    table: str | None
    raw: bool
    wide: bool
    unfolds: bool
    subdomains: Path | None


class Cut(NamedTuple):
    """The part of a trace that is written."""

    start: float | None
    stop: float | None
    locations: list[int] | None


class TimelineOptions(NamedTuple):
    """Additional contents of a timeline besides the events."""

    waits: str | None
    around: str | None
    critical_path: bool | None


@click.command()
@click.argument("source", metavar="CUBE|STORE", type=PATH)
@click.argument("output", type=PATH)
@click.option("--table", metavar="NAME", help="For a store: events, messages, collectives, ...  [default: events]")
@click.option(
    "--raw",
    is_flag=True,
    help="Tables of a store: the columns of SQL, with times in ticks and row numbers, not seconds, ranks and names.",
)
@click.option("--wide", is_flag=True, help="Severities as .csv, .parquet: a column per property, not a row per value.")
@option("start", "Archive, timeline: only events from this time on.")
@option("stop", "Archive, timeline: only events before this time.")
@option("locations", "Archive, timeline: only events of these locations.")
@click.option(
    "--waits",
    metavar="PROPERTY,...",
    help="Timeline: wait states of these properties, all, or none.  [default: those with a known cause]",
)
@click.option(
    "--around",
    metavar="PROPERTY",
    help='Timeline: only the time around the worst instance of a property, such as "late broadcast".',
)
@click.option(
    "--critical-path/--no-critical-path", default=None, help="Timeline: show the critical path.  [default: yes]"
)
@option("conventions", f"Timeline, tables of waits and root causes: whose rules to follow.  [default: {DEFAULT}]")
@click.option(
    "--phases-as-call-paths",
    "unfolds",
    is_flag=True,
    help="Severities: write phases, or bins, as call paths, for tools without phases.",
)
@option(
    "subdomains",
    "Severities: a column with the subdomain of each location in .csv and .parquet; in other formats (.cubex, .cube, "
    ".severity, .json), subdomains replace machines and nodes.",
)
@option("force", "Replace an output that was made in another way, or any file; an archive (.otf2) is never replaced.")
@option("jobs", "Archive, timeline: threads.  [default: one per core]")
@grouped(table=TableOptions, cut=Cut, timeline=TimelineOptions)
def export(
    source: Path,
    output: Path,
    table: TableOptions,
    cut: Cut,
    timeline: TimelineOptions,
    conventions: str | None,
    force: bool,
    jobs: int | None,
) -> None:
    """Write a severity CUBE, or a table of a STORE, to OUTPUT, in the format of its ending: .parquet, .csv, .json.

    \b
    A cube becomes a long table: property, call_path, rank, thread, value (seconds, occurrences or bytes), or a --wide
    one; as .json it keeps its three trees. For Cube, Extra-P and other tools, write .cubex (Cube 4) or .cube (CUBE 3);
    both are also accepted as CUBE, and can be converted to .severity. In .cubex, .cube, .json and --wide tables,
    severities divided by phase are summed over the phases; with --phases-as-call-paths, each phase is a call path,
    instance=0 and so on below its region, as Score-P writes them.

    A table of a STORE has seconds, ranks, threads and names; --raw writes the columns of SQL and trace.scan. Parquet
    files contain the unit of every column.

    A STORE can also be written as an OTF2 archive for other tools: OUTPUT is NAME.otf2; NAME.def and the folder NAME
    are written beside it. A part of it, selected by time since the start of the recording (0.3, 300ms) or locations, is
    a trace of its own.

    It can also be written as a timeline, whole or in part: .pftrace (or .perfetto-trace) for the Perfetto UI,
    .trace.json for viewers of Chrome's JSON. The timeline shows region instances, messages, collective operations,
    counters, wait states with arrows to their causes, and the critical path. --around "late broadcast" shows the time
    around the worst instance of a property.
    """
    check(output, table, cut, timeline, conventions, jobs)
    from tracecols.store.outputs import check_not_read

    check_not_read(output, source)
    if output.name.endswith(TIMELINES):
        _timeline(source, output, cut, timeline, conventions=conventions or DEFAULT, jobs=jobs, force=force)
        return
    if output.name.endswith(PIECES):
        _archive(source, output, cut, jobs)
        return
    from tracecols.export.tables import export as run

    run(
        source,
        output,
        table.table,
        table.wide,
        force=force,
        unfolds=table.unfolds,
        raw=table.raw,
        conventions=conventions or DEFAULT,
        subdomains=table.subdomains,
    )
    echo(f"{output}")


def check(
    output: Path, table: TableOptions, cut: Cut, timeline: TimelineOptions, conventions: str | None, jobs: int | None
) -> None:
    """Refuse options that do not apply to an output. Raises click.UsageError."""
    is_timeline, is_piece = output.name.endswith(TIMELINES), output.name.endswith(PIECES)
    what = "a timeline" if is_timeline else "an archive (.otf2)"
    of_timelines, not_for = f"only for a timeline as output ({', '.join(TIMELINES)})", f"not for {output.name}."
    of_pieces = {"--from": cut.start, "--to": cut.stop, "--locations": cut.locations, "--jobs": jobs}
    given = [name for name, value in of_pieces.items() if value is not None]
    mistakes = {
        f"--phases-as-call-paths is for severities, {not_for}": is_piece and table.unfolds,
        f"--subdomains is for severities, {not_for}": is_piece and table.subdomains is not None,
        f"--table, --raw and --wide have no meaning for {what}, which holds the whole trace.": is_piece
        and (table.table is not None or table.wide or table.raw),
        **{
            f"--{name.replace('_', '-')}: {of_timelines}, {not_for}": value is not None and not is_timeline
            for name, value in timeline._asdict().items()
        },
        f"--conventions: {of_timelines}, and with --table {', '.join(BY_CONVENTIONS)}.": conventions is not None
        and not is_timeline
        and table.table not in BY_CONVENTIONS,
        "--around finds the time range: give it, or --from and --to.": timeline.around is not None
        and (cut.start is not None or cut.stop is not None),
        f"--wide is for .csv and .parquet, {not_for}": table.wide and output.suffix not in (".csv", ".parquet"),
        f"{', '.join(given)}: only for an archive or a timeline as output ({', '.join(PIECES)}), {not_for}": given
        and not is_piece,
    }
    for message, is_made in mistakes.items():
        if is_made:
            raise click.UsageError(message)


def _archive(source: Path, output: Path, cut: Cut, jobs: int | None) -> None:
    from tracecols.cli.progress import progress
    from tracecols.export.archive import export_archive

    with progress("exporting") as show:
        report = export_archive(source, output, **cut._asdict(), jobs=jobs, progress=show)
    echo(f"{output}")
    for what, n in report.unknown.items():
        echo(f"left out, as OTF2 has no record for them: {note(n, what)}", err=True)


def _timeline(source: Path, output: Path, cut: Cut, timeline: TimelineOptions, **how: Any) -> None:
    from tracecols.cli.progress import progress
    from tracecols.export.viewers import export_timeline

    waits = timeline.waits
    chosen = None if waits is None else [part.strip() for part in waits.split(",") if part.strip()]
    shown_path = timeline.critical_path is not False
    with progress("exporting") as show:
        shown = export_timeline(
            source,
            output,
            **cut._asdict(),
            waits=chosen,
            around=timeline.around,
            critical_path=shown_path,
            progress=show,
            **how,
        )
    echo(f"{output}")
    if shown.where:
        echo(shown.where, err=True)
    # properties not requested by name are listed only if they have wait states
    by_name = chosen is not None and chosen != ["all"]
    for id, n in ((id, n) for id, n in shown.n_waits.items() if n or by_name):
        echo(f"wait states of {id}: {n:,}", err=True)
    for what, n in shown.left_out.items():
        echo(f"left out: {note(n, what)}", err=True)
