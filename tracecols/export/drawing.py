"""Convert ticks and events for drawing: nanoseconds, slices of a location, intervals in lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.enhance.scan.location_scan import flush_stops_of
from tracecols.enhance.scan.tasks import TaskEvents
from tracecols.errors import ExportError
from tracecols.kernels import arrays, pools
from tracecols.kernels import timeline as kernels
from tracecols.schema import NAMES
from tracecols.store import Store

EVER = np.iinfo(np.int64)


class Nanoseconds:
    """Converts ticks to nanoseconds since the start of the recording, or since the first event if that is earlier.

    Times are rounded down: their order is kept, equal times stay equal, and a duration is less than 1 ns off; 2 ns for
    clocks of more than 2**33 ticks per second, unless a nanosecond is a whole number of ticks.
    """

    def __init__(self, clock: dict[str, int], first_time: int, last_time: int) -> None:
        resolution = int(clock["resolution"])
        self.zero = min(int(clock["origin"]), first_time)
        common = gcd(resolution, 10**9)
        times, per = 10**9 // common, resolution // common
        # the product with the remainder has to fit into 63 bits
        self._shift = max((times * per).bit_length() - 63, 0)
        self._times, self._per = times, per
        # later times would overflow, in nanoseconds or when `zero` is subtracted
        self._last = min(self.zero + (EVER.max // times - 1) * per, EVER.max + min(self.zero, 0))
        if last_time > self._last:
            raise ExportError(
                "the trace lasts longer than the 292 years that nanoseconds can count\n"
                "  choose a piece of it with --to, or look at it with 'tracecols check'"
            )

    def __call__(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert ticks; times outside the range that nanoseconds can count are clipped to it."""
        whole, rest = np.divmod(np.clip(ticks, self.zero, self._last) - self.zero, self._per)
        fraction = (rest >> self._shift) * self._times // (self._per >> self._shift)
        result: NDArray[np.int64] = whole * self._times + fraction
        return result


def counter_label(definitions: Mapping[str, pa.Table], member: int, source: int) -> tuple[str, str]:
    """Return the name and the unit of a counter, a row of `metric_members`. The scope of its values, from a row of
    `metric_sources`, is appended to the name unless it is the recording location itself."""
    m = definitions["metric_members"].slice(member, 1).to_pylist()[0]
    s = definitions["metric_sources"].slice(source, 1).to_pylist()[0]
    unit = f"{(2, 10)[bool(m['base'])]}^{m['exponent']} {m['unit']}" if m["exponent"] else m["unit"]
    is_own = s["recorder"] < 0 or s["scope"] == "location"
    return (m["name"] if is_own else f"{m['name']} ({s['scope']} {s['scope_id']})"), unit


class SideOfSlices(NamedTuple):
    """Contents of the side tables of a location that its slices depend on."""

    flushes: NDArray[np.int64]
    """(n_flushes,): end of each buffer flush, in ticks."""
    task: NDArray[np.int64]
    """(n_switches,): number of the task of each event that switches or completes tasks; 0 is the implicit task."""
    n_tasks: int

    @classmethod
    def of(cls, store: Store, location: int) -> SideOfSlices:
        """Read the side tables of a location."""
        tasks = TaskEvents.of(store, location)
        return cls(flush_stops_of(store, np.array([location]))[0], tasks.slot, tasks.n_tasks)


class OpenSlices(NamedTuple):
    """Slices open between two events of a location; a `SliceBuilder` can start from there."""

    last: int
    """Time of the latest event before, in ticks."""
    task: int
    """Number of the running task."""
    n_flushes: int
    n_switches: int
    """`n_flushes` and `n_switches`: buffer flushes, and events that switch or complete tasks, before."""
    stacks: dict[int, list[int]]
    """Open regions by task, the outermost first."""


NOTHING_OPEN = OpenSlices(EVER.min, 0, 0, 0, {})
"""State before the first event of a location."""


