"""Two runs below each other: alignment, matching of rows, and shares of bins that do not coincide."""

import json
import os
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
from conftest import LONG
from support.otf2_writer import Archive
from support.served import run_of, served

import tracecols
from tracecols.analysis.opened import OpenedTrace
from tracecols.errors import AnalysisError
from tracecols.severity.axes import SystemAxis
from tracecols.timeline.answers import QuestionError
from tracecols.timeline.compared import Alignment, Comparison, Run, focus_begin, kth_begin, matched_rows, spread
from tracecols.timeline.folded import Instances


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory, data):
    return run_of(tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("t") / "hybrid.trace"))


@pytest.fixture(scope="module")
def same(hybrid):
    return Comparison(hybrid, hybrid)


def test_kth_begin__is_that_of_the_location_that_begins_first():
    location, number = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 2])
    begin = np.array([50, 90, 40, 95, 130])
    found = Instances(location, number, begin, begin + 5)
    assert [kth_begin(found, k) for k in range(4)] == [40, 90, 130, None]


def test_alignment__has_the_same_scale_of_seconds_on_both_sides():
    alignment = Alignment(100, 7_000, (1_000, 10_000))
    assert alignment.in_second(np.array([0, 100, 150])).tolist() == [6_000, 7_000, 7_500]
    huge = Alignment(2**53 - 1, 5, (10**9, 10**9))
    assert huge.in_second(np.array([2**53 - 1, 2**53 - 4])).tolist() == [5, 2]


def test_spread__divides_bins_evenly_and_is_exact_at_their_edges():
    ticks, edges = np.array([[4, 0, 10], [1, 2, 3]]), np.array([0, 10, 20, 30])
    assert spread(ticks, edges, np.array([0.0, 10, 20, 30])).tolist() == ticks.tolist()
    # 2.5 of the first bin are 1 tick of 4; half of the last one is 5 of 10
    assert spread(ticks, edges, np.array([7.5, 25.0])).tolist() == [[1 + 0 + 5], [0.25 + 2 + 1.5]]
    assert spread(ticks, edges, np.array([5.0, 5.0, 30.0])).tolist() == [[0, 12], [0, 5.5]]


def test_alignment__by_focus_start_and_instances(hybrid, same):
    focus = OpenedTrace(hybrid.timeline.store).focus
    assert focus_begin(hybrid.timeline) == int(focus[:, 0].min()) - hybrid.timeline.first > 0
    found, says = same.alignment("focus")
    assert found.first == found.second == focus_begin(hybrid.timeline) and says == {}
    assert same.alignment("start")[0] == Alignment(0, 0, found.resolutions)
    table = tracecols.open(hybrid.timeline.store.path).iterations("h_region")
    resolution = found.resolutions[0]
    zero = (hybrid.timeline.first - hybrid.timeline.store.manifest["clock"]["origin"]) / resolution
    for k in (0, 3):
        found, says = same.alignment("phase", "h_region", k)
        begin = table[table.iteration == k].begin_seconds.min()
        assert found.first == found.second == round((begin - zero) * resolution)
        assert (says["phase"], says["k"]) == ("h_region", k)
    assert says["n"] == [int(table.iteration.max()) + 1] * 2
    with pytest.raises(QuestionError, match=r"run A has no instance 99 of h_region: it has \d+, counted from 0"):
        same.alignment("phase", "h_region", 99)
    with pytest.raises(QuestionError, match="aligned by focus, start, phase, not by x"):
        same.alignment("x")
    with pytest.raises(AnalysisError, match="nowhere"):
        same.alignment("phase", "nowhere", 0)


def test_difference__of_a_run_to_itself_is_none(hybrid, same):
    timeline = hybrid.timeline
    rows = list(range(len(timeline.rows)))
    for part in (*timeline.overview.classes, "mpi_latesender"):
        answer = same.difference(1_000, timeline.last - timeline.first, rows, 300, part, (5, 5))
        first, second = answer.arrays["first"], answer.arrays["second"]
        assert (first == second).all() and first.shape == (len(rows), answer.arrays["edges"].size - 1)
    with pytest.raises(QuestionError):
        same.difference(0, 100, [0], 300, "nothing", (0, 0))
    with pytest.raises(QuestionError):
        same.difference(0, 100, [99], 300, "comp", (0, 0))
    for aligned in ((10**19, 0), (0, -(10**400))):
        with pytest.raises(QuestionError, match="no run has a time"):
            same.difference(0, 100, [0], 300, "comp", aligned)


def test_difference__to_a_run_that_is_shifted(hybrid, same):
    """If shifted by one bin of the overview, shares of the second run are those of the next bin; the last has none."""
    timeline = hybrid.timeline
    edges = timeline.overview.edges(0) - timeline.first
    n = edges.size - 1
    width = int(edges[1])
    answer = same.difference(0, timeline.last - timeline.first, [0, 3], 2 * n, "comp", (0, width))
    assert answer.arrays["edges"].tolist() == (edges + width).tolist()
    first, second = answer.arrays["first"], answer.arrays["second"]
    ticks = timeline.overview.ticks(0, np.arange(6), 0, n)[timeline.overview.classes.index("comp")].sum(axis=0)
    expected = (
        np.diff(np.interp(np.clip(edges + width, 0, edges[-1]), edges, np.cumsum([0, *ticks]))) / np.diff(edges) / 6
    )
    assert second[0, :-1] == pytest.approx(expected[:-1])
    assert first[0, :-1] == pytest.approx(ticks[:-1] / np.diff(edges)[:-1] / 6)
    assert np.isnan(first[:, -1]).all() and np.isnan(second[:, -1]).all()


