"""Kernels against their oracles: compiled and plain, read-only input, zero and one event, any split into batches, full
buffers."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import orders
from oracles.stacks import Stacks
from support.random_stacks import (
    ENTER,
    EXIT,
    FIRST_ROW,
    FLUSH,
    METRIC,
    N_REGIONS,
    NAMES,
    OFF,
    ON,
    OTHER,
    SEND,
    SWITCH,
    TASKS,
    OneLocation,
    locations,
    read_only,
)

from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.scan import batches, location_scan
from tracecols.enhance.scan.batches import advance_together, keep_results, scan_batch
from tracecols.enhance.scan.location_scan import BufferPool, RunningScan, ScanBuffers, charges_of
from tracecols.enhance.scan.teams import TeamEvents, ThreadEvents
from tracecols.kernels import actions, arrays, cuts, pools, stacks, timeline, trees
from tracecols.kernels import orders as kernel_orders
from tracecols.kernels.kernel import kernel
from tracecols.kernels.orders import first_smaller
from tracecols.schema import EventKind as K
from tracecols.schema.scans import ATTRIBUTED_EVENTS, CALL_INSTANCES
from tracecols.work.large import LargeArrays

CALL = 1
"""The region whose instances are always calls."""

moderate = settings(max_examples=150)


# -- the decorator -----------------------------------------------------------------------------------------------------


def make_array(n):
    return np.empty(n, np.int64)


def test_kernel__works_in_the_arrays_it_is_given():
    """Kernels do not count references to arrays, so a kernel that creates arrays is refused."""
    with pytest.raises(numba.TypingError, match="empty"):
        kernel(make_array)(3)


@kernel
def count_calls(counts):
    counts[0] += 1


@kernel
def call_twice(counts):
    count_calls(counts)
    count_calls(counts)


def test_kernels__are_called_by_kernels_and_found_by_name_in_other_processes():
    counts = np.zeros(1, np.int64)
    call_twice(counts)
    assert counts.tolist() == [2] and pickle.loads(pickle.dumps(call_twice)) is call_twice


def test_kernel__is_made_once_for_all_threads():
    of_its_own = kernel(call_twice.py_func)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: id(of_its_own.dispatcher), range(64)))) == 1


# -- first_smaller -----------------------------------------------------------------------------------------------------


@st.composite
def searches(draw):
    values = draw(st.lists(st.integers(-3, 3), max_size=12))
    items = []
    if values:
        for item in draw(st.lists(st.integers(0, len(values) - 1), max_size=8)):
            start = draw(st.integers(item + 1, len(values)))
            items.append((item, start, draw(st.integers(start, len(values)))))
    return values, items


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@moderate
@given(search=searches())
def test_first_smaller__is_the_first_by_definition(compiled, search):
    values, items = search
    item, start, stop = (read_only([i[k] for i in items], np.int64) for k in range(3))
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(kernel_orders, "search_smaller", kernel_orders.search_smaller.py_func)
        got = first_smaller(read_only(values, np.int64), item, start, stop)
    assert got.dtype == np.int64
    assert got.tolist() == [orders.first_smaller(values, *i) for i in items]


def test_first_smaller__is_compiled_once_for_arrays_of_files_and_of_memory():
    values = [3, 1, 2]
    for array in (read_only, np.array):
        one, two, three = (array([i], np.int64) for i in (0, 1, 3))
        assert first_smaller(array(values, np.int64), one, two, three).tolist() == [1]
        assert np.all([a.flags.writeable == (array is np.array) for a in (one, two, three)])
    assert len(kernel_orders.search_smaller.kinds) == 1


@pytest.mark.slow
@moderate
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=12))
def test_first_smaller__finds_who_is_overtaken(messages):
    # (sent, receiver) in order of receiving; ranges end where the receiver changes
    messages = sorted(messages, key=lambda m: m[1])
    sent, receiver = [m[0] for m in messages], [m[1] for m in messages]
    stop = [receiver.index(r) + receiver.count(r) for r in receiver]
    item = np.arange(len(sent))
    found = first_smaller(np.array(sent, np.int64), item, item + 1, np.array(stop, np.int64))
    position = list(range(len(sent)))
    assert [j >= 0 for j in found] == [orders.overtaken(sent, receiver, position, m, None) for m in position]


# -- scan_events -------------------------------------------------------------------------------------------------------


def buffers(tiny):
    """Return the buffers that a scan begins with, or the smallest ones that can grow."""
    if not tiny:
        return ScanBuffers()
    return ScanBuffers(
        pools.linked(stacks.Frames, 1),
        arrays.zeros(stacks.CallPaths, 4),
        np.zeros(8, np.int32),
        arrays.zeros(stacks.CallInstances, 1),
        arrays.zeros(stacks.AttributedEvents, 1),
        np.full(2, -1, np.int64),
    )


def new_scan(store):
    regions = SimpleNamespace(
        flags=store.array([0, stacks.IS_CALL, 0, stacks.IS_ARTIFICIAL], np.uint8),
        of_entry=store.array(range(4), np.int32),
        tasks=TASKS,
        threads=-1,
        is_init=np.zeros(4, bool),
        is_finalize=np.zeros(4, bool),
        is_file=np.zeros(4, bool),
    )
    nobody = np.zeros(0, np.int64)
    teams = SimpleNamespace(
        begins_of=lambda _: slice(0, 0),
        masters_of=lambda _: (nobody, nobody),
        fork_rows_of=lambda _: nobody,
        forker=[-1],
        events=TeamEvents(ThreadEvents(nobody, np.zeros(0, np.uint8), np.zeros(0, np.int32)), np.zeros(1, np.int64)),
    )
    return RunningScan(SimpleNamespace(store=store, regions=regions, order=None), teams, 0)


def scanned(store, tiny=False):
    """Scan the location to its end."""
    one, pool = new_scan(store), BufferPool(LargeArrays())
    pool.give(buffers(tiny))
    advance_together([one], [], pool, Spill())
    assert one.result.done
    return one.result


def local_paths(one):
    paths = []
    for parent, region in zip(one.paths.column("parent").tolist(), one.paths.column("entry").tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), NAMES[region]))
    return paths


def run_with_pointers(store, tiny=False):
    """Scan everything in one batch, with pointer columns, and finish."""
    n, one = store.n_rows("events", 0), new_scan(store)
    pointers = arrays.empty(stacks.Pointers, n)
    used = buffers(tiny)
    assert scan_batch([one], store.columns, np.array([n]), used, True, pointers) == 1
    keep_results(used, Spill())
    return one.result, pointers


def compare_with_oracle(store, one, pointers):
    expected = Stacks(store.events)
    # regions that are open at the end last until the last event
    enterptr, exitptr, call_path = pointers
    target = {e.row: t.row for e, t in expected.enterptr.items()}
    assert enterptr.tolist() == [target.get(e.row, -1) for e in store.events]
    target = {e.row: t.row for e, t in expected.exitptr.items()}
    assert exitptr.tolist() == [target.get(e.row, -1) for e in store.events]
    paths = local_paths(one)
    assert len(set(paths)) == len(paths)
    assert [paths[c] if c >= 0 else None for c in call_path] == [expected.path.get(e) for e in store.events]
    for name in ("exclusive", "visits"):
        got = dict(zip(((p, 0) for p in paths), one.paths.column(name).tolist(), strict=True))
        assert {k: v for k, v in got.items() if v} == {k: v for k, v in getattr(expected, name).items() if v}
    for node, (row, time) in enumerate(
        zip(one.paths.column("row").tolist(), one.paths.column("time").tolist(), strict=True)
    ):
        if paths[node] in expected.first:
            assert row <= expected.first[paths[node]].row
            assert time == store.events[row - FIRST_ROW].time
    compare_calls(store, one, expected)


def compare_calls(store, one, expected):
    # a call is an instance of a region of calls, or one that contains a communication event
    own = [e for e in store.events if e.kind == "enter" and e.region == NAMES[CALL]]
    around = {
        expected.enterptr[e]
        for e, k in zip(store.events, store.columns["kind"], strict=True)
        if k == K.MPI_SEND and e in expected.enterptr
    }
    wanted = {e.row: e for e in {*own, *around}}
    c = Columns(len(one.calls), {name: one.calls.column(name) for name in one.calls.names})
    events = {name: one.events.column(name).tolist() for name in one.events.names}
    assert sorted(c.enter.tolist()) == sorted(wanted)
    paths = local_paths(one)
    for i, row in enumerate(c.enter.tolist()):
        e = wanted[row]
        leave = expected.exitptr.get(e)
        assert c.enter_time[i] == e.time
        assert paths[c.node[i]] == expected.path[e]
        assert c.exit[i] == (leave.row if leave else -1)
        if leave:
            assert c.exit_time[i] == leave.time
    # attributed events are those with side-table rows needed by joins, with their enclosing calls
    noted = [
        e
        for e, k in zip(store.events, store.columns["kind"], strict=True)
        if k in (K.MPI_SEND, K.METRIC, K.THREAD_TASK_SWITCH, K.THREAD_TASK_COMPLETE)
    ]
    assert events["time"] == [e.time for e in noted]
    for e, k, call in zip(noted, events["kind"], events["call"], strict=True):
        if k == K.MPI_SEND:
            assert (c.enter[call] if call >= 0 else -1) == (expected.enterptr[e].row if e in expected.enterptr else -1)


@pytest.mark.slow
@pytest.mark.parametrize("tiny", [False, True], ids=["roomy", "tiny"])
@moderate
@given(script=locations())
def test_scan__is_what_the_definitions_say(tiny, script):
    store = OneLocation(script, read_only)
    compare_with_oracle(store, *run_with_pointers(store, tiny))


@pytest.mark.parametrize("tiny", [False, True])
@given(script=locations())
def test_charges__are_the_exclusive_time_of_each_call_path_and_that_of_tasks_once(tiny, script):
    store = OneLocation(script, read_only)
    n, one, used = store.n_rows("events", 0), new_scan(store), buffers(tiny)
    charges = charges_of(n + int((store.columns["kind"] == K.BUFFER_FLUSH).sum()) + 1)
    assert scan_batch([one], store.columns, np.array([n]), used, True, charges=charges) == 1
    keep_results(used, Spill())
    one = one.result
    begin, end, node = (column[: charges.n[0]] for column in charges[:3])
    # intervals follow each other, whatever they are charged to
    assert (end > begin).all() and (begin[1:] >= end[:-1]).all()
    found = np.bincount(node[node >= 0], (end - begin)[node >= 0], one.paths.column("exclusive").size)
    is_in_tasks = np.array([NAMES[TASKS] in path for path in local_paths(one)], bool)
    assert found[is_in_tasks].tolist() == one.paths.column("exclusive")[is_in_tasks].tolist()
    assert (found <= one.paths.column("exclusive")).all()
    if not np.isin(store.columns["kind"], (K.BUFFER_FLUSH, K.THREAD_TASK_COMPLETE)).any():
        # a flush between the regions of a task counts for itself, and for the task where it was scheduled; a task that
        # is complete, but continues in a region it never left, does not count there
        assert found.sum() == one.paths.column("exclusive")[~is_in_tasks].sum()


def test_scan__of_no_event_finds_nothing():
    one = scanned(OneLocation([]))
    assert one.paths.column("parent").size == len(one.calls) == len(one.events) == one.open == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", [ENTER, EXIT, SEND, METRIC, OFF, ON, FLUSH, SWITCH, OTHER])
def test_scan__of_one_event_is_what_the_definitions_say(what):
    store = OneLocation([(what, 0, 1)], read_only)
    one, pointers = run_with_pointers(store)
    compare_with_oracle(store, one, pointers)
    assert one.open == (what in (ENTER, OFF))
    assert one.bad_exits == (what in (EXIT, ON))


@pytest.mark.parametrize(
    ("group", "table"), [(stacks.CallInstances, CALL_INSTANCES), (stacks.AttributedEvents, ATTRIBUTED_EVENTS)]
)
def test_scan__fills_the_declared_columns(group, table):
    assert group._fields == tuple(table.names)
    assert [t.name for t in arrays.types_of(group)] == [c.dtype for c in table.columns]


def test_actions__each_kind_does_one_thing_to_all_walks():
    kinds = [kind for action in range(1, actions.ATTRIBUTE_CALL + 1) for kind in actions.kinds_that(action)]
    assert len(set(kinds)) == len(kinds)
    for table in (location_scan.ACTION, cuts.ACTION, timeline.ACTION):
        for kind in K:
            assert table[kind] in (actions.NOTHING, *(a for a in range(15) if a and kind in actions.kinds_that(a)))


@pytest.fixture
def plain(monkeypatch):
    """Run the kernels as plain Python; the hash overflows on purpose, which NumPy's scalars report."""
    for name, compiled in list(vars(stacks).items()):
        if hasattr(compiled, "py_func"):
            monkeypatch.setattr(stacks, name, compiled.py_func)
    with np.errstate(over="ignore"):
        yield


