"""The kernels of timelines against their oracles: compiled and plain, any split into batches, full buffers, windows."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import timeline as oracle
from support.random_stacks import FIRST_ROW, NAMES, TASKS, OneLocation, locations, read_only

from tracecols.export import drawing as export
from tracecols.kernels import pools, protobuf
from tracecols.kernels import timeline as kernels

moderate = settings(max_examples=100)


@contextmanager
def plainly(plain):
    """Run the kernels as plain Python if `plain`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, compiled in list(vars(kernels).items()) if plain else ():
            if hasattr(compiled, "py_func"):
                patch.setattr(kernels, name, compiled.py_func)
        yield


def draw(store, *, window=None, sizes=(), tiny=False, marked=()):
    """Draw a location; return slices as the oracle does, and instants as (time, depth, mark)."""
    first, stop = window or (export.EVER.min, export.EVER.max)
    builder = export.SliceBuilder(store, 0, first, stop, TASKS)
    if tiny:
        builder._frames, builder._capacity = pools.linked(kernels.Frames, 1), 1
    n = store.columns["time"].size
    bounds = sorted({0, n, *(s % (n + 1) for s in sizes)})
    marked = np.array(sorted(marked), np.int64)
    stack, slices, instants = [], [], []
    for start, end in pairwise(bounds):
        columns = {c: v[start:end] for c, v in store.columns.items()}
        low, high = np.searchsorted(marked, [start, end])
        for time, what, name, mark in builder.draw(columns, marked[low:high] - start, end == n):
            for t, w, k, m in zip(time.tolist(), what.tolist(), name.tolist(), mark.tolist(), strict=True):
                if w == kernels.BEGIN:
                    stack.append((t, k))
                elif w == kernels.END:
                    begin, number = stack.pop()
                    slices.append((begin, t, len(stack), NAMES[number]))
                else:
                    assert w == kernels.INSTANT
                    instants.append((t, len(stack), int(low) + m))
    assert not stack
    return slices, instants


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
@moderate
@given(script=locations(), sizes=st.lists(st.integers(0, 50), max_size=3), tiny=st.booleans())
def test_draw_events__draws_what_is_open(plain, script, sizes, tiny):
    store = OneLocation(script, read_only)
    with plainly(plain):
        slices, _ = draw(store, sizes=sizes, tiny=tiny)
    assert slices == oracle.slices(store.events)


@pytest.mark.slow
@moderate
@given(script=locations(), ends=st.tuples(st.integers(40, 140), st.integers(1, 60)), tiny=st.booleans())
def test_draw_events__a_window_cuts_slices(script, ends, tiny):
    store = OneLocation(script)
    window = ends[0], sum(ends)
    slices, _ = draw(store, window=window, tiny=tiny)
    assert all(window[0] <= s[0] <= s[1] <= window[1] for s in slices)
    assert [s for s in slices if s[0] < s[1]] == oracle.within(oracle.slices(store.events), *window)


@pytest.mark.slow
@moderate
@given(script=locations(), marked=st.lists(st.integers(0, 39), max_size=6), tiny=st.booleans())
def test_draw_events__instants_stand_where_their_events_do(script, marked, tiny):
    store = OneLocation(script)
    marked = sorted(m for m in marked if m < len(store.events))
    slices, instants = draw(store, tiny=tiny, marked=marked)
    assert slices == oracle.slices(store.events)
    assert [m for _, _, m in instants] == list(range(len(marked)))
    times = [t for t, _, _ in instants]
    assert times == sorted(times)
    for (t, _, m), row in zip(instants, marked, strict=True):
        assert t >= store.events[row].time
        assert store.events[row].row == FIRST_ROW + row
        assert m >= 0


def test_draw_events__times_that_run_backwards_are_held():
    store = OneLocation([])
    store.columns = {
        "time": np.array([10, 20, 15, 30], np.int64),
        "kind": np.array([12, 12, 13, 13], np.uint8),
        "region": np.array([0, 1, 1, 0], np.int32),
    }
    assert draw(store)[0] == [(20, 20, 1, "r1"), (10, 30, 0, "r0")]


