"""A progress bar on long work when a person watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from tracecols.work.progress import Progress

if TYPE_CHECKING:
    from subprocess import Popen

COMPILING = "compiling kernels, once after an installation"


@contextmanager
def reported_compiling(tell: Callable[[bool], None]) -> Iterator[None]:
    """Call a function when kernels begin to be compiled, and when no more are; kernels that are in the cache are
    not."""
    from tracecols.kernels.kernel import when_numba_is_loaded

    with ExitStack() as stack, when_numba_is_loaded(lambda: stack.enter_context(_listening(tell))):
        yield


def _listening(tell: Callable[[bool], None]) -> AbstractContextManager[None]:
    """Return a context in which numba reports when it begins and ends to compile."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        """Count the kernels that are being compiled, in whatever thread."""

        running = 0
        lock = Lock()

        def _change(self, by: int) -> None:
            with self.lock:
                self.running += by
                tell(self.running > 0)

        def on_start(self, _event: Any) -> None:
            self._change(1)

        def on_end(self, _event: Any) -> None:
            self._change(-1)

    listening: AbstractContextManager[None] = event.install_listener("numba:compile", Listener())
    return listening


@contextmanager
def compiling_ahead(jobs: int) -> Iterator[None]:
    """Let other processes, one less than threads of the command, compile the kernels of an analysis from when this one
    has to compile any, and end them with the context."""
    processes: list[Popen[bytes]] = []

    def tell(is_compiling: bool) -> None:
        if is_compiling and not processes:
            from tracecols.kernels import ahead

            # without them this process compiles all by itself
            with suppress(OSError):
                processes.extend(ahead.start(jobs - 1))

    with reported_compiling(tell):
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """Show a bar on the terminal's error stream, and when kernels are compiled; yield None when no one watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars

    from tracecols.report.screen import Screen

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Screen(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")

        def report(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate=f"{speed / 1e6:.1f} M events/s" if speed else "")

        def tell(is_compiling: bool) -> None:
            bar.update(task, description=f"{what}: {COMPILING}" if is_compiling else what)

        with reported_compiling(tell):
            yield report
