"""A program gives the same severities whichever format it is written in."""

from __future__ import annotations

import pytest
from support.epilog_back_end import CLOCK_RATE, write_epilog
from support.otf2_back_end import write_otf2

import tracecols
from tracecols.converters.otf2.write import write_archive
from tracecols.docs.site.examples import EXAMPLES
from tracecols.testing import severities

EPILOG = (
    "mpi_latesender", "mpi_lswo_same", "mpi_lswo_different", "mpi_latereceiver", "mpi_barrier_wait", "mpi_latebroadcast",
    "mpi_earlyreduce", "mpi_wait_nxn", "omp_ebarrier_wait", "omp_ibarrier_wait",
)  # fmt: skip
"""Properties whose examples consist of what EPILOG has records for."""

PROGRAMS = {shown.make: [name for name, x in EXAMPLES.items() if x.make == shown.make] for shown in EXAMPLES.values()}
"""Properties by the program that shows them."""


def found(trace, names, ticks=1):
    """Return severities in ticks by property."""
    cube = trace.analyze(EXAMPLES[names[0]].conventions)
    return [{key: round(value * ticks) for key, value in severities(cube, name).items()} for name in names]


def converted(path, folder):
    return tracecols.open(tracecols.convert(path, folder / "x.trace", jobs=1, force=True), jobs=1)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_otf2__has_what_the_store_has(make, tmp_path):
    program, names = make().program, PROGRAMS[make]
    with program.trace() as trace:
        expected = found(trace, names)
    assert all(expected)
    assert found(converted(write_otf2(program, tmp_path / "a.otf2"), tmp_path), names) == expected
    assert found(converted(write_archive(program, tmp_path / "b.otf2", jobs=1), tmp_path), names) == expected


@pytest.mark.parametrize("name", EPILOG)
def test_epilog__has_what_the_store_has(name, tmp_path):
    program = EXAMPLES[name].make().program
    with program.trace() as trace:
        expected = found(trace, [name])
    assert all(expected)
    trace = converted(write_epilog(program, tmp_path / "epik.elg"), tmp_path)
    assert found(trace, [name], CLOCK_RATE) == expected
