"""Paraver traces: every event against a slow reader, BSC's own numbers, and refused files."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from conftest import slow
from oracles import paraver as oracle
from support.paraver_writer import PCF, header, random_program, write

import tracecols
from tracecols.converters import registry
from tracecols.converters.paraver import archive, index, scan
from tracecols.errors import SourceError
from tracecols.export.archive import export_archive
from tracecols.schema import NAMES
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.severity.efficiencies import scaling
from tracecols.store import Store

KEPT = {
    "p2p": ("peer", "tag", "length"), "collectives": ("op", "root", "sent", "received"), "locks": ("lock",),
    "control": ("stop_time",),
}  # fmt: skip
"""Attributes that are compared, by family."""


def events_of(source, location):
    """Return the events of a location in the form of the oracle."""
    regions = source.definitions["regions"]["name"]
    counters = source.definitions["metric_members"]["id"]
    found, base = [], 0
    for batch in source.read(location, archive.Report()):
        kinds = [NAMES[k] for k in batch.events["kind"].tolist()]
        said = [{} for _ in kinds]
        for family, table in batch.sides.items():
            rows = (table["row"] - base).tolist()
            if family == "metrics_0":
                for i, row in enumerate(rows):
                    values = [(t, int(table[f"value_{c}"][i])) for c, t in enumerate(counters)]
                    said[row] = {"values": tuple((t, v) for t, v in values if v)}
                continue
            for name in KEPT.get(family, ()):
                for row, value in zip(rows, table[name].tolist(), strict=True):
                    said[row][name] = value
        for time, kind, region, values in zip(
            batch.events["time"].tolist(), kinds, batch.events["region"].tolist(), said, strict=True
        ):
            if kind == "MPI_COLLECTIVE_BEGIN":
                values = {}
            if "op" in values:
                values["op"] = COLLECTIVE_OPS[values["op"]]
            if "lock" in values:
                values["lock"] = int(source.locks[values["lock"]]) % (1 << 64)
            found.append((time, kind, regions[region] if region >= 0 else "", tuple(sorted(values.items()))))
        base += len(kinds)
    return found


def check_against_oracle(path):
    source = registry.open_source(path)
    expected = list(oracle.read_all(path))
    assert len(expected) == len(source.definitions["locations"]["id"])
    for location, events in enumerate(expected):
        assert events_of(source, location) == events
        assert source.definitions["locations"]["n_events"][location] == len(events)


@pytest.mark.parametrize(("seed", "tasks", "threads"), [(1, 1, 1), (2, 3, 1), (3, 2, 3), *slow([(s, 1 + s % 5, 1 + s % 4) for s in range(10, 26)])])  # fmt: skip
def test_events__are_those_of_a_slow_reader(tmp_path, seed, tasks, threads):
    check_against_oracle(write(tmp_path / "x.prv", random_program(seed, tasks, threads, 12)))


def test_events__do_not_depend_on_windows_compression_or_line_ends(tmp_path, monkeypatch):
    text = random_program(5, 3, 2, 20)
    expected = list(oracle.read_all(write(tmp_path / "x.prv", text)))
    monkeypatch.setattr(archive, "ROWS", 64)
    monkeypatch.setattr(index, "WORDS_AT_ONCE", 8)
    for block in (100, 1000, 1 << 20):
        monkeypatch.setattr(index, "BLOCK", block)
        for name, written in (("x.prv", text), ("y.prv.gz", text), ("z.prv", text.replace("\n", "\r\n"))):
            source = registry.open_source(write(tmp_path / name, written))
            assert [events_of(source, i) for i in range(6)] == expected


def test_events__do_not_depend_on_how_the_header_is_written(tmp_path):
    text = random_program(5, 2, 1, 6)
    expected = list(oracle.read_all(write(tmp_path / "x.prv", text)))
    nodes, two_nodes = ":1(2):1:2(1:1,1:1)", ":2(1,1):1:2(1:1,1:2)"
    assert nodes in text
    half = len(text) // 2
    members = tmp_path / "members.prv.gz"
    written = [
        write(tmp_path / "nodes.prv", text.replace(nodes, two_nodes)),
        write(tmp_path / "unknown.prv", text.replace(":1(2):1:", ":0:1:")),
        write(tmp_path / "number.prv", text.replace(":1(2):1:", ":1:1:")),
        write(tmp_path / "date.prv", text.replace("09/10/2019 at 16:08", "2019-10-09 16:08:01 UTC")),
        write(tmp_path / "notes.prv", text.replace("\n2:", "\n# a note\n\n2:")),
        write(members, text),
    ]
    # gzip of several members, as if parts were compressed and then concatenated
    members.write_bytes(gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode()))
    for path in written:
        source = registry.open_source(path)
        assert [events_of(source, i) for i in range(2)] == expected
    hosts = registry.open_source(written[0]).definitions["system_tree_nodes"]["class_name"]
    assert hosts.count("node") == 2


@pytest.mark.parametrize("lines", ["# a comment\nc:1:1:2:1:2\n", "\nc:1:1:2:1:2\n", "c:1:1:2:1:2\nC:1:2:1:2\n"])
@pytest.mark.parametrize("end", [",1", ",1 ", ",0", ""])
def test_communicators__may_have_comments_between_them_and_be_more_than_stated(tmp_path, lines, end):
    head = f"#Paraver (x):100_ns:1(2):1:2(1:1,1:1){end}\n"
    source = registry.open_source(write(tmp_path / "x.prv", head + lines + "1:1:1:1:1:0:100:1\n"))
    assert source.definitions["communicators"]["members"][0] == [0, 1]
    assert events_of(source, 0) == [(0, "ENTER", "program", ()), (100, "EXIT", "program", ())]
    with pytest.raises(SourceError, match=f"line {2 + lines.count(chr(10))}: byte"):
        broken = write(tmp_path / "y.prv", head + lines + "7:1\n")
        tracecols.convert(broken, tmp_path / "y.trace")


def test_events__out_of_order_are_sorted(tmp_path):
    text = random_program(6, 2, 1, 12)
    head, body = text.split("c:1:1:2:1:2\n")
    lines = body.splitlines(keepends=True)
    # records of one thread and time stay in order
    groups: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        fields = line.split(":")
        groups.setdefault((fields[3], fields[5]), []).append(line)
    shuffled = list(groups.values())
    np.random.default_rng(0).shuffle(shuffled)
    path = write(tmp_path / "x.prv", head + "c:1:1:2:1:2\n" + "".join(line for group in shuffled for line in group))
    expected = list(oracle.read_all(write(tmp_path / "y.prv", text)))
    source = registry.open_source(path)
    assert [events_of(source, i) for i in range(2)] == expected
    assert source.properties["threads with records out of order"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epoch/epoch_2proc", "omp/omp1"])
def test_recorded_events__are_those_of_a_slow_reader(shared_traces, tmp_path, name):
    with gzip.open(shared_traces / "paraver" / f"{name}.prv.gz", "rt") as file:
        head, *records = file
    if name == "omp/omp1":
        # of 228,580 records the begin and the second parallel region, from 190,536 on: these have all record types
        records = records[:5_000] + records[190_520:]
    path = tmp_path / "x.prv"
    for ending in (".pcf", ".row"):
        path.with_suffix(ending).write_bytes((shared_traces / "paraver" / f"{name}{ending}").read_bytes())
    path.write_text(head + "".join(records))
    check_against_oracle(path)


def test_nonblocking_messages__are_posted_and_completed(opened, tmp_path):
    text = header(100, [1, 1], [[0, 1]]) + (
        "2:1:1:1:1:10:50000001:3\n2:1:1:1:1:12:50000001:0\n"
        "3:1:1:1:1:10:12:2:1:2:1:7:30:64:5\n"
        "2:2:1:2:1:5:50000001:4\n2:2:1:2:1:7:50000001:0\n2:2:1:2:1:20:50000001:5\n2:2:1:2:1:30:50000001:0\n"
    )
    source = registry.open_source(write(tmp_path / "x.prv", text))
    sender, receiver = (events_of(source, i) for i in range(2))
    assert [(t, k) for t, k, *_ in sender if "MPI" in k] == [(10, "MPI_ISEND")]
    assert [(t, k) for t, k, *_ in receiver if "MPI" in k] == [(7, "MPI_IRECV_REQUEST"), (30, "MPI_IRECV")]
    model = opened(tmp_path / "x.prv").model
    assert len(model.messages) == 1


@pytest.mark.parametrize("completed", [6, 8, 9])
def test_messages__belong_to_calls_that_can_send_or_receive_them_where_calls_share_a_time(tmp_path, completed):
    """With ticks of microseconds, calls begin when others end, and some take no time."""
    head = header(100, [1, 1], [[0, 1]], unit="_us")
    lines = "2:1:1:1:1:3:50000003:19\n2:1:1:1:1:3:50000003:0\n2:1:1:1:1:3:50000001:1\n2:1:1:1:1:3:50000001:0\n"
    lines += f"3:1:1:1:1:3:3:2:1:2:1:5:{completed}:11:1\n"
    lines += "2:1:1:1:1:3:50000001:3\n2:1:1:1:1:3:50000001:0\n3:1:1:1:1:3:3:2:1:2:1:5:6:12:2\n"
    lines += "2:1:1:1:1:3:50000001:2\n2:2:1:2:1:5:50000001:4\n2:2:1:2:1:5:50000001:0\n"
    lines += f"2:2:1:2:1:5:50000001:2\n2:2:1:2:1:6:50000001:0\n2:2:1:2:1:{completed}:50000001:5\n"
    lines += f"2:2:1:2:1:{completed}:50000001:0\n"
    lines += "2:2:1:2:1:9:50000001:1\n2:2:1:2:1:9:50000001:0\n3:2:1:2:1:9:9:1:1:1:1:3:7:13:3\n2:1:1:1:1:7:50000001:0\n"
    source = registry.open_source(write(tmp_path / "x.prv", head + lines))
    found, stack = [], []
    for location in range(2):
        for _, kind, region, values in events_of(source, location):
            stack = [*stack, region] if kind == "ENTER" else stack[:-1] if kind == "EXIT" else stack
            if kind.startswith("MPI"):
                found.append((stack[-1], kind, dict(values).get("length")))
    assert found == [
        ("MPI_Send", "MPI_SEND", 11), ("MPI_Isend", "MPI_ISEND", 12), ("MPI_Recv", "MPI_RECV", 13),
        ("MPI_Irecv", "MPI_IRECV_REQUEST", -1), ("MPI_Recv", "MPI_RECV", 12), ("MPI_Wait", "MPI_IRECV", 11),
        ("MPI_Send", "MPI_SEND", 13),
    ]  # fmt: skip


def test_messages__received_at_one_time_belong_to_the_calls_in_which_they_were_expected(tmp_path):
    """The line of the message that the second call receives comes first."""
    lines = "3:1:1:1:1:1:2:2:1:2:1:9:9:12:2\n3:1:1:1:1:1:3:2:1:2:1:5:9:11:1\n"
    lines += "".join(f"2:2:1:2:1:{t}:50000001:{value}\n" for t, value in ((5, 2), (9, 0), (9, 2), (9, 0)))
    text = header(100, [1, 1], [[0, 1]]) + lines
    found = events_of(registry.open_source(write(tmp_path / "x.prv", text)), 1)
    assert [dict(values)["length"] for _, kind, _, values in found if kind == "MPI_RECV"] == [11, 12]


# -- results for recordings --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def epoch(shared_traces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("epoch")
    return {
        n: tracecols.open(
            tracecols.convert(shared_traces / f"paraver/epoch/epoch_{n}proc.prv.gz", folder / f"{n}.trace")
        )
        for n in (1, 2, 4, 8)
    }


@pytest.mark.slow
def test_late_sender__is_that_of_the_raw_records(epoch):
    found = [trace.analyze(properties=["mpi_latesender"]).total("mpi_latesender") for trace in epoch.values()]
    assert [round(seconds, 9) for seconds in found] == [0, 0.072870765, 0.222627961, 0.785443065]


def _percent(value):
    return f"{100 * value:.6f}"


def _microseconds(value):
    return f"{1e6 * value:.2f}"


MODELFACTORS = {
    "Parallel efficiency": ("parallel_efficiency", _percent),
    "Load balance": ("load_balance", _percent),
    "Communication efficiency": ("communication_efficiency", _percent),
    "Serialization efficiency": ("serialisation_efficiency", _percent),
    "Transfer efficiency": ("transfer_efficiency", _percent),
    "Computation scalability": ("computation_scalability", _percent),
    "Global efficiency": ("global_efficiency", _percent),
    "IPC scalability": ("ipc_scalability", _percent),
    "Instruction scalability": ("instruction_scalability", _percent),
    "Frequency scalability": ("frequency_scalability", _percent),
    "Speedup": ("speedup", lambda v: f"{v:.6f}"),
    "Average IPC": ("ipc", lambda v: f"{v:.6f}"),
    "Average frequency (GHz)": ("frequency", lambda v: f"{v / 1e9:.6f}"),
    "#Runtime (us)": ("runtime", _microseconds),
    "#Runtime (ideal)": ("ideal_runtime", _microseconds),
    "#Useful duration (average)": ("useful_mean", _microseconds),
    "#Useful duration (maximum)": ("useful_max", _microseconds),
    "#Useful duration (total)": ("useful_total", _microseconds),
    "#Useful duration (ideal, max)": ("useful_ideal", _microseconds),
    "#Useful instructions (total)": ("instructions", lambda v: f"{v:.2f}"),
    "#Useful cycles (total)": ("cycles", lambda v: f"{v:.2f}"),
}
"""Metric and formatting function of its values, by row of BSC's table."""


