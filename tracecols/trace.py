"""The object a notebook holds: a trace with its events, definitions, compound tables and analysis."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tracecols.arguments import as_seconds, as_texts, clock_reading, is_whole_number, show
from tracecols.catalog import Catalog
from tracecols.cluster import default_scratch, working_on
from tracecols.enhance.columns import CompoundTable
from tracecols.enhance.event_rows import EVENT_COLUMNS, bytes_of, find_spans, read_event_columns
from tracecols.enhance.instances import region_instances
from tracecols.enhance.model import Model, enhance
from tracecols.enhance.table_files import TableFiles, row_bytes
from tracecols.enhance.tables import TABLES
from tracecols.errors import StoreError
from tracecols.jobs import n_jobs
from tracecols.once import once
from tracecols.patterns.base import Family
from tracecols.patterns.engine import analyze_model, choose, find_matches, find_waits
from tracecols.patterns.plugins import load_all
from tracecols.replay.efficiencies import check_ideal, run_times
from tracecols.replay.prediction import Prediction
from tracecols.replay.replay import RECORDED, Replay, as_changes
from tracecols.schema import NAMES, SIDE_TABLES
from tracecols.schema.causes import POINTS
from tracecols.severity.efficiencies import IDEALS, REPLAY, tabulate
from tracecols.slices.opened import open_slice
from tracecols.slices.source import chosen_locations
from tracecols.store import Store

if TYPE_CHECKING:
    from distributed import Client

    from tracecols.severity import SeverityCube

FRAME_SHARE = 2
"""A data frame may take the machine's memory divided by this, unless something else is said (`Trace.frame_limit`)."""


