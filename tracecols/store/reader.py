"""Open a store and read its columns, whole or by location, without copying more than requested."""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from threading import Lock, local
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracecols.errors import StoreError
from tracecols.given.arguments import as_path
from tracecols.given.files import advice, check_regular, is_denied, open_regular
from tracecols.once import once
from tracecols.schema import (
    DEFINITIONS,
    EVENTS,
    FORMAT_VERSION,
    MANIFEST_ENTRIES,
    SIDE_TABLES,
    Column,
    Table,
    metric_table,
    version_of,
)
from tracecols.schema.kinds import GET_COMPLETION
from tracecols.schema.versions import difference, newer_note
from tracecols.store import checks
from tracecols.store.arrow import absent, arrow_schema, arrow_type, compare_columns, open_parquet, to_numpy
from tracecols.store.layout import MANIFEST, await_manifest, checksum, identity, instead, part_name, reason, recognised
from tracecols.vectors import offsets_of

DAMAGED = "the store is damaged; convert the trace again"
"""What to do about a damaged store."""

N_OPEN = 4
"""Files that a thread keeps open."""

SHARED_ROWS = 1 << 18
"""Rows, at most, of row groups that are kept for the next location, which has rows in them as well."""

N_SHARED = 32
"""Number of such row groups that are kept."""

Arrays = dict[str, NDArray[Any]]
"""Columns by name; (n,) each."""

METRICS = metric_table(0, [])
"""The common first columns of the tables of all metric classes."""


class Extents(NamedTuple):
    """Positions of the rows of every location in a table: one entry per location."""

    part: NDArray[np.int64]
    """(n_locations,): number of the part file."""
    offset: NDArray[np.int64]
    """(n_locations,): first of its rows there."""
    n: NDArray[np.int64]
    """(n_locations,): number of rows; 0 if it has none."""


