"""A training with PyTorch on CPUs (gloo), one rank of which sleeps in its backward pass; every rank writes the trace of
its profiler: `python torch_ddp.py FOLDER PROCESSES SLOW_RANK SECONDS`. It needs torch, but not tracecols.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 3


class Slow(torch.autograd.Function):
    """The identity; its backward pass sleeps."""

    @staticmethod
    def forward(ctx, x, seconds):
        """Return the input."""
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        """Sleep, and return the gradient."""
        time.sleep(ctx.seconds)
        return gradient, None


def train(rank: int, folder: str, world: int, slow: int, seconds: float) -> None:
    """Train a small network, and record it.

    Parameters
    ----------
    rank : int
    folder : str
        Folder of the traces.
    world : int
        Number of processes.
    slow : int
        The rank that sleeps.
    seconds : float
        Length of the sleep in each step.
    """
    torch.set_num_threads(1)
    # processes meet by a file: a port that seems free may be taken before they use it
    meeting = Path(folder).resolve() / "meeting"
    dist.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=world)
    torch.manual_seed(0)
    first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(Slow.apply(self.first(x), seconds if rank == slow else 0.0))

    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = Path(folder) / f"rank{rank}.pt.trace.json.gz"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda made: made.export_chrome_trace(str(path)),
    ) as recorder:
        for _ in range(2 + STEPS):
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
            recorder.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    where, processes, sleeper, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    Path(where).mkdir(parents=True)
    multiprocessing.spawn(train, (where, processes, sleeper, length), processes)
    (Path(where) / "meeting").unlink(missing_ok=True)
