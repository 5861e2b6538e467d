"""Traces of the PyTorch profiler: conversion of events, joining of ranks, and refused files."""

import gzip
import json
from fractions import Fraction

import numpy as np
import pytest
from conftest import slow
from support.command_line import executed, run
from support.kineto_writer import ALL_REDUCE, AUTOGRAD, HOST, Trace, nccl, random_run, two_ranks, write_run

import tracecols
from tracecols.converters import intervals, registry
from tracecols.converters.kineto import archive, files, nest, recording, scan
from tracecols.converters.nccl import find_operation, fits_kernel, operation_of_kernel
from tracecols.errors import SourceError
from tracecols.schema import NAMES

BASE = 1735632360000000000


def events_of(source, location):
    """Return time, kind, region and attributes of the events of a location."""
    regions = source.definitions["regions"]["name"]
    found, base = [], 0
    for batch in source.read(location, archive.Report()):
        given = [{} for _ in batch.events["time"]]
        for family, table in batch.sides.items():
            for k, row in enumerate((table["row"] - base).tolist()):
                if family == "attributes":
                    given[row][source.definitions["attribute_definitions"]["name"][table["attribute"][k]]] = int(
                        table["value"][k]
                    )
                elif table["op"][k] >= 0:
                    given[row].update({c: int(table[c][k]) for c in ("op", "root", "sent", "received")})
        columns = (batch.events[c].tolist() for c in ("time", "kind", "region"))
        for (time, kind, region), values in zip(zip(*columns, strict=True), given, strict=True):
            found.append((time, NAMES[kind], regions[region] if region >= 0 else "", values))
        base += len(given)
    return found


def source_of(tmp_path, trace, name="x.json", **more):
    return registry.open_source(trace.write(tmp_path / name, **more))


def names_of(source):
    return source.definitions["locations"]["name"]


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1712195495519689.123", 1712195495519689123), ("4203669604595.407", 4203669604595407), ("5", 5000), ("0.5", 500),
        ("0.001", 1), ("-3.25", -3250), ("68.0", 68000), ("1e3", 1000000), ("1.5E+2", 150000), ("25e-4", 3), ("0.0004", 0),
        ("0.00049999999999999999999999", 0), ("0.0005", 1), ("00012.5", 12500), ("1712195495519689.1230000000000", 1712195495519689123),
    ],
)  # fmt: skip
def test_times__are_exact(text, expected):
    data = np.frombuffer(text.encode() + b" ", np.uint8)
    value, what, end = scan.read_decimal(data, len(text), 0, 3)
    assert (value, what, end) == (expected, 1, len(text))


def test_times__are_exact_for_random_decimals():
    chance = np.random.default_rng(0)
    for _ in range(300):
        text = f"{chance.integers(10 ** chance.integers(1, 16))}.{'0' * chance.integers(3)}{chance.integers(10 ** chance.integers(1, 9))}"
        expected = int(Fraction(text) * 1000 + Fraction(1, 2))
        data = np.frombuffer(text.encode() + b" ", np.uint8)
        assert scan.read_decimal(data, len(text), 0, 3)[:2] == (expected, 1)


@pytest.mark.parametrize("text", ["1e30", "9" * 25, "1e999999999999"])
def test_times__that_are_too_large_are_told(text):
    assert scan.read_decimal(np.frombuffer(text.encode() + b" ", np.uint8), len(text), 0, 3)[1] == 2


# -- conversion of events ----------------------------------------------------------------------------------------------


