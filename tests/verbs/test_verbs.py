"""Analysts' questions: every answer equals a plain loop over the raw tables, for any partitioning, in the declared
columns; and is drawn."""

import builtins
import pickle
from collections import defaultdict
from functools import partial

import numpy as np
import pandas as pd
import pytest
from conftest import DATA, SHARED, slow
from support.flushed import late_event, program
from support.recordings import ALIKE

import tracecols
from tracecols.enhance.dataflow import partitions
from tracecols.enhance.mpi import collectives
from tracecols.errors import AnalysisError, MissingExtraError
from tracecols.schema import EventKind as K
from tracecols.schema.answers import ANSWERS
from tracecols.testing import Program
from tracecols.verbs.answers import Answer
from tracecols.verbs.pictures import PICTURES

TRACES = ("hybrid_2x3", "coll", "late_sender", "omp_basic")
ROOT = {"hybrid_2x3": "h_region", "coll": "MPI_Bcast", "late_sender": "MPI_Recv", "omp_basic": "main"}


@pytest.fixture(scope="module")
def stores(store_of, data):
    return {name: store_of(data / name) for name in TRACES}


@pytest.fixture(params=TRACES)
def trace(request, stores):
    return tracecols.open(stores[request.param], jobs=1)


@pytest.fixture
def hybrid(stores):
    return tracecols.open(stores["hybrid_2x3"], jobs=1)


@pytest.fixture(scope="module")
def gloo(store_of, data):
    return tracecols.open(store_of(data / "kineto_gloo_3"), jobs=1)


def rows(frame):
    """Return the rows of an answer as plain tuples."""
    return [tuple(None if pd.isna(v) else v for v in row) for row in frame.itertuples(index=False)]


QUESTIONS = {
    "comm_matrix": lambda t: t.comm_matrix(),
    "comm_matrix by thread": lambda t: t.comm_matrix(by="thread"),
    "message_histogram": lambda t: t.message_histogram(),
    "message_histogram of 5": lambda t: t.message_histogram(5),
    "comm_over_time": lambda t: t.comm_over_time(7),
    "flat_profile": lambda t: t.flat_profile(),
    "flat_profile by path": lambda t: t.flat_profile(by="path"),
    "flat_profile by paradigm": lambda t: t.flat_profile(by="paradigm"),
    "load_imbalance": lambda t: t.load_imbalance(),
    "load_imbalance over threads": lambda t: t.load_imbalance(over="thread"),
    "time_profile": lambda t: t.time_profile(5),
    "time_profile by region": lambda t: t.time_profile(5, by="region"),
    "time_profile by path": lambda t: t.time_profile(5, by="path"),
    "time_profile by rank": lambda t: t.time_profile(5, by="rank"),
    "idle_time": lambda t: t.idle_time(),
    "iterations": lambda t: t.iterations("main"),
    "late_senders": lambda t: t.late_senders(),
    "late_senders by thread": lambda t: t.late_senders(by="thread"),
    "late_senders by path": lambda t: t.late_senders(by="path"),
    "waits_by_cause": lambda t: t.waits_by_cause(),
    "waits_by_cause of a rank": lambda t: t.waits_by_cause(rank=0, thread=0),
    "top_instances": lambda t: t.top_instances("mpi_latesender" if len(t.messages) else "omp_ibarrier_wait", 5),
    "recording_costs": lambda t: t.recording_costs(),
    "training_steps": lambda t: t.training_steps(),
    "stragglers": lambda t: t.stragglers(),
    "stragglers by step": lambda t: t.stragglers(by="step"),
    "kernel_profile": lambda t: t.kernel_profile(),
    "kernel_profile by rank": lambda t: t.kernel_profile(by="rank"),
}
OF_DEVICES = ("training_steps", "stragglers", "kernel_profile")
"""Questions that have no answer without devices."""


def question(name):
    """Return the method of a question."""
    return name.split(" ")[0]


# -- common to all answers ---------------------------------------------------------------------------------------------


