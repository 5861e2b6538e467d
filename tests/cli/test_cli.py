"""The command line, as used by people and by scripts."""

import json
import re

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import DATA
from support.command_line import executed, python, run
from support.small_cubes import small_cube

import tracecols
from tracecols.converters import registry
from tracecols.converters.registry import open_source
from tracecols.errors import AnalysisError
from tracecols.testing import Program


@pytest.fixture(scope="module")
def work(tmp_path_factory, data):
    """A folder with a store and a cube of the hybrid recording."""
    folder = tmp_path_factory.mktemp("work")
    for arguments in (
        ["convert", data / "hybrid_2x3", "-o", folder / "h.trace"],
        ["analyze", folder / "h.trace", "-o", folder / "h.severity"],
    ):
        executed(*arguments)
    return folder


def test_help__loads_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['tracecols', '--help']\nimport tracecols.cli\n"
        "try:\n    tracecols.cli.main()\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'numba', 'pandas', 'pyarrow', 'numpy', 'rich'} & set(sys.modules)\nassert not heavy, heavy"
    )
    done = python("-c", code)
    assert "analyze" in done.stdout


def test_import__loads_nothing_heavy():
    code = "import tracecols, sys\nassert not {'numba', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)\ntracecols.errors.TracecolsError"
    python("-c", code)


def test_analyze__opens_an_archive_once(data, tmp_path, monkeypatch):
    """Reading its definitions takes a part of the time of a small analysis."""
    opened = []
    monkeypatch.setattr(registry, "open_source", lambda source: opened.append(source) or open_source(source))
    executed("analyze", data / "hybrid_2x3", "-o", tmp_path / "x.severity", "-p", "time", "-q")
    assert opened == [data / "hybrid_2x3"]


@pytest.mark.slow
def test_commands_that_call_no_kernel__do_not_load_numba(work, tmp_path):
    """Importing numba takes longer than most of these commands."""
    store, cube = work / "h.trace", work / "h.severity"
    commands = [
        ["info", store], ["info", cube], ["show", cube], ["show", cube, "-p", "late broadcast"], ["diagnose", cube],
        ["report", cube, "-o", tmp_path / "h.html"], ["export", cube, tmp_path / "h.cubex"], ["patterns"], ["rules", "--list"],
    ]  # fmt: skip
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom tracecols.cli import group\n"
        f"for command in {[[str(word) for word in command] for command in commands]!r}:\n"
        "    result = CliRunner().invoke(group, command)\n"
        "    assert not result.exit_code, (command, result.output)\n    assert 'numba' not in sys.modules, command\n"
    )
    python("-c", code)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["convert", "analyze"])
def test_commands__load_neither_pandas_nor_rich_nor_the_compiler(command, tmp_path, work, data):
    source = data / "hybrid_2x3" if command == "convert" else work / "h.trace"
    for k in range(2):
        code = (
            f"import sys\nsys.argv = ['tracecols', {command!r}, {str(source)!r}, '-o', {str(tmp_path / f'out{k}')!r}]\n"
            "import tracecols.cli\ntry:\n    tracecols.cli.main()\nexcept SystemExit as e:\n    assert not e.code\n"
            "print([m for m in ('pandas', 'rich', 'numba.np.arraymath', 'numba.np.linalg') if m in sys.modules], file=sys.stderr)"
        )
        done = python("-c", code)
    # the first run may have compiled kernels
    assert done.stderr.splitlines()[-1] == "[]"


