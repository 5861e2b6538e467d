"""Programs that flush their trace buffer while they run."""

from __future__ import annotations

from support.epilog_writer import EpilogWriter
from support.otf2_writer import Archive


def program(tmp_path, *, pending: int):
    """Write a program of one thread: main 0..100 calls foo from `pending` to 90; the buffer is flushed from 40 to 60,
    before the ENTER of foo."""
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main")
        thread.record(40, "BufferFlush", stop_time=60)
        thread.enter(pending, "foo").leave(90, "foo").leave(100, "main")
    return archive.write()


def late_event(folder):
    """Write a program of two processes; the buffer of the first is flushed from 4 to 6, before the ENTER of `work` with
    time 3. Return the EPILOG file."""
    w = EpilogWriter()
    (first,), (second,) = w.process(), w.process()
    w.comm([0, 1])
    w.enter(first, 0.0, "main").enter(second, 0.0, "main")
    w.enter(first, 4.0, "TRACING").exit(first, 6.0).enter(first, 3.0, "work")
    w.enter(second, 7.0, "work").exit(second, 8.0)
    w.exit(first, 9.0).exit(first, 10.0).exit(second, 10.0)
    return w.write(folder / "x.elg")
