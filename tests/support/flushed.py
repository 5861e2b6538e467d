"""Programs that write their trace buffer out while they run."""

from __future__ import annotations

from support.epilog_writer import EpilogWriter
from support.otf2_writer import Archive


def program(tmp_path, *, pending: int):
    """One thread: main 0..100, in it foo from `pending` to 90; the buffer is flushed from 40 to 60 in front of foo's
    ENTER."""
    archive = Archive(tmp_path / "traces.otf2")
    process = archive.process("p")
    with archive.location("thread", process) as thread:
        thread.enter(0, "main")
        thread.record(40, "BufferFlush", stop_time=60)
        thread.enter(pending, "foo").leave(90, "foo").leave(100, "main")
    return archive.write()


def late_event(folder):
    """Two processes; the buffer of the first is written out from 4 to 6 in front of the ENTER of `work`, which has the
    time 3. Returns the EPILOG file."""
    w = EpilogWriter()
    (first,), (second,) = w.process(), w.process()
    w.comm([0, 1])
    w.enter(first, 0.0, "main").enter(second, 0.0, "main")
    w.enter(first, 4.0, "TRACING").exit(first, 6.0).enter(first, 3.0, "work")
    w.enter(second, 7.0, "work").exit(second, 8.0)
    w.exit(first, 9.0).exit(first, 10.0).exit(second, 10.0)
    return w.write(folder / "x.elg")