def default_frame_limit() -> int | None:
    """Return the bytes a data frame may take if nobody says otherwise; None, no limit, where the memory is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // FRAME_SHARE
    except (AttributeError, ValueError, OSError):
        return None


class Trace:
    """A trace, opened from its store.

    Nothing is read until it is asked for. Data frames have the row of their table as index; columns named like a table in
    the singular hold rows of that table; -1 is null. Times are integer ticks: `seconds` converts readings of the clock
    (`enter_time`), `duration` differences of them (`exit_time - enter_time`, severities).

    A trace can be pickled: it is its path and its number of threads, and is opened again where it arrives.

    Parameters
    ----------
    path : str or Path
        The store `NAME.trace`.
    jobs : int, optional
        Threads for scanning; by default one per core.
    progress : callable, optional
        Called with the number of events scanned and the number of all.
    frame_limit : int, optional
        Bytes a data frame of events or of a compound table may take; larger ones are refused. By default half of the machine's
        memory. `frame_bytes` says what a frame takes, `scan` reads tables of any size.

    Raises
    ------
    StoreError
        If the store cannot be read, or `frame_limit` is no number of bytes.

    Attributes
    ----------
    frame_limit : int or None
        May be changed; None is no limit.

    Examples
    --------
    >>> trace = tracecols.open("hybrid.trace")  # doctest: +SKIP
    >>> late = trace.messages.query("send_enter_time > recv_enter_time")  # doctest: +SKIP
    >>> trace.analyze().total("mpi_latesender")  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        *,
        jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        frame_limit: int | None = None,
    ) -> None:
        if frame_limit is not None and (not is_whole_number(frame_limit) or frame_limit < 0):
            raise StoreError(f"{show(frame_limit)} is no number of bytes (frame_limit)\n  give a whole number")
        self.store = Store(path)
        self._given_limit = frame_limit
        self.frame_limit = default_frame_limit() if frame_limit is None else int(frame_limit)
        self._given_jobs, self._jobs = jobs, n_jobs(jobs)
        self._progress = progress

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path.absolute(), "jobs": self._given_jobs, "frame_limit": self._given_limit}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], jobs=state["jobs"], frame_limit=state["frame_limit"])  # type: ignore[misc]

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self.store.path

    @property
    def manifest(self) -> dict[str, Any]:
        """What the store says about itself: source, clock, counts, what was not understood or lost."""
        return self.store.manifest

    @once
    def model(self) -> Model:
        """The enhanced model: made by one pass over all events when first needed."""
        return enhance(self.store, self._jobs, self._progress)

    def __repr__(self) -> str:
        m = self.manifest
        return (
            f"<Trace {self.path.name}: {m['n_events']:,} events, {m['n_locations']} locations, "
            f"{(m['last_time'] - m['first_time']) / m['clock']['resolution']:.6f} s, {m['source']['format']}>"
        )

    def seconds(self, times: Any) -> Any:
        """Convert clock readings to seconds since the start of the recording.

        A difference of two readings is no reading: `duration` converts it.

        Parameters
        ----------
        times : int, array_like of int, or Series
            Ticks: what columns called `time` or `..._time` hold.

        Returns
        -------
        float64, ndarray of float64, or Series
            A Series keeps its index and name.

        Examples
        --------
        >>> trace.seconds(trace.messages.send_time)  # doctest: +SKIP
        """
        return self._in_seconds(times, int(self.manifest["clock"]["origin"]))

    def duration(self, ticks: Any) -> Any:
        """Convert differences of clock readings to seconds: durations, waiting times, severities in ticks.

        Parameters
        ----------
        ticks : int, array_like of int, or Series

        Returns
        -------
        float64, ndarray of float64, or Series
            A Series keeps its index and name.

        Examples
        --------
        >>> m = trace.messages  # doctest: +SKIP
        >>> trace.duration(m.recv_exit_time - m.recv_enter_time)  # doctest: +SKIP
        """
        return self._in_seconds(ticks, 0)

    def _in_seconds(self, ticks: Any, origin: int) -> Any:
        if not isinstance(ticks, pd.Series | pd.Index | pd.DataFrame):
            ticks = np.asarray(ticks)
        return (ticks - origin) / self.manifest["clock"]["resolution"]

    def ticks(self, seconds: float) -> int:
        """Convert seconds since the start of the recording to a clock reading.

        Parameters
        ----------
        seconds : float
            Finite.

        Raises
        ------
        StoreError
            If they are no finite number.
        """
        found = as_seconds(seconds, "time", StoreError)
        if found is None:
            raise StoreError("no time was given\n  give seconds since the start of the recording")
        return clock_reading(found, self.manifest["clock"])

    def _chosen(self, locations: int | Iterable[int] | None) -> list[int]:
        """Return the locations that are asked for, all if none are."""
        chosen = chosen_locations(self.store, locations)
        return list(range(int(self.manifest["n_locations"]))) if chosen is None else chosen

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
        if name not in self.store.definitions:
            raise StoreError(f"no definition table {name!r}\n  there are {', '.join(self.store.definitions)}")
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
                "path": tree.names(list(self.model.regions.name)),
            }
        )

    # -- events ----------------------------------------------------------------------------------------------------

    @property
    def events(self) -> pd.DataFrame:
        """All events with all pointer columns: 97 B per event, at most 1.3 times that while it is made (`frame_bytes`, `scan`)."""
        return self.read_events()

    def frame_bytes(self, name: str) -> int:
        """Return the bytes that a data frame of `events` or of a compound table takes, at most; nothing is computed.

        Parameters
        ----------
        name : str
            `events` or the name of a compound table; of those whose rows cannot be counted beforehand it is 0.

        Raises
        ------
        StoreError
            If no data frame has that name.
        """
        if name == "events":
            return bytes_of(EVENT_COLUMNS) * int(self.manifest["n_events"])
        spec = TABLES.get(name)
        if spec is None:
            raise StoreError(f"no data frame is called {show(name)}\n  there are events, {', '.join(TABLES)}")
        kinds = self.manifest["events_by_kind"]
        return row_bytes(spec.schema) * sum(int(kinds.get(str(k), 0)) for k in spec.kinds)

    def _check_frame(self, name: str, n_bytes: int) -> None:
        """Refuse a data frame that takes more memory than it may."""
        if self.frame_limit is None or n_bytes <= self.frame_limit:
            return
        part = (
            "a part of them with read_events(locations, start, stop, columns)" if name == "events" else "it in pieces"
        )
        raise StoreError(
            f"a data frame of {name} would take up to {n_bytes / 2**30:,.1f} GiB, more than the limit of {self.frame_limit / 2**30:,.1f} GiB\n"
            f"  read {part}, or scan('{name}') for polars, DuckDB and others; to raise the limit set frame_limit of the trace in bytes",
            in_shell=f"tracecols enhance {self.path} {name} writes it as Parquet files without holding it in memory",
        )

    def read_events(
        self,
        locations: int | Iterable[int] | None = None,
        start: float | None = None,
        stop: float | None = None,
        columns: str | Sequence[str] | None = None,
        *,
        names: bool = False,
    ) -> pd.DataFrame:
        """Read events, or a part of them.

        Parameters
        ----------
        locations : int or iterable of int, optional
            Rows of locations; all by default.
        start, stop : float, optional
            Seconds since the start of the recording: events with start <= time < stop. An event that was recorded behind a later
            one of its location comes along with that.
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
            If a column or location does not exist, a time is no finite number, or the store is damaged.
        """
        wanted = list(EVENT_COLUMNS) if columns is None else as_texts(columns, "columns", StoreError)
        unknown = set(wanted) - set(EVENT_COLUMNS)
        if unknown:
            raise StoreError(
                f"events have no column {', '.join(sorted(unknown))}\n  there are {', '.join(EVENT_COLUMNS)}"
            )
        chosen = self._chosen(locations)
        first, last = (None if at is None else self.ticks(at) for at in (start, stop))
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
        """Join the names of what a table's columns refer to: locations, kinds, regions, communicators, call paths.

        A column `x` that refers to a table gets a companion `x_name` (`path` for call paths) as a category.

        Parameters
        ----------
        frame : DataFrame
            A table of this trace, or some of its columns.
        """
        result = frame.copy()
        for column in frame.columns:
            what = next(
                (
                    w
                    for w in ("location", "region", "communicator", "call_path")
                    if column == w or column.endswith(f"_{w}")
                ),
                "",
            )
            if column == "kind":
                result["kind_name"] = pd.Categorical.from_codes(
                    pd.Index(list(NAMES)).get_indexer(frame[column]), categories=list(NAMES.values())
                )
            elif what == "call_path":
                result[column.removesuffix("call_path") + "path"] = self._named_call_paths(frame[column])
            elif what:
                table = {"location": self.locations, "region": self.regions, "communicator": self.communicators}[what]
                result[f"{column}_name"] = self._named(frame[column], table["name"])
        return result

    @staticmethod
    def _named(codes: pd.Series, names: pd.Series) -> pd.Categorical:
        numbers, unique = pd.factorize(names)
        return pd.Categorical.from_codes(np.append(numbers, -1)[codes.to_numpy()], categories=unique)

    def _named_call_paths(self, codes: pd.Series) -> pd.Categorical:
        """Return call paths as a category; only those that occur are written out."""
        tree, at = self.model.call_paths, codes.to_numpy()
        number = np.zeros(len(tree) + 1, np.int64)
        number[at] = 1
        # the last one stands for none
        number[-1] = 0
        paths = tree.paths_of(self.model.regions.name, np.flatnonzero(number).tolist())
        numbers, unique = pd.factorize(np.array([*paths, None], object)[:-1])
        number[number > 0] = numbers
        number[-1] = -1
        return pd.Categorical.from_codes(number[at], categories=unique)

    def table(self, name: str, locations: int | Iterable[int] | None = None) -> pd.DataFrame:
        """Return a side table: the attributes of a family of events (`tracecols.schema.SIDE_TABLES`).

        Parameters
        ----------
        name : str
            `p2p`, `collectives` (`collectives_events` among all tables, see `scan`), `threads`, `locks`, `tasks`, `rma`, `io`, `contexts`, `parameters`, `control`,
            `attributes`, `program_arguments`, or `metrics_N` for metric class N.
        locations : int or iterable of int, optional
            All by default.

        Raises
        ------
        StoreError
            If there is no such table or location, or the store is damaged.
        """
        name = self.catalog.sides.get(name, name)
        if name not in self.store.tables and name not in SIDE_TABLES:
            raise StoreError(
                f"no side table {name!r}\n  this trace has {', '.join(t for t in self.store.tables if t != 'events')}"
            )
        parts = [self.store.read(name, i) for i in self._chosen(locations)]
        return pd.DataFrame({c: np.concatenate([p[c] for p in parts]) for c in parts[0]} if parts else {})

    def region_instances(self, locations: int | Iterable[int] | None = None) -> pd.DataFrame:
        """Return one row per execution of a region, of all or of some locations.

        Parameters
        ----------
        locations : int or iterable of int, optional
            Rows of locations; all by default.
        """
        model, chosen = self.model, self._chosen(locations)
        if locations is None:
            self._check_frame("region_instances", self.frame_bytes("region_instances"))
        return region_instances(model.facts, model.scans, chosen, model.team_instances).frame()

    # -- compound events -------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return a compound table by name (`tracecols.enhance.tables.TABLES`, docs/schema.md): `messages`, `collectives`, `profile`, ..."""
        if name in TABLES:
            self._check_frame(name, self.frame_bytes(name))
            table: CompoundTable = self.model.get(name)
            self._check_frame(name, row_bytes(table.table) * len(table))
            return table.frame()
        near = difflib.get_close_matches(name, [*TABLES, *dir(type(self))], 1)
        hint = f"; did you mean {near[0]!r}?" if near and not name.startswith("_") else ""
        raise AttributeError(f"a trace has no attribute {name!r}{hint}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *TABLES})

    @once
    def waits(self) -> pd.DataFrame:
        """Every instance of a wait state and who causes it (docs/schema.md): location, call path, begin and end, and those of the cause.

        Wait states are those of messages, collective operations, MPI_Finalize, barriers of threads, and locks, by the conventions of
        Scalasca. Times are ticks.
        """
        columns = find_waits(self.model)
        columns["property"] = pd.Categorical(columns["property"])
        return pd.DataFrame(columns, copy=False)

    def critical_path(self) -> pd.DataFrame:
        """Return the critical path, the chain of activities that determines how long the run takes, stretch by stretch.

        Returns
        -------
        DataFrame
            In the order of time a row for every stretch on one location: `location`, `begin_time` and `end_time` (ticks),
            `begin_call_path` and `end_call_path` (call paths at its ends, as text; empty where the recording begins), `reason`: why the path
            comes to this location, as in `schema.causes.POINTS` (empty where the recording begins). Without MPI and OpenMP it is empty.

        Examples
        --------
        >>> path = trace.critical_path()  # doctest: +SKIP
        >>> trace.duration(path.end_time - path.begin_time).groupby(path.location).sum()  # doctest: +SKIP
        """
        frame = self.critical_path_stretches
        names = np.array([*self.model.call_paths.names(list(self.model.regions.name)), ""], object)
        for column in ("begin_call_path", "end_call_path"):
            frame[column] = names[frame[column].to_numpy()]
        frame["reason"] = np.array([*POINTS, ""], object)[frame["reason"].to_numpy()]
        return frame.drop(columns=["since", "until"])

    # -- analysis --------------------------------------------------------------------------------------------------

    def analyze(
        self,
        conventions: str = "scalasca",
        *,
        patterns: Family | str | Path | Iterable[Family | str | Path] = (),
        properties: str | Sequence[str] | None = None,
        parameters: Mapping[str, Mapping[str, float]] | None = None,
        within: str | None = None,
        locations: int | Iterable[int] | None = None,
        start: float | None = None,
        stop: float | None = None,
        topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        cluster: Client | None = None,
        scratch: str | Path | None = None,
    ) -> SeverityCube:
        """Search for all patterns, or for some.

        Parameters
        ----------
        conventions : str
            Whose rules to follow where analysers differ.
        patterns : Family, str or Path, or iterable of them, optional
            More patterns: what `tracecols.pattern` returns, or files that declare some. Those of installed packages come
            along by themselves.
        properties : str or sequence of str, optional
            Ids of what to search for, or titles that only one property has; their ancestors come along.
        parameters : mapping, optional
            By property id or title the values of its parameters, `{"late_big": {"threshold": 1e6}}`.
        within : str, optional
            A region, or a shell pattern: only its instances and what they call.
        locations : int or iterable of int, optional
            Rows of the locations whose cells to keep; joins still see all.
        start, stop : float, optional
            Seconds since the start of the recording. The piece between is analysed as a trace by itself (docs/store.md).
        topologies : mapping or sequence of mapping, optional
            Grids the trace does not know of: `{"name": "grid", "sizes": [4, 2], "coordinates": [[0, 0], [1, 0], ...]}`, one list per
            rank, or `"order": "F"` instead of coordinates (see `tracecols.enhance.topologies.given_topology`). Wavefronts are looked
            for on the first two-dimensional grid a location stands on, those given by hand before those of the trace.
        cluster : distributed.Client, optional
            Let the workers of a Dask cluster do the work (extra `dask`, docs/cluster.md). The result is the same.
        scratch : str or Path, optional
            On a cluster, the folder in which a scratch folder is made that client and workers see; by default that of the store.

        Returns
        -------
        SeverityCube

        Raises
        ------
        AnalysisError
            If something named does not exist or fits several, a topology does not fit, or a pattern fails.
        ClusterError
            If the cluster cannot be used: workers lack the store, the scratch folder or this version of tracecols, or are lost.
        MissingExtraError
            If a cluster is given and Dask is not installed.

        Examples
        --------
        >>> cube = trace.analyze(topologies=[{"name": "grid", "sizes": [2, 2], "order": "F"}])  # doctest: +SKIP
        >>> cube.on_topology("grid", "mpi_latesender_wavefront_nw")  # doctest: +SKIP
        """
        choice = choose(properties, parameters, within, locations, start, stop)
        families = load_all(patterns)
        if cluster is not None:
            parent = default_scratch(scratch, self.path)
            with (
                working_on(cluster, parent, {"the store": self.path}, self._jobs) as workers,
                open_slice(self.store, choice.start, choice.stop, self._jobs, folder=workers.folder) as store,
            ):
                model = enhance(store, self._jobs, self._progress, workers)
                return analyze_model(model, conventions, families, choice, topologies)
        if choice.start is None and choice.stop is None:
            return analyze_model(self.model, conventions, families, choice, topologies)
        with self.piece(choice.start, choice.stop) as piece:
            return analyze_model(piece.model, conventions, families, choice, topologies)

    @contextmanager
    def piece(self, start: float | None = None, stop: float | None = None) -> Iterator[Trace]:
        """Open the piece of the trace between two times, in seconds since its start, as a trace of its own for a while.

        What is open at the start is entered there, what is open at the end is closed there.

        Parameters
        ----------
        start, stop : float, optional
            Seconds since the start of the recording: start <= time < stop; by default all that is recorded.

        Raises
        ------
        AnalysisError
            If nothing can lie between them.
        """
        with open_slice(self.store, start, stop, self._jobs) as store:
            yield Trace(store.path, jobs=self._jobs)

    def matches(
        self,
        name: str,
        conventions: str = "scalasca",
        *,
        patterns: Family | str | Path | Iterable[Family | str | Path] = (),
        parameters: Mapping[str, Mapping[str, float]] | None = None,
        within: str | None = None,
        locations: int | Iterable[int] | None = None,
        topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        names: bool = False,
    ) -> pd.DataFrame:
        """Return every instance of a pattern, the worst first.

        Parameters
        ----------
        name : str
            Id or title of a property that is matched on a compound table (`tracecols patterns` says which).
        conventions, patterns, parameters, within, locations, topologies
            As for `analyze`.
        names : bool, optional
            Add the names of locations and regions, and call paths as text (`with_names`).

        Returns
        -------
        DataFrame
            severity (ticks, which `duration` converts, occurrences or bytes), call_path and location it is charged to, begin_time and end_time of the
            waiting (ticks), and the columns of the compound table, with their rows there as index.
        """
        families = load_all(patterns)
        choice = choose(None, parameters, within, locations)
        columns = find_matches(self.model, name, conventions, families, choice, topologies)
        index = pd.Index(columns.pop("row"), name="row")
        frame = pd.DataFrame(columns, index=index, copy=False)
        frame = frame.sort_values("severity", ascending=False, kind="stable")
        return self.with_names(frame) if names else frame

    # -- tables for others -----------------------------------------------------------------------------------------

    @once
    def catalog(self) -> Catalog:
        """All tables of the trace by name."""
        return Catalog(self.store, lambda: self.model)

    def scan(self, name: str) -> TableFiles:
        """Return a table as Parquet files, for whoever reads Parquet or Arrow; nothing of it is held in memory.

        Enhanced tables are made when they are first asked for, in the store's folder `enhanced/` (or in a temporary folder if the
        store cannot be written), by one pass over the trace in bounded memory; `tracecols enhance` makes them beforehand.

        Parameters
        ----------
        name : str
            `events` (with all pointer columns), `call_paths`, a compound table, a side table, or a definition table
            (docs/schema.md). The side table of the events of collective operations is `collectives_events`.

        Returns
        -------
        TableFiles
            Its rows are those of the data frame of this name in the same order; the number of a row is its place.

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

    @once
    def replay(self) -> Replay:
        """The trace as a graph of what waits for what: made when first needed, from the nodes and tables of the whole trace."""
        return Replay(self.model)

    def efficiencies(
        self, within: str | None = None, *, ideal: str = REPLAY, start: float | None = None, stop: float | None = None
    ) -> pd.DataFrame:
        """Return how efficient the run is, by three models of the same times (docs/efficiencies.md).

        The times are those between the first return of MPI_Init and the last call of MPI_Finalize; where these are not there, those of
        the whole run.

        Parameters
        ----------
        within : str, optional
            A region, or a shell pattern: only its instances and what they call.
        ideal : str
            How the runtime on an ideal network is found, which serialisation and transfer efficiency depend on: `replay` of the trace without
            transfer, or the `approximation` of `SeverityCube.efficiencies`.
        start, stop : float, optional
            Seconds since the start of the recording: only the piece between.

        Returns
        -------
        DataFrame
            As of `SeverityCube.efficiencies`.

        Raises
        ------
        AnalysisError
            If nothing is called so, or the trace cannot be replayed.

        Examples
        --------
        >>> table = trace.efficiencies()  # doctest: +SKIP
        >>> table[table.model == "mpi"].set_index("metric").value  # doctest: +SKIP
        """
        check_ideal(ideal, IDEALS)
        if start is not None or stop is not None:
            with self.piece(start, stop) as piece:
                return piece.efficiencies(within, ideal=ideal)
        replay = self.replay
        if within is not None or not replay.is_between:
            return tabulate(run_times(replay, self.analyze(within=within), within, ideal))
        begin, end = replay.window(replay.nodes.time)
        cube = (
            self.analyze(start=float(self.seconds(begin)), stop=float(self.seconds(end)))
            if begin < end
            else self.analyze()
        )
        return tabulate(run_times(replay, cube, None, ideal))

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
    ) -> RetimedTrace:
        """Predict the run with other times for what it consists of, by replay (docs/what-if.md).

        Parameters
        ----------
        scale : dict of str to float, optional
            By region or shell pattern the factor for computation in it and in what it calls; 0.5 is twice as fast.
        latency, bandwidth : float, optional
            Seconds and bytes per second of another network, which takes the place of the recorded transfer.
        balanced : bool, optional
            Every process computes as much as the mean of all.
        transfer : float, optional
            Factor for the time MPI takes beyond waiting; 0 is an ideal network.
        openmp : float, optional
            Factor for the time OpenMP and locks take beyond waiting.
        collectives : str
            `recorded`; or `dimemas`, with an ideal network: everybody waits for all in blocking collective operations but Reduce, as that
            simulator has it.

        Raises
        ------
        AnalysisError
            If a region does not exist, a number is negative or none, or the trace cannot be replayed.

        Examples
        --------
        >>> faster = trace.what_if({"solve": 0.5})  # doctest: +SKIP
        >>> faster.runtime, faster.saving  # doctest: +SKIP
        >>> trace.what_if().savings()  # doctest: +SKIP
        >>> faster.analyze().total("mpi_latesender")  # doctest: +SKIP
        """
        changes = as_changes(
            scale=scale, latency=latency, bandwidth=bandwidth, balanced=balanced, transfer=transfer, openmp=openmp,
            collectives=collectives,
        )  # fmt: skip
        return RetimedTrace(self.replay, changes, self._jobs)

    def sql(self, query: str) -> pd.DataFrame:
        """Query all tables of the trace with SQL (extra `sql`).

        Parameters
        ----------
        query : str
            DuckDB SQL over all tables that `scan` knows, under the same names, each with its number as column `row`. Enhanced tables are
            made when a query names them, and the pointer columns of `events` when a query reads one.

        Raises
        ------
        MissingExtraError
            If DuckDB is not installed.
        StoreError
            If something else stands in the place of a file.

        Examples
        --------
        >>> trace.sql("select r.name, count(*) from events e join regions r on r.row = e.region group by 1")  # doctest: +SKIP
        >>> trace.sql("select send_location, sum(length) from messages group by 1")  # doctest: +SKIP
        """
        return self.catalog.sql(query)


class RetimedTrace(Prediction):
    """A predicted run that can be analysed like a trace."""

    def analyze(self, *arguments: Any, **options: Any) -> SeverityCube:
        """Search the re-timed trace for all patterns. It is written to a temporary store.

        Parameters
        ----------
        *arguments, **options
            As of `Trace.analyze`.
        """
        with self.written() as path:
            return Trace(path, jobs=self._jobs).analyze(*arguments, **options)


def open_trace(path: str | Path, *, jobs: int | None = None, frame_limit: int | None = None) -> Trace:
    """Open a store.

    Parameters
    ----------
    path : str or Path
        The store `NAME.trace`.
    jobs : int, optional
        Threads; by default one per core.
    frame_limit : int, optional
        Bytes a data frame may take (see `Trace`); by default half of the machine's memory.

    Raises
    ------
    StoreError
        If it is no store, damaged, or of another version.
    """
    return Trace(path, jobs=jobs, frame_limit=frame_limit)
