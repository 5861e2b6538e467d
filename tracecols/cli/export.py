"""tracecols export"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.options import numbers, seconds
from tracecols.cli.output import echo
from tracecols.schema.causes import BY_CONVENTIONS
from tracecols.schema.notes import note
from tracecols.schema.severity import CONVENTIONS, DEFAULT

TIMELINES = (".pftrace", ".perfetto-trace", ".trace.json")
PIECES = (".otf2", *TIMELINES)
"""Endings of what holds events, which can be cut."""


@click.command()
@click.argument("source", metavar="SEVERITY|STORE", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--table", metavar="NAME", help="Of a store: events, messages, collectives, ...  [default: events]")
@click.option("--wide", is_flag=True, help=".csv, .parquet of severities: a column per property, not a row per value.")
@click.option("--from", "start", callback=seconds, metavar="TIME", help="Archive, timeline: events from this time on.")
@click.option("--to", "stop", callback=seconds, metavar="TIME", help="Archive, timeline: events before this time.")
@click.option("--locations", callback=numbers, metavar="0,1,4-7", help="Archive, timeline: events of these locations.")
@click.option(
    "--waits",
    metavar="PROPERTY,...",
    help="Timeline: wait states of these properties, all, or none.  [default: those with a known cause]",
)
@click.option(
    "--around", metavar="PROPERTY", help='Timeline: only the time around the worst instance, "late broadcast".'
)
@click.option(
    "--critical-path/--no-critical-path", default=None, help="Timeline: show the critical path.  [default: yes]"
)
@click.option(
    "--conventions",
    type=click.Choice(list(CONVENTIONS)),
    help=f"Timeline, tables of waits and root causes: whose rules to follow.  [default: {DEFAULT}]",
)
@click.option(
    "--phases-as-call-paths",
    "unfolds",
    is_flag=True,
    help="Severities: phases, or bins, become call paths, for tools that know no phases.",
)
@click.option("--force", is_flag=True, help="Replace an output that was made in another way, or any file.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Archive, timeline: threads.  [default: one per core]"
)
def export(
    source: Path,
    output: Path,
    table: str | None,
    wide: bool,
    start: float | None,
    stop: float | None,
    locations: list[int] | None,
    waits: str | None,
    around: str | None,
    critical_path: bool | None,
    conventions: str | None,
    unfolds: bool,
    force: bool,
    jobs: int | None,
) -> None:
    """Write a SEVERITY cube, or a table of a STORE, to OUTPUT; its ending says the format: .parquet, .csv, .json.

    \b
    A cube becomes a long table: property, call_path, rank, thread, value (seconds, occurrences or bytes), or a --wide
    one; as .json it keeps its three trees. For Cube, Extra-P and other tools it is written as .cubex (Cube 4) or .cube
    (CUBE 3); both can stand in the place of SEVERITY, too, and become ours as .severity. Severities that are divided are summed over phases there, or with
    --phases-as-call-paths each phase is a call path, instance=0 and so on below its region, as Score-P writes them.

    A STORE can also be written as an OTF2 archive for other tools: OUTPUT NAME.otf2, beside it NAME.def and the folder
    NAME. A piece of it, cut by time since the start of the recording (0.3, 300ms) or locations, is a trace by itself.

    Or as a timeline, whole or a piece: .pftrace (or .perfetto-trace) for the Perfetto UI, .trace.json for viewers of Chrome's
    JSON. It shows region instances, messages, collective operations, counters, wait states with arrows to what causes them, and
    the critical path. --around "late broadcast" shows the time around the worst instance of a property.
    """
    is_timeline = output.name.endswith(TIMELINES)
    is_piece = output.name.endswith(PIECES)
    if is_piece and unfolds:
        raise click.UsageError(f"--phases-as-call-paths is for severities, not for {output.name}.")
    if is_piece and (table is not None or wide):
        what = "a timeline" if is_timeline else "an archive (.otf2)"
        raise click.UsageError(f"--table and --wide have no meaning for {what}, which holds the whole trace.")
    of_timelines = {"--waits": waits, "--around": around, "--critical-path": critical_path}
    for name, value in of_timelines.items():
        if value is not None and not is_timeline:
            raise click.UsageError(
                f"{name}: only for a timeline as output ({', '.join(TIMELINES)}), not for {output.name}."
            )
    if conventions is not None and not is_timeline and table not in BY_CONVENTIONS:
        raise click.UsageError(
            f"--conventions: only for a timeline as output ({', '.join(TIMELINES)}), and with --table {', '.join(BY_CONVENTIONS)}."
        )
    if around is not None and (start is not None or stop is not None):
        raise click.UsageError("--around finds the time range: give it, or --from and --to.")
    if wide and output.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--wide is for .csv and .parquet, not for {output.name}.")
    given = {"--from": start, "--to": stop, "--locations": locations, "--jobs": jobs}
    wrong = [name for name, value in given.items() if value is not None]
    if wrong and not is_piece:
        raise click.UsageError(
            f"{', '.join(wrong)}: only for an archive or a timeline as output ({', '.join(PIECES)}), not for {output.name}."
        )
    from tracecols.store.outputs import check_not_read

    check_not_read(output, source)
    if is_timeline:
        _timeline(
            source,
            output,
            start,
            stop,
            locations,
            waits,
            around,
            critical_path is not False,
            conventions or DEFAULT,
            jobs,
            force,
        )
        return
    if is_piece:
        _archive(source, output, start, stop, locations, jobs)
        return
    from tracecols.export.tables import export as run

    run(source, output, table or "events", wide, force=force, unfolds=unfolds, conventions=conventions or DEFAULT)
    echo(f"{output}")


def _archive(
    source: Path, output: Path, start: float | None, stop: float | None, locations: list[int] | None, jobs: int | None
) -> None:
    from tracecols.cli.progress import progress
    from tracecols.export.archive import export_archive

    with progress("exporting") as show:
        report = export_archive(source, output, locations=locations, start=start, stop=stop, jobs=jobs, progress=show)
    echo(f"{output}")
    for what, n in report.unknown.items():
        echo(f"left out, as OTF2 has no record for them: {note(n, what)}", err=True)


def _timeline(
    source: Path,
    output: Path,
    start: float | None,
    stop: float | None,
    locations: list[int] | None,
    waits: str | None,
    around: str | None,
    critical_path: bool,
    conventions: str,
    jobs: int | None,
    force: bool,
) -> None:
    from tracecols.cli.progress import progress
    from tracecols.export.viewers import export_timeline

    chosen = None if waits is None else [part.strip() for part in waits.split(",") if part.strip()]
    with progress("exporting") as show:
        shown = export_timeline(
            source,
            output,
            locations=locations,
            start=start,
            stop=stop,
            waits=chosen,
            around=around,
            critical_path=critical_path,
            conventions=conventions,
            force=force,
            jobs=jobs,
            progress=show,
        )
    echo(f"{output}")
    if shown.where:
        echo(shown.where, err=True)
    # those that were not asked for by name are told where there are some
    by_name = chosen is not None and chosen != ["all"]
    for id, n in ((id, n) for id, n in shown.n_waits.items() if n or by_name):
        echo(f"wait states of {id}: {n:,}", err=True)
    for what, n in shown.left_out.items():
        echo(f"left out: {n:,} {what}", err=True)
