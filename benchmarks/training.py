"""The training of the GPU walk-through in docs/devices.md: traces as the PyTorch profiler writes them, one of each rank,
of the original and the mended program. Times are simulated microseconds, so that waits have realistic lengths.

    python -m benchmarks.training training
    python -m benchmarks.training training-mended --mended
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from support.kineto_writer import ALL_REDUCE, Trace, nccl, write_run

RANKS, STEPS, LAYERS = 4, 6, 8
COMPUTE, COMMUNICATION = 7, 20
"""Streams."""
LENGTHS = {False: [1.0, 1.0, 1.8, 1.0], True: [1.2, 1.2, 1.2, 1.2]}
"""Mean length of the sequences of each rank, by whether the program is mended; kernel times are proportional to it."""
N_ELEMENTS = 4_000_000


class Rank:
    """A rank: its clock, the time at which its stream becomes idle, and its recorded events."""

    def __init__(self, number: int) -> None:
        self.trace, self.now, self.idle = Trace(number, RANKS), 0, 0

    def host(self, name: str, length: int, cat: str = "cpu_op") -> None:
        """Compute on the host."""
        self.trace.host(self.now, self.now + length, name, cat)
        self.now += length

    def launch(
        self, operator: str, kernel: str, end: int, what: str = "cudaLaunchKernel", stream: int = COMPUTE, **args: Any
    ) -> None:
        """Call an operator, which launches a kernel or a copy that runs from when the stream is idle until `end`."""
        self.trace.host(self.now, self.now + 20, operator)
        cat = "gpu_memcpy" if "Memcpy" in kernel else "kernel"
        self.trace.launch(self.now + 8, self.begins, end, kernel, what, cat, stream, **args)
        self.now, self.idle = self.now + 20, end

    @property
    def begins(self) -> int:
        """When what is launched now begins."""
        return max(self.now + 18, self.idle)

    def order_streams(self) -> None:
        """Make the next launch wait for the other stream."""
        self.host("cudaStreamWaitEvent", 2, "cuda_runtime")

    def synchronise(self) -> None:
        """Wait until the stream is idle, as reading the loss does."""
        end = max(self.now, self.idle) + 5
        self.trace.host(self.now, end, "aten::item")
        self.trace.host(self.now + 2, end - 1, "cudaStreamSynchronize", "cuda_runtime")
        self.now = end


def compute_gradients(rank: Rank, length: float) -> None:
    """Load data, copy them to the device, and launch all layers, forwards and backwards."""
    rank.host("DataLoader.__next__", 300, "user_annotation")
    copied = rank.begins + 200
    rank.launch("aten::copy_", "Memcpy HtoD (Pageable -> Device)", copied, "cudaMemcpyAsync", bytes=2_000_000)
    for kernel, duration in (("gemm_forward", 150), ("gemm_backward", 300)):
        for _ in range(LAYERS):
            rank.launch("aten::linear", kernel, rank.begins + round(duration * length))


def reduce_gradients(ranks: list[Rank], step: int) -> None:
    """Sum gradients with a kernel of each rank, which runs until the kernel of the last rank has done its part."""
    for rank in ranks:
        rank.order_streams()
    end = max(rank.begins for rank in ranks) + 600
    about = nccl(n=N_ELEMENTS, **{"Seq": step, "Group size": RANKS, "Process Group Ranks": str(list(range(RANKS)))})
    for rank in ranks:
        rank.launch("c10d::allreduce_", ALL_REDUCE, end, stream=COMMUNICATION, **about)


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
            rank.launch("Optimizer.step", "adam", rank.begins + 250)
            rank.synchronise()
            rank.trace.step(step, begin, rank.now)
    return ranks


def main() -> None:
    """Write a trace of each rank into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, metavar="FOLDER")
    parser.add_argument("--mended", action="store_true")
    given = parser.parse_args()
    print(write_run(given.output, [rank.trace for rank in train(given.mended)]))


if __name__ == "__main__":
    main()
