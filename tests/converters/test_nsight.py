"""Exports of Nsight Systems: conversion of rows, joining of events and reports, and refused files."""

import shutil
import sqlite3

import numpy as np
import pytest
from support.nsight_writer import Export, all_to_all, messages, payload, process, small, thread

import tracecols
from tracecols.converters import intervals, registry
from tracecols.converters.base import Report, given_as
from tracecols.converters.nsight import tables
from tracecols.errors import SourceError
from tracecols.schema import NAMES

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def events_of(source, location):
    """Return time, kind and region of the events of a location."""
    regions = source.definitions["regions"]["name"]
    found = []
    for batch in source.read(location, Report()):
        columns = (batch.events[name].tolist() for name in ("time", "kind", "region"))
        found += [(t, NAMES[k], regions[r] if r >= 0 else "") for t, k, r in zip(*columns, strict=True)]
    return found


def all_of(source):
    """Return the events of all locations, and the columns of their side tables."""
    found = []
    for location in range(len(source.definitions["locations"]["id"])):
        sides = {}
        for batch in source.read(location, Report()):
            for name, table in batch.sides.items():
                for column, values in table.items():
                    sides.setdefault(f"{name}.{column}", []).extend(values.tolist())
        found.append((events_of(source, location), sides))
    return found


def source_of(export, folder, name="x.sqlite"):
    return registry.open_source(export.write(folder / name))


@pytest.fixture
def trace_of(opened, tmp_path):
    """Convert an export and open the store."""
    return lambda export: opened(export.write(tmp_path / "x.sqlite"))


def test_rows__become_regions_of_threads_and_streams(tmp_path):
    source = source_of(small(), tmp_path)
    assert source.format == "Nsight Systems 3.25.0"
    assert source.definitions["locations"]["name"] == ["main thread", "CUDA[0:7]"]
    assert events_of(source, 0) == [
        (10, "ENTER", "python3"), (10, "ENTER", "step"), (12, "ENTER", "aten::mm"), (20, "ENTER", "cudaLaunchKernel"),
        (25, "EXIT", "cudaLaunchKernel"), (40, "EXIT", "aten::mm"), (41, "ENTER", "aten::to"),
        (42, "ENTER", "cudaMemcpyAsync"), (45, "EXIT", "cudaMemcpyAsync"), (50, "ENTER", "cudaStreamSynchronize"),
        (70, "EXIT", "cudaStreamSynchronize"), (80, "EXIT", "aten::to"), (90, "EXIT", "step"), (90, "EXIT", "python3"),
    ]  # fmt: skip
    assert events_of(source, 1) == [
        (30, "ENTER", "kernel"), (60, "EXIT", "kernel"), (61, "ENTER", "[CUDA memcpy Device-to-Host]"),
        (65, "EXIT", "[CUDA memcpy Device-to-Host]"),
    ]  # fmt: skip
    assert source.definitions["locations"]["n_events"] == [14, 4]
    assert (source.clock.origin, source.clock.length, source.clock.realtime) == (10, 80, 1_000_010)


def test_rows__are_kept_or_counted(tmp_path):
    export = small().call(20, 25, "backtrace", 5, kind=67).range(1, 2, "mark", kind=34).range(3, 9, "open", kind=60)
    export.row("OSRT_API", start=1, end=5, globalTid=thread(1), nameId=0)
    export.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=9, end=3, eventClass=0, globalTid=thread(1), nameId=0)
    export.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=None, end=3, eventClass=0, globalTid=thread(1), nameId=0)
    export.row("ENUM_NSYS_EVENT_TYPE", id=34, label="NvtxMark")
    found = source_of(export, tmp_path).properties
    assert found["rows"] == {
        "CUPTI_ACTIVITY_KIND_RUNTIME": 3, "CUPTI_ACTIVITY_KIND_KERNEL": 1, "CUPTI_ACTIVITY_KIND_MEMCPY": 1,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": 1, "NVTX_EVENTS": 3,
    }  # fmt: skip
    assert found["left out"] == {
        "CUPTI_ACTIVITY_KIND_RUNTIME of class 67": 1, "CUPTI_ACTIVITY_KIND_RUNTIME without valid times": 2,
        "NVTX_EVENTS of type 60": 1, "NVTX_EVENTS of type NvtxMark": 1, "OSRT_API": 1,
    }  # fmt: skip


def test_copies__without_a_recorded_call_are_no_time_of_the_program(trace_of):
    export = Export()
    for k in range(10):
        if k % 2:
            export.call(100 * k, 100 * k + 2, "cudaMemcpyAsync_v3020", k)
        export.copy(100 * k + 2, 100 * k + 101, 8, correlation=k)
    export.call(1000, 1002, "cudaDeviceSynchronize_v3020", 20)
    found = trace_of(export).analyze().diagnosis().findings
    (busy,) = (f.what for f in found if f.property == "device_copies" and "busy" in f.what)
    assert busy.endswith("copies determine the runtime, longest cudaMemcpyAsync (50%)")


