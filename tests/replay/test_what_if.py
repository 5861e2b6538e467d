"""What-if: predicted runtimes by hand, gains per call path, re-timed traces, and refused changes."""

import json
import re
from random import Random

import numpy as np
import pandas as pd
import pytest
from conftest import DATA
from support.command_line import executed, run
from support.efficiencies import check_identities
from support.offload_program import Offload, small

import tracecols
from benchmarks.bottlenecks import BOTTLENECKS
from benchmarks.rare import RARE
from benchmarks.world import World
from tracecols.errors import AnalysisError, StoreError
from tracecols.store.outputs import REPLAYED
from tracecols.testing import Program

NAMES = ["coll", "hybrid_2x3", "late_sender", "omp_basic"]


@pytest.mark.parametrize("call", ["MPI_Ssend", "MPI_Issend", "MPI_Send"])
def test_synchronous_send__waits_for_a_receiver_that_came_first_in_the_recording(call):
    """A faster sender comes first: an eager send ends at once, a synchronous one when the receive is posted."""
    program = Program(2)
    sender, receiver = (one.enter(0, "main") for one in program.masters)
    sender.enter(0, "slow").leave(1000).enter(1000, call)
    if call == "MPI_Issend":
        sender.start_send(1000, 1).leave(1000).enter(1000, "MPI_Wait").complete_send(1005).leave(1005)
    else:
        sender.send(1000, 1).leave(1005)
    sender.enter(1005, "after").leave(2005).leave(2005)
    receiver.enter(0, "fast").leave(500).enter(500, "MPI_Recv").receive(1005, 0).leave(1005).leave(1005)
    with program.trace() as trace:
        assert trace.what_if().runtime == 2005
        assert trace.what_if({"slow": 0.1}).runtime == (1105 if call == "MPI_Send" else 1505)


def test_prediction__of_a_trace_without_events_gains_nothing():
    with Program(2).trace() as trace:
        prediction = trace.what_if()
        assert (prediction.recorded_runtime, prediction.runtime, prediction.shortest) == (0, 0, 0)
        assert prediction.gains[["runtime", "saving"]].eq(0).all(axis=None)


def two_steps(t=0):
    """Return two ranks: `fast` takes 10 and 30 s, then `slow` 40 and 20 s, each followed by a barrier that ends 2 s
    after the last enters. They begin at t."""
    program = Program(2)
    for one, fast, slow in zip(program.masters, (10, 30), (40, 20), strict=True):
        one.enter(t, "main").enter(t, "MPI_Init").leave(t)
        for begin, name, length, end in ((t, "fast", fast, t + 32), (t + 32, "slow", slow, t + 74)):
            one.enter(begin, name).leave(begin + length).enter(begin + length, "MPI_Barrier").begin_collective(
                begin + length
            )
            one.end_collective(end, "barrier").leave(end)
        one.enter(t + 74, "MPI_Finalize").leave(t + 80).leave(t + 80)
    return program


@pytest.fixture
def steps():
    with two_steps().trace() as trace:
        yield trace


def test_notes__of_a_prediction_count_one_in_the_singular(tmp_path):
    program = Program(2)
    program.masters[0].enter(0, "main").enter(1, "MPI_Send").send(2, 1).leave(3).leave(9)
    program.masters[1].enter(0, "main").leave(9)
    with program.trace() as trace:
        assert trace.what_if().notes == ["1 send without receive"]
        cube = tmp_path / "x.severity"
        trace.analyze().save(cube)
        for of, *options in ((trace.path,), (trace.path, "--ideal", "replay"), (trace.path, "--to", "9"), (cube,)):
            printed = run("efficiency", of, *options)
            assert printed.stderr == f"note: {of}: 1 send without receive\n"
        printed = run("efficiency", cube, "--ideal", "approximation")
        assert not printed.stderr


