"""User-defined patterns, narrowed analyses, and single matches."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import executed, run
from support.severities import cube_of
from support.two_messages import two_messages

import tracecols
from tracecols.errors import AnalysisError
from tracecols.export.archive import export_archive
from tracecols.given import packages
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.testing import Program, assert_severities, severities

LATE_BIG = """
import tracecols

@tracecols.pattern(
    "late_big", "mpi_latesender", "Late and Big", table="messages", summary="Late senders of large messages.",
    confidence=0.5, expert={}, parameters={"threshold": tracecols.Parameter(1000, "bytes", "least length of a large message")},
)
def late_big(model, m, parent, *, threshold):
    return parent.where(m.length[parent.row] >= threshold)
"""


@pytest.fixture
def late_big(tmp_path):
    file = tmp_path / "late_big.py"
    file.write_text(LATE_BIG)
    return file


# -- declaring ---------------------------------------------------------------------------------------------------------


def test_pattern__is_a_case_of_its_parent(late_big):
    program = two_messages()
    assert_severities(program, "mpi_latesender", {("main/MPI_Recv", 1): 35})
    assert_severities(program, "late_big", {("main/MPI_Recv", 1): 20}, patterns=[late_big])
    assert_severities(program, "late_big", {("main/MPI_Recv", 1): 20}, patterns=[late_big], conventions="expert")


@pytest.mark.slow
def test_pattern__has_parameters(late_big):
    for threshold, expected in ((0, 35), (5000, 20), (5001, 0)):
        wanted = {("main/MPI_Recv", 1): expected} if expected else {}
        given = {"late_big": {"threshold": threshold}}
        assert_severities(two_messages(), "late_big", wanted, patterns=[late_big], parameters=given)


def test_pattern__gets_seconds_as_ticks(trace):
    seen = []

    @tracecols.pattern(
        "long",
        "",
        "Long",
        table="region_instances",
        unit="sec",
        summary="Calls longer than a limit.",
        parameters={
            "limit": tracecols.Parameter(0.001, "sec", "least duration"),
            "most": tracecols.Parameter(float("inf"), "sec", "most"),
        },
    )
    def long(model, m, parent, *, limit, most):
        seen.append((limit, most))
        duration = m.exit_time - m.enter_time
        chosen = (duration[parent.row] >= limit) & (duration[parent.row] < most)
        return parent.where(chosen, severity=duration[parent.row])

    def calls(**given):
        return trace.matches("long", patterns=[long], parameters={"long": given}, raw=True)

    second = trace.manifest["clock"]["resolution"]
    all_of_1_ms, of_20_ms = calls(), calls(limit=0.02)
    assert set(seen) == {(second // 1000, float("inf")), (second // 50, float("inf"))}
    assert 0 < len(of_20_ms) < len(all_of_1_ms)
    assert of_20_ms.severity.min() >= second // 50 > all_of_1_ms.severity.min() >= second // 1000


def test_pattern__appears_in_the_cube_and_everywhere(late_big, tmp_path):
    cube = cube_of(two_messages(), patterns=[late_big])
    number = cube.properties.number["late_big"]
    assert cube.properties.parent[number] == "mpi_latesender"
    assert cube.properties.confidence[number] == 0.5
    assert tracecols.SeverityCube.load(cube.save(tmp_path / "x.severity")).total("Late and Big") == 20


@pytest.mark.slow
def test_pattern__follows_a_pointer_to_its_constituents():
    @tracecols.pattern(
        "sent_in_time",
        "",
        "Sent in Time",
        table="messages",
        unit="bytes",
        summary="Bytes of messages, once more.",
        constituents={"same": tracecols.Constituent("recv", "messages", "recv")},
    )
    def sent_in_time(model, m, parent, *, same):
        assert same.found.all()
        return parent.where(same.found, severity=same.length)

    assert_severities(two_messages(), "sent_in_time", {("main/MPI_Recv", 1): 5008}, patterns=[sent_in_time])


def test_pattern__constituents_that_lead_nowhere_are_null():
    @tracecols.pattern(
        "held",
        "",
        "Held",
        table="region_instances",
        unit="occ",
        summary="Regions that are calls of acquisitions.",
        constituents={"lock": tracecols.Constituent("enter", "lock_acquisitions", "enter")},
    )
    def held(model, m, parent, *, lock):
        assert (lock.acquire_time[~lock.found] == -1).all()
        return parent.counted(lock.found)

    program = Program()
    program.masters[0].enter(0, "main").enter(5, "omp_set_lock").acquire(6, 0, 1).leave(7).release(8, 0, 1).leave(9)
    assert_severities(program, "held", {("main/omp_set_lock", 0): 1}, patterns=[held])


def test_pattern__on_region_instances():
    @tracecols.pattern(
        "short", "", "Short", table="region_instances", unit="occ", summary="Calls shorter than 3 ticks."
    )
    def short(model, m, parent):
        return parent.counted(m.exit_time - m.enter_time < 3)

    program = Program(processes=2)
    for rank, one in enumerate(program.masters):
        one.enter(0, "main")
        for i in range(3):
            one.enter(10 * i, "f").leave(10 * i + 2 + (i > rank))
        one.leave(40)
    assert_severities(program, "short", {("main/f", 0): 1, ("main/f", 1): 2}, patterns=[short])


def of_the_page(tmp_path):
    """Write the file of patterns on parameters, markers and counters from the page on patterns."""
    page = (Path(tracecols.__file__).parent / "docs" / "patterns.md").read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "parameter_values" in b)
    (tmp_path / "mine.py").write_text(block)
    return tmp_path / "mine.py"


@pytest.mark.slow
def test_pattern__on_parameters_and_markers(tmp_path):
    file = of_the_page(tmp_path)
    program = Program(processes=2)
    for rank, one in enumerate(program.masters):
        one.enter(0, "main").enter(2, "solve").parameter(2, "n", 500).leave(10)
        one.enter(12, "solve").parameter(12, "n", 2000).parameter(12, "solver", "cg").enter(13, "step").leave(15)
        one.leave(20 + rank).enter(22, "other").parameter(22, "n", 5000).leave(24).leave(30)
    for time, text in ((5, "begin"), (25, "end"), (28, "end"), (22, "begin")):
        program.marker(time, text)
    program.marker(3, "begin", location=program.masters[1])
    # calls with their callees; times from markers to the first end
    found = {"large_solves": {("main/solve", 0): 8, ("main/solve", 1): 9}}
    found["begin_to_end"] = {("main/solve", 0): 20, ("main/other", 0): 3, ("main/solve", 1): 42, ("main/other", 1): 3}
    found["iterations"] = {}
    for name, expected in found.items():
        assert_severities(program, name, expected, patterns=[file])
    given = {"large_solves": {"least": 100}}
    wanted = {("main/solve", 0): 16, ("main/solve", 1): 17}
    assert_severities(program, "large_solves", wanted, patterns=[file], parameters=given)
    bins = cube_of(program, patterns=[file], bins=10).over_time("begin_to_end")
    # bins of 3 s: rank 0 from 5 and 22, rank 1 from 3, 5 and 22 on, all until 25
    assert bins.sum(axis=1).tolist() == [0, 5, 9, 9, 9, 9, 9, 13, 5, 0]


def test_location_markers__are_on_the_locations_that_they_are_about():
    program = Program(processes=2, threads=2)
    for one in program.locations:
        one.enter(0, "main").enter(4, "inner").leave(6).leave(8)
    of_first = program.communicator("first", [0])
    some = program.define("groups", name="some", type="locations", members=[3, 0])
    other = program.define("groups", name="regions", type="regions", members=[0])
    about = (("location_group", 1), ("system_tree_node", 0), ("comm", of_first), ("group", some), ("group", other))
    for time, (scope, number) in enumerate((*about, ("location", 2)), 1):
        where = {"scope": scope, "scope_id": number, "location": number if scope == "location" else -1}
        program.define("markers", time=time, duration=0, text=scope, **where)
    with program.trace() as trace:
        found = trace.location_markers
    by_marker = found.groupby("marker").location.apply(list).to_dict()
    assert by_marker == {0: [2, 3], 1: [0, 1, 2, 3], 2: [0], 3: [0, 3], 5: [2]}
    # a marker at the ENTER is inside of the region, one at the EXIT outside
    assert found.groupby("marker").region_name.first().to_dict() == {0: "main", 1: "main", 2: "main", 3: "inner", 5: "main"}  # fmt: skip


@pytest.mark.slow
def test_pattern__on_what_a_recorded_program_notes(converted, tmp_path):
    trace = tracecols.open(converted("userreg"))
    calls = trace.region_instances
    steps = trace.parameter_values
    phases = calls[calls.region_name == "phase"]
    # the parameter of every phase is the number of the phase on its rank
    assert steps.enter.tolist() == phases.enter.tolist() and (steps.exit == phases.exit.to_numpy()).all()
    assert steps.value.tolist() == phases.groupby("location").cumcount().tolist()
    found = trace.analyze(patterns=[of_the_page(tmp_path)])
    assert found.total("iterations") == len(phases) == found.total("iterations", found.find_call_paths("phase"))
    counted = trace.counter_values
    assert counted[counted.counter_name == "iteration"].value.tolist() == steps.value.tolist()


@pytest.mark.slow
def test_package__with_an_entry_point_is_found(tmp_path, monkeypatch):
    (tmp_path / "waits_of_mine.py").write_text(LATE_BIG)
    info = tmp_path / "waits_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waits-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tracecols.patterns]\nmine = waits_of_mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert_severities(two_messages(), "late_big", {("main/MPI_Recv", 1): 20})
        listed = run("patterns", "late_big")
        assert "Late senders of large messages." in listed.output
        assert "Parameter threshold: least length of a large message; 1000 bytes" in listed.output
    finally:
        sys.modules.pop("waits_of_mine", None)


def test_packages__are_asked_again_when_one_was_installed_or_removed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before = packages.points_of("tracecols.nothing")
    assert before == () and packages.points_of("tracecols.nothing") is before
    info = tmp_path / "waits_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waits-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tracecols.nothing]\nmine = waits_of_mine\nhers = waits_of_hers\n")
    os.utime(tmp_path, ns=(1, 1))
    assert [p.name for p in packages.points_of("tracecols.nothing")] == ["hers", "mine"]
    shutil.rmtree(info)
    assert packages.points_of("tracecols.nothing") == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "declares no patterns"),
        ("import nowhere_to_be_found", "cannot be run: ModuleNotFoundError"),
        (LATE_BIG.replace('"late_big", "mpi_latesender"', '"late_big", "mpi_latesendr"'), "'mpi_latesendr', which does not exist"),
        (LATE_BIG.replace('"late_big", "mpi_latesender"', '"time", "mpi_latesender"'), "declared twice"),
        (LATE_BIG.replace('table="messages"', 'table="letters"'), "not a table that patterns are matched on"),
        (LATE_BIG.replace("m.length", "m.lenght"), "failed: AttributeError: table messages has no column 'lenght'"),
        (LATE_BIG.replace("return parent", "parent"), "failed: TypeError: it returns NoneType"),
        (LATE_BIG.replace(">= threshold)", ">= threshold, severity=parent.severity / 2)"), "failed: TypeError: severities are whole"),
    ],
)  # fmt: skip
def test_mistake__is_told_where_it_is_made(tmp_path, text, message):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with two_messages().trace() as trace, pytest.raises(AnalysisError, match=message):
        trace.analyze(patterns=[file])


def test_kit__tells_what_differs(late_big):
    with pytest.raises(AssertionError, match="main/MPI_Recv 1: 20, expected 21"):
        assert_severities(two_messages(), "late_big", {("main/MPI_Recv", 1): 21}, patterns=[late_big])


@pytest.mark.slow
def test_kit__tells_when_a_child_exceeds_its_parent():
    @tracecols.pattern("twice", "mpi_latesender", "Twice", table="messages", summary="Too much.")
    def twice(model, m, parent):
        return parent.where(parent.severity > 0, severity=2 * parent.severity)

    with pytest.raises(AssertionError, match="the children of mpi_latesender exceed it"):
        assert_severities(two_messages(), "twice", {("main/MPI_Recv", 1): 70}, patterns=[twice])


@pytest.mark.slow
def test_kit__tells_when_a_pattern_looks_beyond_its_part():
    @tracecols.pattern("few", "", "Few", table="sends", unit="occ", summary="Sends where there are few.")
    def few(model, m, parent):
        return parent.counted(np.full(len(m), len(m) > 1))

    program = Program(processes=2)
    for rank, one in enumerate(program.masters):
        one.enter(0, "main").enter(1, "MPI_Send").send(2, to=1 - rank).leave(3).leave(4)
    with pytest.raises(AssertionError, match="processes are looked at one by one"):
        assert_severities(program, "few", {("main/MPI_Send", r): 1 for r in (0, 1)}, patterns=[few])


# -- narrowing ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_properties__come_with_their_ancestors_and_nothing_else(trace):
    whole = trace.analyze()
    for name in whole.properties.id:
        cube = trace.analyze(properties=[name])
        above = [name]
        while above[-1]:
            above.append(whole.properties.parent[whole.properties.number[above[-1]]])
        assert cube.properties.id == [p for p in whole.properties.id if p in above]
        for p in cube.properties.id:
            assert (cube.cells[p].key == whole.cells[p].key).all()
            assert (cube.cells[p].value == whole.cells[p].value).all()


@pytest.mark.slow
def test_within__keeps_what_a_region_calls(trace):
    whole, cube = trace.analyze(), trace.analyze(within="h_region")
    kept = np.array(["h_region" in path.split("/") for path in whole.call_paths.path])
    assert kept.any()
    assert not kept.all()
    for name in whole.properties.id:
        of = whole.cells[name].on(kept)
        assert (cube.cells[name].key == of.key).all()
        assert (cube.cells[name].value == of.value).all()
    assert trace.analyze(within="h_reg*").total("time") == cube.total("time")


def test_locations__keeps_their_cells(trace):
    whole, cube = trace.analyze(), trace.analyze(locations=[0, 4])
    for name in whole.properties.id:
        of = whole.cells[name]
        of = of.where(np.isin(of.location, [0, 4]))
        assert (cube.cells[name].key == of.key).all()


@pytest.mark.slow
def test_piece__is_a_trace_by_itself(trace, opened, tmp_path):
    cube = trace.analyze(start=0.3, stop=0.35)
    export_archive(trace.path, tmp_path / "piece.otf2", start=0.3, stop=0.35)
    same = opened(tmp_path / "piece.otf2").analyze()
    assert cube.properties.id == same.properties.id
    # an archive omits messages sent before the piece; an analysis counts them
    of_receives = {
        "syncs", "syncs_p2p", "syncs_recv", "comms", "comms_p2p", "comms_recv", "bytes", "bytes_p2p", "bytes_rcvd",
    }  # fmt: skip
    for name in set(cube.properties.id) - of_receives:
        assert severities(cube, name) == severities(same, name)
    assert cube.facts["counts"].pop("receives without send") == 1
    left_out = "events of messages and collective operations left out of the piece, which holds only one side of them"
    assert same.facts["counts"].pop(left_out) == 1
    assert cube.facts["counts"] == same.facts["counts"]
    assert cube.facts["narrowed"] == {"start": 0.3, "stop": 0.35}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"properties": ["mpi_latesendr"]}, "did you mean mpi_latesender"),
        ({"within": "h_regoin"}, "did you mean h_region"),
        ({"locations": [6]}, "there are 6, numbered from 0"),
        ({"parameters": {"mpi_latesender": {"threshold": 1}}}, "has no parameter 'threshold'"),
        ({"parameters": {"nothing": {"threshold": 1}}}, "no property 'nothing' under the exact conventions"),
        ({"start": 3, "stop": 2}, "the end has to be later"),
        ({"start": 100}, "the recording lasts"),
        ({"conventions": "mine"}, "no conventions 'mine'"),
    ],
)
def test_choice__of_what_does_not_exist_is_an_error(trace, given, message):
    with pytest.raises(AnalysisError, match=message):
        trace.analyze(**given)


# -- matches -----------------------------------------------------------------------------------------------------------


def test_matches__are_the_instances_with_their_times():
    with two_messages().trace() as trace:
        m = trace.matches("mpi_latesender", raw=True, names=True)
        assert m.severity.tolist() == [20, 15]  # the most severe first
        assert m.begin_time.tolist() == [30, 5]
        assert m.end_time.tolist() == [50, 20]
        assert m.path.tolist() == ["main/MPI_Recv"] * 2
        # the index is the row of the compound table
        assert (trace.messages.loc[m.index, "recv"] == m.recv).all()


def test_matches__are_for_people_unless_raw_is_asked_for():
    """By default, they have seconds, rank, thread and names, like `top_instances`."""
    with two_messages().trace() as trace:
        found, raw = trace.matches("mpi_latesender"), trace.matches("mpi_latesender", raw=True)
        resolution = trace.manifest["clock"]["resolution"]
        assert found.index.tolist() == raw.index.tolist()
        assert found.severity.tolist() == [20 / resolution, 15 / resolution]
        assert found["rank"].tolist() == [1, 1] and found["thread"].tolist() == [0, 0]
        assert found.path.tolist() == ["main/MPI_Recv"] * 2
        assert found.begin_seconds.tolist() == trace.seconds(raw.begin_time).tolist()
        assert found.send_rank.tolist() == [0, 0]
        assert not [name for name in found if name.endswith(("_time", "location", "call_path"))]
        best = trace.top_instances("mpi_latesender")
        for column in ("severity", "begin_seconds", "end_seconds", "rank", "thread"):
            assert best[column].tolist() == found[column].tolist()


def test_critical_path__is_for_people_unless_raw_is_asked_for():
    with two_messages().trace() as trace:
        found, raw = trace.critical_path(), trace.critical_path(raw=True)
        assert list(found) == [
            "rank",
            "thread",
            "begin_seconds",
            "end_seconds",
            "seconds",
            "begin_path",
            "end_path",
            "reason",
        ]
        assert found["rank"].tolist() == raw.location.tolist()
        assert found.begin_seconds.tolist() == trace.seconds(raw.begin_time).tolist()
        assert found.seconds.tolist() == trace.duration(raw.end_time - raw.begin_time).tolist()
        assert found.begin_path.astype(object).fillna("").tolist() == raw.begin_call_path.tolist()
        assert found.reason.tolist() == raw.reason.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_matches__add_up_to_the_severities(trace, conventions):
    cube = trace.analyze(conventions)
    matched = 0
    for name in cube.properties.id:
        try:
            m = trace.matches(name, conventions, raw=True)
        except AnalysisError as error:
            assert "not matched instance by instance" in str(error)
            continue
        matched += len(m) > 0
        assert m.severity.sum() * cube.scale(name) == pytest.approx(cube.total(name), abs=1e-12), name
        if cube.properties.unit[cube.properties.number[name]] == "sec":
            assert (m.end_time - m.begin_time == m.severity).all()
            assert (m.begin_time >= 0).all()
    assert matched > 10 if conventions == "scalasca" else matched > 2


def test_matches__of_a_profile_property_say_where_to_look(trace):
    with pytest.raises(AnalysisError, match="below it there are mpi_latesender, mpi_latereceiver"):
        trace.matches("mpi_point2point")


def test_every_pattern__says_when_its_matches_begin_or_end():
    for conventions in CONVENTIONS:
        by_id = {p.id: p for p in properties(conventions)}
        for p in by_id.values():
            at = p
            while at.pattern and not (at.pattern.since or at.pattern.until):
                assert at.parent in by_id, p.id
                at = by_id[at.parent]
                assert at.table == p.table, p.id


# -- the command line --------------------------------------------------------------------------------------------------


def test_analyze__takes_the_same(trace, late_big, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trace.path, "h.trace")
    given = [
        "--patterns",
        late_big,
        "-p",
        "late_big",
        "--set",
        "late_big.threshold=1kB",
        "--within",
        "main",
        "--locations",
        "0-2",
    ]
    executed("analyze", "h.trace", *given)
    # the name is a shortened form of the options
    (made,) = tmp_path.glob("*.severity")
    assert made.name.startswith("h.late_big.within-main.locations-0-2.late_big.threshold=1000")
    cube = tracecols.SeverityCube.load(made)
    assert cube.properties.id == [
        "time", "execution", "mpi", "mpi_communication", "mpi_point2point", "mpi_latesender", "late_big",
    ]  # fmt: skip
    assert cube.facts["narrowed"]["parameters"] == {"late_big": {"threshold": 1000.0}}
    bad = executed("analyze", "h.trace", "--set", "late_big=3", code=2)
    assert "PROPERTY.NAME=VALUE" in bad
    unknown = executed("analyze", "h.trace", "-p", "late", code=1)
    assert "no property 'late'" in unknown


def test_patterns__lists_all_and_explains_one(late_big):
    listed = run("patterns").output
    assert "Late Sender  mpi_latesender  matches messages" in listed
    assert "EXPERT 3.0" in listed
    one = run("patterns", "mpi_latereceiver", "--conventions", "scalasca").output
    assert "confidence" in one.lower()
    assert "0.8" in one
    assert "expert" not in one
    mine = run("patterns", "--patterns", late_big).output
    assert "Late and Big  late_big  matches messages, confidence 0.5" in mine
    assert run("patterns", "late_sendr").exit_code == 1
