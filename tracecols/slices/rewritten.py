"""A trace with times other than the recorded ones, which can be written as a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecols.conversion import write_store
from tracecols.errors import StoreError
from tracecols.given.arguments import as_path
from tracecols.slices.source import StoreSource
from tracecols.store.outputs import store_output
from tracecols.work.progress import Progress
from tracecols.work.scratch import naming_full_disks, temporary_folder


class RewrittenTrace(ABC):
    """A trace with other times."""

    _jobs: int

    @abstractmethod
    def source(self) -> StoreSource:
        """Return its events."""

    def save(self, path: str | Path, *, progress: Progress | None = None, force: bool = False) -> Path:
        """Write it as a store; an older store with times of the same origin is replaced.

        Parameters
        ----------
        path : str or Path
            The store to make, `NAME.trace`.
        progress : callable, optional
            Called with the number of events done and the number of all.
        force : bool, optional
            Replace any file, and any store but the one that is read, as well.

        Raises
        ------
        StoreError
            If it cannot be written, or something else exists at `path`, such as a recorded trace.
        """
        path = as_path(path, StoreError)
        source = self.source()
        output = store_output(path, source.properties, force=force)
        output.check()
        if path.resolve() == source.store.path.resolve():
            raise StoreError(f"{path} is the store that is read\n  give another name")
        with output.new() as folder:
            write_store(source, folder, jobs=self._jobs, salvage=False, progress=progress, before=source.store.manifest)
        return path

    @contextmanager
    def written(self) -> Iterator[Path]:
        """Write it as a store that exists until the context ends."""
        with temporary_folder() as folder:
            source = self.source()
            with naming_full_disks(folder):
                write_store(source, folder, jobs=self._jobs, salvage=False, progress=None, before=source.store.manifest)
            yield folder