@pytest.mark.parametrize("options", [("--collectives", "dimemas"), ("--eager", "32KiB")])
def test_command__names_the_options_of_an_ideal_network(steps, options):
    output = executed("what-if", steps.path, *options, code=1)
    assert output.endswith("\n  give --transfer 0 besides, and neither --latency nor --bandwidth\n")


@pytest.mark.parametrize("since", [17 * 10**17, (1 << 62) + 1], ids=["1970", "2^62"])
def test_prediction__does_not_depend_on_when_the_run_began(since, steps):
    with two_steps(since).trace() as later:
        predictions = [trace.what_if({"slow": 10}) for trace in (steps, later)]
        assert predictions[0].runtime == predictions[1].runtime == 30 + 2 + 400 + 2
        slack, of_later = (trace.what_if().slack() for trace in (steps, later))
        pd.testing.assert_frame_equal(slack, of_later, rtol=1e-4)
        assert str(steps.analyze().diagnosis()) == str(later.analyze().diagnosis())


@pytest.mark.parametrize("factor", [1, 20, 40, 1_000, 10**6])
def test_slack__of_a_run_that_becomes_longer(steps, factor):
    found = steps.what_if({"fast": factor, "slow": factor}).slack()
    assert found.path.tolist() == ["main/slow", "main/fast"]
    assert found.critical.tolist() == pytest.approx([40 * factor, 30 * factor])
    assert found.limit.tolist() == [0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": {"fast": 1e18}},
        {"scale": {"main": 1e10, "slow": 1e10}},
        {"transfer": 1e300},
        {"openmp": 1e300},
        {"latency": 1e300},
        {"latency": 4e18},
    ],
)
def test_prediction__of_times_beyond_64_bits_is_refused(steps, changes):
    with pytest.raises(AnalysisError, match="the predicted times could exceed 64 bits\n  give smaller factors"):
        steps.what_if(**changes)


@pytest.mark.parametrize(
    ("changes", "runtime"),
    [
        ({}, 74),
        # the slower of 5 and 15, then that of 40 and 20, and 2 s for each barrier
        ({"scale": {"fast": 0.5}}, 15 + 2 + 40 + 2),
        ({"scale": {"slow": 0.25}}, 30 + 2 + 10 + 2),
        # callees of main take half the time, too
        ({"scale": {"main": 0.5}}, 15 + 2 + 20 + 2),
        # factors of nested regions multiply; a pattern may match several regions
        ({"scale": {"main": 0.5, "slow": 0.5}}, 15 + 2 + 10 + 2),
        ({"scale": {"[fs]*": 0.5}}, 15 + 2 + 20 + 2),
        ({"scale": {"slow": 0}}, 30 + 2 + 2),
        ({"scale": {"slow": 2}}, 30 + 2 + 80 + 2),
        ({"transfer": 0}, 70),
        ({"transfer": 0.5}, 30 + 1 + 40 + 1),
        # a barrier of two ranks takes one step
        ({"latency": 5}, 30 + 5 + 40 + 5),
        ({"latency": 5, "transfer": 1}, 30 + 7 + 40 + 7),
        ({"bandwidth": 8}, 70),
        ({"bandwidth": 10**20}, 70),
        # both ranks already compute for 50 s
        ({"balanced": True}, 74),
        # the ranks compute 30 and 40 s: scaled by 7/6 and 7/8 and rounded: 12 and 26, then 23 and 9 s
        ({"scale": {"slow": 0.5}, "balanced": True}, 26 + 2 + 23 + 2),
    ],
)
def test_runtime__by_hand(steps, changes, runtime):
    predicted = steps.what_if(**changes)
    assert predicted.recorded_runtime == 74
    assert predicted.runtime == runtime
    assert predicted.saving == 74 - runtime


