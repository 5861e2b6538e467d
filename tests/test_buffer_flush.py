"""A buffer flush is one record with its own start and end, written in front of the event that filled the buffer."""

from __future__ import annotations

import pytest
from otf2_writer import Archive

import tracecols
from tracecols.errors import SourceError


def program(tmp_path, *, pending: int):
    """One thread: main 0..100, in it foo from `pending` to 90; the buffer is flushed from 40 to 60 in front of foo's ENTER."""
    archive = Archive(tmp_path / "traces.otf2")
    process = archive.process("p")
    with archive.location("thread", process) as thread:
        thread.enter(0, "main")
        thread.record(40, "BufferFlush", stop_time=60)
        thread.enter(pending, "foo").leave(90, "foo").leave(100, "main")
    return archive.write()


def ticks(cube, name):
    """Severity in ticks of every call path by its last name."""
    cells = cube.cells[name]
    return {cube.call_paths.name[c]: int(v) for c, v in zip(cells.call_path, cells.value, strict=True)}


@pytest.mark.parametrize("pending", [60, 39])
def test_flush__is_overhead_also_when_the_next_event_took_its_time_before(tmp_path, pending):
    trace = tracecols.open(tracecols.convert(program(tmp_path, pending=pending), tmp_path / "x.trace"))
    assert trace.events.time.tolist() == [0, 40, pending, 90, 100]
    cube = trace.analyze()
    # main 0..40 and 90..100, the flush 40..60, foo 60..90: what was recorded late was not executed during the flush
    assert ticks(cube, "time") == {"main": 50, "TRACE BUFFER FLUSH": 20, "foo": 30}
    assert ticks(cube, "overhead") == {"TRACE BUFFER FLUSH": 20}
    assert ticks(cube, "visits") == {"main": 1, "TRACE BUFFER FLUSH": 1, "foo": 1}


def test_flush__does_not_excuse_times_before_the_event_in_front_of_it(tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(10, "main").record(40, "BufferFlush", stop_time=60).leave(9, "main")
    with pytest.raises(SourceError, match="time decreases"):
        tracecols.convert(archive.write(), tmp_path / "x.trace")
