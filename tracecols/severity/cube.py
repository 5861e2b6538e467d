"""The severity cube: property x call path x location, sparse, integers inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import MissingExtraError, SeverityError, StoreError
from tracecols.schema.severity import FORMAT_VERSION, SEVERITY_TABLES
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.store.arrow import read_table, write_table
from tracecols.store.layout import MANIFEST, new_folder

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class SeverityCube:
    """Severities of all properties per call path and location (thesis 4.14).

    A value is inclusive along the property tree, exclusive along the call tree, and of one location. Other meanings are
    views (thesis 4.16): three letters, `i` or `e` for inclusive or exclusive, for property, call path and system.

    Attributes
    ----------
    properties : PropertyAxis
    call_paths : CallAxis
    system : SystemAxis
    cells : dict of str to Cells
        By property: ticks, occurrences, bytes or a counter's own unit.
    facts : dict
        Conventions, clock resolution, the trace, and counts of what could not be matched.

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
    ) -> None:
        self.properties, self.call_paths, self.system, self.cells, self.facts = (
            properties,
            call_paths,
            system,
            cells,
            facts,
        )

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

    def view(self, name: str, view: str = "iee") -> Cells:
        """Return the cells of a property in another meaning along properties and call paths.

        Parameters
        ----------
        name : str
            Id or title of a property.
        view : str
            Letters for property, call path and system; the system's is for `by_system`.
        """
        if len(view) != 3 or set(view) - set("ie"):
            raise SeverityError(
                f"view {view!r} is not three letters i or e\n  the default is 'iee': property inclusive, call path and system exclusive"
            )
        name = self.find_property(name)
        cells = self.cells[name]
        if view[0] == "e":
            for child in self.properties.children[name]:
                cells = cells - self.cells[child]
        if view[1] == "i":
            cells = self._up(cells, self.call_paths.parent)
        return cells

    @staticmethod
    def _up(cells: Cells, parent: NDArray[np.int32]) -> Cells:
        """Add every cell to the call paths above it."""
        result, call_path, location, value = cells, cells.call_path, cells.location, cells.value
        while call_path.size:
            up = parent[call_path] >= 0
            level = Cells.sum(parent[call_path[up]], location[up], value[up])
            result = result + level
            call_path, location, value = level.call_path, level.location, level.value
        return result

    def total(self, name: str) -> float:
        """Return the sum over all call paths and locations, in seconds, occurrences or bytes."""
        name = self.find_property(name)
        return float(self.cells[name].value.sum() * self.scale(name))

    def by_call_path(self, name: str, view: str = "iee") -> NDArray[np.float64]:
        """Return the sum over locations per call path; (n_call_paths,) float64."""
        cells = self.view(name, view)
        sums = np.zeros(len(self.call_paths), cells.value.dtype)
        np.add.at(sums, cells.call_path, cells.value)
        return sums * self.scale(self.find_property(name))

    def by_location(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the sum over call paths, or over some given as a mask, per location; (n_locations,) float64."""
        name = self.find_property(name)
        cells = self.cells[name] if call_paths is None else self.cells[name].on(call_paths)
        sums = np.zeros(self.system.n_locations, cells.value.dtype)
        np.add.at(sums, cells.location, cells.value)
        return sums * self.scale(name)

    def by_system(
        self, name: str, call_paths: NDArray[np.bool_] | None = None, view: str = "iei"
    ) -> NDArray[np.float64]:
        """Return values per node of the system tree, inclusive or exclusive; (n_system,) float64."""
        of_location = self.by_location(name, call_paths)
        values = np.array([of_location[row] if row >= 0 else 0.0 for row in self.system.location])
        if view[2] == "i":
            for i in range(len(values) - 1, -1, -1):
                if self.system.parent[i] >= 0:
                    values[self.system.parent[i]] += values[i]
        return values

    def find_call_paths(self, *patterns: str) -> NDArray[np.bool_]:
        """Select call paths by their whole path, or by shell patterns (``*`` also matches slashes).

        Raises
        ------
        SeverityError
            If a pattern matches nothing.
        """
        from fnmatch import translate
        from re import compile

        mask = np.zeros(len(self.call_paths), bool)
        for pattern in patterns:
            exact = np.fromiter((p == pattern for p in self.call_paths.path), bool, len(mask))
            if not exact.any():
                fits = compile(translate(pattern))
                exact = np.fromiter((fits.match(p) is not None for p in self.call_paths.path), bool, len(mask))
            if not exact.any():
                raise SeverityError(
                    f"no call path matches {pattern!r}\n  give a whole path, or a pattern such as '*/MPI_Recv'"
                )
            mask |= exact
        return mask

    def frame(
        self,
        properties: str | Sequence[str] | None = None,
        call_path: str | None = None,
        rank: int | None = None,
        thread: int | None = None,
        view: str = "iee",
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
        view : str, optional
            Meaning along property and call path (see `view`).

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
            cells = self.view(name, view)
            cells = cells if keep is None else cells.on(keep)
            parts.append((name, cells.where(at[cells.location]) if len(cells) else cells))
        lengths = [len(c) for _, c in parts]
        call_paths = np.concatenate([c.call_path for _, c in parts] or [np.zeros(0, np.int32)])
        locations = np.concatenate([c.location for _, c in parts] or [np.zeros(0, np.int32)])
        unique, codes = (
            np.unique(np.array(self.call_paths.path, object), return_inverse=True)
            if len(self.call_paths)
            else (np.zeros(0, object), np.zeros(0, np.int64))
        )
        return pd.DataFrame(
            {
                "property": pd.Categorical.from_codes(np.repeat(np.arange(len(names)), lengths), categories=names),
                "call_path": pd.Categorical.from_codes(codes[call_paths], categories=unique),
                "rank": self.system.rank[locations],
                "thread": self.system.thread[locations],
                "value": np.concatenate([c.value * self.scale(n) for n, c in parts] or [np.zeros(0)]).astype(
                    np.float64
                ),
            }
        )

    to_frame = frame

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

    def summary(self) -> str:
        """Return one line: size, conventions, waiting."""
        found = sum(len(self.cells[n]) > 0 for n in self.properties.id)
        return (
            f"{found} properties x {len(self.call_paths)} call paths x {self.system.n_locations} locations, "
            f"{self.facts['conventions']} conventions"
        )

    def __repr__(self) -> str:
        lines = [f"<SeverityCube {self.summary()}>"]
        trace = self.facts.get("trace")
        if trace:
            lines.append(f"  of {trace['source']['path']}, {trace['n_events']:,} events")
        whole = self.total("time") if "time" in self.cells else 0.0
        if whole:
            shares = [
                (float(self.view(n, "eee").value.sum()) * self.scale(n), n)
                for n in self.properties.id
                if self.properties.root_of(n) == "time"
            ]
            for value, name in sorted(shares, reverse=True)[:5]:
                if value > 0:
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

    def show(self, height: int = 620) -> Any:
        """Return the same view as a notebook widget (extra `notebook`); its `selection` is what is selected in it.

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
        """Check what holds for every cell: 0 <= child <= parent, and siblings together <= parent.

        Returns
        -------
        list of str
            One line per property that violates it; empty if all is well.
        """
        lines = []
        for name, children in self.properties.children.items():
            if not name or not children:
                continue
            left = self.cells[name]
            for child in children:
                left = left - self.cells[child]
                if (self.cells[child].value < 0).any():
                    lines.append(f"{child} is negative in {(self.cells[child].value < 0).sum()} cells")
            below = left.value < 0
            if below.any():
                i = int(left.value.argmin())
                lines.append(
                    f"the children of {name} exceed it in {below.sum()} cells, most by {-left.value[i] * self.scale(name):g} at "
                    f"{self.call_paths.path[left.call_path[i]]}, rank {self.system.rank[left.location[i]]} thread {self.system.thread[left.location[i]]}"
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
            "cells": {
                "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(v) for v in cells]),
                "call_path": np.concatenate([v.call_path for v in cells]),
                "location": np.concatenate([v.location for v in cells]),
                "value": np.concatenate([v.value.view(np.int64) for v in cells]),
            },
        }
        with new_folder(path, "a severity cube", SeverityError) as folder:
            for name, table in SEVERITY_TABLES.items():
                write_table(folder / f"{name}.parquet", table, tables[name])
            floats = [name for name in p.id if self.cells[name].value.dtype.kind == "f"]
            manifest = {
                "format": "tracecols severity",
                "version": FORMAT_VERSION,
                "float_properties": floats,
                "facts": self.facts,
            }
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        return path

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
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            kind, version = manifest.get("format"), manifest.get("version")
        except (OSError, ValueError, AttributeError) as error:
            raise SeverityError(
                f"{path} is not a severity cube\n  make one with: tracecols analyze TRACE -o {path}"
            ) from error
        if kind != "tracecols severity":
            raise SeverityError(
                f"{path} is not a severity cube (its manifest says {kind!r})\n  make one with: tracecols analyze {path}"
            )
        if version != FORMAT_VERSION:
            raise SeverityError(
                f"{path} has severity format {version}, this tracecols reads {FORMAT_VERSION}\n  analyze the trace again"
            )
        try:
            tables = {n: read_table(path / f"{n}.parquet", t) for n, t in SEVERITY_TABLES.items()}
        except StoreError as error:
            raise SeverityError(f"{path} is damaged: {error}\n  analyze the trace again") from error
        t, where = tables["system"], tables["locations"]
        p = PropertyAxis(**{n: v.tolist() for n, v in tables["properties"].items()})
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
        return cls(p, c, s, cells, manifest["facts"])
