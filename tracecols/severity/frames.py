"""Severities as tables, arrays and trees of other packages: pandas, xarray, Hatchet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import MissingExtraError, SeverityError
from tracecols.given.arguments import is_whole_number, show
from tracecols.given.subdomains import Given
from tracecols.severity.axes import CallAxis, SystemAxis
from tracecols.severity.periods import PeriodCells
from tracecols.severity.queries import Severities, leaves_of, values_of
from tracecols.severity.reduction import reduce_at
from tracecols.severity.subdomains import subdomains_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def frame(
    cube: Severities,
    properties: str | Sequence[str] | None = None,
    call_path: str | None = None,
    rank: int | None = None,
    thread: int | None = None,
    aggregation: str = "iee",
    *,
    by_period: bool = False,
    subdomains: Given | None = None,
) -> pd.DataFrame:
    """Return severities as a long table.

    Parameters
    ----------
    by_period : bool, optional
        Return a row for every phase or bin, with a column `phase` or `bin`; -1 is outside of all phases. Only for cubes
        that are divided, and not together with an aggregation.
    subdomains : mapping, callable, str or Path, optional
        Parts of the application that locations belong to (`by_subdomain`), for a column `subdomain`; null if to none.

    Returns
    -------
    DataFrame
        property, call_path (category), rank, thread (int32), value (float64: seconds, occurrences or bytes).
        Zeros are left out.

    Raises
    ------
    SeverityError
        If something does not exist, or the cube is not divided.
    """
    import pandas as pd

    names = cube.find_properties(properties) if properties is not None else cube.properties.id
    if by_period and aggregation != "iee":
        raise SeverityError(f"severities by period have no aggregation {show(aggregation)}\n  leave it out")
    period = cube.divided().kind if by_period else ""
    keep = cube.find_call_paths(call_path) if call_path is not None else np.ones(len(cube.call_paths), bool)
    at = _locations_at(cube.system, rank, thread)
    parts: list[Any] = []
    for name in names:
        cells = _cells_by_period(cube, name) if by_period else cube.cells_of(name, aggregation)
        parts.append(cells.where(keep[cells.call_path] & at[cells.location]))
    lengths = [len(cells) for cells in parts]
    of = {
        column: np.concatenate([np.zeros(0, np.int32), *(getattr(cells, column) for cells in parts)])
        for column in ("call_path", "location", *(["period"] if by_period else []))
    }
    values = [cells.value * cube.scale(name) for name, cells in zip(names, parts, strict=True)]
    return pd.DataFrame(
        {
            "property": pd.Categorical.from_codes(np.repeat(np.arange(len(names)), lengths), categories=names),
            "call_path": _named_call_paths(cube.call_paths, of["call_path"]),
            **_named_locations(cube.system, of["location"], subdomains),
            **({period: of["period"]} if by_period else {}),
            "value": np.concatenate([np.zeros(0), *values]).astype(np.float64),
        }
    )


def _cells_by_period(cube: Severities, name: str) -> PeriodCells:
    """Return the cells of a property by period. A property that is computed has one for each call path, location and
    period that have any of the properties it is computed from."""
    import pandas as pd

    if not cube.properties.is_computed(name):
        return cube.period_cells[name]
    index, of = pd.MultiIndex.from_arrays([np.zeros(0, np.int32)] * 3), dict[str, pd.Series]()
    for leaf in leaves_of(cube, name):
        c = cube.period_cells[leaf]
        keys = pd.MultiIndex.from_arrays([c.call_path, c.location, c.period])
        index, of[leaf] = index.union(keys), pd.Series(c.value * cube.scale(leaf), keys)
    call_path, location, period = (index.get_level_values(i).to_numpy(np.int32) for i in range(3))
    found = values_of(cube, name, lambda leaf: of[leaf].reindex(index, fill_value=0).to_numpy(), period.shape)
    return PeriodCells(call_path, location, period, found / cube.scale(name)).where(found != 0)


def over_time(
    cube: Severities, name: str = "time", call_path: str | None = None, by: str = "location", *, outside: bool = False
) -> pd.DataFrame:
    """Return severities of a property by phase or bin of time: a row for each, a column for each location, rank, or one
    for all.

    Parameters
    ----------
    by : str
        `location`: columns are rank and thread; `rank`; `total`: one column.
    outside : bool, optional
        Add a first row, -1, for what happens outside of all phases.

    Returns
    -------
    DataFrame
        float64: seconds, occurrences or bytes; 0 where there is nothing. The index, `phase` or `bin`, counts from 0.

    Raises
    ------
    SeverityError
        If the cube is not divided into phases or bins, or something named does not exist.

    Examples
    --------
    >>> cube = trace.analyze(bins=200)  # doctest: +SKIP
    >>> cube.over_time("mpi_latesender", by="rank").plot()  # doctest: +SKIP
    """
    import pandas as pd

    axis, name, s = cube.divided(), cube.find_property(name), cube.system
    if by not in ("location", "rank", "total"):
        raise SeverityError(f"severities cannot be divided by {show(by)}\n  by is location, rank or total")
    columns, column = pd.Index([name]), np.zeros(s.n_locations, np.int64)
    if by == "location":
        columns = pd.MultiIndex.from_arrays([s.rank, s.thread], names=["rank", "thread"])
        column = np.arange(s.n_locations)
    elif by == "rank":
        ranks, column = np.unique(s.rank, return_inverse=True)
        columns = pd.Index(ranks, name="rank")
    chosen = np.ones(len(cube.call_paths), bool) if call_path is None else cube.find_call_paths(call_path)
    first = -1 if outside else 0
    n = len(axis) - first

    def values(of: str) -> NDArray[np.float64]:
        cells = cube.period_cells[of]
        cells = cells.where(chosen[cells.call_path] & (cells.period >= first))
        index = (cells.period.astype(np.int64) - first) * len(columns) + column[cells.location]
        return cube.in_units(of, reduce_at(index, cells.value, n * len(columns), cube.properties.reduction(of)))

    found = values_of(cube, name, values, (n * len(columns),)).reshape(n, len(columns))
    return pd.DataFrame(found, index=pd.RangeIndex(first, len(axis), name=axis.kind), columns=columns)


def periods_frame(cube: Severities) -> pd.DataFrame:
    """Return the phases or bins of a cube: when they begin and end, in seconds since the first event, and how many
    locations have them.

    Raises
    ------
    SeverityError
        If the cube is not divided.
    """
    import pandas as pd

    axis = cube.divided()
    first = int(cube.facts.get("trace", {}).get("first_time") or 0)
    begin, end = ((t - first) / cube.resolution for t in (axis.begin_time, axis.end_time))
    rows = pd.RangeIndex(len(axis), name=axis.kind)
    return pd.DataFrame({"begin": begin, "end": end, "n_locations": axis.n_locations}, index=rows)


def arrow_stream(cube: Severities, requested_schema: object | None = None) -> object:
    """Export the long table of all severities (`frame`) by the Arrow PyCapsule interface."""
    import pyarrow as pa

    return pa.Table.from_pandas(frame(cube), preserve_index=False).__arrow_c_stream__(requested_schema)


def wide(
    cube: Severities,
    properties: str | Sequence[str] | None = None,
    aggregation: str = "iee",
    *,
    subdomains: Given | None = None,
) -> pd.DataFrame:
    """Return severities as a wide table: a row per call path and location, a column per property.

    Parameters
    ----------
    properties : str or sequence of str, optional
        Ids or titles; all that have values by default.
    subdomains : mapping, callable, str or Path, optional
        Parts of the application that locations belong to (`by_subdomain`), for a column `subdomain`; null if to none.

    Returns
    -------
    DataFrame
        call_path (category), rank, thread (int32), then float64 columns named by id. Rows in which all are zero are
        left out; call paths of the same names have separate rows.
    """
    import pandas as pd

    names = (
        cube.find_properties(properties)
        if properties is not None
        else [p for p in cube.properties.id if len(cube.cells[p]) or cube.properties.is_computed(p)]
    )
    cells = {name: cube.cells_of(name, aggregation) for name in names}
    keys = distinct(np.concatenate([np.zeros(0, np.int64), *(c.key for c in cells.values())]))
    call_path, location = (keys >> 32).astype(np.int64), keys & 0xFFFFFFFF
    columns = {
        "call_path": _named_call_paths(cube.call_paths, call_path),
        **_named_locations(cube.system, location, subdomains),
    }
    return pd.DataFrame(columns | {n: (c.at(keys) * cube.scale(n)).astype(np.float64) for n, c in cells.items()})


def to_hatchet(cube: Severities, rank: int | None = None, thread: int | None = None) -> list[dict[str, Any]]:
    """Return the call tree as nested dicts, which `hatchet.GraphFrame.from_literal` takes (Hatchet, Thicket).

    Parameters
    ----------
    rank, thread : int, optional
        Values of these locations; by default the sum over all.

    Returns
    -------
    list of dict
        One per root: frame (name, type, file, line), metrics (for every property that has values or is computed, its id
        and `id (inc)`, without and with what is called) and children.
    """
    at, n = _locations_at(cube.system, rank, thread), len(cube.call_paths)

    def by_call_path(aggregation: str, name: str) -> NDArray[np.float64]:
        cells = cube.cells_of(name, aggregation)
        kept = cells.where(at[cells.location])
        return cube.in_units(name, reduce_at(kept.call_path, kept.value, n, cube.properties.reduction(name)))

    columns = {
        label: values_of(cube, name, partial(by_call_path, aggregation), (n,)).tolist()
        for name in cube.properties.id
        if len(cube.cells[name]) or cube.properties.is_computed(name)
        for label, aggregation in ((name, "iee"), (f"{name} (inc)", "iie"))
    }
    c = cube.call_paths
    nodes: list[dict[str, Any]] = []
    for i, name in enumerate(c.name):
        frame = {"name": name, "type": "function", "file": c.file[i], "line": int(c.line[i])}
        metrics = {label: values[i] for label, values in columns.items()}
        nodes.append({"frame": frame, "metrics": metrics, "children": []})
        if c.parent[i] >= 0:
            nodes[c.parent[i]]["children"].append(nodes[i])
    return [nodes[i] for i in np.flatnonzero(c.parent < 0).tolist()]


def to_xarray(cube: Severities, properties: str | Sequence[str] | None = None) -> xr.DataArray:
    """Return a dense array over property, call_path and location (extra `xarray`).

    Call paths are numbered, since two may have the same names; their paths are a coordinate.

    Raises
    ------
    MissingExtraError
        If xarray is not installed.
    SeverityError
        If a property does not exist, or several have a title.
    """
    try:
        import xarray as xr
    except ImportError as error:
        raise MissingExtraError("xarray", "xarray", "SeverityCube.to_xarray") from error
    names = cube.find_properties(properties) if properties is not None else cube.properties.id
    values = np.zeros((len(names), len(cube.call_paths), cube.system.n_locations))
    for i, name in enumerate(names):
        cells = cube.cells_of(name)
        values[i, cells.call_path, cells.location] = cells.value * cube.scale(name)
    units = [cube.properties.unit_of(n) for n in names]
    return xr.DataArray(
        values,
        dims=("property", "call_path", "location"),
        coords={
            "property": names,
            "unit": ("property", units),
            "path": ("call_path", cube.call_paths.path),
            "rank": ("location", cube.system.rank),
            "thread": ("location", cube.system.thread),
        },
        name="severity",
    )


def _named_call_paths(axis: CallAxis, call_path: NDArray[Any]) -> pd.Categorical:
    """Return call paths as a category of their paths; only those that occur are written out."""
    import pandas as pd

    number = np.zeros(len(axis), np.int64)
    number[call_path] = 1
    paths = axis.paths_of(np.flatnonzero(number).tolist())
    # call paths of the same name, distinguished by their call sites, are one category
    names, codes = np.unique(np.array([*paths, None], object)[:-1], return_inverse=True)
    number[number > 0] = codes
    return pd.Categorical.from_codes(number[call_path], categories=names)


def _named_locations(system: SystemAxis, location: NDArray[Any], given: Given | None) -> dict[str, Any]:
    """Return the columns that identify the locations of rows."""
    import pandas as pd

    columns: dict[str, Any] = {"rank": system.rank[location], "thread": system.thread[location]}
    if given is not None:
        names, of = subdomains_of(system, given)
        columns["subdomain"] = pd.Categorical.from_codes(of[location], categories=names)
    return columns


def _locations_at(system: SystemAxis, rank: int | None, thread: int | None) -> NDArray[np.bool_]:
    """Select the locations of a rank, of a thread number, or of both; (n_locations,) bool. Raises SeverityError if
    there are none."""
    at = np.ones(system.n_locations, bool)
    for what, given, column in (("rank", rank, system.rank), ("thread", thread, system.thread)):
        if given is None:
            continue
        if not is_whole_number(given) or not (column == given).any():
            there_are = distinct(column)
            known = f"they go from {there_are[0]} to {there_are[-1]}" if there_are.size else "there are no locations"
            raise SeverityError(f"no location of this cube has {what} {show(given)}\n  {known}")
        at &= column == given
    return at
