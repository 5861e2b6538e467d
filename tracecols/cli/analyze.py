"""tracecols analyze"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tracecols.cli.cluster import GivenCluster, cluster_options
from tracecols.cli.options import parameters, width
from tracecols.cli.output import echo
from tracecols.cli.vocabulary import FILE, PATH, grouped, option, part_options
from tracecols.schema.notes import note, worth_telling
from tracecols.schema.severity import DEFAULT

if TYPE_CHECKING:
    from tracecols.analysis.request import Request
    from tracecols.severity.cube import SeverityCube


class OutputOptions(NamedTuple):
    """Options for the output of an analysis."""

    explain: bool
    quiet: bool
    with_startup: bool


@click.command()
@click.argument("source", type=PATH)
@option(
    "output",
    "The cube to write.  [default: the trace's name and what the cube is narrowed to, in the current folder]",
    metavar="NAME.severity",
)
@option("conventions", default=DEFAULT, show_default=True)
@click.option(
    "--topology",
    "topologies",
    type=FILE,
    multiple=True,
    metavar="FILE.json",
    help="A grid that the trace does not define; may be given several times.",
)
@option("properties", "Search only for this property, or several separated by commas; their ancestors are included.")
@option("patterns")
@option("given", "Set a parameter of a property.", called="parameters", callback=parameters, metavar="P.NAME=VALUE")
@part_options
@option("locations", "Only severities of these locations: numbers, or text such as 'rank 0-3 thread 1'.")
@option("phases")
@click.option("--bins", type=click.IntRange(1), metavar="N", help="Divide into N time bins instead.")
@click.option("--bin-width", callback=width, metavar="TIME", help="Divide into time bins of this width, such as 10ms.")
@option(
    "ideal_network", "Replay the trace on an ideal network, even if it is large: serialisation and transfer efficiency."
)
@option("metrics", "A property computed from others: 'ipc = PAPI_TOT_INS / PAPI_TOT_CYC'; or a file of such lines.")
@click.option(
    "--explain", is_flag=True, help="Print the steps of this analysis, and what they keep, instead of running it."
)
@option("memory")
@cluster_options
@option("force")
@click.option("-q", "--quiet", is_flag=True, help="Print no diagnosis.")
@option("with_startup", "Include start-up and shutdown in the diagnosis; they are excluded by default.")
@option("jobs")
@grouped(shown=OutputOptions, who=GivenCluster)
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
    shown: OutputOptions,
    who: GivenCluster,
    **asked: Any,
) -> None:
    """Find wait states in SOURCE, a store or a trace archive, write the severity cube, and diagnose the run.

    An archive is converted to a temporary store first; to analyse it more than once, run tracecols convert once. The
    part between two times since the start of the recording (0.3, 300ms) is analysed as a trace of its own.

    The name of a cube says how it was made: NAME.severity for the whole trace, NAME.expert.severity by the rules of
    EXPERT, NAME.mpi_latesender.within-solve.severity for one property in one region. An existing cube of that name is
    replaced if it was made in the same way, otherwise only with --force.

    With --phases or --bins, severities are also broken down by phase or time bin (tracecols show --over-time); their
    sums are the same as without. tracecols phases SOURCE proposes phases.

    Serialisation and transfer efficiency are found by a replay of the trace as if messages took no time, which costs
    less than the analysis up to 4 million calls that may wait. For larger traces, communication efficiency is not
    divided unless --ideal-network is given.

    With --workers, --scheduler or --scheduler-file (extra dask), worker processes do the work, also on other machines;
    the cube is the same.

    At the end, the diagnosis of `tracecols diagnose CUBE` is printed, to standard output if that is a terminal, else to
    standard error. In scripts, standard output is thus one line: the cube's name and size.

    \b
    A --topology file says where ranks are, by an order of all or by the coordinates of each:
      {"name": "grid", "sizes": [2, 2], "order": "F"}           C: the last coordinate runs fastest; F: the first
      {"name": "grid", "sizes": [2, 2], "coordinates": [[0, 0], [1, 0], [0, 1], [1, 1]]}
    """
    from tracecols.analysis.opened import OpenedTrace
    from tracecols.analysis.request import Request
    from tracecols.analysis.run import run
    from tracecols.cli.metrics import is_definition, with_specifications
    from tracecols.cli.progress import compiling_ahead, progress
    from tracecols.cli.sources import found_in, names_of, opened
    from tracecols.enhance.definitions.locations import find_locations
    from tracecols.enhance.definitions.topologies import load_descriptions
    from tracecols.errors import AnalysisError
    from tracecols.search.limits import lacking_for_causes
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
    # opened only once: reading the definitions of an archive takes a notable part of a small analysis
    found = found_in(source)
    request = Request.of(
        names_of(found),
        patterns=patterns,
        properties=properties or None,
        topologies=[described for file in topologies for described in load_descriptions(file)],
        metrics=list(filter(is_definition, metrics)),
        **asked,
    )
    if isinstance(found, Store):
        find_locations(found, request.choice.locations, error=AnalysisError)
    if shown.explain:
        from tracecols.report.explanation import print_plan

        with opened(found, jobs) as store:
            print_plan(store, request)
        return
    output = output or default_output(source, request)
    check_not_read(output, source)
    cube_folder(output, request.facts(), force=force).check()
    sees = {"the store": found.path} if isinstance(found, Store) else {}
    with (
        compiling_ahead(n_jobs(jobs)),
        who.opened(jobs, source if sees else output, sees) as cluster,
        opened(found, jobs, cluster, budget.scratch) as store,
    ):
        # free the memory of an opened archive
        del found
        executor = Threads(n_jobs(jobs), budget) if cluster is None else cluster
        lacking = None if properties else lacking_for_causes(store, executor.capacity)
        if lacking is not None:
            echo(f"note: {lacking}", err=True)
        cube = run(request, OpenedTrace(store, jobs, budget), cluster, progress)
    cube = with_specifications(cube, metrics)
    cube.save(output, force=force)
    print_result(cube, output, shown)


def default_output(source: Path, request: Request) -> Path:
    """Return the cube of an analysis, in the current folder: the name of its store or archive, and how it is made."""
    from tracecols.cli.sources import is_store
    from tracecols.conversion import store_name
    from tracecols.severity.narrowed import in_a_name

    name = source if is_store(source) else store_name(source)
    made_so = in_a_name(request.conventions, request.facts())
    return Path(".".join(filter(None, (name.with_suffix("").name, made_so, "severity"))))


def print_result(cube: SeverityCube, output: Path, shown: OutputOptions) -> None:
    """Print name and size of a cube, notes on it, and its diagnosis."""
    from tracecols.cli.diagnose import print_diagnosis
    from tracecols.patterns.point_to_point import NOTES

    echo(f"{output}: {cube.summary()}")
    for what, n in worth_telling(cube.facts["counts"]).items():
        echo(f"note: {note(n, what + (f' ({NOTES[what]})' if what in NOTES else ''))}", err=True)
    if "time" in cube.cells and not shown.quiet:
        is_terminal = sys.stdout.isatty()
        echo(err=not is_terminal)
        print_diagnosis(cube.diagnosis(with_startup=shown.with_startup), str(output), err=not is_terminal)
