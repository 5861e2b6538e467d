"""Every table of a trace under one name: events, call paths, compound tables, side tables, definitions; for scans, SQL
and exports.

A name means the same everywhere. If a side table has the same name as a definition table or a compound table, it is
called `NAME_events`: `collectives` are the collective operations, `collectives_events` the attributes of their events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tracecols.errors import MissingExtraError, StoreError
from tracecols.frames.bounded import Bounds, quoted, refusal, run_bounded
from tracecols.given.arguments import did_you_mean, show
from tracecols.model.model import Model
from tracecols.model.pointers import POINTERS
from tracecols.model.table_files import ENHANCED, FOLDER, TableFiles, find_table, schema_of
from tracecols.model.table_writer import Parts, with_referred, write_tables
from tracecols.schema import DEFINITIONS, SIDE_TABLES, Table
from tracecols.store import Store
from tracecols.work.progress import Progress
from tracecols.work.scratch import temporary_folder

if TYPE_CHECKING:
    import pandas as pd

POINTERS_NEEDED = "tracecols: pointer columns of events are needed"
"""Error of a query that reads columns of events which have not been made yet."""


def side_name(name: str) -> str:
    """Return the name of a side table in the catalog.

    Parameters
    ----------
    name : str
        Name of a side table in the store.
    """
    return f"{name}_events" if name in DEFINITIONS or name in ENHANCED else name


class Catalog:
    """All tables of a trace by name.

    Parameters
    ----------
    store : Store
    model : callable
        Returns the model; called when a table has to be made.
    found : mapping, optional
        Tables computed from the whole model, by name: the declaration, and a function that returns the columns.
    """

    def __init__(
        self,
        store: Store,
        model: Callable[[], Model],
        found: Mapping[str, tuple[Table, Callable[[], Mapping[str, NDArray[Any]]]]] = MappingProxyType({}),
    ) -> None:
        self.store, self._model, self._tables_found = store, model, dict(found)
        self._lock = RLock()
        self._temporary: Any = None
        self.sides = {side_name(name): name for name in (*SIDE_TABLES, *store.tables) if name != "events"}

    def __repr__(self) -> str:
        return f"<Catalog of {self.store.path.name}: {', '.join(self.names)}>"

    @property
    def names(self) -> list[str]:
        """Names of all available tables: enhanced tables, side tables with rows, definitions."""
        return [
            *ENHANCED,
            *self._tables_found,
            *(name for name, of in self.sides.items() if of in self.store.tables),
            *DEFINITIONS,
        ]

    def check(self, name: object) -> str:
        """Check that a table exists, and return its name.

        Parameters
        ----------
        name : object
            The given name of a table.

        Raises
        ------
        StoreError
            If there is no table of that name.
        """
        if not isinstance(name, str) or name not in {*ENHANCED, *self._tables_found, *self.sides, *DEFINITIONS}:
            hint = did_you_mean(name, self.names, f"there are {', '.join(self.names)}") if isinstance(name, str) else ""
            raise StoreError(f"no table {show(name)} in {self.store.path}\n  {hint or 'give the name of a table'}")
        return name

    def declared(self, name: str) -> Table:
        """Return the declaration of a table.

        Parameters
        ----------
        name : str
            Name of any table (`check`).
        """
        if name in ENHANCED:
            return schema_of(name)
        if name in self._tables_found:
            return self._tables_found[name][0]
        if name in DEFINITIONS:
            return DEFINITIONS[name]
        return self.store.tables.get(self.sides[name]) or SIDE_TABLES[self.sides[name]]

    def scan(self, name: str) -> TableFiles:
        """Return a table as Parquet files; an enhanced table is made first if it is missing.

        Parameters
        ----------
        name : str
            One of `names`.

        Raises
        ------
        StoreError
            If there is no such table, or it cannot be made.
        """
        self.check(name)
        if name in ENHANCED:
            return self.enhanced([name])[name]
        if name in self._tables_found:
            return self._written(name)
        if name in DEFINITIONS:
            return TableFiles(name, (self.store.path / "definitions" / f"{name}.parquet",))
        of = self.sides[name]
        files = tuple(sorted((self.store.path / of).glob("part-*.parquet")))
        if not files:
            raise StoreError(f"the table {name} has no rows in {self.store.path}\n  there are {', '.join(self.names)}")
        return TableFiles(name, files)

    def _written(self, name: str) -> TableFiles:
        """Return a table computed from the whole model, written to a temporary folder."""
        with self._lock:
            if self._temporary is None:
                self._temporary = temporary_folder()
            folder = self._temporary.path / name
            if not folder.is_dir():
                table, find = self._tables_found[name]
                columns = find()
                with Parts(folder, 0, table) as parts:
                    parts.write_rows(columns.__getitem__, len(columns[table.names[0]]))
                    if not parts.n:
                        parts.write(lambda column: columns[column][:0])
            return TableFiles(name, tuple(sorted(folder.glob("part-*.parquet"))), self._temporary)

    def find(self, name: str) -> TableFiles | None:
        """Return an enhanced table, or None if it has not been made.

        Parameters
        ----------
        name : str
            One of `ENHANCED`.
        """
        found = find_table(self.store, name)
        if found is None and self._temporary is not None:
            found = find_table(self.store, name, self._temporary.path, self._temporary)
        return found

    def enhanced(
        self, names: Iterable[str], *, again: bool = False, in_store: bool = False, progress: Progress | None = None
    ) -> dict[str, TableFiles]:
        """Return enhanced tables; those that are missing, or were made from another store or by another version, are
        made.

        Parameters
        ----------
        names : iterable of str
            One of `ENHANCED`.
        again : bool, optional
            Make all of them again.
        in_store : bool, optional
            Make them in the store only. By default, if the store is read-only, they are kept in a temporary folder for
            the lifetime of this object.
        progress : callable, optional
            Called with the amount of work done and the total.

        Raises
        ------
        StoreError
            If they cannot be made.
        """
        wanted = with_referred(names)
        with self._lock:
            missing = [name for name in wanted if again or self.find(name) is None]
            if missing:
                parent = self._parent(in_store)
                write_tables(self._model(), missing, parent, progress)
            found = {name: self.find(name) for name in wanted}
        for name, table in found.items():
            if table is None:
                raise StoreError(f"{self.store.path}: table {name} was removed while it was made\n  try again")
        return {name: table for name, table in found.items() if table is not None}

    def _parent(self, in_store: bool) -> Path:
        """Return the folder for enhanced tables: in the store, or a temporary folder if the store is read-only and
        `in_store` is false."""
        folder = self.store.path / FOLDER
        if os.access(folder if folder.exists() else self.store.path, os.W_OK):
            return folder
        if in_store:
            raise StoreError(
                f"cannot write {folder}: the store is read-only\n"
                "  make it writable, or copy it to a folder you may write to; trace.scan makes temporary tables by "
                "itself",
                in_shell="make it writable, or copy it to a folder you may write to",
            )
        if self._temporary is None:
            self._temporary = temporary_folder()
        path: Path = self._temporary.path
        return path

    # -- SQL -------------------------------------------------------------------------------------------------------

    def sql(self, query: str, bounds: Bounds | None = None) -> pd.DataFrame:
        """Query all tables with SQL; see `Trace.sql`.

        Parameters
        ----------
        query : str
            DuckDB SQL.
        bounds : Bounds, optional
            Limits: the query must then be a single read-only statement, and can only read the files of the tables.

        Raises
        ------
        MissingExtraError
            If DuckDB is not installed.
        StoreError
            If the store is damaged, a table cannot be made or does not exist, or the query violates its bounds.
        """
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtraError("duckdb", "sql", "Trace.sql") from error
        try:
            os.fspath(self.store.path).encode("utf-8")
        except UnicodeEncodeError as error:
            raise StoreError(
                f"DuckDB cannot open {os.fspath(self.store.path)!a}: the path is not valid UTF-8\n"
                "  rename the store or its folder"
            ) from error
        if not isinstance(query, str):
            raise StoreError(f"a query is given as a text, not as {show(query)}\n  such as 'select * from messages'")
        self.store.check_files()
        try:
            return self._found(duckdb, query, bounds)
        except duckdb.Error as error:
            if bounds is None:
                raise
            raise refusal(duckdb, error, bounds) from error

    def _found(self, duckdb: Any, query: str, bounds: Bounds | None) -> pd.DataFrame:
        """Return the result of a query; the tables and pointer columns that it reads are made first."""
        words = {word.lower() for word in re.findall(r"\w+", query)}
        try:
            try:
                return self._query(duckdb, query, words, bounds)
            except duckdb.InvalidInputException as error:
                if POINTERS_NEEDED not in str(error):
                    raise
            self.enhanced(["events"])
            return self._query(duckdb, query, words, bounds)
        except duckdb.CatalogException as error:
            # DuckDB knows only the tables that the query names, and suggests some of its own
            missing = re.search(r"Table with name (\S+) does not exist", str(error))
            if missing is None or missing[1] in self.names:
                raise
            self.check(missing[1])
            raise

    def _query(self, duckdb: Any, query: str, words: set[str], bounds: Bounds | None) -> pd.DataFrame:
        # there are no files of events to make a view of if there are none
        left_out = "events" if self.store.manifest["n_events"] else ""
        tables = self.enhanced([name for name in ENHANCED if name in words and name != left_out])
        tables |= {name: self._written(name) for name in self._tables_found if name in words}
        if (events := self.find("events")) is not None:
            tables["events"] = events
        # a view opens its files: only views of tables named in the query are created, unless it lists tables
        if words & {"show", "information_schema", "duckdb_views", "duckdb_tables"}:
            words = {*words, *DEFINITIONS, *self.sides}
        if "events" in words:
            words = {*words, "segments", "locations"}
        with duckdb.connect() as db:
            for name in words & set(DEFINITIONS):
                path = quoted(self.store.path / "definitions" / f"{name}.parquet")
                columns = self._declared(DEFINITIONS[name])
                db.sql(
                    f"create view {name} as select file_row_number as row, {columns} from read_parquet({path}, "
                    "file_row_number = true)"
                )
            for name, of in self.sides.items():
                if of in self.store.tables and name in words:
                    files = quoted(self.store.path / of / "*.parquet")
                    columns = self._declared(self.store.tables[of])
                    db.sql(f"create view {name} as select {columns} from read_parquet({files})")
            for name, table in tables.items():
                db.sql(f"create view {name} as {_rows_of(table)}")
            if "events" in words and "events" not in tables:
                self._view_stored_events(db)
            if bounds is not None:
                files_made = (file for table in tables.values() for file in table.files)
                folders = dict.fromkeys([self.store.path, *(file.parent for file in files_made)])
                return run_bounded(duckdb, db, query, bounds, folders)
            # DuckDB returns no relation for a text without statements
            if (found := db.sql(query)) is None:
                raise StoreError("the query returns nothing\n  give a statement such as select, describe or show")
            frame: pd.DataFrame = found.df()
            return frame

    def _declared(self, table: Table) -> str:
        """Return the select list of the declared columns of a table; columns that its files lack are constants."""
        lacking = self.store.lacking(table)
        return ", ".join(
            f'cast({_literal(c.absent)} as {_sql_type(c.dtype)}) as "{c.name}"' if c in lacking else f'"{c.name}"'
            for c in table.columns
        )

    def _view_stored_events(self, db: Any) -> None:
        """Make a view of the events in which reading a column that is not stored raises an error."""
        made = ", ".join(f"error('{POINTERS_NEEDED}')::bigint as {name}" for name in (*POINTERS, "pos"))
        db.sql(
            "create view events as select l.first_row + f.file_row_number - s.offset as row, s.location, f.time, "
            f"f.kind, f.region, {made} "
            f"from read_parquet({quoted(self.store.path / 'events' / '*.parquet')}, filename = true, "
            "file_row_number = true) f "
            "join segments s on s.\"table\" = 'events' and s.part = cast(regexp_extract(f.filename, "
            "'part-(\\d+)\\.parquet$', 1) as int) "
            "and f.file_row_number >= s.offset and f.file_row_number < s.offset + s.n_rows join locations l on "
            "l.row = s.location"
        )


_SQL_TYPES = {
    "string": "varchar", "float64": "double", "int8": "tinyint", "int16": "smallint", "int32": "integer",
    "int64": "bigint", "uint8": "utinyint", "uint16": "usmallint", "uint32": "uinteger", "uint64": "ubigint",
}  # fmt: skip


def _literal(value: float | str | list[Any]) -> str:
    """Return a value as an SQL literal."""
    return quoted(value) if isinstance(value, str) else str(value)


def _sql_type(dtype: str) -> str:
    """Return the SQL type of a column by its declared dtype."""
    if dtype.startswith("list["):
        return _sql_type(dtype[5:-1]) + "[]"
    return _SQL_TYPES[dtype]


def _rows_of(table: TableFiles) -> str:
    """Return a query for all columns of a table and the numbers of its rows."""
    return " union all ".join(
        f"select file_row_number + {first} as row, * exclude (file_row_number) from read_parquet({quoted(path)}, "
        "file_row_number = true)"
        for path, first in zip(table.files, accumulate(table.counts, initial=0), strict=False)
    )