def test_answers__are_declared_drawn_and_asked_here():
    bound = {
        name
        for name, of in vars(tracecols.Trace).items()
        if getattr(of, "__module__", "").startswith("tracecols.verbs")
    }
    assert {question(name) for name in QUESTIONS} == set(ANSWERS) == set(PICTURES) == bound
    for name, picture in PICTURES.items():
        assert picture.needs <= set(ANSWERS[name].names)


@pytest.mark.slow
def test_answers__have_the_declared_columns_for_any_partitioning_and_number_of_threads(trace, monkeypatch):
    whole = {name: ask(trace) for name, ask in QUESTIONS.items()}
    for name, found in whole.items():
        table = ANSWERS[question(name)]
        assert isinstance(found, Answer)
        assert found.question == table.name
        assert list(found) == [c for c in table.names if c in found]
        assert {c: str(found[c].dtype) for c in found} == {c: table[c].dtype for c in found}
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 30)
    monkeypatch.setattr(collectives, "BUCKET_ROWS", 4)
    divided = tracecols.open(trace.path, jobs=2)
    for name, ask in QUESTIONS.items():
        pd.testing.assert_frame_equal(ask(divided), whole[name], check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_answers__are_drawn(name, hybrid, gloo):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    found = QUESTIONS[name](gloo if question(name) in OF_DEVICES else hybrid)
    ax = found.plot()
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    figure, own = plt.subplots()
    # selected rows are an answer as well
    assert found.head(2).plot(ax=own) is own
    figure.canvas.draw()
    plt.close("all")


@pytest.mark.parametrize(
    "name", [*(q for q in QUESTIONS if q == question(q)), *slow(q for q in QUESTIONS if q != question(q))]
)
def test_answers__without_rows_are_drawn_as_axes_with_labels(name, hybrid, gloo, recwarn):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    found = QUESTIONS[name](gloo if question(name) in OF_DEVICES else hybrid)
    drawn = found.head(0).plot()
    drawn.figure.canvas.draw()
    assert drawn.get_xlabel()
    assert drawn.get_ylabel()
    assert [str(warning.message) for warning in recwarn] == []
    plt.close("all")


def test_pictures__show_names_as_they_are():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    # a formula that matplotlib cannot read, one that it can, a name that legends leave out, and two that differ in
    # the middle only
    names = ["$a_$", "$x$", "_start", f"{'l' * 30}1{'r' * 30}", f"{'l' * 30}2{'r' * 30}", "two\nlines"]
    shown = ["$a_$", "$x$", "_start", *2 * [f"{'l' * 18}...{'r' * 18}"], "two\\nlines"]
    program = Program()
    for i, name in enumerate(names):
        program.masters[0].call(10 * i, 10 * i + 9 - i, name)
    with program.trace() as trace:
        profile = trace.flat_profile().plot()
        over_time = trace.time_profile(3, by="region").plot()
    profile.figure.canvas.draw()
    over_time.figure.canvas.draw()
    assert [label.get_text().replace(r"\$", "$") for label in profile.get_yticklabels()] == shown
    legend = over_time.get_legend().get_texts()
    assert [label.get_text().replace(r"\$", "$").strip() for label in legend] == shown
    assert len(over_time.collections) == len(names)
    plt.close("all")


def test_plot__is_that_of_pandas_where_it_is_asked_for_or_columns_are_gone(hybrid):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    found = hybrid.flat_profile().head(3)
    assert len(found.plot.bar(x="region_name", y="visits").patches) == 3
    assert len(found.plot(kind="bar", y="visits").patches) == 3
    assert found[["visits"]].plot().has_data()
    assert found.groupby("paradigm", observed=True).visits.sum().plot() is not None
    plt.close("all")
    again = pickle.loads(pickle.dumps(found))
    assert (type(again), again.question) == (Answer, "flat_profile")


def test_plot__without_matplotlib_says_what_to_install(hybrid, monkeypatch):
    found = hybrid.comm_matrix()
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'tracecols\[plot\]'"):
        found.plot()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: t.comm_matrix(by="ranks"), "did you mean rank"),
        (lambda t: t.flat_profile(by=3), "there are region, path, paradigm"),
        (lambda t: t.load_imbalance(over="node"), "there are rank, thread"),
        (lambda t: t.time_profile(by="regions"), "did you mean region"),
        (lambda t: t.time_profile(0), "0 is not a number of intervals"),
        (lambda t: t.time_profile(10**9), "1000000000 is not a number of intervals .*\n.* from 1 to 1,048,576"),
        (lambda t: t.comm_over_time("10"), "'10' is not a number of intervals"),
        (lambda t: t.message_histogram([3, 2]), "not bins of lengths"),
        (lambda t: t.message_histogram(10**30), "is not a number of bins"),
        (lambda t: t.message_histogram([0, 100]), "6 messages are shorter than 0 or not shorter than 100 bytes"),
        (lambda t: t.iterations("h_regio"), "did you mean h_region"),
        (lambda t: t.iterations(3), "a region is given by its name"),
        (lambda t: t.top_instances("Late Sendr"), "did you mean mpi_latesender"),
        (lambda t: t.top_instances("mpi_latesender", 0), "0 is not a number of instances"),
        (lambda t: t.top_instances("time"), "computed from call paths"),
        (lambda t: t.training_steps("h_regio"), "did you mean h_region"),
        (lambda t: t.training_steps(3), "steps are given by the name of a region"),
        (lambda t: t.stragglers(by="ranks"), "did you mean rank"),
        (lambda t: t.kernel_profile(by="name"), "there are region, rank"),
    ],
)
def test_questions__say_what_is_wrong(ask, words, hybrid):
    with pytest.raises(AnalysisError, match=words):
        ask(hybrid)