def test_balanced__all_processes_compute_the_mean():
    program = Program(2)
    for one, work in zip(program.masters, (20, 40), strict=True):
        one.enter(0, "main").enter(work, "MPI_Barrier").begin_collective(work).end_collective(41, "barrier").leave(
            41
        ).leave(41)
    with program.trace() as trace:
        predicted = trace.what_if(balanced=True)
        assert predicted.runtime == 31
        # nobody waits any more
        cube = predicted.analyze()
    assert cube.total("comp") == 60
    assert cube.total("mpi_barrier_wait") == 0


def test_balanced__what_processes_compute_before_the_runtime_does_not_count():
    program = Program(2)
    for one, start in zip(program.masters, (10, 30), strict=True):
        one.enter(0, "main").enter(start, "MPI_Init").leave(31)
        for t in (31, 51):
            one.collective(t + 20, t + 20, 0, "barrier")
        one.enter(71, "MPI_Finalize").leave(72).leave(73)
    with program.trace() as trace:
        assert trace.what_if(balanced=True).runtime == trace.what_if().runtime == 40
        assert trace.what_if(balanced=True, whole_run=True).recorded_runtime == 73


def test_savings__where_to_begin(steps):
    found = steps.what_if().savings().set_index("path")
    # halving slow saves 20 of the 40 s of rank 0, which comes last to the second barrier
    assert found["saving"].to_dict() == {"main/slow": 20, "main/fast": 15}
    assert found["computation"].to_dict() == {"main/slow": 60, "main/fast": 40}
    assert found["largest"].to_dict() == {"main/slow": 40, "main/fast": 30}
    assert found.loc["main/slow", "share"] == pytest.approx(20 / 74)
    assert found.index[0] == "main/slow"
    # once slow takes no time, only fast is left to gain from
    after = steps.what_if({"slow": 0}).savings(0.1).set_index("path")
    assert after["saving"].to_dict() == {"main/fast": 27}


def test_savings__leave_out_what_saves_nothing():
    """`early` ends long before the other rank comes to the barrier; without it the run would not end sooner."""
    program = Program(2)
    for one, name, length in zip(program.masters, ("early", "late"), (10, 50), strict=True):
        one.enter(0, "main").enter(0, "MPI_Init").leave(0).enter(0, name).leave(length).enter(length, "MPI_Barrier")
        one.begin_collective(length).end_collective(51, "barrier").leave(51)
        one.enter(51, "MPI_Finalize").leave(52).leave(52)
    with program.trace() as trace:
        found = trace.what_if().savings()
    assert "main/late" in found.path.tolist()
    assert "main/early" not in found.path.tolist()
    assert (found.saving != 0).all()


def test_savings__leave_out_contexts_of_devices(archive, opened):
    """Calls that create contexts are outside of the focus, since no change of the program avoids them; they count only
    for the whole run."""
    program = Offload(archive)
    program.host.enter(0, "main")
    program.call(0, 500, "cuCtxCreate_v2")
    program.host.enter(500, "work").leave(900, "work").leave(1000, "main")
    trace = opened(archive)
    assert not any("cuCtxCreate" in path for path in trace.what_if().savings().path)
    assert "main/work" in trace.what_if().savings().path.tolist()
    assert any("cuCtxCreate" in path for path in trace.what_if(whole_run=True).savings().path)


def test_slack__is_how_much_shorter_a_call_path_can_be_before_another_path_takes_over(steps):
    found = steps.what_if().slack().set_index("path")
    # both ranks speed up alike: the same rank remains the last one at each barrier
    assert found["critical"].to_dict() == pytest.approx({"main/slow": 40, "main/fast": 30})
    assert found["slack"].to_dict() == pytest.approx({"main/slow": 40, "main/fast": 30})
    assert found["limit"].tolist() == [0, 0]