@pytest.mark.slow
def test_factors__are_those_of_bsc_in_every_printed_digit(shared_traces, epoch):
    tables = [trace.efficiencies(ideal="dimemas") for trace in epoch.values()]
    series = scaling(tables, [str(n) for n in epoch])
    found = []
    for k, table in enumerate(tables):
        values = {**series.iloc[k].to_dict(), **table[~table.model.str.startswith("hybrid")].set_index("metric").value}
        values["useful_ideal"] = values["serialisation_efficiency"] * values["ideal_runtime"]
        found.append(values)
    with open(shared_traces / "paraver/epoch/modelfactors.csv") as file:
        printed = {row[0]: row[1:5] for row in csv.reader(file, delimiter=";") if len(row) > 1}
    assert len(MODELFACTORS) == 21
    for title, (metric, how) in MODELFACTORS.items():
        assert [how(values[metric]) for values in found] == printed[title], title


@pytest.mark.slow
def test_computation__is_the_time_in_state_running(shared_traces, tmp_path):
    for name in ("omp/omp1", "omp/omp4", "epoch/epoch_4proc"):
        path = shared_traces / f"paraver/{name}.prv.gz"
        running = sum(
            int(f[6]) - int(f[5])
            for line in oracle.lines_of(path)
            if line.startswith("1:") and (f := line.strip().split(":"))[7] == "1"
        )
        cube = tracecols.open(tracecols.convert(path, tmp_path / "x.trace", force=True)).analyze(properties=["comp"])
        assert round(cube.total("comp") * 1e9) == running


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 4])
def test_openmp_factors__are_those_of_the_states(shared_traces, opened, n):
    """Computed from states and forks: PyPOP's OpenMP region, serial (Amdahl's) and parallel efficiency."""
    path = shared_traces / f"paraver/omp/omp{n}.prv.gz"
    running: dict[str, list[tuple[int, int]]] = {}
    forks: list[int] = []
    duration = 0
    for line in oracle.lines_of(path):
        f = line.strip().split(":")
        if line.startswith("#"):
            duration = int(line.split("):")[1].split("_")[0])
        elif f[0] == "1" and f[7] == "1":
            running.setdefault(f[4], []).append((int(f[5]), int(f[6])))
        elif f[0] == "2" and "60000001" in f[6::2]:
            forks.append(int(f[5]))
    regions = list(zip(forks[::2], forks[1::2], strict=True))

    def useful(thread, begin, end):
        return sum(max(0, min(end, b) - max(begin, a)) for a, b in running[thread])

    inside = sum(useful(t, *region) for t in running for region in regions) / n
    serial = useful("1", 0, duration) - sum(useful("1", *region) for region in regions)
    expected = {
        "openmp_region_efficiency": 1 - (sum(b - a for a, b in regions) - inside) / duration,
        "amdahl_efficiency": 1 - (n - 1) / n * serial / duration,
        "parallel_efficiency": sum(useful(t, 0, duration) for t in running) / n / duration,
    }
    table = opened(path).efficiencies()
    found = table[table.model == "hybrid additive"].set_index("metric").value
    for metric, value in expected.items():
        assert f"{found[metric]:.6f}" == f"{value:.6f}", metric


