"""A trace with other times than the recorded ones, which can be written as a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecols.conversion import Progress, write_store
from tracecols.errors import StoreError
from tracecols.scratch import temporary_folder
from tracecols.slices.source import StoreSource
from tracecols.store.layout import is_made_here, new_folder, read_manifest


class RewrittenTrace(ABC):
    """A trace with other times.

    Attributes
    ----------
    fact : str
        What the manifest of the store it is written to says of it; such stores are replaced by others of the same kind.
    """

    fact: str
    _jobs: int

    @abstractmethod
    def source(self) -> StoreSource:
        """Return its events."""

    def save(self, path: str | Path, *, progress: Progress | None = None, replaces: bool = False) -> Path:
        """Write it as a store; an older store of the same kind is replaced.

        Parameters
        ----------
        path : str or Path
            The store to make, `NAME.trace`.
        progress : callable, optional
            Called with the number of events done and the number of all.
        replaces : bool, optional
            Whether the store of a recorded trace may be replaced, too.

        Raises
        ------
        StoreError
            If it cannot be written, or something else stands there, such as a recorded trace.
        """
        path = Path(path)
        source = self.source()
        is_other = is_made_here(path, "a store of a trace") and self.fact not in read_manifest(path)[0].get(
            "source", {}
        )
        if is_other and not replaces:
            raise StoreError(f"{path} is the store of a recorded trace\n  give another name, or remove it")
        if path.resolve() == source.store.path.resolve():
            raise StoreError(f"{path} is the store that is read\n  give another name")
        with new_folder(path, "a store of a trace") as folder:
            write_store(source, folder, jobs=self._jobs, salvage=False, progress=progress, before=source.store.manifest)
        return path

    @contextmanager
    def written(self) -> Iterator[Path]:
        """Write it as a store that exists until the context ends."""
        with temporary_folder() as folder:
            source = self.source()
            write_store(source, folder, jobs=self._jobs, salvage=False, progress=None, before=source.store.manifest)
            yield folder
