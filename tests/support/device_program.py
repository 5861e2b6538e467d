"""Programs whose ranks launch kernels on streams and communicate by NCCL, simulated: when everything happens follows from
how long hosts and kernels take."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracecols.testing import Program

LATENCY, CALL, TRANSFER = 1, 1, 2
"""From the ENTER of a launch to the begin of what it launches; of a call; of a collective operation after all have
begun."""


@dataclass
class Rank:
    """What a rank does: a list of steps."""

    steps: list[tuple] = field(default_factory=list)

    def work(self, name: str, ticks: int) -> Rank:
        """Compute on the host."""
        self.steps.append(("work", name, ticks))
        return self

    def kernel(self, name: str, ticks: int, stream: int = 0) -> Rank:
        """Launch a kernel."""
        self.steps.append(("kernel", name, ticks, stream))
        return self

    def collective(self, op: str = "allreduce", stream: int = 0) -> Rank:
        """Launch a part of a collective operation."""
        self.steps.append(("collective", op, stream))
        return self

    def wait_event(self, stream: int) -> Rank:
        """Let a stream wait for what was launched last on each other one."""
        self.steps.append(("event", stream))
        return self

    def sync(self, stream: int | None = None) -> Rank:
        """Wait for a stream, or for all."""
        self.steps.append(("sync", stream))
        return self


NAMES = {"allreduce": "ncclAllReduce", "allgather": "ncclAllGather", "barrier": "ncclBarrier"}


class Simulation:
    """Ranks with some streams each, carried out. What is launched begins `LATENCY` after its launch, or always so long
    after all that it waits for.

    Attributes
    ----------
    program : Program
    waits : dict
        By collective operation and rank: how long its kernel waits.
    end : int
        When the last host ends.
    """

    def __init__(
        self, ranks: list[Rank], n_streams: int = 1, starts: tuple[int, ...] = (), always_late: bool = False
    ) -> None:
        n, self.always_late = len(ranks), always_late
        self.program = program = Program(processes=n)
        self.streams = [[program.stream(r, f"CUDA[0:{7 + s}]") for s in range(n_streams)] for r in range(n)]
        self.world = program.nccl_communicator("world", [of[0] for of in self.streams])
        self.now = list(starts) or [0] * n
        self.free = [[0] * n_streams for _ in range(n)]
        self.depends = [[0] * n_streams for _ in range(n)]
        self.waits: dict[tuple[int, int], int] = {}
        self._recorded = [[[] for _ in range(n_streams)] for _ in range(n)]
        for r, master in enumerate(program.masters):
            master.enter(self.now[r], "main")
        at = [0] * n
        k = 0
        while True:
            for r, rank in enumerate(ranks):
                while at[r] < len(rank.steps) and rank.steps[at[r]][0] != "collective":
                    self._step(r, rank.steps[at[r]])
                    at[r] += 1
            if all(at[r] == len(rank.steps) for r, rank in enumerate(ranks)):
                break
            self._collective(k, [rank.steps[at[r]] for r, rank in enumerate(ranks)])
            at = [i + 1 for i in at]
            k += 1
        for r, master in enumerate(program.masters):
            self._step(r, ("sync", None))
            master.leave(self.now[r])
            for stream, recorded in zip(self.streams[r], self._recorded[r], strict=True):
                for record in recorded:
                    record(stream)
        self.end = max(self.now)

    def _launch(self, r: int, stream: int) -> int:
        """Launch something; return when it begins."""
        asked = self.now[r]
        self.program.masters[r].launch(asked, asked + CALL, self.streams[r][stream])
        self.now[r] += CALL
        if self.always_late:
            return max(asked, self.free[r][stream], self.depends[r][stream]) + LATENCY
        return max(asked + LATENCY, self.free[r][stream], self.depends[r][stream])

    def _step(self, r: int, step: tuple) -> None:
        master, now = self.program.masters[r], self.now[r]
        match step:
            case ("work", name, ticks):
                master.call(now, now + ticks, name)
                self.now[r] += ticks
            case ("kernel", name, ticks, stream):
                begin = self._launch(r, stream)
                end = begin + ticks
                self._recorded[r][stream].append(lambda s: s.kernel(begin, end, name))
                self.free[r][stream] = end
            case ("event", stream):
                master._for_device(now, now + CALL, "cuStreamWaitEvent", self.streams[r][stream])
                self.now[r] += CALL
                others = [t for s, t in enumerate(self.free[r]) if s != stream]
                self.depends[r][stream] = max([self.depends[r][stream], *others])
            case ("sync", stream):
                until = max(self.free[r]) if stream is None else self.free[r][stream]
                end = max(now, until) + CALL
                master.synchronize(now, end, None if stream is None else self.streams[r][stream])
                self.now[r] = end

    def _collective(self, k: int, steps: list[tuple]) -> None:
        begins = [self._launch(r, step[2]) for r, step in enumerate(steps)]
        end = max(begins) + TRANSFER
        for r, (_, op, stream) in enumerate(steps):
            self.waits[k, r] = max(begins) - begins[r]
            self.free[r][stream] = end

            def record(s, begin=begins[r], op=op) -> None:
                s.collective(begin, end, self.world, op, sent=8, received=8, region=NAMES[op])

            self._recorded[r][stream].append(record)


def random_ranks(
    seed: int, n: int = 3, n_streams: int = 2, n_steps: int = 12, always_late: bool = False, scale: dict | None = None
) -> Simulation:
    """Ranks that do the same things, which take different times, in multiples of 2 ticks; some regions faster."""
    factors = scale or {}
    random = np.random.default_rng(seed)
    ranks = [Rank() for _ in range(n)]
    for _ in range(n_steps):
        what, stream = int(random.integers(6)), int(random.integers(n_streams))
        for rank in ranks:
            ticks = 2 * int(random.integers(1, 30)) if random.random() < 0.4 else 10
            name = f"work{stream}" if what == 0 else f"kernel{stream}"
            ticks = int(ticks * factors.get(name, 1))
            match what:
                case 0:
                    rank.work(name, ticks)
                case 1 | 2:
                    rank.kernel(name, ticks, stream)
                case 3:
                    rank.collective(("allreduce", "barrier")[stream % 2])
                case 4:
                    rank.wait_event(stream)
                case _:
                    rank.sync(stream if random.random() < 0.5 else None)
    return Simulation(ranks, n_streams, tuple(int(t) for t in random.integers(0, 30, n)), always_late)
