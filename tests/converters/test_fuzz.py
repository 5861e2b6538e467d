"""A trace of arbitrary bytes is read and analyzed, or refused with one of our errors: no crash, no hang, no wild
index."""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA, LONG, slow
from support import (
    damage,
    epilog_mutations,
    kineto_mutations,
    kineto_writer,
    nsight_mutations,
    nsight_writer,
    otf2_mutations,
    paraver_mutations,
    paraver_writer,
)
from support.epilog_writer import EpilogWriter
from support.otf2_workload import everything

import tracecols
from tracecols.converters.base import Report
from tracecols.converters.epilog import archive as epilog_archive
from tracecols.converters.epilog import decode as epilog_decode
from tracecols.converters.otf2 import archive as otf2_archive
from tracecols.converters.otf2 import decode, definitions
from tracecols.converters.otf2.files import Chunks
from tracecols.converters.registry import open_source
from tracecols.store import Store

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

NAMES = (
    "messages/trace.elg.gz", "messages archive/epik.esd", "hybrid/trace.elg", "hybrid archive/epik.esd",
    "one-sided/trace.elg", "one-sided archive/epik.esd", "shmem/trace.elg", "shmem archive/epik.esd", "odd/trace.elg",
)  # fmt: skip
"""EPILOG traces, by their paths in the folder of `traces`."""


@pytest.fixture(autouse=True)
def watchdog():
    """End a test run that hangs with a traceback of all threads: a hang inside a kernel cannot be interrupted."""
    faulthandler.dump_traceback_later(LONG, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def tiny(folder: Path) -> otf2_mutations.Damage:
    """Write all record types at eight locations: a few hundred events, several chunks per file."""
    anchor = everything(folder / "traces.otf2", rounds=3, event_chunk=5000, definition_chunk=3000).write()
    return otf2_mutations.Damage(anchor)


def recorded(folder: Path) -> otf2_mutations.Damage:
    """Copy a small recording."""
    return otf2_mutations.Damage(shutil.copytree(DATA / "late_sender", folder / "recorded") / "traces.otf2")


def paraver(folder: Path, name: str = "x.prv") -> damage.Damage:
    """Write a program of four processes."""
    return paraver_mutations.Damage(paraver_writer.write(folder / name, paraver_writer.random_program(4, 2, 2, 8)))


def kineto(folder: Path, ending: str = ".json") -> damage.Damage:
    """Write files of two ranks."""
    return kineto_mutations.Damage(kineto_writer.write_run(folder / "run", [*kineto_writer.two_ranks()], ending))


def nsight(folder: Path, export: Callable[[], nsight_writer.Export] = nsight_writer.all_to_all) -> damage.Damage:
    """Write an export."""
    return nsight_mutations.Damage(export().write(folder / "x.sqlite"))


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """Small recordings of EPILOG, merged and as archives."""
    folder = tmp_path_factory.mktemp("traces")
    anchors = epilog_mutations.write_all(folder)
    assert [str(a.relative_to(folder)) for a in anchors] == [*NAMES]
    return folder


def peak() -> int:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def columns_of(anchor: Path) -> tuple[dict[tuple[int, str, str], bytes], int]:
    """Read a trace; return all columns by (location, table, name), and the number of batches."""
    source, n_batches = open_source(anchor), 0
    columns = {(-1, "definitions", ""): repr(source.definitions).encode()}
    for location in range(len(source.definitions["locations"]["id"])):
        for batch in source.read(location, Report()):
            n_batches += 1
            for table, values in (("events", batch.events), *batch.sides.items()):
                for name, column in values.items():
                    key = location, table, name
                    columns[key] = columns.get(key, b"") + column.tobytes()
    return columns, n_batches


@pytest.mark.parametrize(
    ("make", "given", "first", "n"),
    [
        (paraver, ("x.prv",), 0, 5),
        (kineto, (".json",), 0, 8),
        (nsight, (), 0, 8),
        *slow(
            [
                (tiny, (), 0, 80),
                (paraver, ("x.prv",), 1000, 30),
                (paraver, ("x.prv.gz",), 5000, 15),
                (kineto, (".json",), 1000, 30),
                (kineto, (".json.gz",), 5000, 15),
                (nsight, (), 1000, 15),
                (nsight, (nsight_writer.messages,), 2000, 15),
                (nsight, (nsight_writer.small,), 3000, 15),
            ]
        ),
    ],
)
def test_damage__is_refused_in_words_or_analyzed(make, given, first, n, tmp_path):
    spoilt = make(tmp_path, *given)
    (tmp_path / "out").mkdir()
    for seed in range(first, first + n):
        # some sums of the numbers of the OTF2 archive exceed 64 bits
        spoilt.analyze(seed, tmp_path / "out", () if make is tiny else ("exact",))
    assert spoilt.seen["refused"] > n / 20
    assert spoilt.seen["read"] > n / 20
    assert spoilt.seen["analyzed"] > n / 20 or make is tiny


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny, recorded])
def test_damage__of_otf2_is_read_or_refused(make, tmp_path):
    spoilt = make(tmp_path)
    spoilt.read(0)
    before = peak()
    for seed in range(400):
        spoilt.read(seed)
    assert peak() - before < 500
    seen = spoilt.seen
    assert seen["read"] + seen["refused"] == 401
    # the damage must reach many places: else this tests nothing
    assert min(seen["read"], seen["refused"], seen["salvaged"]) > 60
    assert len(seen) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_damage__of_epilog_is_analyzed_or_refused(name, traces, tmp_path):
    spoilt = epilog_mutations.Damage(traces / name)
    (tmp_path / "out").mkdir()
    spoilt.analyze(0, tmp_path / "out", ("scalasca", "expert"))
    before = peak()
    for seed in range(1, 13):
        spoilt.analyze(seed, tmp_path / "out", ("scalasca", "expert"))
    assert peak() - before < 500
    seen = spoilt.seen
    assert seen["read"] + seen["refused"] == 13
    # the damage must reach many places: else this tests nothing
    assert min(seen["read"], seen["refused"]) > 1
    assert seen["analyzed"] == 2 * seen["read"]
    assert len(seen) > 6


