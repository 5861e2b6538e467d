"""What tracecols reads from OTF2 archives equals what the format's own library reads, column by column."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import tracecols
from tracecols.schema import KINDS
from tracecols.store import Store

otf2 = pytest.importorskip("otf2")

from conftest import DATA, SHARED  # noqa: E402
from support.otf2_compare import check_definitions, check_events  # noqa: E402
from support.otf2_library import Library, write_events  # noqa: E402
from support.otf2_workload import everything  # noqa: E402
from support.otf2_writer import EVENT, Archive  # noqa: E402

ANCHORS = {p.parent.name: p for folder in (DATA, SHARED / "otf2") for p in folder.glob("*/traces.otf2")}
RECORDED = [pytest.param(anchor, id=name) for name, anchor in sorted(ANCHORS.items()) if name != "bt-mz_S_4x2"]

# Fields by their name in the library; several records share a column here, which has another name.
OTHER_NAMES = {
    "receiver": "peer", "sender": "peer", "msg_tag": "tag", "msg_length": "length", "request_id": "request",
    "message_id": "message", "collective_op": "op", "size_sent": "sent", "size_received": "received",
    "bytes_sent": "sent", "bytes_received": "received", "number_of_requested_threads": "requested", "lock_id": "lock",
    "acquisition_order": "acquisition", "task_id": "task", "sync_level": "level", "win": "window",
    "sync_type": "sync", "type": "atomic", "matching_id": "matching", "thread_team": "team",
    "thread_contingent": "team", "creating_thread": "creator", "generation_number": "generation",
    "sequence_count": "sequence", "unwind_distance": "unwind", "old_handle": "handle", "offset_request": "offset",
    "offset_result": "position", "io_paradigm": "paradigm", "bytes_request": "requested", "bytes_result": "result",
    "measurement_mode": "mode", "program_name": "program",
}  # fmt: skip


def snake(name: str) -> str:
    """Convert a name of the C interface to snake case."""
    return re.sub(r"(?<=[a-z])[A-Z]+", lambda found: "_" + found[0].lower(), name)


def compare(anchor: Path, store: Path) -> int:
    """Convert an archive and compare everything; returns the number of events."""
    library = Library(anchor)
    try:
        found = Store(tracecols.convert(anchor, store))
        check_definitions(found, library)
        return check_events(found, library)
    finally:
        library.close()


@pytest.mark.slow
@pytest.mark.parametrize("anchor", RECORDED)
def test_recorded_archive__equals_the_library(anchor, tmp_path):
    assert compare(anchor, tmp_path / "x.trace") > 0


def test_records__have_the_fields_of_the_library_in_its_order():
    for name, record in EVENT.items():
        fields = [snake(f[0]) for f in getattr(otf2.events, name)._fields if f[0] not in ("time", "attributes")]
        ours = [f.name for f in record.fields]
        if name == "Metric":
            ours = ["metric", "values"]
        elif name == "ProgramBegin":
            ours = ["program", "program_arguments"]
        elif name in ("RmaPut", "RmaGet"):
            fields[2] = "sent" if name == "RmaPut" else "received"
        assert [OTHER_NAMES.get(f, f) for f in fields] == ours, name


def test_records__are_all_kinds_of_events():
    assert {r.code for r in EVENT.values()} == {k for k in KINDS if k <= 92}
    assert len(EVENT) == 83


@pytest.mark.slow
@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
def test_all_record_types__equal_the_library(big, tmp_path):
    work = everything(tmp_path / "traces.otf2", rounds=200, big=big, event_chunk=1 << 18)
    anchor = work.write()
    sizes = [(tmp_path / "traces" / f"{x.id}.evt").stat().st_size for x in work.archive.locations]
    assert max(sizes) > 1 << 18, "a file should have several chunks"
    assert compare(anchor, tmp_path / "x.trace") == sum(map(len, work.events.values()))


@pytest.mark.slow
def test_all_record_types__written_by_the_library(tmp_path):
    work = everything(tmp_path / "traces.otf2", rounds=200, seed=1)
    plain = work.write()
    by_library = tmp_path / "library"
    write_events(
        by_library, work.for_library(), mappings=work.mappings, clock_offsets=work.clock_offsets, chunk=1 << 18
    )
    for name in ("traces.def", "traces.otf2"):
        shutil.copy(plain.with_name(name), by_library / name)
    # the anchor of the plain archive must state the chunk size of the library's files
    work.archive.event_chunk = 1 << 18
    n_definitions = int.from_bytes((by_library / "traces.otf2").read_bytes()[38:46], "little")
    (by_library / "traces.otf2").write_bytes(work.archive.anchor(n_definitions))
    assert max(p.stat().st_size for p in (by_library / "traces").glob("*.evt")) > 1 << 18
    assert compare(by_library / "traces.otf2", tmp_path / "x.trace") == sum(map(len, work.events.values()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_all_record_types__other_seeds(seed, tmp_path):
    work = everything(tmp_path / "traces.otf2", rounds=6, seed=seed, big=seed % 2 == 0)
    assert compare(work.write(), tmp_path / "x.trace") == sum(map(len, work.events.values()))


@pytest.mark.slow
def test_chunks_too_small_for_the_library__give_the_same_store(tmp_path):
    columns = []
    for chunk in (1 << 20, 3000):
        work = everything(tmp_path / f"{chunk}" / "traces.otf2", rounds=12, event_chunk=chunk)
        store = Store(tracecols.convert(work.write(), tmp_path / f"{chunk}.trace"))
        columns.append(
            {
                (table, location, name): values.tobytes()
                for table in store.tables
                for location in range(len(work.archive.locations))
                for name, values in store.read(table, location).items()
            }
        )
    assert columns[0] == columns[1]
    assert len(columns[0]) > 500


def test_definitions_before_version_1_2__are_translated_as_the_library_does(tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    archive.mpi(2)
    empty = archive.string("")
    for old in range(40):
        archive.define(
            "Region",
            name=archive.string(f"r{old}"),
            description=empty,
            region_type=old,
            source_file=empty,
            begin_line_number=1,
            end_line_number=2,
        )
    # type 3 is a group of metrics, which the library takes for regions
    for old in (0, 1, 4, 5, 6, 7):
        archive.define("Group", name=empty, group_type_pre12=old, members=[] if old == 5 else [1, 0])
    archive.define("Comm", name=archive.string("old"), group=4, parent=None)
    library = Library(archive.write())
    assert len({x["regionRole"] for x in library.definitions["Region"]}) > 15
    check_definitions(Store(tracecols.convert(archive.path, tmp_path / "x.trace")), library)
    library.close()
