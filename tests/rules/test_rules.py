"""Rules of the 1999 class library: severities in ticks (of 1e-9 s), worked out by hand; output of the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import DATA, SHARED, slow
from support.command_line import executed, run

import tracecols
from tracecols.errors import RuleError, SeverityError
from tracecols.patterns.registry import properties
from tracecols.rules import RULES, evaluate, frame, read_settings
from tracecols.testing import Program

TRACES = sorted(p.parent for p in DATA.glob("*/traces.otf2"))
TRACES += [f for n in ("wrong_order", "cart", "sweep3d_4", "hybrid_multi") if (f := SHARED / "otf2" / n).is_dir()]


@pytest.fixture
def find(tmp_path):
    """Return a function that writes an archive of `otf2_writer` and returns verdicts by rule."""

    def run(archive, settings=None, **options):
        trace = tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace", jobs=1), jobs=1)
        return {f.rule: f for f in evaluate(trace, settings=settings, **options)}

    return run


def ticks(verdict):
    return round(verdict.severity * 1e9)


def send(rank, begin, end, peer, comm, length=8, call="MPI_Send"):
    rank.enter(begin, call).send(begin + 1, peer, comm, 0, length).leave(end, call)


def recv(rank, begin, end, peer, comm, length=8):
    rank.enter(begin, "MPI_Recv").receive(end - 1, peer, comm, 0, length).leave(end, "MPI_Recv")


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("big_messages.threshold", "1MB", 1e6),
        ("big_messages.threshold", "64 KiB", 65536),
        ("big_messages.threshold", "1e3", 1000),
        ("big_messages.threshold", 5, 5),
        ("big_messages.threshold", "12b", 12),
        ("frequent_communication.threshold", "10us", 1e-5),
        ("frequent_communication.threshold", "2.5 ms", 2.5e-3),
        ("frequent_communication.threshold", "1\u00b5s", 1e-6),
        ("uneven_mp_distribution.threshold", "5%", 0.05),
        ("uneven_mp_distribution.threshold", ".5", 0.5),
        ("slow_slaves.master", "3", 3),
        ("io_costs.regions", "read*,write*", "read*,write*"),
    ],
)
def test_parameters__have_units(key, text, value):
    rule, name = key.split(".")
    found = read_settings({key: text})
    assert found[rule][name] == pytest.approx(value)
    # the others keep their defaults
    others = {
        (r.id, of): p.default for r in RULES.values() for of, p in r.parameters.items() if (r.id, of) != (rule, name)
    }
    assert all(found[r][p] == default for (r, p), default in others.items())


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("big_messages.threshold", "1s", "'1s' is not a value for threshold, which counts bytes"),
        ("big_messages.threshold", "", "is not a value"),
        ("big_messages.threshold", "-1", "is not a value"),
        ("big_messages.threshold", "nan", "is not a value"),
        ("big_messages.threshold", "1.2.3", "is not a value"),
        ("slow_slaves.master", "1.5", "is not a value for master, which counts rank"),
        ("slow_slaves.master", "2%", "is not a value"),
        ("big_messages.limit", "1", "rule 'big_messages' has no parameter 'limit'\n  it has threshold"),
        ("costs.limit", "1", "has no parameter 'limit'\n  it has none"),
        ("big_mesages.threshold", "1", "no rule 'big_mesages'\n  did you mean big_messages"),
        ("x.y", "1", "no rule 'x'\n  there are communication_costs"),
    ],
)
def test_parameters__say_what_is_wrong(key, text, words):
    with pytest.raises(RuleError, match=words):
        read_settings({key: text})


def test_parameter__is_the_same_for_patterns_and_rules():
    assert tracecols.Parameter is tracecols.rules.Parameter
    of_rules = [p for rule in RULES.values() for p in rule.parameters.values()]
    of_patterns = [p for q in properties("scalasca") for p in q.parameters.values()]
    assert of_rules and all(type(p) is tracecols.Parameter for p in of_rules + of_patterns)


# -- costs -------------------------------------------------------------------------------------------------------------


def test_costs__are_divided_by_what_calls_do(archive, find):
    archive.region("fread", "file_io", "user")
    archive.region("my_write", "function", "user")
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").call(0, 7, "MPI_Init")
    send(a, 10, 15, 1, mpi.world)  # communication 5
    a.collective(20, 27, mpi.world, "barrier")  # synchronization 7
    a.call(30, 41, "MPI_File_write").call(50, 63, "fread").call(70, 87, "my_write").leave(100, "main")  # I/O 11, 13, 17
    b.enter(0, "main").call(0, 4, "MPI_Init")
    recv(b, 10, 13, 0, mpi.world)  # 3
    b.collective(22, 27, mpi.world, "barrier")  # 5
    b.leave(100, "main")
    found = find(archive, with_startup=True)
    assert ticks(found["communication_costs"]) == 7 + 5 + 4 + 3
    assert found["communication_costs"].note == "0.000000 s of it to start and end MPI"
    assert ticks(found["synchronization_costs"]) == 7 + 5
    assert ticks(found["io_costs"]) == 11 + 13
    assert ticks(found["costs"]) == 19 + 12 + 24
    assert found["costs"].share == pytest.approx(55 / 200)
    found = find(archive, {"io_costs.regions": "my_*, MPI_Send, nothing"})
    # MPI operations keep their kind; names that do not exist are reported
    assert ticks(found["io_costs"]) == 11 + 13 + 17
    # MPI_Init (7 + 4) is set apart by default
    assert ticks(found["costs"]) == 19 - 11 + 12 + 41
    assert found["costs"].share == pytest.approx(61 / 189)
    assert found["io_costs"].note == "no region is called nothing"


def test_dominating_communication__is_one_operation_on_all_call_paths(archive, find):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main")
    send(a, 10, 15, 1, mpi.world)
    a.enter(20, "f")
    send(a, 20, 26, 1, mpi.world)
    a.leave(30, "f").leave(50, "main")
    b.enter(0, "main")
    recv(b, 10, 16, 0, mpi.world)
    recv(b, 20, 24, 0, mpi.world)
    b.leave(50, "main")
    found = find(archive)["dominating_communication"]
    # sends 5 + 6, receives 6 + 4
    assert ticks(found) == 11
    (statement,) = found.statements
    assert (statement.name, statement.unit) == ("MPI_Send", "share")
    assert statement.value == pytest.approx(11 / 21)


def statements(archive):
    """Let rank 0 send messages of 10, 20 and 90 bytes in f, and one of 1000 in g, in 5, 5, 8 and 40 ticks; rank 1
    receives them in 9 each."""
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").enter(0, "f")
    for at, end, length in ((10, 15, 10), (20, 25, 20), (30, 38, 90)):
        send(a, at, end, 1, mpi.world, length)
    a.leave(40, "f").enter(50, "g")
    send(a, 50, 90, 1, mpi.world, 1000)
    a.leave(95, "g").leave(100, "main")
    b.enter(0, "main")
    for at, length in ((10, 10), (20, 20), (30, 90), (60, 1000)):
        recv(b, at, at + 9, 0, mpi.world, length)
    b.leave(100, "main")


@pytest.mark.slow
def test_frequent_communication__has_short_calls_on_average(archive, find):
    statements(archive)
    # mean times: sends 6 in f and 40 in g, receives 9
    for threshold, expected in (
        ("5.9ns", []),
        ("7ns", ["main/f/MPI_Send"]),
        (9.1e-9, ["main/MPI_Recv", "main/f/MPI_Send"]),
    ):
        found = find(archive, {"frequent_communication.threshold": threshold})["frequent_communication"]
        assert [s.name for s in found.statements] == expected
        assert ticks(found) == sum({"main/f/MPI_Send": 18, "main/MPI_Recv": 36}[n] for n in expected)
    assert [s.value for s in found.statements] == pytest.approx([9e-9, 6e-9])
    # all calls are below the default of 10 us
    assert ticks(find(archive)["frequent_communication"]) == 36 + 18 + 40


@pytest.mark.slow
def test_big_messages__are_long_on_average(archive, find):
    statements(archive)
    # mean sizes: 40 in f, 1000 in g, 280 received
    found = find(archive, {"big_messages.threshold": 279})["big_messages"]
    assert [(s.name, s.value) for s in found.statements] == [("main/g/MPI_Send", 1000), ("main/MPI_Recv", 280)]
    assert ticks(found) == 40 + 36
    assert ticks(find(archive, {"big_messages.threshold": "1kB"})["big_messages"]) == 0
    assert [s.name for s in find(archive, {"big_messages.threshold": 280})["big_messages"].statements] == [
        "main/g/MPI_Send"
    ]


def test_big_messages__needs_numbers_of_bytes(archive, find):
    statements(archive)
    found = find(archive, conventions="expert")["big_messages"]
    assert np.isnan(found.severity)
    assert "no numbers of bytes" in found.note


@pytest.mark.slow
def test_uneven_mp_distribution__compares_processes(archive, find):
    mpi = archive.mpi(4)
    for rank, end in zip(mpi.ranks, (12, 14, 16, 18), strict=True):
        rank.enter(0, "main")
        # 2, 4, 6, 8 ticks: mean 5, deviation sqrt(5)
        rank.collective(10, end, mpi.world, "bcast", 0)
    # only rank 0 sends: mean 5, deviation sqrt(3) * 5
    send(mpi.ranks[0], 30, 50, 1, mpi.world)
    for rank in mpi.ranks:
        rank.leave(100, "main")
    found = find(archive, {"uneven_mp_distribution.threshold": "44%"})["uneven_mp_distribution"]
    assert {s.name: s.value for s in found.statements} == pytest.approx(
        {"main/MPI_Send": 3**0.5, "main/MPI_Bcast": 5**0.5 / 5}
    )
    assert ticks(found) == 20 + 20
    found = find(archive, {"uneven_mp_distribution.threshold": "45%"})["uneven_mp_distribution"]
    assert [s.name for s in found.statements] == ["main/MPI_Send"]


# -- waits -------------------------------------------------------------------------------------------------------------


def test_load_imbalance_at_barrier__compares_the_calls_of_each_barrier(archive, find):
    mpi = archive.mpi(3)
    two = archive.comm("two", [0, 1])
    for rank, first, second in zip(mpi.ranks, (10, 14, 19), (40, 40, 40), strict=True):
        rank.enter(0, "main")
        rank.collective(first, 20, mpi.world, "barrier")  # 10, 6, 1 ticks: 9 + 5 idle
        rank.collective(second, 45 + first, mpi.world, "barrier")  # 15, 19, 24 ticks: 4 + 9
        if rank is not mpi.ranks[2]:
            rank.collective(70 + first, 90, two, "barrier")  # not all processes
        rank.leave(100, "main")
    found = find(archive)["load_imbalance_at_barrier"]
    assert ticks(found) == 9 + 5 + 4 + 9
    assert found.note == "1 of 3 barriers leave processes out and are not counted"


def master_and_slaves(archive):
    """Make rank 1 the master: it waits 20 for rank 0 and 10 for rank 2; rank 0 waits 30 for a task, rank 2 sends 7
    ticks too early."""
    mpi = archive.mpi(3)
    a, m, b = mpi.ranks
    send(a, 30, 35, 1, mpi.world)
    recv(m, 10, 36, 0, mpi.world)  # late sender 20
    send(b, 50, 55, 1, mpi.world)
    recv(m, 40, 56, 2, mpi.world)  # 10
    recv(a, 40, 75, 1, mpi.world)
    send(m, 70, 72, 0, mpi.world)  # rank 0 waits 30
    send(b, 80, 99, 1, mpi.world, call="MPI_Ssend")
    recv(m, 87, 98, 2, mpi.world)  # late receiver 7
    # between slaves: late sender 5
    recv(b, 110, 120, 0, mpi.world)
    send(a, 115, 118, 2, mpi.world)


@pytest.mark.slow
def test_master_rules__count_what_involves_the_master(archive, find):
    master_and_slaves(archive)
    found = find(archive, {"slow_slaves.master": 1, "overloaded_master.master": 1})
    assert ticks(found["slow_slaves"]) == 20 + 10
    assert ticks(found["overloaded_master"]) == 30 + 7
    assert ticks(found["late_sender"]) == 20 + 10 + 30 + 5
    assert ticks(found["late_receiver"]) == 7
    assert found["overloaded_master"].confidence == 0.8
    # with rank 0 as the master: rank 1 waits 20 for it, and rank 2 waits 5
    found = find(archive, {"slow_slaves.master": 0, "overloaded_master.master": 0})
    assert (ticks(found["slow_slaves"]), ticks(found["overloaded_master"])) == (30, 25)
    found = find(archive, {"slow_slaves.master": 5, "overloaded_master.master": 5})
    assert found["slow_slaves"].note == found["overloaded_master"].note == "there is no rank 5"
    assert ticks(found["slow_slaves"]) == ticks(found["overloaded_master"]) == 0


def test_wrong_order__costs_all_calls_involved(archive, find):
    mpi = archive.mpi(3)
    a, b, c = mpi.ranks
    # a sends at 11 (tag 1), b at 21; the message of b is received first, then that of a; a third one is in order
    a.enter(10, "MPI_Send").send(11, 2, mpi.world, 1, 8).leave(13, "MPI_Send")
    b.enter(20, "MPI_Send").send(21, 2, mpi.world, 2, 8).leave(25, "MPI_Send")
    c.enter(30, "MPI_Recv").receive(31, 1, mpi.world, 2, 8).leave(34, "MPI_Recv")
    c.enter(40, "MPI_Recv").receive(41, 0, mpi.world, 1, 8).leave(48, "MPI_Recv")
    b.enter(50, "MPI_Send").send(51, 2, mpi.world, 3, 8).leave(66, "MPI_Send")
    c.enter(70, "MPI_Recv").receive(71, 1, mpi.world, 3, 8).leave(96, "MPI_Recv")
    assert ticks(find(archive)["wrong_order_costs"]) == 3 + 5 + 4 + 8


def slow_wrong_order(trace):
    """Walk through the receives of every process with the queue of messages on their way to it, as the paper says."""
    m, process = trace.messages, trace.locations["process"].to_numpy()
    calls = {}
    by_target = {}
    for row in m.itertuples():
        by_target.setdefault(process[row.recv_location], []).append(row)
    for rows in by_target.values():
        rows = sorted(rows, key=lambda r: (r.recv_time, r.recv))
        for i, received in enumerate(rows):
            older = [r for r in rows[i + 1 :] if r.send_time < received.send_time]
            for r in [received, *older] if older else []:
                calls[r.send_enter] = r.send_exit_time - r.send_enter_time
                calls[r.recv_enter] = r.recv_exit_time - r.recv_enter_time
    return sum(calls.values()) / trace.manifest["clock"]["resolution"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", TRACES, ids=lambda p: p.name)
def test_wrong_order__is_what_the_queue_shows(folder, opened):
    trace = opened(folder)
    (found,) = evaluate(trace, ["wrong_order_costs"])
    if folder.name in ("wrong_order", "sweep3d_4"):
        assert found.severity > 0
    assert found.severity == pytest.approx(slow_wrong_order(trace), rel=1e-12)


def test_rules__of_a_real_trace_fit_together(data, opened):
    trace = opened(data / "hybrid_2x3")
    cube = trace.analyze()
    of_trace, of_cube = evaluate(trace), evaluate(cube)
    by_rule = {f.rule: f for f in of_trace}
    assert [f.rule for f in of_trace] == [f.rule for f in of_cube] == list(RULES)
    for a, b in zip(of_trace, of_cube, strict=True):
        if RULES[a.rule].needs == "cube":
            assert a == b
        else:
            assert np.isnan(b.severity)
            assert b.note.startswith("needs the trace")
            assert a.severity >= 0
    # of two ranks, one waits for the other: with each as the master in turn, the rules add up to all waits
    slow = [evaluate(cube, ["slow_slaves"], {"slow_slaves.master": r})[0].severity for r in (0, 1)]
    assert sum(slow) == pytest.approx(cube.total("mpi_latesender"), rel=1e-12)
    over = [evaluate(trace, ["overloaded_master"], {"overloaded_master.master": r})[0].severity for r in (0, 1)]
    assert sum(over) == pytest.approx(cube.total("mpi_latesender") + cube.total("mpi_latereceiver"), rel=1e-12)
    assert by_rule["costs"].severity <= cube.total("time")
    table = frame(of_trace)
    assert table.rule.tolist() == list(RULES)
    assert list(table.columns) == ["rule", "title", "severity", "share", "confidence", "names", "note"]
    # properties that the rules add do not appear in other analyses
    assert "overloaded_master_latesender" not in trace.analyze().cells


def test_rules__of_a_region(data, opened):
    cube = opened(data / "hybrid_2x3").analyze()
    region = "hybrid/main/h_coll"
    found = {f.rule: f for f in evaluate(cube, call_path=region)}
    below = cube.find_call_paths(region + "*")
    assert found["synchronization_costs"].severity == pytest.approx(
        cube.by_location("mpi_synchronization", below).sum(), rel=1e-12
    )
    assert found["costs"].share == pytest.approx(found["costs"].severity / cube.by_location("time", below).sum())
    assert all(s.name.startswith(region) for f in found.values() for s in f.statements if "/" in s.name)
    with pytest.raises(SeverityError, match="no call path matches"):
        evaluate(cube, call_path="nowhere")


def test_rules__of_programs_without_mpi(data, opened):
    trace = opened(data / "omp_basic")
    assert [f.rule for f in evaluate(trace) if f.severity] == ["other_losses"]
    with pytest.raises(RuleError, match="no rule 'cost'\n  did you mean costs"):
        evaluate(trace, ["cost"])
    with pytest.raises(tracecols.errors.AnalysisError, match="no conventions"):
        evaluate(trace, conventions="vampir")


def test_rules__are_declared_wholly():
    for rule in RULES.values():
        assert rule.summary.endswith(".")
        assert rule.evaluate.__doc__
        assert rule.needs in ("cube", "trace")
        assert 0 < rule.confidence <= 1
        assert not rule.properties or rule.needs == "trace"
        for name, p in rule.parameters.items():
            read = p.read(name, p.show(p.default), RuleError)
            assert read == pytest.approx(p.default) if p.unit else p.default == ""
    assert replace(RULES["costs"], id="x").id == "x"


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_command__prints_ranked_verdicts(data, tmp_path):
    store = tracecols.convert(data / "hybrid_2x3", tmp_path / "h.trace")
    cube = tracecols.open(store).analyze().save(tmp_path / "h.severity")
    output = executed("rules", store, "--set", "uneven_mp_distribution.threshold=20%", "--rows", "1")
    lines = output.splitlines()
    shares = [float(line.split("%")[0]) for line in lines if line[:8].strip().endswith("%")]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) > 5
    assert "Uneven Communication (Uneven MP Distribution)  uneven_mp_distribution  threshold 20.0%" in output
    assert "more; --rows shows them" in output
    result = run("rules", cube)
    assert "overloaded_master: needs the trace: give the store instead of the cube" in result.output
    result = run("rules", cube, "--json", "--rule", "overloaded_master", "--rule", "late_sender")
    first, second = json.loads(result.output)
    assert (first["rule"], second["rule"], second["severity"]) == ("late_sender", "overloaded_master", None)
    assert first["severity"] == pytest.approx(tracecols.SeverityCube.load(cube).total("mpi_latesender"), rel=1e-12)
    result = run("rules", "--list")
    assert all(rule in result.output for rule in RULES)
    assert "    master = 0: rank of the master" in result.output


@pytest.fixture(scope="module")
def cube(tmp_path_factory, store_of, data):
    return tracecols.open(store_of(data / "hybrid_2x3")).analyze().save(tmp_path_factory.mktemp("cube") / "c")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--set", "big_messages=1"], 2, "is not RULE.PARAMETER=VALUE"),
        (["--set", "big_messages.threshold=1", "--set", "big_messages.threshold=2"], 2, "threshold is given twice"),
        (["--set", "big_messages.threshold=1XB"], 2, "big_messages.threshold: '1XB' is not a value"),
        (["--rule", "nothing"], 2, "no rule 'nothing'"),
        (["-c", "nowhere"], 1, "no call path matches"),
    ],
)
def test_command__says_what_is_wrong(cube, arguments, code, words):
    assert words in executed("rules", cube, *arguments, code=code)


@pytest.mark.parametrize(
    ("calls", "focus"),
    [
        # without MPI there is nothing to be set apart, unless contexts of devices are created
        (["work"], ""),
        (["MPI_Init", "cuCtxCreate_v2", "work", "MPI_Finalize"], "MPI_Init to MPI_Finalize without device contexts"),
        *slow(
            [
                (["cuCtxCreate_v2", "work"], "the run without device contexts"),
                (["MPI_Init", "work", "MPI_Finalize"], "MPI_Init to MPI_Finalize"),
            ]
        ),
    ],
)
def test_command__says_what_the_focus_is(calls, focus, tmp_path):
    program = Program(2)
    program.stream(0)
    for one in program.masters:
        one.enter(0, "main")
        for at, call in enumerate(calls):
            one.call(10 * at + 1, 10 * at + 9, call)
        one.leave(100)
    with program.trace() as trace:
        cube = trace.analyze().save(tmp_path / "c.severity")
        for source in (trace.path, cube):
            printed = [executed("rules", source, *more) for more in ([], ["--with-startup"])]
            assert (f"focus: {focus}; --with-startup shows all\n" in printed[0]) == bool(focus)
            assert ("focus" in printed[0], "focus" in printed[1]) == (bool(focus), False)
    compared = run("compare", cube, cube).output
    assert (f"focus: {focus}; --with-startup shows all\n" in compared) == ("focus" in compared) == bool(focus)


def test_command__needs_a_cube_or_a_store(tmp_path):
    executed("rules", code=2)
    assert "is not a store" in executed("rules", tmp_path, code=1)


@pytest.mark.slow
def test_other_losses__are_what_is_neither_computation_nor_mpi(opened, data):
    """Other rules cover only MPI; this one reports all other losses: with computation, they add up to the time."""
    trace = opened(data / "hybrid_2x3")
    cube = trace.analyze().focused()
    (found,) = tracecols.rules.evaluate(cube, "other_losses")
    lost = cube.total("time") - cube.total("comp") - cube.total("mpi")
    assert found.severity == pytest.approx(lost, rel=1e-9)
    assert [s.name for s in found.statements] == ["Idle Threads", "OpenMP"]
    assert found.statements[0].severity == pytest.approx(cube.total("omp_idle_threads"))