def run_of_threads(folder, archive, n_ranks, late):
    """Make a run of `n_ranks` ranks, of which rank 0 computes for `late` ticks before it sends to rank 1."""
    mpi = archive.mpi(n_ranks)
    for i, here in enumerate(mpi.ranks):
        begin = late if i == 0 else 100
        here.enter(0, "main").enter(begin, "MPI_Send" if i == 0 else "MPI_Recv")
        if i == 0:
            here.send(begin + 10, 1, mpi.world, tag=1, length=8)
        elif i == 1:
            here.receive(late + 20, 0, mpi.world, tag=1, length=8)
        here.leave(late + 50, "MPI_Send" if i == 0 else "MPI_Recv").leave(late + 400, "main")
    return run_of(tracecols.convert(archive.write(), folder / f"{n_ranks}-{late}.trace"))


@pytest.mark.slow
def test_difference__of_runs_with_other_ranks_has_rows_of_both(tmp_path):
    runs = []
    for n_ranks, late in ((2, 1_000), (3, 3_000)):
        folder = tmp_path / str(n_ranks)
        folder.mkdir()
        runs.append(run_of_threads(folder, Archive(folder / "traces.otf2"), n_ranks, late))
    first, second = (run.timeline for run in runs)
    axes = SystemAxis.of(first.store), SystemAxis.of(second.store)
    pairs = matched_rows(first.rows, second.rows, axes)
    of_second = {row.location: int(pairs[i]) for i, row in enumerate(second.rows) if row.location >= 0}
    of_first = {row.location: i for i, row in enumerate(first.rows) if row.location >= 0}
    assert of_second == {0: of_first[0], 1: of_first[1], 2: -1}
    assert pairs[0] == 0
    rows = list(range(len(second.rows)))
    answer = Comparison(*runs).difference(0, first.last - first.first, rows, 200, "waits", (0, 0))
    differs = answer.arrays["second"] - answer.arrays["first"]
    lacks = next(i for i, row in enumerate(second.rows) if row.location == 2)
    assert np.isnan(differs[lacks]).all()
    # rank 1 waits from 100 on in both; in the first run until 1,010, in the second one until 3,010
    row = next(i for i, row in enumerate(second.rows) if row.location == 1)
    middle = (answer.arrays["edges"][:-1] + answer.arrays["edges"][1:]) / 2
    assert differs[row][(middle > 150) & (middle < 950)] == pytest.approx(0)
    assert differs[row][(middle > 1_050) & (middle < 1_400)] == pytest.approx(1)


def answered(url):
    """Return the status and the body of an answer."""
    try:
        with urlopen(url, timeout=LONG) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def head(body):
    """Return the header of an answer."""
    return json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])


def test_server__answers_for_each_run_and_for_both(hybrid):
    other = Run(hybrid.timeline, hybrid.trees, hybrid.folds)
    with served(hybrid.timeline, other) as server:
        for page in ("", "compare", "b/", "b/timeline.js"):
            assert answered(f"{server.url}{page}")[0] == 200, page
        for page in ("b/compare", "b/b/", "c/", "b/data/alignment", "b/data/difference?from=0&to=9"):
            assert answered(f"{server.url}{page}")[0] == 404, page
        assert answered(server.url.replace(server.token, "x") + "b/data/about")[0] == 403
        status, body = answered(f"{server.url}b/data/about")
        assert status == 200 and head(body)["n_events"] == hybrid.timeline.store.manifest["n_events"]
        status, body = answered(f"{server.url}data/alignment?by=phase&of=h_region&k=2")
        assert status == 200 and head(body)["n"] == [6, 6]
        question = "data/difference?from=0&to=5000&columns=100&rows=0,1&part=comp&first=0&second=0"
        assert [a["name"] for a in head(answered(f"{server.url}{question}")[1])["arrays"]] == [
            "edges",
            "first",
            "second",
        ]
        for wrong in ("data/alignment?by=x", "data/alignment?by=phase&of=h_region&k=-1", "data/difference?from=0&to=9"):
            status, body = answered(f"{server.url}{wrong}")
            assert status == 400 and json.loads(body)["error"], wrong


def test_server__of_one_run_has_no_questions_of_two(hybrid):
    with served(hybrid.timeline) as server:
        for page in ("compare", "b/", "b/data/about", "data/alignment"):
            assert answered(f"{server.url}{page}")[0] == 404, page


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("options", "shown"),
    [((), ""), (("--phases", "h_region"), "#by=phase&of=h_region&k=0"), (("--from", "0.3"), "#from=")],
)
def test_command__shows_two_runs(hybrid, options, shown):
    path = str(hybrid.timeline.store.path)
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tracecols.cli import main; main()"
    command = [sys.executable, "-c", start, "view", path, path, "--no-browser", "--jobs", "1", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    url = process.stdout.readline().split()[-1]
    page, _, fragment = url.partition("#")
    assert page.endswith("/compare") and f"#{fragment}".startswith(shown or "#")
    assert answered(page)[0] == 200
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=LONG)
    assert process.returncode == 0 and "Traceback" not in error, error