# -- refused files -----------------------------------------------------------------------------------------------------


HEAD = header(100, [2, 1], [[0, 1]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#Otf 1\n", "is not a Paraver trace"),
        ("#Paraver (x):100_ns:1(1):1\n", "line 1: the header does not say"),
        ("#Paraver (x):100_s:1(1):1:1(1:1)\n", "times in 's'"),
        ("#Paraver (x):9999999999999999999_ns:1(1):1:1(1:1)\n", "line 1: the trace ends at 9999999999999999999, which is imp"),
        ("#Paraver (x):100_ns:1(1):2:1(1:1):1(1:1)\n", "2 applications"),
        ("#Paraver (x):100_ns:1(1):1:3(1:1)\n", "says 3 tasks, and lists 1"),
        ("#Paraver (x):100_ns:1(1):1:1(0:1)\n", "task 1 no threads"),
        ("#Paraver (x):100_ns:1(1):1:1(1:2)\n", "node 2 of 1"),
        ("#Paraver (x):100_ns:1(1):1:2(999999999:1,1:1)\n", "line 1: the header says 1,000,000,000 threads"),
        ("#Paraver (x):100_ns:1(1):1:1(65537:1)\n", "line 1: the header says 65,537 threads, more than a file of this size"),
        ("#Paraver (x):100_ns:1(1):1:1(1:1),2\nc:1:1:1:1\n", "expected communicator 2 of 2"),
        ("#Paraver (x):100_ns:1(1):1:1(1:1),1\nc:1:1:1:2\n", "communicator 1 of 1 tasks lists others"),
        ("#Paraver (x):100_ns:1(1):1:1(1:1),1\nc:1:1:1:--1\n", "line 2: expected a communicator, found"),
        (HEAD + "9:1:1:1:1:0:1\n", "line 3: byte .*no state"),
        (HEAD + "1:1:1:1:1:0:10\n", "line 3: byte .*fields"),
        (HEAD + "2:1:1:1:1:5\n", "fields"),
        (HEAD + "2:1:1:1:1:5:7\n", "fields"),
        (HEAD + "2:1:1:1:1:x:7:1\n", "fields"),
        (HEAD + "1:1:2:1:1:0:10:1\n", "another application"),
        (HEAD + "1:1:1:3:1:0:10:1\n", "task or thread that the header does not define"),
        (HEAD + "1:1:1:2:2:0:10:1\n", "task or thread"),
        (HEAD + "1:1:1:1:1:10:5:1\n", "ends before it begins"),
        (HEAD + "1:1:1:1:1:0:99999999999999999999999:1\n", "fields"),
        (HEAD + "1:1:1:1:1:0:9999999999999999999:1\n", "impossibly large"),
        (2 * (HEAD.splitlines()[0][:-1] + "0\n2:1:1:1:1:5:7:1\n"), "line 3: .* the header of another trace"),
        (HEAD + "1:1:1:1:1:0:10:1\n1:1:1:1:1:5:15:1\n", "line 4: thread 1.1.1 at time 5: a state begins before the one before it ends"),
        (HEAD + "2:1:1:1:1:5:50000001:0\n", "line 3: thread 1.1.1 at time 5: an event of type 50000001 ends what has not begun"),
        (HEAD + "2:1:1:1:1:5:50000002:8:50100004:1\n2:1:1:1:1:6:50000002:0\n", "1 collective operations in one and 0"),
    ],
)  # fmt: skip
def test_bad_input__is_refused_with_what_is_wrong(tmp_path, text, words):
    path = write(tmp_path / "bad.prv", text)
    with pytest.raises(SourceError, match=words) as error:
        tracecols.convert(path, tmp_path / "x.trace")
    assert "\n  " in str(error.value)
    assert str(path) in str(error.value)
    assert not (tmp_path / "x.trace").exists()


