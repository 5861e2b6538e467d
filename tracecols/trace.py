"""The main object for notebooks: a trace with its events, definitions, compound tables and analyses."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.part import Part, Selection
from tracecols.analysis.request import Request, names_in
from tracecols.analysis.run import run
from tracecols.causes.quirks import Quirks
from tracecols.clocks.correction import SHRINK, STRETCH, Bounds, Correction
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.locations import find_locations
from tracecols.enhance.scan.instances import region_instances
from tracecols.errors import AnalysisError, StoreError
from tracecols.frames.catalog import Catalog
from tracecols.given.arguments import as_path, as_seconds, as_texts, clock_reading, did_you_mean, is_whole_number, show
from tracecols.given.memory import as_memory
from tracecols.given.providers import provider
from tracecols.given.quantities import counted
from tracecols.given.subdomains import Given
from tracecols.model.event_rows import EVENT_COLUMNS, bytes_of, find_spans, read_event_columns
from tracecols.model.readable import n_readable
from tracecols.model.table_files import TableFiles, row_bytes
from tracecols.model.tables import TABLES
from tracecols.model.whole import whole_table
from tracecols.once import Kept, once
from tracecols.patterns.base import Family
from tracecols.patterns.candidates import propose_phases
from tracecols.patterns.plugins import load_all
from tracecols.patterns.registry import CONVENTIONS
from tracecols.replay.conventions import RECORDED
from tracecols.replay.efficiencies import as_dimemas, check_ideal
from tracecols.replay.prediction import Prediction
from tracecols.replay.replay import as_changes
from tracecols.schema import DEFINITIONS, NAMES, SIDE_TABLES, Table
from tracecols.schema.causes import BY_CONVENTIONS, POINTS, WAITS
from tracecols.schema.compound import EVENTS_WITH_POINTERS
from tracecols.schema.severity import DEFAULT
from tracecols.search.checks import check_region
from tracecols.search.choice import check_conventions, choose
from tracecols.search.matches import find_matches, find_waits
from tracecols.severity.efficiencies import DIMEMAS, IDEALS, REPLAY, tabulate
from tracecols.slices.opened import open_slice
from tracecols.slices.rewritten import RewrittenTrace
from tracecols.store import Store
from tracecols.verbs import devices, messages, recording, times, waiting
from tracecols.work.cluster import default_scratch, working_on
from tracecols.work.memory import Budget, physical
from tracecols.work.progress import Progress

if TYPE_CHECKING:
    from distributed import Client

    from tracecols.severity import SeverityCube

FRAME_SHARE = 2
"""By default, a data frame may take the machine's memory divided by this (`Trace.frame_limit`)."""


def default_frame_limit() -> int | None:
    """Return the default maximum size of a data frame in bytes; None (no limit) if the size of the memory is
    unknown."""
    there_is = physical()
    return None if there_is is None else there_is // FRAME_SHARE