def test_slack__ends_where_others_come_last():
    """Before a barrier, rank 0 computes f for 40 s and rank 1 computes g for 30 s."""
    program = Program(2)
    for one, name, work in zip(program.masters, "fg", (40, 30), strict=True):
        one.enter(0, "main").enter(0, name).leave(work).enter(work, "MPI_Barrier").begin_collective(work)
        one.end_collective(41, "barrier").leave(41).leave(41)
    with program.trace() as trace:
        found = trace.what_if().slack()
        # g is not on the critical path
        assert found.path.tolist() == ["main/f"]
        assert found.critical.tolist() == pytest.approx([40], rel=1e-4)
        assert found.slack.tolist() == pytest.approx([10], rel=1e-3)
        # all of the reduction is saved up to the limit, nothing beyond
        assert trace.what_if({"f": found.limit[0]}).saving == 10
        assert trace.what_if({"f": 0.5}).saving == 10


def test_savings__are_those_of_a_replay_with_that_factor(opened):
    trace = opened(DATA / "coll")
    plain = trace.what_if()
    for row in plain.savings(n=4).itertuples():
        region = row.path.rpartition("/")[2]
        paths = trace.call_paths
        # leaves of the call tree whose region has no other call path
        below = paths.path.str.startswith(row.path + "/").any()
        if not below and (paths.path.str.rpartition("/")[2] == region).sum() == 1:
            assert trace.what_if({region: 0.5}).saving == pytest.approx(row.saving, abs=1e-9)


# -- the re-timed trace ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_retimed__without_changes_is_the_trace(opened, tmp_path, name):
    trace = opened(DATA / name)
    again = tracecols.open(trace.what_if().save(tmp_path / "b.trace"))
    for i in range(trace.manifest["n_locations"]):
        for table in trace.store.tables:
            for column, values in trace.store.read(table, i).items():
                np.testing.assert_array_equal(values, again.store.read(table, i)[column], err_msg=f"{table}.{column}")
    assert again.manifest["source"][REPLAYED] == "as recorded"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("changes", [{"transfer": 0}, {"latency": 1e-4, "bandwidth": 1e8}, {"scale": {"main": 0.5}}])
def test_retimed__has_the_predicted_runtime_and_recorded_events(opened, tmp_path, name, changes):
    trace = opened(DATA / name)
    predicted = trace.what_if(**changes)
    again = tracecols.open(predicted.save(tmp_path / "b.trace"))
    assert again.manifest["events_by_kind"] == trace.manifest["events_by_kind"]
    assert not again.manifest["decreases"]
    assert again.what_if().recorded_runtime == predicted.runtime
    before, after = trace.analyze(), again.analyze()
    assert after.violations() == []
    assert after.total("visits") == before.total("visits")
    if "scale" in changes:
        # code outside of main keeps its time; the time to enter and leave teams is not scaled
        inside = before.find_call_paths("*main*")
        whole, half = (float(cube.by_location("comp", inside).sum()) for cube in (before, after))
        assert half == pytest.approx(whole / 2, rel=1e-3)
        outside = (float(cube.by_location("comp", ~inside).sum()) for cube in (before, after))
        assert len({round(seconds, 9) for seconds in outside}) == 1
    else:
        assert after.total("comp") == pytest.approx(before.total("comp"), abs=1e-9)


def test_save__does_not_take_the_place_of_a_recorded_trace(tmp_path):
    path = tracecols.convert(DATA / "late_sender", tmp_path / "x.trace")
    predicted = tracecols.open(path).what_if(transfer=0)
    with pytest.raises(StoreError, match="of a recorded trace"):
        predicted.save(path)
    # a re-timed one is replaced
    for _ in range(2):
        predicted.save(tmp_path / "y.trace")


def test_retimed__scaled_computation_is_charged_to_its_call_path(steps):
    # between two barriers rank 0 is in fast for 10 s
    cube = steps.what_if({"slow": 0.25}).analyze()
    found = cube.frame("comp").groupby(["call_path", "rank"], observed=True).value.sum().to_dict()
    assert {k: v for k, v in found.items() if "main/" in k[0]} == {
        ("main/fast", 0): 10,
        ("main/fast", 1): 30,
        ("main/slow", 0): 10,
        ("main/slow", 1): 5,
    }


