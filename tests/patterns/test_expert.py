"""The EXPERT conventions: random programs against a plain simulation of EXPERT 3.0, cell by cell.

The recorded traces with reference severities are in test_references. The simulation (`oracles/expert.py`) also agrees
with those (below); for random programs, it is as reliable as its interpretation of the analyser.
"""

import random

import pandas as pd
import pytest
from conftest import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.epilog import merge_archive, read_epilog
from oracles.expert import severities
from support.epilog_writer import EpilogWriter, merged, write_archive
from support.expert_cells import cells, differences
from support.laws import divide
from support.random_epilog import random_recording

import tracecols
from tracecols import conversion
from tracecols.patterns.registry import properties

RECORDED = sorted(SHARED.glob("epilog/*/reference.parquet"))
PROGRAMS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6), "n_processes": st.integers(1, 6), "n_threads": st.sampled_from([1, 1, 2, 3, 4]),
        "n_rounds": st.integers(1, 30), "n_metrics": st.sampled_from([0, 0, 1, 3]),
        "tick": st.sampled_from([None, None, 0.01, 0.001, 1e-5]), "big_endian": st.booleans(), "rma": st.booleans(),
        "overlapping_locks": st.booleans(), "pseudo_regions": st.booleans(), "violations": st.booleans(),
    }
)  # fmt: skip


@pytest.fixture
def convert(tmp_path):
    """Write a recording as a merged trace and convert it."""

    def run(recording, **how):
        number = len(list(tmp_path.iterdir()))
        path = tmp_path / f"{number}.elg"
        merged(recording).write(path)
        return tracecols.open(tracecols.convert(path, tmp_path / f"{number}.trace", **how))

    return run


