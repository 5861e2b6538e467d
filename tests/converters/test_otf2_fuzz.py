"""Whatever the bytes of an archive are: it is read, or refused with an error of ours; no crash, no hang, no wild
index."""

from __future__ import annotations

import faulthandler
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG
from support.otf2_mutations import Damage
from support.otf2_workload import everything

import tracecols
from tracecols.converters.otf2 import archive as archive_module
from tracecols.converters.otf2 import decode, definitions
from tracecols.converters.otf2.files import Chunks
from tracecols.converters.registry import open_source
from tracecols.store import Store

"""A hang inside a kernel cannot be interrupted: the interpreter is ended with a traceback of all threads."""


@pytest.fixture(autouse=True)
def watchdog():
    """End a test run that hangs."""
    faulthandler.dump_traceback_later(LONG, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def tiny(folder: Path) -> Path:
    """All record types at eight locations, a few hundred events; several chunks per file."""
    return everything(folder / "traces.otf2", rounds=3, event_chunk=5000, definition_chunk=3000).write()


def recorded(folder: Path, data: Path) -> Path:
    """Copy a small recording."""
    for path in (data / "late_sender").rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(data / "late_sender")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder / "traces.otf2"


def peak() -> int:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.slow
@pytest.mark.parametrize("which", ["tiny", "recorded"])
def test_damage__is_read_or_refused(which, tmp_path, data):
    damage = Damage(tiny(tmp_path) if which == "tiny" else recorded(tmp_path, data))
    damage.one(0)
    before = peak()
    for seed in range(400):
        damage.one(seed)
    assert peak() - before < 500
    seen = damage.seen
    assert seen["read"] + seen["refused"] == 401
    # the damage must reach many places: else this tests nothing
    assert min(seen["read"], seen["refused"], seen["salvaged"]) > 60
    assert len(seen) > 60


@pytest.mark.slow
def test_damage__leaves_no_half_store(tmp_path):
    damage = Damage(tiny(tmp_path / "archive"))
    out = tmp_path / "out"
    out.mkdir()
    for seed in range(80):
        refused = damage.seen["refused"]
        damage.one(seed, store=out / f"{seed}.trace")
        names = [p.name for p in out.iterdir()]
        if damage.seen["refused"] > refused:
            assert names == []
        else:
            assert names == [f"{seed}.trace"]
            (out / names[0]).rename(tmp_path / f"{seed}.done")
    assert min(damage.seen["read"], damage.seen["refused"]) > 15


@pytest.mark.slow
def test_damage__never_leads_an_index_out_of_its_array(tmp_path):
    anchor = tiny(tmp_path / "archive")
    program = Path(__file__).parents[1].joinpath("support", "otf2_mutations.py")
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(program), str(anchor), "5000", "300"],
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
def test_kernels__do_the_same_as_plain_python(tmp_path, monkeypatch):
    """On read-only input, with bounds checked by NumPy."""
    anchor = everything(tmp_path / "traces.otf2", rounds=3, event_chunk=4000).write()

    def read_all() -> list[bytes]:
        source = open_source(anchor)
        columns = [repr(source.definitions).encode()]
        for location in range(len(source.definitions["locations"]["id"])):
            for batch in source.read(location, archive_module.Report()):
                columns += [v.tobytes() for v in batch.events.values()]
                columns += [v.tobytes() for side in batch.sides.values() for v in side.values()]
        return columns

    compiled = read_all()
    assert len(compiled) > 300

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

    monkeypatch.setattr(archive_module, "Chunks", lambda path, size, _, *more: Chunks(path, size, None, *more))
    monkeypatch.setattr(archive_module.decode, "decode_events", plain(decode.decode_events))
    monkeypatch.setattr(definitions.decode, "decode_definitions", plain(decode.decode_definitions))
    assert read_all() == compiled
    assert len(calls) > 10


@pytest.mark.parametrize("rows", [128, 200, 1000])
def test_buffers__of_any_size_give_the_same(rows, tmp_path, monkeypatch):
    anchor = everything(tmp_path / "traces.otf2", rounds=20).write()

    def read_all() -> tuple[dict[tuple[int, str, str], bytes], int]:
        source = open_source(anchor)
        columns: dict[tuple[int, str, str], bytes] = {}
        n_batches = 0
        for location in range(len(source.definitions["locations"]["id"])):
            for batch in source.read(location, archive_module.Report()):
                n_batches += 1
                for table, values in (("events", batch.events), *batch.sides.items()):
                    for name, column in values.items():
                        key = location, table, name
                        columns[key] = columns.get(key, b"") + column.tobytes()
        return columns, n_batches

    whole, n_whole = read_all()
    monkeypatch.setattr(archive_module, "ROWS", rows)
    parts, n_parts = read_all()
    assert parts == whole
    assert n_parts > n_whole


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

    monkeypatch.setattr(archive_module, "TOGETHER", 1)
    one_by_one = convert("one.trace")
    monkeypatch.setattr(archive_module, "TOGETHER", together)
    monkeypatch.setattr(archive_module, "ROWS", rows)
    assert convert("several.trace") == one_by_one