@pytest.mark.slow
def test_analyze__finds_the_waits_of_the_predicted_run(steps):
    # recorded waits are 20 s at each barrier; with slow at a quarter of its time, 20 and 5 s
    assert steps.analyze().total("mpi_barrier_wait") == 40
    assert steps.what_if({"slow": 0.25}).analyze().total("mpi_barrier_wait") == 25


# -- efficiencies of traces --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ideal", ["replay", "approximation"])
def test_efficiencies__of_traces_keep_the_identities(opened, name, ideal):
    trace = opened(DATA / name)
    table = trace.efficiencies(ideal=ideal)
    check_identities(table)
    values = table.set_index(["model", "metric"])["value"]
    for metric in ("serialisation_efficiency", "transfer_efficiency"):
        for key in (("mpi", metric), ("hybrid multiplicative", f"mpi_{metric}")):
            assert 0 < values.get(key, 1) <= 1 + 1e-12
    check_identities(trace.efficiencies("main", ideal=ideal))


def test_efficiencies__within_a_region_by_replay(steps):
    # main is the whole run of 80 s; the barriers and the end transfer for 4 + 6 s
    run = steps.efficiencies("main").drop_duplicates("metric").set_index("metric")["value"]
    assert (run["runtime"], run["ideal_runtime"]) == (80, 70)
    # slow has only computation
    slow = steps.efficiencies("slow").drop_duplicates("metric").set_index("metric")["value"]
    assert (slow["runtime"], slow["ideal_runtime"], slow["load_balance"]) == (40, 40, 0.75)


def test_efficiencies__of_a_piece(steps):
    # from the end of the first barrier to that of the second: the ranks compute 40 and 20 of 42 s
    run = steps.efficiencies(start=32, stop=74).drop_duplicates("metric").set_index("metric")["value"]
    assert run["runtime"] == 42
    assert run["parallel_efficiency"] == pytest.approx(30 / 42)
    assert run["transfer_efficiency"] == pytest.approx(40 / 42)


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands__of_an_archive(tmp_path):
    output = executed("what-if", DATA / "coll", "--transfer", 0, "-o", tmp_path / "ideal.trace", "--rows", 2)
    assert "predicted: ideal network" in output
    assert tracecols.open(tmp_path / "ideal.trace").manifest["source"][REPLAYED] == "ideal network"
    result = run("efficiency", DATA / "coll" / "traces.otf2", "--model", "mpi")
    assert "MPI_Init to MPI_Finalize; ideal network by replay" in result.output
    assert "94.3%" in result.output
    result = run("efficiency", DATA / "coll", "--model", "mpi", "--ideal", "approximation")
    assert "96.1%" in result.output


def test_command__json(tmp_path):
    store = tracecols.convert(DATA / "hybrid_2x3", tmp_path / "x.trace")
    result = run("what-if", store, "--latency", "2us", "--bandwidth", "1GB/s", "--json", "--faster", 0)
    plain = json.loads(result.stdout)
    assert plain["changes"] == "latency 2e-06 s, bandwidth 1e+09 B/s"
    assert plain["runtime"] >= plain["on_an_ideal_network"]
    assert plain["savings"][0]["saving"] >= plain["savings"][-1]["saving"]


def test_gains__what_helps_most_is_first(steps):
    gains = steps.what_if().gains
    assert set(gains["option"]) == {"--transfer 0", "--balanced", "--openmp 0"}
    assert gains["saving"].is_monotonic_decreasing
    given = {"--transfer 0": {"transfer": 0}, "--balanced": {"balanced": True}, "--openmp 0": {"openmp": 0}}
    for row in gains.to_dict("records"):
        alone = steps.what_if(**given[row["option"]])
        assert row["runtime"] == alone.runtime
        assert row["saving"] == pytest.approx(alone.saving)
        assert row["share"] == pytest.approx(alone.saving / alone.recorded_runtime)


