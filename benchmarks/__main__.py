"""The command line: `python -m benchmarks run`, `compare`, `table`, `list`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import results as kept
from benchmarks.peers import STEPS
from benchmarks.process import TaskError, run_task
from benchmarks.steps import Step
from benchmarks.workloads import BYTES_PER_EVENT, Workload, choose, workloads
from tracecols.jobs import n_jobs


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=180)


def _log(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {text}", file=sys.stderr, flush=True)


def _why_not(step: Step, workload: Workload, facts: dict[str, Any], archive: Path) -> str:
    """Say why a step is left out on a workload; empty if it is not."""
    if step.family and not facts["n_rows"].get(step.family):
        return "no such events"
    if step.most_events is not None and facts["n_events"] > step.most_events:
        return f"more than {step.most_events:,} events"
    return step.missing(archive) if step.missing is not None else ""


def measure(
    workload: Workload, steps: list[Step], scratch: Path, *, n_events: int, jobs: int, rounds: int
) -> dict[str, Any]:
    """Measure steps on a workload, each in a process of its own; what fails is part of the result."""
    entry: dict[str, Any] = {
        "about": workload.about,
        "series": workload.series,
        "load": kept.load(),
        "steps": {},
    }
    needed, free = workload.n_events * BYTES_PER_EVENT, shutil.disk_usage(scratch).free
    if needed > free:
        entry["failed"] = f"no room: needs {needed / 2**30:.0f} GiB, {free / 2**30:.0f} GiB are free (--scratch)"
        _log(f"{workload.name}: {entry['failed']}")
        return entry
    with tempfile.TemporaryDirectory(prefix="tracecols-", dir=scratch) as place:
        common = {"folder": place, "jobs": jobs, "rounds": rounds}
        _log(f"{workload.name}: {workload.about}")
        try:
            made = run_task({**common, "workload": workload.name, "n_events": n_events})
        except TaskError as error:
            entry["failed"] = str(error)
            _log(f"{workload.name}: FAILED: {error}")
            return entry
        facts = entry["facts"] = made["facts"]
        n = facts["n_events"]
        _log(f"{workload.name}: {n:,} events, {facts['n_locations']:,} locations")
        for step in steps:
            if workload.series and not step.in_series:
                continue
            reason = _why_not(step, workload, facts, Path(made["archive"]))
            if reason:
                entry["steps"][step.name] = {"left_out": reason}
                continue
            try:
                task = {**common, "step": step.name, "archive": made["archive"], "store": made["store"], "n_events": n}
                found = entry["steps"][step.name] = kept.summarize(run_task(task), n)
            except TaskError as error:
                entry["steps"][step.name] = {"failed": str(error)}
                _log(f"{workload.name}: {step.title}: FAILED: {error}")
                continue
            _log(
                f"{workload.name}: {step.title}: {kept.short(found['seconds']['median'])} s, "
                f"{kept.short(found['ns_per_event'])} ns/event, {kept.mebibytes(found['peak_bytes'])} MiB"
            )
    return entry


def run(given: argparse.Namespace) -> int:
    """Measure, print tables, write JSON and the report; 1 if anything failed."""
    from benchmarks.report import write_report

    n_events = int(given.events)
    chosen = choose(given.workloads, given.large, n_events)
    steps = [s for s in STEPS.values() if any(fnmatch(s.name, p) for p in given.steps or ["*"])]
    if not steps:
        raise ValueError(f"no step matches {' '.join(given.steps)}; there are {', '.join(STEPS)}")
    if given.rounds < 1:
        raise ValueError("at least one round is needed")
    for folder in (given.output, given.scratch):
        folder.mkdir(parents=True, exist_ok=True)
    jobs = n_jobs(given.jobs)
    results: kept.Results = {
        "format": kept.FORMAT,
        "version": kept.VERSION,
        "machine": kept.machine(),
        "versions": kept.versions(),
        "options": {"rounds": given.rounds, "jobs": jobs, "n_events": n_events, "large": given.large},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "workloads": {},
    }
    begin = time.perf_counter()
    console = _console()
    path = given.output / "results.json"
    for i, workload in enumerate(chosen, 1):
        _log(f"workload {i} of {len(chosen)}")
        entry = measure(workload, steps, given.scratch, n_events=n_events, jobs=jobs, rounds=given.rounds)
        results["workloads"][workload.name] = entry
        results["seconds"] = time.perf_counter() - begin
        # whatever happens later, what was measured is kept
        kept.write(results, path)
        if "facts" in entry:
            console.print(kept.of_workload(workload.name, entry).terminal())
    for sheet in (*kept.sheets(results), kept.exceptions(results)):
        if sheet.rows:
            console.print(sheet.terminal())
    console.print(kept.circumstances(results), highlight=False)
    for written in (path, *write_report(results, given.output)):
        console.print(f"wrote {written}", highlight=False)
    return int(any(row[2].startswith("FAILED") for row in kept.exceptions(results).rows))


def compare(given: argparse.Namespace) -> int:
    """Print what has changed."""
    sheet, n_slower = kept.compare(kept.read(given.old), kept.read(given.new))
    _console().print(sheet.terminal())
    print(f"{n_slower} of {len(sheet.rows)} steps are slower beyond noise")
    return 0


def table(given: argparse.Namespace) -> int:
    """Print tables in Markdown."""
    found = kept.read(given.results)
    print("\n\n".join([kept.circumstances(found), *(s.markdown() for s in kept.sheets(found))]))
    return 0


def report(given: argparse.Namespace) -> int:
    """Write the report again."""
    from benchmarks.report import write_report

    for written in write_report(kept.read(given.results), given.output or given.results.parent):
        print(f"wrote {written}")
    return 0


def show(given: argparse.Namespace) -> int:
    """Print workloads and steps."""
    for title, names in (
        ("workloads", {w.name: w.about + (" (with --large)" if w.is_large else "") for w in workloads().values()}),
        ("steps", {s.name: s.title for s in STEPS.values()}),
    ):
        print(f"{title}:")
        for name, about in names.items():
            print(f"  {name:24}{about}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure how fast tracecols is.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add = commands.add_parser("run", help="measure, and write results.json, report.html and plots")
    add.add_argument("-o", "--output", type=Path, default=Path("benchmark-results"), metavar="FOLDER")
    add.add_argument("--large", action="store_true", help="10^8 and 10^9 events, too: an hour more, and 45 GB of room")
    add.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="some only; shell patterns (see list)")
    add.add_argument("--steps", nargs="+", default=[], metavar="NAME", help="some only; shell patterns (see list)")
    add.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="how often, besides once to warm up (default 5)"
    )
    add.add_argument("--jobs", type=int, metavar="N", help="threads where there are several (default: one per core)")
    add.add_argument("--events", type=float, default=1e7, help="events of the irregular workloads (default 1e7)")
    add.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), metavar="FOLDER",
        help="where generated traces and stores stand while they are measured",
    )  # fmt: skip
    add.set_defaults(function=run)

    add = commands.add_parser("compare", help="print what has changed between two results")
    add.add_argument("old", type=Path, metavar="OLD.json")
    add.add_argument("new", type=Path, metavar="NEW.json")
    add.set_defaults(function=compare)

    add = commands.add_parser("table", help="print the tables of results in Markdown")
    add.add_argument("results", type=Path, metavar="RESULTS.json")
    add.set_defaults(function=table)

    add = commands.add_parser("report", help="write report.html and the plots of results again")
    add.add_argument("results", type=Path, metavar="RESULTS.json")
    add.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="default: where the results stand")
    add.set_defaults(function=report)

    add = commands.add_parser("list", help="print workloads and steps")
    add.set_defaults(function=show)

    given = parser.parse_args(arguments)
    try:
        return int(given.function(given))
    except (ValueError, kept.ResultsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