class SliceBuilder:
    """Builds the slices of one location from its events, batch by batch. By default, no slice is open before the first
    event, and `side` is read from the store."""

    def __init__(
        self,
        store: Store,
        location: int,
        first: int,
        stop: int,
        tasks_name: int,
        side: SideOfSlices | None = None,
        opened: OpenSlices = NOTHING_OPEN,
    ) -> None:
        self._store, self._location = store, location
        side = SideOfSlices.of(store, location) if side is None else side
        self._view = kernels.View(first, stop, tasks_name, kernels.ACTION, side.flushes, side.task)
        self._state = np.zeros(kernels.N_STATE, np.int64)
        self._state[kernels.LAST], self._state[kernels.TASK] = opened.last, opened.task
        self._state[kernels.N_FLUSHES], self._state[kernels.N_SWITCHES] = opened.n_flushes, opened.n_switches
        self._state[kernels.IS_OPEN] = first == EVER.min
        self._top = np.full(side.n_tasks, -1, np.int64)
        self._frames = pools.linked(kernels.Frames, 64)
        self._capacity = 1 << 12
        for task, regions in opened.stacks.items():
            self._push(task, regions)

    def _push(self, task: int, regions: Sequence[int]) -> None:
        for region in regions:
            if self._state[kernels.FREE] < 0:
                self._frames, self._state[kernels.FREE] = pools.more_linked(self._frames)
            frame = pools.push_item(self._top[task], self._state, kernels.FREE, self._frames.below)
            self._top[task], self._frames.name[frame] = frame, region
            self._state[kernels.N_FRAMES] += 1

    @property
    def opened(self) -> OpenSlices:
        """The slices open after the batches so far."""
        stacks: dict[int, list[int]] = {}
        for task in np.flatnonzero(self._top >= 0).tolist():
            frame, found = int(self._top[task]), []
            while frame >= 0:
                found.append(int(self._frames.name[frame]))
                frame = int(self._frames.below[frame])
            stacks[task] = found[::-1]
        state = self._state.tolist()
        return OpenSlices(
            state[kernels.LAST], state[kernels.TASK], state[kernels.N_FLUSHES], state[kernels.N_SWITCHES], stacks
        )

    def draw(self, columns: Columns, marked: NDArray[np.int64], is_last: bool) -> Iterator[kernels.Drawn]:
        """Yield the slices and marks of a batch."""
        state, view = self._state, self._view
        events = kernels.Events(columns["time"], columns["kind"], columns["region"])
        n = events.time.size
        self._capacity = max(self._capacity, n + 2 * marked.size)
        out = arrays.empty(kernels.Drawn, self._capacity)
        state[kernels.N_MARKS] = 0
        at = 0
        while True:
            if at < n:
                why, at = kernels.draw_events(events, at, state, view, marked, self._top, self._frames, out)
            elif is_last:
                last_time = int(columns["time"][-1])
                why = kernels.draw_end(last_time, state, view, self._top, self._frames, out)
            else:
                why = kernels.DONE
            if why == kernels.DONE and at == n and (not is_last or state[kernels.IS_OVER]):
                break
            if why == kernels.DAMAGED:
                kind = NAMES.get(int(columns["kind"][at]), "unknown")
                raise self._store.damaged(
                    f"location {self._location}, at tick {columns['time'][at]}: an event {kind} enters no region "
                    "or has no row in its side table"
                )
            if why == kernels.GROW:
                self._frames, state[kernels.FREE] = pools.more_linked(self._frames)
            elif why == kernels.FULL:
                if state[kernels.N_OUT]:
                    yield self._take(out)
                else:
                    self._capacity *= 2
                out = arrays.empty(kernels.Drawn, self._capacity)
        if state[kernels.N_OUT]:
            yield self._take(out)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be drawn."""
        return bool(self._state[kernels.IS_OVER])

    def _take(self, out: kernels.Drawn) -> kernels.Drawn:
        n = int(self._state[kernels.N_OUT])
        self._state[kernels.N_OUT] = 0
        return arrays.first(out, n)


def divide_intervals(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int32]:
    """Assign intervals to lanes in which they nest. They are ordered by begin; those with the same begin, the longest
    first."""
    lane = np.zeros(begin.size, np.int32)
    n_lanes, capacity = 8, 64
    while True:
        n = kernels.divide_intervals(
            begin, end, lane, np.zeros((n_lanes, capacity), np.int64), np.zeros(n_lanes, np.int64)
        )
        if n == begin.size:
            return lane
        n_lanes, capacity = 2 * n_lanes, 2 * capacity