@pytest.mark.slow
def test_scan__as_plain_python_is_what_the_definitions_say(plain):
    @settings(max_examples=60)
    @given(script=locations(), tiny=st.booleans())
    def check(script, tiny):
        store = OneLocation(script, read_only)
        compare_with_oracle(store, *run_with_pointers(store, tiny))

    check()


def everything(one):
    arrays = [one.paths.column(name) for name in ("parent", "entry", "row", "time", "exclusive", "visits")]
    arrays += [c.column(name) for c in (one.calls, one.events) for name in c.names]
    return [a.tolist() for a in arrays], one.bad_exits, one.open, one.last_time


@pytest.mark.slow
def test_scan__is_the_same_for_every_split_into_batches(monkeypatch):
    @moderate
    @given(script=locations(), batch=st.integers(1, 6))
    def check(script, batch):
        store = OneLocation(script, read_only)
        with monkeypatch.context() as patch:
            whole = scanned(store)
            patch.setattr(batches, "BATCH", batch)
            pieces = scanned(store, True)
        assert everything(whole) == everything(pieces)

    check()


def test_scan__counts_exits_that_do_not_match():
    # r0 is left as r2, and there is an EXIT without ENTER
    store = OneLocation([(ENTER, 0, 0), (EXIT, 1, 2), (EXIT, 1, 0), (ENTER, 1, 1)])
    one, used = new_scan(store), ScanBuffers()
    assert scan_batch([one], store.columns, np.array([4]), used, True) == 1
    keep_results(used, Spill())
    assert (one.result.bad_exits, one.result.open) == (2, 1)
    assert one.state[stacks.FIRST_BAD_EXIT] == FIRST_ROW + 1


