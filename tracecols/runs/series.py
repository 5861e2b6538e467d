"""The severities of many runs side by side: what each property has of its own on each call path, run by run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.runs.folder import Run, Value, in_words, read_cubes, varying
from tracecols.severity.comparison import Comparison

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """Runs in order, and their severities.

    Attributes
    ----------
    runs : list of Run
        By position.
    along : str
        The parameter whose values are the positions; empty if each run, or each repetition, is one.
    labels : list of str
        Of the positions.
    position : (n_runs,) int64
        Of each run. Runs at the same position are repetitions.
    properties, titles, call_paths : (n_cells,) lists of str
    cells : (n_runs, n_cells) float64
        Seconds, occurrences or bytes of all locations; they add up to the properties that were asked for.
    totals : (n_runs,) float64
        Their sums.
    threads : (n_runs,) float64
    """

    runs: list[Run]
    along: str
    labels: list[str]
    position: NDArray[np.int64]
    properties: list[str]
    titles: list[str]
    call_paths: list[str]
    cells: Floats
    totals: Floats
    threads: Floats

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
    """Read runs and put their severities side by side.

    Parameters
    ----------
    runs : list of Run
        In the order in which they were added.
    along : str
        The parameter to go along: numbers in ascending order, other values in the order in which they were added. By
        default the only one that varies; if none varies each run has a position of its own.
    last : int, optional
        Only so many positions, from the end.

    Raises
    ------
    SeverityError
        If there are fewer than two runs, or other parameters vary, too.
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
    together = Comparison(read_cubes(kept), [f"run {i}" for i in range(len(kept))], "aggregate", with_startup)
    axis = together.cubes[0].properties
    for name in map(together.cubes[0].find_property, properties):
        if axis.is_computed(name):
            raise SeverityError(
                f"{name} is computed from others: its values do not add up, so that no changes of it can be found\n"
                f"  look at what it is computed from: {axis.formula[axis.number[name]]}"
            )
    table = together.changes(*properties)
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
        cells.sum(axis=1),
        np.array([float(together.size(cube)[1]) for cube in together.cubes]),
    )


def _check_parameters(runs: list[Run], along: str, differing: list[str]) -> None:
    """Refuse a series in which more than one parameter varies: what changes could be due to either."""
    if along and not any(along in run.parameters for run in runs):
        known = ", ".join(sorted({key for run in runs for key in run.parameters}))
        raise SeverityError(f"no run has the parameter {along}\n  parameters are {known}")
    # the size of a run follows from what else was asked for
    measured = {"processes", "threads"}
    others = [name for name in differing if name != along and not (name in measured and along)]
    if others and not (along and along in measured and set(others) <= measured):
        if along:
            raise SeverityError(
                f"{', '.join([along, *others])} vary together\n"
                f"  select runs with one value of {others[0]}, where={{'{others[0]}': ...}}",
                in_shell=f"select runs with one value of {others[0]}, --where {others[0]}=VALUE",
            )
        raise SeverityError(
            f"{', '.join(others)} vary together\n"
            f"  select runs by the value of one, where={{'{others[0]}': ...}}, or say along which parameter to go",
            in_shell=f"select runs by the value of one, --where {others[0]}=VALUE, or say which one to follow, "
            f"--along {differing[0]}",
        )


def _ordered(values: list[Value]) -> list[Value]:
    """Return different values in order: numbers ascending, others as they came."""
    found = list(dict.fromkeys(values))
    if all(isinstance(value, float) for value in found):
        return sorted(found, key=float)
    return found
