"""Markers of OTF2 archives: those written by the format's own library are read into a table."""

import pyarrow.parquet as pq
import pytest

import tracecols
from tracecols.errors import SourceError
from tracecols.export.tables import export
from tracecols.schema import DEFINITIONS

otf2 = pytest.importorskip("otf2")
MANY = 50_000
"""Markers of 100 bytes: more than a chunk of 4 MiB holds."""


def write(folder, markers, kinds=((3, "MUST", "leak", 3), (7, "me", "", 0))):
    """Write an archive of a region with markers: (time, duration, kind, scope, number in the scope, text)."""
    import _otf2

    with otf2.writer.open(str(folder), timer_resolution=1000) as trace:
        node = trace.definitions.system_tree_node("machine")
        group = trace.definitions.location_group("process", system_tree_parent=node)
        region = trace.definitions.region("f")
        for name in ("thread 0", "thread 1"):
            events = trace.event_writer(name, group=group)
            events.enter(1, region)
            events.leave(300_000, region)
        writer = _otf2.Archive_GetMarkerWriter(trace._handle)
        for number, of, category, severity in kinds:
            _otf2.MarkerWriter_WriteDefMarker(writer, number, of, category, severity)
        for marker in markers:
            _otf2.MarkerWriter_WriteMarker(writer, *marker)
        _otf2.Archive_CloseMarkerWriter(trace._handle, writer)
    return folder / "traces.otf2"


def test_markers__are_those_that_the_library_writes(opened, tmp_path):
    path = write(
        tmp_path / "a", [(100, 50, 3, 1, 1, "grows"), (70_000, 0, 7, 0, 0, "größer"), (70_001, 5, 3, 2, 0, "")]
    )
    trace = opened(path)
    found = trace.markers
    assert found[
        ["time", "duration", "group", "category", "severity", "scope", "scope_id", "text"]
    ].to_numpy().tolist() == [
        [100, 50, "MUST", "leak", "high", "location", 1, "grows"],
        [70_000, 0, "me", "", "none", "global", -1, "größer"],
        [70_001, 5, "MUST", "leak", "high", "location_group", 0, ""],
    ]
    assert found.location.tolist() == [1, -1, -1] and found.thread.dropna().tolist() == [1]
    assert found.seconds.tolist() == trace.seconds(found.time).tolist()
    assert found.duration_seconds.tolist() == [0.05, 0, 0.005]
    assert len(trace.scan("markers")) == 3
    people = trace.frame("markers")
    assert people.seconds.equals(found.seconds) and "time" not in people
    assert list(trace.frame("markers", raw=True)) == list(DEFINITIONS["markers"].names)
    export(trace.path, tmp_path / "m.parquet", "markers")
    written = pq.read_table(tmp_path / "m.parquet")
    assert written.column_names == list(people) and written.schema.field("seconds").metadata[b"unit"] == b"s"


@pytest.mark.slow
def test_markers__fill_several_chunks(opened, tmp_path):
    path = write(tmp_path / "a", [(i, 1, 3, 0, 0, f"{i:0100}") for i in range(MANY)])
    found = opened(path).markers
    assert found.time.tolist() == list(range(MANY)) and found.text.tolist() == [f"{i:0100}" for i in range(MANY)]


def test_markers__that_are_damaged_are_an_error(tmp_path):
    path = write(tmp_path / "a", [(100, 50, 9, 0, 0, "of no kind")])
    with pytest.raises(SourceError, match="marker 0 is of kind 9, which is not defined"):
        tracecols.convert(path, tmp_path / "a.trace")
    path = write(tmp_path / "b", [(100, 50, 3, 0, 0, "cut off")])
    notes = path.with_suffix(".marker")
    notes.write_bytes(notes.read_bytes()[:-9])
    with pytest.raises(SourceError, match=r"traces\.marker"):
        tracecols.convert(path, tmp_path / "b.trace")


def test_markers__of_archives_without_are_none(data, opened):
    trace = opened(data / "hybrid_2x3")
    assert len(trace.markers) == 0