def test_calls__are_joined_with_what_they_ask_for_within_a_process(trace_of):
    export = Export()
    for pid in (1, 2):
        where = {"pid": pid, "device": pid - 1, "context": pid}
        # the launch of the first kernel is not recorded; both processes use the same numbers
        export.range(10, 90, f"call {pid}", pid).kernel(5, 6, correlation=4, **where)
        export.call(20, 22, correlation=5, pid=pid).kernel(30, 40, "a", 5, **where)
        export.call(23, 24, "cudaGraphLaunch_v10000", 6, pid).kernel(40, 50, "b", 6, **where).kernel(
            50, 55, "c", 6, **where
        )
        export.call(25, 26, "cudaMemcpyAsync_v3020", 7, pid).copy(60, 70, 64, 8, 7, **where)
        export.call(27, 28, "cudaMemsetAsync_v3020", 8, pid).memset(70, 71, 32, 8, **where)
    model = trace_of(export).model
    kernels, copies = model.kernels, model.copies
    assert sorted(zip(kernels.enter_time.tolist(), kernels.launch_enter_time.tolist(), strict=True)) == sorted(
        [(5, -1), (30, 20), (40, 23), (50, 23)] * 2
    )
    assert (kernels.launch_location != kernels.location).all()
    assert kernels.counts["kernels without a launch"] == 2
    assert copies.copy_enter_time.tolist() == [25, 27] * 2 or sorted(copies.copy_enter_time.tolist()) == [
        25,
        25,
        27,
        27,
    ]
    assert (sorted(copies.bytes.tolist()), set(copies.direction.tolist())) == ([32, 32, 64, 64], {3})


def test_synchronisations__wait_for_the_stream_of_their_row(trace_of):
    export = small()
    # another stream works longer; rows of calls name device 0, whatever the device of the context
    export.call(46, 47, correlation=9).kernel(48, 69, "other", 9, stream=9)
    model = trace_of(export).model
    (stream,) = model.device_syncs.stream.tolist()
    assert model.locations.device_names == ("CUDA[0]",)
    assert (stream, model.device_syncs.cause_end_time.tolist()) == (1, [65])


@pytest.mark.parametrize(("flag", "end"), [(1, 69), (2, 65)])
@pytest.mark.parametrize("has_null", [False, True])
def test_synchronisations__of_the_null_stream_wait_for_those_that_block_with_it(trace_of, flag, end, has_null):
    export = small().call(46, 47, correlation=9).kernel(48, 69, "other", 9, stream=9)
    for stream, kind in ((9, flag), *([(7, 3)] if has_null else [])):
        export.row("TARGET_INFO_CUDA_STREAM", streamId=stream, processId=1, contextId=1, flag=kind)
    assert trace_of(export).model.device_syncs.cause_end_time.tolist() == [end]