def small():
    """One rank: a step with an operator, a kernel and a copy, and events that are left out."""
    trace = Trace(baseTimeNanoseconds=BASE, displayTimeUnit="ms").step(7, 0, 100)
    trace.host(1, 9, "aten::mm").launch(2, 5.25, 8.5, "gemm")
    trace.launch(20, 30, 31, "Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", "gpu_memcpy", bytes=64)
    trace.host(3, 5, "autograd", tid=AUTOGRAD).host(40, 50, "nn/module.py(12): forward", "python_function")
    trace.add("s", "ac2g", "ac2g", HOST, HOST, 2, id=1).add("f", "ac2g", "ac2g", 0, 7, 5, id=1, bp="e")
    trace.add("M", None, "thread_name", HOST, HOST, 0, args={"name": "main thread"}).add(
        "i", None, "memory", HOST, HOST, 1, s="t"
    )
    trace.add("X", "Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, dur=100)
    trace.device(5, 8, "ProfilerStep#7", "gpu_user_annotation").device(40, 41, "Stream Sync", "cuda_sync")
    return trace.add("X", "overhead", "Buffer", -1, 0, 1, dur=2).add("X", "new_category", "x", HOST, HOST, 1, dur=2)


def test_events__of_one_rank(tmp_path):
    source = source_of(tmp_path, small())
    assert names_of(source) == ["main thread", f"thread {AUTOGRAD}", "CUDA[0:7]"]
    assert source.definitions["locations"]["type"] == ["cpu_thread", "cpu_thread", "gpu"]
    us, copy = 1000, "Memcpy HtoD (Pageable -> Device)"
    assert events_of(source, 0) == [
        (BASE, "ENTER", "ProfilerStep#7", {}),
        (BASE + 1 * us, "ENTER", "aten::mm", {}),
        (BASE + 2 * us, "ENTER", "cudaLaunchKernel", {"CORRELATION_ID": 1}),
        (BASE + 4 * us, "EXIT", "cudaLaunchKernel", {}),
        (BASE + 9 * us, "EXIT", "aten::mm", {}),
        (BASE + 20 * us, "ENTER", "cudaMemcpyAsync", {"CORRELATION_ID": 2}),
        (BASE + 22 * us, "EXIT", "cudaMemcpyAsync", {}),
        (BASE + 40 * us, "ENTER", "nn/module.py(12): forward", {}),
        (BASE + 50 * us, "EXIT", "nn/module.py(12): forward", {}),
        (BASE + 100 * us, "EXIT", "ProfilerStep#7", {}),
    ]
    assert events_of(source, 2) == [
        (BASE + 5250, "ENTER", "gemm", {"CORRELATION_ID": 1}),
        (BASE + 8500, "EXIT", "gemm", {}),
        (BASE + 30 * us, "ENTER", copy, {"CORRELATION_ID": 2, "COPIED_BYTES": 64}),
        (BASE + 31 * us, "EXIT", copy, {}),
    ]
    regions = source.definitions["regions"]
    by_name = {n: k for k, n in enumerate(regions["name"])}
    python = by_name["nn/module.py(12): forward"]
    assert (regions["file"][python], regions["begin_line"][python]) == ("nn/module.py", 12)
    assert regions["role"][by_name[copy]] == "data_transfer"
    assert regions["role"][by_name["gemm"]] == "kernel"
    assert regions["flags"][by_name["ProfilerStep#7"]] & 2
    assert source.clock.realtime == source.clock.origin == BASE


@pytest.mark.parametrize("text", ["", "no JSON", '{"a": 1}'])
def test_files__with_the_ending_of_a_trace_that_are_none_are_refused(text, tmp_path):
    path = tmp_path / "x.pt.trace.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=r"expected a (JSON object|trace of the PyTorch profiler)"):
        registry.open_source(path)


def test_events__are_kept_or_counted(opened, tmp_path):
    trace = small()
    store = opened(trace.write(tmp_path / "x.json")).store
    left_out = store.manifest["source"]["left out"]
    assert left_out == {
        "Trace slices": 1, "ac2g flows": 2, "cuda_sync slices": 1, "gpu_user_annotation slices": 1, "instants": 1, "metadata": 1,
        "overhead slices": 1,
    }  # fmt: skip
    assert store.manifest["not_understood"] == {"new_category slices": 1}
    kept = store.manifest["events_by_kind"]["12"]
    assert kept + sum(left_out.values()) + 1 == len(trace.events)


def as_of_2021(trace):
    """Name categories, threads and streams as versions up to 2022 do."""
    names = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    names |= {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}
    for event in trace.events:
        category = event.get("cat")
        if category in ("kernel", "gpu_memcpy", "gpu_memset"):
            event["tid"] = f"stream {event['tid']}"
        elif category in names or event["ph"] == "M":
            event["tid"] = str(event["tid"])
        event |= {"cat": names[category]} if category in names else {}
    return trace


def test_events__of_files_up_to_2022_are_the_same(tmp_path):
    today, then = source_of(tmp_path, small(), "today.json"), source_of(tmp_path, as_of_2021(small()), "then.json")
    assert [d["n_events"] for d in (s.definitions["locations"] for s in (then, today))] == [[10, 2, 4]] * 2
    for location in range(3):
        assert events_of(then, location) == events_of(today, location)
    assert names_of(then) == names_of(today)
    assert then.definitions["regions"]["flags"][then.definitions["regions"]["name"].index("ProfilerStep#7")] & 2


@pytest.mark.parametrize(
    ("category", "call", "stream"),
    [
        ("xpu_runtime", "urEnqueueKernelLaunch", "XPU[0:7]"),
        ("xpu_driver", "zeCommandListAppendLaunchKernel", "XPU[0:7]"),
        ("privateuse1_runtime", "aclrtLaunchKernel", "DEVICE[0:7]"),
        ("mtia_runtime", "runtime::launch", "DEVICE[0:7]"),
        ("runtime", "urEnqueueKernelLaunch", "XPU[0:7]"),
        ("musa_runtime", "musaLaunchKernel", "MUSA[0:7]"),
        ("musa_driver", "muLaunchKernel", "MUSA[0:7]"),
        ("gcu_runtime", "topsLaunchKernel", "DEVICE[0:7]"),
        ("mlu_runtime", "cnInvokeKernel", "DEVICE[0:7]"),
        ("hpu_op", "multiply", "DEVICE[0:7]"),
        ("cuda_driver", "cuLaunchKernelEx", "CUDA[0:7]"),
        ("cuda_runtime", "hipExtModuleLaunchKernel", "HIP[0:7]"),
    ],
)
def test_calls_for_devices__of_all_makers_launch_kernels(tmp_path, category, call, stream, opened):
    trace = Trace().step(3, 0, 100).launch(10, 20, 30, "gemm", what=call)
    cats = {"cuda_runtime": category} | ({"kernel": "mtia_ccp_events"} if category == "mtia_runtime" else {})
    for event in trace.events:
        event["cat"] = cats.get(event["cat"], event["cat"])
    found = opened(trace.write(tmp_path / "x.json"))
    assert found.store.manifest["not_understood"] == {}
    assert found.store.definitions["locations"].column("name").to_pylist()[-1] == stream
    assert found.kernels.launch_enter_time.tolist() == [10_000]


def test_copies_and_communication__of_all_makers_are_read(tmp_path):
    trace = Trace().host(0, 9, "xccl::allreduce", "collective_comm")
    for category in ("GCU_MEMCPY", "GCU_MEMSET", "mlu_memcpy", "mlu_memset"):
        trace.device(10, 20, category, category, stream=len(trace.events))
    for category in ("GCU_USER_ANNOTATION", "mlu_user_annotation", "musa_sync"):
        trace.device(10, 20, category, category)
    source = source_of(tmp_path, trace)
    assert source.definitions["regions"]["role"] == ["function", "data_transfer", "kernel", "data_transfer", "kernel"]
    assert sum(source.properties["left out"].values()) == 3


def test_slices_without_a_duration__are_counted(opened, tmp_path):
    trace = small()
    del trace.events[-1]["dur"], trace.events[0]["dur"]
    found = opened(trace.write(tmp_path / "x.json")).store
    assert "1 slice without a duration: they end when they begin" in found.manifest["source"]["notes"]


def test_launches_and_copies__are_joined_by_correlation(tmp_path, opened):
    trace = opened(small().write(tmp_path / "x.json"))
    assert trace.kernels.launch_enter_time.tolist() == [BASE + 2000]
    assert (trace.copies.bytes.tolist(), trace.copies.copy_enter_time.tolist()) == ([64], [BASE + 20000])


def test_copies__say_their_direction_in_the_words_of_all_makers(tmp_path, opened):
    names = {
        "Memcpy PtoP (Device -> Device)": 3, "zeCommandListAppendMemoryCopy(M2D)": 1, "zeCommandListAppendMemoryCopy(D2H)": 2,
        "zeCommandListAppendMemoryCopy(D2D)": 3, "zeCommandListAppendMemoryCopy(M2M)": 0, "CopyHostToDevice": 1,
    }  # fmt: skip
    trace = Trace()
    for k, name in enumerate(names):
        trace.launch(10 * k, 10 * k + 5, 10 * k + 6, name, "cudaMemcpyAsync", "gpu_memcpy")
    found = opened(trace.write(tmp_path / "x.json"))
    assert found.copies.direction.tolist() == list(names.values())


def test_synchronisations__refer_to_streams_and_events(tmp_path, opened):
    trace = Trace().launch(0, 3, 50, "producer").launch(3, 6, 60, "other", stream=24)

    def call(begin, end, what, kind, **given):
        trace.correlation += 1
        trace.host(begin, end, what, "cuda_runtime", correlation=trace.correlation)
        if kind:
            args = {"cuda_sync_kind": kind, "correlation": trace.correlation, "device": 0, "context": 1, **given}
            trace.add("X", "cuda_sync", kind, 0, 1000000 + args["stream"], begin, dur=end - begin, args=args)
        return trace.correlation

    recorded = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": call(6, 7, "cudaEventRecord", "")}
    call(8, 9, "cudaStreamWaitEvent", "Stream Wait Event", stream=20, **recorded)
    call(10, 11, "cudaStreamWaitEvent", "")  # nothing runs on its stream: the profiler does not record it
    trace.launch(12, 61, 70, "consumer", stream=20).launch(14, 50, 90, "later")
    call(17, 65, "cudaEventSynchronize", "Event Sync", stream=-1, **recorded)
    call(66, 95, "cudaStreamSynchronize", "Stream Sync", stream=20)
    call(96, 99, "cudaDeviceSynchronize", "Context Sync", stream=-1)
    found = opened(trace.host(0, 100, "step").write(tmp_path / "x.json"))
    syncs = found.frame("device_syncs", raw=True)
    assert [found.locations.name[i] if i >= 0 else "" for i in syncs.stream] == ["CUDA[0:7]", "CUDA[0:20]", ""]
    assert (syncs.cause_end_time // 1000).tolist()[:2] == [50, 70]
    # the consumer waits for the producer, not for the other kernel, which ends later
    assert found.what_if({"other": 1.1}).runtime == pytest.approx(100e-6)
    assert found.what_if({"producer": 2}).runtime > 110e-6


def test_events__do_not_depend_on_layout_compression_or_windows(tmp_path, monkeypatch):
    (trace,) = random_run(3, 1, 4)
    expected = [events_of(source_of(tmp_path, trace), i) for i in range(4)]
    assert all(expected)
    keys = json.loads(trace.text())
    turned = {"traceEvents": [dict(reversed(e.items())) for e in keys["traceEvents"]], **keys}
    (tmp_path / "turned.json").write_text(json.dumps(dict(reversed(turned.items()))))
    for window in (64, 1000, 1 << 20):
        monkeypatch.setattr(files, "WINDOW", window)
        monkeypatch.setattr(recording, "ROWS", 7)
        monkeypatch.setattr(recording, "IN_MEMORY", 0)
        monkeypatch.setattr(archive, "ROWS", 16)
        monkeypatch.setattr(intervals, "ROWS", 16)
        for source in (
            source_of(tmp_path, trace, "x.json.gz"), source_of(tmp_path, trace, "x.json", indent=2), registry.open_source(tmp_path / "turned.json"),
        ):  # fmt: skip
            assert [events_of(source, i) for i in range(4)] == expected


def test_names__may_have_escapes_and_control_characters(tmp_path):
    path = small().write(tmp_path / "x.json")
    path.write_text(path.read_text().replace("aten::mm", r"a\"b\\\u00e4" + "\n{"))
    assert 'a"b\\\u00e4\n{' in registry.open_source(path).definitions["regions"]["name"]


def test_names__of_built_in_methods_are_the_same_on_all_ranks(tmp_path):
    traces = two_ranks()
    for trace in traces:
        name = f"<built-in method numel of Tensor object at 0x7fdc681d{trace.rank}>"
        trace.host(80, 81, name, "python_function")
    names = registry.open_source(write_run(tmp_path / "run", traces)).definitions["regions"]["name"]
    assert [n for n in names if "numel" in n] == ["<built-in method numel of Tensor object>"]


def test_names__may_have_halves_of_surrogates(tmp_path):
    trace = small().host(60, 70, "a\ud800\U0001f600")
    next(e for e in trace.events if e["name"] == "thread_name")["args"]["name"] = "\udfff"
    assert "a\ufffd\U0001f600" in source_of(tmp_path, trace).definitions["regions"]["name"]
    tracecols.convert(tmp_path / "x.json", tmp_path / "x.trace")


# -- nesting -----------------------------------------------------------------------------------------------------------


def mended(slices):
    slices = sorted(slices, key=lambda s: (s[0], -s[1]))
    begin, end = (np.array(v, np.int64) for v in zip(*slices, strict=True))
    n = begin.size
    order, heap, stack = (np.empty(n, np.int64) for _ in range(3))
    nest.mend_thread(begin, end, heap, np.zeros(n, np.uint8), stack, order)
    return list(zip(begin[order].tolist(), end[order].tolist(), strict=True))


def test_slices_of_threads__that_cross_change_as_little_as_possible():
    # a step begins 2 before the function that opens it returns, and ends 1 after the function that closes it begins
    assert mended([(0, 10), (8, 1001), (12, 20), (1000, 1005)]) == [(0, 10), (10, 1001), (12, 20), (1001, 1005)]
    # the end of the inner slice moves
    assert mended([(0, 100), (10, 101)]) == [(0, 100), (10, 100)]
    # a slice whose begin moves comes after slices that begin in between
    assert mended([(0, 10), (8, 50), (9, 10), (11, 12)]) == [(0, 10), (9, 10), (10, 50), (11, 12)]


@pytest.mark.parametrize("seed", range(20))
def test_slices_of_threads__nest_afterwards(seed):
    chance = np.random.default_rng(seed)
    begins = chance.integers(0, 60, 80)
    before = [(int(b), int(b + d)) for b, d in zip(begins, chance.integers(0, 40, 80), strict=True)]
    after = mended(before)
    assert len(after) == len(before)
    open_until = []
    for k, (begin, end) in enumerate(after):
        assert begin <= end
        assert k == 0 or after[k - 1][0] <= begin
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)


def test_slices_of_streams__end_where_the_next_begins_but_no_collective_operation_is_cut(tmp_path):
    trace = (
        Trace().device(0, 10, "a").device(8, 20, "b").device(30, 60, ALL_REDUCE).device(40, 50, "c").device(45, 70, "d")
    )
    source = source_of(tmp_path, trace.host(0, 1, "x"))
    assert names_of(source)[1:] == ["CUDA[0:7]", "CUDA[0:7] (2)"]
    intervals = [[(t // 1000, r) for t, k, r, _ in events_of(source, i) if k in ("ENTER", "EXIT")] for i in (1, 2)]
    nccl_name = ALL_REDUCE.partition("(")[0]
    assert intervals[0] == [(0, "a"), (8, "a"), (8, "b"), (20, "b"), (30, nccl_name), (60, nccl_name)]
    assert intervals[1] == [(40, "c"), (45, "c"), (45, "d"), (70, "d")]
    assert any(
        "2 slices of streams end where the next one begins, at most by 5.000 us" in n
        for n in source.properties["notes"]
    )


# -- operations --------------------------------------------------------------------------------------------------------


def waits(trace):
    """Return the waits at NxN operations in us, by rank."""
    found = trace.matches("nccl_wait_nxn", raw=True)
    return {int(r): round(s / 1000) for r, s in found.groupby("rank").severity.sum().items()} if len(found) else {}


KEYS = {
    "identifiers": lambda **k: nccl(**{**k, "Comms Id": 1000 - k["Seq"]}),
    "sequence numbers": nccl,
    "order in the group": lambda **k: {name: v for name, v in nccl(**k).items() if name != "Seq"},
    "order on the stream": None,
}


@pytest.mark.parametrize("key", KEYS)
def test_operations__are_joined_by(tmp_path, key, opened):
    trace = opened(write_run(tmp_path / "run", two_ranks(KEYS[key])))
    assert waits(trace) == {0: 30, 1: 5}
    assert trace.collectives.op_name.tolist() == ["allreduce", "allreduce"]
    assert set(trace.collective_members.sent) == ({256} if KEYS[key] is not None else {1})
    region = trace.store.definitions["regions"].to_pylist()
    assert [r["canonical_name"] for r in region if r["paradigm"] == "nccl"] == ["ncclAllReduce"]


def test_operations__of_which_sequence_numbers_shift_are_joined_by_them(tmp_path, opened):
    traces = two_ranks()
    # rank 1 was started later: its first operation is the second of rank 0
    del traces[1].events[1:3]
    traces[1].launch(80, 82, 90, ALL_REDUCE, stream=20, **nccl(Seq=2))
    trace = opened(write_run(tmp_path / "run", traces))
    assert trace.collectives.n_members.tolist() == [2]
    assert trace.collective_members.begin_time.tolist() == [62000, 57000]
    notes = trace.store.manifest["source"]["notes"]
    assert any(n.startswith("2 operations that are not joined") for n in notes)


def test_operations__launched_before_the_recording_are_dropped_where_order_counts(tmp_path, opened):
    traces = two_ranks(None)
    traces[0].device(2, 6, ALL_REDUCE, stream=20, correlation=999)
    trace = opened(write_run(tmp_path / "run", traces))
    assert waits(trace) == {0: 30, 1: 5}


def test_results__do_not_depend_on_the_sign_of_times(tmp_path, opened):
    found = []
    for base in (0, -60_000, -1_000_000):
        run_of_two = two_ranks(lambda **more: nccl())
        for trace in run_of_two:
            trace.head["baseTimeNanoseconds"] = base
            trace.launch(1, 4, 9, "gemm").launch(2, 9, 11, "gemm").host(20, 21, "cudaStreamWaitEvent", "cuda_runtime")
            trace.launch(75, 80, 90, "gemm").host(78, 95, "cudaDeviceSynchronize", "cuda_runtime")
        trace = opened(write_run(tmp_path / "run", run_of_two))
        found.append((trace.analyze().frame(), trace.kernel_profile(), trace.training_steps()))
    assert (found[0][0].property == "delay_device_nxn_aggregate").any()
    assert all(one.equals(other) for shifted in found[1:] for one, other in zip(found[0], shifted, strict=True))


def test_operations__that_the_kernel_does_not_execute_are_plain_kernels(tmp_path, opened):
    traces = two_ranks(lambda **k: nccl("coalesced", **k))
    for trace in traces:
        trace.launch(80, 82, 90, ALL_REDUCE, stream=20, **nccl(Seq=9))
    trace = opened(write_run(tmp_path / "run", traces))
    assert len(trace.collectives) == 1
    assert any("4 kernels that execute several operations" in n for n in trace.store.manifest["source"]["notes"])


@pytest.mark.parametrize("given", [None, nccl])
def test_operations__on_several_devices_of_a_process_are_not_joined(tmp_path, given):
    """As in torch.nn.DataParallel, where each device is a participant."""
    trace = Trace(0, 1).step(3, 0, 100)
    for device, begin in ((0, 10), (1, 40)):
        arguments = {"correlation": device, **(given() if given is not None else {})}
        trace.host(begin - 5, begin - 3, "cudaLaunchKernel", "cuda_runtime", correlation=device)
        trace.add("X", "kernel", ALL_REDUCE, device, 20 + device, begin, dur=60 - begin, args=arguments)
    source = registry.open_source(trace.write(tmp_path / "x.json"))
    assert not source.definitions["communicators"]["id"]
    assert "2 operations that are not joined: their rank executes them on several devices" in source.properties["notes"]


def test_operations__of_groups_that_share_a_name_are_not_joined(tmp_path):
    """Groups that ranks make of their own have the same name; lists of more than 30 ranks are cut off."""
    traces = []
    for rank in range(4):
        trace = Trace(rank, 4).step(3, 0, 100)
        for name, begin in (("0", 10), ("1", 60)):
            ranks = {"Process Group Ranks": "[0, 1, ...]" if name == "1" else "[0, 1, 2, 3]"}
            size = {"Group size": 2 if name == "1" else 4}
            trace.launch(begin, begin + 5 + rank, begin + 20, ALL_REDUCE, **nccl(group=name, **ranks, **size))
        traces.append(trace)
    source = registry.open_source(write_run(tmp_path / "run", traces))
    assert source.definitions["communicators"]["name"] == ["process group 0 (default_pg)"]
    assert "operations of process group 1: 4 ranks execute operations of a group of 2" in source.properties["notes"]


@pytest.mark.parametrize("how", ["ranks", "ranks in the group", "ranges"])
def test_messages__are_joined_by_sender_receiver_and_order(tmp_path, how, opened):
    """The second rank waits 30 us for the first, which waits 20 us for it afterwards."""
    traces = []
    runs = (("send", 50, 60), ("recv", 70, 100)), (("recv", 20, 60), ("send", 90, 100))
    for rank, kernels in enumerate(runs):
        trace = Trace(rank, 2).step(3, 0, 110)
        for k, (name, begin, end) in enumerate(kernels):
            given = nccl(name, Seq=10 * rank + k)
            if how == "ranges":
                given = {}
                shape = {"Input Dims": [[8, 8]], "Input type": ["float"]}
                title = f"nccl:{name} {rank}{'->' if name == 'send' else '<-'}{1 - rank}"
                trace.host(begin - 6, begin - 1, title, "user_annotation", **shape)
            elif how == "ranks":
                given |= {"Dst Rank" if name == "send" else "Src Rank": 1 - rank}
            else:
                given |= {"Process Group Ranks": "[1, 0]", "Rank": rank}
            trace.launch(begin - 5, begin, end, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", **given)
        traces.append(trace)
    found = opened(write_run(tmp_path / "run", traces))
    assert found.frame("messages", raw=True).length.tolist() == [256, 256]
    assert sorted(found.analyze().cells["nccl_latesender"].value.tolist()) == [20_000, 30_000]
    # a rank that is not given: its messages are kernels
    found = opened(traces[0].write(tmp_path / "rank0.json"))
    assert not len(found.frame("messages"))
    assert "2 messages" in found.manifest["source"]["notes"]


def test_operations__with_a_root(tmp_path):
    traces = []
    for rank in (0, 1):
        trace = Trace(rank, 2)
        given = nccl("broadcast", Seq=1, Rank=1)
        trace.host(0, 9, "record_param_comms", **given).launch(
            2, 5 + rank, 20, "ncclDevKernel_Broadcast_RING_LL(x)", **given
        )
        trace.launch(
            30, 32, 40, "ncclDevKernel_Generic(x)", **nccl("_allgather_base", Seq=2, **{"Out msg nelems": 128})
        )
        traces.append(trace)
    source = registry.open_source(write_run(tmp_path / "run", traces))
    ends = [values for _, kind, _, values in events_of(source, 1) if kind == "MPI_COLLECTIVE_END"]
    assert [(e["root"], e["sent"], e["received"]) for e in ends] == [(1, 256, 256), (-1, 256, 512)]
    canonical = source.definitions["regions"]["canonical_name"]
    assert "ncclBroadcast" in canonical
    assert "ncclAllGather" in canonical


def test_bytes__come_from_the_range_around_the_launch(tmp_path, opened):
    traces = two_ranks(None)
    for trace in traces:
        for call in [e["ts"] for e in trace.events if e["name"] == "cudaLaunchKernel"]:
            trace.host(
                call - 1,
                call + 3,
                "nccl:all_reduce",
                "user_annotation",
                **{"Input Dims": [[5, 2]], "Input type": ["c10::Half"]},
            )
    trace = opened(write_run(tmp_path / "run", traces))
    assert set(trace.collective_members.sent) == {20}
    assert not any("1 is assumed" in n for n in trace.store.manifest["source"].get("notes", ()))


def test_clocks__of_hosts_that_differ_are_put_right(tmp_path, opened):
    traces = []
    for rank, shift in ((0, 0), (1, 500)):
        trace = Trace(rank, 2, host_name=f"node{rank}")
        for k in range(5):
            t = 1000 * k + shift
            trace.launch(t + 10 + 5 * rank, t + 20 + 5 * rank, t + 60 + rank, ALL_REDUCE, stream=20, **nccl(Seq=k))
        traces.append(trace)
    trace = opened(write_run(tmp_path / "run", traces))
    assert waits(trace)[0] == pytest.approx(5 * 4, abs=1)
    source = trace.store.manifest["source"]
    assert source["clock offsets added in ns"] == {"node0": 250500, "node1": -250500}
    assert sum("clock of host" in n for n in source["notes"]) == 2
    # on a single host no clock is corrected, whatever the end times
    for one in traces:
        one.head["host_name"] = "node"
    same = registry.open_source(write_run(tmp_path / "same", traces))
    assert "clock offsets added in ns" not in same.properties


def test_names__of_operations():
    assert operation_of_kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)").function == "ncclGroup"
    assert operation_of_kernel("ncclDevKernel_Generic(ncclDevComm*)") is None
    for name, function in (("nccl:_all_gather_base", "ncclAllGather"), ("all_to_allv", "ncclAlltoAll"), ("_reduce_scatter_base", "ncclReduceScatter"), ("c10d::allreduce_", "ncclAllReduce"), ("barrier", "ncclBarrier"), ("nccl:recv 12<-3", "ncclRecv")):  # fmt: skip
        assert find_operation(name).function == function
    assert find_operation("wait") is None
    assert fits_kernel(find_operation("all_to_all"), operation_of_kernel("ncclKernel_SendRecv_"))
    assert not fits_kernel(find_operation("broadcast"), operation_of_kernel(ALL_REDUCE))


def test_gloo__executes_on_its_threads_what_operators_ask_for(tmp_path, opened):
    traces = []
    for rank, asked in ((0, 10), (1, 70)):
        trace = Trace(rank, 2).step(1, 0, 200).host(asked, asked + 5, "c10d::allreduce_")
        traces.append(trace.host(asked + 2, 100, "gloo:all_reduce", "user_annotation", tid=300 + rank))
    trace = opened(write_run(tmp_path / "run", traces))
    assert trace.locations.type.tolist() == ["cpu_thread", "gpu"] * 2
    assert waits(trace) == {0: 60}
    assert trace.kernels.launch_enter_time.tolist() == [10000, 70000]


# -- which files belong together ---------------------------------------------------------------------------------------


def test_ranks__that_are_missing_are_told(tmp_path):
    traces = two_ranks()
    for trace in traces:
        trace.head["distributedInfo"]["world_size"] = 8
    source = registry.open_source(write_run(tmp_path / "run", traces))
    assert source.properties["notes"][0] == "2 of 8 ranks are given: waits for other ranks are lower bounds"
    assert source.definitions["processes"]["rank"] == [0, 1]
    assert len(registry.open_source(tmp_path / "run" / "rank1.json").definitions["processes"]["rank"]) == 1


def test_ranks__that_are_missing_are_told_if_files_do_not_say_how_many_there_are(tmp_path):
    trace = two_ranks(None)[0]
    trace.head["distributedInfo"] = {}
    notes = registry.open_source(trace.write(tmp_path / "x.json")).properties["notes"]
    assert any(note.startswith("2 operations between ranks have a single participant") for note in notes)


def test_ranks__come_from_names_of_files_if_they_say_nothing(tmp_path):
    traces = two_ranks()
    for trace in traces:
        del trace.head["distributedInfo"]
        trace.rank = 5 - trace.rank
    source = registry.open_source(write_run(tmp_path / "run", traces))
    assert source.definitions["processes"]["rank"] == [4, 5]
    assert not any("numbered" in note for note in source.properties.get("notes", ()))
    for number, trace in enumerate(traces):
        trace.write(tmp_path / f"{number}.json")
    notes = registry.open_source([tmp_path / "0.json", tmp_path / "1.json"]).properties["notes"]
    assert "neither files nor their names state ranks: they are numbered in the order of the files" in notes


def test_ranks__of_files_recorded_on_demand_are_no_roots(tmp_path):
    traces = two_ranks()
    for trace in traces:
        # versions of Kineto without access to the process group take them from the first operation
        trace.head["distributedInfo"] |= {"rank": 0, "nccl_version": "unknown"}
        for k, op in enumerate(("broadcast", "allreduce")):
            trace.host(80 + k, 81 + k, "record_param_comms", **nccl(op, Rank=trace.rank if k else 0))
    source = registry.open_source(write_run(tmp_path / "run", traces))
    assert source.definitions["processes"]["rank"] == [0, 1]
    assert "notes" not in source.properties


@pytest.mark.parametrize(
    "head, given",
    [
        # the rank in a group of two of four ranks, whose members are listed with the operation, or in the head
        ({}, {"Process Group Description": "tensor", "Process Group Ranks": "[1, 3]", "Rank": 1}),
        (
            {"pg_config": [{"pg_name": "7", "ranks": [1, 3]}, {"pg_name": "8", "ranks": [1, 2]}]},
            {
                "Process Group Description": "tensor",
                "Process Group Name": "7",
                "Process Group Ranks": "[1, ...]",
                "Rank": 1,
            },
        ),
        # its column and its row of a grid of processes
        ({"pg_config": [{"pg_name": "7", "ranks": [1, 3]}, {"pg_name": "8", "ranks": [2, 3]}]}, None),
    ],
)
def test_ranks__of_files_recorded_on_demand_follow_from_process_groups(tmp_path, head, given):
    trace = Trace(0, 4).host(0, 10, "main")
    trace.head["distributedInfo"] |= {"nccl_version": "unknown", **head}
    if given is not None:
        trace.host(2, 3, "record_param_comms", **nccl("allreduce", **given))
    assert registry.open_source(trace.write(tmp_path / "x.json")).definitions["processes"]["rank"] == [3]


def test_ranks__that_only_some_files_state_are_those_of_names_if_these_agree(tmp_path):
    traces = two_ranks()
    del traces[0].head["distributedInfo"]
    folder = write_run(tmp_path / "run", traces)
    assert registry.open_source(folder).definitions["processes"]["rank"] == [0, 1]
    (folder / "rank1.json").rename(folder / "rank5.json")
    with pytest.raises(SourceError, match="does not say its rank, and others do"):
        registry.open_source(folder)


def test_ranks__that_are_not_known_are_in_the_order_of_devices_if_these_are_known(tmp_path):
    traces = two_ranks()
    for name, device, trace in zip("ab", (3, 1), traces, strict=True):
        del trace.head["distributedInfo"]
        for event in trace.events:
            event["pid"] = device if event["cat"] == "kernel" else 10 * device
        trace.write(tmp_path / f"{name}.json")
    source = registry.open_source(tmp_path)
    assert source.properties["notes"][0].endswith("they are numbered in the order of the devices that they use")
    locations = source.definitions["locations"]
    process = {name: locations["process"][k] for k, name in enumerate(locations["name"]) if name.startswith("CUDA")}
    rank = source.definitions["processes"]["rank"]
    assert {name: rank[of] for name, of in process.items()} == {"CUDA[1:20]": 0, "CUDA[3:20]": 1}


def refused(tmp_path, traces):
    with pytest.raises(SourceError) as error:
        registry.open_source(write_run(tmp_path / "run", traces))
    return str(error.value)


@pytest.mark.parametrize(
    ("changed", "words"), [({"rank": 0}, "rank 0 has 2 files"), ({"world_size": 4}, "the files are of different runs")]
)
def test_files__of_one_rank_or_of_runs_of_different_size_are_refused(tmp_path, changed, words):
    traces = two_ranks()
    traces[1].head["distributedInfo"] |= changed
    assert words in refused(tmp_path, traces)


def test_files__without_a_common_operation_are_refused(tmp_path):
    traces = two_ranks(None)
    for event in traces[1].events:
        event["ts"] += 1000
    assert "2 of 2 operations of all with all would end before all have begun" in refused(tmp_path, traces)
    assert "have no collective operation in common" in refused(tmp_path, [Trace(r, 2).host(0, 1, "x") for r in (0, 1)])


def test_command__takes_a_file_a_folder_or_several_files(tmp_path):
    folder = write_run(tmp_path / "run", two_ranks(), ".pt.trace.json.gz")
    (folder / "other.json").write_text('{"a": 1}')
    given = sorted(folder.glob("rank*"))
    shown = []
    for k, sources in enumerate(([folder], given)):
        shown.append(executed("convert", *sources, "-o", tmp_path / f"{k}.trace").splitlines()[0].split(": ")[1])
    assert shown == [shown[0]] * 2
    assert registry.trace_name(folder) == registry.trace_name(tuple(given)) == "run"
    assert registry.trace_name(given[0]) == "rank0"
    (tmp_path / "a.b.json").write_bytes(gzip.decompress(given[0].read_bytes()))
    assert registry.trace_name(tmp_path / "a.b.json") == "a.b"
    assert "is not a trace that tracecols reads" in executed("convert", folder / "other.json", code=1)


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schemaVersion": 1}', "has no traceEvents"),
        ('{"schemaVersion": 1, "traceEvents": [', "the file ends at byte 37"),
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X"', "the file ends at byte"),
        ('{"schemaVersion": 1, "traceEvents": []', "the file ends at byte"),
        ('{"schemaVersion": 1, "traceEvents": []}', "has no slices of threads or streams"),
        ('{"schemaVersion": 1, "traceEvents": [3]}', "byte 37: expected an event"),
        ('{"schemaVersion": 1, "traceEvents": {}}', "expected '\\['"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":"5","dur":1}]}', "ts or dur is a text"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1e40,"dur":1}]}', "too large"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]}\n{"traceEvents": []}', "byte 87: expected the end of the file"),
        ('{"baseTimeNanoseconds": 1.5, "traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]}', "expected a whole number"),
    ],
)  # fmt: skip
def test_damage__is_refused_in_words(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SourceError, match=message):
        tracecols.convert(tmp_path / "x.json", tmp_path / "x.trace")


def test_files_that_end_early__are_kept_up_to_there_with_salvage(tmp_path):
    path = small().write(tmp_path / "x.json")
    path.write_text(path.read_text()[:-300])
    with pytest.raises(SourceError, match="the file ends at byte"):
        tracecols.convert(path, tmp_path / "x.trace")
    store = tracecols.open(tracecols.convert(path, tmp_path / "x.trace", salvage=True)).store
    assert store.n_rows("events") > 8
    assert len(store.manifest["lost"]) == store.manifest["n_locations"]


def test_packed_files_that_end_early__are_kept_up_to_there_with_salvage(tmp_path):
    trace = Trace()
    for k in range(4000):
        trace.launch(10 * k, 10 * k + 5, 10 * k + 6, f"kernel {k * k}")
    path = trace.write(tmp_path / "x.json.gz")
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(SourceError, match=r"byte [1-9]\d*: unpacking stops"):
        tracecols.convert(path, tmp_path / "x.trace")
    store = tracecols.open(tracecols.convert(path, tmp_path / "x.trace", salvage=True)).store
    assert store.n_rows("events") > 10_000


def test_packed_files_of_a_folder_that_end_early__are_refused(tmp_path):
    folder = write_run(tmp_path / "run", two_ranks(), ".json.gz")
    path = folder / "rank1.json.gz"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(SourceError, match=r"rank1.*unpacking stops"):
        tracecols.convert(folder, tmp_path / "x.trace")


@pytest.mark.parametrize(
    "damaged", [lambda text: b"", lambda text: text.decode().encode("utf-16"), lambda text: text[99:]]
)
def test_files_of_a_folder_that_do_not_begin_as_traces__are_noted(tmp_path, damaged):
    folder = write_run(tmp_path / "run", two_ranks())
    path = folder / "rank1.json"
    path.write_bytes(damaged(path.read_bytes()))
    notes = registry.open_source(folder).properties["notes"]
    assert notes[-1] == "left out: rank1.json (is no trace of this format, or damaged)"


def test_deep_nesting__of_values_and_slices_is_read(tmp_path):
    trace = Trace()
    for k in range(5000):
        trace.host(k, 20000 - k, "deep")
    trace.events[0]["args"] = {"x": "Y"}
    path = trace.write(tmp_path / "x.json")
    path.write_text(path.read_text().replace('"Y"', "[" * 100000 + "]" * 100000))
    assert registry.open_source(path).definitions["locations"]["n_events"] == [10000]


@pytest.mark.parametrize(("seed", "n_ranks"), [(1, 2), *slow([(s, 1 + s % 4) for s in range(2, 8)])])
def test_random_runs__are_converted_whole(tmp_path, seed, n_ranks, opened):
    traces = random_run(seed, n_ranks, 3)
    trace = opened(write_run(tmp_path / "run", traces))
    slices = sum(e["ph"] == "X" for one in traces for e in one.events)
    assert trace.store.manifest["events_by_kind"]["12"] == slices
    assert len(trace.collectives) == 3
    assert (trace.kernels.launch_enter >= 0).all()
    assert run("check", trace.store.path).exit_code == 0


# -- recorded traces ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dlrm__waits_are_those_of_two_other_programs(shared_traces, tmp_path, opened):
    import tarfile

    folder = shared_traces / "kineto" / "dlrm_8rank_v100"
    with tarfile.open(folder / "dlrm_kineto.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    expected = json.loads((folder / "expected.json").read_text())
    trace = opened(tmp_path / "dlrm_kineto")
    members = trace.collective_members
    found = trace.matches("nccl_wait_nxn", raw=True)
    assert waits(trace) == dict(enumerate(expected["wait_per_rank"]))
    assert found.severity.sum() == 46843000
    assert (members.end_time - members.begin_time).sum() == 1000 * expected["kernel_time"]
    by_operation = (
        members.groupby("collective").begin_time.transform("max").clip(upper=members.end_time) - members.begin_time
    )
    assert by_operation.groupby(members.collective).sum().tolist() == [1000 * w for w in expected["wait_per_instance"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "threads", "streams"),
    [
        ("hta_cuda_sync/alexnet_cuda_sync.json.gz", 0, 0), ("hta_mi250_rocm62/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 0, 0),
        ("hta_ns_no_base/rank-0.json.gz", 0, 0), ("tracelens_b200_rank0/eager_trace.json.gz", 13, 74),
    ],
)  # fmt: skip
def test_recorded_traces__keep_or_count_every_event(shared_traces, name, threads, streams):
    path = shared_traces / "kineto" / name
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    found = recording.Recording(path)
    kept = sum(place.slices.begin.size for place in found.places)
    assert kept + found.left_out.total() + found.n_strange == len(events)
    assert (found.threads.n_cut, found.streams.n_cut) == (threads, streams)


@pytest.mark.slow
def test_sampled_traces__are_refused(shared_traces):
    with pytest.raises(SourceError, match="have no collective operation in common"):
        registry.open_source(shared_traces / "kineto" / "hta_sampled_2of128")


def test_gloo__of_a_recorded_training_names_the_rank_and_the_call_path_that_sleeps(data, opened):
    """Recorded with `benchmarks/programs/torch_ddp.py FOLDER 3 1 0.02` and torch 2.13.0."""
    trace = opened(data / "kineto_gloo_3")
    assert trace.collectives.n_members.tolist() == [3] * 3
    costs = trace.analyze().frame("delay_device_nxn")
    largest = costs.sort_values("value").iloc[-1]
    assert (largest["rank"], largest["thread"]) == (1, 0)
    assert str(largest["call_path"]).endswith("SlowBackward/SlowBackward")
