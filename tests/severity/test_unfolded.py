"""Phases as call paths, as Score-P distinguishes instances of regions, in cubes for tools without phases."""

import pytest
from support.command_line import executed
from support.periods import by_period, loop

import tracecols
from tracecols.errors import SeverityError


def own(cube, name):
    frame = cube.frame(name)
    return {(p, int(r)): v for p, r, v in zip(frame.call_path, frame["rank"], frame.value, strict=True)}


@pytest.fixture
def divided(tmp_path):
    """Return a cube of three iterations of `main/step`."""
    with loop().trace() as trace:
        yield trace.analyze(phases="step")


def test_instances__stand_below_their_region(divided):
    cube = divided.with_phases_as_call_paths()
    assert cube.periods is None
    assert cube.call_paths.path == [
        "main",
        "main/step",
        *(f"main/step/instance={k}{below}" for k in range(3) for below in ("", "/MPI_Recv", "/MPI_Send")),
    ]
    for i, end in enumerate(cube.call_paths.end.tolist()):
        prefix = cube.call_paths.path[i] + "/"
        assert [p for p in cube.call_paths.path if p.startswith(prefix)] == cube.call_paths.path[i + 1 : end]
    for name in ("time", "visits", "bytes_rcvd", "mpi_latesender", "delay", "critical_path"):
        assert cube.total(name) == pytest.approx(divided.total(name), rel=1e-15)
        by_hand = {
            (path.replace("main/step", f"main/step/instance={k}", 1) if k >= 0 else path, rank): value
            for (path, rank, k), value in by_period(divided, name).items()
        }
        assert own(cube, name) == by_hand


@pytest.mark.slow
def test_phases__from_call_to_call_and_bins_are_roots():
    with loop().trace() as trace:
        for given, root in (({"phases": "from:main/step"}, "phase"), ({"bins": 4}, "bin")):
            cube = trace.analyze(**given)
            unfolded = cube.with_phases_as_call_paths()
            by_hand = {
                (f"{root}={k}/{path}" if k >= 0 else path, rank): v
                for (path, rank, k), v in by_period(cube, "time").items()
            }
            assert own(unfolded, "time") == by_hand
        with pytest.raises(SeverityError, match="divided neither by phases"):
            trace.analyze().with_phases_as_call_paths()


def test_focus__of_phases_as_call_paths_is_that_of_the_divided_cube(trace):
    for given in ({"phases": "h_coll"}, {"bins": 5}):
        cube = trace.analyze(properties=["comp", "omp_idle_threads", "visits"], **given)
        unfolded = cube.with_phases_as_call_paths().focused()
        for name in cube.properties.id:
            assert unfolded.total(name) == pytest.approx(cube.focused().total(name), rel=1e-15), name


@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_export__sums_over_phases_or_writes_them_as_call_paths(divided, tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    divided.save("x.severity")
    for more in ([], ["--phases-as-call-paths"]):
        executed("export", "x.severity", f"x{len(more)}.{ending}", *more)
    summed, unfolded = (tracecols.read_cube(f"x{n}.{ending}") for n in (0, 1))
    assert own(summed, "time") == pytest.approx(own(divided, "time"))
    assert own(unfolded, "time") == pytest.approx(own(divided.with_phases_as_call_paths(), "time"))
    assert "main/step/instance=2/MPI_Recv" in unfolded.call_paths.path
    refused = executed("export", "x.severity", "x.pftrace", "--phases-as-call-paths", code=2)
    assert "is for severities" in refused