class Store:
    """A store on disk.

    Parameters
    ----------
    path : str or Path
        The folder `NAME.trace`.
    definitions : mapping of str to pyarrow.Table, optional
        Tables of definitions that have just been written there and need not be read.

    Attributes
    ----------
    version : Version
        Version of its format (`schema.versions`): columns that an older minor version lacks read as null or their
        declared default; additional contents of a newer one are ignored.
    decreases : dict of int to int
        By location, the number of events that are earlier than the one before; only locations with such events. Stores
        made before this was counted have no entries.

    Raises
    ------
    StoreError
        If it is not a store, incomplete, or of a version this tracecols does not know.
    """

    def __init__(self, path: str | Path, definitions: Mapping[str, pa.Table] | None = None) -> None:
        self.path = as_path(path, StoreError)
        self.manifest, self._identity = self._read_manifest()
        self._check_manifest()
        self._seen: dict[str, Extents] | None = None
        self.tables: dict[str, Table] = {"events": EVENTS}
        self._ignored: list[str] = []
        self._declare_tables()
        self._lacking = {name: {c.name for c in self.lacking(table)} for name, table in self.tables.items()}
        self._definitions: dict[str, pa.Table] = dict(definitions or {})
        self._checked: dict[str, pa.Table] = {}
        self._files: dict[tuple[str, int], tuple[pq.FileMetaData, list[int]]] = {}
        self._recent: OrderedDict[tuple[Any, ...], Arrays] = OrderedDict()
        self._lock = Lock()
        self._local = local()
        # this compares the number of locations with the manifest
        self._n_defined("locations")

    def _read_manifest(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Read the manifest and its identity; refuse paths that have none."""
        try:
            manifest, identity = await_manifest(self.path)
            if not isinstance(manifest, dict):
                raise ValueError("it is not a JSON object")
            return manifest, identity
        except (OSError, ValueError) as error:
            if not is_denied(error) and not self.path.exists():
                archive = self.path.with_suffix("")
                known = archive if recognised(archive) == "a trace archive" else "TRACE"
                raise StoreError(
                    f"no such store: {self.path}\n  make one with: tracecols convert {known} -o {self.path}"
                ) from error
            if what := instead(self.path, "a store"):
                raise StoreError(what) from error
            raise StoreError(
                f"{self.path} is not a store: its {MANIFEST} is missing or unreadable{reason(error)}\n"
                f"  {advice(error, 'convert the trace again')}"
            ) from error

    def _check_manifest(self) -> None:
        """Refuse manifests of other things and versions, and damaged ones."""
        kind = self.manifest.get("format")
        if kind != "tracecols store":
            is_cube, made = kind == "tracecols severity", "give a folder that 'tracecols convert' made"
            raise StoreError(
                f"{self.path} is not a store of a trace (its manifest says {kind!r})\n"
                f"  {'tracecols.read_cube reads it' if is_cube else made}",
                in_shell=f"look at it: tracecols show {self.path}" if is_cube else made,
            )
        version = version_of(self.manifest)
        if version is None or version.major != FORMAT_VERSION.major:
            raise StoreError(
                f"{self.path} has store format {self.manifest.get('version')}, this tracecols reads "
                f"{FORMAT_VERSION.major}\n  convert the trace again, or use the tracecols that wrote it"
            )
        self.version = version
        if self.manifest.get("checksum") != checksum(self.manifest):
            raise self.damaged(f"its {MANIFEST} does not fit its checksum")
        if what := checks.wrong_manifest(self.manifest):
            raise self.damaged(f"{MANIFEST}: {what}")

    def _declare_tables(self) -> None:
        """Compare the tables that the manifest lists with those that are declared."""
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
        version = self.version
        self._stored = {name: [(c.name, c.dtype) for c in found] for name, found in stored.items()}
        for name, found in stored.items():
            declared = SIDE_TABLES.get(name)
            # the name is that of a folder
            if declared is None and not re.fullmatch(r"metrics_[0-9]+", name):
                if version > FORMAT_VERSION:
                    self._ignored.append(f"table {name}")
                    continue
                raise self.damaged(f"no table of a store is called {name!r}")
            if declared is None:
                values = [c for c in found[2:] if version <= FORMAT_VERSION or re.fullmatch(r"value_[0-9]+", c.name)]
                declared = Table(name, METRICS.row, (*METRICS.columns[:2], *values), METRICS.source)
            types = {c.name: c.dtype for c in declared.columns}
            differs = difference(declared, self._stored[name], types, version, FORMAT_VERSION)
            if differs is None:
                raise StoreError(
                    f"{self.path}: table {name} has other columns than this tracecols knows\n  convert the trace again"
                )
            self._ignored += [f"column {name}.{column}" for column in differs.unknown]
            self.tables[name] = declared

    def __reduce__(self) -> tuple[Any, tuple[Path, str]]:
        """Pickle the store as its path; the receiving process opens it again, once."""
        return _open_again, (self.path.absolute(), self.digest)

    @property
    def capabilities(self) -> frozenset[str]:
        """Meanings of records that differ between formats (`converters.base.Source.capabilities`)."""
        source = self.manifest["source"]
        # stores made before this was recorded are of two formats
        default = [GET_COMPLETION] if str(source["format"]).startswith("EPILOG") else []
        return frozenset(source.get("capabilities", default))

    @property
    def orders_ranks(self) -> bool:
        """Whether communicators list their members in the order of their ranks; EPILOG has sets of processes."""
        return not str(self.manifest["source"]["format"]).startswith("EPILOG")

    @property
    def note(self) -> str:
        """A note for users that its format is newer, and what is ignored; empty if it is not newer."""
        if self.version <= FORMAT_VERSION:
            return ""
        ignored = list(self._ignored)
        files = [(EVENTS, path) for path in sorted((self.path / "events").glob("*.parquet"))[:1]]
        files += [(table, self.path / "definitions" / f"{name}.parquet") for name, table in DEFINITIONS.items()]
        for table, path in files:
            names = self._open(path).schema_arrow.names
            ignored += [f"column {table.name}.{name}" for name in names if name not in table.names]
        tables = sorted(path.stem for path in (self.path / "definitions").glob("*.parquet"))
        ignored += [f"table {name}" for name in tables if name not in DEFINITIONS]
        ignored += [f"entry {name} of the manifest" for name in self.manifest if name not in MANIFEST_ENTRIES]
        return newer_note("store", self.version, FORMAT_VERSION, ignored)

    def lacking(self, table: Table) -> tuple[Column, ...]:
        """Return the declared columns that the files of a table lack, since they are older."""
        return tuple(column for column in table.columns if column.since > self.version)

    @once
    def digest(self) -> str:
        """A digest that distinguishes this store from others, to recognise files derived from it."""
        files = [self.path / MANIFEST, *(self.path / "definitions" / f"{t}.parquet" for t in ("locations", "segments"))]
        whole = hashlib.sha256()
        for path in files:
            with open_regular(path) as file:
                whole.update(file.read())
        return whole.hexdigest()

    def damaged(self, what: str) -> StoreError:
        """Make the error about something in the store that contradicts itself or the schema."""
        return StoreError(f"{self.path}: {what}\n  {DAMAGED}")

    def _open(self, path: Path, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        """Open a file; it belongs to the manifest that was read if the folder is still the same afterwards."""
        try:
            file = open_parquet(path, metadata)
        except (OSError, pa.ArrowException) as error:
            if identity(self.path) == self._identity:
                raise _unreadable(path, error) from error
        else:
            if identity(self.path) == self._identity:
                return file
        raise StoreError(f"{self.path} was replaced or removed while it was being read\n  open it again")

    def _open_here(self, path: Path, metadata: pq.FileMetaData) -> pq.ParquetFile:
        """Return an open file of this thread: opening one takes longer than reading a small row group."""
        files: OrderedDict[Path, pq.ParquetFile] = self._local.__dict__.setdefault("files", OrderedDict())
        file = files.get(path)
        if file is None:
            file = files[path] = self._open(path, metadata)
            while len(files) > N_OPEN:
                files.popitem(last=False)
        return file

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    def check_files(self) -> None:
        """Refuse files that are not regular, for callers that open them themselves. Raises StoreError."""
        for folder in ("definitions", *self.tables):
            for path in (self.path / folder).glob("*.parquet"):
                try:
                    check_regular(path)
                except OSError as error:
                    raise _unreadable(path, error) from error

    @once
    def definitions(self) -> dict[str, pa.Table]:
        """All definition tables."""
        return {name: self.definition(name) for name in DEFINITIONS}

    def definition(self, name: str) -> pa.Table:
        """Return a definition table. Raises StoreError if it is missing, or not as declared."""
        known = self._checked.get(name)
        if known is not None:
            return known
        table = self._definition(name)
        what = checks.wrong_definition(name, table, self._n_defined)
        if not what and name == "segments":
            what = checks.wrong_segments(table)
        elif not what and name == "locations":
            what = checks.wrong_locations(table, self.n_events)
        elif not what and name == "metric_classes":
            what = checks.wrong_metric_classes(table, self.definition("metric_members"), self.tables)
        if what:
            raise self.damaged(f"definitions {name}, {what}")
        return self._checked.setdefault(name, table)

    def names(self, table: str) -> list[str]:
        """Return the names of the entries of a definition table."""
        found: list[str] = self.definition(table).column("name").to_pylist()
        return found

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
        if DEFINITIONS[name].since > self.version and not path.exists():
            empty = [absent(c, 0) for c in DEFINITIONS[name].columns]
            return self._definitions.setdefault(
                name, pa.Table.from_arrays(empty, schema=arrow_schema(DEFINITIONS[name]))
            )
        try:
            size = path.stat().st_size
        except OSError:
            # opening it says why
            size = sys.maxsize
        file = self._open(path)
        if what := self._wrong_size(name, file.metadata.num_rows, size):
            raise self.damaged(f"definitions {name} has {file.metadata.num_rows} rows, but {what}")
        try:
            # not pq.read_table, nor Schema.empty_table: they import pandas, 0.3 s. Most tables are empty
            empty = file.metadata.num_rows == 0
            table = pa.Table.from_batches([], file.schema_arrow) if empty else file.read(use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        differs = compare_columns(table.schema, DEFINITIONS[name], self.version, FORMAT_VERSION)
        if differs is None:
            raise StoreError(
                f"{path} has other columns than expected: {', '.join(DEFINITIONS[name].names)}\n"
                "  convert the trace again"
            )
        if differs.lacking or differs.unknown:
            for column in differs.lacking:
                table = table.append_column(
                    pa.field(column.name, arrow_type(column.dtype), nullable=False), absent(column, table.num_rows)
                )
            table = table.select(DEFINITIONS[name].names)
        return self._definitions.setdefault(name, table)

    def _wrong_size(self, name: str, n: int, size: int) -> str:
        """Return why a definition table cannot have as many rows as its file says, before these fill the memory; an
        empty text if it can.

        Nearly every row has a unique value, such as its identifier, which takes at least a byte of the file; rows of
        all tables that are written take four and more.
        """
        n_locations = int(self.manifest["n_locations"])
        if name == "locations":
            return f"the manifest counts {n_locations}" if n != n_locations else ""
        most = size
        if name == "segments":
            most = n_locations * (1 + len(SIDE_TABLES) + len(self._stored))
        elif name == "topology_coordinates":
            most += self._n_defined("topologies") * n_locations
        return f"there can be {most} at most" if n > most else ""

    def between(
        self, locations: NDArray[np.int64], rows: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    ) -> Store:
        """Return a view of the store in which locations have only some rows of side tables: by table the first of each
        location, and one more than the last."""
        found = object.__new__(Store)
        found.__dict__.update(self.__dict__)
        found._seen = dict(self._extents)
        for table in rows.keys() & self._extents.keys():
            first, stop = rows[table]
            part, offset, n = (values.copy() for values in self._extents[table])
            offset[locations] += first
            n[locations] = stop - first
            found._seen[table] = Extents(part, offset, n)
        return found

    def only(self, locations: NDArray[np.int64]) -> Store:
        """Return a view of the store in which other locations have no rows. Events keep their numbers."""
        _ = self._bounds
        nothing = np.zeros(self._n_defined("locations") - locations.size, np.int64)
        others = np.setdiff1d(np.arange(self._n_defined("locations")), locations)
        return self.between(others, dict.fromkeys(self._extents, (nothing, nothing)))

    @property
    def _extents(self) -> dict[str, Extents]:
        """Positions of the rows of locations that this view has."""
        return self._recorded if self._seen is None else self._seen

    @once
    def _recorded(self) -> dict[str, Extents]:
        table = self.definition("segments")
        names = np.array(table.column("table").to_pylist(), object)
        location, *columns = (to_numpy(table.column(c)) for c in ("location", "part", "offset", "n_rows"))
        result: dict[str, Extents] = {}
        for name in dict.fromkeys(names.tolist()):
            mine = names == name
            extents = Extents(*(np.zeros(self._n_defined("locations"), np.int64) for _ in Extents._fields))
            for into, column in zip(extents, columns, strict=True):
                into[location[mine]] = column[mine]
            result[name] = extents
        # without tables of a newer minor version
        result = {table: of for table, of in result.items() if table in self.tables or table not in self._stored}
        if not result.keys() <= self.tables.keys():
            missing = sorted(result.keys() - self.tables.keys())
            raise self.damaged(f"its {MANIFEST} does not list the table {missing[0]}")
        what = checks.wrong_counts(self.manifest, lambda table: int(result[table].n.sum()) if table in result else 0)
        if what:
            raise self.damaged(what)
        return result

    @property
    def n_events(self) -> NDArray[np.int64]:
        """Number of events of every location; (n_locations,)."""
        return self.counts("events")

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """Row of the first event of every location; (n_locations,) int64."""
        return self._bounds[:-1]

    @once
    def _bounds(self) -> NDArray[np.int64]:
        """Row of the first event of every location, and one past the last event; (n_locations + 1,)."""
        return offsets_of(self.n_events)

    def counts(self, table: str) -> NDArray[np.int64]:
        """Return the number of rows that every location has in a table; (n_locations,) int64."""
        extents = self._extents.get(table)
        return np.zeros(self._n_defined("locations"), np.int64) if extents is None else extents.n

    def n_rows(self, table: str, location: int | None = None) -> int:
        """Count the rows of a table, of one location or of all."""
        extents = self._extents.get(table)
        if extents is None:
            return 0
        return int(extents.n.sum() if location is None else extents.n[location])

    def _layout(self, table: str, part: int) -> tuple[pq.FileMetaData, list[int]]:
        """Return the metadata of a file, and the first row of each of its row groups."""
        with self._lock:
            known = self._files.get((table, part))
        if known is not None:
            return known
        path = self.path / table / part_name(part)
        file = self._open(path)
        meta = file.metadata
        found = file.schema_arrow
        differs = compare_columns(found, self.tables[table], self.version, FORMAT_VERSION)
        if differs is None or (found.names != [name for name, _ in self._stored.get(table, [])] and table != "events"):
            raise StoreError(f"{path} has other columns than the manifest says\n  {DAMAGED}")
        starts = list(accumulate((meta.row_group(i).num_rows for i in range(meta.num_row_groups)), initial=0))
        extents = self._recorded[table]
        due = int(extents.n[extents.part == part].sum())
        if starts[-1] > due:
            raise self.damaged(f"{path.relative_to(self.path)} has {starts[-1]:,} rows, but its locations have {due:,}")
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
    ) -> Arrays:
        """Read the rows `start` to `stop` of one location, of `events` or of a side table; empty arrays if it has none.
        If not `checked`, the caller has to check the values (`kernels.stacks.scan_events`). Raises StoreError if they
        cannot be read, or hold what the schema does not allow (`tracecols.store.checks`)."""
        declared, columns = self._declared(table, columns)
        extents = self._extents.get(table)
        n = 0 if extents is None else int(extents.n[location])
        stop = n if stop is None else min(stop, n)
        if extents is None or start >= stop:
            return {c: np.empty(0, declared[c].dtype) for c in columns}
        offset = int(extents.offset[location])
        result = _joined(self._groups(table, int(extents.part[location]), offset + start, offset + stop, columns))
        if checked:
            self._check(declared, result, np.array([location]), np.array([stop - start]), start)
        return result

    def read_together(
        self, table: str, locations: NDArray[np.integer[Any]], columns: list[str] | None = None, *, checked: bool = True
    ) -> tuple[Arrays, NDArray[np.int64]]:
        """Read the rows of several locations as `read` does, one location after the other, and return how many each
        has. Rows that are contiguous in a file are read at once if the locations ascend. Raises StoreError: as `read`
        does."""
        declared, columns = self._declared(table, columns)
        counts = self.counts(table)[locations]
        extents = self._extents.get(table)
        filled = np.flatnonzero(counts)
        if extents is None or not filled.size:
            return {c: np.empty(0, declared[c].dtype) for c in columns}, counts
        part, offset, n = (a[locations[filled]] for a in extents)
        follows = (part[1:] == part[:-1]) & (offset[1:] == (offset + n)[:-1])
        head = np.flatnonzero(np.append(True, ~follows))
        last = np.append(head[1:], filled.size) - 1
        runs = zip(part[head].tolist(), offset[head].tolist(), (offset + n)[last].tolist(), strict=True)
        found = _joined(rows for run in runs for rows in self._groups(table, *run, columns))
        if checked:
            self._check(declared, found, locations[filled], n, 0)
        return found, counts

    def _declared(self, table: str, columns: list[str] | None) -> tuple[Table, list[str]]:
        """Return the declaration of a table, and the columns to read."""
        declared = self.tables.get(table) or SIDE_TABLES.get(table)
        if declared is None:
            raise StoreError(f"{self.path} has no table {table}\n  it has {', '.join(self.tables)}")
        return declared, list(declared.names) if columns is None else columns

    def _check(
        self,
        declared: Table,
        columns: Arrays,
        locations: NDArray[np.integer[Any]],
        counts: NDArray[np.int64],
        start: int,
    ) -> None:
        """Check the values of some locations' rows; those of the first location begin with its row `start`."""
        rows = checks.RowRanges(self._bounds[locations], self._bounds[locations + 1], counts)
        at, column, what = checks.wrong_columns(declared, columns, rows, self._n_defined)
        if at >= 0:
            stops = np.cumsum(counts)
            k = int(np.searchsorted(stops, at, "right"))
            row = at - int(stops[k] - counts[k]) + (start if k == 0 else 0)
            raise self.damaged(f"table {declared.name}, column {column}, location {locations[k]}, row {row}: {what}")

    def _groups(self, table: str, part: int, start: int, stop: int, columns: list[str]) -> Iterator[Arrays]:
        """Read rows of a part file, at least one, row group by row group."""
        _, starts = self._layout(table, part)
        if stop > starts[-1]:
            raise StoreError(
                f"{self.path / table / part_name(part)} has {starts[-1]} rows, expected at least {stop}\n  {DAMAGED}"
            )
        for group in range(bisect_right(starts, start) - 1, bisect_left(starts, stop)):
            first, end = starts[group], starts[group + 1]
            low, high = max(start, first) - first, min(stop, end) - first
            rows = self._group(table, part, group, columns, is_whole=high - low == end - first)
            yield {c: values[low:high] for c, values in rows.items()}

    def _group(self, table: str, part: int, group: int, columns: list[str], is_whole: bool) -> Arrays:
        """Read a row group of a part file. A small one is kept for readers of adjacent rows, unless all of it is
        requested: it is then not read again soon."""
        key = (table, part, group, tuple(columns))
        with self._lock:
            found = self._recent.get(key)
        if found is not None:
            return found
        path, (meta, starts) = self.path / table / part_name(part), self._layout(table, part)
        n, lacking = starts[group + 1] - starts[group], self._lacking.get(table, ())
        present = [c for c in columns if c not in lacking]
        try:
            stored = self._open_here(path, meta).read_row_group(group, columns=present, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        found = {
            c: to_numpy(stored.column(c))
            if c not in lacking
            else np.full(n, self.tables[table][c].absent, self.tables[table][c].dtype)
            for c in columns
        }
        if not is_whole and n <= SHARED_ROWS:
            with self._lock:
                self._recent[key] = found
                while len(self._recent) > N_SHARED:
                    self._recent.popitem(last=False)
        return found


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path} cannot be read: {error}\n  {advice(error, DAMAGED)}")


def _joined(found: Iterable[Arrays]) -> Arrays:
    """Concatenate the pieces of some columns, at least one; a single one is not copied."""
    pieces = list(found)
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([rows[name] for rows in pieces]) for name in pieces[0]}


_OPENED: WeakValueDictionary[tuple[Path, str], Store] = WeakValueDictionary()
"""Stores that came to this process in a pickle: by path and digest."""

_OPENING = Lock()


def _open_again(path: Path, digest: str) -> Store:
    """Open a store that was pickled elsewhere. Raises StoreError if it is not there, or another one is in its place."""
    with _OPENING:
        store = _OPENED.get((path, digest))
        if store is None:
            store = Store(path)
            if store.digest != digest:
                raise StoreError(f"{path} was replaced while it was being read\n  open it again")
            _OPENED[path, digest] = store
        return store
