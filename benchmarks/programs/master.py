"""A master and its workers: tasks go to any ready worker, results come from any worker, summaries in a fixed order."""

from __future__ import annotations

from benchmarks.programs import kernels as k
from benchmarks.programs.script import Script

SIZES = (16, 12, 8, 6, 4, 3, 2, 1)
"""Tasks per worker in a turn."""
TASK, STOP, RESULT, SUMMARY = 1, 2, 3, 4
TASK_BYTES, STOP_BYTES, RESULT_BYTES, SUMMARY_BYTES = 512, 4, 2_048, 65_536


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Broadcast parameters, farm tasks out, stop the workers, gather their summaries by rank, meet at a barrier."""
    if n_processes < 2:
        raise ValueError("master needs at least 2 processes: a master and a worker")
    s = Script("master", n_processes, n_threads)
    world, workers = s.world, list(range(1, n_processes))
    n_tasks = size * len(workers)
    s.begin()
    farm, evaluate = s.function("farm", 10), s.function("evaluate", 20)
    for p in s.processes:
        p.collective("bcast", world, 1_024, 0)
        if p.number:
            loop = len(p.steps)
            p.weight = 1.5 * size + 4
            # one channel for tasks and stops: they arrive in the order of sending
            message = {"channel": s.channel(0, p.number, world, TASK), "peer": 0, "comm": 0, "tag": TASK}
            task = p.step(k.RECV_TASK, s.mpi("MPI_Recv"), **message, length=TASK_BYTES, received=STOP_BYTES)
            p.work("task", 40, 60_000 + 10_000 * (p.number % 4))
            p.send(0, world, RESULT, RESULT_BYTES)
            p.step(k.JUMP, target=loop)
            p.weight = 1.0
            task[k.TARGET] = len(p.steps)
            p.work("summarize", 60, 20_000)
            p.send(0, world, SUMMARY, SUMMARY_BYTES, k.RENDEZVOUS, "MPI_Ssend")
        else:
            p.step(k.ENTER, farm)
            sources = p.peers(workers, world, RESULT, are_sources=True)
            targets = p.peers(workers, world, TASK, are_sources=False)
            for to in workers:
                p.send(to, world, TASK, TASK_BYTES)
            for number in range(n_tasks):
                message = {"count": len(workers), "comm": 0, "tag": RESULT, "length": RESULT_BYTES}
                p.step(k.RECV_ANY, s.mpi("MPI_Recv"), first=sources, **message)
                p.compute(evaluate, 1_500)
                if number < n_tasks - len(workers):
                    message = {"count": len(workers), "comm": 0, "tag": TASK, "length": TASK_BYTES}
                    p.step(k.REPLY, s.mpi("MPI_Send"), first=targets, **message)
            for to in workers:
                message = {"channel": s.channel(0, to, world, TASK), "peer": to, "comm": 0, "tag": STOP}
                p.step(k.SEND, s.mpi("MPI_Send"), **message, length=STOP_BYTES)
            p.step(k.EXIT, farm)
            for source in workers:
                p.recv(source, world, SUMMARY, SUMMARY_BYTES)
        p.collective("barrier", world)
    s.end()
    return s
