"""Runtime and factors of all traces: equal wherever they are told, and against a plain program over exported events."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import DATA, SHARED, slow

import tracecols
from tracecols.cli import group
from tracecols.schema.kinds import EventKind
from tracecols.severity.diagnosis import factors
from tracecols.severity.efficiencies import REPLAY, metrics, times_of

QUICK = [DATA / "hybrid_2x3", DATA / "coll"]


def recorded() -> list[Path]:
    """Return the recorded traces beside the repository."""
    folders = [SHARED / name for name in ("otf2", "otf2_gpu", "injected")]
    return sorted(p for folder in folders if folder.is_dir() for p in folder.iterdir() if p.is_dir())


def merged() -> list[Path]:
    """Return the recorded EPILOG traces, and those with clocks that disagree, beside the repository."""
    return sorted([*SHARED.glob("epilog/*/*.elg"), *SHARED.glob("otf2_clocks/*/traces.otf2")])


EVERY = [*QUICK, *slow(p for p in recorded() if p.name not in {q.name for q in QUICK})]


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Return a function that returns the store of a recorded trace and the folder it is in, converted once."""
    made = {}

    def convert(source: Path):
        if source not in made:
            folder = tmp_path_factory.mktemp("f")
            made[source] = tracecols.convert(source, folder / "x.trace"), folder
        return made[source]

    return convert