def test_scan__open_calls_end_with_the_last_event():
    one = scanned(OneLocation([(ENTER, 0, CALL), (ENTER, 2, 0), (OTHER, 5, 0)]))
    assert one.calls.column("exit_time").tolist() == [57]  # 50 + 2 + 5
    assert one.calls.column("exit").tolist() == [-1]
    assert one.paths.column("exclusive").tolist() == [2, 5]


@pytest.mark.slow
def test_scan__thousands_of_call_paths_are_told_apart():
    # every pair of parent and region is a separate call path, however full the hash table is
    rng = np.random.default_rng(1)
    script, depth = [], 0
    for _ in range(20000):
        down = depth == 0 or (depth < 9 and rng.random() < 0.5)
        depth += 1 if down else -1
        script.append((ENTER if down else EXIT, 1, int(rng.integers(N_REGIONS))))
    store = OneLocation(script, read_only)
    one = scanned(store, True)
    expected = Stacks(store.events)
    paths = local_paths(one)
    assert len(paths) > 1000
    assert dict(zip(paths, one.paths.column("visits").tolist(), strict=True)) == {
        p: v for (p, _), v in expected.visits.items()
    }


# -- trees -------------------------------------------------------------------------------------------------------------


@st.composite
def forests(draw):
    """Draw call paths of some locations: the parent of each (of any location, without cycles), entry and first
    time."""
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    start = np.cumsum([0, *counts])
    # in an order with parents first that keeps the order within each location
    waiting = [list(range(a, b)) for a, b in pairwise(start.tolist())]
    above, known = [-1] * int(start[-1]), []
    while any(waiting):
        i = draw(st.sampled_from([w for w in waiting if w])).pop(0)
        above[i] = draw(st.sampled_from([-1, *known]))
        known.append(i)
    n = len(above)
    few = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    return start, above, draw(few), draw(few), draw(few)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@given(forest=forests())
