"""The benchmarks: every step runs in a separate process, figures follow from seconds, and tables from figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tracecols
from benchmarks import generate, goals, results, viewer
from benchmarks.__main__ import main
from benchmarks.peers import PEERS, STEPS
from benchmarks.process import StepProcess
from benchmarks.steps import STEPS as OWN
from benchmarks.steps import Subject
from benchmarks.workloads import RECORDED, ROOT, SERIES, bytes_of, choose, workloads
from tracecols.patterns.registry import FAMILIES

COUNTED = {
    "table_messages": lambda trace: trace.messages,
    "table_teams": lambda trace: trace.teams,
    "table_constructs": lambda trace: trace.constructs,
    "messages_frame": lambda trace: trace.messages,
    "events_frame": lambda trace: trace.events,
    "load_events": lambda trace: trace.read_events(columns=["time"]),
}
"""By step: a table with as many rows as the step makes."""


@pytest.fixture(scope="module")
def subject(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("subject")
    archive = data / "hybrid_2x3" / "traces.otf2"
    store = tracecols.convert(archive, folder / "kept.trace")
    (folder / "scratch").mkdir()
    facts = {"n_events": 6708, "n_rows": {"p2p": 30, "collectives": 24, "threads": 72, "locks": 36}}
    return Subject("hybrid_2x3", archive, store, folder / "scratch", 2, facts=facts)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(OWN) - {"command_phases"}))
def test_step__runs_and_counts(subject, name):
    step = OWN[name]
    if step.why_not(subject) in ("no such events", f"{step.package} is not installed"):
        pytest.skip(step.why_not(subject))
    # without compiled kernels, the first commands after an installation run, too, but take longer
    assert step.why_not(subject) in ("", "no goal", step.missing() if step.missing else "")
    made = step.prepare(subject)()
    if name in COUNTED:
        assert made == len(COUNTED[name](tracecols.open(subject.store))) > 0


@pytest.mark.slow
def test_step__by_phases_divides_a_program_that_calls_mpi_waitall(tmp_path):
    archive = generate.write(generate.make("halo", 4, 1, 2000), tmp_path / "halo")
    (tmp_path / "scratch").mkdir()
    halo = Subject("halo", archive, tracecols.convert(archive, tmp_path / "halo.trace"), tmp_path / "scratch", 1)
    OWN["command_phases"].prepare(halo)()
    assert len(tracecols.SeverityCube.load(tmp_path / "scratch" / "made.severity").periods) > 1


@pytest.mark.slow
def test_events__are_the_same_in_sql_and_polars(subject):
    over = [s.prepare(subject)() for s in (OWN["events_sql"], OWN["events_polars"]) if not s.why_not(subject)]
    assert len(set(over)) <= 1


@pytest.mark.slow
def test_patterns__parts_are_families_and_add_up(subject):
    before = [list(f.properties) for f in FAMILIES]
    run = STEPS["patterns"].prepare(subject)
    subject.notes.clear()
    run()
    assert [f.properties for f in FAMILIES] == before
    assert {"point-to-point", "collective", "threads", "profile", "tables and sums"} <= set(subject.notes)
    assert min(subject.notes.values()) > 0


def test_why_not__says_what_is_missing(subject):
    large = Subject(
        "x",
        Path("epik.elg"),
        subject.store,
        subject.scratch,
        1,
        "exact",
        {"n_events": 10**9, "n_rows": {}, "series": "events"},
    )
    store = Subject("x", None, subject.store, subject.scratch, 1, "exact", {"n_events": 1, "n_rows": {"p2p": 1}})
    assert STEPS["command"].why_not(large) == "not in series"
    assert STEPS["table_messages"].why_not(large) == "no such events"
    assert STEPS["table_calls"].why_not(large) == "more than 50,000,000 events"
    assert STEPS["library"].why_not(large) == "not an OTF2 archive"
    assert STEPS["decode"].why_not(store) == "the archive is not known"
    assert STEPS["scan"].why_not(large) == STEPS["scan"].why_not(store) == ""


def test_peers__do_what_a_step_does_from_an_archive():
    assert all(OWN[peer.against].needs == "archive" for peer in PEERS)


def test_workloads__are_named_once_and_chosen_by_pattern():
    names = [w.name for w in choose([], large=True)]
    assert set(names) - {w.name for w in choose([], large=False)} == {
        "events-100M", "events-1G", "dense-100M", "dense-1G", "dense-64-1G", "halo-1G", "lopsided-1G", "one-process-1G",
    }  # fmt: skip
    assert {w.series for w in workloads().values()} == {"", *SERIES, goals.SERIES}
    assert [w.name for w in choose(["events-1?"], large=False)] == ["events-1M", "events-1G"]
    with pytest.raises(ValueError, match="no workload matches 'nothing'"):
        choose(["nothing"], large=False)


def test_workloads__are_archives_and_stores_by_their_paths(subject):
    (given,) = choose([str(subject.store)], large=False)
    assert (given.name, given.make(subject.scratch)) == ("kept.trace", subject.store)


@pytest.mark.slow
def test_workloads__messages_become_more(tmp_path, monkeypatch):
    found = []
    with monkeypatch.context() as patch:
        # the contents of an archive are known without writing it
        patch.setattr(generate, "write", lambda source, folder, **_: source)
        for every in (1000, 140, 40, 10):
            truth = workloads()[f"messages-1-in-{every}"].make(tmp_path).truth
            assert 3_600_000 < truth.n_events < 4_400_000
            found.append(truth)
    shares = [truth.n_messages / truth.n_events for truth in found]
    assert shares[0] < shares[1] / 4 < shares[2] / 8 < shares[3] / 16
    assert 11 < bytes_of(workloads()["messages-1-in-10"].make(tmp_path)) / found[-1].n_events < 14


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_step_process__measures_in_a_process_of_its_own(subject):
    with StepProcess("enhance", subject) as process:
        first, second = process.run(is_watched=True), process.run()
        figures = process.figures()
    assert first.made == second.made > 10_000
    assert min(first.seconds, second.seconds) > 0
    assert figures["peak_bytes"] >= max(first.peak_bytes, second.peak_bytes) > figures["held_bytes"] > 10 << 20
    assert figures["processor_seconds"] == second.processor_seconds > 0
    assert not list(subject.store.parent.glob("made*"))


@pytest.mark.slow
def test_step_process__says_what_failed(subject, tmp_path):
    other = Subject("none", tmp_path / "none.otf2", tmp_path / "none.trace", subject.scratch, 1)
    with StepProcess("decode", other) as process, pytest.raises(tracecols.errors.TracecolsError, match="no such file"):
        process.run()


def run(*arguments, folder):
    """Run the benchmarks, which pytest-benchmark does not measure within a worker of pytest-xdist."""
    (folder / "scratch").mkdir()
    command = [sys.executable, "-m", "benchmarks", "run", "-o", str(folder / "out.json"), *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command += ["-p", "no:cacheprovider", "--scratch", str(folder / "scratch")]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_run__measures_and_makes_tables(tmp_path, capsys):
    pytest.importorskip("pytest_benchmark")
    steps = "pyarrow or (decode and not load) or table_epochs"
    done = run("--workloads", "hybrid_2x3", "-k", steps, "--rounds", "2", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 1 skipped" in done.stdout
    assert not list((tmp_path / "scratch").iterdir())
    found = json.loads((tmp_path / "out.json").read_text())
    assert "node" not in found["machine_info"]
    assert str(tmp_path) not in json.dumps(found["benchmarks"])
    decode = next(b for b in found["benchmarks"] if b["params"]["name"] == "decode")
    assert len(decode["stats"]["data"]) == 2
    assert decode["extra_info"]["n_events"] == 6708
    assert decode["extra_info"]["peak_bytes"] > 10 << 20
    assert main(["table", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr().out
    assert "\n| decode, one thread | " in printed
    assert "hybrid_2x3: recorded, MPI and OpenMP, small; 6,708 events, 6 locations" in printed


@pytest.mark.slow
def test_run__says_what_is_wrong(tmp_path):
    pytest.importorskip("pytest_benchmark")
    done = run("--workloads", "nothing", folder=tmp_path)
    assert done.returncode
    assert "no workload matches 'nothing'" in done.stdout + done.stderr


def test_main__says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "other.json").write_text('{"format": "other"}')
    (tmp_path / "text.json").write_text("text")
    for name in ("other.json", "text.json", "none.json"):
        assert main(["table", str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err
    assert main(["table"]) == main([]) == main(["nothing"]) == 2
    assert main(["list"]) == 0
    assert "events-1G               multizone, 64 x 4 (with --large)" in capsys.readouterr().out


# -- figures -----------------------------------------------------------------------------------------------------------


SECONDS = {"pyarrow": 0.01, "decode": 0.02, "convert": 0.04, "patterns": 0.1, "analyze": 0.2, "library": 0.06}


@pytest.fixture
def made_up(tmp_path):
    """Write results of a workload of 10^6 events and of two of each series; the yardstick takes 10 ns per event."""
    benchmarks = []
    facts = {
        "about": "made up", "jobs": 2, "archive_bytes": 12_000_000, "store_bytes": 4_000_000, "n_events": 1_000_000,
    }  # fmt: skip
    measured = {
        "peak_bytes": 1 << 28,
        "held_bytes": 1 << 27,
        "processor_seconds": 0.5,
        "scratch_bytes": 0,
        "made": None,
        "notes": {},
    }
    places = {"one": ("", 8, 20_000)}
    places |= {f"{series}-{k}": (series, 8 * k, 10_000 * k) for series in SERIES for k in (1, 2)}
    for name, (series, n_locations, p2p) in places.items():
        for step, seconds in SECONDS.items():
            info = {
                **facts,
                **measured,
                "workload": name,
                "series": series,
                "n_locations": n_locations,
                "n_call_paths": 1000 * n_locations,
                "n_rows": {"p2p": p2p},
            }
            info |= {"made": 1_000_000} if step == "pyarrow" else {}
            info |= {"notes": {"collective": 0.025}} if step == "patterns" else {}
            stats = {"median": seconds, "min": seconds, "max": 2 * seconds, "rounds": 3}
            benchmarks.append({"params": {"name": step}, "extra_info": info, "stats": stats})
    machine = {
        "cpu": {"count": 2, "brand_raw": "a processor"},
        "memory_bytes": 1 << 34,
        "system": "Linux",
        "machine": "x86_64",
    }
    machine |= {"python_version": "3.11", "load": 0.5, "packages": {"numpy": "2.4"}}
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"machine_info": machine, "benchmarks": benchmarks}))
    return path


def test_tables__say_what_was_measured(made_up):
    about, overview, families, *growth, others, figures = results.tables(results.read([made_up]))[:9]
    assert about.startswith(
        "2 cores of a processor, 16 GiB, Linux x86_64; python 3.11, numpy 2.4. Medians of up to 3 rounds"
    )
    # in units of the yardstick
    assert "| decode, one thread | 50.0 (2.00) |" in overview
    assert "| yardstick: pyarrow writes the columns | 100 |" in overview
    assert "| convert, one thread: peak memory, MiB | 256 |" in overview
    assert "| collective | 25.0 |" in families
    assert [g.split(",")[0] for g in growth] == [f"**Growth with {series}" for series in SERIES]
    assert "| point-to-point events per event | 0.0100 | 0.0200 |" in growth[2]
    assert "| decode, one thread | 20.0, 256 MiB | 20.0, 256 MiB |" in growth[2]
    assert "| call paths | 8,000 | 16,000 |" in growth[3]
    # the library takes three times as long
    assert "16.7 | 50.0 | 3.00 |" in others
    assert "| convert, one thread | 0.0400 | 0.0400 | 0.0800 | 40.0 | 0.500 | 256 | 128 | 0 |  |  |" in figures


def test_tables__compare_with_goals(made_up, monkeypatch):
    made = [
        goals.Goal("one", "analyze", "s", 0.1),
        goals.Goal("one", "analyze", "GB", 0.5),
        goals.Goal("one", "analyze", "times the time", 1.5, "patterns"),
        goals.Goal("one", "convert", "GB/s", 0.7),
        goals.Goal("none", "convert", "s", 1),
    ]
    monkeypatch.setattr(goals, "GOALS", made)
    found = results.read([made_up])
    _, _, *rows = results.against_goals(found).splitlines()[2:]
    # 0.2 s, 2^28 B, 0.2 of 0.1 s, 12 MB in 0.04 s
    assert [row.split(" | ")[2:] for row in rows] == [
        ["s", "0.100", "0.200 |"],
        ["GB", "0.500", "0.268 |"],
        ["times the time of compound tables and patterns, one thread", "1.50", "2.00 |"],
        ["GB/s", "0.700", "0.300 |"],
    ]
    # copying was not measured; pyarrow writes 10^6 events in 0.01 s
    (row,) = results.yardsticks(found).splitlines()[4:]
    assert row.split(" | ")[1:] == ["", "100 |"]


def test_goals__are_of_steps_and_workloads_that_exist():
    recorded = {name for name, *_ in RECORDED}
    for goal in goals.GOALS:
        assert {goal.workload} <= {*workloads(), *recorded}
        assert {goal.step, goal.base or goal.step} <= set(OWN)
        assert goal.figure in results.GOAL_FIGURES
        assert bool(goal.base) == (goal.figure.startswith("times") or goal.figure.endswith("beyond"))


def test_goals__their_workloads_have_only_steps_with_goals(subject):
    facts = {"n_events": 1, "n_rows": {}, "series": goals.SERIES}
    dense = Subject("dense-20M", Path("traces.otf2"), subject.store, subject.scratch, 1, "exact", facts)
    measured = {name for name, step in OWN.items() if not step.why_not(dense)}
    assert measured == {"copy", "pyarrow"} | {step for workload, step in goals.MEASURED if workload == "dense-20M"}
    assert {"command_store", "analyze_causes", "analyze_waits", "scenario"} < measured
    assert OWN["command_store"].why_not(subject) == "no goal"


def test_read__takes_the_last_of_several_results(made_up, tmp_path):
    again = json.loads(made_up.read_text())
    again["benchmarks"] = again["benchmarks"][1:2]
    again["benchmarks"][0]["stats"]["median"] = 0.04
    (tmp_path / "again.json").write_text(json.dumps(again))
    found = results.read([made_up, tmp_path / "again.json"]).set_index(["workload", "step"])["ns"]
    assert found["one", "decode"] == pytest.approx(40)
    assert found["one", "convert"] == pytest.approx(40)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (None, ""), (1234.5, "1,230"), (99.96, "100"), (12.34, "12.3"), (0.0345, "0.0345"), (2e-5, "2.0e-05")],
)
def test_short__three_digits(value, text):
    assert results.short(value) == text


@pytest.mark.slow
def test_viewer__opens_a_report_and_clicks_through_it(monkeypatch, capsys):
    options = {"cells": "1e4", "call-paths": "1500", "properties": "20", "locations": "10", "runs": "2"}
    monkeypatch.setattr("sys.argv", ["viewer", *(word for k, v in options.items() for word in (f"--{k}", v))])
    viewer.main()
    printed = capsys.readouterr().out
    assert "20 properties x 1,500 call paths x 10 locations" in printed
    assert "open all 1,500 call paths" in printed and "memory of the page's process" in printed