def test_convert__names_the_store_after_the_folder_of_traces_otf2(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert executed("convert", data / "hybrid_2x3") == "hybrid_2x3.trace: 6,708 events, 6 locations\n"
    assert (tmp_path / "hybrid_2x3.trace" / "manifest.json").is_file()


def test_analyze__takes_an_archive_and_leaves_no_store(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    executed("analyze", data / "hybrid_2x3" / "traces.otf2")
    assert [p.name for p in tmp_path.iterdir()] == ["hybrid_2x3.severity"]


def test_analyze__is_the_same_for_store_and_archive_and_jobs(tmp_path, work, data):
    for jobs in (1, 2):
        assert run("analyze", data / "hybrid_2x3", "-o", tmp_path / f"{jobs}.severity", "--jobs", jobs).exit_code == 0
        assert (tmp_path / f"{jobs}.severity" / "cells.parquet").read_bytes() == (
            work / "h.severity" / "cells.parquet"
        ).read_bytes()


def test_short_runs__have_times_that_are_not_zero(tmp_path):
    times = {("main", 0, 0): 40, ("main/f", 0, 0): 60}
    small_cube({"time": times}, resolution=10**9).save(tmp_path / "x.severity")
    assert "Time  time  100 ns" in run("show", tmp_path / "x.severity").output
    assert re.search(r" 60 ns +60 ns  f$", run("show", tmp_path / "x.severity", "-p", "time", "--seconds").output, re.M)


def test_info__tells_what_a_person_wants_to_know(work):
    output = run("info", work / "h.trace").output
    assert re.search(r"^ +1  self +mpi +MPI_COMM_SELF", output, re.MULTILINE)
    for words in (
        "OTF2 2.3.0 (trace format 2), written by Score-P 7.1",
        "0.544050 s, clock of 2,596,145,201 ticks per second",
        "6,708 in 6 locations of 2 processes",
        "3,220  ENTER",
        "MPI_COMM_WORLD",
        "2 Process x 3 Thread",
        "Everything was understood.",
    ):
        assert words in output, output


def test_non_blocking_collectives__are_understood(tmp_path, archive):
    """They are analysed, so nothing is left out. Messages that lack a side are explained."""
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for rank in mpi.ranks:
        rank.enter(0, "MPI_Iallreduce").start_collective(1, 3).leave(2, "MPI_Iallreduce")
        rank.enter(3, "MPI_Wait").record(
            8, "NonBlockingCollectiveComplete", op=11, communicator=mpi.world, root=None, sent=8, received=8, request=3
        ).leave(9, "MPI_Wait")
    a.enter(10, "MPI_Send").send(11, 1, mpi.world, 7, 64).leave(12, "MPI_Send")
    b.enter(10, "MPI_Recv").receive(11, 0, mpi.world, 8, 64).leave(12, "MPI_Recv")
    assert run("convert", archive.write(), "-o", tmp_path / "x.trace").exit_code == 0
    assert "Everything was understood." in run("info", tmp_path / "x.trace").output
    told = run("analyze", tmp_path / "x.trace", "-o", tmp_path / "x.severity").stderr
    assert not any("non-blocking" in line for line in told.splitlines() if line.startswith("note"))
    assert "note: 1 send without receive (it and its bytes count as sent; what it waited for is not known)\n" in told
    assert "note: 1 receive without send (it and its bytes, as far as recorded, count as received;" in told


@pytest.mark.parametrize("command", ["info", "check"])
def test_archives__are_taken_where_stores_are(command, work, data, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    of_store = run(command, work / "h.trace")
    for source in (data / "hybrid_2x3", data / "hybrid_2x3" / "traces.otf2"):
        assert executed(command, source) == of_store.output
    assert not list(tmp_path.iterdir())
    assert "no such file or folder" in executed(command, tmp_path / "nothing", code=1)


@pytest.mark.parametrize("name", ["h.severity", "h.cubex"])
def test_info__of_a_cube_tells_how_it_was_made(work, tmp_path, name):
    source = work / name
    if name.endswith(".cubex"):
        source = tmp_path / name
        run("export", work / "h.severity", source)
    output = run("info", source).output
    for words in ("6,708", "exact conventions, not narrowed", "56 call paths x 6 locations", "Process x Thread"):
        assert words in output, output


def test_check__finds_nothing_in_a_sound_trace(work):
    result = run("check", work / "h.trace")
    assert (result.exit_code, result.output) == (0, "nothing contradicts itself\n")


def test_show__prints_the_property_tree(work):
    output = executed("show", work / "h.severity", "--with-startup")
    # of the reference report: time 3.2535 s, omp_idle_threads 1.71267 s = 52.64 %, mpi_latebroadcast 0.0213 s = 0.65 %
    assert "100.00%  Time  time  3.253498 s" in output
    assert "52.64%  Idle Threads  omp_idle_threads" in output
    assert "0.65%  Late Broadcast  mpi_latebroadcast" in output
    assert "mpi_latesender" not in output  # 2.4 us are below the threshold


def test_show__prints_the_call_tree_of_a_property_by_title(work):
    output = executed("show", work / "h.severity", "-p", "Late Broadcast", "--seconds")
    assert "0.021302 s        0.021302 s  MPI_Bcast" in output
    assert "Choose the process" in output or "choose the process" in output


def test_show__prints_the_locations_of_a_call_path(work):
    output = executed("show", work / "h.severity", "-p", "mpi_latebroadcast", "-c", "*/MPI_Bcast", "--relative")
    assert "100.00%  machine Linux" in output
    assert "100.00%  rank 0 thread 0" in output or "100.00%  rank 1 thread 0" in output


def test_show__lays_a_property_on_a_grid(work, tmp_path, monkeypatch):
    output = executed(
        "show", work / "h.severity", "-p", "omp_idle_threads", "--topology", "process x thread", "--with-startup"
    )
    head, grid, _, columns, *rows = output.splitlines()
    assert head == "Idle Threads (omp_idle_threads)  1.712671 s, percent of time"
    assert grid == "Process x Thread: Process to the right, Thread downwards; empty positions are marked -"
    assert columns.split() == ["0", "1"]
    # masters are never idle; 52.64 % are divided among the other four
    assert rows[0].split() == ["0", "0.00%", "0.00%"]
    shares = [float(v.rstrip("%")) for row in rows[1:] for v in row.split()[1:]]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(52.64, abs=0.03)
    # seconds on some call paths, and shades where numbers do not fit
    result = run("show", work / "h.severity", "-p", "mpi", "-c", "*/MPI_Bcast", "--topology", "0", "--seconds")
    assert result.output.startswith("MPI (mpi)  0.021329 s\n")
    monkeypatch.setenv("COLUMNS", "20")
    result = run("show", work / "h.severity", "-p", "omp_idle_threads", "--topology", "0")
    assert "shades up to" in result.output
    assert [line.split()[1:] for line in result.output.splitlines()[-2:]] == [["\u2588\u2588"]] * 2


def test_show__lays_a_property_on_planes(work, tmp_path):
    cube = tracecols.SeverityCube.load(work / "h.severity")
    at = [[x, y, 0] for x in range(2) for y in range(2)] + [[0, 0, 14], [1, 1, 14]]
    cube.with_topology("cubes", [2, 2, 15], at, locations=range(6)).save(tmp_path / "c.severity")
    output = executed("show", tmp_path / "c.severity", "--topology", "cubes", "--with-startup")
    planes = output.split("dimension 2 ")
    shares = [float(v.rstrip("%")) for line in planes[1].splitlines()[2:] for v in line.split()[1:]]
    assert shares == pytest.approx([100 / 6] * 4, abs=0.1)
    assert "dimension 2 1\n                0        1\n     0          -        -\n" in output
    assert "and 3 more planes" in output
    cube.with_topology("line", [3], [[2], [0]]).save(tmp_path / "l.severity")
    result = run("show", tmp_path / "l.severity", "--topology", "1", "--with-startup")
    assert "     0     49.83%        -   50.17%\n" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topology", "7"), "no topology 7 in this cube; there are\n  0 <Topology 'Process x Thread': 2 x 3"),
        (("--topology", "grid"), "no topology is called 'grid'"),
        (("-p", "mpi_latesendr"), "did you mean mpi_latesender"),
        (("-p", "time", "-c", "nowhere"), "no call path matches 'nowhere'"),
    ],
)
def test_show__hints_at_what_was_meant(work, arguments, words):
    assert words in executed("show", work / "h.severity", *arguments, code=1)


def test_export__parquet_has_the_columns_of_the_references(work, tmp_path, data):
    assert run("export", work / "h.severity", tmp_path / "x.parquet").exit_code == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert list(table) == ["property", "call_path", "rank", "thread", "value"]
    assert (table.value != 0).all()
    reference = pd.read_parquet(data / "hybrid_2x3" / "reference.parquet")
    ours = table[table.property == "mpi_latereceiver"].value.sum()
    assert ours == pytest.approx(reference[reference.property == "mpi_latereceiver"].value.sum(), abs=1e-9)


def test_export__csv_and_json_hold_the_same_cells(work, tmp_path):
    for suffix in ("csv", "json", "parquet"):
        assert run("export", work / "h.severity", tmp_path / f"x.{suffix}").exit_code == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert pd.read_csv(tmp_path / "x.csv").value.sum() == pytest.approx(table.value.sum())
    trees = json.loads((tmp_path / "x.json").read_text())
    assert len(trees["cells"]) == len(table)
    property_, call_path, location, value = trees["cells"][0]
    assert trees["properties"][property_]["id"] == "time"
    assert trees["call_paths"][call_path]["name"] == "hybrid"
    assert (trees["locations"][location]["rank"], trees["locations"][location]["thread"]) == (0, 0)
    assert value == table.value[0]


@pytest.mark.parametrize("table", ["events", "messages", "teams", "region_instances", "call_paths", "p2p", "regions"])
def test_export__writes_tables_of_a_store(work, tmp_path, table):
    executed("export", work / "h.trace", tmp_path / "t.parquet", "--table", table)
    assert len(pd.read_parquet(tmp_path / "t.parquet"))


def test_export__of_a_table_is_for_people_unless_raw_is_asked_for(work, tmp_path):
    """Seconds, ranks, threads and names, or ticks and rows; the unit of every column is in the file."""
    trace = tracecols.open(work / "h.trace")
    for more, frame in (((), trace.frame("messages")), (("--raw",), trace.frame("messages", raw=True))):
        path = tmp_path / f"t{len(more)}.parquet"
        assert run("export", work / "h.trace", path, "--table", "messages", *more).exit_code == 0
        schema = pq.read_schema(path)
        units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in schema}
        assert list(units) == list(frame.columns)
        assert pd.read_parquet(path)["length"].tolist() == frame["length"].tolist()
        assert units["length"] == "bytes"
        if more:
            assert units["send_time"] == "ticks" and "send_seconds" not in units
            assert int(schema.metadata[b"tracecols.ticks_per_second"]) == trace.manifest["clock"]["resolution"]
            assert int(schema.metadata[b"tracecols.origin"]) == trace.manifest["clock"]["origin"]
        else:
            assert units["send_seconds"] == "s" and "send_time" not in units
            assert {"send_rank", "send_thread", "recv_rank", "send_path"} <= set(units)
            assert pd.read_parquet(path)["send_seconds"].tolist() == frame["send_seconds"].tolist()


