"""The training of the GPU walk-through in docs/devices.md: traces as the PyTorch profiler writes them, one of each rank,
of the original and the mended program. Times are simulated microseconds, so that waits have realistic lengths.

    python -m benchmarks.training training
    python -m benchmarks.training training-mended --mended
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RANKS, STEPS, LAYERS = 4, 6, 8
HOST = 100
"""Process and main thread of each rank."""
COMPUTE, COMMUNICATION = 7, 20
"""Streams."""
LENGTHS = {False: [1.0, 1.0, 1.8, 1.0], True: [1.2, 1.2, 1.2, 1.2]}
"""Mean length of the sequences of each rank, by whether the program is mended; kernel times are proportional to it."""
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
N_ELEMENTS = 4_000_000


class Rank:
    """A rank: its clock, the time at which its stream becomes idle, and the recorded events."""

    def __init__(self, number: int) -> None:
        self.number, self.now, self.idle = number, 0, 0
        self.correlation = 0
        self.events: list[dict[str, Any]] = []

    def add(self, cat: str, name: str, thread: int, begin: int, end: int, **args: Any) -> None:
        """Record a slice of a thread of the host, or of a stream."""
        pid = HOST if thread == HOST else 0
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": thread, "ts": begin, "dur": end - begin, "args": args}
        )  # fmt: skip

    def host(self, name: str, length: int, cat: str = "cpu_op") -> None:
        """Compute on the host."""
        self.add(cat, name, HOST, self.now, self.now + length)
        self.now += length

    def launch(self, operator: str, kernel: str, length: int, what: str = "cudaLaunchKernel", **args: Any) -> None:
        """Call an operator, which launches a kernel or a copy that runs as soon as the stream is idle."""
        self.correlation += 1
        self.add("cpu_op", operator, HOST, self.now, self.now + 20)
        self.add("cuda_runtime", what, HOST, self.now + 8, self.now + 14, correlation=self.correlation)
        begin = max(self.now + 18, self.idle)
        self.idle = begin + length
        cat = "gpu_memcpy" if "Memcpy" in kernel else "kernel"
        self.add(cat, kernel, COMPUTE, begin, self.idle, correlation=self.correlation, **args)
        self.now += 20

    def order_streams(self) -> None:
        """Make the next launch wait for the other stream."""
        self.add("cuda_runtime", "cudaStreamWaitEvent", HOST, self.now, self.now + 2)
        self.now += 2

    def synchronise(self) -> None:
        """Wait until the stream is idle, as reading the loss does."""
        end = max(self.now, self.idle) + 5
        self.add("cpu_op", "aten::item", HOST, self.now, end)
        self.add("cuda_runtime", "cudaStreamSynchronize", HOST, self.now + 2, end - 1)
        self.now = end

    def write(self, folder: Path) -> None:
        """Write the recorded events."""
        head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": self.number, "world_size": RANKS}}
        (folder / f"rank{self.number}.json").write_text(json.dumps({**head, "traceEvents": self.events}))


def compute_gradients(rank: Rank, length: float) -> None:
    """Load data, copy them to the device, and launch all layers, forwards and backwards."""
    rank.host("DataLoader.__next__", 300, "user_annotation")
    rank.launch("aten::copy_", "Memcpy HtoD (Pageable -> Device)", 200, "cudaMemcpyAsync", bytes=2_000_000)
    for kernel, duration in (("gemm_forward", 150), ("gemm_backward", 300)):
        for _ in range(LAYERS):
            rank.launch("aten::linear", kernel, round(duration * length))


def reduce_gradients(ranks: list[Rank], step: int) -> None:
    """Sum gradients with a kernel of each rank, which runs until the kernel of the last rank has done its part."""
    for rank in ranks:
        rank.order_streams()
    begins = [max(rank.now + 18, rank.idle) for rank in ranks]
    end = max(begins) + 600
    for rank, begin in zip(ranks, begins, strict=True):
        rank.correlation += 1
        rank.add("cpu_op", "c10d::allreduce_", HOST, rank.now, rank.now + 20)
        rank.add("cuda_runtime", "cudaLaunchKernel", HOST, rank.now + 8, rank.now + 14, correlation=rank.correlation)
        rank.add(
            "kernel", ALL_REDUCE, COMMUNICATION, begin, end, correlation=rank.correlation, Seq=step, dtype="Float",
            **{
                "Collective name": "allreduce", "In msg nelems": N_ELEMENTS, "Out msg nelems": N_ELEMENTS, "Group size": RANKS,
                "Process Group Name": "0", "Process Group Description": "default_pg",
                "Process Group Ranks": str(list(range(RANKS))),
            },
        )  # fmt: skip
        rank.now, rank.idle = rank.now + 20, end


def train(is_mended: bool) -> list[Rank]:
    """Simulate the training.

    Parameters
    ----------
    is_mended : bool
        Whether sequences are sorted into batches of equal work, so that those of rank 2 are not longer than the others.
    """
    ranks = [Rank(number) for number in range(RANKS)]
    for step in range(STEPS):
        begins = [rank.now for rank in ranks]
        for rank, length in zip(ranks, LENGTHS[is_mended], strict=True):
            compute_gradients(rank, length)
        reduce_gradients(ranks, step)
        for rank, begin in zip(ranks, begins, strict=True):
            rank.order_streams()
            rank.launch("Optimizer.step", "adam", 250)
            rank.synchronise()
            rank.add("user_annotation", f"ProfilerStep#{step}", HOST, begin, rank.now)
    return ranks


def main() -> None:
    """Write a trace of each rank into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, metavar="FOLDER")
    parser.add_argument("--mended", action="store_true")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for rank in train(given.mended):
        rank.write(given.output)
    print(given.output)


if __name__ == "__main__":
    main()
