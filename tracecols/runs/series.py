"""The severities of many runs side by side: the exclusive value of each property on each call path, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.runs.folder import MEASURED, Run, Value, in_words, read_cubes, varying
from tracecols.severity.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """Runs in order, and their severities."""

    runs: list[Run]
    """The runs, ordered by position."""
    along: str
    """The parameter whose values are the positions; empty if each run, or each repetition, is one."""
    labels: list[str]
    """Labels of the positions."""
    position: NDArray[np.int64]
    """(n_runs,): position of each run. Runs at the same position are repetitions."""
    properties: list[str]
    titles: list[str]
    call_paths: list[str]
    """`properties`, `titles` and `call_paths`: (n_cells,) lists of str"""
    cells: Floats
    """(n_runs, n_cells) float64: seconds, occurrences or bytes of all locations, which add up to the properties that
    were asked for; or values of a computed metric, each for the exclusive sums of a call path."""
    totals: Floats
    """(n_runs,) float64: their sums; of a computed metric its value for the sums of the run."""
    threads: Floats
    """(n_runs,) float64"""
    unit: str
    """Unit, as of properties."""
    adds_up: bool
    """Whether cells add up; values of a computed metric do not."""
    notes: Sequence[str] = ()
    """Remarks on differences between the analyses (`Comparison.notes`)."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of runs at each position; (n_positions,) int64."""
        return np.bincount(self.position, minlength=len(self.labels))

    def at(self, position: int) -> NDArray[np.int64]:
        """Return the numbers of the runs at a position."""
        return np.flatnonzero(self.position == position)

    def means(self) -> Floats:
        """Return the mean of the repetitions; (n_positions, n_cells) float64."""
        return np.stack([self.cells[self.at(i)].mean(axis=0) for i in range(len(self.labels))])

    def looked_at(self, min_share: float) -> NDArray[np.int64]:
        """Return the cells that are compared: those with a share of the total of `min_share` or more in some run, or
        all cells of a computed metric, whose values are not parts of a total."""
        if not self.adds_up:
            return np.arange(len(self.properties))
        share = self.cells / np.where(self.totals > 0, self.totals, 1)[:, None]
        return np.flatnonzero(share.max(axis=0) >= min_share)

    def per_thread(self) -> Floats:
        """Return the cells divided by the threads of their runs; values of a computed metric as they are."""
        return self.cells / self.threads[:, None] if self.adds_up else self.cells

    def cell(self, number: int) -> str:
        """Return the name of a cell: its property and its call path."""
        return f"{self.titles[number]} at {self.call_paths[number]}"


def series_of(
    runs: list[Run],
    along: str = "",
    properties: tuple[str, ...] = ("time",),
    last: int | None = None,
    *,
    with_startup: bool = False,
) -> Series:
    """Read runs and put their severities side by side, for the `last` positions only if given.

    Positions are the values of the parameter `along`: numbers in ascending order, others in the order in which they
    were added. By default that is the only parameter that varies; if none varies, each run has a position of its own.
    Raises SeverityError if there are fewer than two runs, other parameters vary, too, or the properties do not add up
    together.
    """
    differing = varying(runs)
    along = along or (differing[0] if len(differing) == 1 else "")
    _check_parameters(runs, along, differing)
    values = [run.parameters.get(along, "") if along else run.name for run in runs]
    order = _ordered(values)
    label_of = {value: i for i, value in enumerate(order)}
    ranked = sorted(range(len(runs)), key=lambda i: (label_of[values[i]], i))
    if last is not None:
        ranked = [i for i in ranked if label_of[values[i]] >= len(order) - last]
        order = order[-last:]
        label_of = {value: i for i, value in enumerate(order)}
    if len(ranked) < 2:
        raise SeverityError("there is only one run to look at\n  add others, or select more of them")
    kept = [runs[i] for i in ranked]
    together = Comparison(read_cubes(kept), [run.path.name for run in kept], "aggregate", with_startup)
    names, unit, is_computed = _together(together, properties)
    table = _of_metric(together, names[0]) if is_computed else together.changes(*names)
    cells = table[together.names].to_numpy(np.float64).T
    return Series(
        kept,
        along,
        [in_words(value) for value in order],
        np.array([label_of[values[i]] for i in ranked]),
        table.property.tolist(),
        table.title.tolist(),
        table.call_path.tolist(),
        cells,
        np.array([cube.total(names[0]) for cube in together.united]) if is_computed else cells.sum(axis=1),
        np.array([float(together.size(cube)[1]) for cube in together.cubes]),
        unit,
        not is_computed,
        together.notes,
    )


def _together(together: Comparison, properties: tuple[str, ...]) -> tuple[list[str], str, bool]:
    """Return the ids of properties, their unit, and whether it is a single metric computed from others. Raises
    SeverityError if there are none, or they do not add up together."""
    head = together.united[0]
    axis = head.properties
    names = list(dict.fromkeys(head.find_properties(properties)))
    if any(axis.is_computed(name) for name in names):
        if len(names) > 1:
            raise SeverityError(
                f"{', '.join(names)} do not add up: {next(n for n in names if axis.is_computed(n))} is computed from "
                "others\n  look at one of them at a time"
            )
        return names, axis.unit_of(names[0]), True
    of_unit = {axis.unit_of(name): name for name in together.below(*names)}
    if len(of_unit) > 1:
        examples = ", ".join(f"{name} in {unit}" for unit, name in of_unit.items())
        raise SeverityError(f"properties of different units do not add up: {examples}\n  look at those of one unit")
    return names, next(iter(of_unit), ""), False


def _of_metric(together: Comparison, name: str) -> pd.DataFrame:
    """Return the values of a computed metric by call path, each for the exclusive sums of the call path. Call paths
    where it is 0 in all runs, or not a number in one, are left out."""
    import pandas as pd

    axis, paths = together.united[0].properties, together.united[0].call_paths
    values = np.stack([cube.by_call_path(name, "iee") for cube in together.united])
    at = np.flatnonzero(values.any(axis=0) & np.isfinite(values).all(axis=0))
    table = pd.DataFrame({"property": name, "title": axis.title_of(name)}, index=range(at.size))
    table["call_path"] = paths.paths_of(at.tolist())
    return table.assign(**{n: v[at] for n, v in zip(together.names, values, strict=True)})


def _check_parameters(runs: list[Run], along: str, differing: list[str]) -> None:
    """Refuse a series in which more than one parameter varies: changes could be due to either."""
    if along and not any(along in run.parameters for run in runs):
        known = ", ".join(sorted({key for run in runs for key in run.parameters}))
        raise SeverityError(f"no run has the parameter {along}\n  parameters are {known}")
    # the numbers of processes and threads follow from other parameters
    others = [name for name in differing if name != along and not (name in MEASURED and along)]
    if others:
        if along:
            raise SeverityError(
                f"{', '.join([along, *others])} vary together\n"
                f"  select runs with one value of {others[0]}, where={{'{others[0]}': ...}}",
                in_shell=f"select runs with one value of {others[0]}, --where {others[0]}=VALUE",
            )
        raise SeverityError(
            f"{', '.join(others)} vary together\n"
            f"  select runs by the value of one, where={{'{others[0]}': ...}}, or give the parameter to follow (along)",
            in_shell=f"select runs by the value of one, --where {others[0]}=VALUE, or say which one to follow, "
            f"--along {differing[0]}",
        )


def _ordered(values: list[Value]) -> list[Value]:
    """Return different values in order: numbers ascending, others as they came."""
    found = list(dict.fromkeys(values))
    if all(isinstance(value, float) for value in found):
        return sorted(found, key=float)
    return found