def test_export__for_people_is_replaced_by_the_same_command(work, tmp_path):
    for _ in range(2):
        assert run("export", work / "h.trace", tmp_path / "t.csv", "--table", "waits").exit_code == 0
    assert run("export", work / "h.trace", tmp_path / "t.csv", "--table", "waits", "--raw").exit_code == 1
    assert {"severity_seconds", "rank", "path"} & set(pd.read_csv(tmp_path / "t.csv").columns)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("frobnicate",), 2, "No such command"),
        (("convert",), 2, "Missing argument"),
        (("analyze", "x.trace", "--jobs", "0"), 2, "Invalid value"),
        (("convert", "nowhere.otf2"), 1, "no such file or folder: nowhere.otf2"),
        (("info", "nowhere.trace"), 1, "tracecols convert"),
        (("analyze", "nowhere.trace"), 1, "no such store"),
        (("show", "nowhere.severity"), 1, "tracecols analyze"),
        (("info", "n" * 300), 1, "error: nnn"),
    ],
)
def test_errors__say_what_to_do_and_set_the_exit_code(arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = executed(*arguments, code=code)
    assert words in output
    assert "Traceback" not in output
    assert not list(tmp_path.iterdir())


def test_export__refuses_unknown_formats_and_tables(work, tmp_path):
    assert "there are .parquet, .csv, .json" in run("export", work / "h.severity", tmp_path / "x.xlsx").output
    output = executed("export", work / "h.trace", tmp_path / "x.csv", "--table", "nothing", code=1)
    assert "no table 'nothing'" in output
    assert not list(tmp_path.iterdir())


def test_export__into_a_missing_folder_is_a_clear_error(work, tmp_path):
    assert "cannot write" in executed("export", work / "h.severity", tmp_path / "no" / "x.csv", code=1)


def test_outputs__do_not_overwrite_what_is_not_theirs(work, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    output = executed("analyze", work / "h.trace", "-o", tmp_path / "mine", code=1)
    assert "exists and is not a severity cube" in output
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_commands__that_are_mistyped_are_suggested():
    assert "No such command 'analyse'. Did you mean analyze?" in executed("analyse", "x.trace", code=2)
    assert "Did you mean" not in run("zzz").output


@pytest.mark.slow
def test_info__tells_by_how_much_root_causes_differ_from_those_of_scalasca(tmp_path):
    """It is shown for a cube, and not after every analysis."""
    cube = tmp_path / "x.severity"
    trace = tracecols.convert(DATA / "hybrid_2x3", tmp_path / "x.trace", jobs=1)
    assert "conventions scalasca" not in run("analyze", trace, "-o", cube).output
    listed = run("info", cube, env={"COLUMNS": "1000"}).output
    assert "4  differences from conventions scalasca in root causes: " in listed
    assert "Process x Thread  2 Process x 3 Thread" in listed and "<Topology" not in listed
    assert "waits whose causes it does not know are charged (14 waits, 35.7 ms)" in listed
    only = run("analyze", trace, "-p", "mpi_latesender", "-o", tmp_path / "r.severity")
    assert "Nothing of what is looked at costs as much as 0.5 %" in only.stderr


def test_messages__count_one_in_the_singular(tmp_path):
    program = Program(2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(5, "MPI_Send").send(6, 1).leave(7).leave(9)
    receiver.enter(0, "main").enter(1, "MPI_Recv").receive(7, 0).leave(8).leave(9)
    with program.trace() as trace:
        for words, printed in (
            (("enhance", trace.path, "messages"), "messages: 1 row, "),
            (("analyze", trace.path, "-o", tmp_path / "x.severity", "--bins", 1), "by 1 bin of time\n"),
            (
                ("export", trace.path, tmp_path / "x.pftrace", "--around", "late sender"),
                "around 1 instance of Late Sender",
            ),
        ):
            assert printed in run(*words).output
    program = Program()
    program.masters[0].call(3, 3, "main")
    with program.trace() as trace, pytest.raises(AnalysisError, match=r"lasts 1 tick \(1 s\) would have no width"):
        trace.analyze(bins=2)