def _as_ticks(given: Any, what: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return ticks as an array, 0 where they are null, and as floating-point numbers, nan where they are null."""
    if isinstance(given, pd.Series | pd.Index):
        is_null = np.asarray(given.isna())
        try:
            values = given.to_numpy(np.float64, na_value=np.nan) if is_null.any() else given.to_numpy()
        except (TypeError, ValueError):
            values = np.array([None], object)
    else:
        values = np.asarray(given)
    if values.dtype.kind not in "iuf":
        raise StoreError(
            f"these are no {what}: {show(given)}\n  give ticks, as columns called time or ..._time hold them"
        )
    return values, values.astype(np.float64)


def _like(given: Any, values: NDArray[np.float64]) -> Any:
    """Return values in the type of `given`: a Series with its index and name, an array, or a number."""
    if isinstance(given, pd.Series):
        return pd.Series(values, index=given.index, name=given.name)
    return pd.Index(values, name=given.name) if isinstance(given, pd.Index) else values[()]


def _row_bytes(table: Table, raw: bool) -> int:
    """Return an upper bound of the bytes of a row in a data frame."""
    return row_bytes(table) + (0 if raw else 8 * n_readable(table))


def _rows_at(table: Table, frame: pd.DataFrame, chosen: list[int] | None) -> pd.DataFrame:
    """Keep the rows of a table that are on some locations."""
    if chosen is None:
        return frame
    columns = [c.name for c in table.columns if c.target == "locations"]
    # other columns, such as the location that causes a wait, are not the location of a row
    columns = ["location"] if "location" in columns else columns
    if not columns:
        raise StoreError(f"the table {table.name} has no locations to choose\n  leave out locations, rank and thread")
    return frame[frame[columns].isin(chosen).any(axis=1)]


class Trace(OpenedTrace):
    """A trace, opened from its store.

    Data are read on demand. Every table is an attribute with its SQL name: `trace.messages`. Its data frame has the row
    of the table as index, readable columns (ranks, threads, names, seconds; null is null), and after them the integer
    columns they are made from: columns named like a table in the singular hold rows of that table, -1 is null, times
    are clock ticks. `frame` returns either kind of columns alone. `seconds` converts readings of the clock
    (`enter_time`), `duration` differences of them (`exit_time - enter_time`, severities). Methods answer common
    questions (`comm_matrix`, `late_senders`, `critical_path`, ...).

    A trace can be pickled: only its path and parameters (except `progress`) are stored, and it is opened again when it
    is unpickled.

    Parameters
    ----------
    path : str or Path
        The store `NAME.trace`.
    jobs : int, optional
        Threads for scanning; by default one per core.
    progress : callable, optional
        Called with the amount done and the total of a scan or an analysis, in events.
    frame_limit : int, optional
        Maximum bytes of a data frame of events or of a compound table; larger ones are refused. By default half of the
        machine's memory. `frame_bytes` returns the size of a frame, `scan` reads tables of any size.
    subdomains : mapping, callable, str or Path, optional
        Subdomain of the application of each location: names by rank, or by (rank, thread), which takes precedence; a
        function of rank and thread that returns a name or None; or a .csv file with the columns `rank`, `subdomain`
        and, where threads differ, `thread`. Subdomains become columns of tables and answers, and some answers can be
        grouped by them.

    Raises
    ------
    StoreError
        If the store cannot be read, or `frame_limit` is not a number of bytes.
    AnalysisError
        If the subdomains are invalid, or refer to ranks and threads that do not exist.

    Attributes
    ----------
    frame_limit : int or None
        May be changed; None means no limit.

    Examples
    --------
    >>> trace = tracecols.open("hybrid.trace")  # doctest: +SKIP
    >>> late = trace.messages.query("send_enter_seconds > recv_enter_seconds")  # doctest: +SKIP
    >>> late.groupby(["send_rank", "recv_rank"]).size()  # doctest: +SKIP
    >>> trace.analyze().total("mpi_latesender")  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        frame_limit: int | None = None,
        subdomains: Given | None = None,
    ) -> None:
        if frame_limit is not None and (not is_whole_number(frame_limit) or frame_limit < 0):
            raise StoreError(f"{show(frame_limit)} is not a number of bytes (frame_limit)\n  give a whole number")
        super().__init__(Store(path), jobs, subdomains=subdomains, progress=progress)
        if subdomains is not None:
            # invalid subdomains are reported when the trace is opened
            _ = self.readable.subdomains
        self._given_limit = frame_limit
        self.frame_limit = default_frame_limit() if frame_limit is None else int(frame_limit)
        self._given_jobs = jobs
        self._waits = Kept[str, dict[str, Any]]()
        self._whole_tables = Kept[tuple[str, Quirks], CompoundTable]()

    def __getstate__(self) -> dict[str, Any]:
        given = {"path": self.path.absolute(), "jobs": self._given_jobs, "frame_limit": self._given_limit}
        return {**given, "subdomains": self._by_place()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path, others = state["path"], {key: value for key, value in state.items() if key != "path"}
        self.__init__(path, **others)  # type: ignore[misc]

    def _by_place(self) -> dict[tuple[int, int], str] | None:
        """Return the subdomains by rank and thread, a form that can be pickled."""
        readable, found = self.readable, self.readable.subdomains
        if found is None:
            return None
        places = zip(readable.rank.tolist(), readable.thread.tolist(), found.of.tolist(), strict=True)
        return {(rank, thread): found.names[of] for rank, thread, of in places if of >= 0}

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self.store.path

    @property
    def manifest(self) -> dict[str, Any]:
        """Metadata of the store: source, clock, counts, records not understood, events lost."""
        return self.store.manifest

    def __repr__(self) -> str:
        m = self.manifest
        return (
            f"<Trace {self.path.name}: {counted(m['n_events'], 'event')}, {counted(m['n_locations'], 'location')}, "
            f"{(m['last_time'] - m['first_time']) / m['clock']['resolution']:.6f} s, {m['source']['format']}>"
        )

    def _repr_html_(self) -> str:
        return str(provider("trace as HTML")(self.store))

    def seconds(self, times: Any) -> Any:
        """Convert clock readings to seconds since the start of the recording.

        A difference of two readings is not a reading and is refused; convert it with `duration`.

        Parameters
        ----------
        times : int, array_like of int, or Series
            Ticks, as in columns called `time` or `..._time`. Columns `..._seconds` are in seconds already.

        Returns
        -------
        float64, ndarray of float64, or Series
            nan for null (-1, or null). A Series keeps its index and name.

        Raises
        ------
        StoreError
            If they are not readings of the clock of this trace.

        Examples
        --------
        >>> trace.seconds(trace.messages.send_time)  # doctest: +SKIP
        """
        clock = self.manifest["clock"]
        first = min(int(clock["origin"]), int(self.manifest["first_time"]))
        last = int(self.manifest["last_time"])
        values, found = _as_ticks(times, "clock readings")
        given = values[~np.isnan(found)]
        if given.dtype.kind == "f" and (np.isinf(given) | (given != np.rint(given))).any():
            raise StoreError(
                "these are not clock readings: they are not whole\n"
                "  columns called ..._seconds are in seconds already; clock readings are those called time or ..._time"
            )
        known = given[given != -1] if first >= 0 else given
        # times in attributes, such as the end of a buffer flush, may be later than the last event
        if known.size and (known.min() < first or known.max() > 2 * last - first):
            wrong = known.min() if known.min() < first else known.max()
            raise StoreError(
                f"these are not clock readings of this trace: one is {int(wrong):,}, and the clock runs from "
                f"{first:,} to {last:,} ticks\n"
                "  a difference of two readings is a duration: trace.duration(later - earlier)"
            )
        result = (found - int(clock["origin"])) if values.dtype.kind == "f" else (values - int(clock["origin"]))
        result = result / clock["resolution"]
        return _like(times, np.where(np.isnan(found) | ((values == -1) & (first >= 0)), np.nan, result))

    def duration(self, ticks: Any) -> Any:
        """Convert differences of clock readings to seconds: durations, waiting times, severities in ticks.

        Parameters
        ----------
        ticks : int, array_like of int, or Series
            Ticks, or values computed from them, such as a mean.

        Returns
        -------
        float64, ndarray of float64, or Series
            nan for null. A Series keeps its index and name.

        Raises
        ------
        StoreError
            If they are not numbers, or are seconds already.

        Examples
        --------
        >>> m = trace.messages  # doctest: +SKIP
        >>> trace.duration(m.recv_exit_time - m.recv_enter_time)  # doctest: +SKIP
        """
        values, found = _as_ticks(ticks, "durations")
        if values.dtype.kind == "f" and ((found != 0) & (np.abs(found) < 1)).any():
            raise StoreError(
                "these are not durations in ticks: one is less than a tick\n"
                "  differences of columns called ..._seconds are in seconds already"
            )
        return _like(ticks, found / self.manifest["clock"]["resolution"])

    def ticks(self, seconds: float) -> int:
        """Convert seconds since the start of the recording to a clock reading.

        Parameters
        ----------
        seconds : float
            Finite.

        Raises
        ------
        StoreError
            If it is not a finite number.
        """
        found = as_seconds(seconds, "time", StoreError)
        if found is None:
            raise StoreError("no time was given\n  give seconds since the start of the recording")
        return clock_reading(found, self.manifest["clock"])

    def _chosen(self, locations: Selection = None, rank: int | None = None, thread: int | None = None) -> list[int]:
        """Return the selected locations; all if nothing is selected."""
        chosen = find_locations(self.store, locations, rank, thread)
        return list(range(int(self.manifest["n_locations"]))) if chosen is None else chosen

    def _narrowed(self, locations: Selection, rank: int | None, thread: int | None) -> Selection:
        """Return locations in the form that analyses take: as given, unless rank or thread narrow them."""
        if rank is None and thread is None:
            return locations
        return find_locations(self.store, locations, rank, thread, AnalysisError)

    # -- definitions -----------------------------------------------------------------------------------------------

    def definition(self, name: str) -> pd.DataFrame:
        """Return a definition table (`tracecols.schema.DEFINITIONS`).

        Parameters
        ----------
        name : str
            Name of the table.

        Raises
        ------
        StoreError
            If there is no such table, or the store is damaged.
        """
        if not isinstance(name, str) or name not in self.store.definitions:
            hint = did_you_mean(name, self.store.definitions, f"there are {', '.join(self.store.definitions)}")
            raise StoreError(f"no definition table {show(name)}\n  {hint}")
        return self.store.definitions[name].to_pandas()

    @property
    def regions(self) -> pd.DataFrame:
        """Program regions."""
        return self.definition("regions")

    @property
    def locations(self) -> pd.DataFrame:
        """Streams of events, with the rank of their process."""
        table = self.definition("locations")
        table["rank"] = self.definition("processes")["rank"].to_numpy()[table["process"].to_numpy()]
        return table

    @property
    def processes(self) -> pd.DataFrame:
        """Location groups."""
        return self.definition("processes")

    @property
    def communicators(self) -> pd.DataFrame:
        """Communicators and teams, their members as locations in rank order."""
        return self.definition("communicators")

    @property
    def topologies(self) -> pd.DataFrame:
        """Cartesian topologies."""
        return self.definition("topologies")

    @property
    def topology_coordinates(self) -> pd.DataFrame:
        """Positions of locations in the topologies."""
        return self.definition("topology_coordinates")

    @property
    def markers(self) -> pd.DataFrame:
        """Markers: notes of tools or users on time intervals of the trace (OTF2), with seconds, ranks and threads."""
        return self._both("markers")

    @once
    def call_paths(self) -> pd.DataFrame:
        """The call tree in depth-first order: parent, region, call site, depth, representative (cnodeptr), path."""
        tree = self.model.call_paths
        return pd.DataFrame(
            {
                "parent": tree.parent,
                "region": tree.region,
                "call_site": tree.call_site,
                "depth": tree.depth,
                "representative": tree.representative,
                "path": tree.paths_of(self.model.regions.name),
            }
        )

    # -- events ----------------------------------------------------------------------------------------------------

    @property
    def events(self) -> pd.DataFrame:
        """All events with all pointer columns, 97 B per event, and readable columns (`frame_bytes`, `read_events`,
        `scan`)."""
        return self._both("events")

    def frame_bytes(self, name: str, *, raw: bool = False) -> int:
        """Return an upper bound of the bytes of a data frame of `events` or of a compound table, without computing the
        table.

        Parameters
        ----------
        name : str
            `events` or the name of a compound table; the result is 0 if its rows cannot be counted beforehand.
        raw : bool, optional
            Only the integer columns, without the readable ones.

        Raises
        ------
        StoreError
            If no data frame has that name.
        """
        if name == "events":
            row = bytes_of(EVENT_COLUMNS) + (0 if raw else 8 * n_readable(EVENTS_WITH_POINTERS))
            return row * int(self.manifest["n_events"])
        spec = TABLES.get(name) if isinstance(name, str) else None
        if spec is None:
            hint = did_you_mean(name, ["events", *TABLES], f"there are events, {', '.join(TABLES)}")
            raise StoreError(f"no data frame is called {show(name)}\n  {hint}")
        kinds = self.manifest["events_by_kind"]
        return _row_bytes(spec.schema, raw) * sum(int(kinds.get(str(k), 0)) for k in spec.kinds)

    def _check_frame(self, name: str, n_bytes: int) -> None:
        """Refuse a data frame that exceeds the limit."""
        if self.frame_limit is None or n_bytes <= self.frame_limit:
            return
        part = {
            "events": "a part of them with read_events(locations, start, stop, columns)",
            "region_instances": "those of some locations with frame('region_instances', locations=...)",
        }.get(name, "it in pieces")
        raise StoreError(
            f"a data frame of {name} would take up to {n_bytes / 2**30:,.1f} GiB, more than the limit of "
            f"{self.frame_limit / 2**30:,.1f} GiB\n"
            f"  read {part}, or scan('{name}') for polars, DuckDB and others; to raise the limit set frame_limit "
            "of the trace in bytes",
            in_shell=f"tracecols enhance {self.path} {name} writes it as Parquet files without holding it in memory",
        )

    def read_events(
        self,
        locations: Selection = None,
        start: float | None = None,
        stop: float | None = None,
        columns: str | Sequence[str] | None = None,
        *,
        rank: int | None = None,
        thread: int | None = None,
        names: bool = False,
    ) -> pd.DataFrame:
        """Read all or some events.

        Parameters
        ----------
        locations : int, str, or iterable of them, optional
            Rows of locations, or texts such as `rank 0` and `rank 0-3 thread 1`; all by default.
        rank, thread : int, optional
            Only locations of this rank, and with this thread number in their process.
        start, stop : float, optional
            Seconds since the start of the recording: events with start <= time < stop. If an event was recorded after a
            later one of its location, both are returned together.
        columns : str or sequence of str, optional
            Of `location`, `time`, `kind`, `region`, `enterptr`, `exitptr`, `sendptr`, `lockptr`, `forkptr`, `cnodeptr`,
            `cedgeptr`, `call_path`, `pos`; all by default. Pointers cost a pass over the whole of each chosen location,
            `pos` (place in global time order, thesis 3.1) a sort of all times of the trace.
        names : bool, optional
            Add the columns `location_name`, `kind_name`, `region_name`, and `path` if `call_path` is there.

        Returns
        -------
        DataFrame
            One row per event, the event's row as index.

        Raises
        ------
        StoreError
            If a column or location does not exist, a time is not a finite number, the range of times ends before it
            starts, or the store is damaged.
        """
        wanted = list(EVENT_COLUMNS) if columns is None else as_texts(columns, "columns", StoreError)
        unknown = set(wanted) - set(EVENT_COLUMNS)
        if unknown:
            there_are = f"there are {', '.join(EVENT_COLUMNS)}"
            hint = did_you_mean(min(unknown), EVENT_COLUMNS, there_are)
            raise StoreError(f"events have no column {', '.join(sorted(unknown))}\n  {hint}")
        chosen = self._chosen(locations, rank, thread)
        first, last = (None if at is None else self.ticks(at) for at in (start, stop))
        if first is not None and last is not None and last < first:
            raise StoreError(
                f"nothing lies between {start:g} s and {stop:g} s\n  the end has to be later than the start"
            )
        spans = find_spans(self.store, chosen, first, last)
        n = sum(map(len, spans))
        self._check_frame("events", n * bytes_of(wanted))
        found = read_event_columns(self.store, spans, wanted, lambda: self.model)
        rows = [(span.first + span.low, span.first + span.high) for span in spans if len(span)]
        follows = all(a[1] == b[0] for a, b in pairwise(rows))
        index = (
            pd.RangeIndex(rows[0][0] if rows else 0, rows[-1][1] if rows else 0, name="row")
            if follows
            else pd.Index(np.concatenate([np.arange(a, b) for a, b in rows]), name="row")
        )
        frame = pd.DataFrame(found, index=index, columns=wanted, copy=False)
        return self.with_names(frame) if names else frame

    def with_names(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the names that a table's columns refer to: locations, kinds, regions, communicators, call paths.

        A column `x` that refers to a table gets a companion `x_name` (`path` for call paths) as a category.

        Parameters
        ----------
        frame : DataFrame
            A table of this trace, or some of its columns.

        Raises
        ------
        StoreError
            If it is not a data frame.
        """
        if not isinstance(frame, pd.DataFrame):
            raise StoreError(f"{show(frame)} is not a table\n  give a data frame of this trace")
        result = frame.copy()
        for column in frame.columns:
            targets = ("location", "region", "communicator", "call_path")
            what = next((w for w in targets if column == w or column.endswith(f"_{w}")), "")
            if column == "kind":
                if "kind_name" in frame:
                    continue
                result["kind_name"] = pd.Categorical.from_codes(
                    pd.Index(list(NAMES)).get_indexer(frame[column]), categories=list(NAMES.values())
                )
            elif what == "call_path":
                result[column.removesuffix("call_path") + "path"] = self.readable.paths(frame[column].to_numpy())
            elif what:
                result[f"{column}_name"] = self.readable.named(frame[column].to_numpy(), f"{what}s")
        return result

    def table(
        self, name: str, locations: Selection = None, *, rank: int | None = None, thread: int | None = None
    ) -> pd.DataFrame:
        """Return a side table: the attributes of a family of events (`tracecols.schema.SIDE_TABLES`).

        Parameters
        ----------
        name : str
            `p2p`, `collectives` (`collectives_events` among all tables, see `scan`), `threads`, `locks`, `tasks`,
            `rma`, `io`, `contexts`, `parameters`, `control`, `attributes`, `program_arguments`, or `metrics_N` for
            metric class N.
        locations : int, str, or iterable of them, optional
            Rows of locations, or texts such as `rank 0`; all by default.
        rank, thread : int, optional
            Only locations of this rank, and with this thread number in their process.

        Raises
        ------
        StoreError
            If there is no such table or location, or the store is damaged.
        """
        name = self.catalog.sides.get(name, name) if isinstance(name, str) else name
        if not isinstance(name, str) or (name not in self.store.tables and name not in SIDE_TABLES):
            known = [t for t in self.store.tables if t != "events"]
            hint = did_you_mean(name, [*known, *SIDE_TABLES], f"this trace has {', '.join(known)}")
            raise StoreError(f"no side table {show(name)}\n  {hint}")
        parts = [self.store.read(name, i) for i in self._chosen(locations, rank, thread)]
        return pd.DataFrame({c: np.concatenate([p[c] for p in parts]) for c in parts[0]} if parts else {})

    # -- tables by name --------------------------------------------------------------------------------------------

    def frame(
        self,
        name: str,
        *,
        raw: bool = False,
        locations: Selection = None,
        rank: int | None = None,
        thread: int | None = None,
        conventions: str = DEFAULT,
    ) -> pd.DataFrame:
        """Return a table in one of its two forms; the attribute of the same name has both (`trace.messages`).

        Parameters
        ----------
        name : str
            Name of any table, as in SQL (docs/schema.md): `events`, `messages`, `region_instances`, `p2p`, ...
        raw : bool, optional
            Return the integer columns, with -1 for null and times in ticks. By default, readable columns replace them:
            `rank` and `thread` for locations, names and call paths as categories, `..._seconds` for times; null is
            null. Definition tables, except `markers`, have their stored columns in both forms.
        locations : int, str, or iterable of them, optional
            Rows of locations, or texts such as `rank 0` and `rank 0-3 thread 1`: only rows on one of them; a message is
            on both of its locations.
        rank, thread : int, optional
            Only locations of this rank, and with this thread number in their process.
        conventions : str
            As for `analyze`: the rules for `waits` and the tables of root causes (`sync_points`, `delay_pairs`,
            `critical_path_stretches`, `root_causes`, `run_causes`). Other tables are the same under all conventions.

        Returns
        -------
        DataFrame
            The row of the table as index; `region_instances` and side tables of selected locations are numbered from 0.

        Raises
        ------
        StoreError
            If there is no such table or location, it has no locations to choose, or it would exceed `frame_limit`.
        AnalysisError
            If there are no such conventions.

        Examples
        --------
        >>> trace.frame("messages", rank=0)  # doctest: +SKIP
        >>> trace.frame("waits", conventions="scalasca")  # doctest: +SKIP
        >>> trace.frame("region_instances", locations="rank 0-3 thread 1", raw=True)  # doctest: +SKIP
        """
        check_conventions(conventions)
        chosen = find_locations(self.store, locations, rank, thread)
        return self._form(name, "raw" if raw else "people", chosen, conventions)

    def _both(self, name: str) -> pd.DataFrame:
        """Return a table with readable and integer columns."""
        return self._form(name, "both", None)

    def _form(self, name: str, form: str, chosen: list[int] | None, conventions: str = DEFAULT) -> pd.DataFrame:
        """Return a table, or its rows on the chosen locations, in a form: `raw`, `people` or `both`."""
        name = self.catalog.check(name)
        if name in DEFINITIONS or name == "call_paths":
            if chosen is not None:
                raise StoreError(f"the table {name} has no locations to choose\n  leave out locations, rank and thread")
            if name == "markers":
                return self._in_form(DEFINITIONS[name], self.definition(name), form)
            return self.call_paths.copy() if name == "call_paths" else self.definition(name)
        if name in self.catalog.sides:
            side = self.catalog.sides[name]
            return self._in_form(self.store.tables.get(side) or SIDE_TABLES[side], self.table(side, chosen), form)
        if name == WAITS.name:
            waits = self._waits.get(conventions, lambda: self._found_waits(conventions))
            return self._in_form(WAITS, _rows_at(WAITS, pd.DataFrame(waits, copy=False), chosen), form)
        is_raw, made_by_location = form == "raw", name in ("events", "region_instances")
        if chosen is None or not made_by_location:
            self._check_frame(name, self.frame_bytes(name, raw=is_raw))
        if name == "events":
            return self._in_form(EVENTS_WITH_POINTERS, self.read_events(chosen), form)
        if name == "region_instances":
            model = self.model
            table = region_instances(model.facts, model.scans, self._chosen(chosen), model.team_instances)
            return self._in_form(table.table, table.frame(), form)
        table = self._whole_table(name, conventions)
        self._check_frame(name, _row_bytes(table.table, is_raw) * len(table))
        return self._in_form(table.table, _rows_at(table.table, table.frame(), chosen), form)

    def _in_form(self, table: Table, frame: pd.DataFrame, form: str) -> pd.DataFrame:
        """Add readable columns to a table (`both`), or replace its columns by them (`people`)."""
        if form == "raw":
            return frame
        found = self.readable.frame(table, lambda name: frame[name].to_numpy(), with_raw=form == "both")
        found.index = frame.index
        return found

    @property
    def region_instances(self) -> pd.DataFrame:
        """One row per execution of a region; `frame("region_instances", locations=...)` makes only those of some
        locations."""
        found = RegionInstances(self._both("region_instances"))
        found.make = lambda chosen: self._form("region_instances", "both", find_locations(self.store, chosen))
        return found

    @property
    def waits(self) -> pd.DataFrame:
        """Every instance of a wait state with its cause (docs/schema.md): location, call path, begin and end, and those
        of the cause.

        Wait states are those of messages, collective operations, start and end of MPI, barriers and joins of threads,
        and locks, under the conventions `exact`: their sums are the cells of `analyze()`. For other conventions, use
        `frame("waits", conventions="expert")`.
        """
        return self._both("waits")

    def _found_waits(self, conventions: str) -> dict[str, Any]:
        """Find the wait states under some conventions."""
        with self.at_work():
            columns = find_waits(self.model, conventions)
        return {**columns, "property": pd.Categorical(columns["property"])}

    def _whole_table(self, name: str, conventions: str) -> CompoundTable:
        """Return a compound table under some conventions."""
        quirks = CONVENTIONS[conventions if name in BY_CONVENTIONS else DEFAULT].quirks

        def make() -> CompoundTable:
            with self.at_work():
                return whole_table(self.model.with_quirks(quirks), name)

        return self._whole_tables.get((name, quirks), make)

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return a table by name (docs/schema.md): `messages`, `collectives`, `profile`, `p2p`, ..."""
        if name.startswith("_") or "store" not in self.__dict__:
            raise AttributeError(f"a trace has no attribute {name!r}")
        if name in {*TABLES, *self.catalog.sides, *DEFINITIONS}:
            return self._both(name)
        near = difflib.get_close_matches(name, dir(self), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"a trace has no attribute {name!r}{hint}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.catalog.names})

    def critical_path(self, conventions: str = DEFAULT, *, raw: bool = False) -> pd.DataFrame:
        """Return the critical path, the chain of activities that determines how long the run takes, interval by
        interval.

        Parameters
        ----------
        conventions : str
            As for `analyze`. Under `exact`, the path is a single one without gaps from the start of the run to its end;
            under the others, it lies between MPI_Init and MPI_Finalize, and continues on all threads that tie at a
            barrier.
        raw : bool, optional
            Return `location`, and `begin_time` and `end_time` in ticks, instead of ranks, threads and seconds.

        Returns
        -------
        DataFrame
            One row for every interval on one location, in the order of time: `rank`, `thread`, `begin_seconds` and
            `end_seconds` since the start of the recording, `seconds` (its length), `begin_path` and `end_path` (call
            paths at its ends; null where the recording begins), `reason` (why the path comes to this location, as in
            `schema.causes.POINTS`; empty where the recording begins). For programs without MPI and OpenMP it is empty,
            except under `exact`.

        Raises
        ------
        AnalysisError
            If there are no such conventions.

        Examples
        --------
        >>> path = trace.critical_path()  # doctest: +SKIP
        >>> path.groupby(["rank", "thread"]).seconds.sum()  # doctest: +SKIP
        """
        check_conventions(conventions)
        table = self._whole_table("critical_path_stretches", conventions)
        self._check_frame("critical_path_stretches", row_bytes(table.table) * len(table))
        frame = table.frame().drop(columns=["since", "until"])
        reason = np.array([*POINTS, ""], object)[frame["reason"].to_numpy()]
        if raw:
            names = np.array([*self.model.call_paths.paths_of(self.model.regions.name), ""], object)
            texts = {column: names[frame[column].to_numpy()] for column in ("begin_call_path", "end_call_path")}
            return frame.assign(**texts, reason=reason)
        times = {f"{of}_seconds": self.readable.seconds(frame[f"{of}_time"].to_numpy()) for of in ("begin", "end")}
        location = frame["location"].to_numpy()
        return pd.DataFrame(
            {
                "rank": self.readable.rank[location],
                "thread": self.readable.thread[location],
                **times,
                "seconds": self.readable.duration((frame["end_time"] - frame["begin_time"]).to_numpy()),
                **{f"{of}_path": self.readable.paths(frame[f"{of}_call_path"].to_numpy()) for of in ("begin", "end")},
                "reason": reason,
            },
            index=frame.index,
        )

    # -- analysis --------------------------------------------------------------------------------------------------

    def analyze(
        self,
        conventions: str = DEFAULT,
        *,
        patterns: Family | str | Path | Iterable[Family | str | Path] = (),
        properties: str | Sequence[str] | None = None,
        parameters: Mapping[str, Mapping[str, float]] | None = None,
        topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        ideal_network: bool = False,
        metrics: str | Sequence[str] = (),
        memory: int | str | None = None,
        cluster: Client | None = None,
        scratch: str | Path | None = None,
        **part: Unpack[Part],
    ) -> SeverityCube:
        """Search for all patterns, or for some of them.

        Parameters
        ----------
        conventions : str
            Rules to follow where analysers differ.
        patterns : Family, str or Path, or iterable of them, optional
            Additional patterns: results of `tracecols.pattern`, or files that declare some. Those of installed packages
            are included automatically.
        properties : str or sequence of str, optional
            Ids, or unique titles, of the properties to search for; their ancestors are included.
        parameters : mapping, optional
            Values of parameters by property id or title, `{"late_big": {"threshold": 1e6}}`.
        topologies : mapping or sequence of mapping, optional
            Grids that the trace does not define: `{"name": "grid", "sizes": [4, 2], "coordinates": [[0, 0], [1, 0],
            ...]}`, one list per rank, or `"order": "F"` instead of coordinates (see
            `tracecols.enhance.definitions.topologies.given_topology`). Wavefronts are searched on the first
            two-dimensional grid of a location; grids given here precede those of the trace.
        ideal_network : bool, optional
            Replay the trace on an ideal network, even if it is large, and store the resulting runtime in the cube, so
            that communication efficiency is divided into serialisation and transfer. By default the trace is replayed
            if that costs no more than the analysis (docs/efficiencies.md). Not together with properties and locations.
        metrics : str or sequence of str, optional
            Properties that are computed from others, such as counters: `"ipc = PAPI_TOT_INS / PAPI_TOT_CYC"`
            (`SeverityCube.with_metrics`).
        cluster : distributed.Client, optional
            Run the analysis on the workers of a Dask cluster (extra `dask`, docs/cluster.md). The result is the same.
        memory : int or str, optional
            Memory limit of the analysis in bytes or as `"4GB"`; data beyond it go to temporary files. By default half
            of the free memory, also in containers and batch jobs. An analysis with a limit scans the trace itself
            instead of using `model`. Not together with a cluster, whose workers have their own limits.
        scratch : str or Path, optional
            Folder for temporary files; by default that of `tempfile` (`TMPDIR`). On a cluster, the folder for a scratch
            folder that client and workers see; by default that of the store.
        **part
            The part of the run to analyse, and its division (`tracecols.analysis.part.Part`): `within`, `locations`,
            `rank`, `thread`, `start`, `stop`, `phases`, `bins`, `bin_width`.

        Returns
        -------
        SeverityCube
            With phases or bins it has `periods`, and `over_time` returns its severities by period.

        Raises
        ------
        TypeError
            If a keyword is unknown.
        AnalysisError
            If a name does not exist or is ambiguous, a topology does not fit, bins have no width, a pattern fails, or
            the trace cannot be replayed.
        ClusterError
            If the cluster cannot be used: workers lack the store, the scratch folder or this version of tracecols, or
            are lost.
        MissingExtraError
            If a cluster is given and Dask is not installed.

        Examples
        --------
        >>> cube = trace.analyze(topologies=[{"name": "grid", "sizes": [2, 2], "order": "F"}])  # doctest: +SKIP
        >>> cube.on_topology("grid", "mpi_latesender_wavefront_nw")  # doctest: +SKIP
        """
        request = Request.of(
            names_in(self.store),
            conventions,
            patterns=patterns,
            properties=properties,
            parameters=parameters,
            topologies=topologies,
            ideal_network=ideal_network,
            metrics=metrics,
            **self._of_part(**part),
        )
        budget = self._budget_of(memory, cluster, scratch)
        if cluster is None:
            opened = self if budget is None else OpenedTrace(self.store, self.jobs, budget)
            return run(request, opened, watch=self._watched)
        sees = {"the store": self.path}
        with working_on(cluster, default_scratch(scratch, self.path), sees, self.jobs) as workers:
            return run(request, self, workers, self._watched)

    def _budget_of(self, memory: object, cluster: Client | None, scratch: str | Path | None) -> Budget | None:
        """Return the budget of an analysis with limits of its own; None for others. Raises AnalysisError if the limits
        are invalid or contradict each other."""
        if memory is not None and cluster is not None:
            raise AnalysisError(
                "memory limits an analysis by threads of this process, and a cluster is given\n"
                "  limit the memory of its workers instead: LocalCluster(memory_limit='4GB')"
            )
        if cluster is not None or (memory is None and scratch is None):
            return None
        try:
            return Budget.default(as_memory(memory), None if scratch is None else as_path(scratch, AnalysisError))
        except ValueError as error:
            raise AnalysisError(str(error)) from error

    def _of_part(
        self, *, rank: int | None = None, thread: int | None = None, locations: Selection = None, **others: Any
    ) -> dict[str, Any]:
        """Return a part of the run in the form that requests take. Raises TypeError if a keyword is unknown."""
        if unknown := [name for name in others if name not in Part.__annotations__]:
            known = [*list(signature(self.analyze).parameters)[:-1], *Part.__annotations__]
            hint = did_you_mean(
                unknown[0], known, "see help(trace.analyze); tracecols.open takes the number of threads, jobs"
            )
            raise TypeError(f"Trace.analyze() got an unexpected keyword argument {unknown[0]!r}: {hint}")
        return {"locations": self._narrowed(locations, rank, thread), **others}

    def _watched(self, _what: str) -> AbstractContextManager[Progress | None]:
        """Return the trace's progress callback for every step of an analysis."""
        return nullcontext(self._progress)

    def phases(self) -> pd.DataFrame:
        """Propose phases: regions and calls that every process executes the same number of times, the best ones first.

        Returns
        -------
        DataFrame
            `phases` (argument for `analyze`), `n_phases`, `coverage` (share of the time that lies in phases),
            `regularity` (1 if all are equally long), `mean` (seconds), `score` (coverage times regularity),
            `is_declared` (recorded as phases; these come first).

        Examples
        --------
        >>> best = trace.phases().phases[0]  # doctest: +SKIP
        >>> cube = trace.analyze(phases=best)  # doctest: +SKIP
        """
        found = propose_phases(self.model)
        columns = ("phases", "n_phases", "coverage", "regularity", "mean", "score", "is_declared")
        return pd.DataFrame({name: [getattr(c, name) for c in found] for name in columns})

    @contextmanager
    def piece(self, start: float | None = None, stop: float | None = None) -> Iterator[Trace]:
        """Open the trace slice between two times as a trace of its own, in a context.

        Regions open at the start are entered there, regions open at the end are left there. Messages, collective
        operations and the like have the same partners as in the whole trace (docs/store.md).

        Parameters
        ----------
        start, stop : float, optional
            Seconds since the start of the recording: start <= time < stop; by default the whole recording.

        Raises
        ------
        AnalysisError
            If the time range is empty.
        """
        with open_slice(self.store, start, stop, self.jobs) as store:
            yield Trace(store.path, jobs=self.jobs, subdomains=self._by_place())

    def matches(
        self,
        name: str,
        conventions: str = DEFAULT,
        *,
        patterns: Family | str | Path | Iterable[Family | str | Path] = (),
        parameters: Mapping[str, Mapping[str, float]] | None = None,
        within: str | None = None,
        locations: Selection = None,
        rank: int | None = None,
        thread: int | None = None,
        topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        raw: bool = False,
        names: bool = False,
    ) -> pd.DataFrame:
        """Return every instance of a pattern, the worst first.

        Parameters
        ----------
        name : str
            Id or title of a property that is matched on a compound table (listed by `tracecols patterns`).
        conventions, patterns, parameters, within, locations, rank, thread, topologies
            As for `analyze`.
        raw : bool, optional
            Return integers, as in the compound tables: `severity`, `begin_time` and `end_time` in ticks, which
            `duration` and `seconds` convert, and rows of other tables (`call_path`, `location`).
        names : bool, optional
            With `raw`, add the names of locations and regions, and call paths as text (`with_names`).

        Returns
        -------
        DataFrame
            `severity` (seconds, occurrences or bytes), `path`, `rank` and `thread` it is charged to, `begin_seconds`
            and `end_seconds` of the waiting since the start of the recording, and the readable columns of the compound
            table (`frame`); the index holds its rows.

        Raises
        ------
        AnalysisError
            If there is no such property, or it is computed from call paths.
        """
        families = load_all(patterns)
        choice = choose(None, parameters, within, self._narrowed(locations, rank, thread))
        with self.at_work():
            table, row, columns = find_matches(self.model, name, conventions, families, choice, topologies)
        order = np.argsort(-columns["severity"], kind="stable")
        found = {column: values[order] for column, values in columns.items()}
        index = pd.Index(row[order], name="row")
        if raw:
            frame = pd.DataFrame(found, index=index, copy=False)
            return self.with_names(frame) if names else frame
        frame = self.readable.frame(table, lambda column: found[column], with_raw=False)
        return frame.set_index(index).rename(columns={"severity_seconds": "severity"})

    # -- questions -------------------------------------------------------------------------------------------------

    # functions of `tracecols.verbs`, whose first parameter is the trace

    comm_matrix = messages.comm_matrix
    message_histogram = messages.message_histogram
    comm_over_time = messages.comm_over_time
    flat_profile = times.flat_profile
    load_imbalance = times.load_imbalance
    time_profile = times.time_profile
    idle_time = times.idle_time
    iterations = times.iterations
    late_senders = waiting.late_senders
    waits_by_cause = waiting.waits_by_cause
    top_instances = waiting.top_instances
    training_steps = devices.training_steps
    stragglers = devices.stragglers
    kernel_profile = devices.kernel_profile
    recording_costs = recording.recording_costs

    # -- tables for others -----------------------------------------------------------------------------------------

    @once
    def catalog(self) -> Catalog:
        """All tables of the trace by name."""
        model = partial(self._models.whole, self._progress)
        return Catalog(self.store, model, {WAITS.name: (WAITS, lambda: find_waits(model()))})

    def scan(self, name: str) -> TableFiles:
        """Return a table as Parquet files for tools that read Parquet or Arrow; the table is not held in memory.

        Enhanced tables are made on first use, in the store's folder `enhanced/` (or in a temporary folder if the store
        is read-only), by one pass over the trace in bounded memory; `tracecols enhance` makes them beforehand.

        Parameters
        ----------
        name : str
            `events` (with all pointer columns), `call_paths`, a compound table, a side table, or a definition table
            (docs/schema.md). The side table of the events of collective operations is `collectives_events`.

        Returns
        -------
        TableFiles
            Its rows are those of the data frame of this name in the same order; the number of a row is its position.

        Raises
        ------
        StoreError
            If there is no such table, or no room for it.

        Examples
        --------
        >>> polars.scan_parquet(trace.scan("messages").files, row_index_name="row")  # doctest: +SKIP
        >>> polars.DataFrame(trace.scan("collectives"))  # doctest: +SKIP
        """
        return self.catalog.scan(name)

    # -- replay ----------------------------------------------------------------------------------------------------

    def efficiencies(
        self,
        within: str | None = None,
        *,
        ideal: str | None = None,
        start: float | None = None,
        stop: float | None = None,
        with_startup: bool = False,
    ) -> pd.DataFrame:
        """Return the efficiencies of the run under several models of the same times (docs/efficiencies.md).

        The times are those of the focus: between MPI_Init and MPI_Finalize of each process, or, for programs without
        MPI, those of the whole run.

        Parameters
        ----------
        within : str, optional
            A region, or a shell pattern: only its instances and what they call.
        ideal : str, optional
            How to determine the runtime on an ideal network, on which serialisation and transfer efficiency depend:
            `replay` of the trace without transfer, or the `approximation` of `SeverityCube.efficiencies`. By default by
            replay if that costs no more than an analysis; else communication is not divided.
        start, stop : float, optional
            Seconds since the start of the recording: only this time range.
        with_startup : bool, optional
            Return the efficiencies of the whole run, including start-up and shutdown.

        Returns
        -------
        DataFrame
            As of `SeverityCube.efficiencies`.

        Raises
        ------
        AnalysisError
            If a name does not exist, or the trace cannot be replayed.

        Examples
        --------
        >>> table = trace.efficiencies()  # doctest: +SKIP
        >>> table[table.model == "mpi"].set_index("metric").value  # doctest: +SKIP
        """
        if ideal is not None:
            check_ideal(ideal, IDEALS)
        if isinstance(within, str):
            check_region(within, self.store.names("regions"))
        if ideal == DIMEMAS and (within is not None or start is not None or stop is not None):
            raise AnalysisError(
                "the ideal network as of Dimemas is that of the whole run, not of a region or a piece\n"
                "  leave these out, or take the replay"
            )
        cube = self.analyze(within=within, start=start, stop=stop, ideal_network=ideal == REPLAY)
        if ideal == DIMEMAS:
            return tabulate(as_dimemas(self.replay, cube))
        return cube.efficiencies(ideal=ideal, with_startup=with_startup)

    def what_if(
        self,
        scale: Mapping[str, float] | None = None,
        *,
        latency: float | None = None,
        bandwidth: float | None = None,
        balanced: bool = False,
        transfer: float | None = None,
        openmp: float | None = None,
        collectives: str = RECORDED,
        eager: int | None = None,
        whole_run: bool = False,
    ) -> RetimedTrace:
        """Predict the run with changed times of computation and communication, by replay (docs/what-if.md).

        Parameters
        ----------
        scale : dict of str to float, optional
            Factors by region or shell pattern for computation in it and in its callees; 0.5 is twice as fast.
        latency, bandwidth : float, optional
            Seconds and bytes per second of another network, which replaces the recorded transfer.
        balanced : bool, optional
            Every process computes as much as the mean of all, and so do its devices.
        transfer : float, optional
            Factor for the time MPI takes beyond waiting; 0 is an ideal network.
        openmp : float, optional
            Factor for the time OpenMP and locks take beyond waiting.
        collectives : str
            `recorded`; or `dimemas`, with an ideal network: as in that simulator, every process waits for all others in
            blocking collective operations except Reduce, and none waits in MPI_Finalize and in calls that manage
            communicators.
        eager : int, optional
            With an ideal network: messages of at least this many bytes wait for their receive to be posted; by default
            senders wait where the recorded times show that they did.
        whole_run : bool, optional
            Take the runtime of the whole recording, not that between MPI_Init and MPI_Finalize.

        Raises
        ------
        AnalysisError
            If a region does not exist, a number is negative or invalid, the trace cannot be replayed, or devices
            execute work in it.

        Examples
        --------
        >>> faster = trace.what_if({"solve": 0.5})  # doctest: +SKIP
        >>> faster.runtime, faster.saving  # doctest: +SKIP
        >>> trace.what_if().savings()  # doctest: +SKIP
        >>> faster.analyze().total("mpi_latesender")  # doctest: +SKIP
        """
        changes = as_changes(
            scale=scale,
            latency=latency,
            bandwidth=bandwidth,
            balanced=balanced,
            transfer=transfer,
            openmp=openmp,
            collectives=collectives,
            eager=eager,
            whole_run=whole_run,
        )
        for region in changes.scale:
            check_region(region, self.store.names("regions"))
        return RetimedTrace(self.replay, changes, self.jobs)

    def correct(self, *, latency: float = 0.0, shrink: float = SHRINK, stretch: float = STRETCH) -> CorrectedTrace:
        """Correct the clocks: find times that satisfy all clock conditions, by the controlled logical clock
        (docs/clocks.md).

        Events only move to later times. The table `clock_violations` lists the violations of the recorded times by pair
        of locations.

        Parameters
        ----------
        latency : float, optional
            Minimum time in seconds between a SEND and its RECV, or between begin and end of a collective operation in
            different processes.
        shrink : float, optional
            Share by which intervals may shrink after an event that is moved; with 0 they keep their lengths, and shifts
            never decay.
        stretch : float, optional
            Share by which intervals may grow before it, where the conditions of other events permit; 0 moves all events
            before.

        Raises
        ------
        AnalysisError
            If a number is negative or invalid, or conditions contradict each other.

        Examples
        --------
        >>> corrected = trace.correct()  # doctest: +SKIP
        >>> corrected.before, corrected.after, corrected.change  # doctest: +SKIP
        >>> corrected.save("corrected.trace")  # doctest: +SKIP
        >>> corrected.analyze().total("mpi_latesender")  # doctest: +SKIP
        """
        return CorrectedTrace(self.model, Bounds(latency, shrink, stretch), self.jobs, self._progress)

    def sql(self, query: str) -> pd.DataFrame:
        """Query all tables of the trace with SQL (extra `sql`).

        Parameters
        ----------
        query : str
            DuckDB SQL over all tables of `scan`, under the same names, each with its row number as column `row` (side
            tables with that of their event). Enhanced tables are made when a query names them, the pointer columns of
            `events` when a query reads one.

        Raises
        ------
        MissingExtraError
            If DuckDB is not installed.
        StoreError
            If the query holds no statement, or something other than a regular file is in the place of a file of the
            store.

        Examples
        --------
        >>> trace.sql(  # doctest: +SKIP
        ...     "select r.name, count(*) from events e join regions r on r.row = e.region group by 1"
        ... )
        >>> trace.sql("select send_location, sum(length) from messages group by 1")  # doctest: +SKIP
        """
        return self.catalog.sql(query)


class RegionInstances(pd.DataFrame):  # type: ignore[misc]
    """The table of region instances; for compatibility with an earlier method, calling it returns those of some
    locations."""

    _metadata = ["make"]
    make: Callable[[Selection], pd.DataFrame]

    def __call__(self, locations: Selection = None) -> pd.DataFrame:
        """Return the rows of some locations; `Trace.frame` computes only those."""
        return self if locations is None else self.make(locations)

    def __reduce__(self) -> tuple[Any, ...]:
        # pickled as a plain data frame: `make` needs the trace
        return pd.DataFrame, (pd.DataFrame(self),)


class _Analyzed(RewrittenTrace):
    """A trace with changed times that can be analysed like a trace."""

    def analyze(self, *arguments: Any, **options: Any) -> SeverityCube:
        """Search the trace with its new times for all patterns. The trace is written to a temporary store.

        Parameters
        ----------
        *arguments, **options
            As of `Trace.analyze`.
        """
        with self.written() as path:
            return Trace(path, jobs=self._jobs).analyze(*arguments, **options)


class RetimedTrace(_Analyzed, Prediction):
    """A predicted run that can be analysed like a trace."""


class CorrectedTrace(_Analyzed, Correction):
    """A trace with corrected clocks that can be analysed like a trace."""


def open_trace(
    path: str | Path, *, jobs: int | None = None, frame_limit: int | None = None, subdomains: Given | None = None
) -> Trace:
    """Open a store.

    Parameters
    ----------
    path : str or Path
        The store `NAME.trace`.
    jobs : int, optional
        Threads; by default one per core.
    frame_limit : int, optional
        Maximum bytes of a data frame (see `Trace`); by default half of the machine's memory.
    subdomains : mapping, callable, str or Path, optional
        Subdomain of the application of each location (see `Trace`): a dimension besides the machine.

    Raises
    ------
    StoreError
        If it is not a store, is damaged, or has another version.
    AnalysisError
        If the subdomains are invalid, or refer to ranks and threads that do not exist.

    Examples
    --------
    >>> trace = tracecols.open("run.trace", subdomains={0: "ocean", 1: "ocean", 2: "ice"})  # doctest: +SKIP
    >>> trace.comm_matrix(by="subdomain")  # doctest: +SKIP
    """
    return Trace(path, jobs=jobs, frame_limit=frame_limit, subdomains=subdomains)