# -- intervals ---------------------------------------------------------------------------------------------------------


@moderate
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=30))
def test_intervals__nest_in_their_lanes_and_none_is_lost(pairs):
    pairs = sorted(((b, b + n) for b, n in pairs), key=lambda p: (p[0], -p[1]))
    begin, end = (np.array([p[k] for p in pairs], np.int64) for k in range(2))
    lane = export.divide_intervals(begin, end)
    drawn = []
    for i in range(int(lane.max(initial=-1)) + 1):
        mine = lane == i
        n = int(mine.sum())
        assert n
        time, what = np.empty(2 * n, np.int64), np.empty(2 * n, np.uint8)
        kernels.draw_intervals(begin[mine], end[mine], np.empty(n, np.int64), time, what)
        assert (np.diff(time) >= 0).all()
        stack = []
        for t, w in zip(time.tolist(), what.tolist(), strict=True):
            if w == kernels.BEGIN:
                stack.append(t)
            else:
                drawn.append((stack.pop(), t))
        assert not stack
    assert sorted(drawn) == sorted(pairs)


def test_intervals__more_lanes_and_depth_than_there_is_room_for_at_first():
    n = 100
    crossing = np.arange(n), np.arange(n) + n
    assert export.divide_intervals(*crossing).tolist() == list(range(n))
    nested = np.arange(n), 3 * n - np.arange(n)
    assert not export.divide_intervals(*nested).any()


