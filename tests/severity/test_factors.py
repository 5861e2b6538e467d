"""Runtime and factors of all traces: equal in all outputs, and compared with a plain program over exported events."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from conftest import DATA, slow
from support.browser import header_of
from support.command_line import run
from support.recordings import name_of, recordings

import tracecols
from tracecols.report.diagnosis import efficiency_rows, heading
from tracecols.schema.kinds import EventKind
from tracecols.severity import SeverityCube
from tracecols.severity.diagnosis import factors
from tracecols.severity.efficiencies import REPLAY, metrics, times_of

QUICK = [DATA / "hybrid_2x3"]
OTHERS = [p for p in recordings() if name_of(p) in (
    "epilog-fuzz_14", "epilog-io_4", "epilog-omp_1x3", "injected-pthread_cond", "injected-rma_fence",
    "kineto-hta_cuda_sync-alexnet_cuda_sync", "traces-nsight-mfu_2gpu_before", "otf2-metrics_rusage", "otf2-omp_nested",
    "otf2-omp_tasks", "otf2-rma_real_5", "otf2-std_thread", "otf2-tealeaf_3x2", "otf2_clocks-clock_hyb_2x3",
    "otf2_gpu-cuda_simple", "otf2_gpu-mpi_tags", "otf2_small-one_location_no_events", "paraver-epoch-epoch_8proc",
)]  # fmt: skip
"""Traces of all formats, and of all combinations of paradigms."""


def told(*arguments) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def by_metric(rows) -> dict[tuple[str, str], float | None]:
    """Return values by model and metric; None where they are not defined."""
    return {(r["model"], r["metric"]): None if r["value"] != r["value"] else r["value"] for r in rows}


def check_screens(cube: SeverityCube, folder: Path, printed: str) -> None:
    """Check that the first screen of `analyze` is the diagnosis, and agrees with the overview of the report."""
    d = cube.diagnosis()
    assert d.text(str(folder / "x.severity")) in printed
    assert d.text(str(folder / "x.severity")) in told("diagnose", folder / "x.severity")
    told("report", folder / "x.severity", "-o", folder / "x.html", "--force")
    header = header_of(folder / "x.html")
    overview, (first, *_) = header["overview"], heading(d)
    assert overview["heading"][0] == first
    factors_shown = [cell["text"] for row in overview["efficiencies"][1:] for cell in row["cells"]]
    assert factors_shown == [cell.strip(" <") for _, cells in list(efficiency_rows(d))[1:] for cell in cells]
    assert [f["title"] for f in overview["findings"]] == [f.what or f.title for f in d.findings]
    # report, terminal and diagnosis show the same time
    focused = cube.focused()
    shown = {
        r["property"]: r["value"]
        for r in json.loads(told("show", folder / "x.severity", "--json", "--min-share", "0"))["properties"]
    }
    for name, stored in zip(header["properties"]["id"], header["properties"]["stored"], strict=True):
        total = float(stored["total"]) / stored["scale"]
        # fractions of ticks are added up in a different order
        assert total == pytest.approx(focused.total(name), rel=1e-14 if stored["kind"] != "float" else 1e-12), name
        assert shown.get(name, 0.0) == focused.total(name), name
    assert d.seconds == shown.get("time", 0.0)


def check_rules(cube: SeverityCube, folder: Path, store: Path) -> None:
    """Check that rules of the cube and of the store count the same time as the other commands."""
    found = {
        of: json.loads(told("rules", source, "--json"))
        for of, source in (("cube", folder / "x.severity"), ("store", store))
    }
    by_rule = {of: {r["rule"]: r for r in rules} for of, rules in found.items()}
    focused = cube.focused()
    for rule in ("communication_costs", "synchronization_costs", "io_costs", "costs", "other_losses"):
        of_cube, of_store = by_rule["cube"][rule], by_rule["store"][rule]
        assert of_cube["severity"] == of_store["severity"], rule
        if focused.total("time"):
            assert of_cube["share"] == pytest.approx(of_cube["severity"] / focused.total("time"), rel=1e-12), rule
    mpi = focused.total("mpi") if "mpi" in focused.cells else 0.0
    of_mpi = sum(by_rule["cube"][rule]["severity"] for rule in ("communication_costs", "synchronization_costs"))
    of_mpi += focused.total("mpi_io") if "mpi_io" in focused.cells else 0.0
    assert of_mpi == pytest.approx(mpi, rel=1e-9, abs=1e-12)
    axis = focused.properties
    titles = {
        axis.title[axis.number[name]]: name for top in ("time", "execution") for name in axis.children.get(top, ())
    }
    for said in by_rule["cube"]["other_losses"]["statements"]:
        assert said["severity"] == pytest.approx(focused.total(titles[said["name"]]), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("source", [*QUICK, *OTHERS], ids=name_of)
def test_factors__are_equal_wherever_they_are_told(source, store_of, tmp_path):
    store, folder = store_of(source), tmp_path
    cube, other = folder / "x.severity", folder / "y.severity"
    printed = run("analyze", store, "-o", cube, "--force")
    assert printed.exit_code == 0, printed.output
    shutil.copytree(cube, other, dirs_exist_ok=True)
    diagnosed = json.loads(told("diagnose", cube, "--json"))
    wanted = by_metric(diagnosed["efficiencies"])
    both = json.loads(told("efficiency", cube, other, "--json"))
    assert [by_metric(r["efficiencies"]) for r in both["runs"]] == [wanted, wanted]
    assert by_metric(json.loads(told("efficiency", store, "--json"))["runs"][0]["efficiencies"]) == wanted
    read = SeverityCube.load(cube)
    focused = read.focused()
    for table in (read.efficiencies(), focused.efficiencies()):
        assert by_metric(table.to_dict("records")) == wanted
    runtime = wanted["run", "runtime"]
    assert diagnosed["runtime"] == runtime
    printed_change = told("compare", cube, other, "-o", folder / "change.json", "--force")
    compared = json.loads((folder / "change.json").read_text(encoding="utf-8"))
    assert [r["runtime"] for r in compared["runs"]] == [runtime, runtime]
    assert not runtime or f"{runtime:,.6f} s" in printed_change
    totals = {r["property"]: r for r in compared["properties"]}
    assert all(
        r["change"] == 0 and r["x"] == r["y"] == focused.total(p) for p, r in totals.items() if r["x"] is not None
    )
    if "comp" in totals:
        assert wanted["computation", "useful_total"] == pytest.approx(totals["comp"]["x"], rel=1e-12)
    check_screens(read, folder, printed.stderr)
    check_rules(read, folder, store)
    predicted = run("what-if", store, "--json")
    if predicted.exit_code == 0:
        # without changes, the run is predicted as recorded
        ticks = [
            round(seconds * read.resolution) for seconds in (runtime, json.loads(predicted.stdout)["recorded_runtime"])
        ]
        assert ticks[0] == ticks[1]
    # no location has more time in the focus than its runtime
    d = read.diagnosis()
    threads = [i for i, kind in enumerate(read.system.location_type) if kind not in ("gpu", "metric")]
    if read.by_location("time")[threads].max() <= d.recorded * (1 + 1e-12):
        # except for a recording whose nested teams have more time than it lasts
        assert focused.by_location("time")[threads].max() <= runtime * (1 + 1e-12)
    # the marked factor is by replay if it depends on the ideal network
    marked = factors(d.efficiencies, d.has_teams).get(d.lowest)
    assert marked is None or marked.by in ("", REPLAY)


# -- a plain program over exported events


ENTERS = {int(EventKind.ENTER), int(EventKind.PROGRAM_BEGIN)}
LEAVES = {int(EventKind.EXIT), int(EventKind.PROGRAM_END)}
NO_COMPUTATION = {"openmp", "pthread", "cuda", "opencl", "openacc", "hip", "measurement_system"}
"""Paradigms other than MPI whose time is no computation."""
INIT, FINALIZE = ("mpi_init", "mpi_init_thread"), "mpi_finalize"


def exported(store: Path, folder: Path) -> dict[str, pd.DataFrame]:
    """Return events, regions and locations as `tracecols export` writes them."""
    found = {}
    for name in ("events", "regions", "locations"):
        told("export", store, folder / f"{name}.parquet", "--table", name, "--raw", "--force")
        found[name] = pd.read_parquet(folder / f"{name}.parquet")
    return found


def walk(events: pd.DataFrame, is_mpi: dict[int, bool], names: dict[int, str]):
    """Return when a location leaves MPI_Init and enters MPI_Finalize, and the intervals in which it is in MPI."""
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
    """Return parallel efficiency, load balance and communication efficiency of MPI by their definitions."""
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


def check_factors_of_mpi(cube: SeverityCube, tables: dict[str, pd.DataFrame]) -> None:
    """Check that the factors of MPI equal those of a plain program, if MPI starts and ends."""
    entered = set(tables["events"].region[tables["events"].kind.isin(ENTERS)])
    used = tables["regions"][tables["regions"].id.isin(entered)]
    paradigms = set(used.paradigm)
    starts = {n.lower().rstrip("_") for n in used.name}
    if not (starts & set(INIT) and FINALIZE in starts):
        # MPI does not start and end in it
        return
    values = {(m.model, m.metric): m.value for m in metrics(times_of(cube))}
    if "creating" in cube.focused().facts["focus"] and cube.focused().facts["focus"]["creating"]:
        # the creation of device contexts is set apart, too
        return
    checked = 0
    for key, value in plain_factors(tables).items():
        is_pure = key[0] == "mpi"
        if is_pure and paradigms & NO_COMPUTATION:
            continue
        if key in values:
            checked += 1
            assert values[key] == pytest.approx(value, rel=1e-9), key
    assert checked == 3 or paradigms & NO_COMPUTATION or "gpu" in set(tables["locations"].type)


def check_models(cube: SeverityCube) -> None:
    """Check that only models that the program uses have factors."""
    found = list(metrics(times_of(cube)))
    words = {word for m in found for word in m.metric.split("_")}
    paradigms = set(cube.call_paths.paradigm)
    assert ("openmp" in words) <= ("openmp" in paradigms)
    assert ("mpi" in words or "serialisation" in words) <= ("mpi" in paradigms)
    assert all(math.isfinite(m.value) for m in found if m.unit == "share" and m.by == REPLAY)
    assert ("OpenMP  " in cube.diagnosis().text()) <= ("openmp" in paradigms)


@pytest.mark.parametrize("source", [*QUICK, *slow(OTHERS)], ids=name_of)
def test_factors__are_those_of_what_the_program_uses_and_a_plain_program_finds(source, store_of, tmp_path):
    """The factors of MPI are computed from exported events."""
    cube = tracecols.open(store_of(source)).analyze()
    check_models(cube)
    check_factors_of_mpi(cube, exported(store_of(source), tmp_path))
