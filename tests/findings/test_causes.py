"""Causes of lost time: programs with one fault put in on purpose, whose first finding must be that fault."""

import functools
import json
from collections import Counter

import pytest
from conftest import SHARED, slow
from support.random_programs import RandomProgram

import tracecols

INJECTED = SHARED / "injected"

SAID = {
    "chain3": ("others wait for it", "factorize_block", "mpi_latesender"),
    "fine_omp": ("parallel regions", "smooth_line", "omp_"),
    "hybrid_thread": ("2.9 times as long", "sweep_block", "omp_"),
    "iallreduce_late": ("2.9 times as long", "local_dot", "mpi_nonblocking_collective_wait"),
    "imbalance_assembly": ("2.3 times as long", "assemble_matrix", "mpi_wait_nxn"),
    "late_receiver": ("others wait for it", "consume_block", "mpi_latereceiver"),
    "no_overlap": ("right after posting", "halo_exchange", "mpi_"),
    "pthread_cond": ("threads wait at a condition variable", "produce_item", "pthread_"),
    "rma_fence": ("2.8 times as long", "compute_update", "mpi_rma"),
    "tiny_messages": ("32,000 messages of 8 bytes", "exchange_particles", "mpi_"),
    "wavefront_coarse": ("pipeline", "recv_inflow", "mpi_"),
}
"""By program: words of the first finding, the region of its cause, and the prefix of its property."""

LARGE = "fine_omp", "tiny_messages"
"""Programs with many events."""


@pytest.fixture(scope="module")
def first(store_of):
    """Return a function that returns the truth of a program and its diagnosis."""
    if not INJECTED.is_dir():
        pytest.skip("the traces with faults are not beside the repository")

    @functools.cache
    def of(name):
        cube = tracecols.open(store_of(INJECTED / name)).analyze()
        return json.loads((INJECTED / name / "truth.json").read_text()), cube.diagnosis()

    return of


QUICK = ("chain3", "hybrid_thread", "no_overlap", "pthread_cond")


@pytest.mark.parametrize("name", [*QUICK, *slow(name for name in SAID if name not in QUICK)])
def test_first_finding__is_the_fault_that_was_put_in(name, first):
    truth, diagnosis = first(name)
    finding = diagnosis.findings[0]
    regions = [truth["region"], *truth["also_right"]]
    assert any(region in finding.cause.call_path.split("/") for region in regions)
    assert finding.rank == truth["rank"] or truth["rank"] is None
    assert finding.thread == truth["thread"] or truth["thread"] is None
    if truth["rank"] is None and truth["thread"] is None:
        assert finding.rank is None and finding.cause.location == ""
    words, region, property_ = SAID[name]
    assert region in finding.cause_region
    assert words in finding.what or words in truth["property"]
    assert finding.property.startswith(property_)
    # no other finding gains more
    assert all(f.gain is None or f.gain <= finding.gain for f in diagnosis.findings)


# the lost time is that of the truth, which leaves out slower messages without progress of MPI in no_overlap, and the
# main thread's wait for all others in pthread_cond
@pytest.mark.parametrize("name", [*sorted({*SAID} - {"no_overlap", "pthread_cond", *LARGE}), *slow(LARGE)])
def test_first_finding__costs_what_the_fault_costs(name, first):
    truth, diagnosis = first(name)
    assert diagnosis.findings[0].seconds == pytest.approx(truth["lost_seconds"], rel=1 / 3)


@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("chain3", 60 * 0.008 * 0.75),
        ("hybrid_thread", 40 * 0.008),
        ("iallreduce_late", 50 * 0.008),
        ("imbalance_assembly", 40 * 0.008),
        ("late_receiver", 60 * 0.007),
        ("rma_fence", 40 * 0.008),
        ("wavefront_coarse", 12 * 0.030),
        ("no_overlap", 60 * 0.005),
    ],
)
def test_first_finding__gains_what_the_program_gains_without_the_fault(name, gain, first):
    _, diagnosis = first(name)
    assert diagnosis.findings[0].gain == pytest.approx(gain, rel=1 / 3)


@pytest.mark.parametrize("seed", [1, 2, 3, *slow(range(4, 16))])
def test_causes__of_any_program_take_no_more_than_there_is(seed, tmp_path):
    store = RandomProgram(seed, tmp_path / "traces.otf2", 15, 1 + seed % 4, 1 + seed % 3).store(tmp_path / "x.trace")
    cube = tracecols.open(store.path).analyze()
    diagnosis, taken = cube.diagnosis(100), Counter()
    for finding in diagnosis.findings:
        for name, seconds in finding.parts:
            taken[name] += seconds
    for name, seconds in taken.items():
        assert seconds <= cube.focused().total(name) * (1 + 1e-9) + 1e-12, name
    assert diagnosis.text() and json.dumps(diagnosis.to_dict())