def test_openmp__events_of_newer_versions_have_teams_barriers_and_locks(opened, tmp_path):
    """Thread 1 waits for thread 2 in a barrier, thread 2 for a critical section and at the end of the region."""
    labels = {
        60002: {1: "PARALLEL REGION Fork/Join", 2: "PARALLEL REGION"}, 60004: {26: "BARRIER", 30: "CRITICAL"},
        60005: {37: "LOCK: Obtaining", 38: "LOCK: Taken", 39: "LOCK: Releasing"}, 60012: {77: "loop"}, 60013: {77: "92 (loop.c, a.out)"},
    }  # fmt: skip
    pcf = "".join(
        f"\nEVENT_TYPE\n0 {number} OpenMP\nVALUES\n" + "".join(f"{v} {label}\n" for v, label in of.items())
        for number, of in labels.items()
    )
    records = ["1:1:1:1:1:0:100:1\n", "2:1:1:1:1:10:60002:1\n"]
    for thread, begin, barrier, (wants, has, leaves, left), end in (
        (1, 12, 20, (32, 33, 37, 38), 60), (2, 13, 30, (33, 38, 39, 40), 45),
    ):  # fmt: skip
        for time, events in (
            (begin, "60002:2:60001:1:60012:77:60013:77"), (barrier, "60004:26"), (31, "60004:0"), (wants, "60004:30:60005:37:60006:9"),
            (has, "60005:38:60006:9"), (leaves, "60005:39:60006:9"), (left, "60005:0:60006:9:60004:0"), (end, "60001:0:60012:0:60013:0:60002:0"),
        ):  # fmt: skip
            records.append(f"2:{thread}:1:1:{thread}:{time}:{events}\n")
    records.append("2:1:1:1:1:63:60002:0\n")
    path = write(tmp_path / "x.prv", header(100, [2]) + "".join(records), pcf)
    trace = opened(path)
    cells = trace.analyze().cells
    for name, expected in (
        ("omp_ebarrier_wait", [10]), ("omp_ibarrier_wait", [15]), ("omp_lock_contention_critical", [4]),
        ("omp_idle_threads", [47]),
    ):  # fmt: skip
        assert cells[name].value.tolist() == expected, name
    assert set(trace.regions.name) == {
        "program", "loop", "!$omp barrier", "!$omp implicit barrier", "CRITICAL", "!$omp critical", "!$omp end critical",
    }  # fmt: skip


def test_locks__named_by_addresses_can_be_exported(tmp_path):
    path = tracecols.convert(write(tmp_path / "x.prv", random_program(3, 2, 3, 12)), tmp_path / "t")
    export_archive(path, tmp_path / "x.otf2")
    again = tracecols.convert(tmp_path / "x.otf2", tmp_path / "again")
    locks = [Store(of).read("locks", 0, ["lock"])["lock"].tolist() for of in (path, again)]
    assert set(locks[0]) == {0}
    assert locks[0] == locks[1]


def test_counters__that_are_sums_of_others_are_left_out(opened, tmp_path):
    """The option -absolute-counters of the merger writes these beside the others."""
    pcf = "EVENT_TYPE\n7 42000050 PAPI_TOT_INS [Instr completed]\n7 43000050 Absolute PAPI_TOT_INS [Instr completed]\n"
    records = "".join(f"2:1:1:1:1:{t}:42000050:{n}:43000050:{total}\n" for t, n, total in ((10, 5, 5), (20, 7, 12)))
    path = write(tmp_path / "x.prv", header(100, [1]) + "1:1:1:1:1:0:100:1\n" + records, pcf)
    trace = opened(path)
    assert trace.store.definitions["metric_members"].column("name").to_pylist() == ["PAPI_TOT_INS"]
    assert trace.manifest["not_understood"] == {}


def test_bursts__are_computation_and_the_time_between_them_is_mpi(opened, tmp_path):
    lines = []
    for task in (1, 2):
        who = f"{task}:1:{task}:1"
        lines += [(0, f"1:{who}:0:10:1"), (10, f"2:{who}:10:40000018:2"), (100, f"2:{who}:100:40000018:1")]
        for begin, end in ((12, 40), (50, 70), (100, 110)):
            lines += [(begin, f"1:{who}:{begin}:{end}:1"), (begin, f"2:{who}:{begin}:42000050:3")]
            lines.append((end, f"2:{who}:{end}:42000050:9"))
    text = header(110, [1, 1], [[0, 1]]) + "".join(line + "\n" for _, line in sorted(lines, key=lambda one: one[0]))
    trace = opened(write(tmp_path / "x.prv", text))
    cells = trace.analyze().cells
    assert (sum(cells["comp"].value), sum(cells["mpi"].value)) == (2 * 68, 2 * 42)
    assert trace.manifest["not_understood"] == {}
    assert any(note.startswith("in burst mode") for note in trace.manifest["source"]["notes"])


def test_pthreads__calls_are_named_by_their_types(opened, tmp_path):
    """Their values are 1 and 0, or "Begin" and "End" in `.pcf`."""
    pcf = "EVENT_TYPE\n0 61000003 pthread_join\nVALUES\n0 End\n1 Begin\n\nEVENT_TYPE\n0 61000008 pthread_mutex_lock\n"
    records = "".join(
        f"2:1:1:1:1:{time}:{number}:{value}\n"
        for time, number, value in ((10, 61000003, 1), (80, 61000003, 0), (85, 61000008, 1), (88, 61000008, 0))
    )
    path = write(tmp_path / "x.prv", header(100, [2]) + "1:1:1:1:1:0:100:1\n" + records, pcf)
    cells = opened(path).analyze().cells
    for name, expected in (("comp", 27), ("pthread_management", 70), ("pthread_lock_api", 3)):
        assert sum(cells[name].value.tolist()) == expected