@pytest.mark.slow
def test_refusals__hold_no_memory(traces, tmp_path):
    """An error refers to the frames it passed, and these to buffers: if the error were kept, only a garbage collection
    would free them."""
    kinds = (
        otf2_archive.Buffers,
        otf2_archive.Archive,
        epilog_decode.Buffers,
        epilog_archive.Archive,
        epilog_archive.EventFile,
    )
    otf2 = tiny(tmp_path / "otf2")
    epilog = [epilog_mutations.Damage(traces / name) for name in NAMES]
    gc.collect()
    gc.disable()
    try:
        for seed in range(30):
            spoilt = epilog[seed % 10 - 1] if seed % 3 and seed % 10 else otf2
            with spoilt.spoilt(seed):
                tracecols.convert(spoilt.anchor, tmp_path / "x.trace", jobs=1 + seed % 2, force=True)
            # objects created since collection was disabled
            left = [o for o in gc.get_objects(generation=0) if isinstance(o, kinds)]
            assert left == [], f"seed {seed}"
    finally:
        gc.enable()
    assert min(otf2.seen["refused"], sum(of.seen["refused"] for of in epilog)) > 2


class Checked(np.ndarray):
    """An array that raises where compiled code would access other memory; -1 is allowed: the last element."""

    def __getitem__(self, index: Any) -> Any:
        check(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        check(index)
        super().__setitem__(index, value)


def check(index: Any) -> None:
    """Refuse indices below -1, and slices without two bounds that are not negative."""
    if isinstance(index, slice):
        index = index.start, index.stop
        if min(index) < 0:
            raise IndexError(f"part {index}")
    for i in index if isinstance(index, tuple) else (index,):
        if i < -1:
            raise IndexError(f"index {i}")


def checked(argument: Any) -> Any:
    """Return an array, or a named tuple of arrays, with checked indices."""
    if isinstance(argument, tuple):
        return type(argument)(*map(checked, argument))
    return argument.view(Checked) if isinstance(argument, np.ndarray) else argument


@pytest.fixture
def in_python(monkeypatch) -> list[int]:
    """Replace the kernels by plain Python with checked indices; return a list with one entry per call."""
    calls: list[int] = []

    def plain(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            calls.append(1)
            with np.errstate(all="ignore"):
                return kernel(*map(checked, arguments))

        return run

    for name in ("walk_records", "decode_records"):
        monkeypatch.setattr(epilog_decode, name, plain(getattr(epilog_decode, name).py_func))
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kernels_of_epilog__do_the_same_as_plain_python(name, traces, request):
    compiled = columns_of(traces / name)
    calls = request.getfixturevalue("in_python")
    assert columns_of(traces / name) == compiled
    assert len(calls) > 3


@pytest.mark.slow
@pytest.mark.parametrize("rows", [80, None])
def test_kernels_of_epilog__never_lead_an_index_out_of_its_array(rows, traces, monkeypatch, in_python):
    """Also with the smallest possible buffers."""
    if rows is not None:
        monkeypatch.setattr(epilog_archive, "ROWS", rows)
    damages = [epilog_mutations.Damage(traces / name) for name in NAMES]
    for seed in range(5000, 5045):
        damages[seed % len(damages)].read(seed)
    assert min(sum(of.seen[what] for of in damages) for what in ("read", "refused")) > 5
    assert len(in_python) > 50


@pytest.mark.slow
def test_kernels_of_otf2__never_lead_an_index_out_of_its_array(tmp_path):
    anchor = tiny(tmp_path / "archive").anchor
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tests.parent), str(tests)])
    done = subprocess.run(
        [sys.executable, "-m", "support.otf2_mutations", str(anchor), "5000", "300"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert read + refused == 300
    assert min(read, refused) > 50


@pytest.mark.slow
def test_kernels_of_otf2__do_the_same_as_plain_python(tmp_path, monkeypatch):
    """On read-only input, with bounds checked by NumPy."""
    anchor = everything(tmp_path / "traces.otf2", rounds=3, event_chunk=4000).write()
    compiled = columns_of(anchor)
    assert len(compiled[0]) > 100
    calls = []

    def plain(kernel):
        def run(chunk, *arguments):
            calls.append(kernel)
            buffer = getattr(chunk, "buffer", chunk)
            buffer.flags.writeable = False
            with np.errstate(all="ignore"):
                result = kernel.py_func(chunk, *arguments)
            buffer.flags.writeable = True
            return result

        return run

    monkeypatch.setattr(otf2_archive, "Chunks", lambda path, size, _, *more: Chunks(path, size, None, *more))
    monkeypatch.setattr(otf2_archive.decode, "decode_events", plain(decode.decode_events))
    monkeypatch.setattr(definitions.decode, "decode_definitions", plain(decode.decode_definitions))
    assert columns_of(anchor) == compiled
    assert len(calls) > 10


@pytest.mark.parametrize("rows", [128, 200, 1000])
def test_buffers_of_otf2__of_any_size_give_the_same(rows, tmp_path, monkeypatch):
    anchor = everything(tmp_path / "traces.otf2", rounds=20).write()
    whole, n_whole = columns_of(anchor)
    monkeypatch.setattr(otf2_archive, "ROWS", rows)
    parts, n_parts = columns_of(anchor)
    assert parts == whole
    assert n_parts > n_whole


@pytest.mark.parametrize("rows", [80, 128, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_buffers_of_epilog__of_any_size_give_the_same(name, rows, traces, monkeypatch):
    whole, _ = columns_of(traces / name)
    monkeypatch.setattr(epilog_archive, "ROWS", rows)
    assert columns_of(traces / name)[0] == whole


@pytest.mark.parametrize("n", [60, 64, 65, 100, 127, 128, 129, 500])
def test_buffers__end_within_the_attributes_of_an_event(n, tmp_path, monkeypatch):
    """One event can have more attributes than fit into the buffers: reading it must end."""
    monkeypatch.setattr(epilog_archive, "ROWS", 128)
    w = EpilogWriter()
    w.process()
    w.attribute(3, 1).enter(0, 0.0, "work").exit(0, 0.5)
    for i in range(n):
        w.attribute(3, i)
    w.enter(0, 1.0, "work").exit(0, 2.0)
    source = open_source(w.write(tmp_path / "epik.elg"))
    rows: list[int] = []
    kinds: list[int] = []
    for number, batch in enumerate(source.read(0, Report())):
        assert number < 100, "this goes on for ever"
        kinds += batch.events["kind"].tolist()
        rows += batch.sides["attributes"]["row"].tolist() if "attributes" in batch.sides else []
    assert kinds == [12, 13, 12, 13]
    assert rows[:61] == [0] + [2] * 60
    assert rows == [0] + [2] * n or n >= 128


@pytest.mark.parametrize(("rows", "together"), [(1 << 20, 1 << 16), (1 << 20, 300), (200, 1 << 16), (1000, 150)])
def test_locations__read_together_give_the_same_store(rows, together, tmp_path, monkeypatch):
    anchor = everything(tmp_path / "traces.otf2", rounds=20).write()

    def convert(name: str) -> tuple[dict[tuple[str, str], bytes], dict[str, object]]:
        store = Store(tracecols.convert(anchor, tmp_path / name))
        locations = np.arange(store.manifest["n_locations"])
        columns: dict[tuple[str, str], bytes] = {}
        for table in store.tables:
            found, counts = store.read_together(table, locations)
            columns |= {(table, column): values.tobytes() for column, values in found.items()}
            columns[table, ""] = counts.tobytes()
        return columns, {k: v for k, v in store.manifest.items() if k != "checksum"}

    monkeypatch.setattr(otf2_archive, "TOGETHER", 1)
    one_by_one = convert("one.trace")
    monkeypatch.setattr(otf2_archive, "TOGETHER", together)
    monkeypatch.setattr(otf2_archive, "ROWS", rows)
    assert convert("several.trace") == one_by_one