@pytest.mark.slow
def test_command__begins_with_what_helps_most(tmp_path):
    store = tracecols.convert(DATA / "hybrid_2x3", tmp_path / "x.trace")
    shown = run("what-if", store).stdout
    assert shown.index("What helps most") < shown.index("Gain if one call path, without its callees, took")
    plain = json.loads(run("what-if", store, "--json").stdout)
    # changes that make the run longer are not listed
    assert [row["option"] in shown for row in plain["gains"]] == [row["saving"] > 0 for row in plain["gains"]]
    assert len(plain["gains"]) == 3
    # each cause has the complete text of the diagnosis
    causes = [f for f in tracecols.open(store).analyze().diagnosis(100).findings if f.gain is not None]
    assert [row["saving"] for row in plain["mended"]] == pytest.approx([f.gain for f in causes])
    words = " ".join(shown.split())
    assert causes and all(row["change"] in words for row in plain["mended"])
    assert "What helps most" not in run("what-if", store, "--balanced").stdout
    assert "gains" not in json.loads(run("what-if", store, "--balanced", "--json").stdout)


def test_command__slack_says_until_when_another_path_takes_over():
    """Before both meet, rank 0 works for 30 s, 20 of them in f, and rank 1 for 24: if f is 6 s shorter, it leaves the
    critical path."""
    program = Program(processes=2)
    first, second = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1)
    first.enter(1, "f").leave(21).enter(21, "g").leave(31)
    second.enter(1, "h").leave(25)
    for rank, at in ((first, 31), (second, 25)):
        rank.enter(at, "MPI_Barrier").begin_collective(at).end_collective(32, "barrier").leave(32)
        rank.enter(32, "MPI_Finalize").leave(33).leave(33)
    with program.trace() as trace:
        result, as_json = (run("what-if", trace.path, "--slack", *more) for more in ([], ["--json"]))
    assert "another path through the program takes over" in result.output
    lines = {line.split()[-1]: line for line in result.output.splitlines() if "main/" in line}
    assert sorted(lines) == ["main/f", "main/g"]
    assert re.search(r"20\.000000 s +70\.0% of its time", lines["main/f"])
    rows = json.loads(as_json.stdout)["slack"]
    expected = [("main/f", 20, 6, 0.7), ("main/g", 10, 6, 0.4)]
    for row, (path, *values) in zip(rows, expected, strict=True):
        assert row["path"] == path
        assert [row[c] for c in ("critical", "slack", "limit")] == pytest.approx(values, rel=1e-3)
    output = executed("what-if", "x.trace", "--slack", "--faster", 0.3, code=2)
    assert "--faster: only for the table of gains" in output


@pytest.mark.parametrize(
    "arguments", [["--scale", "solve"], ["--scale", "solve=-1"], ["--scale", "solve=x"], ["--latency", "-1us"], ["--bandwidth", "fast"], ["--transfer", "nan"]]
)  # fmt: skip
def test_command__bad_usage_is_exit_code_2(arguments, tmp_path):
    assert run("what-if", tmp_path / "x.trace", *arguments).exit_code == 2


def test_command__a_cube_cannot_be_replayed(steps, tmp_path):
    cube = steps.analyze()
    del cube.facts["ideal_runtime"]
    cube.save(tmp_path / "x.severity")
    output = executed("efficiency", tmp_path / "x.severity", "--ideal", "replay", code=1)
    assert "give the store" in output


