"""Tables for people: ranks and threads in place of locations, names, seconds, and null as null.

A table of a trace holds integers: rows of other tables, clock readings, numbers of enumerations. Their meaning follows
from its declaration (`tracecols.schema`):

* a column of locations `x_location` (or `x`) becomes `x_rank` and `x_thread`, `location` becomes `rank` and `thread`;
  if the caller assigns locations to subdomains of the application, `x_subdomain` follows,
* a column of regions, communicators, windows, parameters or counters `x` becomes `x_name`, a category; `x_call_path`
  becomes `x_path`,
* a column of markers `x` becomes `x_text`, `x_category`, `x_group` and `x_severity`, categories,
* a column of texts `x` becomes `x_text`, a category,
* a number of an enumeration `x` becomes `x_name`,
* a clock reading `x_time` becomes `x_seconds`, seconds since the start of the recording; a duration in ticks the same
  in seconds.

Column names keep their meaning: a column in seconds has another name than the column in ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.enhance.scan.facts import Facts
from tracecols.errors import AnalysisError
from tracecols.given.subdomains import Given, Subdomains, find_subdomains
from tracecols.once import once
from tracecols.schema import Column, Table
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask

NAMED = ("regions", "communicators", "windows", "parameter_definitions", "metric_members")
"""Definition tables whose rows are shown by their names."""

OF_MARKERS = ("text", "category", "group", "severity")
"""Columns of the definition table `markers` that describe a marker to people."""

TEXTS = "strings"
"""The definition table whose rows are texts."""


def shortened(name: str, ending: str) -> str:
    """Return the prefix of a column name whose last word says what it holds: `send_` of `send_location`, empty for
    `location`."""
    if name == ending:
        return ""
    return f"{name.removesuffix(f'_{ending}')}_"


def readable_columns(table: Table, column: Column) -> dict[str, Callable[[Readable, NDArray[Any]], Any]]:
    """Return by name the readable columns made from a column, as functions of `Readable` and its values; none if it is
    readable itself."""
    name, target, enum = column.name, column.target, column.enum
    if target == "locations":
        about = shortened(name, "location")
        # the rank of a participant is that in its communicator
        rank = f"world_{about}rank" if f"{about}rank" in table.names else f"{about}rank"
        return {
            rank: lambda r, values: r._of_location(column, r.rank, values),
            f"{about}thread": lambda r, values: r._of_location(column, r.thread, values),
        }
    if target == "processes":
        rank = f"{shortened(name, 'process')}rank"
        others = (n for c in table.columns if c.target == "locations" for n in readable_columns(table, c))
        return {} if rank in others else {rank: lambda r, values: r._of_process(values)}
    if target == "call_paths" and name != "parent":
        return {f"{shortened(name, 'call_path')}path": lambda r, values: r.paths(values, or_numbers=True)}
    if target in NAMED:
        return {f"{name}_name": lambda r, values: r.named(values, target)}
    if enum:
        return {f"{name}_name": lambda r, values: named_numbers(enum, values)}
    if target == TEXTS:
        return {f"{name}_text": lambda r, values: r.named(values, TEXTS, "string")}
    if target == "markers":
        return {f"{name}_{what}": partial(Readable.named, table=target, what=what) for what in OF_MARKERS}
    if column.unit == "ticks":
        seconds = f"{shortened(name, 'time')}seconds" if name.endswith("time") else f"{name}_seconds"
        return {seconds: Readable.duration if column.is_duration else Readable.seconds}
    return {}


def readable_names(table: Table, column: Column) -> tuple[str, ...]:
    """Return the names of the readable columns made from a column; none if it is readable itself."""
    return tuple(readable_columns(table, column))


def n_readable(table: Table) -> int:
    """Count the readable columns that a table has besides its own."""
    return sum(len(readable_names(table, c)) for c in table.columns)


def nullable(values: NDArray[Any], mask: Mask) -> pd.api.extensions.ExtensionArray:
    """Return whole numbers that may be null as a pandas array (`Int64` and the like)."""
    return pd.arrays.IntegerArray(np.ascontiguousarray(values), np.asarray(mask, bool))


def named_rows(names: NDArray[np.object_], rows: NDArray[Any]) -> pd.Categorical:
    """Return the names of rows as a categorical with the names that occur, in the order of their rows; null for -1.

    Codes are made in the type that pandas holds them in, since a table may have many rows: one byte each for less than
    128 names.
    """
    occurs = np.zeros(names.size + 1, bool)
    occurs[rows] = True
    found = np.flatnonzero(occurs[:-1])
    numbers, unique = pd.factorize(names[found])
    # the last one is null
    codes = np.full(names.size + 1, -1, np.min_scalar_type(-max(unique.size, 1)))
    codes[found] = numbers
    return pd.Categorical.from_codes(codes[rows], categories=unique)


def named_numbers(names: Sequence[str], numbers: NDArray[Any]) -> pd.Categorical:
    """Return the names of numbers of an enumeration, null for -1 and numbers beyond it."""
    if numbers.size and not (numbers.min() >= -1 and numbers.max() < len(names)):
        numbers = np.where((numbers >= 0) & (numbers < len(names)), numbers.astype(np.int64), -1)
    return named_rows(np.array(names, object), numbers)


class Readable:
    """Convert the integers in the tables of a trace to readable values.

    `facts` returns the facts about the whole trace; it is called when call paths or regions have to be named.
    `subdomains` assigns locations to subdomains of the application (`given.subdomains.find_subdomains`).
    """

    def __init__(self, store: Store, facts: Callable[[], Facts], subdomains: Given | None = None) -> None:
        self.store, self._facts, self._subdomains = store, facts, subdomains

    @once
    def subdomains(self) -> Subdomains | None:
        """The subdomains of the application; None if the caller gives none. Raises AnalysisError if they are invalid,
        or of other ranks and threads."""
        if self._subdomains is None:
            return None
        return find_subdomains(self.rank, self.thread, self._subdomains, AnalysisError, "this trace")

    def subdomain(self, location: NDArray[Any]) -> pd.Categorical:
        """Return the names of the subdomains of locations, null for locations in none, and for -1."""
        return self.subdomains_named(np.append(self.subdomain_numbers, -1)[location])

    @property
    def subdomain_numbers(self) -> Ints:
        """The subdomain of every location, -1 for null; (n_locations,) int64."""
        return np.full(self.rank.size, -1) if self.subdomains is None else self.subdomains.of

    def subdomains_named(self, numbers: NDArray[Any]) -> pd.Categorical:
        """Return the names of subdomains, null for -1."""
        names = [] if self.subdomains is None else self.subdomains.names
        return named_rows(np.array([*names, None], object)[:-1], numbers)

    def who(self, location: NDArray[Any], about: str = "") -> dict[str, Any]:
        """Return the columns that identify locations, none of which is -1; `about` is the prefix of their names, such
        as `cause_`."""
        found: dict[str, Any] = {f"{about}rank": self.rank[location], f"{about}thread": self.thread[location]}
        return found if self.subdomains is None else {**found, f"{about}subdomain": self.subdomain(location)}

    @once
    def rank(self) -> NDArray[np.int32]:
        """Rank of the process of every location, -1 for null; (n_locations,) int32."""
        return self._ranks_of(to_numpy(self.store.definitions["locations"].column("process")))

    def _ranks_of(self, processes: NDArray[Any]) -> NDArray[np.int32]:
        ranks = to_numpy(self.store.definitions["processes"].column("rank")).astype(np.int32)
        return np.append(ranks, np.int32(-1))[processes]

    @once
    def thread(self) -> NDArray[np.int32]:
        """Number in its process of every location; (n_locations,) int32."""
        return to_numpy(self.store.definitions["locations"].column("thread")).astype(np.int32)

    def seconds(self, readings: Ints) -> NDArray[np.float64]:
        """Convert clock readings to seconds since the start of the recording; null (-1) becomes nan."""
        clock = self.store.manifest["clock"]
        result = (readings - int(clock["origin"])) / clock["resolution"]
        if int(self.store.manifest["first_time"]) >= 0:
            result[readings == -1] = np.nan
        return result

    def duration(self, ticks: NDArray[Any]) -> NDArray[np.float64]:
        """Convert differences of clock readings, also Python integers of sums that exceed 64 bits, to seconds."""
        return np.asarray(ticks / self.store.manifest["clock"]["resolution"], np.float64)

    def named(self, rows: NDArray[Any], table: str, what: str = "name") -> pd.Categorical:
        """Return the names of rows of a definition table (`regions`, `communicators`, ...) from its column `what`, -1
        for null."""
        names = np.array(self.store.definitions[table].column(what).to_pylist(), object)
        if table == "regions":
            # artificial regions follow the recorded ones
            names = self._facts().regions.name
        return named_rows(names, rows)

    def paths(self, call_paths: NDArray[Any], *, or_numbers: bool = False) -> pd.Categorical:
        """Return call paths as text, -1 for null; only those that occur are written out.

        If `or_numbers`, and the texts of all together would be too long (`enhance.scan.paths.MAX_TEXT`), the last
        region and the number of each take their place instead of an error.
        """
        facts = self._facts()
        tree = facts.call_paths
        occurs = np.zeros(len(tree) + 1, bool)
        occurs[call_paths] = True
        found = np.flatnonzero(occurs[:-1]).tolist()
        texts = np.full(len(tree), None, object)
        try:
            texts[found] = tree.paths_of(facts.regions.name, found)
        except AnalysisError:
            if not or_numbers:
                raise
            texts[found] = [f".../{facts.regions.name[tree.region[i]]} (call path {i})" for i in found]
        return named_rows(texts, call_paths)

    def columns(self, table: Table, column: Callable[[str], NDArray[Any]]) -> dict[str, dict[str, Any]]:
        """Return, for each column of a table, the readable columns made from it, by name; empty if it is readable
        already."""
        return {c.name: self._columns_of(table, c, column) for c in table.columns}

    def _columns_of(self, table: Table, c: Column, column: Callable[[str], NDArray[Any]]) -> dict[str, Any]:
        made = readable_columns(table, c)
        if not made:
            return {}
        values = column(c.name)
        found = {name: make(self, values) for name, make in made.items()}
        if c.target == "locations" and self.subdomains is not None:
            found[f"{shortened(c.name, 'location')}subdomain"] = self.subdomain(values)
        return found

    def _of_process(self, process: NDArray[Any]) -> Any:
        rank = self._ranks_of(process)
        return nullable(rank, rank < 0)

    def _of_location(self, c: Column, of: NDArray[np.int32], location: NDArray[Any]) -> Any:
        """Return ranks or threads of locations; locations of devices may have no rank."""
        found = np.append(of, np.int32(-1))[location]
        if c.nullable or (self.rank < 0).any():
            return nullable(found, (location < 0) | (found < 0))
        return found

    def frame(self, table: Table, column: Callable[[str], NDArray[Any]], *, with_raw: bool) -> pd.DataFrame:
        """Return a table for people.

        If `with_raw`, its own columns, with -1 for null, follow those for people; otherwise the latter replace them,
        texts are categories, and null is null in the remaining columns.
        """
        readable = self.columns(table, column)
        found: dict[str, Any] = {}
        for c in table.columns:
            found.update(readable[c.name])
            if with_raw or readable[c.name]:
                continue
            values = column(c.name)
            if c.dtype == "string":
                found[c.name] = pd.Categorical(values)
            else:
                found[c.name] = nullable(values, values == -1) if c.has_null else values
        if with_raw:
            found |= {c.name: column(c.name) for c in table.columns}
            if table.columns and not column(table.names[0]).size:
                # pandas infers the type of texts from their values
                found |= {c.name: pd.Series([], dtype="str") for c in table.columns if c.dtype == "string"}
        return pd.DataFrame(found, copy=False)
