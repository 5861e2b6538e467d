"""Random programs whose threads pass work to each other through a queue: a lock and a condition variable."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

from tracecols.schema.enums import PARADIGMS
from tracecols.testing import Program

PTHREAD = PARADIGMS.index("pthread")
LOCK, UNLOCK, WAIT = "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait"
SIGNAL, BROADCAST = "pthread_cond_signal", "pthread_cond_broadcast"

Operation = tuple[str, int]


class RandomQueue:
    """Run producers and consumers, and record them.

    Attributes
    ----------
    program : Program
    signals : list of (int, int)
        Time of each signal of the condition, and the thread that sends it.
    waits : list of (int, int, int)
        Waits for the condition: thread, begin of the call, and time at which the thread has the lock again.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        n, self.n_producers = rng.randint(2, 5), rng.randint(1, 2)
        self.n_producers = min(self.n_producers, n - 1)
        self.program = Program(processes=1, threads=n)
        for name in (LOCK, UNLOCK, WAIT, SIGNAL, BROADCAST):
            self.program.region(name, "pthread", "wrapper")
        self.signals: list[tuple[int, int]] = []
        self.waits: list[tuple[int, int, int]] = []
        self.items = [rng.randint(1, 12) for _ in range(self.n_producers)]
        self.ready, self.n_left = 0, sum(self.items)
        self.owner, self.n_acquired = -1, 0
        self.wants: list[int] = []
        self.sleeps: list[int] = []
        self.since: dict[int, int] = {}
        self.threads = [self._produce(i) if i < self.n_producers else self._consume() for i in range(n)]
        self.heap = [(rng.randint(0, 5), i) for i in range(n)]
        for location in self.program.locations:
            location.enter(0, "main")
        heapq.heapify(self.heap)
        while self.heap:
            self._step(*heapq.heappop(self.heap))

    def _produce(self, i: int) -> Iterator[Operation]:
        for k in range(self.items[i]):
            yield "produce", self.rng.randint(1, 30)
            yield LOCK, 0
            self.ready += 1
            is_inside = self.rng.random() < 0.5
            # the last item wakes all waiting threads, which may find the queue empty
            signal = BROADCAST if k == self.items[i] - 1 or self.rng.random() < 0.2 else SIGNAL
            if is_inside:
                yield signal, 1
            yield UNLOCK, 0
            if not is_inside:
                yield signal, 1

    def _consume(self) -> Iterator[Operation]:
        while True:
            yield LOCK, 0
            while not self.ready and self.n_left:
                yield WAIT, 0
            if not self.n_left:
                yield BROADCAST, 1
                yield UNLOCK, 0
                return
            self.ready, self.n_left = self.ready - 1, self.n_left - 1
            yield UNLOCK, 0
            yield "consume", self.rng.randint(1, 40)

    def _step(self, time: int, i: int) -> None:
        """Make a thread execute its next operation."""
        location = self.program.locations[i]
        name, duration = next(self.threads[i], ("", 0))
        if not name:
            location.leave(time)
            return
        location.enter(time, name)
        if name == LOCK:
            self.wants.append(i)
        elif name == UNLOCK:
            self._release(time, i)
            location.leave(time + 1)
            heapq.heappush(self.heap, (time + 1, i))
        elif name == WAIT:
            self._release(time, i)
            self.sleeps.append(i)
            self.since[i] = time
        else:
            location.leave(time + duration)
            heapq.heappush(self.heap, (time + duration, i))
            if name in (SIGNAL, BROADCAST):
                self.signals.append((time, i))
                n_woken = len(self.sleeps) if name == BROADCAST else 1
                self.wants += self.sleeps[:n_woken]
                self.sleeps = self.sleeps[n_woken:]
        self._hand_over(time)

    def _release(self, time: int, i: int) -> None:
        self.program.locations[i].release(time, 1, self.n_acquired, PTHREAD)
        self.owner = -1

    def _hand_over(self, time: int) -> None:
        """If the lock is free, give it to the first thread that requests it."""
        if self.owner >= 0 or not self.wants:
            return
        i = self.wants.pop(0)
        self.owner, self.n_acquired = i, self.n_acquired + 1
        if i in self.since:
            self.waits.append((i, self.since.pop(i), time + 1))
        self.program.locations[i].acquire(time + 1, 1, self.n_acquired, PTHREAD).leave(time + 1)
        heapq.heappush(self.heap, (time + 1, i))
