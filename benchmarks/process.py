"""Run a step in a separate process, so that its peak memory is that of one step; measure memory and processor time of a
process."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from numbers import Integral
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.steps import Subject

# -- memory, processor time, temporary files ---------------------------------------------------------------------------


def _status(field: str) -> int | None:
    """Return a field of this process's status in Linux, in bytes; None if there is none."""
    lines = status.read_text().splitlines() if (status := Path("/proc/self/status")).exists() else ()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def reset_peak() -> None:
    """Reset the peak memory, if the system can do so (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the peak memory of this process since the last reset, or of one of its children ever, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    own = _status("VmHWM")
    return max(children, own if own is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def held() -> int | None:
    """Return the memory of this process, in bytes; None if the system does not report it."""
    return _status("VmRSS")


def processor_seconds() -> float:
    """Return the processor time of this process and of its terminated children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _bytes_in(folders: Sequence[Path]) -> int:
    """Return the size of all files below folders, except finished files of tables (`part-*.parquet`)."""
    n = 0
    for folder in folders:
        for where, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    is_made = name.startswith("part-") and name.endswith(".parquet")
                    n += 0 if is_made else os.stat(os.path.join(where, name)).st_size
    return n


@contextmanager
def watched(*folders: Path) -> Iterator[list[int]]:
    """Measure the maximum growth of the size of folders, in bytes."""
    before, most, stop = _bytes_in(folders), [0], Event()

    def watch() -> None:
        while not stop.wait(0.2):
            most[0] = max(most[0], _bytes_in(folders) - before)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        stop.set()
        thread.join()


# -- a step in a separate process --------------------------------------------------------------------------------------


@dataclass
class Round:
    """Time, memory and results of one run of a step."""

    seconds: float
    processor_seconds: float
    held_bytes: int | None  # memory before it began
    peak_bytes: int  # the most memory while it ran
    scratch_bytes: int  # the most bytes of temporary files at a time; 0 if that was not watched
    made: int | None  # how many events, cells or rows the step made
    notes: dict[str, float]  # further figures of the step


_subject: list[Subject] = []


def _begin(subject: Subject) -> None:
    # temporary files, too, are removed with the folder, even if the process is killed
    os.environ["TMPDIR"] = tempfile.tempdir = str(subject.scratch)
    _subject.append(subject)


def _round(name: str, is_watched: bool) -> Round:
    """Prepare a step, and run it."""
    from benchmarks.peers import STEPS

    (subject,) = _subject
    subject.notes.clear()
    run = STEPS[name].prepare(subject)
    with watched(*((subject.scratch, subject.store / "enhanced") if is_watched else ())) as scratch:
        before = held()
        reset_peak()
        used, begin = processor_seconds(), time.perf_counter()
        made = run()
        seconds, used = time.perf_counter() - begin, processor_seconds() - used
        most = peak()
    number = int(made) if isinstance(made, Integral) else None
    return Round(seconds, used, before, most, scratch[0], number, dict(subject.notes))


class StepProcess(AbstractContextManager["StepProcess"]):
    """A process that runs one step of a subject any number of times; `rounds` are the measurements of each run."""

    def __init__(self, step: str, subject: Subject) -> None:
        self.step, self.rounds = step, list[Round]()
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=(subject,))

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, *, is_watched: bool = False) -> Round:
        """Run the step once; temporary files are watched only if `is_watched`, since that disturbs short steps."""
        self.rounds.append(self._pool.submit(_round, self.step, is_watched).result())
        return self.rounds[-1]

    def figures(self) -> dict[str, Any]:
        """Return the figures of the step besides seconds: medians, and the maximum of memory and of temporary files."""
        first, last = self.rounds[0], self.rounds[-1]
        times = sorted(r.processor_seconds for r in self.rounds[1:] or self.rounds)
        return {
            "processor_seconds": times[len(times) // 2],
            "held_bytes": first.held_bytes,
            "peak_bytes": max(r.peak_bytes for r in self.rounds),
            "scratch_bytes": first.scratch_bytes,
            "made": last.made,
            "notes": last.notes,
        }
