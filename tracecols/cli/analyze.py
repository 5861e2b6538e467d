"""tracecols analyze"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from tracecols.cli.cluster import GivenCluster, cluster_options
from tracecols.cli.options import parameters, seconds
from tracecols.cli.output import echo
from tracecols.cli.vocabulary import grouped, option, part_options
from tracecols.schema.notes import note, worth_telling
from tracecols.schema.severity import DEFAULT


class Shown(NamedTuple):
    """What is printed of an analysis."""

    explain: bool
    quiet: bool
    with_startup: bool


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@option(
    "output",
    "The cube to make.  [default: the trace's name and what the cube is narrowed to, here]",
    metavar="NAME.severity",
)
@option("conventions", default=DEFAULT, show_default=True)
@click.option(
    "--topology",
    "topologies",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE.json",
    help="A grid the trace does not know of; may be given several times.",
)
@option(
    "properties", "Search for this property only, or for several with commas in between; their ancestors come along."
)
@option("patterns")
@option(
    "given", "Give a parameter of a property a value.", called="parameters", callback=parameters, metavar="P.NAME=VALUE"
)
@part_options
@option("locations", "Only severities of these locations: numbers, or words such as 'rank 0-3 thread 1'.")
@option("phases")
@click.option("--bins", type=int, metavar="N", help="Divide by N bins of time instead.")
@click.option("--bin-width", callback=seconds, metavar="TIME", help="Divide by bins of this width, such as 10ms.")
@option(
    "ideal_network", "Replay the trace on an ideal network, however large it is: serialisation and transfer efficiency."
)
@option(
    "metrics", "A property that is computed from others: 'ipc = PAPI_TOT_INS / PAPI_TOT_CYC'; or a file of such lines."
)
@click.option(
    "--explain",
    is_flag=True,
    help="Print the steps this analysis consists of, and what they keep, instead of running it.",
)
@option("memory")
@cluster_options
@option("force")
@click.option("-q", "--quiet", is_flag=True, help="Print no diagnosis.")
@option("with_startup", "Diagnose start-up and shutdown, too; they are set apart by default.")
@option("jobs")
@grouped(shown=Shown, who=GivenCluster)
def analyze(
    source: Path,
    output: Path | None,
    properties: tuple[str, ...],
    patterns: tuple[Path, ...],
    topologies: tuple[Path, ...],
    metrics: tuple[str, ...],
    force: bool,
    jobs: int | None,
    memory: int | None,
    shown: Shown,
    who: GivenCluster,
    **asked: Any,
) -> None:
    """Find wait states in SOURCE, a store or a trace archive, write the severity cube, and say what is wrong with the
    run.

    An archive is converted to a temporary store first; to analyze it more than once, convert it once. A piece between
    two times since the start of the recording (0.3, 300ms) is analyzed as a trace by itself.

    The name of a cube says how it was made: NAME.severity of the whole trace, NAME.expert.severity by the rules of
    EXPERT, NAME.mpi_latesender.within-solve.severity of one property in one region. An older cube of that name is
    replaced if it was made in the same way; else --force does.

    With --phases or --bins severities are divided by phase or by time as well (tracecols show --over-time); sums over
    phases or bins are the severities of the analysis without. tracecols phases SOURCE proposes phases.

    Serialisation and transfer efficiency follow from a replay of the trace as if messages took no time, which costs
    less than the analysis up to 4 million calls that may wait. Of larger traces communication efficiency is not
    divided, unless --ideal-network is given.

    With --workers, --scheduler or --scheduler-file (extra dask) processes of their own do the work, also on other
    machines; the cube is the same.

    At the end there is the diagnosis that `tracecols diagnose CUBE` prints. It goes to the standard output if that is a
    terminal, else to standard error: scripts find one line there, the cube's name and size.

    \b
    A topology given by hand says where ranks are, all of them in an order or each by itself:
      {"name": "grid", "sizes": [2, 2], "order": "F"}           C: the last coordinate runs fastest; F: the first
      {"name": "grid", "sizes": [2, 2], "coordinates": [[0, 0], [1, 0], [0, 1], [1, 1]]}
    """
    from tracecols.analysis.opened import OpenedTrace
    from tracecols.analysis.request import Request
    from tracecols.analysis.run import run
    from tracecols.cli.diagnose import print_diagnosis
    from tracecols.cli.metrics import is_definition, with_specifications
    from tracecols.cli.progress import compiling_ahead, progress
    from tracecols.cli.sources import found_in, names_of, opened
    from tracecols.enhance.definitions.locations import find_locations
    from tracecols.enhance.definitions.topologies import load_descriptions
    from tracecols.errors import AnalysisError
    from tracecols.patterns.point_to_point import NOTES
    from tracecols.search.limits import lacking_for_causes
    from tracecols.severity.narrowed import in_a_name
    from tracecols.severity.storage import cube_folder
    from tracecols.store import Store
    from tracecols.store.outputs import check_not_read
    from tracecols.work.executors import Threads
    from tracecols.work.jobs import n_jobs
    from tracecols.work.memory import Budget

    who.check(threads_use_scratch=True)
    if memory is not None and who.is_given:
        raise click.UsageError(
            "--memory limits the threads of this process; workers of a cluster have their own limits"
        )
    budget = Budget.default(memory, None if who.is_given else who.scratch)
    described = [d for file in topologies for d in load_descriptions(file)]
    definitions = [text for text in metrics if is_definition(text)]
    # once: to read what an archive defines takes a part of a small analysis
    found = found_in(source)
    request = Request.of(
        names_of(found),
        patterns=patterns,
        properties=properties or None,
        topologies=described,
        metrics=definitions,
        **asked,
    )
    if isinstance(found, Store):
        find_locations(found, request.choice.locations, error=AnalysisError)
    if shown.explain:
        from tracecols.report.explanation import print_plan

        with opened(found, jobs) as store:
            print_plan(store, request)
        return
    facts = request.facts()
    if output is None:
        name = source
        if not isinstance(found, Store):
            from tracecols.conversion import store_name

            name = store_name(source)
        made_so = in_a_name(request.conventions, facts)
        output = Path(".".join(filter(None, (name.with_suffix("").name, made_so, "severity"))))
    check_not_read(output, source)
    cube_folder(output, facts, force=force).check()
    sees = {"the store": found.path} if isinstance(found, Store) else {}
    with (
        compiling_ahead(n_jobs(jobs)),
        who.opened(jobs, source if sees else output, sees) as cluster,
        opened(found, jobs, cluster, budget.scratch) as store,
    ):
        # what an archive has in memory is not kept
        del found
        executor = Threads(n_jobs(jobs), budget) if cluster is None else cluster
        lacking = None if properties else lacking_for_causes(store, executor.capacity)
        if lacking is not None:
            echo(f"note: {lacking}", err=True)
        cube = run(request, OpenedTrace(store, jobs, budget), cluster, progress)
    cube = with_specifications(cube, [text for text in metrics if not is_definition(text)])
    cube.save(output, force=force)
    echo(f"{output}: {cube.summary()}")
    for what, n in worth_telling(cube.facts["counts"]).items():
        echo(f"note: {note(n, what + (f' ({NOTES[what]})' if what in NOTES else ''))}", err=True)
    if "time" in cube.cells and not shown.quiet:
        is_terminal = sys.stdout.isatty()
        echo(err=not is_terminal)
        print_diagnosis(cube.diagnosis(with_startup=shown.with_startup), str(output), err=not is_terminal)
