"""The severity cube: property x call path x location, sparse, integers inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.arguments import as_texts, did_you_mean, is_whole_number, show
from tracecols.enhance.paths import match_paths, named
from tracecols.enhance.topologies import Topology, given_topology
from tracecols.errors import MissingExtraError, SeverityError, StoreError
from tracecols.schema.severity import AGGREGATIONS, FORMAT_VERSION, NEW_COLUMNS, SEVERITY_TABLES, tables_of
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells, filled, reduce_at, reduce_upwards
from tracecols.severity.narrowed import in_words
from tracecols.severity.resolve import find_property
from tracecols.store.arrow import read_table, write_table
from tracecols.store.layout import MANIFEST, checksum, identity, new_folder, read_manifest, reason, write_manifest

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def check_aggregation(aggregation: object) -> None:
    """Refuse what is not three letters `i` or `e`.

    Raises
    ------
    SeverityError
        If it is something else.
    """
    if not isinstance(aggregation, str) or len(aggregation) != 3 or set(aggregation) - set("ie"):
        raise SeverityError(
            f"aggregation {show(aggregation)} is not three letters i or e\n"
            "  the default is 'iee': property inclusive, call path and system exclusive"
        )


def inclusive(cells: Cells, call_paths: CallAxis, how: str = "sum") -> Cells:
    """Reduce the cells of every call path with those of all call paths below it, from the deepest level up.

    O(n log n) in the number of cells returned.

    Parameters
    ----------
    cells : Cells
        Exclusive along the call tree.
    call_paths : CallAxis
    how : str
        `sum`, `min` or `max`.

    Returns
    -------
    Cells
        Of every call path with values in or below it: what they are reduced to.
    """
    if not len(cells):
        return cells
    depth = call_paths.depth[cells.call_path]
    order = np.argsort(depth, kind="stable")
    starts = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    below = Cells.empty()
    levels = []
    for at in range(int(depth.max()), -1, -1):
        mine = order[starts[at] : starts[at + 1]]
        level = below.joined(Cells(cells.key[mine], cells.value[mine]), how)
        levels.append(level)
        if at:
            below = Cells.reduce(call_paths.parent[level.call_path], level.location, level.value, how)
    key, value = (np.concatenate([getattr(level, of) for level in levels]) for of in ("key", "value"))
    order = np.argsort(key)
    return Cells(key[order], value[order])


class SeverityCube:
    """Severities of all properties per call path and location (thesis 4.14).

    A value is inclusive along the property tree, exclusive along the call tree, and of one location. Other aggregations
    (the views of thesis 4.16) are named by three letters, `i` or `e` for inclusive or exclusive, for property, call path
    and system.

    Attributes
    ----------
    properties : PropertyAxis
    call_paths : CallAxis
    system : SystemAxis
    cells : dict of str to Cells
        By property: ticks, occurrences, bytes or a counter's own unit.
    facts : dict
        Conventions, clock resolution, the trace, and counts of what could not be matched.
    topologies : list of Topology
        Grids that locations stand on: those of the trace, among them always the one of processes and threads.

    Examples
    --------
    >>> cube = tracecols.open("hybrid.trace").analyze()  # doctest: +SKIP
    >>> cube.total("omp_idle_threads") / cube.total("time")  # doctest: +SKIP
    0.5264089000057031
    >>> cube.frame("mpi_latesender", call_path="*/MPI_Sendrecv")  # doctest: +SKIP
    """

    def __init__(
        self,
        properties: PropertyAxis,
        call_paths: CallAxis,
        system: SystemAxis,
        cells: dict[str, Cells],
        facts: dict[str, Any],
        topologies: Sequence[Topology] = (),
    ) -> None:
        self.properties, self.call_paths, self.system, self.cells, self.facts = (
            properties,
            call_paths,
            system,
            cells,
            facts,
        )
        self.topologies = list(topologies)

    # -- looking at it ---------------------------------------------------------------------------------------------

    @property
    def resolution(self) -> int:
        """Ticks per second."""
        return int(self.facts["resolution"])

    def find_property(self, name: str) -> str:
        """Return the id of a property given by id or title.

        Raises
        ------
        SeverityError
            If there is none, with the nearest ids; if several have the title, with all of them.
        """
        hint, in_shell = "cube.properties.id has all", "tracecols show --threshold 0 prints all that have values"
        return find_property(self.properties, name, "in this cube", SeverityError, hint, in_shell)

    def find_properties(self, names: str | Iterable[str]) -> list[str]:
        """Return the ids of properties given by id or title; a single text is one of them.

        Raises
        ------
        SeverityError
            If there is none, or several have a title.
        """
        return [self.find_property(name) for name in as_texts(names, "properties", SeverityError)]

    def scale(self, name: str) -> float:
        """Return what one unit inside is worth outside: seconds per tick for times, else 1."""
        return 1 / self.resolution if self.properties.unit[self.properties.number[name]] == "sec" else 1.0

    def cells_of(self, name: str, aggregation: str = "iee") -> Cells:
        """Return the cells of a property, inclusive or exclusive along properties and call paths.

        Parameters
        ----------
        name : str
            Id or title of a property.
        aggregation : str
            Letters for property, call path and system; the system's is for `by_system` and `on_topology`.

        Raises
        ------
        SeverityError
            If there is no such property, or the letters are others.
        """
        check_aggregation(aggregation)
        name = self.find_property(name)
        cells = self.cells[name]
        if aggregation[0] == "e":
            cells = cells.without([self.cells[child] for child in self.properties.parts(name)])
        if aggregation[1] == "i" and not self.properties.includes_calls(name):
            cells = inclusive(cells, self.call_paths, self.properties.reduction(name))
        return cells

    def _in_units(self, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return what `reduce_at` made of the cells of a property in seconds, occurrences or bytes; 0 where there was no cell."""
        return (filled(values, self.properties.reduction(name)) * self.scale(name)).astype(np.float64)

    def total(self, name: str) -> float:
        """Return the sum over all call paths and locations, in seconds, occurrences or bytes; of an extreme, that of all."""
        name = self.find_property(name)
        return float(self.cells[name].total(self.properties.reduction(name)) * self.scale(name))

    @property
    def is_difference(self) -> bool:
        """Whether its values are changes: positive where the first operand is larger, which is the later run of a comparison."""
        return bool(self.facts.get("operation") == "difference")

    def whole(self, name: str) -> float:
        """Return what shares of a property refer to: the total of its root, for a difference that of the cube subtracted.

        It has no sign, so that shares have that of their values: what grows is positive though the whole shrinks.
        """
        root = self.properties.root_of(self.find_property(name))
        return abs(float(self.facts.get("whole", {}).get(root, 0.0)) or self.total(root))

    def by_call_path(self, name: str, aggregation: str = "iee") -> NDArray[np.float64]:
        """Return the sum over locations per call path; (n_call_paths,) float64."""
        check_aggregation(aggregation)
        name, axis = self.find_property(name), self.call_paths
        how = self.properties.reduction(name)
        # along call paths locations need not be told apart
        cells = self.cells_of(name, f"{aggregation[0]}e{aggregation[2]}")
        values = reduce_at(cells.call_path, cells.value, len(axis), how)
        if aggregation[1] == "i" and not self.properties.includes_calls(name):
            values = reduce_upwards(values, axis.parent, axis.depth, how)
        return self._in_units(name, values)

    def by_location(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the sum over call paths, or over some given as a mask, per location; (n_locations,) float64."""
        name = self.find_property(name)
        return self._in_units(name, self._at_locations(name, call_paths))

    def _at_locations(self, name: str, call_paths: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Reduce the cells of a property, or those of some call paths, per location (`reduce_at`)."""
        if call_paths is not None:
            call_paths = np.asarray(call_paths)
            if call_paths.dtype != bool or call_paths.shape != (len(self.call_paths),):
                raise SeverityError(
                    f"a mask of call paths is {len(self.call_paths)} truth values, not {show(call_paths)}\n"
                    "  find_call_paths returns one"
                )
        cells = self.cells[name] if call_paths is None else self.cells[name].on(call_paths)
        return reduce_at(cells.location, cells.value, self.system.n_locations, self.properties.reduction(name))

    def by_system(
        self, name: str, call_paths: NDArray[np.bool_] | None = None, aggregation: str = "iei"
    ) -> NDArray[np.float64]:
        """Return values per node of the system tree, inclusive or exclusive; (n_system,) float64."""
        check_aggregation(aggregation)
        name = self.find_property(name)
        how, s = self.properties.reduction(name), self.system
        of_location, location = self._at_locations(name, call_paths), np.array(s.location, np.int64)
        nodes = np.flatnonzero(location >= 0)
        values = reduce_at(nodes, of_location[location[nodes]], location.size, how)
        if aggregation[2] == "i":
            values = reduce_upwards(values, np.array(s.parent, np.int64), s.depth, how)
        return self._in_units(name, values)

    # -- topologies ------------------------------------------------------------------------------------------------

    def find_topology(self, topology: str | int) -> Topology:
        """Return a topology given by name or by its number in `topologies`.

        Raises
        ------
        SeverityError
            If there is none, or several have the name.
        """
        listed = "\n".join(f"  {i} {t!r}" for i, t in enumerate(self.topologies)) or "  none"
        if isinstance(topology, str):
            found = [i for i, t in enumerate(self.topologies) if t.name.lower() == topology.lower()]
            if len(found) != 1:
                how = "no topology is" if not found else f"{len(found)} topologies are"
                raise SeverityError(f"{how} called {topology!r}; give a number\n{listed}")
            topology = found[0]
        if not is_whole_number(topology) or not 0 <= topology < len(self.topologies):
            raise SeverityError(f"no topology {show(topology)} in this cube; there are\n{listed}")
        return self.topologies[topology]

    def on_topology(
        self, topology: str | int | Topology, name: str = "time", call_path: str | None = None, aggregation: str = "iei"
    ) -> NDArray[np.float64]:
        """Lay the severities of a property on a grid (2004 paper on virtual topologies, section 3).

        Parameters
        ----------
        topology : str, int or Topology
            Name, or number in `topologies`.
        name : str, optional
            Id or title of a property.
        call_path : str, optional
            A path, a region or a shell pattern; all call paths by default.
        aggregation : str, optional
            Along property and call path (see `cells_of`). For the system, `i`: threads without a position of their own
            count where the first thread of their process stands that has one; `e`: they are left out.

        Returns
        -------
        (size, ...) float64
            Seconds, occurrences or bytes; one axis per dimension of the topology. NaN where no location stands; where several
            stand, their sum.

        Raises
        ------
        SeverityError
            If the topology, property or call path does not exist, or the grid has more than 10^8 positions.

        Examples
        --------
        >>> cube.on_topology("MPI_Cartesian_2x2", "mpi_latesender")  # doctest: +SKIP
        array([[0.0027, 0.0012], [0.0031, 0.0008]])
        """
        t = topology if isinstance(topology, Topology) else self.find_topology(topology)
        shape = t.shape
        if np.prod(shape, dtype=np.float64) > 1e8:
            raise SeverityError(f"{t!r} has too many positions for an array\n  lay it out from its coordinates")
        name = self.find_property(name)
        how = self.properties.reduction(name)
        cells = self.cells_of(name, aggregation)
        if call_path is not None:
            cells = cells.on(self.find_call_paths(call_path))
        result = np.full(shape, np.nan)
        if not t.location.size:
            return result
        counts_at = self._stand_ins(t.location) if aggregation[2] == "i" else np.arange(self.system.n_locations)
        at = counts_at[cells.location]
        of_location = reduce_at(at[at >= 0], cells.value[at >= 0], self.system.n_locations, how)
        # only the positions that are taken: a grid may have 10^8
        positions, index = np.unique(np.ravel_multi_index(tuple(t.coordinates.T), shape), return_inverse=True)
        values = reduce_at(index, of_location[t.location], positions.size, how)
        result.reshape(-1)[positions] = self._in_units(name, values)
        return result

    def _stand_ins(self, placed: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return for every location the one where it counts: itself, or the first of its process that has a position; -1 none."""
        process = np.full(self.system.n_locations, -1, np.int64)
        for node, row in enumerate(self.system.location):
            if row >= 0:
                process[row] = self.system.parent[node]
        result = np.full(process.size, -1, np.int64)
        first = {int(process[i]): int(i) for i in placed[::-1].tolist()}
        for i, p in enumerate(process.tolist()):
            result[i] = first.get(p, -1)
        result[placed] = placed
        return result

    def with_topology(
        self,
        name: str,
        sizes: Sequence[int],
        coordinates: Sequence[Sequence[int] | None] | NDArray[np.int64] | None = None,
        **more: Any,
    ) -> SeverityCube:
        """Return this cube with a topology that is given by hand.

        The wavefront properties need it when the trace is analyzed: `Trace.analyze(topologies=...)`.

        Parameters
        ----------
        name : str
        sizes : sequence of int
            One per dimension.
        coordinates : sequence, optional
            Of every rank; None for a rank that stands nowhere.
        **more
            `order`, `dimensions`, `periodic`, `locations` (see `tracecols.enhance.topologies.given_topology`).

        Raises
        ------
        AnalysisError
            If it contradicts itself or the cube.
        """
        if isinstance(coordinates, np.ndarray):
            coordinates = coordinates.tolist()
        given: Mapping[str, Any] = {"name": name, "sizes": sizes, "coordinates": coordinates, **more}
        topology = given_topology(given, self.system.rank, self.system.thread)
        return SeverityCube(
            self.properties, self.call_paths, self.system, self.cells, self.facts, [*self.topologies, topology]
        )

    # -- selecting -------------------------------------------------------------------------------------------------

    def find_call_paths(self, *patterns: str) -> NDArray[np.bool_]:
        """Select call paths by their whole path, by shell patterns (``*`` also matches slashes), or by the region they enter.

        A text is tried as a whole path, as a pattern of whole paths, as a region, and as a pattern of regions, in this order.

        Raises
        ------
        SeverityError
            If a text fits nothing.
        """
        axis = self.call_paths
        mask = np.zeros(len(axis), bool)
        for pattern in as_texts(patterns, "call paths", SeverityError):
            found = match_paths(axis.parent, axis.name, re.sub(r"([*?[])", r"[\1]", pattern))
            if not found.any():
                found = match_paths(axis.parent, axis.name, pattern)
            if not found.any():
                found = named(axis.name, pattern)
            if not found.any():
                hint = "give a whole path, a region, or a pattern such as '*/MPI_Recv'"
                hint = did_you_mean(pattern.rpartition("/")[2], axis.name.tolist(), hint)
                raise SeverityError(f"no call path matches {show(pattern)}\n  {hint}")
            mask |= found
        return mask

    def _at(self, rank: int | None, thread: int | None) -> NDArray[np.bool_]:
        """Select the locations of a rank, of a thread number, or of both; (n_locations,) bool.

        Raises
        ------
        SeverityError
            If there are none.
        """
        at = np.ones(self.system.n_locations, bool)
        for what, given, column in (("rank", rank, self.system.rank), ("thread", thread, self.system.thread)):
            if given is None:
                continue
            if not is_whole_number(given) or not (column == given).any():
                there_are = np.unique(column)
                known = (
                    f"they go from {there_are[0]} to {there_are[-1]}" if there_are.size else "there are no locations"
                )
                raise SeverityError(f"no location of this cube has {what} {show(given)}\n  {known}")
            at &= column == given
        return at

    def frame(
        self,
        properties: str | Sequence[str] | None = None,
        call_path: str | None = None,
        rank: int | None = None,
        thread: int | None = None,
        aggregation: str = "iee",
    ) -> pd.DataFrame:
        """Return severities as a long table.

        Parameters
        ----------
        properties : str or sequence of str, optional
            Ids or titles; all by default.
        call_path : str, optional
            A path, a region or a shell pattern.
        rank, thread : int, optional
            Locations.
        aggregation : str, optional
            Along property and call path (see `cells_of`).

        Returns
        -------
        DataFrame
            property, call_path (category), rank, thread (int32), value (float64: seconds, occurrences or bytes).
            Zeros are left out.
        """
        import pandas as pd

        names = self.find_properties(properties) if properties is not None else self.properties.id
        keep = self.find_call_paths(call_path) if call_path is not None else None
        at = self._at(rank, thread)
        parts = []
        for name in names:
            cells = self.cells_of(name, aggregation)
            cells = cells if keep is None else cells.on(keep)
            parts.append((name, cells.where(at[cells.location]) if len(cells) else cells))
        lengths = [len(c) for _, c in parts]
        call_paths = np.concatenate([c.call_path for _, c in parts] or [np.zeros(0, np.int32)])
        locations = np.concatenate([c.location for _, c in parts] or [np.zeros(0, np.int32)])
        return pd.DataFrame(
            {
                "property": pd.Categorical.from_codes(np.repeat(np.arange(len(names)), lengths), categories=names),
                "call_path": self._named_call_paths(call_paths),
                "rank": self.system.rank[locations],
                "thread": self.system.thread[locations],
                "value": np.concatenate([c.value * self.scale(n) for n, c in parts] or [np.zeros(0)]).astype(
                    np.float64
                ),
            }
        )

    to_frame = frame

    def wide(self, properties: str | Sequence[str] | None = None, aggregation: str = "iee") -> pd.DataFrame:
        """Return severities as a wide table: a row per call path and location, a column per property.

        Parameters
        ----------
        properties : str or sequence of str, optional
            Ids or titles; all that have values by default.
        aggregation : str, optional
            Along property and call path (see `cells_of`).

        Returns
        -------
        DataFrame
            call_path (category), rank, thread (int32), then float64 columns named by id. Rows in which all are zero are left
            out; call paths of the same names stand in rows of their own.
        """
        import pandas as pd

        names = (
            self.find_properties(properties)
            if properties is not None
            else [p for p in self.properties.id if len(self.cells[p])]
        )
        cells = {name: self.cells_of(name, aggregation) for name in names}
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(c.key for c in cells.values())]))
        call_path, location = (keys >> 32).astype(np.int64), keys & 0xFFFFFFFF
        columns = {
            "call_path": self._named_call_paths(call_path),
            "rank": self.system.rank[location],
            "thread": self.system.thread[location],
        }
        return pd.DataFrame(columns | {n: (c.at(keys) * self.scale(n)).astype(np.float64) for n, c in cells.items()})

    def _named_call_paths(self, call_path: NDArray[Any]) -> pd.Categorical:
        """Return call paths as a category of their paths; only those that occur are written out."""
        import pandas as pd

        number = np.zeros(len(self.call_paths), np.int64)
        number[call_path] = 1
        paths = self.call_paths.paths_of(np.flatnonzero(number).tolist())
        # call paths of the same name, told apart by their call sites, are one category
        names, codes = np.unique(np.array([*paths, None], object)[:-1], return_inverse=True)
        number[number > 0] = codes
        return pd.Categorical.from_codes(number[call_path], categories=names)

    def to_hatchet(self, rank: int | None = None, thread: int | None = None) -> list[dict[str, Any]]:
        """Return the call tree as nested dicts, which `hatchet.GraphFrame.from_literal` takes (Hatchet, Thicket).

        Parameters
        ----------
        rank, thread : int, optional
            Values of these locations; by default the sum over all.

        Returns
        -------
        list of dict
            One per root: frame (name, type, file, line), metrics (for every property that has values its id and `id (inc)`,
            without and with what is called) and children.
        """
        at = self._at(rank, thread)
        columns: dict[str, list[float]] = {}
        for name in self.properties.id:
            if not len(self.cells[name]):
                continue
            for label, aggregation in ((name, "iee"), (f"{name} (inc)", "iie")):
                cells = self.cells_of(name, aggregation)
                kept = cells.where(at[cells.location])
                values = reduce_at(kept.call_path, kept.value, len(self.call_paths), self.properties.reduction(name))
                columns[label] = self._in_units(name, values).tolist()
        c = self.call_paths
        nodes: list[dict[str, Any]] = []
        for i, name in enumerate(c.name):
            frame = {"name": name, "type": "function", "file": c.file[i], "line": int(c.line[i])}
            metrics = {label: values[i] for label, values in columns.items()}
            nodes.append({"frame": frame, "metrics": metrics, "children": []})
            if c.parent[i] >= 0:
                nodes[c.parent[i]]["children"].append(nodes[i])
        return [nodes[i] for i in np.flatnonzero(c.parent < 0).tolist()]

    def __sub__(self, other: SeverityCube) -> SeverityCube:
        """Subtract another cube, on trees unified by names (`algebra.difference`)."""
        from tracecols.severity.algebra import difference

        return difference(self, other) if isinstance(other, SeverityCube) else NotImplemented

    def to_xarray(self, properties: str | Sequence[str] | None = None) -> xr.DataArray:
        """Return a dense array over property, call_path and location (extra `xarray`).

        Call paths are numbered, since two may have the same names; their paths are a coordinate.
        """
        try:
            import xarray as xr
        except ImportError as error:
            raise MissingExtraError("xarray", "xarray", "SeverityCube.to_xarray") from error
        names = self.find_properties(properties) if properties is not None else self.properties.id
        values = np.zeros((len(names), len(self.call_paths), self.system.n_locations))
        for i, name in enumerate(names):
            cells = self.cells[name]
            values[i, cells.call_path, cells.location] = cells.value * self.scale(name)
        units = [self.properties.unit[self.properties.number[n]] for n in names]
        return xr.DataArray(
            values,
            dims=("property", "call_path", "location"),
            coords={
                "property": names,
                "unit": ("property", units),
                "path": ("call_path", self.call_paths.path),
                "rank": ("location", self.system.rank),
                "thread": ("location", self.system.thread),
            },
            name="severity",
        )

    def additive(self) -> SeverityCube:
        """Return this cube without the properties that do not add up, such as minima of a profile."""
        p = self.properties
        kept = [name for name in p.id if p.adds_up(name)]
        if len(kept) == len(p.id):
            return self
        rows = [p.number[name] for name in kept]
        axis = PropertyAxis(*([getattr(p, column)[row] for row in rows] for column in p.__dataclass_fields__))
        for i, above in enumerate(axis.parent):
            while above and not p.adds_up(above):
                above = p.parent[p.number[above]]
            axis.parent[i] = above
        return SeverityCube(axis, self.call_paths, self.system, self.cells, self.facts, self.topologies)

    def summary(self) -> str:
        """Return one line: size, conventions, and what it is narrowed to."""
        found = sum(len(self.cells[n]) > 0 for n in self.properties.id)
        size = f"{found} properties x {len(self.call_paths)} call paths x {self.system.n_locations} locations"
        conventions = f"{self.facts['conventions']} conventions" if self.facts["conventions"] else ""
        of = f"{self.facts['operation']} of {len(self.facts['of'])} cubes" if "operation" in self.facts else ""
        return ", ".join(filter(None, (size, conventions, of, in_words(self.facts))))

    def own_total(self, name: str) -> float:
        """Return the total of a property without those below it."""
        return float(self.cells_of(name, "eee").total(self.properties.reduction(name)) * self.scale(name))

    def __repr__(self) -> str:
        lines = [f"<SeverityCube {self.summary()}>"]
        trace = self.facts.get("trace")
        if trace:
            lines.append(f"  of {trace['source']['path']}, {trace['n_events']:,} events")
        whole = self.whole("time") if "time" in self.cells else 0.0
        if whole:
            shares = [
                (self.own_total(n), n)
                for i, n in enumerate(self.properties.id)
                if self.properties.root_of(n) == "time"
                and not self.properties.overlaps[i]
                and self.properties.adds_up(n)
            ]
            for value, name in sorted(shares, key=lambda share: -abs(share[0]))[:5]:
                if value:
                    sign = "+" if self.is_difference else ""
                    lines.append(
                        f"  {value / whole:{sign}7.2%} {value:{sign}12.6f} s  {self.properties.title[self.properties.number[name]]} ({name})"
                    )
        return "\n".join(lines)

    def report(self, path: str | Path, title: str | None = None) -> Path:
        """Write the cube as one HTML file for a browser: three coupled trees, topologies, distributions (thesis 4.5).

        The file holds everything it needs and loads nothing.

        Parameters
        ----------
        path : str or Path
            Is replaced if it exists.
        title : str, optional
            The name of the trace by default.

        Raises
        ------
        SeverityError
            If the file cannot be written.
        """
        from tracecols.report.viewer import write_page

        return write_page(self, path, title)

    def view(self, height: int = 620) -> Any:
        """Return what `report` writes as a notebook widget (extra `notebook`); its `selection` is what is selected in it.

        Parameters
        ----------
        height : int
            Pixels.

        Raises
        ------
        MissingExtraError
            Without anywidget.
        """
        from tracecols.report.viewer import widget

        return widget(self, height)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from tracecols.report.viewer import mimebundle

        return mimebundle(self)

    def _repr_html_(self) -> str:
        from tracecols.report.viewer import html_table

        return html_table(self)

    # -- checks ----------------------------------------------------------------------------------------------------

    def violations(self) -> list[str]:
        """Check what holds for every cell: 0 <= child <= parent, and siblings that do not overlap together <= parent.

        Returns
        -------
        list of str
            One line per property that violates it; empty if all is well.
        """
        lines = []
        for name, children in self.properties.children.items():
            children = [child for child in children if self.properties.adds_up(child)]
            if not name or not children or not self.properties.adds_up(name):
                continue
            for child in children:
                negative = int((self.cells[child].value < 0).sum())
                lines += [f"{child} is negative in {negative} cells"] * (negative > 0)
            parts = self.properties.parts(name)
            told = [(f"the children of {name} exceed it", parts)]
            told += [(f"{child} exceeds {name}", [child]) for child in children if child not in parts]
            for words, some in told:
                left = self.cells[name].without([self.cells[child] for child in some])
                below = left.value < 0
                if below.any():
                    i = int(left.value.argmin())
                    lines.append(
                        f"{words} in {below.sum()} cells, most by {-left.value[i] * self.scale(name):g} at "
                        f"{self.call_paths.paths_of([int(left.call_path[i])])[0]}, rank {self.system.rank[left.location[i]]} thread {self.system.thread[left.location[i]]}"
                    )
        return lines

    # -- keeping it ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the cube to a folder, complete or not at all.

        Raises
        ------
        SeverityError
            If the folder cannot be written, or exists and is not a cube.
        """
        path = Path(path)
        p, c, s = self.properties, self.call_paths, self.system
        cells = [self.cells[name] for name in p.id]
        tables: dict[str, dict[str, Any]] = {
            "properties": vars(p),
            "call_paths": vars(c),
            "system": vars(s),
            "locations": {"rank": s.rank, "thread": s.thread, "name": s.location_name, "type": s.location_type},
            **self._topology_tables(),
            "cells": {
                "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(v) for v in cells]),
                "call_path": np.concatenate([np.zeros(0, np.int32), *(v.call_path for v in cells)]),
                "location": np.concatenate([np.zeros(0, np.int32), *(v.location for v in cells)]),
                "value": np.concatenate([np.zeros(0, np.int64), *(v.value.view(np.int64) for v in cells)]),
            },
        }
        with new_folder(path, "a severity cube", SeverityError) as folder:
            for name, table in SEVERITY_TABLES.items():
                write_table(folder / f"{name}.parquet", table, tables[name])
            floats = [name for name in p.id if self.cells[name].value.dtype.kind == "f"]
            content = {"float_properties": floats, "facts": self.facts}
            write_manifest(folder, "a severity cube", FORMAT_VERSION, content)
        return path

    def _topology_tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables that hold the topologies."""
        ts = self.topologies
        numbers = np.arange(len(ts), dtype=np.int32)
        of_dimension = np.repeat(numbers, [len(t.sizes) for t in ts])
        return {
            "topologies": {"name": [t.name for t in ts], "is_artificial": [t.is_artificial for t in ts]},
            "topology_dimensions": {
                "topology": of_dimension,
                "name": [n for t in ts for n in t.dimensions],
                "size": [n for t in ts for n in t.sizes],
                "is_periodic": [p for t in ts for p in t.periodic],
            },
            "topology_positions": {
                "topology": np.repeat(numbers, [t.coordinates.size for t in ts]),
                "location": np.concatenate([np.zeros(0, np.int32), *(t.location.repeat(len(t.sizes)) for t in ts)]),
                "coordinate": np.concatenate([np.zeros(0, np.int64), *(t.coordinates.ravel() for t in ts)]),
            },
        }

    @staticmethod
    def _topologies_of(tables: Mapping[str, Mapping[str, NDArray[Any]]]) -> list[Topology]:
        """Make the topologies from their tables."""
        t, d, p = (tables[n] for n in ("topologies", "topology_dimensions", "topology_positions"))
        result = []
        for i, (name, artificial) in enumerate(zip(t["name"].tolist(), t["is_artificial"].tolist(), strict=True)):
            mine, here = d["topology"] == i, p["topology"] == i
            n = max(int(mine.sum()), 1)
            names, sizes = tuple(d["name"][mine].tolist()), tuple(d["size"][mine].tolist())
            periodic = tuple(map(bool, d["is_periodic"][mine].tolist()))
            location, coordinates = p["location"][here][::n], p["coordinate"][here].reshape(-1, n)
            result.append(Topology(name, names, sizes, periodic, location, coordinates, bool(artificial)))
        return result

    @classmethod
    def load(cls, path: str | Path) -> SeverityCube:
        """Read a cube from a folder.

        Raises
        ------
        SeverityError
            If it is no cube, damaged, or of a version this tracecols does not know.
        """
        path = Path(path)
        try:
            manifest, found = read_manifest(path)
            kind, version = manifest.get("format"), manifest.get("version")
        except (OSError, ValueError, AttributeError) as error:
            if path.is_file():
                raise SeverityError(
                    f"{path} is a file, not a .severity folder\n  read .cubex and .cube with tracecols.read_cube"
                ) from error
            raise SeverityError(
                f"{path} is not a severity cube: its {MANIFEST} is missing or unreadable{reason(error)}\n"
                f"  make one with: tracecols analyze TRACE -o NAME.severity"
            ) from error
        if kind != "tracecols severity":
            raise SeverityError(
                f"{path} is not a severity cube (its manifest says {kind!r})\n  make one with: tracecols analyze {path}"
            )
        if version not in (*NEW_COLUMNS, FORMAT_VERSION):
            raise SeverityError(
                f"{path} has severity format {version}, this tracecols reads {min(NEW_COLUMNS)} to {FORMAT_VERSION}\n"
                "  analyze the trace again"
            )
        if manifest.get("checksum") != checksum(manifest):
            raise SeverityError(
                f"{path}: its {MANIFEST} does not fit its checksum\n  the cube is damaged; analyze the trace again"
            )
        try:
            tables = {n: read_table(path / f"{n}.parquet", t) for n, t in tables_of(version).items()}
        except StoreError as error:
            if identity(path) == found:
                raise SeverityError(f"{path} is damaged: {error}\n  analyze the trace again") from error
        if identity(path) != found:
            raise SeverityError(f"{path} was replaced or removed while it was being read\n  load it again")
        t, where = tables["system"], tables["locations"]
        p = PropertyAxis(**{n: v.tolist() for n, v in tables["properties"].items()})
        if unknown := set(p.aggregation) - set(AGGREGATIONS):
            raise SeverityError(
                f"{path} is damaged: no values come together as {min(unknown)!r}\n  analyze the trace again"
            )
        c = CallAxis(**tables["call_paths"])
        names, types = where["name"].tolist(), where["type"].tolist()
        nodes = [t[n].tolist() for n in ("kind", "name", "parent", "location")]
        s = SystemAxis(nodes[0], nodes[1], nodes[2], nodes[3], where["rank"], where["thread"], names, types)
        prop, call_path, location, value = tables["cells"].values()
        key = (call_path.astype(np.int64) << 32) | location.astype(np.int64)
        starts = np.searchsorted(prop, np.arange(len(p.id) + 1))
        floats = set(manifest["float_properties"])
        cells = {}
        for i, name in enumerate(p.id):
            mine = value[starts[i] : starts[i + 1]]
            cells[name] = Cells(key[starts[i] : starts[i + 1]], mine.view(np.float64) if name in floats else mine)
        return cls(p, c, s, cells, manifest["facts"], cls._topologies_of(tables))
