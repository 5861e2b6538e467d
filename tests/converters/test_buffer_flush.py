"""A buffer flush is one record with its own start and end, written in front of the event that filled the buffer."""

import pytest
from support.flushed import program
from support.otf2_writer import Archive

from tracecols.schema import EventKind as K


def ticks(cube, name):
    """Return the severity of every call path in ticks, by the name of its last region."""
    cells = cube.cells[name]
    return {cube.call_paths.name[c]: int(v) for c, v in zip(cells.call_path, cells.value, strict=True)}


@pytest.mark.parametrize("pending", [60, 39])
def test_flush__is_overhead_also_when_the_next_event_took_its_time_before(opened, tmp_path, pending):
    trace = opened(program(tmp_path, pending=pending))
    assert trace.events.time.tolist() == [0, 40, pending, 90, 100]
    cube = trace.analyze()
    # main 0..40 and 90..100, the flush 40..60, foo 60..90: foo was recorded late, but not executed during the flush
    assert ticks(cube, "time") == {"main": 50, "TRACE BUFFER FLUSH": 20, "foo": 30}
    assert ticks(cube, "overhead") == {"TRACE BUFFER FLUSH": 20}
    assert ticks(cube, "visits") == {"main": 1, "TRACE BUFFER FLUSH": 1, "foo": 1}


ENTER, EXIT, FLUSH, METRIC = (int(k) for k in (K.ENTER, K.EXIT, K.BUFFER_FLUSH, K.METRIC))


def paths(cube, name):
    """Return the severity of every call path in ticks, by its full path."""
    cells = cube.cells[name]
    return {cube.call_paths.path[c]: int(v) for c, v in zip(cells.call_path, cells.value, strict=True)}


def kinds_of(trace):
    return trace.events.kind.tolist()


def test_flush__with_the_time_of_the_enter_that_follows_lies_inside_it(opened, tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main").record(40, "BufferFlush", stop_time=60).call(40, 70, "tiny").leave(100, "main")
    trace = opened(archive)
    assert kinds_of(trace) == [ENTER, ENTER, FLUSH, EXIT, EXIT]
    assert trace.table("control").row.tolist() == [2]
    # tiny 40..70, of which the flush takes 40..60
    flush = "main/tiny/TRACE BUFFER FLUSH"
    cube = trace.analyze()
    assert paths(cube, "time") == {"main": 70, "main/tiny": 10, flush: 20}
    assert paths(cube, "overhead") == {flush: 20}
    assert paths(cube, "visits") == {"main": 1, "main/tiny": 1, flush: 1}


def test_flush__with_the_time_of_the_leave_that_follows_is_after_it(opened, tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main").enter(10, "tiny").record(40, "BufferFlush", stop_time=60).leave(40, "tiny")
        thread.leave(100, "main")
    trace = opened(archive)
    assert kinds_of(trace) == [ENTER, ENTER, EXIT, FLUSH, EXIT]
    # main 0..10 and 60..100
    assert paths(trace.analyze(), "time") == {"main": 50, "main/tiny": 30, "main/TRACE BUFFER FLUSH": 20}


@pytest.mark.parametrize("metric_first", [False, True])
def test_flush__follows_the_enter_with_the_counters_of_that(opened, tmp_path, metric_first):
    """METRICs of the same time belong to the ENTER; the buffer may have filled up before or after them."""
    archive = Archive(tmp_path / "traces.otf2")
    counters = archive.metric_class(("instructions", "uint64"))
    color = archive.attribute("color", "uint32")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main")
        for what in ("metric", "flush") if metric_first else ("flush", "metric"):
            if what == "flush":
                thread.record(40, "BufferFlush", stop_time=60, attributes=[(color, "uint32", 1)])
            else:
                thread.record(40, "Metric", source=counters, values=[(4, 7)], attributes=[(color, "uint32", 2)])
        thread.record(40, "Enter", region=archive.region("tiny"), attributes=[(color, "uint32", 3)])
        thread.leave(70, "tiny").leave(100, "main")
    trace = opened(archive)
    assert kinds_of(trace) == [ENTER, METRIC, ENTER, FLUSH, EXIT, EXIT]
    assert trace.table("metrics_0")[["row", "value_0"]].to_numpy().tolist() == [[1, 7]]
    assert trace.table("control")[["row", "stop_time"]].to_numpy().tolist() == [[3, 60]]
    assert trace.table("attributes")[["row", "value"]].to_numpy().tolist() == [[1, 2], [2, 3], [3, 1]]


@pytest.mark.parametrize("between", ["nothing", "parameter", "time"])
def test_flush__stays_in_front_of_all_others(opened, tmp_path, between):
    """Only an event directly after the flush, with the same time, took its time before the flush."""
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main").record(40, "BufferFlush", stop_time=60)
        if between == "parameter":
            thread.record(
                40,
                "ParameterInt",
                parameter=archive.define("Parameter", name=archive.string("n"), parameter_type=1),
                value=5,
            )
        thread.call(40 if between != "time" else 41, 70, "tiny").leave(100, "main")
    trace = opened(archive)
    assert kinds_of(trace).index(FLUSH) == (2 if between == "nothing" else 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "chunk"), [*((rows, 1 << 20) for rows in range(4, 10)), (1 << 20, 64), (1 << 20, 100), (5, 64), (6, 100)]
)
def test_flush__follows_the_enter_wherever_chunks_and_batches_end(opened, tmp_path, monkeypatch, rows, chunk):
    archive = Archive(tmp_path / "traces.otf2", event_chunk=chunk)
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main")
        for t in range(100, 1100, 100):
            thread.call(t, t + 5, "work").record(t + 20, "BufferFlush", stop_time=t + 60).call(t + 20, t + 70, "tiny")
        thread.leave(2000, "main")
    monkeypatch.setattr("tracecols.converters.otf2.archive.ROWS", rows)
    trace = opened(archive)
    assert kinds_of(trace) == [ENTER, *[ENTER, EXIT, ENTER, FLUSH, EXIT] * 10, EXIT]
    assert trace.table("control").row.tolist() == [4 + 5 * i for i in range(10)]
    assert paths(trace.analyze(), "time")["main/tiny/TRACE BUFFER FLUSH"] == 400