def run(*arguments) -> str:
    result = CliRunner().invoke(group, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def by_metric(rows) -> dict[tuple[str, str], float | None]:
    """Return values by model and metric; None where they are not defined."""
    return {(r["model"], r["metric"]): None if r["value"] != r["value"] else r["value"] for r in rows}


@pytest.mark.parametrize("source", [*EVERY, *slow(merged())], ids=lambda p: f"{p.parent.name}-{p.name}")
def test_factors__are_equal_wherever_they_are_told(source, converted):
    store, folder = converted(source)
    cube, other = folder / "x.severity", folder / "y.severity"
    run("analyze", store, "-o", cube, "-q", "--force")
    run("analyze", store, "-o", other, "-q", "--force")
    diagnosed = json.loads(run("diagnose", cube, "--json"))
    wanted = by_metric(diagnosed["efficiencies"])
    assert by_metric(json.loads(run("efficiency", cube, "--json"))["runs"][0]["efficiencies"]) == wanted
    assert by_metric(json.loads(run("efficiency", store, "--json"))["runs"][0]["efficiencies"]) == wanted
    trace, read = tracecols.open(store), tracecols.SeverityCube.load(cube)
    for table in (trace.efficiencies(), read.efficiencies(), read.focused().efficiencies()):
        assert by_metric(table.to_dict("records")) == wanted
    runtime = wanted["run", "runtime"]
    assert diagnosed["runtime"] == runtime
    assert tracecols.compare([read, tracecols.SeverityCube.load(other)]).runtimes() == [runtime, runtime]
    assert f"{runtime:,.6f} s" in run("compare", cube, other)
    predicted = CliRunner().invoke(group, ["what-if", str(store), "--json"])
    # without changes the run is as it was recorded; replay does not set the start of devices apart
    of_hosts = predicted.exit_code == 0 and not diagnosed["n_devices"]
    assert not of_hosts or json.loads(predicted.stdout)["recorded_runtime"] == runtime
    # no process has more of the focus than its runtime
    d = read.diagnosis()
    threads = [i for i, kind in enumerate(read.system.location_type) if kind not in ("gpu", "metric")]
    if read.by_location("time")[threads].max() <= d.recorded * (1 + 1e-12):
        # not so where nested teams of one recording have more time than it lasts
        assert read.focused().by_location("time")[threads].max() <= runtime * (1 + 1e-12)
    # what is marked is by replay, if it depends on the ideal network
    marked = factors(d.efficiencies, d.has_teams).get(d.lowest)
    assert marked is None or marked.by in ("", REPLAY)


# -- a plain program over exported events


ENTERS = {int(EventKind.ENTER), int(EventKind.PROGRAM_BEGIN)}
LEAVES = {int(EventKind.EXIT), int(EventKind.PROGRAM_END)}
INIT, FINALIZE = ("mpi_init", "mpi_init_thread"), "mpi_finalize"


def exported(store: Path, folder: Path) -> dict[str, pd.DataFrame]:
    """Return events, regions and locations as `tracecols export` writes them."""
    found = {}
    for name in ("events", "regions", "locations"):
        run("export", store, folder / f"{name}.parquet", "--table", name, "--raw", "--force")
        found[name] = pd.read_parquet(folder / f"{name}.parquet")
    return found


def walk(events: pd.DataFrame, is_mpi: dict[int, bool], names: dict[int, str]):
    """Walk through the events of one location: when it leaves MPI_Init and enters MPI_Finalize, and when it is in MPI."""
    begin = end = entered = None
    stack, in_mpi = [], []
    for time, kind, region in zip(events.time.tolist(), events.kind.tolist(), events.region.tolist(), strict=True):
        if kind in ENTERS:
            if names[region] == FINALIZE and end is None:
                end = time
            if is_mpi[region] and entered is None:
                entered = time, len(stack)
            stack.append(region)
        elif kind in LEAVES and stack:
            region = stack.pop()
            if names[region] in INIT and begin is None:
                begin = time
            if entered is not None and len(stack) == entered[1]:
                in_mpi.append((entered[0], time))
                entered = None
    if entered is not None:
        in_mpi.append((entered[0], events.time.iloc[-1]))
    return begin, end, in_mpi


def plain_factors(tables: dict[str, pd.DataFrame]) -> dict[tuple[str, str], float]:
    """Work out the factors from their definitions: those of MPI, and without threads and devices all but the replay's."""
    regions, locations = tables["regions"], tables["locations"]
    names = {i: n.lower().rstrip("_") for i, n in zip(regions.id, regions.name, strict=True)}
    is_mpi = {i: p == "mpi" and names[i] != "parallel" for i, p in zip(regions.id, regions.paradigm, strict=True)}
    names[-1], is_mpi[-1] = "", False
    cpus = locations[locations.type == "cpu_thread"]
    n_threads = Counter(cpus.process)
    walked = {}
    for number, row in enumerate(locations.itertuples()):
        if row.type == "cpu_thread" and row.thread == 0:
            mine = tables["events"][tables["events"].location == number].sort_values("row")
            walked[row.process] = walk(mine, is_mpi, names)
    first = min(b for b, _, _ in walked.values() if b is not None)
    last = max(e for _, e, _ in walked.values() if e is not None)
    outside, weight = [], []
    for process, (begin, end, in_mpi) in walked.items():
        begin, end = first if begin is None else begin, last if end is None else end
        spent = sum(max(min(b, end) - max(a, begin), 0) for a, b in in_mpi)
        outside.append(end - begin - spent)
        weight.append(n_threads[process])
    runtime, longest = last - first, max(outside)
    mean = sum(o * w for o, w in zip(outside, weight, strict=True)) / sum(weight)
    if set(n_threads.values()) == {1}:
        names_of = ("mpi", "parallel_efficiency", "load_balance", "communication_efficiency")
    else:
        prefix = "mpi_parallel_efficiency", "mpi_load_balance", "mpi_communication_efficiency"
        names_of = ("hybrid multiplicative", *prefix)
    model, *metrics = names_of
    return dict(zip(((model, m) for m in metrics), (mean / runtime, mean / longest, longest / runtime), strict=True))


@pytest.mark.parametrize("source", EVERY, ids=lambda p: p.name)
def test_factors_of_mpi__are_what_a_plain_program_finds_in_exported_events(source, converted):
    store, folder = converted(source)
    tables = exported(store, folder)
    entered = set(tables["events"].region[tables["events"].kind.isin(ENTERS)])
    used = tables["regions"][tables["regions"].id.isin(entered)]
    paradigms = set(used.paradigm)
    starts = {n.lower().rstrip("_") for n in used.name}
    if not (starts & set(INIT) and FINALIZE in starts):
        pytest.skip("MPI does not start and end in it")
    cube = tracecols.open(store).analyze()
    values = {(m.model, m.metric): m.value for m in metrics(times_of(cube))}
    if "creating" in cube.focused().facts["focus"] and cube.focused().facts["focus"]["creating"]:
        pytest.skip("the creation of contexts of devices is set apart, too")
    checked = 0
    for key, value in plain_factors(tables).items():
        is_pure = key[0] == "mpi"
        if is_pure and paradigms & {"openmp", "pthread", "cuda", "opencl", "openacc", "hip"}:
            continue
        if key in values:
            checked += 1
            assert values[key] == pytest.approx(value, rel=1e-9), key
    assert (
        checked == 3
        or paradigms & {"pthread", "cuda", "opencl", "openacc", "hip"}
        or "gpu" in set(tables["locations"].type)
    )


@pytest.mark.parametrize("source", EVERY, ids=lambda p: p.name)
def test_models__are_those_of_what_the_program_uses(source, converted):
    cube = tracecols.open(converted(source)[0]).analyze()
    found = list(metrics(times_of(cube)))
    words = {word for m in found for word in m.metric.split("_")}
    paradigms = set(cube.call_paths.paradigm)
    assert ("openmp" in words) <= ("openmp" in paradigms)
    assert ("mpi" in words or "serialisation" in words) <= ("mpi" in paradigms)
    assert all(math.isfinite(m.value) for m in found if m.unit == "share" and m.by == REPLAY)
    d = cube.diagnosis()
    assert ("OpenMP  " in d.text()) <= ("openmp" in paradigms)
