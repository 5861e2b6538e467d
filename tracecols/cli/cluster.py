"""Options that let worker processes, or a Dask cluster, do the work of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tracecols.work.cluster import Cluster


@dataclass(frozen=True)
class GivenCluster:
    """Who is asked to do the work: worker processes of this machine, the workers of a scheduler, or, if nothing is
    given, threads.

    Attributes
    ----------
    workers : int, optional
        Worker processes to start on this machine.
    scheduler : str, optional
        Address of a scheduler.
    scheduler_file : Path, optional
        File that a scheduler wrote.
    scratch : Path, optional
        Where the scratch folder is made.
    """

    workers: int | None
    scheduler: str | None
    scheduler_file: Path | None
    scratch: Path | None

    def check(self) -> None:
        """Refuse what does not go together.

        Raises
        ------
        click.UsageError
        """
        n = sum(given is not None for given in (self.workers, self.scheduler, self.scheduler_file))
        if n > 1:
            raise click.UsageError("give one of --workers, --scheduler and --scheduler-file")
        if self.scratch is not None and not n:
            raise click.UsageError(
                "--scratch is where workers of a cluster meet: give --workers, --scheduler or --scheduler-file"
            )

    @contextmanager
    def opened(self, jobs: int | None, beside: Path, sees: dict[str, Path]) -> Iterator[Cluster | None]:
        """Start the workers, or connect to them; None if threads are to do the work.

        Parameters
        ----------
        jobs : int, optional
            Threads, which worker processes of this machine share.
        beside : Path
            Beside which the scratch folder is made on a cluster unless something else is said.
        """
        if self.workers is None and self.scheduler is None and self.scheduler_file is None:
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
            help="Where workers leave what they tell each other; all see it under this name.  [default: beside the store; of --workers: TMPDIR]",
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
