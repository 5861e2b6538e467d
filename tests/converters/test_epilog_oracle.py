"""Every column of every event against a plain reader, for recorded and random traces."""

import random

import numpy as np
import pytest
from conftest import SHARED, slow
from oracles.epilog import merge_archive, read_epilog
from oracles.expert import Analysis
from support.epilog_compare import compare
from support.epilog_expected import expected
from support.epilog_writer import merged, write_archive
from support.random_epilog import random_recording

from tracecols.schema import EventKind

# bgq* has many locations: its severities are compared with the reference instead (tests/patterns)
RECORDED = [p for p in sorted(SHARED.glob("epilog/*/epik.elg")) if not p.parent.name.startswith("bgq")]


def random_sizes(seed, **more):
    """Draw the parameters of a random program."""
    draw = random.Random(seed)
    return {
        "n_processes": draw.choice([1, 2, 3, 5]), "n_threads": draw.choice([1, 1, 2, 4]), "n_rounds": draw.choice([5, 20]),
        "n_metrics": draw.choice([0, 0, 1, 3]), "tick": draw.choice([None, 0.001, 1e-5]), "rma": draw.random() < 0.5,
        "big_endian": draw.random() < 0.5, **more,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.parent.name)
def test_recorded__equals_a_plain_reader(path, opened):
    trace = opened(path)
    recording = read_epilog(path)
    compare(recording, trace)
    assert trace.manifest["source"]["records"] == len(recording.events)
    assert trace.manifest["not_understood"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_random__equals_a_plain_reader(seed, opened, tmp_path):
    recording = random_recording(seed, **random_sizes(seed, pseudo_regions=seed % 2 == 0))
    path = tmp_path / "x.elg"
    merged(recording).write(path, compress=seed % 3 == 0)
    compare(recording, opened(path))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_archive__equals_a_plain_merge(seed, opened, tmp_path):
    draw = random.Random(seed)
    sizes = random_sizes(seed, rma=False, mergeable=True)
    recording = random_recording(seed, **sizes)
    offsets = {}
    if sizes["tick"] is None:
        for p in range(sizes["n_processes"]):
            offsets[p] = [(1000.2 + 2 * i, draw.uniform(-0.01, 0.01)) for i in range(draw.randrange(3))]
    write_archive(
        recording,
        tmp_path / "epik_x",
        seed,
        sparse=draw.random() < 0.5,
        identity=draw.random() < 0.3,
        compress=draw.random() < 0.5,
        offsets=offsets,
        base=1000.25 if offsets else 0.0,
        with_locations=draw.random() < 0.5,
        definitions_in_files=draw.random() < 0.5,
        last_def=draw.random() < 0.5,
    )
    trace = opened(tmp_path / "epik_x")
    # clock readings near 1000 s resolve 1e-13 s; closer events of different processes may be swapped
    compare(merge_archive(tmp_path / "epik_x"), trace, tolerance=2e-12 if offsets else 0.0, positions=not offsets)


@pytest.mark.parametrize("seed", [0, 1, *slow(range(2, 10))])
def test_pointers__are_those_of_a_walk_through_the_file(seed, opened, tmp_path):
    recording = random_recording(seed, **random_sizes(seed, n_threads=1 + seed % 3, n_rounds=12))
    merged(recording).write(tmp_path / "x.elg")
    trace = opened(tmp_path / "x.elg")
    analysis = Analysis(recording)
    wanted = expected(recording)
    position = np.array([e.position for lid in trace.locations["id"] for e in wanted[lid]])
    at = {e.pos: e.location for e in recording.events}
    events = trace.events
    own = [analysis.enterptr.get(p) for p in position]
    own = [e.pos if e is not None and at[e.pos] == at[p] else 0 for e, p in zip(own, position, strict=True)]
    found = np.append(position, 0)[events["enterptr"]]
    # a record may become several events: counters precede the event itself, the end of an operation precedes its EXIT
    itself = events["kind"] != EventKind.METRIC
    assert found[itself].tolist() == np.array(own)[itself].tolist()
    enters = events["cnodeptr"] >= 0
    least_recent = {}
    for p in sorted(analysis.node):
        least_recent.setdefault(id(analysis.node[p]), p)
    assert position[events["cnodeptr"][enters]].tolist() == [
        least_recent[id(analysis.node[p])] for p in position[enters]
    ]
    received = events["sendptr"] >= 0
    sends = {
        (e.location, e.fields["dest"], e.fields["tag"], e.fields["comm"])
        for e in recording.events
        if e.name == "MPI_SEND"
    }
    for recv, send in zip(position[received], position[events["sendptr"][received]], strict=True):
        r, s = recording.events[recv - 1], recording.events[send - 1]
        assert (s.location, r.location, r.fields["tag"], r.fields["comm"]) in sends
        assert (s.location, s.fields["dest"], s.fields["tag"]) == (r.fields["src"], r.location, r.fields["tag"])
    assert received.sum() == sum(e.name == "MPI_RECV" for e in recording.events)
    locks = events["lockptr"] >= 0
    last = {}
    before = {}
    for e in recording.events:
        if e.name in ("OMP_ALOCK", "OMP_RLOCK"):
            key = recording.locations[e.location].process, e.fields["lock"]
            before[e.pos] = last.get(key, 0)
            last[key] = e.pos
    assert dict(zip(position[locks], position[events["lockptr"][locks]], strict=True)) == {
        k: v for k, v in before.items() if v
    }