@pytest.mark.slow
@settings(max_examples=25)
@given(program=PROGRAMS)
def test_random_programs__have_the_severities_of_the_simulation(program, convert):
    recording = random_recording(**program)
    assert differences(severities(recording), convert(recording, jobs=1).analyze("expert")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("reference", RECORDED, ids=lambda p: p.parent.name)
def test_simulation__agrees_with_the_references(reference):
    wanted = pd.read_parquet(reference)
    wanted = wanted.groupby(["property", "call_path", "rank", "thread"]).value.sum().to_dict()
    found = severities(read_epilog(reference.parent / "epik.elg"))
    assert wanted.keys() == found.keys()
    assert max(abs(found[k] - v) for k, v in wanted.items()) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_archives__have_the_severities_of_the_merged_trace(seed, opened, tmp_path):
    recording = random_recording(
        seed, n_processes=3, n_threads=1 + seed % 3, n_rounds=20, rma=seed % 2 == 0, mergeable=True
    )
    write_archive(recording, tmp_path / "epik_x", seed, sparse=seed % 2 == 0, compress=seed % 3 > 0)
    trace = opened(tmp_path / "epik_x")
    assert trace.manifest["source"]["format"] == "EPILOG 1.9, archive"
    assert differences(severities(merge_archive(tmp_path / "epik_x")), trace.analyze("expert")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_severities__do_not_depend_on_jobs_and_parts(conventions, convert, monkeypatch):
    recording = random_recording(5, n_processes=4, n_threads=3, n_rounds=40, n_metrics=2, tick=0.001, rma=True)
    one = convert(recording, jobs=1)
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "plan_parts", lambda n: [range(i, i + 1) for i in range(len(n))])
        divide(patch)
        patch.setattr("tracecols.converters.epilog.archive.ROWS", 50)
        two = convert(recording, jobs=2)
        assert len(list((two.path / "events").iterdir())) == 12
        found = [cells(t.analyze(conventions)) for t in (one, two)]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_scalasca_conventions__hold_their_invariants_on_epilog(seed, convert):
    draw = random.Random(seed)
    recording = random_recording(seed, draw.choice([2, 4]), draw.choice([1, 3]), 20, tick=draw.choice([None, 0.001]))
    cube = convert(recording).analyze("scalasca")
    # late receivers are counted at the call that completes the send, their parent at the one that starts it
    assert [v for v in cube.violations() if "mpi_clr_count" not in str(v)] == []
    assert cube.total("visits") == convert(recording).analyze("expert").total("visits")


@pytest.mark.slow
def test_properties__exist_only_where_they_can(convert):
    serial = convert(random_recording(1, n_processes=1, n_threads=1, n_rounds=3)).analyze("expert")
    assert set(serial.properties.id) == {"time", "execution", "overhead", "visits"}
    threads = set(convert(random_recording(1, n_processes=1, n_threads=2, n_rounds=3)).analyze("expert").properties.id)
    assert {"omp", "omp_idle_threads"} < threads
    assert "mpi" not in threads
    mpi = set(convert(random_recording(1, n_processes=2, n_threads=1, n_rounds=3)).analyze("expert").properties.id)
    assert "mpi_latesender" in mpi
    assert not {i for i in mpi if "rma" in i or i.startswith("omp")}
    windows = set(convert(random_recording(1, n_processes=2, n_rounds=3, rma=True)).analyze("expert").properties.id)
    assert {
        "mpi_rma_communication",
        "mpi_rma_earlytransfer",
        "mpi_rma_synchronization",
        "mpi_rma_latecomplete",
    } < windows
    assert (
        not {p.id for p in properties("expert")}
        - windows
        - threads
        - {
            p.id
            for p in properties("expert")
            if p.id.startswith(("shmem", "device", "nccl")) or p.needs == "defined grid in space"
        }
    )


@pytest.mark.slow
def test_both_conventions__say_the_same_where_their_rules_are_the_same(data, opened):
    trace = opened(data / "hybrid_2x3")
    scalasca, expert = trace.analyze(), trace.analyze("expert")
    same = {
        "mpi": "mpi", "mpi_sync_collective": "mpi_sync_collective", "mpi_point2point": "mpi_point2point",
        "mpi_collective": "mpi_collective", "mpi_latebroadcast": "mpi_latebroadcast", "visits": "visits",
        "omp_explicit_barrier": "omp_ebarrier", "omp_ebarrier_wait": "omp_ebarrier_wait",
        "omp_implicit_barrier": "omp_ibarrier", "omp_ibarrier_wait": "omp_ibarrier_wait",
        "omp_lock_critical": "omp_lock_contention_critical",
    }  # fmt: skip
    for ours, theirs in same.items():
        assert expert.total(ours) == pytest.approx(scalasca.total(theirs), abs=1e-6), ours
        assert expert.total(ours) > 0
    # different by definition: forking counts for the master alone, and is not moved to the parallel region
    assert 0 < expert.total("omp_fork") < scalasca.total("omp_fork")
    assert expert.total("time") > expert.total("execution") + expert.total("omp_idle_threads") - 1e-9


def test_shmem__is_grouped_by_name(opened, tmp_path):
    w = EpilogWriter()
    names = (
        "main", "shmem_get", "shmem_double_put", "shmem_broadcast64", "shmem_barrier_all", "shmem_set_lock", "shmalloc",
    )  # fmt: skip
    (thread,) = w.process()
    for name in names:
        w.region(name)
    w.enter(thread, 0.0, "main")
    for i, name in enumerate(names[1:], 1):
        w.enter(thread, float(i), name).exit(thread, i + 0.5)
    w.exit(thread, 10.0)
    w.write(tmp_path / "x.elg")
    cube = opened(tmp_path / "x.elg").analyze("expert")
    halves = {
        "shmem": 6, "shmem_communication": 3, "shmem_rma_communication": 2, "shmem_collective": 1,
        "shmem_synchronization": 3, "shmem_barrier": 1, "shmem_p2p_synchronization": 1, "shmem_memory_management": 1,
        "shmem_init_exit": 0,
    }  # fmt: skip
    assert {n: cube.total(n) for n in halves} == {n: v / 2 for n, v in halves.items()}
