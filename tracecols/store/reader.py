"""Open a store and read its columns, whole or by location, without copying more than asked for."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from pathlib import Path
from threading import Lock, local
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracecols.errors import StoreError
from tracecols.files import check_regular, open_regular
from tracecols.once import once
from tracecols.schema import DEFINITIONS, EVENTS, FORMAT_VERSION, SIDE_TABLES, Column, Table, metric_table
from tracecols.schema.capabilities import GET_COMPLETION
from tracecols.store import checks
from tracecols.store.arrow import arrow_schema, open_parquet, to_numpy
from tracecols.store.layout import MANIFEST, checksum, identity, part_name, read_manifest, reason

N_OPEN = 4
"""Files that a thread keeps open."""

METRICS = metric_table(0, [])
"""What the tables of all metric classes begin with."""


class Store:
    """A store on disk.

    Parameters
    ----------
    path : str or Path
        The folder `NAME.trace`.

    Attributes
    ----------
    decreases : dict of int to int
        By location how many events are earlier than the one before; of locations where there are some. Stores made before
        this was counted have none.

    Raises
    ------
    StoreError
        If it is no store, incomplete, or of a version this tracecols does not know.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.manifest: dict[str, Any]
            self.manifest, self._identity = read_manifest(self.path)
            is_store = self.manifest.get("format") == "tracecols store"
        except (OSError, ValueError, AttributeError) as error:
            if not self.path.exists():
                raise StoreError(
                    f"no such store: {self.path}\n  make one with: tracecols convert TRACE -o {self.path}"
                ) from error
            raise StoreError(
                f"{self.path} is not a store: its {MANIFEST} is missing or unreadable{reason(error)}\n  convert the trace again"
            ) from error
        if not is_store:
            raise StoreError(
                f"{self.path} is not a store of a trace (its manifest says {self.manifest.get('format')!r})\n"
                "  give a folder that 'tracecols convert' made"
            )
        version = self.manifest.get("version")
        if version != FORMAT_VERSION:
            raise StoreError(
                f"{self.path} has store format {version}, this tracecols reads {FORMAT_VERSION}\n  convert the trace again, or use the tracecols that wrote it"
            )
        if self.manifest.get("checksum") != checksum(self.manifest):
            raise StoreError(
                f"{self.path}: its {MANIFEST} does not fit its checksum\n  the store is damaged; convert the trace again"
            )
        what = checks.wrong_manifest(self.manifest)
        if what:
            raise self.damaged(f"{MANIFEST}: {what}")
        self.tables: dict[str, Table] = {"events": EVENTS}
        try:
            stored = {
                name: tuple(Column(c["name"], c["dtype"], "") for c in columns)
                for name, columns in self.manifest["tables"].items()
            }
            self.decreases = {int(location): int(n) for location, n in self.manifest.get("decreases", {}).items()}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"{self.path}: its {MANIFEST} does not say what tables there are\n  convert the trace again"
            ) from error
        for name, found in stored.items():
            declared = SIDE_TABLES.get(name)
            # the name is that of a folder
            if declared is None and not re.fullmatch(r"metrics_[0-9]+", name):
                raise StoreError(
                    f"{self.path}: no table of a store is called {name!r}\n  the store is damaged; convert the trace again"
                )
            if declared is not None and [(c.name, c.dtype) for c in declared.columns] != [
                (c.name, c.dtype) for c in found
            ]:
                raise StoreError(
                    f"{self.path}: table {name} has other columns than this tracecols knows\n  convert the trace again"
                )
            self.tables[name] = declared or Table(name, METRICS.row, (*METRICS.columns[:2], *found[2:]), METRICS.source)
        self._definitions: dict[str, pa.Table] = {}
        self._checked: dict[str, pa.Table] = {}
        self._files: dict[tuple[str, int], tuple[pq.FileMetaData, NDArray[np.int64]]] = {}
        self._recent: OrderedDict[tuple[Any, ...], dict[str, NDArray[Any]]] = OrderedDict()
        self._lock = Lock()
        self._local = local()
        n_locations = self._n_defined("locations")
        if n_locations != self.manifest["n_locations"]:
            raise self.damaged(
                f"definitions locations has {n_locations} rows, but the manifest counts {self.manifest['n_locations']}"
            )

    @property
    def capabilities(self) -> frozenset[str]:
        """What records mean where formats differ (`converters.base.Source.capabilities`)."""
        source = self.manifest["source"]
        # stores made before this was recorded are of two formats
        default = [GET_COMPLETION] if str(source["format"]).startswith("EPILOG") else []
        return frozenset(source.get("capabilities", default))

    @once
    def digest(self) -> str:
        """What tells this store from another one of the same name, to recognise what was made of it."""
        files = [self.path / MANIFEST, *(self.path / "definitions" / f"{t}.parquet" for t in ("locations", "segments"))]
        whole = hashlib.sha256()
        for path in files:
            with open_regular(path) as file:
                whole.update(file.read())
        return whole.hexdigest()

    def damaged(self, what: str) -> StoreError:
        """Make the error about something in the store that contradicts itself or the schema."""
        return StoreError(f"{self.path}: {what}\n  the store is damaged; convert the trace again")

    def _open(self, path: Path, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        """Open a file; where the folder is still the same then, it belongs to the manifest that was read."""
        try:
            file = open_parquet(path, metadata)
        except (OSError, pa.ArrowException) as error:
            if identity(self.path) == self._identity:
                raise StoreError(
                    f"{path} cannot be read: {error}\n  the store is damaged; convert the trace again"
                ) from error
        else:
            if identity(self.path) == self._identity:
                return file
        raise StoreError(f"{self.path} was replaced or removed while it was being read\n  open it again")

    def _open_here(self, path: Path, metadata: pq.FileMetaData) -> pq.ParquetFile:
        """Return an open file of this thread. A file of many row groups takes longer to open than a small one of them to read."""
        files: OrderedDict[Path, pq.ParquetFile] = self._local.__dict__.setdefault("files", OrderedDict())
        file = files.get(path)
        if file is None:
            file = files[path] = self._open(path, metadata)
            while len(files) > N_OPEN:
                files.popitem(last=False)
        return file

    def check_files(self) -> None:
        """Refuse a store in which something else stands in the place of a file; for those who open its files themselves.

        Raises
        ------
        StoreError
        """
        for folder in ("definitions", *self.tables):
            for path in (self.path / folder).glob("*.parquet"):
                try:
                    check_regular(path)
                except OSError as error:
                    raise StoreError(
                        f"{path} cannot be read: {error}\n  the store is damaged; convert the trace again"
                    ) from error

    @once
    def definitions(self) -> dict[str, pa.Table]:
        """All definition tables."""
        return {name: self.definition(name) for name in DEFINITIONS}

    def definition(self, name: str) -> pa.Table:
        """Return one definition table.

        Raises
        ------
        StoreError
            If it is missing, does not have the declared columns, or refers to what does not exist.
        """
        known = self._checked.get(name)
        if known is not None:
            return known
        table = self._definition(name)
        what = checks.wrong_definition(name, table, self._n_defined)
        if not what and name == "segments":
            what = checks.wrong_segments(table)
        elif not what and name == "locations":
            what = checks.wrong_locations(table, self._n_events)
        elif not what and name == "metric_classes":
            what = checks.wrong_metric_classes(table, self.definition("metric_members"), self.tables)
        if what:
            raise self.damaged(f"definitions {name}, {what}")
        return self._checked.setdefault(name, table)

    def _n_defined(self, name: str) -> int:
        """Count the rows of a definition table."""
        n: int = self._definition(name).num_rows
        return n

    def _definition(self, name: str) -> pa.Table:
        """Read a definition table, once; its values are not checked."""
        known = self._definitions.get(name)
        if known is not None:
            return known
        path = self.path / "definitions" / f"{name}.parquet"
        try:
            # not pq.read_table: it imports pyarrow.dataset and pandas, 0.3 s
            table = self._open(path).read(use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(
                f"{path} cannot be read: {error}\n  the store is damaged; convert the trace again"
            ) from error
        if table.schema != arrow_schema(DEFINITIONS[name]):
            raise StoreError(
                f"{path} has other columns than expected: {', '.join(DEFINITIONS[name].names)}\n  convert the trace again"
            )
        return self._definitions.setdefault(name, table)

    @once
    def _segments(self) -> dict[str, dict[int, tuple[int, int, int]]]:
        columns = self.definition("segments").columns
        result: dict[str, dict[int, tuple[int, int, int]]] = {}
        for table, location, part, offset, n in zip(*(to_numpy(c).tolist() for c in columns), strict=True):
            result.setdefault(table, {})[location] = (part, offset, n)
        if not result.keys() <= self.tables.keys():
            missing = sorted(result.keys() - self.tables.keys())
            raise StoreError(
                f"{self.path}: its {MANIFEST} does not list the table {missing[0]}\n"
                "  the store is damaged; convert the trace again"
            )
        what = checks.wrong_counts(self.manifest, lambda table: sum(n for *_, n in result.get(table, {}).values()))
        if what:
            raise self.damaged(what)
        return result

    @once
    def _n_events(self) -> NDArray[np.int64]:
        """Number of events of every location; (n_locations,)."""
        result = np.zeros(self._n_defined("locations"), np.int64)
        for location, (_, _, n) in self._segments.get("events", {}).items():
            result[location] = n
        return result

    @once
    def _first_rows(self) -> NDArray[np.int64]:
        """Row of the first event of every location, and one past the last event; (n_locations + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._n_events)])

    def n_rows(self, table: str, location: int | None = None) -> int:
        """Count the rows of a table, of one location or of all."""
        segments = self._segments.get(table, {})
        if location is None:
            return sum(s[2] for s in segments.values())
        return segments.get(location, (0, 0, 0))[2]

    def _layout(self, table: str, part: int) -> tuple[pq.FileMetaData, NDArray[np.int64]]:
        """Return the metadata of a file, and the first row of each of its row groups."""
        with self._lock:
            known = self._files.get((table, part))
        if known is not None:
            return known
        path = self.path / table / part_name(part)
        file = self._open(path)
        meta = file.metadata
        if file.schema_arrow != arrow_schema(self.tables[table]):
            raise StoreError(
                f"{path} has other columns than the manifest says\n  the store is damaged; convert the trace again"
            )
        starts = np.cumsum([0] + [meta.row_group(i).num_rows for i in range(meta.num_row_groups)])
        with self._lock:
            self._files[table, part] = meta, starts
        return meta, starts

    def read(
        self,
        table: str,
        location: int,
        columns: list[str] | None = None,
        start: int = 0,
        stop: int | None = None,
        *,
        checked: bool = True,
    ) -> dict[str, NDArray[Any]]:
        """Read the rows of one location.

        Parameters
        ----------
        table : str
            `events` or a side table.
        location : int
            Row of the location.
        columns : list of str, optional
            All by default.
        start, stop : int, optional
            Which of the location's rows of this table.
        checked : bool, optional
            Check the values; without, who reads them does (`kernels.stacks.scan_events`).

        Returns
        -------
        dict of str to array
            The columns; empty arrays if the location has no rows.

        Raises
        ------
        StoreError
            If they cannot be read, or hold what the schema does not allow (`tracecols.store.checks`).
        """
        declared = self.tables.get(table) or SIDE_TABLES.get(table)
        if declared is None:
            raise StoreError(f"{self.path} has no table {table}\n  it has {', '.join(self.tables)}")
        columns = list(declared.names) if columns is None else columns
        part, offset, n = self._segments.get(table, {}).get(location, (0, 0, 0))
        stop = n if stop is None else min(stop, n)
        if start >= stop:
            return {c: np.empty(0, declared[c].dtype) for c in columns}
        meta, starts = self._layout(table, part)
        if offset + n > starts[-1]:
            raise StoreError(
                f"{self.path / table / part_name(part)} has {starts[-1]} rows, expected at least {offset + n}\n"
                "  the store is damaged; convert the trace again"
            )
        first = int(np.searchsorted(starts, offset + start, "right")) - 1
        last = int(np.searchsorted(starts, offset + stop, "left"))
        key = (table, part, first, last, tuple(columns))
        shared = table != "events"
        with self._lock:
            found = self._recent.get(key) if shared else None
        if found is None:
            path = self.path / table / part_name(part)
            file = self._open_here(path, meta)
            try:
                stored = file.read_row_groups(range(first, last), columns=columns, use_threads=False)
            except (OSError, pa.ArrowException) as error:
                raise StoreError(
                    f"{path} cannot be read: {error}\n  the store is damaged; convert the trace again"
                ) from error
            found = {c: to_numpy(stored.column(c)) for c in columns}
            if shared:
                # small locations share row groups of side tables
                with self._lock:
                    self._recent[key] = found
                    while len(self._recent) > 32:
                        self._recent.popitem(last=False)
        begin = offset + start - int(starts[first])
        result = {c: values[begin : begin + stop - start] for c, values in found.items()}
        if not checked:
            return result
        at, column, what = checks.wrong_columns(
            declared, result, range(*self._first_rows[location : location + 2].tolist()), self._n_defined
        )
        if at >= 0:
            raise self.damaged(f"table {table}, column {column}, location {location}, row {start + at}: {what}")
        return result
