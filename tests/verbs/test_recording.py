"""Costs of recording: regions, events and bytes of programs whose events are counted by hand."""

import ctypes
import json
import re

import pytest
from support.command_line import executed, run
from support.otf2_writer import Archive

import tracecols
from tracecols.export.filters import KEYWORDS, as_pattern, filter_text
from tracecols.testing import Program
from tracecols.verbs.recording import recording_of

N = 1_200
NAMES = ("int dot(int*, int[3])", "wrapper", "slow", "seldom")


def program(path, n=N):
    """Record two ranks that call functions: a short one, a short one around MPI, one of 50 us, and a rare one."""
    archive = Archive(path / "traces.otf2", event_chunk=4_096, length=60_000 * n + 30)
    mpi = archive.mpi(2)
    for rank in mpi.ranks:
        t = 0
        rank.enter(t, "main")
        for i in range(n):
            rank.enter(t + 10, NAMES[0]).leave(t + 110, NAMES[0])
            rank.enter(t + 120, NAMES[1]).enter(t + 130, "MPI_Comm_rank").leave(t + 140, "MPI_Comm_rank")
            rank.leave(t + 150, NAMES[1]).enter(t + 200, NAMES[2]).leave(t + 50_200, NAMES[2])
            t += 60_000
            if i < 3:
                rank.enter(t, NAMES[3]).leave(t + 5, NAMES[3])
                t += 10
        rank.leave(t, "main")
    return archive


@pytest.fixture
def store(tmp_path):
    return tracecols.convert(program(tmp_path).write(), tmp_path / "x.trace")


def test_recording_costs__of_times_whose_sum_exceeds_64_bits():
    program = Program(2)
    for one in program.masters:
        one.call(0, 3 << 61, "main")
    with program.trace() as trace:
        assert trace.recording_costs().mean_seconds.tolist() == [float(3 << 61)]
        assert recording_of(trace.model).all_ticks == 3 << 62


def test_recording_costs__are_those_of_the_events(store):
    table = tracecols.open(store).recording_costs().set_index("region_name")
    assert table.visits.to_dict() == {
        NAMES[0]: 2 * N, NAMES[1]: 2 * N, NAMES[2]: 2 * N, "MPI_Comm_rank": 2 * N, NAMES[3]: 6, "main": 2,
    }  # fmt: skip
    assert table.kind.to_dict() == {
        NAMES[0]: "user", NAMES[1]: "communication", NAMES[2]: "user", "MPI_Comm_rank": "run time", NAMES[3]: "user", "main": "communication",
    }  # fmt: skip
    # functions that communicate are kept though they are short, and so are long and rare ones
    assert table.index[table.is_left_out].tolist() == [NAMES[0]]
    assert table.mean_seconds[NAMES[0]] == 100e-9
    assert table.n_events[NAMES[0]] == 4 * N
    assert table.cost_seconds[NAMES[0]] == pytest.approx(4 * N * 1e-7)


@pytest.mark.slow
def test_bytes__are_those_in_the_archive(tmp_path):
    # the growth of a file with more calls is the size of their records
    sizes, predicted = [], []
    for n in (N, 2 * N):
        folder = tmp_path / str(n)
        folder.mkdir()
        path = program(folder, n).write()
        sizes.append(sum(f.stat().st_size for f in folder.rglob("*.evt")))
        model = tracecols.open(tracecols.convert(path, folder / "x.trace")).model
        predicted.append(int(recording_of(model).n_bytes.sum()))
    assert predicted[1] - predicted[0] == pytest.approx(sizes[1] - sizes[0], rel=0.01)


def test_filter__is_what_score_p_reads(store):
    text = filter_text(recording_of(tracecols.open(store).model), "x")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        "SCOREP_REGION_NAMES_BEGIN",
        "  EXCLUDE",
        r"    int\ dot(int\*,\ int\[3\])",
        "SCOREP_REGION_NAMES_END",
    ]
    # without the backslashes it is the name
    assert re.sub(r"\\(.)", r"\1", lines[2].strip()) == NAMES[0]


AWKWARD = (
    "operator[]", "operator*", "a # b", "#pragma", "\ttab", "ends in a blank ", "back\\slash", "C:\\", "\\", "two\nlines", "[!a]", "?", "[a-z]", "EXCLUDE",
    "MANGLED", "SCOREP_REGION_NAMES_END", "Größe<T>::operator()(int&) const", "\\# \\ *",
)  # fmt: skip


def patterns_score_p_reads(text):
    """Return the patterns of a filter as Score-P's parser finds them (scorep_filter_parser.c of Score-P 6): comments
    begin at # and tokens end at blanks, unless the character before is a backslash; none may precede a line break."""
    found, mode = [], None
    for line in text.splitlines(keepends=True):
        line = re.sub(r"(?s)(?<!\\)#.*", "", line)
        assert line[-2:-1] != "\\", "Escaping line breaks is not supported"
        for token in filter(None, re.split(r"(?<!\\)[ \t\n]", line)):
            if token in KEYWORDS:
                mode = token
            else:
                assert mode == "EXCLUDE", f"Unexpected token {token!r}"
                found.append(token)
    assert mode == "SCOREP_REGION_NAMES_END"
    return found


def test_pattern__fits_its_name_and_no_other_in_the_c_library():
    text = "\n".join(
        ["SCOREP_REGION_NAMES_BEGIN", "  EXCLUDE", *map(as_pattern, AWKWARD), "SCOREP_REGION_NAMES_END", ""]
    )
    patterns = patterns_score_p_reads(text)
    fnmatch = ctypes.CDLL(None).fnmatch
    fits = [[not fnmatch(p.encode(), n.encode(), 0) for n in AWKWARD] for p in patterns]
    assert fits == [[p == n for n in range(len(AWKWARD))] for p in range(len(AWKWARD))]


def test_command__predicts_the_next_measurement(store, tmp_path):
    output = tmp_path / "x.filter"
    made = executed("filter", store, "-o", output)
    assert output.read_text().startswith("# A filter of Score-P, made by tracecols")
    n = 2 * (2 + 8 * N + 6)
    assert f"events: {n - 4 * N:,} instead of {n:,}" in made
    assert run("filter", store, "-o", output).exit_code == 0
    output.write_text("mine")
    assert run("filter", store, "-o", output).exit_code == 1
    values = json.loads(run("filter", store, "--json").stdout)
    assert [r["region"] for r in values["left_out"]] == [NAMES[0]]
    assert values["now"]["events"] - values["then"]["events"] == 4 * N
    # the prediction is the count of a program without these calls
    assert values["then"]["events"] == n - 4 * N


def test_check__says_how_much_of_the_run_is_measurement(store):
    result = run("check", store)
    share = 4 * (1 + 4 * N + 3) * 1e-7 / (2 * (60_000 * N + 30) * 1e-9)
    assert f"recording takes about {share:.0%} of the time of all threads" in result.stderr
    assert f"{4 * N:,} of them of short functions, which 'tracecols filter' leaves out" in result.stderr
    values = json.loads(run("check", store, "--json").stdout)["recording"]
    assert values["share"] == pytest.approx(share, rel=1e-9)
