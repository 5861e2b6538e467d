"""Simulated programs whose ranks launch kernels on streams and communicate by NCCL: all times follow from the durations
of host functions and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracecols.testing import Location, Program

LATENCY, CALL, TRANSFER = 1, 1, 2
"""Ticks from the ENTER of a launch to the begin of the launched work; of a call; from the begin of the last awaited
kernel to the end of a communicating kernel."""


@dataclass
class Rank:
    """The program of a rank: a list of steps."""

    steps: list[tuple] = field(default_factory=list)

    def work(self, name: str, ticks: int) -> Rank:
        """Compute on the host."""
        self.steps.append(("work", name, ticks))
        return self

    def pause(self, ticks: int) -> Rank:
        """Compute in the current function."""
        self.steps.append(("pause", ticks))
        return self

    def enter(self, name: str) -> Rank:
        """Enter a function."""
        self.steps.append(("enter", name))
        return self

    def leave(self) -> Rank:
        """Leave the current function."""
        self.steps.append(("leave",))
        return self

    def kernel(self, name: str, ticks: int, stream: int = 0) -> Rank:
        """Launch a kernel."""
        self.steps.append(("kernel", name, ticks, stream))
        return self

    def collective(self, op: str = "allreduce", stream: int = 0, root: int = 0) -> Rank:
        """Launch the kernel of this rank in an operation of all ranks (`NAMES`). An `exchange` sends messages around a
        ring; a `message` goes from the root to the next rank, and the other ranks do not take part."""
        self.steps.append(("collective", op, stream, root))
        return self

    def wait_event(self, stream: int) -> Rank:
        """Make a stream wait for the last work launched on each other stream."""
        self.steps.append(("event", stream))
        return self

    def sync(self, stream: int | None = None) -> Rank:
        """Wait for a stream, or for all."""
        self.steps.append(("sync", stream))
        return self


NAMES = {
    "allreduce": "ncclAllReduce", "allgather": "ncclAllGather", "barrier": "ncclBarrier", "bcast": "ncclBroadcast",
    "reduce": "ncclReduce", "exchange": "ncclSendRecv", "message": "ncclSendRecv",
}  # fmt: skip
OPS = tuple(NAMES)
STATES = {
    "allreduce": "nccl_wait_nxn", "allgather": "nccl_wait_nxn", "barrier": "nccl_barrier_wait",
    "bcast": "nccl_latebroadcast", "reduce": "nccl_earlyreduce",
}  # fmt: skip


def waited_for(op: str, rank: int, root: int, n: int) -> tuple[list[int], list[int]]:
    """Return the ranks that a rank's kernel waits for: those it receives from, and those it sends to."""
    match op:
        case "bcast":
            return [root] if rank != root else [], []
        case "reduce":
            return list(range(n)) if rank == root else [], []
        case "exchange":
            return [(rank - 1) % n], [(rank + 1) % n]
        case "message":
            last = (root + 1) % n
            return [root] if rank == last else [], [last] if rank == root else []
    return list(range(n)), []