@pytest.mark.parametrize("meta", ["EXPORT_META_DATA", "META_DATA_EXPORT"])
def test_versions__columns_that_are_missing_are_null(tmp_path, meta):
    export = Export(meta)
    export.call(20, 25, correlation=5).kernel(30, 60, correlation=5)
    for row in export.tables["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        del row["eventClass"]
    for row in export.tables["CUPTI_ACTIVITY_KIND_KERNEL"]:
        del row["shortName"]
    export.tables["CUPTI_ACTIVITY_KIND_KERNEL_V2"] = export.tables.pop("CUPTI_ACTIVITY_KIND_KERNEL")
    source = source_of(export, tmp_path)
    assert [e[2] for e in events_of(source, 0)] == ["program", "cudaLaunchKernel", "cudaLaunchKernel", "program"]
    assert [e[2] for e in events_of(source, 1)] == ["void kernel(int)"] * 2


def test_versions__without_enumerations_know_the_direction_of_copies(tmp_path):
    export = small().copy(70, 72, 8, 10).copy(75, 76, 8, 99)
    expected = events_of(source_of(export, tmp_path), 1)
    assert [e[2] for e in expected if e[1] == "ENTER"][1:] == [
        "[CUDA memcpy Device-to-Host]", "[CUDA memcpy Peer-to-Peer]", "[CUDA memcpy 99]",
    ]  # fmt: skip
    del export.tables["ENUM_CUDA_MEMCPY_OPER"]
    assert events_of(source_of(export, tmp_path), 1) == expected


def test_texts__that_are_missing_are_told(tmp_path):
    path = small().write(tmp_path / "x.sqlite")
    assert not any("StringIds" in note for note in registry.open_source(path).properties.get("notes", ()))
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE StringIds")
    file.close()
    source = registry.open_source(path)
    assert source.properties["notes"][0].startswith("x.sqlite has no texts (table StringIds)")
    assert any(name.startswith("unknown ") for name in source.definitions["regions"]["name"])


def test_parquet__is_the_same_as_sqlite(tmp_path):
    for k, export in enumerate((small(), all_to_all())):
        folder = tmp_path / str(k)
        folder.mkdir()
        export.write_parquet(folder / "report_pqtdir")
        sqlite, parquet = source_of(export, folder), registry.open_source(folder / "report_pqtdir")
        assert all_of(sqlite) == all_of(parquet)
        assert sqlite.definitions == parquet.definitions
        assert sqlite.properties == parquet.properties


def test_content__tells_the_format_whatever_the_name(tmp_path):
    small().write(tmp_path / "report.db")
    assert registry.open_source(tmp_path / "report.db").format == "Nsight Systems 3.25.0"
    with sqlite3.connect(tmp_path / "other.db") as file:
        file.execute("CREATE TABLE t (a INTEGER)")
    file.close()
    with pytest.raises(SourceError, match="is not a trace that tracecols reads"):
        registry.open_source(tmp_path / "other.db")


def test_files__are_read_where_nothing_can_be_written(tmp_path):
    path = small().write(tmp_path / "x.sqlite")
    before = path.read_bytes()
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert registry.open_source(path).properties["rows"]["NVTX_EVENTS"] == 3
        assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite"]
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == before


def test_order__of_rows_does_not_matter_nor_how_many_are_in_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(7)
    export, time = Export(), 0
    for k in range(300):
        time += int(rng.integers(1, 9))
        export.range(time, time + 50, f"outer {k % 5}").range(time, time + 20, "inner")
        export.call(time, time + 1, correlation=k).kernel(time + 2, time + 40, correlation=k)
        time += 50
    expected = all_of(source_of(export, tmp_path))
    for name in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"):
        rng.shuffle(export.tables[name])
    monkeypatch.setattr(intervals, "SORTED_AT_ONCE", 64)
    monkeypatch.setattr(intervals, "ROWS", 32)
    monkeypatch.setattr(tables, "ROWS", 50)
    assert all_of(source_of(export, tmp_path)) == expected


@pytest.mark.parametrize("column", ["start", "end"])
def test_times__that_an_export_lacks_are_those_of_no_row(opened, tmp_path, column):
    path = small().write(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as file:
        file.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    file.close()
    store = opened(path).store
    assert store.manifest["source"]["left out"]["CUPTI_ACTIVITY_KIND_KERNEL without valid times"] == 1


def test_ranges__without_a_name_are_named_so(tmp_path):
    source = source_of(small().range(0, 90, None), tmp_path)
    assert "unnamed" in source.definitions["regions"]["name"] and "" not in source.definitions["regions"]["name"]


def test_ranges__of_imported_files_are_ranges(tmp_path):
    source = source_of(small().range(0, 90, "imported", kind=70).range(0, 90, None, kind=76), tmp_path)
    assert "imported" in source.definitions["regions"]["name"]
    assert not any("NVTX" in what for what in source.properties.get("left out", {}))


def test_ranges__that_are_not_closed_last_to_the_end(tmp_path):
    export = Export().range(-30, None, "all").range(-20, -10, "before").range(5, None, "last")
    assert events_of(source_of(export, tmp_path), 0) == [
        (-30, "ENTER", "program"), (-30, "ENTER", "all"), (-20, "ENTER", "before"), (-10, "EXIT", "before"),
        (5, "ENTER", "last"), (5, "EXIT", "last"), (5, "EXIT", "all"), (5, "EXIT", "program"),
    ]  # fmt: skip


def test_overlaps__are_cut_and_counted(tmp_path):
    export = Export().range(0, 20, "a").range(10, 30, "b").range(40, 50, "c")
    # kernels of a stream may not overlap; the kernel of an operation keeps its times, the others are cut
    export.kernel(0, 10, "k").kernel(8, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL").kernel(15, 25, "l")
    source = source_of(export, tmp_path)
    assert [e[:2] for e in events_of(source, 0) if e[2] == "b"] == [(10, "ENTER"), (20, "EXIT")]
    assert [(t, r) for t, k, r in events_of(source, 1) if k in ("ENTER", "EXIT")] == [
        (0, "k"), (8, "k"), (8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        (20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), (20, "l"), (25, "l"),
    ]  # fmt: skip
    found = source.properties
    assert (found["kernels that overlapped on a stream"], found["nanoseconds cut off kernels"]) == (2, 2 + 5)
    assert found["ranges and calls that overlapped on a thread"] == 1


# -- operations of NCCL ------------------------------------------------------------------------------------------------


def test_all_to_all__waits_for_the_last_rank(trace_of):
    trace = trace_of(all_to_all(late=30, ranks=3, instances=4))
    assert trace.store.manifest["source"]["operations of NCCL"] == 4
    regions = trace.store.definitions["regions"].to_pydict()
    at = regions["name"].index("ncclDevKernel_SendRecv", regions["name"].index("ncclDevKernel_SendRecv") + 1)
    assert (regions["canonical_name"][at], regions["role"][at], regions["paradigm"][at]) == (
        "ncclAlltoAll", "coll_all2all", "nccl",
    )  # fmt: skip
    # ranks 0 and 1 wait 30 ns in each
    assert int(trace.analyze(properties=["nccl_wait_nxn"]).cells["nccl_wait_nxn"].value.sum()) == 2 * 4 * 30
    assert any("each counts as 1 byte" in note for note in trace.store.manifest["source"]["notes"])


@pytest.mark.parametrize(
    "name",
    [
        "ncclAllReduceRingLLKernel_sum_f32", "ncclKernel_AllReduce_RING_LL_Sum_float",
        "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16", "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32",
    ],
)  # fmt: skip
def test_operations__are_known_by_the_names_of_kernels_of_all_versions(trace_of, name):
    export = Export()
    for pid, begin in ((1, 10), (2, 40)):
        export.call(begin - 5, begin - 2, correlation=1, pid=pid)
        export.kernel(begin, 100, name, 1, pid=pid, device=pid - 1, context=pid)
    trace = trace_of(export)
    assert trace.collectives[["op_name", "n_members", "latest_begin_time"]].to_dict("records") == [
        {"op_name": "allreduce", "n_members": 2, "latest_begin_time": 40}
    ]


def test_operations__with_payloads_know_communicator_bytes_and_root(tmp_path):
    export = Export().schemas()
    for rank in (0, 1):
        pid, where = 9 - rank, {"pid": 9 - rank, "device": 1 - rank, "context": 1}
        export.range(1, 2, "ncclCommInitRank", pid, domain=1, payload=payload(0, 77, 2, rank, 0))
        for k, (schema, name, given) in enumerate(
            (
                (5, "AllReduce", (77, 4096)),
                (6, "Broadcast", (77, 64, 1)),
                (4, "AllGather", (77, 8)),
                (16, "AlltoAll", (77, 8)),
                (17, "Gather", (77, 8, 1)),
                (18, "Scatter", (77, 8, 1)),
            )
        ):
            at = 100 * k + 10
            data = payload(schema, *given, *([0] if len(given) == 2 else []))
            export.range(at, at + 20, f"nccl{name}", pid, domain=1, payload=data)
            export.call(at + 1, at + 2, correlation=k, pid=pid)
            kernel = "ncclDevKernel_SendRecv" if schema > 10 else f"ncclDevKernel_{name}_RING_LL"
            export.kernel(at + 5, at + 50, kernel, k, **where)
    source = source_of(export, tmp_path)
    # processes are ordered by rank in the communicator, not by process identifier
    assert source.definitions["processes"]["rank"] == [0, 1]
    assert [source.definitions["properties"]["value"][i] for i in range(2)] == ["9", "8"]
    (members,) = source.definitions["communicators"]["members"]
    assert [source.definitions["locations"]["process"][m] for m in members] == [0, 1]
    for location in members:
        sides = all_of(source)[location][1]
        ends = [i for i, op in enumerate(sides["collectives.op"]) if op >= 0]
        found = [[sides[f"collectives.{c}"][i] for i in ends] for c in ("root", "sent", "received")]
        assert found == [[-1, 1, -1, -1, 1, 1], [4096, 64, 8, 16, 8, 16], [4096, 64, 16, 16, 16, 8]]


def test_groups__of_sends_and_receives_to_all_are_all_to_all(opened, tmp_path):
    export = Export().schemas()
    for rank in (0, 1):
        where = {"pid": rank + 1, "device": rank, "context": 1}
        for peer in (0, 1):
            export.range(10, 11, "ncclSend", rank + 1, domain=1, payload=payload(9, 5, 100, peer))
            export.range(12, 13, "ncclRecv", rank + 1, domain=1, payload=payload(10, 5, 100, peer))
        export.range(14, 20, "ncclGroupEnd", rank + 1, domain=1)
        export.call(15, 16, correlation=1, pid=rank + 1).kernel(20, 30, "ncclDevKernel_SendRecv", 1, **where)
        # a single message is no collective operation: its receiver is late
        export.range(
            40, 41, "ncclSend" if rank else "ncclRecv", rank + 1, domain=1, payload=payload(10 - rank, 5, 8, 1 - rank)
        )
        export.call(42, 43, correlation=2, pid=rank + 1)
        export.kernel(57 - 7 * rank, 60, "ncclDevKernel_SendRecv", 2, **where)
    source = source_of(export, tmp_path)
    assert source.properties["operations of NCCL"] == 1
    assert "kernels of NCCL that belong to no operation" not in source.properties
    trace = opened(tmp_path / "x.sqlite")
    assert trace.frame("messages", raw=True).length.tolist() == [8]
    assert trace.analyze().cells["nccl_latereceiver"].value.tolist() == [7]
    sides = all_of(source)[1][1]
    assert (sides["collectives.sent"][1], sides["collectives.received"][1]) == (200, 200)


@pytest.mark.parametrize("first", [0, 2])
def test_messages__without_payloads_are_those_of_ranges_that_name_ranks(opened, tmp_path, first):
    """Rank 0 sends, late, and receives; ranges of other groups name other ranks."""
    export = Export()
    for rank in (0, 1):
        for k, what in enumerate(("send", "recv") if rank == 0 else ("recv", "send")):
            at, arrow = 10 + 100 * k, "->" if what == "send" else "<-"
            text = f"nccl:{what} {first + rank}{arrow}{first + 1 - rank}, op_id = {k}"
            export.range(at, at + 8, text, rank + 1).call(at + 5, at + 6, correlation=k, pid=rank + 1)
            late = 7 if rank == k else 0
            export.kernel(at + 10 + late, at + 30, "ncclDevKernel_SendRecv", k, pid=rank + 1, device=rank)
    source = source_of(export, tmp_path)
    assert source.properties.get("kernels of NCCL that belong to no operation", 0) == (4 if first else 0)
    trace = opened(tmp_path / "x.sqlite")
    assert trace.frame("messages", raw=True).length.tolist() == ([] if first else [1, 1])
    assert first or trace.analyze().cells["nccl_latesender"].value.sum() == 14


def test_operations__that_do_not_overlap_are_not_joined(tmp_path):
    export = all_to_all(late=0)
    for row in export.tables["CUPTI_ACTIVITY_KIND_KERNEL"]:
        if row["globalPid"] == process(2):
            row["start"], row["end"] = row["start"] + 500, row["end"] + 500
    found = source_of(export, tmp_path).properties
    assert found["kernels of NCCL that belong to no operation"] == 6
    assert "6 kernels of NCCL cannot be joined with those of other ranks" in found["notes"]


def test_groups__of_operations_in_one_kernel_send_the_bytes_of_all(tmp_path):
    export = Export().schemas()
    for rank in (0, 1):
        for k, size in enumerate((100, 28)):
            data = payload(5, 5, size, 0)
            export.range(10 + 2 * k, 11 + 2 * k, "ncclAllReduce", rank + 1, domain=1, payload=data)
        export.range(14, 20, "ncclGroupEnd", rank + 1, domain=1)
        export.call(15, 16, correlation=1, pid=rank + 1)
        export.kernel(20, 30, ALL_REDUCE, 1, pid=rank + 1, device=rank, context=1)
    sides = all_of(source_of(export, tmp_path))[1][1]
    assert (sides["collectives.sent"][1], sides["collectives.received"][1]) == (128, 128)


@pytest.mark.parametrize("has_payloads", [False, True])
def test_operations__on_several_devices_of_a_process_are_not_joined(tmp_path, has_payloads):
    export = Export().schemas() if has_payloads else Export()
    for device, begin in ((0, 10), (1, 40)):
        if has_payloads:
            export.range(begin - 8, begin - 1, "ncclAllReduce", tid=2 + device, domain=1, payload=payload(5, 77, 64, 0))
        export.call(begin - 5, begin - 2, correlation=device, tid=2 + device)
        export.kernel(begin, 100, ALL_REDUCE, device, device=device, context=device)
    source = source_of(export, tmp_path)
    assert "operations of NCCL" not in source.properties
    assert any(
        note.startswith("2 kernels of NCCL are of processes with several") for note in source.properties["notes"]
    )
    assert not source.definitions["communicators"]["id"]


def test_operations__of_a_single_rank_are_told(tmp_path):
    notes = source_of(all_to_all(ranks=1), tmp_path).properties["notes"]
    assert any(note.startswith("3 kernels of NCCL have no others to be joined with") for note in notes)


def test_operations__launched_before_the_recording_are_left_out_where_others_lack_them(tmp_path):
    export = all_to_all(instances=3)
    export.kernel(-900, -850, "ncclDevKernel_SendRecv", 99, pid=1, device=0, context=1)
    found = source_of(export, tmp_path).properties
    assert (found["operations of NCCL"], found["kernels of NCCL left out at the begin"]) == (3, 1)


# -- MPI ---------------------------------------------------------------------------------------------------------------


def test_mpi__messages_requests_and_operations(trace_of):
    trace = trace_of(messages())
    assert trace.store.definitions["processes"]["rank"].to_pylist() == [0, 1]
    found = trace.messages
    assert sorted(zip(found.tag, found.length, found.send_location, found.recv_location, strict=True)) == [
        (4, 64, 0, 1), (5, 8, 0, 1), (5, 8, 1, 0),
    ]  # fmt: skip
    # the receive of rank 1 begins at 5, the send of rank 0 at 20
    assert int(trace.analyze(properties=["mpi_latesender"]).cells["mpi_latesender"].value.sum()) == 15
    operations = trace.collectives.to_dict("records")
    assert [(o["op_name"], o["n_members"], o["latest_begin_time"]) for o in operations] == [
        ("allreduce", 2, 70), ("bcast", 2, 81),
    ]  # fmt: skip
    # the last definition of the handle before the call is used: in it rank 1 is the first member
    members = trace.collective_members
    bcast = members[members.collective == 1]
    assert dict(zip(bcast.location, bcast["rank"], strict=True)) == {0: 1, 1: 0}
    assert dict(zip(bcast.location, bcast.is_root, strict=True)) == {0: False, 1: True}
    facts = trace.store.manifest["source"]
    assert facts["messages and operations of MPI with unknown partners"] == 2
    assert facts["rows"]["MPI_START_WAIT_EVENTS"] == 6
    regions = trace.store.definitions["regions"].to_pydict()
    roles = dict(zip(regions["name"], zip(regions["role"], regions["paradigm"], strict=True), strict=True))
    assert roles["MPI_Allreduce"] == ("coll_all2all", "mpi")


def test_mpi__ranks_are_kept_beside_processes_without_a_rank(opened, tmp_path, trace_of):
    """A rank may start other programs, with ranges or kernels of their own."""
    expected = trace_of(messages()).messages
    export = messages().range(0, 5, "helper", pid=0)
    trace = opened(export.write(tmp_path / "y.sqlite"))
    assert trace.store.definitions["processes"]["rank"].to_pylist() == [0, 1, 2]
    columns = ["tag", "length", "send_location", "recv_location"]
    assert trace.messages[columns].to_dict("list") == expected[columns].to_dict("list")
    # it ran for 5 ns, and is not said to compute from begin to end
    assert [event[0] for event in events_of(registry.open_source(tmp_path / "y.sqlite"), 2)] == [0, 0, 5, 5]
    assert [note for note in trace.store.manifest["source"]["notes"] if "rank" in note] == [
        "1 process without a rank: numbered after the others, in the order of their identifiers"
    ]


def test_mpi__partners_are_ranks_in_the_run_if_only_some_reports_are_given(opened, tmp_path):
    """Ranks 1 and 2 of 4 send to the next rank, receive from the previous one, and broadcast from rank 2."""
    paths = []
    for rank in (1, 2):
        export = Export().row("MPI_RANKS", globalTid=thread(1), rank=rank)
        export.row(
            "MPI_COMMUNICATORS", rank=rank, timestamp=0, commHandle=5, localRank=rank, size=4, groupRoot=0, groupRootUid=1
        )  # fmt: skip
        export.mpi(0, 10, "MPI_Send", 1, "P2P", commHandle=5, tag=0, remoteRank=rank + 1, size=100 + rank)
        export.mpi(10, 20, "MPI_Recv", 1, "P2P", commHandle=5, tag=0, remoteRank=rank - 1, size=99 + rank)
        export.mpi(30, 40, "MPI_Bcast", 1, "COLLECTIVES", commHandle=5, rootRank=2, size=8, recvSize=8)
        paths.append(export.write(tmp_path / f"{rank}.sqlite"))
    trace = opened(paths)
    found = trace.messages
    assert list(zip(found.length, found.send_location, found.recv_location, strict=True)) == [(101, 0, 1)]
    members = trace.collective_members
    assert dict(zip(members.location, members.is_root, strict=True)) == {0: False, 1: True}
    assert "2 of 4 ranks are given: waits for other ranks are lower bounds" in trace.store.manifest["source"]["notes"]


def test_mpi__handles_of_messages_are_reused_by_other_requests(tmp_path):
    """The Isend ends in the first MPI_Wait; the second one is for a collective operation with the same handle."""
    export = Export().row("MPI_RANKS", globalTid=thread(1), rank=0)
    peer = {"commHandle": 5, "tag": 0, "remoteRank": 0, "size": 8}
    export.mpi(0, 1, "MPI_Isend", 1, "P2P", **peer, requestHandle=7)
    export.mpi(2, 3, "MPI_Wait", 1, "START_WAIT", requestHandle=7)
    export.mpi(4, 5, "MPI_Iallreduce", 1, "COLLECTIVES", commHandle=5, size=8, recvSize=8, requestHandle=7)
    export.mpi(6, 9, "MPI_Wait", 1, "START_WAIT", requestHandle=7)
    events = events_of(source_of(export, tmp_path), 0)
    assert [time for time, kind, _ in events if kind == "MPI_ISEND_COMPLETE"] == [3]


def test_mpi__non_blocking_operations_wait_where_they_are_completed(tmp_path, trace_of):
    export = Export()
    for rank, (start, wait) in enumerate(((10, 20), (50, 52))):
        export.row("MPI_RANKS", globalTid=thread(rank + 1), rank=rank)
        given = {"commHandle": 5, "size": 8, "recvSize": 8, "requestHandle": 7}
        export.mpi(start, start + 1, "MPI_Iallreduce", rank + 1, "COLLECTIVES", **given)
        export.mpi(wait, 60, "MPI_Wait", rank + 1, "START_WAIT", requestHandle=7)
    trace = trace_of(export)
    assert trace.analyze().cells["mpi_nonblocking_collective_wait"].value.tolist() == [30]
    del export.tables["MPI_START_WAIT_EVENTS"], given["requestHandle"]
    export.mpi(70, 71, "MPI_Ibarrier", 1, "COLLECTIVES", commHandle=5)
    source = source_of(export, tmp_path)
    assert source.properties["messages and operations of MPI with unknown partners"] == 1


def test_mpi__messages_that_rows_do_not_describe_are_counted(tmp_path):
    """A row has one partner and one size, but MPI_Sendrecv has two; those of persistent requests are in other rows."""
    export = Export().row("MPI_RANKS", globalTid=thread(1), rank=0)
    peer = {"commHandle": 5, "tag": 0, "remoteRank": 0, "size": 8}
    export.mpi(0, 1, "MPI_Sendrecv", 1, "P2P", **peer)
    export.mpi(2, 3, "MPI_Send_init", 1, "P2P", **peer, requestHandle=7)
    export.mpi(4, 5, "MPI_Start", 1, "START_WAIT", requestHandle=7)
    export.mpi(6, 9, "MPI_Wait", 1, "START_WAIT", requestHandle=7)
    source = source_of(export, tmp_path)
    assert source.properties["messages and operations of MPI with unknown partners"] == 2
    assert [note.split(" (")[0] for note in source.properties["notes"]] == [
        "partners or communicators of 2 calls of MPI are not recorded"
    ]


@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize(("handles", "known"), [((5, 5), True), ((5, 6), False)])
def test_mpi__several_communicators_that_cannot_be_related_are_not_the_world(tmp_path, handles, known, has_rows):
    """Two operations of two ranks; exports may lack the table of communicators, or its columns that relate them."""
    export = Export()
    for pid in (1, 2):
        export.row("MPI_RANKS", globalTid=thread(pid), rank=pid - 1)
        for time, handle in zip((10, 30), handles, strict=True):
            export.mpi(time, time + 5, "MPI_Barrier", pid, "COLLECTIVES", commHandle=handle)
            if has_rows:
                export.row("MPI_COMMUNICATORS", rank=pid - 1, timestamp=0, commHandle=handle, localRank=pid - 1, size=2)
    source = source_of(export, tmp_path)
    assert source.properties.get("messages and operations of MPI with unknown partners", 0) == (0 if known else 4)


def test_mpi__calls_may_be_divided(tmp_path, monkeypatch):
    expected = all_of(source_of(messages(), tmp_path))
    monkeypatch.setattr(tables, "ROWS", 1)
    assert all_of(source_of(messages(), tmp_path)) == expected


def test_mpi__ranges_of_older_versions_are_calls(tmp_path):
    export = Export("EXPORT_META_DATA")
    for pid, rank in ((1, 1), (2, 0)):
        export.range(0, 0, "MPI", pid, kind=75, domain=3).range(0, 0, f"MPI Rank {rank}", pid, kind=39)
        export.range(5, 9, "MPI_Barrier", pid, domain=3, registered=True)
    source = source_of(export, tmp_path)
    pids = [
        v for v, n in zip(*(source.definitions["properties"][c] for c in ("value", "name")), strict=True) if n == "pid"
    ]
    assert pids == ["2", "1"]
    regions = source.definitions["regions"]
    assert ("MPI_Barrier", "barrier", "mpi") in zip(regions["name"], regions["role"], regions["paradigm"], strict=True)
    noted = [
        any(note.startswith("calls of MPI are recorded as ranges") for note in one.properties["notes"])
        for one in (source, source_of(messages(), tmp_path))
    ]
    assert noted == [True, False]


# -- several reports ---------------------------------------------------------------------------------------------------


def test_reports__of_one_run_have_a_common_time(opened, tmp_path):
    both = all_to_all()
    single = opened(both.write(tmp_path / "both.sqlite"))
    paths = []
    for rank in (0, 1):
        # each report counts time from its own begin
        export, shift = Export(utc=1_000_000 + 10 * rank), 10 * rank
        export.strings, export.tables["StringIds"] = both.strings, both.tables["StringIds"]
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"):
            for row in both.tables[table]:
                if (row.get("globalTid") or row.get("globalPid")) >> 24 & 0xFFFFFF == rank + 1:
                    # the same process identifier on two nodes
                    moved = {k: v - (rank << 24) for k, v in row.items() if k.startswith("global")}
                    export.row(table, **{**row, **moved, "start": row["start"] - shift, "end": row["end"] - shift})
        paths.append(export.write(tmp_path / f"{rank}.sqlite"))
    source = registry.open_source(paths)
    assert source.path == tmp_path
    assert [e[:2] for e in events_of(source, 0)] == [
        e[:2] for e in events_of(registry.open_source(tmp_path / "both.sqlite"), 0)
    ]
    assert source.properties["operations of NCCL"] == single.store.manifest["source"]["operations of NCCL"] == 3
    assert source.clock == registry.open_source(tmp_path / "both.sqlite").clock
    # hosts without names may be different ones
    assert any("2 hosts" in note and "UTC" in note for note in source.properties["notes"])


def test_reports__of_one_run_in_a_folder_are_one_trace(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    paths = [small().write(folder / f"{name}.sqlite") for name in "ab"]
    (folder / "notes.txt").write_text("of the run")
    given, found = registry.open_source(paths), registry.open_source(folder)
    assert found.path == folder
    assert found.definitions == given.definitions
    assert found.properties == given.properties
    # a single report in a folder is known by its own name
    paths[1].unlink()
    assert registry.find_anchor(folder) == paths[0]


def test_reports__of_a_folder_that_are_damaged_are_noted(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in "abcd":
        small().write(folder / f"{name}.sqlite")
    (folder / "b.sqlite").write_bytes(b"")
    (folder / "d.sqlite").write_bytes((folder / "c.sqlite").read_bytes()[:300])
    notes = registry.open_source(folder).properties["notes"]
    assert notes[-1] == "left out: b.sqlite, d.sqlite (are no traces of this format, or damaged)"


def test_reports__of_one_host_are_on_one_node(tmp_path):
    paths = []
    for name, host in (("a", "n1"), ("b", "n2"), ("c", "n1")):
        export = small().row("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=host)
        paths.append(export.write(tmp_path / f"{name}.sqlite"))
    found = registry.open_source(paths).definitions
    assert found["system_tree_nodes"]["name"] == ["machine", "n1", "n2"]
    assert found["processes"]["node"] == [1, 2, 1]
    # of three reports in a folder, workers open those that are given
    assert given_as(registry.open_source(paths[1:])) == tuple(paths[1:])


def test_reports__without_the_time_of_day_are_refused(tmp_path):
    export = small()
    first = export.write(tmp_path / "a.sqlite")
    del export.tables["TARGET_INFO_SESSION_START_TIME"]
    with pytest.raises(SourceError, match="several reports have no common time"):
        registry.open_source([first, export.write(tmp_path / "b.sqlite")])


# -- refused files -----------------------------------------------------------------------------------------------------


def test_times__that_were_changed_by_the_export_are_refused(tmp_path):
    for fact in ({"EXPORT_PARAM_TIME_NORMALIZE": "true"}, {"EXPORT_PARAM_TIME_SHIFT": "500"}):
        export = Export(**fact).call(1, 2)
        with pytest.raises(SourceError, match="export the report again without --ts-"):
            source_of(export, tmp_path)


def test_damage__is_an_error(tmp_path):
    path = small().write(tmp_path / "x.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"cannot read .*x\.sqlite"):
        registry.open_source(path)
    with pytest.raises(SourceError, match="there is no table of events"):
        source_of(Export(), tmp_path)
    export = small()
    export.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0]["start"] = "soon"
    with pytest.raises(SourceError, match="column start"):
        source_of(export, tmp_path)
    folder = small().write_parquet(tmp_path / "p")
    (folder / "NVTX_EVENTS.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(SourceError, match=r"NVTX_EVENTS\.parquet"):
        registry.open_source(folder)
    shutil.rmtree(folder)


def test_damage__of_texts_in_the_database_is_an_error(tmp_path):
    """SQLite quotes what is wrong, and that need not be text."""
    path = small().write(tmp_path / "x.sqlite")
    data = path.read_bytes().replace(b"NVTX_EVENTS", b"NVTX_\xffVENTS")
    path.write_bytes(data.replace(b"CREATE TABLE NVTX", b"CREATE TABEL NVTX"))
    with pytest.raises(SourceError, match=r"x\.sqlite"):
        registry.open_source(path)


@pytest.mark.parametrize("utc", [(1 << 63) - 1, 1 << 61, -5])
def test_times__of_day_that_are_impossible_are_unknown(opened, tmp_path, utc):
    export = small()
    export.tables["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"] = utc
    trace = opened(export.write(tmp_path / "x.sqlite"))
    assert trace.manifest["clock"]["realtime"] == -1


# -- recorded ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernels", "calls", "copies"),
    [
        ("h100_2gpu_1s", (3_442, 44_829_522), (5_796, 1_799_142_046), 904),
        ("mfu_2gpu_before", (4_010, 535_200_650), (7_466, 370_168_989), 1_020),
    ],
)
def test_recorded__totals_are_those_of_the_tables(shared_traces, tmp_path, name, kernels, calls, copies):
    path = tracecols.convert(shared_traces / f"nsight/{name}.sqlite", tmp_path / "x.trace")
    trace = tracecols.open(path)
    found = trace.model.kernels
    cut = trace.store.manifest["source"].get("nanoseconds cut off kernels", 0)
    assert (len(found), int((found.exit_time - found.enter_time).sum()) + cut) == kernels
    cube = trace.analyze(properties=["device_api", "device_copy_ops"])
    assert int(cube.cells["device_api"].value.sum()) == calls[1]
    rows = trace.store.manifest["source"]["rows"]
    assert (rows["CUPTI_ACTIVITY_KIND_RUNTIME"], rows["CUPTI_ACTIVITY_KIND_MEMCPY"]) == (calls[0], copies)
    assert found.counts["kernels that begin before their launch"] == 0


@pytest.mark.slow
def test_recorded__waits_of_all_to_all(shared_traces, opened):
    trace = opened(shared_traces / "nsight/mfu_2gpu_before.sqlite")
    cells = trace.analyze(properties=["nccl_wait_nxn"]).cells["nccl_wait_nxn"]
    by_location = [int(cells.value[cells.location == i].sum()) for i in np.unique(cells.location).tolist()]
    assert [round(ns / 1e6, 3) for ns in by_location] == [10.898, 2.477]
    assert trace.store.manifest["source"]["operations of NCCL"] == 33
