"""Compare severities by period with those of the whole run."""

import numpy as np

from tracecols.enhance.scan.periods import ask
from tracecols.model.model import enhance
from tracecols.schema.properties import ROOT_CAUSES
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import choose
from tracecols.search.cube import analyze_model
from tracecols.testing import Program


def analyze(store, conventions=DEFAULT, **divided):
    asked = ask(**divided)
    model = enhance(store, 1, None, asked)
    return analyze_model(model, conventions, choice=choose(None, None, None, None, periods=asked))


def assert_same(plain, cube):
    """Check that cells, and sums of cells over periods, equal those of the analysis without periods: bit for bit,
    except for rounding of float64.

    Rounding affects cells of root causes in seconds, which are sums over periods, and all sums of float64.
    """
    rounding = 2.0**-48 * float(plain.cells["time"].value.sum()) if "time" in plain.cells else 0.0

    def is_root_cause(name):
        return cube.properties.nearest(name, cube.properties.part) == ROOT_CAUSES

    def assert_equal(value, expected, name, is_sum=False):
        if value.dtype.kind == "f" and is_root_cause(name):
            np.testing.assert_allclose(value, expected, 1e-13, rounding, err_msg=name)
        elif value.dtype.kind == "f" and is_sum:
            np.testing.assert_allclose(value, expected, 1e-13, err_msg=name)  # another order of additions
        else:
            np.testing.assert_array_equal(value, expected, name)

    for name in cube.properties.id:
        a, b, c = plain.cells[name], cube.cells[name], cube.period_cells[name]
        assert a.value.dtype == b.value.dtype == c.value.dtype, name
        np.testing.assert_array_equal(a.key, b.key, name)
        assert_equal(b.value, a.value, name)
        key, at = np.unique((c.call_path.astype(np.int64) << 32) | c.location, return_inverse=True)
        value = np.zeros(key.size, c.value.dtype)
        np.add.at(value, at, c.value)
        np.testing.assert_array_equal(key[value != 0], a.key, name)
        assert_equal(value[value != 0], a.value, name, is_sum=True)
    expected = plain.facts["counts"]
    assert {k: v for k, v in cube.facts["counts"].items() if k in expected} == expected


def by_period(cube, name, **how):
    """Return the severities by call path, rank and period."""
    frame = cube.frame(name, by_period=True, **how)
    columns = (frame[c] for c in ("call_path", "rank", cube.periods.kind, "value"))
    return {(p, int(r), int(k)): v for p, r, k, v in zip(*columns, strict=True)}


def loop(iterations=3):
    """Return a program of two processes; in steps of 10 ticks, rank 0 sends late by 1, 2, 3, 4, 1, ... ticks."""
    program = Program(processes=2)
    for rank, location in enumerate(program.masters):
        location.enter(0, "main")
        for k in range(iterations):
            t = 10 + 20 * k
            location.enter(t, "step")
            if rank == 0:
                location.enter(t + 2 + k % 4, "MPI_Send").send(t + 3 + k % 4, to=1).leave(t + 4 + k % 4)
            else:
                location.enter(t + 1, "MPI_Recv").receive(t + 8, source=0).leave(t + 9)
            location.leave(t + 10)
        location.leave(max(100, 20 * iterations + 40))
    return program