class Simulation:
    """The execution of ranks with some streams each. Launched work begins at least `LATENCY` after its launch.

    Attributes
    ----------
    program : Program
    waits : dict
        Waiting time of the kernel, by operation and rank.
    states : dict
        Waiting times of the kernels of each rank, by wait state.
    end : int
        Time at which the last host ends.
    """

    def __init__(self, ranks: list[Rank], n_streams: int = 1, starts: tuple[int, ...] = ()) -> None:
        n = len(ranks)
        self.program = program = Program(processes=n)
        self.streams = [[program.stream(r, f"CUDA[0:{7 + s}]") for s in range(n_streams)] for r in range(n)]
        self.world = program.nccl_communicator("world", [of[0] for of in self.streams])
        self.now = list(starts) or [0] * n
        self.free = [[0] * n_streams for _ in range(n)]
        self.depends = [[0] * n_streams for _ in range(n)]
        self.waits: dict[tuple[int, int], int] = {}
        self.states: dict[str, dict[int, int]] = {}
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
        """Launch work; return the time at which it begins."""
        asked = self.now[r]
        self.program.masters[r].launch(asked, asked + CALL, self.streams[r][stream])
        self.now[r] += CALL
        return max(asked + LATENCY, self.free[r][stream], self.depends[r][stream])

    def _step(self, r: int, step: tuple) -> None:
        master, now = self.program.masters[r], self.now[r]
        match step:
            case ("work", name, ticks):
                master.call(now, now + ticks, name)
                self.now[r] += ticks
            case ("pause", ticks):
                self.now[r] += ticks
            case ("enter", name):
                master.enter(now, name)
            case ("leave",):
                master.leave(now)
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
        n, (_, op, stream, root) = len(steps), steps[0]
        parts = [r for r in range(n) if op != "message" or r in (root, (root + 1) % n)]
        begins = {r: self._launch(r, stream) for r in parts}
        for r, begin in begins.items():
            gets, gives = waited_for(op, r, root, n)
            late = ((STATES.get(op, "nccl_latesender"), gets), ("nccl_latereceiver", gives))
            waits = [(name, max((begins[x] - begin for x in of), default=0)) for name, of in late]
            # a kernel that waits for a sender does not also count as waiting for its receivers
            state, self.waits[k, r] = next(((s, w) for s, w in waits if w > 0), ("", 0))
            if state:
                of_state = self.states.setdefault(state, {})
                of_state[r] = of_state.get(r, 0) + self.waits[k, r]
            end = max([begin, *(begins[x] for x in (*gets, *gives))]) + TRANSFER
            self.free[r][stream] = end
            self._recorded[r][stream].append(self._part(op, r, root, begin, end))

    def _part(self, op: str, rank: int, root: int, begin: int, end: int) -> Callable[[Location], object]:
        """Return the function that records a kernel."""
        if op in STATES:
            sends, receives = op != "bcast" or rank == root, op != "reduce" or rank == root
            receives &= op != "bcast" or rank != root
            of_root = root if op in ("bcast", "reduce") else None
            return lambda s: s.collective(
                begin, end, self.world, op, root=of_root, sent=8 * sends, received=8 * receives, region=NAMES[op]
            )
        gets, gives = waited_for(op, rank, root, len(self.program.masters))

        def record(s: Location) -> None:
            s.enter(begin, NAMES[op])
            for to in gives:
                s.send(begin, to=to, communicator=self.world)
            for source in gets:
                s.receive(end, source=source, communicator=self.world)
            s.leave(end)

        return record


def random_ranks(
    seed: int,
    n: int = 3,
    n_streams: int = 2,
    n_steps: int = 12,
    scale: dict | None = None,
    ops: Sequence[str] = ("allreduce", "barrier"),
    delay: int = 0,
) -> Simulation:
    """Simulate ranks that execute the same steps with different durations, which are multiples of 2 ticks and are
    multiplied by `scale` for some regions. If there is a `delay`, one rank executes a region or a kernel of this name
    before a last operation of all ranks."""
    factors = scale or {}
    random = np.random.default_rng(seed)
    ranks = [Rank() for _ in range(n)]
    for _ in range(n_steps):
        what, stream = int(random.integers(6)), int(random.integers(n_streams))
        op, root = ops[stream % len(ops)], 0
        if what == 3 and len(ops) > 2:
            op, root = ops[int(random.integers(len(ops)))], int(random.integers(n))
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
                    rank.collective(op, root=root)
                case 4:
                    rank.wait_event(stream)
                case _:
                    rank.sync(stream if random.random() < 0.5 else None)
    if delay:
        late, is_kernel, op = int(random.integers(n)), bool(random.integers(2)), ops[int(random.integers(len(ops)))]
        ticks = int(delay * factors.get("delay", 1))
        if is_kernel:
            ranks[late].kernel("delay", ticks)
        else:
            ranks[late].work("delay", ticks)
        # in a rooted operation or a message, the late rank is the one that the others wait for
        root = (late + 1) % n if op == "reduce" else late
        for rank in ranks:
            rank.collective(op, root=root).sync()
    return Simulation(ranks, n_streams, tuple(int(t) for t in random.integers(0, 30, n)))
