"""Subdomains of the application: their rows are sums over locations, however these are assigned."""

import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from support.command_line import executed, run

import tracecols
from tracecols.analysis.opened import OpenedTrace
from tracecols.errors import AnalysisError, SeverityError
from tracecols.export.cube_read import read_cube
from tracecols.severity import SeverityCube
from tracecols.severity.axes import SystemAxis
from tracecols.store import Store
from tracecols.timeline.answers import Timeline
from tracecols.timeline.prepare import prepare
from tracecols.timeline.trees import Selection, Trees

FILE = "rank, thread, subdomain\n0,,ocean\n1,0,ice\n1,2,output\n"
"""Subdomains of two processes with three threads each; thread 1 of rank 1 belongs to none."""


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Return a folder with a cube and a file of subdomains."""
    folder = tmp_path_factory.mktemp("subdomains")
    store = tracecols.convert(data / "hybrid_2x3", folder / "h.trace")
    tracecols.open(store).analyze().save(folder / "h.severity")
    (folder / "parts.csv").write_text(FILE)
    return folder


@pytest.fixture
def cube(folder):
    return tracecols.read_cube(folder / "h.severity")


def expected(cube, name, places):
    """Return the sum and the maximum of the values of some locations."""
    of = {
        (int(r), int(t)): v
        for r, t, v in zip(cube.system.rank, cube.system.thread, cube.by_location(name), strict=True)
    }
    return sum(of[place] for place in places), max(of[place] for place in places)


PARTS = {"ocean": [(0, 0), (0, 1), (0, 2)], "ice": [(1, 0)], "": [(1, 1)], "output": [(1, 2)]}


@pytest.mark.parametrize("name", ["time", "mpi", "visits"])
def test_by_subdomain__adds_up_locations(cube, folder, name):
    def as_function(rank, thread):
        return next((part or None for part, places in PARTS.items() if (rank, thread) in places), None)

    as_mapping = {0: "ocean", (1, 0): "ice", (1, 2): "output"}
    for given in (folder / "parts.csv", as_function, as_mapping):
        table = cube.by_subdomain(name, given)
        assert table.index.tolist() == ["ocean", "ice", "output", ""]
        for part, places in PARTS.items():
            total, largest = expected(cube, name, places)
            row = table.loc[part]
            assert (row.value, row["mean"]) == (pytest.approx(total), pytest.approx(total / len(places)))
            assert row["max"] == largest and row.n_locations == len(places)
            assert (row["rank"], row.thread) in places
        assert table.value.sum() == pytest.approx(cube.total(name))


def test_frames__have_a_column_of_subdomains(cube, folder):
    frame = cube.frame("time", subdomains=folder / "parts.csv")
    assert frame.drop(columns="subdomain").equals(cube.frame("time"))
    assert frame.columns.tolist() == ["property", "call_path", "rank", "thread", "subdomain", "value"]
    table = cube.by_subdomain("time", folder / "parts.csv").value
    sums = frame.groupby(frame.subdomain.astype(object).fillna(""), observed=True).value.sum()
    assert sums.to_dict() == pytest.approx(table[table > 0].to_dict())
    wide = cube.wide(subdomains={0: "ocean"})
    assert wide.drop(columns="subdomain").equals(cube.wide())
    assert (wide.subdomain.eq("ocean") == wide["rank"].eq(0)).all()


@pytest.mark.slow
def test_export__writes_the_column_where_it_is_asked_for(cube, folder, tmp_path):
    source = cube.save(tmp_path / "x.severity")
    for flags in ([], ["--wide"]):
        for name in ("x.csv", "x.parquet"):
            path = tmp_path / name
            of = [*flags, "--subdomains", str(folder / "parts.csv"), "--force"]
            executed("export", source, path, *of)
            read = pd.read_csv(path) if name.endswith(".csv") else pd.read_parquet(path)
            plain = cube.wide() if flags else cube.frame()
            assert read.columns.tolist() == [*plain.columns[: list(plain.columns).index("thread") + 1], "subdomain", *plain.columns[list(plain.columns).index("thread") + 1 :]]  # fmt: skip
            assert read.subdomain[read["rank"] == 0].eq("ocean").all() and len(read) == len(plain)
    of = ["--subdomains", str(folder / "parts.csv")]
    refused = executed("export", source, tmp_path / "x.otf2", *of, code=2)
    assert "--subdomains is for severities" in refused
    executed("export", source, tmp_path / "x.cubex", *of)
    found = read_cube(tmp_path / "x.cubex")
    roots = [name for name, parent in zip(found.system.name, found.system.parent, strict=True) if parent < 0]
    assert roots == ["ocean", "ice", "output", "(none)"]
    assert found.total("time") == pytest.approx(cube.total("time"))


def test_with_subdomains__are_in_the_place_of_machines(cube, folder, tmp_path):
    grouped = cube.with_subdomains(folder / "parts.csv")
    s = grouped.system
    roots = [i for i, parent in enumerate(s.parent) if parent < 0]
    assert [(s.kind[i], s.name[i]) for i in roots] == [("subdomain", n) for n in ("ocean", "ice", "output", "(none)")]
    # the locations of each subdomain are below it, in their processes
    below = {}
    for i, parent in enumerate(s.parent):
        root = i
        while s.parent[root] >= 0:
            assert s.parent[root] < root
            root = s.parent[root]
        if s.location[i] >= 0:
            assert s.kind[parent] == "process"
            below.setdefault(s.name[root], []).append(s.location[i])
    places = {p: i for i, p in enumerate(zip(s.rank.tolist(), s.thread.tolist(), strict=True))}
    assert below == {part or "(none)": [places[p] for p in of] for part, of in PARTS.items()}
    # values do not change, nor do those of subdomains
    assert grouped.by_location("time").tolist() == cube.by_location("time").tolist()
    again = SeverityCube.load(grouped.save(tmp_path / "by_part.severity"))
    assert again.system.name == s.name and again.by_subdomain("time", folder / "parts.csv").equals(
        cube.by_subdomain("time", folder / "parts.csv")
    )
    executed(
        "report", cube.save(tmp_path / "y.severity"), "-o", tmp_path / "y.html", "--subdomains", folder / "parts.csv"
    )


def test_with_subdomains__keeps_all_that_lies_inside_of_processes(cube):
    places = list(zip(cube.system.rank.tolist(), cube.system.thread.tolist(), strict=True))
    n = len(places)
    # two nodes of other kinds between the process and its locations
    kind = ["machine", "process", "domain", "core", *["thread"] * n]
    deep = cube.replaced(
        system=SystemAxis(
            kind, kind, [-1, 0, 1, 2, *[3] * n], [-1] * 4 + list(range(n)), cube.system.rank, cube.system.thread,
            cube.system.location_name, cube.system.location_type,
        )
    )  # fmt: skip
    s = deep.with_subdomains(dict(zip(places, ["a", *["b"] * (n - 1)], strict=True))).system
    assert s.kind == [k for m in (1, n - 1) for k in ("subdomain", "process", "domain", "core", *["thread"] * m)]
    assert s.parent == [-1, 0, 1, 2, 3, -1, 5, 6, 7, *[8] * (n - 1)]
    assert s.location == [-1, -1, -1, -1, 0, -1, -1, -1, -1, *range(1, n)]


def test_by_subdomain__of_ratios_and_call_paths(cube, folder):
    cube = cube.with_metrics("each = time / visits")
    mask = cube.find_call_paths("MPI_*")
    time, visits, each = (cube.by_subdomain(n, folder / "parts.csv", mask).value for n in ("time", "visits", "each"))
    assert visits.sum() == cube.total("visits", mask)
    # threads that idle while their master is in MPI have time there and no visits
    assert visits.tolist()[2:] == [0, 0] and (time > 0).all()
    np.testing.assert_array_equal(each, [*(time[:2] / visits[:2]), np.nan, np.nan])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no columns rank and subdomain"),
        ("rank,name\n0,a\n", "has no columns rank and subdomain"),
        ("rank,subdomain\nx,a\n", "line 2: x,  are not a rank and a thread"),
        ("rank,subdomain\n0,a\n0,b\n", "line 3: 0 has a subdomain already"),
        ("rank,subdomain\n7,a\n", "ranks or threads that this cube does not have, such as 7"),
    ],
)
def test_by_subdomain__says_what_is_wrong_in_a_file(cube, tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(SeverityError, match=words):
        cube.by_subdomain("time", tmp_path / "x.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_by_subdomain__does_not_wait_for_a_pipe(cube, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SeverityError, match="it is a named pipe"):
        cube.by_subdomain("time", tmp_path / "pipe")


def test_by_subdomain__says_what_is_no_mapping(cube):
    for given, words in (
        (7, "does not give subdomains"),
        ({0: 1}, "is not the name"),
        (lambda rank, thread: 3, "is not the name"),
    ):
        with pytest.raises(SeverityError, match=words):
            cube.by_subdomain("time", given)


def test_show__prints_subdomains(folder):
    asked = [
        "show",
        str(folder / "h.severity"),
        "--with-startup",
        "-p",
        "mpi",
        "--subdomains",
        str(folder / "parts.csv"),
    ]
    printed = executed(*asked)
    assert [line.rpartition("  ")[2].partition(",")[0] for line in printed.splitlines()[2:]] == ["ocean", "ice", "output", "(none)"]  # fmt: skip
    values = json.loads(run(*asked, "--json").stdout)
    table = tracecols.read_cube(folder / "h.severity").by_subdomain("mpi", folder / "parts.csv")
    assert [row["subdomain"] for row in values["subdomains"]] == table.index.tolist()
    np.testing.assert_allclose([row["value"] for row in values["subdomains"]], table.value, rtol=1e-9)
    assert run(*asked, "--topology", "0").exit_code == 2


# -- traces ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parted(folder):
    return tracecols.open(folder / "h.trace", subdomains=folder / "parts.csv")


PLACES = {(0, 0): "ocean", (0, 1): "ocean", (0, 2): "ocean", (1, 0): "ice", (1, 2): "output"}


def names_of(frame, about=""):
    """Return the expected subdomains of ranks and threads in a table."""
    places = zip(frame[f"{about}rank"], frame[f"{about}thread"], strict=True)
    return [PLACES.get(place) for place in places]


@pytest.mark.parametrize(
    ("ask", "sides"),
    [
        (lambda t: t.waits, ("", "cause_")),
        (lambda t: t.messages, ("send_", "recv_")),
        (lambda t: t.profile, ("",)),
        (lambda t: t.frame("waits"), ("", "cause_")),
        (lambda t: t.idle_time(), ("",)),
        (lambda t: t.iterations("main"), ("",)),
        (lambda t: t.waits_by_cause(), ("", "cause_")),
        (lambda t: t.top_instances("omp_ibarrier_wait"), ("", "cause_")),
        (lambda t: t.comm_matrix(by="thread"), ("send_", "recv_")),
        (lambda t: t.late_senders(by="thread"), ("victim_", "culprit_")),
    ],
)
def test_tables_of_traces__say_the_subdomain_of_every_location(parted, folder, ask, sides):
    found, without = ask(parted), ask(tracecols.open(folder / "h.trace"))
    assert len(found)
    for about in sides:
        named = found[f"{about}subdomain"].astype(object)
        assert [None if x != x else x for x in named] == names_of(found, about)
    added = [f"{about}subdomain" for about in sides]
    assert found.drop(columns=added).equals(without), "nothing else is different"


def test_answers__by_subdomain_are_sums_over_their_locations(parted):
    sent = parted.comm_matrix(by="subdomain")
    whole = parted.messages.groupby(["send_subdomain", "recv_subdomain"], observed=True).length.agg(["size", "sum"])
    assert sent.set_index(["send_subdomain", "recv_subdomain"])[["n_messages", "bytes"]].to_numpy().tolist() == (
        whole.loc[[("ocean", "ice"), ("ice", "ocean")]].to_numpy().tolist()
    )
    late = parted.late_senders(by="subdomain")
    each = parted.late_senders(by="thread")
    expected = each.groupby(["victim_subdomain", "culprit_subdomain"], observed=True).n_waits.sum()
    assert late.set_index(["victim_subdomain", "culprit_subdomain"]).n_waits.to_dict() == expected.to_dict()
    over_time = parted.time_profile(bins=3, by="subdomain")
    whole = parted.time_profile(bins=3, by="rank")
    of_ocean = over_time[over_time.subdomain == "ocean"]
    assert of_ocean.seconds.tolist() == whole[whole["rank"] == 0].seconds.tolist()
    # thread 1 of rank 1 belongs to none
    of_none = over_time[over_time.subdomain.isna()]
    assert over_time.seconds.sum() == pytest.approx(whole.seconds.sum()) and of_none.seconds.sum() > 0


def test_answers__by_subdomain_are_drawn(parted):
    pytest.importorskip("matplotlib")
    for ask in (parted.comm_matrix, parted.late_senders, parted.time_profile):
        texts = [text.get_text() for text in ask(by="subdomain").plot().figure.findobj() if hasattr(text, "get_text")]
        assert "ocean" in texts


def test_traces__that_are_opened_with_subdomains_can_be_pickled_and_cut(parted):
    again = pickle.loads(pickle.dumps(parted))
    assert again.comm_matrix(by="subdomain").equals(parted.comm_matrix(by="subdomain"))
    with parted.piece(stop=0.3) as piece:
        assert set(piece.profile.subdomain.dropna()) == {"ocean", "ice", "output"}


def test_traces__that_are_given_wrong_subdomains_or_none_are_refused(folder):
    with pytest.raises(AnalysisError, match="ranks or threads that this trace does not have, such as 7"):
        tracecols.open(folder / "h.trace", subdomains={7: "land"})
    with pytest.raises(AnalysisError, match=r"nothing is known of subdomains .*\n.*tracecols.open\(path, subdomains="):
        tracecols.open(folder / "h.trace").comm_matrix(by="subdomain")


@pytest.mark.slow
def test_rows_of_the_timeline__are_below_subdomains(folder):
    store = Store(folder / "h.trace")
    timeline = Timeline(store, prepare(OpenedTrace(store)), folder / "parts.csv")
    above = [row for row in timeline.rows if row.parent == 0]
    assert [row.label for row in above] == [
        "ocean, MPI Rank 0",
        "ice, MPI Rank 1, Master thread",
        "output, MPI Rank 1, OMP thread 2",
        "(none), MPI Rank 1, OMP thread 1",
    ]
    assert above[0].locations.tolist() == [0, 1, 2]
    assert timeline.rows[1] is above[0]
    ticks = timeline.view(0, timeline.last - timeline.first + 1, [0, 1], 10).arrays["ticks"]
    every = timeline.view(0, timeline.last - timeline.first + 1, range(len(timeline.rows)), 10)
    of = [timeline.rows.index(row) for row in timeline.rows if row.location in (0, 1, 2)]
    assert np.array_equal(ticks[:, 1], every.arrays["ticks"][:, of].sum(axis=1))
    page = Trees(timeline).page(Selection(0, timeline.last - timeline.first + 1))
    assert b"Subdomains" in page
    with pytest.raises(AnalysisError, match="this trace does not have"):
        Timeline(store, prepare(OpenedTrace(store)), {9: "x"})
