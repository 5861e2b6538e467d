"""The benchmarks measure what they say: every step runs, figures follow from seconds, changes are told from noise."""

from __future__ import annotations

import copy
import json
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import tracecols
from benchmarks import results as kept
from benchmarks.__main__ import main
from benchmarks.peers import STEPS
from benchmarks.process import TaskError, run_task
from benchmarks.report import write_report
from benchmarks.steps import Subject, Watch
from benchmarks.workloads import SERIES, choose, workloads
from tracecols.patterns.registry import FAMILIES

OWN = [name for name, s in STEPS.items() if s.group != "peers"]

COUNTED = {
    "table_messages": lambda trace: trace.messages,
    "table_teams": lambda trace: trace.teams,
    "table_constructs": lambda trace: trace.constructs,
    "messages_frame": lambda trace: trace.messages,
    "load_events": lambda trace: trace.read_events(columns=["time"]),
    "load_profile": lambda trace: trace.profile,
}
"""What a step makes: as many as there are."""


@pytest.fixture(scope="module")
def subject(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("subject")
    archive = data / "hybrid_2x3" / "traces.otf2"
    return Subject(archive, tracecols.convert(archive, folder / "kept.trace"), folder, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_step__runs_and_counts(subject, name):
    watch = Watch()
    made = STEPS[name].run(subject, watch)
    assert watch.seconds > 0
    if name in COUNTED:
        assert made is not None
        assert made[1] == len(COUNTED[name](tracecols.open(subject.store))) > 0


@pytest.mark.slow
def test_patterns__parts_are_families_and_add_up(subject):
    watch, before = Watch(), [list(f.properties) for f in FAMILIES]
    STEPS["patterns"].run(subject, watch)
    assert [f.properties for f in FAMILIES] == before
    assert {"point-to-point", "collective", "threads", "profile", "tables and sums"} <= set(watch.parts)
    assert min(watch.parts.values()) > 0
    assert sum(watch.parts.values()) == pytest.approx(watch.seconds)


def test_peers__are_asked_for_the_same_work(subject, monkeypatch):
    calls = []

    class Trace:
        events = [0] * 6708

        @staticmethod
        def from_otf2(folder):
            calls.append(folder)
            return Trace()

        def calc_exc_metrics(self, columns):
            assert columns == ["Timestamp (ns)"]

        def flat_profile(self, metrics, per_process):
            assert (metrics, per_process) == ("time.exc", True)
            return [0] * 195

        def comm_matrix(self):
            return np.eye(2)

    assert "pip install" in STEPS["pipit_events"].missing(subject.archive) or find_spec("pipit")
    module = types.ModuleType("pipit")
    module.Trace, module.__spec__ = Trace, ModuleSpec("pipit", None)
    monkeypatch.setitem(sys.modules, "pipit", module)
    made = {}
    for name in ("pipit_events", "pipit_profile", "pipit_messages"):
        assert STEPS[name].missing(subject.archive) == ""
        assert STEPS[name].missing(Path("epik.elg")) == "not an OTF2 archive"
        made[name] = STEPS[name].run(subject, Watch())
    assert made == {"pipit_events": ("events", 6708), "pipit_profile": ("rows", 195), "pipit_messages": ("pairs", 2)}
    assert calls == [str(subject.archive.parent)] * 3
    assert all(STEPS[s.against].group != "peers" for s in STEPS.values() if s.group == "peers")


def test_watch__counts_only_what_runs_within():
    started = []
    watch = Watch(lambda: started.append(watch.seconds))
    for _ in range(3):
        with watch:
            pass
    assert started == [0.0]
    assert 0 < watch.seconds < 0.1


def test_workloads__are_named_once_and_chosen_by_pattern():
    names = [w.name for w in choose([], large=True)]
    assert set(names) - {w.name for w in choose([], large=False)} == {"events-100M", "events-1G"}
    assert {w.series for w in workloads().values()} == {"", *SERIES}
    assert [w.name for w in choose(["events-1?"], large=False)] == ["events-1M", "events-1G"]
    with pytest.raises(ValueError, match="no workload matches 'nothing'"):
        choose(["nothing"], large=False)


@pytest.mark.slow
def test_workloads__messages_become_more(tmp_path):
    from benchmarks.synthetic import make_archive

    shares = []
    for name, tree in (("few", 7.0), ("usual", 1.0), ("many", 0.015)):
        path = make_archive(40_000, tree=tree, folder=tmp_path)
        trace = tracecols.open(tracecols.convert(path, tmp_path / f"{name}.trace", jobs=1), jobs=1)
        n = trace.manifest["n_events"]
        assert 30_000 < n < 50_000
        shares.append(trace.store.n_rows("p2p") / n)
        # all messages are received, none before it is sent
        assert trace.analyze("scalasca").facts["counts"] == {}
    assert shares[0] < shares[1] / 4 < shares[2] / 20


# -- processes ---------------------------------------------------------------------------------------------------------


def test_run_task__fails_with_a_reason_and_without_paths(tmp_path):
    task = {"folder": str(tmp_path), "jobs": 1, "rounds": 1, "step": "decode", "n_events": 1}
    with pytest.raises(TaskError, match="no such file") as caught:
        run_task({**task, "archive": str(tmp_path / "traces.otf2"), "store": str(tmp_path / "kept.trace")})
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.slow
def test_run__measures_and_reports(tmp_path, capsys, monkeypatch):
    # without matplotlib
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["run", "--workloads", "hybrid_2x3", "--steps", "decode", "table_epochs", "--rounds", "2"]
    assert main([*arguments, "--scratch", str(tmp_path), "-o", str(tmp_path / "out")]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "results.json"]
    found = kept.read(tmp_path / "out" / "results.json")
    steps = found["workloads"]["hybrid_2x3"]["steps"]
    assert steps["table_epochs"] == {"left_out": "no such events"}
    decode = steps["decode"]
    assert len(decode["seconds"]["rounds"]) == 2
    assert decode["ns_per_event"] == pytest.approx(decode["seconds"]["median"] / 6708 * 1e9)
    assert decode["peak_bytes"] > 10 << 20
    assert "6,708 events" in capsys.readouterr().out
    text = (tmp_path / "out" / "results.json").read_text() + (tmp_path / "out" / "report.html").read_text()
    assert str(tmp_path) not in text
    assert main(["table", str(tmp_path / "out" / "results.json")]) == 0
    assert "| decode, one thread | " in capsys.readouterr().out


def test_run__says_what_finds_no_room(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.BYTES_PER_EVENT", 10**12)
    out = tmp_path / "out"
    assert main(["run", "--workloads", "events-1M", "--scratch", str(tmp_path), "-o", str(out)]) == 1
    assert "no room" in kept.read(out / "results.json")["workloads"]["events-1M"]["failed"]
    assert "FAILED: no room" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_main__says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "other.json").write_text('{"format": "other"}')
    (tmp_path / "text.json").write_text("text")
    assert main(["run", "--workloads", "nothing"]) == 2
    assert main(["run", "--rounds", "0", "-o", str(tmp_path / "out")]) == 2
    assert main(["run", "--steps", "nothing", "-o", str(tmp_path / "out")]) == 2
    for name in ("other.json", "text.json", "none.json"):
        assert main(["table", str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err


# -- figures -----------------------------------------------------------------------------------------------------------


def made_up(seconds: dict[str, list[float]], yardstick: float = 0.01) -> kept.Results:
    """Make results of a workload of 10^6 events and of two of a series; a yardstick takes 10 ns per event."""
    steps = {}
    for name, rounds in seconds.items():
        yardsticks = {y: {"seconds": [yardstick] * 3, "n_events": 1_000_000} for y in ("copy", "pyarrow")}
        raw = {"seconds": rounds, "peak_bytes": 1 << 28, "held_bytes": 1 << 27, "yardsticks": yardsticks}
        if name == "patterns":
            raw["parts"] = {"collective": [r / 4 for r in rounds]}
        steps[name] = kept.summarize(raw, 1_000_000)
    facts = {
        "format": "OTF2", "n_events": 1_000_000, "n_records": 1_000_000, "n_locations": 8, "n_rows": {"p2p": 20_000},
        "archive_bytes": 12_000_000, "store_bytes": 4_000_000, "making_seconds": 1.0,
    }  # fmt: skip
    one = {"about": "made up", "series": "", "load": 0.1, "facts": facts, "steps": steps}
    workloads = {"one": one}
    for i, series in enumerate(SERIES):
        for k in (1, 2):
            grown = {**facts, "n_locations": 8 * k, "n_rows": {"p2p": 10_000 * k}}
            workloads[f"{series}-{k}"] = {**one, "series": series, "facts": grown, "load": float(i)}
    return {
        "format": kept.FORMAT, "version": kept.VERSION, "machine": kept.machine(), "versions": kept.versions(),
        "options": {"rounds": 3, "jobs": 2}, "started": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "workloads": workloads,
    }  # fmt: skip


SECONDS = {
    "decode": [0.02, 0.021, 0.019],
    "convert": [0.04] * 3,
    "patterns": [0.1] * 3,
    "analyze": [0.2] * 3,
    "library": [0.06] * 3,
}


def test_summarize__ratios_are_to_the_yardstick_of_the_same_process():
    decode = made_up(SECONDS)["workloads"]["one"]["steps"]["decode"]
    assert decode["ns_per_event"] == pytest.approx(20)
    assert decode["times_pyarrow"] == decode["times_copy"] == pytest.approx(2)
    assert (decode["seconds"]["min"], decode["seconds"]["max"]) == (0.019, 0.021)


def marks(old: kept.Results, new: kept.Results) -> dict[str, str]:
    sheet, n_slower = kept.compare(old, new)
    found = {row[1]: row[-1] for row in sheet.rows if row[0] == "one"}
    assert n_slower == sum(row[-1] == "slower" for row in sheet.rows)
    return {name: found[STEPS[name].title] for name in SECONDS if STEPS[name].title in found}


def test_compare__tells_changes_from_noise():
    old = made_up(SECONDS)
    nothing = dict.fromkeys(SECONDS, "")
    assert marks(old, copy.deepcopy(old)) == nothing
    # half as fast, on a machine that is as fast
    twice = {name: [2 * s for s in rounds] for name, rounds in SECONDS.items()}
    assert marks(old, made_up({**SECONDS, "decode": twice["decode"]})) == {**nothing, "decode": "slower"}
    assert marks(made_up({**SECONDS, "decode": twice["decode"]}), old) == {**nothing, "decode": "faster"}
    # on a machine that is half as fast
    assert marks(old, made_up(twice, 0.02)) == nothing
    # ranges overlap; no more than 5 %
    assert marks(old, made_up({**SECONDS, "decode": [0.03, 0.03, 0.0205]})) == nothing
    assert marks(old, made_up({**SECONDS, "convert": [0.0415] * 3})) == nothing


def test_compare__leaves_out_other_sizes():
    old, new = made_up(SECONDS), made_up(SECONDS)
    new["workloads"]["one"]["facts"] = {**new["workloads"]["one"]["facts"], "n_events": 2_000_000}
    del old["workloads"]["events-1"]
    sheet, _ = kept.compare(old, new)
    assert {row[0] for row in sheet.rows} == set(old["workloads"]) - {"one"}
    assert "one (another size)" in sheet.note
    assert "events-1" in sheet.note


def test_sheets__say_what_was_measured():
    found = made_up(SECONDS)
    one = found["workloads"]["one"]
    one["steps"] = {**one["steps"], "scan": {"failed": "out of memory"}, "sql": {"left_out": "duckdb is not installed"}}
    one["steps"]["table_epochs"] = {"left_out": "no such events"}
    found["workloads"]["two"] = {"about": "", "series": "", "load": 0.1, "failed": "no room", "steps": {}}
    sheets = {s.title: s for s in kept.sheets(found)}
    assert ["decode, one thread", "50.0 (2.00)"] in next(iter(sheets.values())).rows
    assert sheets["Patterns by family, ns/event"].rows == [["collective", "25.0"]]
    messages = sheets["Growth with messages, ns/event"]
    assert messages.headings == ["point-to-point events per event", "0.0100", "0.0200"]
    assert messages.rows[0] == ["decode, one thread", "20.0", "20.0"]
    # the library takes three times as long
    assert sheets["Others, the same archive and work"].rows[0][-1] == "3.00"
    assert kept.exceptions(found).rows == [
        ["one", "scan", "FAILED: out of memory"],
        ["two", "all", "FAILED: no room"],
        ["one", "sql", "duckdb is not installed"],
    ]
    json.dumps(found)


@pytest.mark.slow
def test_report__has_all_plots(tmp_path):
    pytest.importorskip("matplotlib")
    written = write_report(made_up(SECONDS), tmp_path)
    plots = ["steps", "families", *(f"growth-{series}" for series in SERIES), "peers"]
    assert [p.name for p in written] == [*(f"{name}.png" for name in plots), "report.html"]
    assert all(p.stat().st_size > 5_000 for p in written)
    page = written[-1].read_text()
    assert page.count("data:image/png;base64,") == len(plots)
    assert 'src="http' not in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (None, ""),
        (1234.5, "1,230"),
        (99.96, "100"),
        (12.34, "12.3"),
        (0.0345, "0.0345"),
        (2e-5, "2.0e-05"),
    ],
)
def test_short__three_digits(value, text):
    assert kept.short(value) == text
