"""From ticks and events to what is drawn: nanoseconds, slices of a location, intervals in lanes."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.errors import ExportError
from tracecols.kernels import timeline as kernels
from tracecols.schema import NAMES, EventKind
from tracecols.slices.plan import TaskEvents
from tracecols.store import Store

EVER = np.iinfo(np.int64)


def _actions() -> NDArray[np.uint8]:
    action = np.zeros(256, np.uint8)
    for what, kinds in (
        (kernels.PUSH, (EventKind.ENTER, EventKind.PROGRAM_BEGIN, EventKind.CALLING_CONTEXT_ENTER)),
        (kernels.POP, (EventKind.EXIT, EventKind.PROGRAM_END, EventKind.CALLING_CONTEXT_EXIT)),
        (kernels.ON_OFF, (EventKind.MEASUREMENT_ON_OFF,)),
        (kernels.FLUSH, (EventKind.BUFFER_FLUSH,)),
        (kernels.TASK_SWITCH, (EventKind.THREAD_TASK_SWITCH, EventKind.OMP_TASK_SWITCH)),
        (kernels.TASK_COMPLETE, (EventKind.THREAD_TASK_COMPLETE, EventKind.OMP_TASK_COMPLETE)),
    ):
        action[list(kinds)] = what
    return action


ACTION = _actions()


class Nanoseconds:
    """Converts ticks to nanoseconds since the start of the recording, or since the first event if that is earlier.

    Rounded down: the order of times stays, equal ones stay equal, and a duration is less than 1 ns off; 2 ns for clocks of more
    than 2**33 ticks per second, unless a nanosecond has a whole number of them.
    """

    def __init__(self, clock: dict[str, int], first_time: int, last_time: int) -> None:
        resolution = int(clock["resolution"])
        self.zero = min(int(clock["origin"]), first_time)
        common = gcd(resolution, 10**9)
        times, per = 10**9 // common, resolution // common
        # the product with the remainder has to fit into 63 bits
        self._shift = max((times * per).bit_length() - 63, 0)
        self._times, self._per = times, per
        # no later time can be counted, or be subtracted from
        self._last = min(self.zero + (EVER.max // times - 1) * per, EVER.max + min(self.zero, 0))
        if last_time > self._last:
            raise ExportError(
                "the trace lasts longer than the 292 years that nanoseconds can count\n"
                "  choose a piece of it with --to, or look at it with 'tracecols check'"
            )

    def __call__(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert ticks; what lies outside of what can be counted is moved to its ends."""
        whole, rest = np.divmod(np.clip(ticks, self.zero, self._last) - self.zero, self._per)
        fraction = (rest >> self._shift) * self._times // (self._per >> self._shift)
        result: NDArray[np.int64] = whole * self._times + fraction
        return result


class SliceBuilder:
    """Builds the slices of one location from its events, batch after batch."""

    def __init__(self, store: Store, location: int, first: int, stop: int, tasks_name: int) -> None:
        self._store, self._location = store, location
        self._time_range = first, stop
        self._tasks_name = tasks_name
        flushes, slots = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if store.n_rows("control", location):
            control = store.read("control", location, ["kind", "stop_time"])
            flushes = control["stop_time"][control["kind"] == EventKind.BUFFER_FLUSH]
        if store.n_rows("tasks", location):
            slots = TaskEvents.of(store, location, 0).slot
        self._sides = flushes, slots
        self._state = np.zeros(kernels.N_STATE, np.int64)
        self._state[kernels.LAST] = EVER.min
        self._state[kernels.IS_OPEN] = first == EVER.min
        self._top = np.full(int(slots.max(initial=0)) + 1, -1, np.int64)
        self._frames: list[NDArray[Any]] = [np.arange(1, 65), np.zeros(64, np.int32)]
        self._frames[0][-1] = -1
        self._capacity = 1 << 12

    def draw(
        self, columns: Columns, marked: NDArray[np.int64], is_last: bool
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]]:
        """Yield what a batch shows: time in ticks, what, name, row of its instant."""
        state, (first, stop) = self._state, self._time_range
        n = columns["time"].size
        self._capacity = max(self._capacity, n + 2 * marked.size)
        out = self._buffers()
        state[kernels.N_MARKS] = 0
        at = 0
        while True:
            if at < n:
                why, at = kernels.draw_events(
                    columns["time"], columns["kind"], columns["region"], at, first, stop, state, ACTION, self._tasks_name,
                    *self._sides, marked, self._top, *self._frames, *out,
                )  # fmt: skip
            elif is_last:
                last_time = int(columns["time"][-1])
                why = kernels.draw_end(last_time, first, stop, state, self._tasks_name, self._top, *self._frames, *out)
            else:
                why = kernels.DONE
            if why == kernels.DONE and at == n and (not is_last or state[kernels.IS_OVER]):
                break
            if why == kernels.DAMAGED:
                kind = NAMES.get(int(columns["kind"][at]), "unknown")
                raise self._store.damaged(
                    f"location {self._location}, at tick {columns['time'][at]}: an event {kind} enters no region or has no row in its side table"
                )
            if why == kernels.GROW:
                size = self._frames[0].size
                self._frames = [np.concatenate([a, np.zeros_like(a)]) for a in self._frames]
                self._frames[0][size:] = np.arange(size + 1, 2 * size + 1)
                self._frames[0][-1] = -1
                state[kernels.FREE] = size
            elif why == kernels.FULL:
                if state[kernels.N_OUT]:
                    yield self._take(out)
                else:
                    self._capacity *= 2
                out = self._buffers()
        if state[kernels.N_OUT]:
            yield self._take(out)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be drawn."""
        return bool(self._state[kernels.IS_OVER])

    def _buffers(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
        n = self._capacity
        return np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int64)

    def _take(self, out: Any) -> Any:
        n = int(self._state[kernels.N_OUT])
        self._state[kernels.N_OUT] = 0
        return tuple(a[:n] for a in out)


def divide_intervals(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int32]:
    """Divide intervals among lanes in which they nest.

    Parameters
    ----------
    begin, end : (n,) int64
        Ordered by begin; of those that begin together the longest comes first.

    Returns
    -------
    (n,) int32
    """
    lane = np.zeros(begin.size, np.int32)
    n_lanes, capacity = 8, 64
    while True:
        n = kernels.divide_intervals(
            begin, end, lane, np.zeros((n_lanes, capacity), np.int64), np.zeros(n_lanes, np.int64)
        )
        if n == begin.size:
            return lane
        n_lanes, capacity = 2 * n_lanes, 2 * capacity
