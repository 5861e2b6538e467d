"""Options for running a command on worker processes or a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tracecols.cli.vocabulary import PATH, together

if TYPE_CHECKING:
    from tracecols.work.cluster import Cluster


class GivenCluster(NamedTuple):
    """The requested executor: worker processes of this machine, the workers of a scheduler, or, if nothing is given,
    threads.
    """

    workers: int | None
    """Number of worker processes to start on this machine."""
    scheduler: str | None
    """Address of a scheduler."""
    scheduler_file: Path | None
    """File with the address, written by a scheduler."""
    scratch: Path | None
    """Folder in which the scratch folder is created."""

    @property
    def is_given(self) -> bool:
        """Whether worker processes are used."""
        return self._n_given > 0

    @property
    def _n_given(self) -> int:
        return sum(given is not None for given in (self.workers, self.scheduler, self.scheduler_file))

    def check(self, threads_use_scratch: bool = False) -> None:
        """Refuse contradictory options; `--scratch` without workers is allowed if `threads_use_scratch`. Raises
        click.UsageError."""
        if self._n_given > 1:
            raise click.UsageError("give one of --workers, --scheduler and --scheduler-file")
        if self.scratch is not None and not self.is_given and not threads_use_scratch:
            raise click.UsageError(
                "--scratch without --workers, --scheduler or --scheduler-file: it is where workers exchange files"
            )

    @contextmanager
    def opened(self, jobs: int | None, beside: Path, sees: dict[str, Path]) -> Iterator[Cluster | None]:
        """Start the workers, or connect to them; yield None if threads are used.

        Worker processes of this machine share `jobs` threads; on a cluster, the scratch folder is created beside
        `beside` unless `scratch` is given.
        """
        if not self.is_given:
            yield None
            return
        from tracecols.work.cluster import connected_to, default_scratch, local_workers, working_on
        from tracecols.work.jobs import n_jobs
        from tracecols.work.scratch import temporary_folder

        with ExitStack() as stack:
            if self.workers is not None:
                # on one machine, temporary files go to the same folder as with threads
                parent = self.scratch or stack.enter_context(temporary_folder())
                opened = local_workers(self.workers, max(1, n_jobs(jobs) // self.workers))
            else:
                parent = default_scratch(self.scratch, beside)
                opened = connected_to(self.scheduler, self.scheduler_file)
            client = stack.enter_context(opened)
            yield stack.enter_context(working_on(client, parent, sees, n_jobs(jobs)))


cluster_options = together(
    click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Use N worker processes on this machine, which share the threads.",
    ),
    click.option(
        "--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler, such as tcp://host:8786."
    ),
    click.option(
        "--scheduler-file", type=PATH, metavar="FILE", help="Use the workers of the scheduler that wrote this file."
    ),
    click.option(
        "--scratch",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Folder for temporary files; all workers of a cluster must see it under this name.  [default: TMPDIR; "
        "with a scheduler: beside the store]",
    ),
)
"""Decorator that adds the options of `GivenCluster` to a command."""