# -- refused changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scale": {"nowhere": 0.5}}, "no call path enters a region 'nowhere'"),
        ({"scale": {"slwo": 0.5}}, "did you mean slow"),
        ({"scale": {"MPI_Barrier": 0.5}}, "give transfer, latency or bandwidth"),
        ({"scale": {"slow": -0.5}}, "factor of 'slow' is -0.5"),
        ({"scale": {"slow": float("nan")}}, "factor of 'slow' is nan"),
        ({"scale": {"slow": True}}, "factor of 'slow' is True"),
        ({"scale": "slow"}, "factors are given by region"),
        ({"transfer": -1}, "factor of transfer is -1"),
        ({"latency": float("inf")}, "latency is inf"),
        ({"bandwidth": 0}, "bandwidth is 0"),
        ({"openmp": -1}, "factor of OpenMP is -1"),
        ({"collectives": "all"}, "there are recorded, dimemas"),
        ({"collectives": "dimemas"}, "are for an ideal network"),
    ],
)
def test_what_if__what_makes_no_sense_is_refused(steps, changes, words):
    with pytest.raises(AnalysisError, match=words):
        steps.what_if(**changes)


def offloading(archive, tmp_path, **given):
    """Return a trace whose host launches a kernel of 40, computes 10, waits for the kernel, then computes 20 more; in
    units of 100 ticks."""
    program = Offload(archive, **given)
    main = archive.region("main", "function", "user")
    program.host.enter(0, main)
    program.call(100, 200, "cuLaunchKernel", program.streams[0], callsite=1)
    program.kernel(300, 4300, callsite=1)
    program.call(1200, 4400, "cuStreamSynchronize", program.streams[0])
    program.host.leave(6400, main)
    return tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace"))


@pytest.mark.parametrize(
    ("scale", "end"),
    [
        # the host waits from 1200 on, and returns 100 after the end of the kernel
        ({"kernel": 0.5}, 4400),
        ({"kernel": 2}, 10400),
        # the kernel ends at 700: the time in which the host returns stays the same
        ({"kernel": 0.1}, 3300),
        # the launch, and so the kernel, comes 50 earlier; after it, main takes half of 2000
        ({"main": 0.5}, 5350),
    ],
)
def test_what_if__hosts_wait_for_devices_and_devices_for_hosts(archive, tmp_path, scale, end):
    trace = offloading(archive, tmp_path)
    resolution = trace.store.manifest["clock"]["resolution"]
    assert trace.what_if().runtime * resolution == pytest.approx(6400)
    assert trace.what_if(scale).runtime * resolution == pytest.approx(end)


def test_what_if__of_kernels_without_launches_is_refused_with_the_reason(archive, opened):
    small(archive).kernel(70, 80)
    trace = opened(archive)
    for changes in ({}, {"transfer": 0}, {"scale": {"*": 0.5}}):
        with pytest.raises(
            AnalysisError, match="it is not recorded which calls launch 1 kernel or copy on streams of devices"
        ):
            trace.what_if(**changes)
    result = run("what-if", trace.path, "--scale", "*=0.1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the run cannot be predicted" in result.stderr


def test_efficiencies__an_unknown_ideal_is_refused(steps):
    with pytest.raises(AnalysisError, match="there are approximation, replay, dimemas"):
        steps.efficiencies(ideal="perfect")


@pytest.mark.parametrize("factor", [0.5, 1.5])
@pytest.mark.parametrize(
    ("kind", "region"),
    [("late_post", "prepare_window"), ("late_complete", "in_epoch"), ("window_lock_holder", "modify")],
)
def test_windows__the_prediction_is_the_runtime_of_the_changed_program(kind, region, factor, monkeypatch):

    def simulated(name=""):
        work = World.work

        def changed(self, rank, of, ticks, thread=0):
            noise, self.noise = self.noise, 0.0
            work(self, rank, of, ticks * factor if of == name else ticks, thread)
            self.noise = noise

        with monkeypatch.context() as patch:
            patch.setattr(World, "work", changed)
            w, _ = (BOTTLENECKS | RARE)[kind](Random(kind), True)
        w.finish()
        return w

    recorded = simulated()
    with recorded.program.trace() as trace:
        predicted = trace.what_if({region: factor})
    runtime = simulated(region).runtime / recorded.program.resolution
    assert abs(runtime - predicted.recorded_runtime) > 0.1 * predicted.recorded_runtime
    assert predicted.runtime == pytest.approx(runtime, rel=0.01)