# -- plain twins -------------------------------------------------------------------------------------------------------


def test_comm_matrix__equals_a_loop(trace):
    rank = trace.locations["rank"].to_numpy()
    expected = defaultdict(lambda: [0, 0])
    for m in trace.frame("messages", raw=True).itertuples():
        of = expected[rank[m.send_location], rank[m.recv_location]]
        of[0] += 1
        of[1] += m.length
    assert rows(trace.comm_matrix()) == [(*key, *value) for key, value in sorted(expected.items())]


@pytest.mark.parametrize("bins", [None, 3, [0, 64, 65, 10_000]])
def test_message_histogram__equals_a_loop(bins, trace):
    lengths = trace.frame("messages", raw=True).length.tolist()
    found = trace.message_histogram(bins)
    for row in found.itertuples():
        mine = [n for n in lengths if row.from_bytes <= n < row.to_bytes]
        assert (row.n_messages, row.bytes) == (len(mine), sum(mine))
        assert row.share == sum(mine) / (sum(lengths) or 1)
    assert found.n_messages.sum() == len(lengths)
    assert (found.from_bytes[1:].to_numpy() == found.to_bytes[:-1]).all()
    if bins == 3:
        assert len(found) == 3


def edges_of(trace, n):
    first, last = trace.manifest["first_time"], trace.manifest["last_time"]
    return [first + (last - first) * k // n for k in range(n + 1)]


def test_comm_over_time__equals_a_loop(trace):
    edges = edges_of(trace, 7)
    found = trace.comm_over_time(7)
    messages = trace.frame("messages", raw=True)
    for k, row in enumerate(found.itertuples()):
        for time, n, length in (
            ("send_time", row.n_sent, row.bytes_sent),
            ("recv_time", row.n_received, row.bytes_received),
        ):
            mine = [
                m.length
                for m in messages.itertuples()
                if edges[k] <= getattr(m, time) and (getattr(m, time) < edges[k + 1] or k == 6)
            ]
            assert (n, length) == (len(mine), sum(mine))
        assert (row.begin_seconds, row.end_seconds) == tuple(trace.seconds(edges[k : k + 2]))


def charged(trace, edges):
    """Return ticks by bin, location and region, from a stack of open regions; the innermost one is charged."""
    found = defaultdict(int)
    for location in range(len(trace.locations)):
        stack, last = [], None
        for e in trace.read_events(location, columns=["time", "kind", "region"]).itertuples():
            is_enter, is_exit = e.kind in (K.ENTER, K.PROGRAM_BEGIN), e.kind in (K.EXIT, K.PROGRAM_END)
            if not (is_enter or is_exit):
                continue
            if stack:
                for k in range(len(edges) - 1):
                    low, high = max(last, edges[k]), min(e.time, edges[k + 1])
                    found[k, location, stack[-1]] += max(high - low, 0)
            if is_enter:
                stack.append(e.region)
            else:
                stack.pop()
            last = e.time
    return {key: ticks for key, ticks in found.items() if ticks}


def test_time_profile__equals_a_stack_in_python(trace):
    ticks = charged(trace, edges_of(trace, 5))
    names, rank = trace.regions["name"], trace.locations["rank"]
    resolution, begins = trace.manifest["clock"]["resolution"], trace.seconds(edges_of(trace, 5))
    for by, label in (("region", lambda i, r: names[r]), ("rank", lambda i, r: rank[i])):
        expected = defaultdict(int)
        for (k, location, region), n in ticks.items():
            expected[begins[k], label(location, region)] += n
        found = trace.time_profile(5, by=by)
        column = "region_name" if by == "region" else by
        assert {(r.begin_seconds, getattr(r, column)): r.seconds for r in found.itertuples()} == {
            key: n / resolution for key, n in expected.items()
        }
        threads = trace.locations.type.ne("gpu").sum()
        width = np.diff(edges_of(trace, 5)) / resolution
        assert (found.groupby("begin_seconds").share.sum() * width * threads).to_numpy() == pytest.approx(
            found.groupby("begin_seconds").seconds.sum().to_numpy()
        )


@pytest.mark.parametrize(
    "make",
    [late_event, partial(program, pending=39), partial(program, pending=60)],
    ids=["late", "flushed 39", "flushed 60"],
)
@pytest.mark.parametrize("bins", [1, 2, 10])
def test_time_profile__adds_up_to_the_profile_with_flushes_and_decreasing_times(make, bins, tmp_path):
    trace = tracecols.open(tracecols.convert(make(tmp_path), tmp_path / "x.trace"), jobs=1)
    expected = trace.flat_profile(by="path").set_index("path").exclusive_seconds
    found = trace.time_profile(bins, by="path").groupby("path", observed=True).seconds.sum()
    assert found.sort_index().to_dict() == pytest.approx(expected[expected != 0].sort_index().to_dict(), abs=1e-12)


def without_tasks(profile):
    """Leave out call paths below TASKS, whose time also counts where the tasks were scheduled."""
    return profile[~profile.path.astype(str).str.contains("(?:^|/)TASKS(?:/|$)")]


def assert_times_agree(trace):
    """Check that the profile, every interval profile and the severities have all of the time.

    Severities also have the time from a FORK to the ENTER of a worker, and from its EXIT to the JOIN, as management of
    its team; it is in no region.
    """
    # times are added up in seconds here, with relative rounding errors below 10^-13
    whole = without_tasks(trace.flat_profile(by="path")).exclusive_seconds.sum()
    for by in ("path", "region", "paradigm", "rank"):
        assert trace.time_profile(7, by=by).seconds.sum() == pytest.approx(whole, rel=1e-13)
    cube = trace.analyze(properties=["time", "omp_idle_threads", "omp_management"])
    found = {
        name: cube.by_location(name) if name in cube.cells else 0 * cube.by_location("time")
        for name in cube.properties.id
    }
    launched = found.get("omp_management", found["time"] * 0)[trace.model.locations.workers].sum()
    idle = found.get("omp_idle_threads", found["time"] * 0).sum()
    assert found["time"].sum() - idle - launched == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("folder", sorted(p.parent for p in DATA.glob("*/reference.parquet")), ids=lambda p: p.name)
def test_time_profile__has_all_of_the_time_that_is_executed(folder, tmp_path):
    assert_times_agree(tracecols.open(tracecols.convert(folder, tmp_path / "x.trace"), jobs=1))


# in nested regions, threads other than masters fork, and have that time themselves
OF_OTHERS = [
    p for of in ("otf2", "otf2_small", "epilog") for p in sorted(SHARED.glob(f"{of}/*/"))
    if p.name not in ("omp_nested", "tealeaf_3x2", "gpu_stream_idle", *ALIKE)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("folder", OF_OTHERS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_time_profile__has_all_of_the_time_of_other_traces(folder, tmp_path):
    assert_times_agree(tracecols.open(tracecols.convert(folder, tmp_path / "x.trace"), jobs=1))


def test_time_profile__goes_on_until_a_recording_ends_inside_of_regions():
    # the first rank ends at 90 in MPI_Send, the second at 100 in main
    program = Program(processes=2)
    first, second = program.masters
    first.enter(0, "main").enter(10, "MPI_Send").send(90, to=1)
    second.enter(0, "main").enter(50, "f").leave(100)
    with program.trace() as trace:
        assert_times_agree(trace)
        found = trace.time_profile(2, by="region")
        found = {(r.begin_seconds, r.region_name): r.seconds for r in found.itertuples()}
    assert found == {(0.0, "main"): 60, (0.0, "MPI_Send"): 40, (50.0, "MPI_Send"): 40, (50.0, "f"): 50}


def test_time_profile__has_the_time_of_tasks_before_and_after_their_regions(archive, tmp_path):
    # in a barrier from 10 on: task 1 starts at 20, is interrupted by task 2, and enters a region only at 50; from 60 to
    # 70 it is in no region again
    barrier, task = "!$omp implicit barrier @a.c:9", "!$omp task @a.c:8"
    (one,), team = archive.openmp(1)

    def switch(time, number):
        return one.switch_task(time, (0, number), team)

    one.enter(0, "main").fork(0, 1).begin_team(0, team).enter(0, "!$omp parallel @a.c:1").enter(10, barrier)
    switch(20, 1)
    switch(30, 2).enter(32, task).leave(38, task)
    switch(40, 1).enter(50, task).leave(60, task)
    one.complete_task(70, (0, 1), team)
    switch(70, 0).leave(80, barrier).leave(80, "!$omp parallel @a.c:1").end_team(80, team).join(80).leave(90, "main")
    trace = tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace"), jobs=1)
    assert_times_agree(trace)
    found = trace.time_profile(1, by="path")
    parallel = "main/!$omp parallel @a.c:1"
    assert {r.path: round(r.seconds * 1e9) for r in found.itertuples()} == {
        "main": 10,
        parallel: 10,
        f"{parallel}/{barrier}": 20,
        f"TASKS/{task}": 16,
        f"{parallel}/{barrier}/{task}": 34,
    }


def test_time_profile__adds_up_to_the_profile(trace):
    expected = trace.flat_profile(by="path").set_index("path").exclusive_seconds
    found = trace.time_profile(9, by="path").groupby("path", observed=True).seconds.sum()
    assert found.to_dict() == pytest.approx({k: v for k, v in expected.items() if v}, rel=1e-12)


@pytest.mark.slow
def test_flat_profile__equals_sums_over_region_instances(trace):
    instances, paths = trace.frame("region_instances", raw=True), trace.call_paths
    # lists, since pandas takes microseconds per element
    names, parent, region = trace.regions["name"].tolist(), paths.parent.tolist(), paths.region.tolist()
    visits, inclusive = defaultdict(int), defaultdict(int)
    for i in instances.itertuples():
        name = names[i.region]
        visits[name] += 1
        above = parent[i.call_path]
        while above >= 0 and names[region[above]] != name:
            above = parent[above]
        if above < 0:
            inclusive[name] += i.exit_time - i.enter_time
    found = trace.flat_profile().set_index("region_name")
    assert found.visits.to_dict() == visits
    assert found.exclusive_seconds.is_monotonic_decreasing
    assert found.share.sum() == pytest.approx(1)
    # threads that work below a call of their master add to its call path
    if len(trace.locations) == len(trace.processes):
        resolution = trace.manifest["clock"]["resolution"]
        assert found.inclusive_seconds.to_dict() == {name: n / resolution for name, n in inclusive.items()}


def test_load_imbalance__of_long_traces_with_regions_that_take_no_time():
    program = Program(processes=5)
    for master in program.masters:
        master.enter(0, "main").call(0, 0, "nothing").leave(1 << 61)
    with program.trace() as trace:
        (row,) = trace.load_imbalance().to_dict("records")
    assert (row["region_name"], row["imbalance"]) == ("main", 1.0)


def test_load_imbalance__equals_a_loop(trace):
    profile, names = trace.frame("profile", raw=True), trace.regions["name"]
    region, rank = trace.call_paths.region, trace.locations["rank"]
    for over, group in (("rank", rank.tolist()), ("thread", list(range(len(rank))))):
        members = sorted(set(group))
        ticks = defaultdict(partial(dict.fromkeys, members, 0))
        for p in profile.itertuples():
            ticks[names[region[p.call_path]]][group[p.location]] += p.exclusive
        found = trace.load_imbalance(over=over)
        resolution = trace.manifest["clock"]["resolution"]
        assert set(found.region_name) == {name for name, of in ticks.items() if sum(of.values())}
        for row in found.itertuples():
            values = list(ticks[row.region_name].values())
            mean = sum(values) / len(values)
            assert (row.min_seconds, row.max_seconds) == (min(values) / resolution, max(values) / resolution)
            assert (row.mean_seconds, row.imbalance) == (mean / resolution, max(values) / mean)
            assert row.lost_seconds == (max(values) * len(values) - sum(values)) / resolution
            worst = members[values.index(max(values))]
            assert row.max_rank == (worst if over == "rank" else rank[worst])
        assert found.lost_seconds.is_monotonic_decreasing


def test_idle_time__adds_up_to_the_cube(trace):
    cube, found = trace.analyze(), trace.idle_time()
    assert found.total_seconds.sum() == pytest.approx(cube.total("time"))
    idle = cube.total("omp_idle_threads") if "omp_idle_threads" in cube.properties.id else 0
    assert found.idle_seconds.sum() == pytest.approx(idle)
    waits = trace.frame("waits", raw=True)
    waiting = trace.duration(waits.end_time - waits.begin_time).groupby(waits.location).sum()
    at = trace.locations.reset_index().set_index(["rank", "thread"])["index"]
    for row in found.itertuples():
        assert row.waiting_seconds == pytest.approx(waiting.get(at[row.rank, row.thread], 0))


def test_iterations__are_the_instances_of_a_region_in_order(stores):
    for name, region in ROOT.items():
        trace = tracecols.open(stores[name], jobs=1)
        found, instances = trace.iterations(region), trace.region_instances
        expected = instances[instances.region_name == region].sort_values(["location", "enter"])
        expected = expected.assign(iteration=expected.groupby("location").cumcount())
        expected = expected.sort_values(["iteration", "rank", "thread"])
        assert len(found) == len(expected) > 0
        assert found.iteration.tolist() == expected.iteration.tolist()
        assert found.seconds.tolist() == trace.duration(expected.exit_time - expected.enter_time).tolist()
        assert found.begin_seconds.tolist() == expected.enter_seconds.tolist()


def test_iterations__of_a_region_that_calls_itself_are_the_outermost(archive, opened):
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main").enter(1, "f").enter(2, "f").leave(3, "f").leave(4, "f").call(5, 7, "f").leave(9, "main")
    trace = opened(archive)
    assert [(r.iteration, round(r.seconds * 1e9)) for r in trace.iterations("f").itertuples()] == [(0, 3), (1, 2)]
    assert round(trace.flat_profile().set_index("region_name").inclusive_seconds["f"] * 1e9) == 5


def test_late_senders__equal_a_loop_over_the_waits(trace):
    waits = trace.waits[lambda w: w.property == "mpi_latesender"]
    expected = defaultdict(list)
    for w in waits.itertuples():
        expected[w.rank, w.cause_rank].append(w.end_time - w.begin_time)
    resolution = trace.manifest["clock"]["resolution"]
    found = trace.late_senders()
    assert {(r.victim_rank, r.culprit_rank): (r.n_waits, r.seconds, r.longest_seconds) for r in found.itertuples()} == {
        key: (len(ticks), sum(ticks) / resolution, max(ticks) / resolution) for key, ticks in expected.items()
    }
    assert trace.late_senders(by="path").seconds.sum() == pytest.approx(found.seconds.sum())
    assert found.seconds.is_monotonic_decreasing


WAITED_FOR = {
    "all": ({}, lambda w: w["rank"] >= 0),
    "a rank": ({"rank": 1}, lambda w: w.cause_rank == 1),
    "a thread": ({"thread": 2}, lambda w: w.cause_thread == 2),
    "a region": ({"cause": "MPI_Bcast"}, lambda w: w.cause_path.str.endswith("/MPI_Bcast").fillna(False)),
    "a pattern of paths": ({"cause": "*MPI_*"}, lambda w: w.cause_path.str.contains("/MPI_").fillna(False)),
    "a property": ({"property": "mpi_latesender"}, lambda w: w.property == "mpi_latesender"),
    "properties below one": ({"property": "MPI"}, lambda w: w.property.str.startswith("mpi_")),
}


@pytest.mark.parametrize("name", WAITED_FOR)
def test_waits_by_cause__equal_a_loop_over_the_waits(name, hybrid):
    asked, is_chosen = WAITED_FOR[name]
    waits = hybrid.waits.astype(dict.fromkeys(("property", "path", "cause_path"), object))
    expected = defaultdict(list)
    for w in waits[is_chosen(waits).astype(bool)].fillna({"cause_path": ""}).itertuples():
        key = w.property, w.rank, w.thread, w.path, w.cause_rank, w.cause_thread, w.cause_path
        expected[key].append((w.begin_time - w.end_time, w.begin_time))
    resolution = hybrid.manifest["clock"]["resolution"]
    assert expected
    found = hybrid.waits_by_cause(**asked)
    assert found.seconds.is_monotonic_decreasing
    found = found.astype(dict.fromkeys(("property", "path", "cause_path"), object)).fillna({"cause_path": ""})
    for *key, n, seconds, longest, begin in found.itertuples(index=False):
        instances = sorted(expected.pop(tuple(key)))
        assert (n, seconds, longest) == (
            len(instances), -sum(ticks for ticks, _ in instances) / resolution, -instances[0][0] / resolution,
        )  # fmt: skip
        assert begin == hybrid.seconds(instances[0][1])
    assert not expected


def test_waits_by_cause__of_what_is_not_there(hybrid):
    for asked, words in (
        ({"cause": "MPI_Ssendd"}, "no call path matches 'MPI_Ssendd'"),
        ({"property": "comp"}, "property 'comp' is not a wait state with recorded causes"),
        ({"property": "nothing"}, "nothing"),
        ({"cause": 3}, "a call path is given as a text, not as 3"),
        ({"rank": 99}, "no location .*99"),
        ({"rank": "0"}, "'0' is not a rank"),
    ):
        with pytest.raises(AnalysisError, match=words):
            hybrid.waits_by_cause(**asked)


def test_top_instances__are_the_first_matches_with_their_causes(hybrid):
    found = hybrid.top_instances("Late Broadcast", 2)
    matches = hybrid.matches("mpi_latebroadcast").head(2)
    assert found.severity.tolist() == matches.severity.tolist()
    assert found.begin_seconds.tolist() == matches.begin_seconds.tolist()
    assert found.path.astype(str).tolist() == matches.path.astype(str).tolist()
    waits = hybrid.waits[lambda w: w.property == "mpi_latebroadcast"]
    causes = waits.set_index("begin_seconds").loc[found.begin_seconds]
    for column in ("cause_rank", "cause_thread", "cause_seconds"):
        assert found[column].tolist() == causes[column].tolist()
    # a pattern without causes
    other = hybrid.top_instances("mpi_barrier_completion", 1)
    assert other.cause_rank.isna().all()
    assert other.cause_seconds.isna().all()


def test_iterations__of_a_clock_that_starts_below_zero():
    program = Program(processes=1)
    program.masters[0].enter(-100, "main").enter(-90, "step").leave(-80).enter(-70, "step").leave(-1).enter(0, "step")
    with program.trace() as trace:
        found = trace.iterations("step")
    assert found.end_seconds.tolist()[:2] == [-80, -1] and found.seconds.tolist()[:2] == [10, 69]
    assert found.seconds.isna().tolist() == found.end_seconds.isna().tolist() == [False, False, True]
