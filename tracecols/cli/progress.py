"""A progress bar for long commands, shown on terminals."""

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
def reported_compiling(notify: Callable[[bool], None]) -> Iterator[None]:
    """Call `notify` with True when kernels begin to be compiled, and with False when no more are; kernels loaded from
    the cache do not count."""
    from tracecols.kernels.kernel import when_numba_is_loaded

    with ExitStack() as stack, when_numba_is_loaded(lambda: stack.enter_context(_listening(notify))):
        yield


def _listening(notify: Callable[[bool], None]) -> AbstractContextManager[None]:
    """Return a context in which numba reports the begin and end of compilations."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        """Count the kernels being compiled in all threads."""

        running = 0
        lock = Lock()

        def _change(self, by: int) -> None:
            with self.lock:
                self.running += by
                notify(self.running > 0)

        def on_start(self, _event: Any) -> None:
            self._change(1)

        def on_end(self, _event: Any) -> None:
            self._change(-1)

    listening: AbstractContextManager[None] = event.install_listener("numba:compile", Listener())
    return listening


@contextmanager
def compiling_ahead(jobs: int) -> Iterator[None]:
    """As soon as this process has to compile a kernel, let `jobs - 1` other processes compile the kernels of an
    analysis; terminate them at the end of the context."""
    processes: list[Popen[bytes]] = []

    def notify(is_compiling: bool) -> None:
        if is_compiling and not processes:
            from tracecols.kernels import ahead

            # if they cannot be started, this process compiles all kernels itself
            with suppress(OSError):
                processes.extend(ahead.start(jobs - 1))

    with reported_compiling(notify):
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """Show a progress bar on standard error, which also reports compilation of kernels; yield None if that is no
    terminal."""
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

        def notify(is_compiling: bool) -> None:
            bar.update(task, description=f"{what}: {COMPILING}" if is_compiling else what)

        with reported_compiling(notify):
            yield report
