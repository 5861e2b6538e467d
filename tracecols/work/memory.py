"""How much memory there is, how much of it an analysis may take, and what is free goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tracecols.given.memory import LEAST


def physical() -> int | None:
    """Return the bytes of memory of the machine; None where they are not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


@cache
def _trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of the GNU C library; others have none, or give memory back by themselves."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def give_back() -> None:
    """Give back the pages of the heap on which nothing is.

    The GNU C library keeps them for what comes next: arrays below 32 MiB come from its heap once some of them were
    freed, and what is allocated after them holds the pages in front. After all root causes of 2 x 10^7 events these
    were 760 MB of 1.1 GB. It is done once for each long stage of an analysis (`model.model.LONG`): after each slice it
    saved no memory more, and pages that are needed again at once cost time.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


# -- how much an analysis may take ------------------------------------------------------------------------------------

BASE = 260_000_000
"""Bytes that interpreter, libraries and kernels take before any event is read."""

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Budget:
    """What the analyses of this process may take.

    Attributes
    ----------
    memory : int, optional
        Bytes in all; by default half of what is free when it is asked for.
    scratch : Path, optional
        Where files are made for what exceeds it; by default where `tempfile` puts them (`TMPDIR`).
    """

    memory: int | None = None
    scratch: Path | None = None

    @classmethod
    def default(cls, memory: int | None = None, scratch: Path | None = None) -> Budget:
        """Return a budget; the memory is half of what is free unless something else is said."""
        if memory is None:
            free = available()
            memory = None if free is None else max(free // 2, LEAST)
        return cls(memory, scratch)

    @property
    def held(self) -> int | None:
        """Bytes of columns that may be held in memory for later steps; None if nobody limits them."""
        return None if self.memory is None else (self.memory - BASE) // 4

    def of_task(self, slots: int) -> int | None:
        """Return the bytes for each of the tasks that run at a time; None if nobody limits them."""
        return None if self.memory is None else (self.memory - BASE) * 3 // 4 // max(slots, 1)


def available() -> int | None:
    """Return the bytes of memory that this process can still get: what is free on the machine, or in the control group
    (container, batch job) that it is in; None where neither is known."""
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
    """Yield what is free in the control groups that this process is in, version 1 or 2, and in those around them."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            yield from _free_in((_CGROUPS, _CGROUPS / "unified"), path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            yield from _free_in((_CGROUPS / "memory",), path, *names)


def _free_in(roots: Iterable[Path], path: str, limit: str, usage: str, evictable: str) -> Iterator[int]:
    """Yield what is free in a control group and those around it, where they limit memory. In a container the group may
    be known by another path than inside of it: its own is then the root."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for root in roots:
        for n in range(len(parts), -1, -1):
            group = root.joinpath(*parts[:n])
            most, used = _number_in(group / limit), _number_in(group / usage)
            if most is not None and used is not None:
                # the system takes the pages of files back
                yield max(most - used + _statistic(group / "memory.stat", evictable), 0)


def _number_in(path: Path) -> int | None:
    """Return the number that a file holds; None if there is none, as where `max` means no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _statistic(path: Path, name: str) -> int:
    """Return one of the numbers of a control group; 0 where it is not known."""
    try:
        found = dict(line.split(maxsplit=1) for line in path.read_text().splitlines() if line)
        return int(found[name])
    except (OSError, ValueError, KeyError):
        return 0