@moderate
def test_trees__are_what_the_definitions_say(compiled, forest):
    """Equal paths are merged, represented by the least recent one; depth first, siblings in the order of these."""

    def run(kernel, *arguments):
        return (kernel if compiled else kernel.py_func)(*arguments)

    start, above, entry, time, place = forest
    n = len(above)
    number, parent, merged_entry, chosen = (np.full(n, -1, np.int64) for _ in range(4))
    columns = [np.array(c, np.int64) for c in (above, entry, time, place, range(n))]
    table = np.zeros(1 << (2 * n).bit_length(), np.int64)
    with np.errstate(over="ignore"):
        m = run(trees.merge_call_paths, start, start[:-1].copy(), *columns, number, parent, merged_entry, chosen, table)

    def path(i):
        return (*(path(above[i]) if above[i] >= 0 else ()), entry[i])

    paths = [path(i) for i in range(n)]
    assert m == len(set(paths))
    assert [path(chosen[k]) for k in number] == paths
    for k in range(m):
        same = [i for i in range(n) if number[i] == k]
        assert chosen[k] == min(same, key=lambda i: (time[i], place[i], i))
        assert -1 <= parent[k] < k
    when = {k: (time[chosen[k]], place[chosen[k]], chosen[k]) for k in range(m)}
    order = np.array(sorted(range(m), key=lambda k: (parent[k], when[k])), np.int64)
    size, position, following = np.ones(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    depth = np.empty(m, np.int32)
    run(trees.number_depth_first, parent[:m], order, size, position, following, depth)

    found = []

    def visit(node, level):
        found.append(node)
        assert depth[node] == level
        for child in sorted((k for k in range(m) if parent[k] == node), key=when.get):
            visit(child, level + 1)
        assert size[node] == len(found) - found.index(node)

    for root in sorted((k for k in range(m) if parent[k] < 0), key=when.get):
        visit(root, 0)
    assert [found.index(k) for k in range(m)] == position.tolist()
