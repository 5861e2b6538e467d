"""Write small traces of the PyTorch profiler: single events, and random runs as the profiler records them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

HOST, AUTOGRAD = 100, 101
"""Threads of each process; the first is its main thread."""


class Trace:
    """The trace of one rank; times are texts or numbers of microseconds.

    Parameters
    ----------
    rank, world : int
    **head
        Entries of the file besides the events.
    """

    def __init__(self, rank=0, world=1, **head):
        self.rank = rank
        self.head = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
            **head,
        }
        self.events = []
        self.correlation = 0

    def add(self, ph, cat, name, pid, tid, ts, **more):
        """Add any event; further fields, such as `args`, are written unchanged."""
        event = {"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": ts, **more}
        self.events.append({**event, "cat": cat} if cat is not None else event)
        return self

    def host(self, begin, end, name, cat="cpu_op", tid=HOST, **args):
        """Add a slice of a thread."""
        return self.add("X", cat, name, HOST, tid, begin, dur=round(end - begin, 3), args=args)

    def step(self, number, begin, end):
        """Add a training step."""
        return self.host(begin, end, f"ProfilerStep#{number}", "user_annotation")

    def device(self, begin, end, name, cat="kernel", stream=7, **args):
        """Add a slice of a stream."""
        return self.add("X", cat, name, 0, stream, begin, dur=round(end - begin, 3), args=args)

    def launch(self, call, begin, end, name, what="cudaLaunchKernel", cat="kernel", stream=7, tid=HOST, **args):
        """Add a call of 2 us and the work on a stream that it launches."""
        self.correlation += 1
        self.host(call, call + 2, what, "cuda_runtime", tid, correlation=self.correlation)
        return self.device(begin, end, name, cat, stream, correlation=self.correlation, **args)

    def text(self, indent=None):
        """Return the text of the file."""
        return json.dumps({**self.head, "traceEvents": self.events}, indent=indent)

    def write(self, path, indent=None):
        """Write the file, compressed if its name ends in .gz."""
        text = self.text(indent).encode()
        path.write_bytes(gzip.compress(text) if path.name.endswith(".gz") else text)
        return path


def nccl(op="allreduce", n=64, group="0", **more):
    """Return the arguments that torch records for a collective operation."""
    return {
        "Collective name": op, "In msg nelems": n, "Out msg nelems": n, "dtype": "Float", "Group size": 2,
        "Process Group Name": group, "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", **more,
    }  # fmt: skip


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def two_ranks(given=nccl, kernel=ALL_REDUCE):
    """Return a run of two ranks: rank 0 waits for 30 us in the first operation, rank 1 for 5 us in the second."""
    traces = []
    for rank, calls in enumerate(((10, 60), (40, 55))):
        trace = Trace(rank, 2).step(3, 0, 100)
        for k, (call, begin, end) in enumerate(zip(calls, ((12, 62), (42, 57))[rank], (50, 70), strict=True)):
            trace.launch(call, begin, end, kernel, stream=20, **(given(Seq=k) if given is not None else {}))
        traces.append(trace)
    return traces


def write_run(folder: Path, traces, ending=".json"):
    """Write a file for each rank into a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    for trace in traces:
        trace.write(folder / f"rank{trace.rank}{ending}")
    return folder


def random_run(seed: int, n_ranks: int, n_steps: int):
    """Return a random run: nested operators on two threads, kernels, copies, collective operations."""
    chance = random.Random(seed)
    traces = [Trace(rank, n_ranks) for rank in range(n_ranks)]
    clock = [chance.randrange(10) for _ in traces]
    busy = [0] * n_ranks
    for step in range(n_steps):
        begins = list(clock)
        for rank, trace in enumerate(traces):
            for _ in range(chance.randrange(1, 5)):
                begin = clock[rank]
                inner = begin + 1 + chance.randrange(1000) / 1000
                busy[rank] = max(busy[rank], int(inner) + 4)
                copies = chance.random() < 0.3
                trace.launch(
                    inner, busy[rank], busy[rank] + 3, "Memcpy HtoD (Pageable -> Device)" if copies else "gemm",
                    *(("cudaMemcpyAsync", "gpu_memcpy") if copies else ()), **({"bytes": 64} if copies else {}),
                )  # fmt: skip
                clock[rank] = begin + 6
                trace.host(begin, clock[rank], chance.choice(["aten::mm", 'a "quoted" \\ name', "aten::\u00e4"]))
                trace.host(begin, begin + 3, "autograd", tid=AUTOGRAD)
                busy[rank] += 3
        ends = max(max(clock), max(busy)) + 20
        for rank, trace in enumerate(traces):
            trace.launch(clock[rank] + 1, clock[rank] + 3 + rank, ends, ALL_REDUCE, stream=20)
            clock[rank] += 5
            trace.step(step, begins[rank], clock[rank])
            trace.add("s", "ac2g", "ac2g", HOST, HOST, begins[rank], id=1)
        clock = [max(clock[rank], ends) for rank in range(n_ranks)]
        busy = [max(b, ends) for b in busy]
    return traces
