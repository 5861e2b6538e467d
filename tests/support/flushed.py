"""A program that writes its trace buffer out while it runs."""

from __future__ import annotations

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
