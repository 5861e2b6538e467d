"""Whatever the bytes of an EPILOG trace are: it is read and analyzed, or refused with an error of ours; no crash, no
hang."""

from __future__ import annotations

import faulthandler
import gc
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import LONG
from support import otf2_mutations
from support.epilog_mutations import Damage, write_all
from support.epilog_writer import EpilogWriter
from support.otf2_workload import everything

from tracecols.conversion import convert
from tracecols.converters.base import Report
from tracecols.converters.epilog import archive as archive_module
from tracecols.converters.epilog import decode
from tracecols.converters.otf2.archive import Archive, Buffers
from tracecols.converters.registry import open_source
from tracecols.errors import TracecolsError

"""A hang inside a kernel cannot be interrupted: the interpreter is ended with a traceback of all threads."""

NAMES = (
    "messages/trace.elg.gz", "messages archive/epik.esd", "hybrid/trace.elg", "hybrid archive/epik.esd",
    "one-sided/trace.elg", "one-sided archive/epik.esd", "shmem/trace.elg", "shmem archive/epik.esd", "odd/trace.elg",
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """End a test run that hangs."""
    faulthandler.dump_traceback_later(LONG, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """Small recordings, merged and as archives."""
    folder = tmp_path_factory.mktemp("traces")
    anchors = write_all(folder)
    assert [str(a.relative_to(folder)).replace("\\", "/") for a in anchors] == [*NAMES]
    return folder


def peak() -> int:
    """Largest resident memory of this process so far, in MB; 0 where nobody tells."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)


def columns_of(anchor: Path) -> dict[tuple[int, str, str], bytes]:
    """Read everything: all columns by location, table and name."""
    source = open_source(anchor)
    columns: dict[tuple[int, str, str], bytes] = {}
    for location in range(len(source.definitions["locations"]["id"])):
        for batch in source.read(location, Report()):
            for table, values in (("events", batch.events), *batch.sides.items()):
                for name, column in values.items():
                    key = location, table, name
                    columns[key] = columns.get(key, b"") + column.tobytes()
    return columns


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_damage__is_read_or_refused(name, traces, tmp_path):
    damage = Damage(traces / name)
    out = tmp_path / "out"
    out.mkdir()
    damage.one(0, out)
    before = peak()
    for seed in range(1, 13):
        damage.one(seed, out)
    assert peak() - before < 500
    seen = damage.seen
    assert seen["read"] + seen["refused"] == 13
    # the damage must reach many places: else this tests nothing
    assert min(seen["read"], seen["refused"]) > 1
    assert seen["analyzed"] == 2 * seen["read"]
    assert len(seen) > 8


@pytest.mark.slow
def test_refusals__hold_no_memory(traces, tmp_path):
    """An error holds the frames it passed, and they hold buffers: nothing may hold the error, or all waits for a
    collection."""
    otf2 = everything(tmp_path / "otf2" / "traces.otf2", rounds=3).write()
    kinds = (Buffers, decode.Buffers, Archive, archive_module.Archive, archive_module.EventFile)
    damages = [Damage(traces / name) for name in NAMES] + [otf2_mutations.Damage(otf2)]
    refused = Counter[bool]()
    gc.collect()
    gc.disable()
    try:
        for seed in range(30):
            damage = damages[seed % len(damages)] if seed % 3 else damages[-1]
            path, data = damage.damaged(random.Random(seed))
            path.write_bytes(data)
            try:
                convert(damage.anchor, tmp_path / "x.trace", jobs=1 + seed % 2)
            except TracecolsError:
                refused[damage is damages[-1]] += 1
            finally:
                path.write_bytes(damage.files[path])
            # those that came since nothing is collected any more
            left = [o for o in gc.get_objects(generation=0) if isinstance(o, kinds)]
            assert left == [], f"seed {seed}"
    finally:
        gc.enable()
    assert min(refused.values()) > 2


class Checked(np.ndarray):
    """An array that raises where compiled code would read or write elsewhere; -1, the last one, is meant."""

    def __getitem__(self, index: Any) -> Any:
        check(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        check(index)
        super().__setitem__(index, value)


def check(index: Any) -> None:
    """Refuse to count from the end; a part of an array has a begin and an end in it."""
    if isinstance(index, slice):
        index = index.start, index.stop
        if min(index) < 0:
            raise IndexError(f"part {index}")
    for i in index if isinstance(index, tuple) else (index,):
        if i < -1:
            raise IndexError(f"index {i}")


def checked(argument: Any) -> Any:
    """Let an array, or the arrays of a named tuple, check indices."""
    if isinstance(argument, tuple):
        return type(argument)(*map(checked, argument))
    return argument.view(Checked) if isinstance(argument, np.ndarray) else argument


@pytest.fixture
def in_python(monkeypatch) -> list[int]:
    """Let the kernels be plain Python, with indices checked; returns what counts their calls."""
    calls: list[int] = []

    def plain(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            calls.append(1)
            with np.errstate(all="ignore"):
                return kernel(*map(checked, arguments))

        return run

    for name in ("walk_records", "decode_records"):
        monkeypatch.setattr(decode, name, plain(getattr(decode, name).py_func))
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kernels__do_the_same_as_plain_python(name, traces, request):
    compiled = columns_of(traces / name)
    calls = request.getfixturevalue("in_python")
    assert columns_of(traces / name) == compiled
    assert len(calls) > 3


@pytest.mark.slow
@pytest.mark.parametrize("rows", [80, None])
def test_kernels__never_lead_an_index_out_of_its_array(rows, traces, tmp_path, monkeypatch, in_python):
    """With buffers as small as can be, too."""
    if rows is not None:
        monkeypatch.setattr(archive_module, "ROWS", rows)
    damages = [Damage(traces / name) for name in NAMES]
    read = refused = 0
    for seed in range(5000, 5045):
        damage = damages[seed % len(damages)]
        chance = random.Random(seed)
        path, data = damage.damaged(chance)
        path.write_bytes(data)
        try:
            source = open_source(damage.anchor)
            for location in range(len(source.definitions["locations"]["id"])):
                for batch in islice(source.read(location, Report(), salvage=seed % 2 == 0), 10_000):
                    batch.events["time"].sum()
            read += 1
        except TracecolsError:
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}, {path}")
            raise
        finally:
            path.write_bytes(damage.files[path])
    assert min(read, refused) > 5
    assert len(in_python) > 50


@pytest.mark.parametrize("rows", [80, 128, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_buffers__of_any_size_give_the_same(name, rows, traces, monkeypatch):
    whole = columns_of(traces / name)
    monkeypatch.setattr(archive_module, "ROWS", rows)
    assert columns_of(traces / name) == whole


@pytest.mark.parametrize("n", [60, 64, 65, 100, 127, 128, 129, 500])
def test_buffers__end_within_the_attributes_of_an_event(n, tmp_path, monkeypatch):
    """One event can have more attributes than there is room for: that must not go on for ever."""
    monkeypatch.setattr(archive_module, "ROWS", 128)
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
