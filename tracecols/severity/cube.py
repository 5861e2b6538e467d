"""The severity cube: property x call path x location, sparse, integers inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.paths import match_paths
from tracecols.enhance.topologies import Topology, given_topology
from tracecols.errors import MissingExtraError, SeverityError, StoreError
from tracecols.schema.severity import AGGREGATIONS, FORMAT_VERSION, NEW_COLUMNS, SEVERITY_TABLES, tables_of
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells, filled, nothing, reduce_at
from tracecols.store.arrow import read_table, write_table
from tracecols.store.layout import MANIFEST, checksum, identity, new_folder, read_manifest, reason, write_manifest

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


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
            If there is none, with the nearest ids.
        """
        if name in self.properties.number:
            return name
        titles = [
            i for i, t in zip(self.properties.id, self.properties.title, strict=True) if t.lower() == name.lower()
        ]
        if len(titles) == 1:
            return titles[0]
        import difflib

        near = difflib.get_close_matches(name, self.properties.id, 3)
        hint = f"did you mean {', '.join(near)}?" if near else "see cube.properties.id"
        raise SeverityError(f"no property {name!r} in this cube\n  {hint}")

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
        if len(aggregation) != 3 or set(aggregation) - set("ie"):
            raise SeverityError(
                f"aggregation {aggregation!r} is not three letters i or e\n  the default is 'iee': property inclusive, call path and system exclusive"
            )
        name = self.find_property(name)
        cells = self.cells[name]
        if aggregation[0] == "e":
            for child in self.properties.parts(name):
                cells = cells - self.cells[child]
        if aggregation[1] == "i" and not self.properties.includes_calls(name):
            cells = self._up(cells, self.call_paths, self.properties.reduction(name))
        return cells

    @staticmethod
    def _up(cells: Cells, call_paths: CallAxis, how: str = "sum") -> Cells:
        """Add every cell to the call paths above it, from the deepest level up: O(n log n) in the number of cells returned."""
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

    def total(self, name: str) -> float:
        """Return the sum over all call paths and locations, in seconds, occurrences or bytes; of an extreme, that of all."""
        name = self.find_property(name)
        return self.cells[name].total(self.properties.reduction(name)) * self.scale(name)

    def whole(self, name: str) -> float:
        """Return what shares of a property refer to: the total of its root, for a difference that of the cube subtracted."""
        root = self.properties.root_of(self.find_property(name))
        return float(self.facts.get("whole", {}).get(root, 0.0)) or self.total(root)

    def by_call_path(self, name: str, aggregation: str = "iee") -> NDArray[np.float64]:
        """Return the sum over locations per call path; (n_call_paths,) float64."""
        axis, how = self.call_paths, self.properties.reduction(self.find_property(name))
        if how != "sum":
            cells = self.cells_of(name, aggregation)
            return self._gathered(name, cells, cells.call_path, len(axis))
        # along call paths locations need not be told apart
        cells = self.cells_of(name, aggregation if aggregation[1:2] != "i" else f"{aggregation[:1]}e{aggregation[2:]}")
        sums = np.zeros(len(axis), cells.value.dtype)
        np.add.at(sums, cells.call_path, cells.value)
        if aggregation[1:2] == "i":
            order = np.argsort(axis.depth, kind="stable")
            starts = np.searchsorted(axis.depth[order], np.arange(axis.depth.max(initial=0) + 2))
            for at in range(starts.size - 2, 0, -1):
                level = order[starts[at] : starts[at + 1]]
                np.add.at(sums, axis.parent[level], sums[level])
        return sums * self.scale(self.find_property(name))

    def by_location(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the sum over call paths, or over some given as a mask, per location; (n_locations,) float64."""
        name = self.find_property(name)
        cells = self.cells[name] if call_paths is None else self.cells[name].on(call_paths)
        return self._gathered(name, cells, cells.location, self.system.n_locations)

    def _gathered(self, name: str, cells: Cells, at: NDArray[Any], n: int) -> NDArray[np.float64]:
        """Bring cells together at call paths or locations; 0 where there is none."""
        how = self.properties.reduction(self.find_property(name))
        values = nothing(n, cells.value.dtype, how)
        reduce_at(at, cells.value, values, how)
        result: NDArray[np.float64] = filled(values, how) * self.scale(self.find_property(name))
        return result

    def by_system(
        self, name: str, call_paths: NDArray[np.bool_] | None = None, aggregation: str = "iei"
    ) -> NDArray[np.float64]:
        """Return values per node of the system tree, inclusive or exclusive; (n_system,) float64."""
        of_location = self.by_location(name, call_paths)
        how = self.properties.reduction(self.find_property(name))
        values = nothing(len(self.system.location), np.float64, how)
        for i in range(values.size - 1, -1, -1):
            row = self.system.location[i]
            # no extreme of a location is one that has none
            if row >= 0 and (of_location[row] or how == "sum"):
                values[i] = of_location[row]
            if aggregation[2] == "i" and self.system.parent[i] >= 0:
                reduce_at(self.system.parent[i], values[i], values, how)
        return filled(values, how)

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
        if not 0 <= topology < len(self.topologies):
            raise SeverityError(f"no topology {topology} in this cube; there are\n{listed}")
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
            A path or shell pattern; all call paths by default.
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
        cells = self.cells_of(name, aggregation)
        if call_path is not None:
            cells = cells.on(self.find_call_paths(call_path))
        how = self.properties.reduction(self.find_property(name))
        values = nothing(self.system.n_locations, cells.value.dtype, how)
        reduce_at(cells.location, cells.value, values, how)
        if aggregation[2] == "i":
            at = self._stand_ins(t.location)
            away = np.flatnonzero((at >= 0) & (at != np.arange(at.size)))
            reduce_at(at[away], values[away], values, how)
        result = np.full(shape, np.nan)
        if not t.location.size:
            return result
        index = tuple(t.coordinates.T)
        result[index] = nothing((), np.float64, how)
        reduce_at(index, values[t.location] * self.scale(self.find_property(name)), result, how)
        return filled(result, how)

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
        """Select call paths by their whole path, or by shell patterns (``*`` also matches slashes).

        Raises
        ------
        SeverityError
            If a pattern matches nothing.
        """
        axis = self.call_paths
        mask = np.zeros(len(axis), bool)
        for pattern in patterns:
            found = match_paths(axis.parent, axis.name, re.sub(r"([*?[])", r"[\1]", pattern))
            if not found.any():
                found = match_paths(axis.parent, axis.name, pattern)
            if not found.any():
                raise SeverityError(
                    f"no call path matches {pattern!r}\n  give a whole path, or a pattern such as '*/MPI_Recv'"
                )
            mask |= found
        return mask

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
            A path or shell pattern.
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

        if isinstance(properties, str):
            properties = [properties]
        names = [self.find_property(p) for p in properties] if properties is not None else self.properties.id
        keep = self.find_call_paths(call_path) if call_path is not None else None
        at = np.ones(self.system.n_locations, bool)
        if rank is not None:
            at &= self.system.rank == rank
        if thread is not None:
            at &= self.system.thread == thread
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

    def wide(self, properties: Sequence[str] | None = None, aggregation: str = "iee") -> pd.DataFrame:
        """Return severities as a wide table: a row per call path and location, a column per property.

        Parameters
        ----------
        properties : sequence of str, optional
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
            [self.find_property(p) for p in properties]
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
        at = np.ones(self.system.n_locations, bool)
        if rank is not None:
            at &= self.system.rank == rank
        if thread is not None:
            at &= self.system.thread == thread
        columns: dict[str, list[float]] = {}
        for name in self.properties.id:
            if not len(self.cells[name]):
                continue
            for label, aggregation in ((name, "iee"), (f"{name} (inc)", "iie")):
                cells = self.cells_of(name, aggregation)
                cells = cells.where(at[cells.location])
                columns[label] = self._gathered(name, cells, cells.call_path, len(self.call_paths)).tolist()
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

    def to_xarray(self, properties: Sequence[str] | None = None) -> xr.DataArray:
        """Return a dense array over property, call_path and location (extra `xarray`).

        Call paths are numbered, since two may have the same names; their paths are a coordinate.
        """
        try:
            import xarray as xr
        except ImportError as error:
            raise MissingExtraError("xarray", "xarray", "SeverityCube.to_xarray") from error
        names = [self.find_property(p) for p in properties] if properties is not None else self.properties.id
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
        """Return one line: size, conventions, waiting."""
        found = sum(len(self.cells[n]) > 0 for n in self.properties.id)
        size = f"{found} properties x {len(self.call_paths)} call paths x {self.system.n_locations} locations"
        conventions = f"{self.facts['conventions']} conventions" if self.facts["conventions"] else ""
        of = f"{self.facts['operation']} of {len(self.facts['of'])} cubes" if "operation" in self.facts else ""
        return ", ".join(filter(None, (size, conventions, of)))

    def __repr__(self) -> str:
        lines = [f"<SeverityCube {self.summary()}>"]
        trace = self.facts.get("trace")
        if trace:
            lines.append(f"  of {trace['source']['path']}, {trace['n_events']:,} events")
        whole = self.whole("time") if "time" in self.cells else 0.0
        if whole:
            shares = [
                (float(self.cells_of(n, "eee").value.sum()) * self.scale(n), n)
                for i, n in enumerate(self.properties.id)
                if self.properties.root_of(n) == "time"
                and not self.properties.overlaps[i]
                and self.properties.adds_up(n)
            ]
            for value, name in sorted(shares, key=lambda share: -abs(share[0]))[:5]:
                if value:
                    lines.append(
                        f"  {value / whole:7.2%} {value:12.6f} s  {self.properties.title[self.properties.number[name]]} ({name})"
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
                left = self.cells[name]
                for child in some:
                    left = left - self.cells[child]
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