# -- nanoseconds -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [1, 1000, 10**6, 10**9, 10**12, 2_596_145_201, 24_000_000, 2**33, 3 * 10**9 + 1])
@moderate
@given(ticks=st.lists(st.integers(0, 10**12), min_size=1), origin=st.integers(-(10**6), 10**6))
def test_nanoseconds__are_rounded_down(resolution, ticks, origin):
    ns = export.Nanoseconds({"resolution": resolution, "origin": origin}, origin, origin + 10**12 // 1000)
    limit = (2**63 - 1) * resolution // 10**9 - 2 * resolution
    ticks = [min(t, limit) for t in ticks]
    assert ns(np.array(ticks) + origin).tolist() == [t * 10**9 // resolution for t in ticks]


@pytest.mark.slow
@pytest.mark.parametrize("resolution", [2**33 + 1, 10**10 + 7, 123_456_789_012_347])
@moderate
@given(ticks=st.lists(st.integers(0, 2**62), min_size=1))
def test_nanoseconds__of_odd_fast_clocks_keep_order_and_are_less_than_two_nanoseconds_off(resolution, ticks):
    ns = export.Nanoseconds({"resolution": resolution, "origin": 0}, 0, 1)
    ticks = sorted(ticks)
    found = ns(np.array(ticks)).tolist()
    assert found == sorted(found)
    assert all(abs(n - t * 10**9 / resolution) <= 2 + n * 1e-15 for n, t in zip(found, ticks, strict=True))


def test_nanoseconds__count_from_the_first_event_if_that_is_before_the_start():
    ns = export.Nanoseconds({"resolution": 10**9, "origin": 100}, 40, 200)
    assert ns(np.array([40, 100, 200])).tolist() == [0, 60, 160]


def test_nanoseconds__refuse_more_than_they_can_count():
    with pytest.raises(export.ExportError, match="292 years"):
        export.Nanoseconds({"resolution": 1, "origin": 0}, 0, 10**10)


# -- packets -----------------------------------------------------------------------------------------------------------

EDGES = [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**32, 2**56, 2**63 - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**63 - 1))
signed = st.one_of(numbers, numbers.map(lambda n: -n), st.just(protobuf.NULL))


@st.composite
def marks(draw_):
    n = draw_(st.integers(0, 5))
    values = [[draw_(signed) for _ in range(3)] for _ in range(n)]
    # texts are numbered from 0
    texts = [draw_(st.one_of(st.just(protobuf.NULL), st.integers(0, 2**31))) for _ in range(n)]
    return [(*v, t) for v, t in zip(values, texts, strict=True)], [draw_(st.integers(0, 3)) for _ in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
@settings(max_examples=50)
@given(times=st.lists(numbers, max_size=8), of=marks(), track=st.integers(1, 2**63 - 1), data=st.data())
def test_encode_events__is_read_by_the_formats_own_classes(plain, times, of, track, data):
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    values, step = of
    n, m = len(times), len(values)
    mark = [data.draw(st.integers(-1, m - 1)) for _ in range(n)]
    what = [kernels.INSTANT if k >= 0 else data.draw(st.sampled_from([kernels.BEGIN, kernels.END])) for k in mark]
    name = [data.draw(st.integers(0, 2)) if w == kernels.BEGIN else -1 for w in what]
    flow = [data.draw(st.integers(1, 2**63 - 1)) for _ in range(m)]
    mark_name = [data.draw(st.integers(0, 2)) for _ in range(m)]
    category = read_only([1, 200, 70000], np.int32)
    out = np.full(400, 255, np.uint8)
    encode = protobuf.encode_events.py_func if plain else protobuf.encode_events
    drawn = kernels.Drawn(
        read_only(times, np.int64), read_only(what, np.uint8), read_only(name, np.int32), read_only(mark, np.int64)
    )
    instants = protobuf.Instants(
        read_only(mark_name, np.int32),
        read_only(flow, np.int64),
        read_only(step, np.uint8),
        read_only(np.array(values, np.int64).reshape(m, 4), np.int64),
        read_only([False, False, False, True], bool),
    )
    at, written = 0, b""
    with np.errstate(over="ignore"):
        while at < n:
            before = at
            at, size = encode(drawn, instants, at, track, category, out)
            assert at > before
            assert size <= out.size
            written += out[:size].tobytes()
    trace = trace_pb2.Trace.FromString(written)
    assert len(trace.packet) == n
    for i, p in enumerate(trace.packet):
        e = p.track_event
        assert (p.timestamp, p.trusted_packet_sequence_id, p.sequence_flags) == (times[i], 1, 2)
        assert (e.type, e.track_uuid) == (what[i], track)
        k = mark[i]
        known = mark_name[k] if k >= 0 else name[i]
        assert (e.name_iid, list(e.category_iids)) == ((known + 1, [category[known]]) if known >= 0 else (0, []))
        if k >= 0:
            ends = step[k] == protobuf.ENDS
            assert list(e.flow_ids) == ([flow[k]] if step[k] and not ends else [])
            assert list(e.terminating_flow_ids) == ([flow[k]] if ends else [])
            found = [(a.name_iid, getattr(a, a.WhichOneof("value"))) for a in e.debug_annotations]
            expected = [(v + 1, values[k][v] + (v == 3)) for v in range(4) if values[k][v] != protobuf.NULL]
            assert found == expected
        assert p.ByteSize() <= protobuf.ROOM + 4 * protobuf.ROOM_FOR_VALUE


@pytest.mark.parametrize("values", [np.array([0, -1, 2**62, -(2**63)]), np.array([0.0, -1.5, 1e300, 5e-324])])
def test_encode_samples__is_read_by_the_formats_own_classes(values):
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    out = np.empty(protobuf.ROOM * values.size, np.uint8)
    times = np.array([0, 1, 2**40, 2**62])
    is_double = values.dtype.kind == "f"
    n = protobuf.encode_samples(times, values.view(np.int64), is_double, 7, out)
    packets = trace_pb2.Trace.FromString(out[:n].tobytes()).packet
    assert [p.timestamp for p in packets] == times.tolist()
    field = "double_counter_value" if is_double else "counter_value"
    assert [getattr(p.track_event, field) for p in packets] == values.tolist()
    assert {(p.track_event.type, p.track_event.track_uuid) for p in packets} == {(4, 7)}
