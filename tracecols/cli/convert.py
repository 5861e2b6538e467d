"""tracecols convert"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracecols.cli.cluster import GivenCluster, cluster_options
from tracecols.cli.correct import correction_options, write_corrected
from tracecols.cli.output import echo
from tracecols.cli.vocabulary import PATH, grouped, option
from tracecols.given.quantities import counted


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=PATH)
@option("output", "The store to write.  [default: the archive's name, in the current folder]", metavar="NAME.trace")
@option("jobs")
@click.option(
    "--correct-clocks",
    is_flag=True,
    help="Write times that satisfy all clock conditions, as 'tracecols correct' does; needs room for a temporary "
    "store in TMPDIR.",
)
@correction_options
@click.option(
    "--salvage", is_flag=True, help="If the archive is damaged, keep what can be read, and report what was lost."
)
@cluster_options
@option("force", "Also replace a store that has corrected or predicted times, or any file.")
@grouped(who=GivenCluster)
def convert(
    sources: tuple[Path, ...],
    output: Path | None,
    jobs: int | None,
    correct_clocks: bool,
    latency: float | None,
    shrink: float | None,
    stretch: float | None,
    salvage: bool,
    force: bool,
    who: GivenCluster,
) -> None:
    """Convert a trace archive to a store. SOURCE is its anchor file, its folder, or several files of the PyTorch
    profiler or Nsight Systems, one per rank.

    With --workers, --scheduler or --scheduler-file (extra dask), worker processes do the work, also on other machines.
    """
    from tracecols.cli.progress import compiling_ahead, progress
    from tracecols.cli.sources import opened
    from tracecols.conversion import convert_opened, files_seen, store_name
    from tracecols.converters.registry import find_given, open_source
    from tracecols.schema.notes import fate
    from tracecols.store import Store
    from tracecols.store.outputs import CORRECTED, check_not_read, store_output
    from tracecols.work.jobs import n_jobs

    limits = {"latency": latency, "shrink": shrink, "stretch": stretch}
    unused = [f"--{name}" for name, value in limits.items() if value is not None]
    if unused and not correct_clocks:
        raise click.UsageError(f"{', '.join(unused)} without --correct-clocks: clocks are not corrected")
    bounds = None
    if correct_clocks:
        # imported only if clocks are corrected: the import took a quarter of the time of a small conversion
        from tracecols.clocks.correction import as_bounds

        bounds = as_bounds(**limits)
    who.check()
    source = find_given(sources)
    path = store_name(source) if output is None else output
    for anchor in (source,) if isinstance(source, Path) else source:
        check_not_read(path, anchor, data=anchor.with_suffix(""))
    if correct_clocks or any(given is not None for given in who):
        # check before a temporary store is created or workers are started; otherwise the conversion does so first
        corrected = {CORRECTED: ""} if correct_clocks else {}
        store_output(path, {**open_source(source).properties, **corrected}, force=force).check()
    with compiling_ahead(n_jobs(jobs)), who.opened(jobs, path, files_seen(source)) as workers:
        if bounds is not None:
            with opened(open_source(source), jobs, workers, salvage=salvage) as store:
                write_corrected(store, path, bounds, jobs, Path(store.manifest["source"]["path"]), force=force)
        else:
            with progress("converting") as report:
                how: dict[str, Any] = {"jobs": n_jobs(jobs), "salvage": salvage, "force": force, "progress": report}
                convert_opened(open_source(source), path, workers=workers, **how)
    manifest = Store(path).manifest
    echo(f"{path}: {counted(manifest['n_events'], 'event')}, {counted(manifest['n_locations'], 'location')}")
    for text in manifest["source"].get("notes", []):
        echo(f"note: {text}", err=True)
    for what, n in manifest["not_understood"].items():
        echo(
            f"warning: {counted(n, 'record')} of {what} {'was' if n == 1 else 'were'} not understood; "
            f"{'it is' if n == 1 else 'they are'} {fate(what)}",
            err=True,
        )
    for loss in manifest["lost"]:
        n = counted(loss["n_events"], "event") if loss["n_events"] >= 0 else "an unknown number of events"
        echo(f"warning: location {loss['location']}: {n} lost: {loss['reason']}", err=True)