def test_operations__without_a_root_have_none(opened, tmp_path):
    """Extrae marks all tasks as roots of MPI_Reduce_scatter."""
    pcf = "EVENT_TYPE\n0 50000002 MPI Collective Comm\nVALUES\n7 MPI_Bcast\n80 MPI_Reduce_scatter\n0 End\n"
    records = "".join(
        f"2:{t}:1:{t}:1:{at}:50000002:{value}:50100003:{root}:50100004:1\n2:{t}:1:{t}:1:{at + 5}:50000002:0\n"
        for at, value in ((10, 80), (20, 7)) for t, root in ((1, value // 80), (2, 1))
    )  # fmt: skip
    path = write(tmp_path / "x.prv", header(100, [1, 1], [[0, 1]]) + records, pcf)
    trace = opened(path)
    assert trace.frame("collectives", raw=True).root.tolist() == [-1, 1]


def test_calls__that_extrae_mislabels_have_their_names(opened, tmp_path):
    pcf = (
        "EVENT_TYPE\n0 50000004 MPI One-sided\nVALUES\n69 MPI_Win_complete\n70 MPI_Win_start\n71 MPI_Win_post\n0 End\n"
    )
    records = "".join(
        f"2:1:1:1:1:{10 * k}:50000004:{value}\n2:1:1:1:1:{10 * k + 5}:50000004:0\n"
        for k, value in enumerate((69, 70, 71))
    )
    trace = opened(write(tmp_path / "x.prv", header(100, [1]) + records, pcf))
    found = trace.region_instances
    calls = found[found.region_name.str.startswith("MPI_Win_")]
    assert calls.region_name.tolist() == ["MPI_Win_start", "MPI_Win_complete", "MPI_Win_post"]


def test_calls__of_task_groups_and_shmem_are_no_computation(opened, tmp_path):
    """At the end of a task group its tasks are waited for; other calls of the OpenMP runtime have names."""
    pcf = (
        "EVENT_TYPE\n0 60000002 Worksharing (OMP)\nVALUES\n0 End\n4 DO \n\nEVENT_TYPE\n0 60000011 work dispatcher\n"
        "VALUES\n0 End\n1 Begin\n\nEVENT_TYPE\n0 60000025 Taskgroup calls\nVALUES\n0 Outside\n1 Start\n2 End\n"
        "EVENT_TYPE\n0 52000000 OpenSHMEM calls\nVALUES\n0 Outside OpenSHMEM\n130 shmem_barrier_all\n"
        "EVENT_TYPE\n0 69000000 GASPI calls\nVALUES\n0 Outside\n29 gaspi_barrier\n"
    )
    calls = [
        (10, 60000002, 4, 13), (20, 60000011, 1, 22), (30, 60000025, 1, 31), (32, 60000025, 2, 52), (60, 52000000, 130, 67),
        (80, 69000000, 29, 84),
    ]  # fmt: skip
    records = "".join(
        f"2:1:1:1:1:{begin}:{number}:{value}\n2:1:1:1:1:{end}:{number}:0\n" for begin, number, value, end in calls
    )
    path = write(tmp_path / "x.prv", header(100, [1]) + "1:1:1:1:1:0:100:1\n" + records, pcf)
    trace = opened(path)
    cells = trace.analyze().cells
    found = {name: sum(cells[name].value.tolist()) for name in ("comp", "omp_taskwait", "shmem_barrier")}
    assert found == {"comp": 100 - 20 - 7, "omp_taskwait": 20, "shmem_barrier": 7}
    assert {"DO", "!$omp taskgroup", "!$omp end taskgroup", "gaspi_barrier"} <= set(trace.regions.name)
    assert trace.manifest["not_understood"] == {}


def test_calls__of_memory_and_the_system_and_constructs_of_ompt_are_regions(opened, tmp_path):
    """While tracing is off, nothing is recorded: values of this type are those of a switch."""
    pcf = "EVENT_TYPE\n0 40000040 Dynamic memory\nVALUES\n0 End\n1 malloc()\n\nEVENT_TYPE\n0 40000027 Process-related\n"
    pcf += "VALUES\n0 End\n3 waitpid()\n"
    events = [
        (1, "40000012:1"), (10, "40000041:64:40000040:1"), (12, "40000040:0"), (13, "40000027:3"), (18, "40000027:0"),
        (20, "60000052:1"), (25, "60000050:1"), (27, "60000050:0"), (30, "60000052:0"), (40, "40000012:0"), (60, "40000012:1"),
        (90, "40000012:0"),
    ]  # fmt: skip
    records = "".join(f"2:1:1:1:1:{time}:{values}\n" for time, values in events)
    path = write(tmp_path / "x.prv", header(100, [1]) + "1:1:1:1:1:0:100:1\n" + records, pcf)
    trace = opened(path)
    found = trace.region_instances
    times = found.assign(time=found.exit_time - found.enter_time).groupby("region_name").time.sum().to_dict()
    assert times == {
        "program": 100, "malloc()": 2, "waitpid()": 5, "!$omp for": 10, "!$omp critical sblock": 2, "MEASUREMENT OFF": 30,
    }  # fmt: skip
    assert sum(trace.analyze().cells["comp"].value) == 100
    assert trace.manifest["not_understood"] == {}


def test_opencl__kernels_have_their_names(opened, tmp_path):
    pcf = "EVENT_TYPE\n0 64000000 Host OpenCL call\n0 64100000 Accelerator OpenCL call\nVALUES\n0 Outside OpenCL\n"
    pcf += "15 clEnqueueNDRangeKernel\n18 clEnqueueReadBuffer\n\nEVENT_TYPE\n0 64200000 OpenCL kernel name\nVALUES\n2 saxpy\n"
    records = (
        "2:1:1:1:1:5:64000000:15:64200000:2\n2:1:1:1:1:7:64000000:0:64200000:0\n"
        "2:2:1:1:2:8:64100000:15:64200000:2\n2:2:1:1:2:20:64100000:0:64200000:0\n"
        "2:2:1:1:2:21:64100000:18:64099999:64\n2:2:1:1:2:30:64100000:0\n"
    )
    path = write(tmp_path / "x.prv", header(100, [2]) + "1:1:1:1:1:0:100:1\n" + records, pcf)
    (tmp_path / "x.row").write_text("LEVEL THREAD SIZE 2\nTHREAD 1.1.1\nOpenCL-D1.CQ1\n")
    trace = opened(path)
    found = trace.region_instances
    of = dict(zip(found.region_name, zip(found.enter_time, found.exit_time, strict=True), strict=True))
    assert (of["clEnqueueNDRangeKernel"], of["saxpy"], of["clEnqueueReadBuffer"]) == ((5, 7), (8, 20), (21, 30))
    assert len(trace.kernels) == len(trace.copies) == 1
    assert trace.manifest["not_understood"] == {}


def test_pieces__of_other_traces_end_what_they_do_not_begin(opened, tmp_path):
    """Paraver ends what is open at the end of a piece, and a critical section although it is over."""
    begin, end = "50000002:10:50100001:8:50100002:8:50100004:1", "50000002:0"
    calls = [(0, 1, end), (2, 1, begin), (4, 2, begin), (5, 1, end), (5, 2, end), (90, 1, begin)]
    calls += [(6, 1, "60000006:3"), (7, 1, "60000006:6"), (8, 1, "60000006:5"), (9, 1, "60000006:0")]
    calls.append((100, 1, f"{end}:60000006:0"))
    records = [f"1:{task}:1:{task}:1:0:100:1\n" for task in (1, 2)]
    records += [f"2:{task}:1:{task}:1:{time}:{events}\n" for time, task, events in calls]
    cut = header(100, [1, 1], [[0, 1]]) + '#24/11/2026 at 10:12:CUTTER:paramedir:"y.prv":3000:3000:3100\n'
    trace = opened(write(tmp_path / "x.prv", cut + "".join(records)))
    assert "and 2 ends of regions that have begun before it" in " ".join(trace.manifest["source"]["notes"])
    assert trace.collectives.n_members.tolist() == [2, 1]
    assert trace.analyze().cells["mpi_wait_nxn"].value.tolist() == [2]


def test_pieces__that_begin_within_an_operation_join_those_that_follow(opened, tmp_path):
    """Task 2 begins an operation in the piece that task 1 has begun before it, and task 3 has left before it."""
    allreduce, bcast, end = "50000002:10:50100001:8:50100002:8:50100004:1", "50000002:7:50100004:1", "50000002:0"
    calls = [(3, 1, end), (1, 2, allreduce), (3, 2, end)]
    calls += [(time + task, task, bcast) for time in (5, 105) for task in (1, 2, 3)]
    calls += [(time, task, end) for time in (10, 110) for task in (1, 2, 3)]
    calls += [(20 + 10 * task, task, allreduce) for task in (1, 2, 3)] + [(60, task, end) for task in (1, 2, 3)]
    records = [f"2:{task}:1:{task}:1:{time}:{events}\n" for time, task, events in sorted(calls, key=lambda c: c[0])]
    cut = header(200, [1, 1, 1], [[0, 1, 2]]) + '#24/11/2026 at 10:12:CUTTER:paramedir:"y.prv":3000:3000:3200\n'
    trace = opened(write(tmp_path / "x.prv", cut + "".join(records)))
    assert trace.collectives.op_name.tolist() == ["bcast", "allreduce", "bcast"]
    assert trace.collectives.n_members.tolist() == [3, 3, 3]
    assert sum(trace.analyze().cells["mpi_wait_nxn"].value) == 20 + 10


def test_pieces__of_some_tasks_know_the_roots(opened, tmp_path):
    """Paraver may leave out the records of tasks, here of the first."""
    events = {2: "50000002:7:50100003:1:50100001:8:50100004:1", 3: "50000002:7:50100002:8:50100004:1"}
    records = "".join(f"2:{t}:1:{t}:1:5:{begin}\n2:{t}:1:{t}:1:9:50000002:0\n" for t, begin in events.items())
    cut = header(20, [1, 1, 1], [[0, 1, 2]]) + '#24/11/2026 at 10:12:CUTTER:paramedir:"y.prv":3000:3000:3020\n'
    trace = opened(write(tmp_path / "x.prv", cut + records))
    assert set(trace.frame("collective_members", raw=True).is_root.tolist()) == {True, False}


def test_records__of_early_tracers_are_counted_and_left_out(opened, tmp_path):
    """Records of type 4 repeat information of events; -1 is the member of a communicator that a task did not get."""
    text = random_program(8, 2, 1, 50)
    expected = list(oracle.read_all(write(tmp_path / "y.prv", text)))
    head, *lines = text.splitlines(keepends=True)
    first, n = head.rstrip().rsplit(",", 1)
    early = f"{first},{int(n) + 1}\nc:1:77:2:-1:1\n" + "".join(
        "4:1:1:1:1:5:91:32:0:10:0\n" * line.startswith("2:") + line for line in lines
    )
    path = write(tmp_path / "x.prv", early)
    source = registry.open_source(path)
    assert [events_of(source, i) for i in range(2)] == expected
    trace = opened(path)
    left_out = trace.manifest["source"]["left out"]
    assert left_out["records of global operations (type 4)"] == early.count("\n4:")
    assert left_out["members of communicators that are no tasks"] == 1
    assert [0] in trace.store.definitions["communicators"].column("members").to_pylist()


@pytest.mark.slow
def test_truncated_files__are_refused_or_salvaged(tmp_path):
    packed = gzip.compress(random_program(8, 2, 1, 2000).encode())
    path = write(tmp_path / "x.prv.gz", "")
    path.write_bytes(packed[: len(packed) * 3 // 4])
    with pytest.raises(SourceError, match=r"x\.prv\.gz: line \d+: unpacking stops"):
        tracecols.convert(path, tmp_path / "x.trace")
    tracecols.convert(path, tmp_path / "x.trace", salvage=True)
    trace = tracecols.open(tmp_path / "x.trace")
    assert len(trace.store.manifest["lost"]) == 2
    assert trace.store.n_rows("events") > 1000


def test_truncated_files__lose_nothing_that_can_be_unpacked(opened, tmp_path):
    path = write(tmp_path / "x.prv.gz", random_program(8, 2, 1, 50))
    path.write_bytes(path.read_bytes()[:-100])
    trace = opened(path, salvage=True)
    assert trace.store.n_rows("events") > 100


def test_files_that_end_between_lines__are_told(tmp_path):
    text = header(10**9, [1]) + "1:1:1:1:1:0:400000000:1\n"
    note = "the records end at 0.400000 s, and the header states 1.000000 s: the trace may be cut"
    assert note in registry.open_source(write(tmp_path / "x.prv", text)).properties["notes"]
    whole = registry.open_source(write(tmp_path / "y.prv", text + "1:1:1:1:1:400000000:1000000000:1\n"))
    assert not any("header" in note for note in whole.properties["notes"])


def test_messages_that_are_filtered_out__are_noted(tmp_path):
    call, message = "2:1:1:1:1:10:50000001:3\n2:1:1:1:1:12:50000001:0\n", "3:1:1:1:1:10:12:2:1:2:1:7:30:64:5\n"
    for tasks, records, expected in (([1, 1], call + message, False), ([1, 1], call, True), ([1], call, False)):
        text = header(100, tasks, [[*range(len(tasks))]]) + records
        notes = registry.open_source(write(tmp_path / "x.prv", text)).properties["notes"]
        assert any(note.startswith("no communications") for note in notes) == expected


def test_traces_of_states_only__are_noted(tmp_path):
    records = "1:1:1:1:1:0:60:1\n1:1:1:1:1:60:100:3\n"
    for events, expected in (("2:1:1:1:1:60:40000018:1:42000050:7\n", True), ("2:1:1:1:1:60:50000001:3\n", False)):
        source = registry.open_source(write(tmp_path / "x.prv", header(100, [1, 1], [[0, 1]]) + records + events))
        assert any(note.startswith("no events say") for note in source.properties["notes"]) == expected


def test_types_without_meaning__are_counted(opened, tmp_path):
    text = HEAD + "2:1:1:1:1:5:77000001:1:77000001:2:30000001:9\n1:1:1:1:1:5:10:1\n"
    store = opened(write(tmp_path / "x.prv", text)).store
    assert store.manifest["not_understood"] == {"type 30000001": 1, "type 77000001 (Iteration)": 2}


def test_files_beside__may_be_missing(tmp_path):
    text = random_program(3, 2, 1)
    source = registry.open_source(write(tmp_path / "x.prv", text, pcf=None))
    assert [note.split(" is missing")[0] for note in source.properties["notes"]][:2] == ["x.pcf", "x.row"]
    assert "50000003:31" in source.definitions["regions"]["name"]
    row = "LEVEL CPU SIZE 2\n1.n\n2.n\n\nLEVEL NODE SIZE 1\nbox\n\nLEVEL THREAD SIZE 2\nTHREAD 1.1.1\nCUDA-D1.S1-box\n"
    source = registry.open_source(write(tmp_path / "y.prv", text, PCF, row))
    assert source.definitions["locations"]["name"] == ["THREAD 1.1.1", "CUDA-D1.S1-box"]
    assert source.definitions["locations"]["type"] == ["cpu_thread", "gpu"]
    assert source.definitions["system_tree_nodes"]["name"] == ["machine", "box"]
    # functions of the program are not recorded
    assert [note.split(" are known at")[0] for note in source.properties["notes"]] == ["functions of the program"]


def test_files_beside__that_do_not_fit_are_told(tmp_path):
    """Files of another trace may lie beside it."""
    row = "LEVEL THREAD SIZE 1\nTHREAD 1.1.1\n"
    source = registry.open_source(write(tmp_path / "x.prv", random_program(3, 2, 1), PCF.replace("MPI_Init", ""), row))
    assert source.properties["notes"][:2] == [
        "x.pcf does not name 1 call of MPI: what they do is not known",
        "x.row names 1 thread, and the trace has 2: its names are not used, and streams of devices are not known",
    ]


OF_CUDA = """EVENT_TYPE
0 63000001 CUDA library call
VALUES
1 cudaLaunch
3 cudaMemcpy
5 cudaDeviceSynchronize
0 End

EVENT_TYPE
0 63000019 CUDA kernel
VALUES
12 axpy
0 End
"""


def test_cuda__of_extrae_3_has_calls_on_hosts_and_kernels_on_streams(tmp_path):
    """Types as in Extrae 3.3: a launch and its kernel both record the call, then the kernel, and end them in the same
    order; on the host this becomes the call only, on the stream the kernel only."""
    begin, end = "63000001:1:63000019:12:63000119:12", "63000001:0:63000019:0:63000119:0"
    text = header(2000, [2]) + (
        f"1:1:1:1:1:0:2000:1\n2:1:1:1:1:200:{begin}\n2:1:1:1:1:250:{end}\n1:1:1:1:2:300:500:1\n"
        f"2:1:1:1:2:300:{begin}\n2:1:1:1:2:500:{end}\n"
        "2:1:1:1:2:510:63000001:3:63000002:64\n2:1:1:1:2:520:63000001:0\n2:1:1:1:1:600:63000001:5\n2:1:1:1:1:700:63000001:0\n"
    )
    row = "LEVEL THREAD SIZE 2\nTHREAD 1.1.1\nCUDA-D1.S1-box\n"
    source = registry.open_source(write(tmp_path / "x.prv", text, OF_CUDA, row))
    assert [(time, kind, region) for time, kind, region, _ in events_of(source, 0)] == [
        (0, "ENTER", "program"), (200, "ENTER", "cudaLaunch"), (250, "EXIT", "cudaLaunch"),
        (600, "ENTER", "cudaDeviceSynchronize"), (700, "EXIT", "cudaDeviceSynchronize"), (2000, "EXIT", "program"),
    ]  # fmt: skip
    assert [(time, kind, region) for time, kind, region, _ in events_of(source, 1)] == [
        (300, "ENTER", "axpy"), (500, "EXIT", "axpy"), (510, "ENTER", "cudaMemcpy"), (520, "EXIT", "cudaMemcpy"),
    ]  # fmt: skip
    regions = source.definitions["regions"]
    assert dict(zip(regions["name"], regions["role"], strict=True))["axpy"] == "kernel"
    assert "regions left with the one around them" not in source.properties
    # without names of threads no location is known to be a stream: kernels are nested in the calls that launch them
    source = registry.open_source(write(tmp_path / "y.prv", text, OF_CUDA))
    assert [(time, kind, region) for time, kind, region, _ in events_of(source, 1)][:5] == [
        (300, "ENTER", "program"), (300, "ENTER", "cudaLaunch"), (300, "ENTER", "axpy"), (500, "EXIT", "axpy"),
        (500, "EXIT", "cudaLaunch"),
    ]  # fmt: skip
    assert "regions left with the one around them" not in source.properties


def test_traces_of_nsys2prv__have_ranges_and_kernels_of_nccl(opened, tmp_path):
    """Its headers have a colon after the number of tasks, and it has other meanings for types of Extrae."""
    pcf = (
        "EVENT_TYPE\n0 63000000 CUDA library call\nVALUES\n1 cudaLaunchKernel\n\nEVENT_TYPE\n0 63000006 CUDA kernel\n"
        "VALUES\n5 gemm\n\nEVENT_TYPE\n0 63000007 NCCL kernel\nVALUES\n6 ncclDevKernel_AllReduce\n\nEVENT_TYPE\n"
        "0 9700 NVTX pushpop ranges default domain\nVALUES\n2 step\n3 forward\n"
    )
    text = "#Paraver (09/10/2019 at 16:08):1000_ns:0:1:1:(2:1)\n" + (
        "2:0:1:1:2:20:63000006:5:9101:1:9200:7\n2:0:1:1:2:50:63000006:0:9101:0:9200:0\n"
        "2:0:1:1:2:60:63000007:6\n2:0:1:1:2:90:63000007:0\n2:0:1:1:1:12:63000000:1\n2:0:1:1:1:14:63000000:0\n"
        "2:0:1:1:1:5:9700:2\n2:0:1:1:1:95:9700:0\n2:0:1:1:1:10:9700:3\n2:0:1:1:1:30:9700:0\n"
        "3:0:1:1:1:12:12:0:1:1:2:20:20:0:55001\n"
    )
    row = "LEVEL THREAD SIZE 2\nTHREAD 1.1.1\nCUDA-D0.S7\n"
    trace = opened(write(tmp_path / "x.prv", text, pcf, row))
    found = trace.region_instances
    assert {name: (begin, end) for name, begin, end in zip(found.region_name, found.enter_time, found.exit_time, strict=True)} == {
        "program": (5, 95), "step": (5, 95), "forward": (10, 30), "cudaLaunchKernel": (12, 14), "gemm": (20, 50),
        "ncclDevKernel_AllReduce": (60, 90),
    }  # fmt: skip
    assert trace.kernels.launch_enter_time.tolist()[0] == 12
    assert set(trace.manifest["not_understood"]) == {"type 9101", "type 9200"}


def test_messages__that_a_thread_sends_to_itself_are_those_of_mpi_in_calls_only(opened, tmp_path):
    text = header(100, [2, 1], [[0, 1]]) + "2:1:1:1:1:10:50000001:41\n2:1:1:1:1:20:50000001:0\n"
    text += (
        "3:1:1:1:1:10:10:1:1:1:1:10:20:64:5\n3:1:1:1:1:30:30:1:1:1:1:40:40:64:5\n3:1:1:1:1:10:10:1:1:1:2:10:20:8:6\n"
    )
    source = registry.open_source(write(tmp_path / "x.prv", text))
    messages = [(t, k, dict(values)) for t, k, _, values in events_of(source, 0) if k in ("MPI_SEND", "MPI_RECV")]
    assert messages == [(t, k, {"peer": 0, "tag": 5, "length": 64}) for t, k in ((10, "MPI_SEND"), (20, "MPI_RECV"))]
    assert source.properties["left out"] == {"messages within a task": 2}
    assert len(opened(tmp_path / "x.prv").model.messages) == 1


def test_messages__that_arrive_before_they_are_received_are_received_in_the_call(tmp_path):
    text = header(100, [1, 1], [[0, 1]]) + "1:1:1:1:1:0:100:1\n1:2:1:2:1:0:100:1\n"
    text += "2:1:1:1:1:10:50000001:1\n2:1:1:1:1:12:50000001:0\n3:1:1:1:1:10:12:2:1:2:1:50:20:8:7\n"
    text += "2:2:1:2:1:50:50000001:2\n2:2:1:2:1:60:50000001:0\n"
    source = registry.open_source(write(tmp_path / "x.prv", text, PCF))
    assert [event[:2] for event in events_of(source, 1)][1:4] == [(50, "ENTER"), (50, "MPI_RECV"), (60, "EXIT")]


@pytest.mark.parametrize(
    ("host", "device", "value", "name"), [(63000001, 63000001, 3, "CUDA"), (64000000, 64100000, 18, "OpenCL")]
)
def test_copies__on_streams_are_no_kernels(opened, tmp_path, host, device, value, name):
    pcf = (
        OF_CUDA
        + "\nEVENT_TYPE\n0 64000000 Host OpenCL call\n0 64100000 Accelerator OpenCL call\nVALUES\n18 clEnqueueReadBuffer\n"
    )
    text = header(200, [2]) + "1:1:1:1:1:0:200:1\n"
    for thread, begin, end, number in ((1, 10, 50, host), (2, 20, 45, device)):
        text += f"2:1:1:1:{thread}:{begin}:{number}:{value}\n2:1:1:1:{thread}:{end}:{number}:0\n"
    row = f"LEVEL THREAD SIZE 2\nTHREAD 1.1.1\n{name}-D1.S1-box\n"
    trace = opened(write(tmp_path / "x.prv", text, pcf, row))
    copies = trace.frame("copies", raw=True)
    assert (copies.begin_time.tolist(), copies.copy_enter_time.tolist(), len(trace.kernels)) == ([20], [10], 0)


def test_cuda__launches_are_messages_from_calls_to_kernels(opened, tmp_path):
    """The kernels of two streams begin in another order than they are launched."""
    text = header(200, [3]) + "1:1:1:1:1:0:200:1\n"
    for begin, stream, runs in ((10, 2, 50), (20, 3, 30), (25, 2, 80)):
        text += f"2:1:1:1:1:{begin}:63000001:1\n2:1:1:1:1:{begin + 2}:63000001:0\n"
        text += f"3:1:1:1:1:{begin}:{begin}:1:1:1:{stream}:{runs}:{runs}:0:{begin}\n"
        text += f"2:1:1:1:{stream}:{runs}:63000019:12\n2:1:1:1:{stream}:{runs + 15}:63000019:0\n"
    text += "3:1:1:1:1:40:40:1:1:1:2:95:95:64:7\n"  # a copy, which ends at 95
    row = "LEVEL THREAD SIZE 3\nTHREAD 1.1.1\nCUDA-D1.S1-box\nCUDA-D1.S2-box\n"
    trace = opened(write(tmp_path / "x.prv", text, OF_CUDA, row))
    kernels = trace.frame("kernels", raw=True)
    launched = dict(zip(kernels.enter_time.tolist(), kernels.launch_enter_time.tolist(), strict=True))
    assert launched == {50: 10, 30: 20, 80: 25}
    assert trace.manifest["source"]["left out"] == {"messages within a task": 1}


@pytest.mark.parametrize("name", ["CUDA-D1.S1-box", "HIP-D1.S1-box", "GPU-D1.S1", "GPU_a2f80454.1"])
def test_streams__have_names_of_all_versions(tmp_path, name):
    row = f"LEVEL THREAD SIZE 2\nTHREAD 1.1.1\n{name}\n"
    source = registry.open_source(write(tmp_path / "x.prv", header(100, [2]) + "1:1:1:1:2:0:100:1\n", PCF, row))
    assert source.definitions["locations"]["type"] == ["cpu_thread", "gpu"]
    # a stream does not execute the program
    assert events_of(source, 1) == []


def test_streams__of_different_devices_are_told_apart_by_their_names(opened, tmp_path):
    """Two kernels at the same time, each on its own device, and one on another stream of the first."""
    streams = ("CUDA-D1.S1-box", "CUDA-D2.S1-box", "CUDA-D1.S2-box", "GPU_a2f80454.1", "GPU_a2f80454.2")
    text = header(100, [6]) + "1:1:1:1:1:0:100:1\n"
    text += "".join(f"2:1:1:1:{k}:10:63000019:12\n2:1:1:1:{k}:50:63000019:0\n" for k in range(2, 7))
    row = "LEVEL THREAD SIZE 6\nTHREAD 1.1.1\n" + "\n".join(streams) + "\n"
    trace = opened(write(tmp_path / "x.prv", text, OF_CUDA, row))
    assert trace.model.locations.device_names == ("CUDA-D1", "CUDA-D2", "GPU_a2f80454")
    assert trace.model.locations.device.tolist() == [-1, 0, 1, 0, 2, 2]


def test_formats__are_recognised_by_what_files_hold(tmp_path):
    text = random_program(3, 2, 1)
    assert registry.open_source(write(tmp_path / "trace.txt", text, pcf=None)).format == "Paraver"
    packed = tmp_path / "noname"
    packed.write_bytes(gzip.compress(text.encode()))
    assert registry.open_source(packed).format == "Paraver"
    other = tmp_path / "other.prv"
    other.write_text("hello\n")
    with pytest.raises(SourceError, match="is not a Paraver trace"):
        registry.open_source(other)


def test_a_trace_without_records__is_empty(tmp_path):
    for unit, resolution in (("_ns", 10**9), ("_us", 10**6), ("_ms", 10**3), ("", 10**6)):
        path = write(tmp_path / "x.prv", header(100, [2, 1], unit=unit) + "# nothing\n\n")
        store = tracecols.open(tracecols.convert(path, tmp_path / "x.trace", force=True)).store
        assert store.n_rows("events") == 0
        assert store.manifest["clock"]["resolution"] == resolution


@pytest.mark.parametrize(
    ("defined", "used", "known"), [(1, 99, False), (1, 1, True), (1 << 40, 1, True), (1, 1 << 40, False)]
)
def test_operations__on_communicators_that_are_not_defined_are_counted(opened, tmp_path, defined, used, known):
    """A large identifier of one communicator does not affect others."""
    head = header(100, [1, 1], [[0, 1], [1, 0]]).replace("c:1:2:", f"c:1:{max(defined, 2)}:")
    text = head + "".join(
        f"2:1:1:{task}:1:{task}:50000002:8:50100004:{used}\n2:1:1:{task}:1:9:50000002:0\n" for task in (1, 2)
    )
    trace = opened(write(tmp_path / "x.prv", text))
    assert len(trace.collectives) == int(known)
    told = "2 participations in collective operations on communicators that the header does not define"
    assert any(note.startswith(told) for note in trace.manifest["source"]["notes"]) == (not known)


def test_headers__may_state_the_end_with_leading_zeros(tmp_path):
    """Emulators that write the end last reserve 20 digits for it; they know no nodes."""
    path = write(
        tmp_path / "x.prv", "#Paraver (19/01/38 at 03:14):00000000000000000100_ns:0:1:1(2:1)\n1:0:1:1:2:0:-1:1\n"
    )
    source = registry.open_source(path)
    assert source.clock.length == 100
    assert events_of(source, 1) == [(0, "ENTER", "program", ()), (100, "EXIT", "program", ())]


def test_open_states__end_with_the_trace(tmp_path):
    path = write(tmp_path / "x.prv", header(100, [1]) + "1:1:1:1:1:0:-1:1\n")
    source = registry.open_source(path)
    assert events_of(source, 0) == [(0, "ENTER", "program", ()), (100, "EXIT", "program", ())]


@pytest.mark.parametrize("line", ["1:1:1:1:1:0:10:1", "2:1:1:1:1:5:50000003:31", "3:1:1:1:1:0:1:2:1:2:1:3:4:5:6"])
def test_lines_that_break_off__are_read_to_their_end_and_no_further(line):
    """Plain Python reports an index past the end of the text, compiled code does not."""
    first, table = np.array([0, 1, 2]), index.type_table({50000003: ""})
    kernel = scan.scan_lines.py_func
    for n in range(1, len(line) + 1):
        data = np.frombuffer(line[:n].encode() + b"\n", np.uint8)
        state = np.zeros(scan.SCAN_STATE, np.int64)
        with np.errstate(over="ignore"):
            why = kernel(data, first, table, state, index.empty_results(1000, 2))
        assert (why == scan.END) == (n == len(line) or (n == len(line) - 1 and line.startswith("2")))
