"""The available memory, and how much of it an analysis may take."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import NamedTuple

from tracecols.given.memory import LEAST
from tracecols.work.heap import give_back, has_trim, working

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")

_FILES = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}
"""By version of a control group: the files with its limits and with what it takes, and the name of the bytes of files
in its statistics. Above `memory.high` the system lets processes wait."""


def physical() -> int | None:
    """Return the bytes of memory of the machine; None if not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


FULL = 0.9
"""Fraction of the memory limit of an analysis above which it keeps no freed memory."""

INTERVAL = 0.02
"""Seconds between two looks at how much memory this process holds."""


def resident(of_files: bool = False) -> int:
    """Return the bytes of memory that this process holds, or those of files; 0 if not known."""
    try:
        # without a `Path` object: this is called fifty times a second
        with open(f"{_PROC}/self/statm", "rb") as file:
            return int(file.read().split()[2 if of_files else 1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


@contextmanager
def within(memory: int | None) -> Iterator[None]:
    """Let the heap keep freed memory while there is work (`heap.working`), but give back its empty pages whenever this
    process holds nearly as many bytes as it may, and at the end.

    Of 1.2 GB that 5 x 10^7 events took with `--memory 1GB`, 0.8 were free (`multizone`, 8 x 4).
    """
    if memory is None or not has_trim():
        yield
        return
    stop = Event()
    watch = Thread(target=_keep_below, args=(int(FULL * memory), stop), name="tracecols-memory", daemon=True)
    try:
        with working():
            # a thread that began before this would have a heap of its own
            watch.start()
            try:
                yield
            finally:
                stop.set()
                watch.join()
    finally:
        release()


def release() -> None:
    """Give back what is free, unless this process holds little: collecting garbage took a twentieth of the time of a
    small trace."""
    if resident() > BASE:
        give_back()


def _keep_below(most: int, stop: Event) -> None:
    """Give back free memory when this process holds more than `most` bytes, and again when that grows."""
    kept = 0
    while not stop.wait(INTERVAL):
        held = resident()
        if held > max(most, kept + most // 16):
            give_back()
            kept = held = resident()
        kept = min(kept, held)


# -- how much an analysis may take ------------------------------------------------------------------------------------

BASE = 260_000_000
"""Bytes that interpreter, libraries and kernels take before any event is read."""


class Budget(NamedTuple):
    """The resources that the analyses of this process may take."""

    memory: int | None = None
    """Bytes in all; None if there is no limit."""
    scratch: Path | None = None
    """Folder of files for data that exceed the memory; by default where `tempfile` puts them (`TMPDIR`)."""

    @classmethod
    def default(cls, memory: int | None = None, scratch: Path | None = None) -> Budget:
        """Return a budget; by default its memory is half of the free memory, but at least `LEAST`."""
        if memory is None:
            free = available()
            memory = None if free is None else max(free // 2, LEAST)
        return cls(memory, scratch)

    @property
    def held(self) -> int | None:
        """Bytes of columns that may be held in memory for later steps; None if there is no limit."""
        return None if self.memory is None else (self.memory - BASE) // 8

    @property
    def large(self) -> int | None:
        """Bytes of arrays of the whole trace in memory, besides half as many of pages of files; None: no limit."""
        return None if self.memory is None else (self.memory - BASE) // 4

    def of_task(self, slots: int) -> int | None:
        """Return the bytes for each of the tasks that run at a time; None if there is no limit."""
        return None if self.memory is None else (self.memory - BASE) // 2 // max(slots, 1)


class Held:
    """Count the bytes that several owners hold in memory together."""

    def __init__(self) -> None:
        self._lock, self._size = Lock(), 0
        self._given: deque[int] = deque()

    def take(self, size: int, most: int) -> bool:
        """Add `size` bytes, unless there would be more than `most`; return whether they were added."""
        with self._lock:
            self._settle()
            fits = self._size + size <= most
            self._size += size if fits else 0
            return fits

    def give(self, size: int) -> None:
        """Subtract `size` bytes; without the lock, which the thread may hold while garbage is collected."""
        self._given.append(size)

    @property
    def size(self) -> int:
        """Bytes that are held."""
        with self._lock:
            self._settle()
            return self._size

    def _settle(self) -> None:
        while self._given:
            self._size -= self._given.popleft()


class Turns:
    """Lets tasks run at the same time as long as the memory suffices for all of them together."""

    def __init__(self, memory: int | None = None) -> None:
        self._memory, self._taken, self._changed = memory, 0, Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Wait until `size` bytes are available for a task, or until no other one runs."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._memory is None or not self._taken or self._taken + size <= self._memory
            )
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


def available() -> int | None:
    """Return the bytes of memory that this process can still get: those free on the machine, or in its control group
    (container, batch job); None if neither is known."""
    found = [n for n in (_free_of_machine(), *_free_of_groups()) if n is not None]
    return min(found, default=physical())


def _free_of_machine() -> int | None:
    """Return the bytes of memory that the system could give, without swapping."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _free_of_groups() -> Iterator[int]:
    """Yield the bytes that are free in the control groups around this process that limit memory."""
    for group, version in groups_of("memory"):
        limits, usage, evictable = _FILES[version]
        used = _number_in(group / usage)
        for most in (_number_in(group / limit) for limit in limits):
            if most is not None and used is not None:
                # the system can take back the pages of files
                yield max(most - used + _statistic(group / "memory.stat", evictable), 0)


def groups_of(controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the control groups of this process that can limit something, such as `memory` or `cpu`, and those around
    them, each with its version, 1 or 2. In a container the path of the group may be the one outside of it: the group is
    then at the root."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            version, roots = 2, (_CGROUPS, _CGROUPS / "unified")
        elif controller in controllers.split(","):
            version, roots = 1, (_CGROUPS / controller, _CGROUPS / controllers)
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for root in roots:
            yield from ((root.joinpath(*parts[:n]), version) for n in range(len(parts), -1, -1))


def cores_of_groups() -> int | None:
    """Return the cores whose time the control groups of this process may take, rounded up; None if not limited."""
    found = []
    for group, version in groups_of("cpu"):
        # microseconds in each period; without a limit `max` or -1
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        with suppress(OSError, ValueError):
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if int(quota) > 0 < int(period):
                found.append(-(-int(quota) // int(period)))
    return min(found, default=None)


def _number_in(path: Path) -> int | None:
    """Return the number that a file holds; None if there is none, such as `max` for no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _statistic(path: Path, name: str) -> int:
    """Return one of the numbers of a control group; 0 if it is not known."""
    try:
        found = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if line)
        return int(found[name])
    except (OSError, ValueError, KeyError):
        return 0
