"""Options that let worker processes, or a Dask cluster, do the work of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from tracecols.work.cluster import Cluster


class GivenCluster(NamedTuple):
    """Who is asked to do the work: worker processes of this machine, the workers of a scheduler, or, if nothing is
    given, threads.
    """

    workers: int | None
    """Worker processes to start on this machine."""
    scheduler: str | None
    """Address of a scheduler."""
    scheduler_file: Path | None
    """File that a scheduler wrote."""
    scratch: Path | None
    """Where the scratch folder is made."""

    @property
    def is_given(self) -> bool:
        """Whether workers do the work."""
        return self._n_given > 0

    @property
    def _n_given(self) -> int:
        return sum(given is not None for given in (self.workers, self.scheduler, self.scheduler_file))

    def check(self, threads_use_scratch: bool = False) -> None:
        """Refuse what does not go together; threads of this process may use the scratch folder as well. Raises
        click.UsageError."""
        if self._n_given > 1:
            raise click.UsageError("give one of --workers, --scheduler and --scheduler-file")
        if self.scratch is not None and not self.is_given and not threads_use_scratch:
            raise click.UsageError(
                "--scratch is where workers of a cluster meet: give --workers, --scheduler or --scheduler-file"
            )

    @contextmanager
    def opened(self, jobs: int | None, beside: Path, sees: dict[str, Path]) -> Iterator[Cluster | None]:
        """Start the workers, or connect to them; None if threads are to do the work.

        Worker processes of this machine share `jobs` threads; on a cluster the scratch folder is made beside `beside`
        unless something else is said.
        """
        if not self.is_given:
            yield None
            return
        from tracecols.work.cluster import connected_to, default_scratch, local_workers, working_on
        from tracecols.work.jobs import n_jobs
        from tracecols.work.scratch import temporary_folder

        with ExitStack() as stack:
            if self.workers is not None:
                # on one machine temporary files are kept where those of threads are
                parent = self.scratch or stack.enter_context(temporary_folder())
                opened = local_workers(self.workers, max(1, n_jobs(jobs) // self.workers))
            else:
                parent = default_scratch(self.scratch, beside)
                opened = connected_to(self.scheduler, self.scheduler_file)
            client = stack.enter_context(opened)
            yield stack.enter_context(working_on(client, parent, sees, n_jobs(jobs)))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `GivenCluster` to a command; use as a decorator, below the others."""
    for option in (
        click.option(
            "--scratch",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="FOLDER",
            help="Folder for temporary files; workers of a cluster all see it under this name.  [default: TMPDIR; "
            "of a scheduler: beside the store]",
        ),
        click.option(
            "--scheduler-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Let the workers of the scheduler that wrote this file do the work.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Let the workers of this Dask scheduler do the work: tcp://host:8786.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(1),
            metavar="N",
            help="Let N processes of this machine do the work, which share the threads.",
        ),
    ):
        command = option(command)
    return command
