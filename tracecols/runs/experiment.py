"""Queries of an experiment: its runs, their severities side by side, changes among them, and the growth of times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tracecols.errors import SeverityError
from tracecols.given.arguments import as_path, as_texts, show
from tracecols.runs.changes import find_changes
from tracecols.runs.folder import Run, Value, add, chosen, read_cubes, runs_in
from tracecols.runs.growth import find_growth
from tracecols.runs.series import Series, series_of
from tracecols.severity.comparison import runtime_of
from tracecols.severity.cube import SeverityCube

if TYPE_CHECKING:
    import pandas as pd


class Experiment:
    """A folder with the severity cubes of many runs and their parameters (thesis, chapter 7).

    Parameters
    ----------
    folder : str or Path
        Created when the first run is added. It holds `NAME.severity` and `NAME.json` of each run.

    Examples
    --------
    >>> nightly = tracecols.Experiment("nightly")  # doctest: +SKIP
    >>> nightly.add(cube, "2026-11-24", {"commit": "1f3a9c0"})  # doctest: +SKIP
    >>> nightly.changes(nightly.series("time", along="commit"))  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = as_path(folder, SeverityError)

    def __repr__(self) -> str:
        return f"<Experiment {self.folder}>"

    def add(
        self,
        cube: SeverityCube,
        name: str | None = None,
        parameters: Mapping[str, Value] | None = None,
        *,
        force: bool = False,
    ) -> Run:
        """Add a run.

        Parameters
        ----------
        cube : SeverityCube
        name : str, optional
            Name of the run; by default `run-1`, `run-2` and so on.
        parameters : mapping, optional
            Numbers or texts by name: commit, size, machine. The numbers of processes and threads are always parameters.
            Runs with equal parameters are repetitions, from which noise is estimated.
        force : bool, optional
            Replace a run of this name.

        Raises
        ------
        SeverityError
            If it is not a cube, a parameter is NaN or infinite, there is a run of this name, or the folder cannot be
            written.
        """
        if not isinstance(cube, SeverityCube):
            raise SeverityError(f"cannot add {show(cube)}\n  give a cube; tracecols.read_cube reads one from a file")
        return add(self.folder, cube, name, dict(parameters or {}), force=force)

    def runs(self, where: Mapping[str, Value] | None = None) -> list[Run]:
        """Return the runs with some values of parameters, in the order in which they were added.

        Parameters
        ----------
        where : mapping, optional
            Only runs with these values of parameters.

        Raises
        ------
        SeverityError
            If there is none.
        """
        wanted = {
            key: float(value) if isinstance(value, int | float) else value for key, value in (where or {}).items()
        }
        return chosen(runs_in(self.folder), wanted)

    def frame(self, where: Mapping[str, Value] | None = None, *, with_startup: bool = False) -> pd.DataFrame:
        """Return one row per run.

        Parameters
        ----------
        where : mapping, optional
            Only runs with these values of parameters.
        with_startup : bool, optional
            Include start and end of the program in the runtime.

        Returns
        -------
        DataFrame
            run, added (UTC), runtime (seconds, nan if not known), and a column for each parameter.
        """
        import pandas as pd

        runs = self.runs(where)
        names = list(dict.fromkeys(key for run in runs for key in run.parameters))
        cubes = read_cubes(runs)
        runtime = [runtime_of(cube if with_startup else cube.focused(), with_startup=with_startup) for cube in cubes]
        table = pd.DataFrame(
            {"run": [run.name for run in runs], "added": [run.added for run in runs], "runtime": runtime}
        )
        return table.assign(**{name: [run.parameters.get(name) for run in runs] for name in names})

    def series(
        self,
        properties: str | Sequence[str] = "time",
        along: str = "",
        where: Mapping[str, Value] | None = None,
        last: int | None = None,
        *,
        with_startup: bool = False,
    ) -> Series:
        """Put the severities of runs side by side.

        Parameters
        ----------
        properties : str or sequence of str
            Ids or titles: these and the properties below them, all of one unit; or one metric computed from others,
            whose formula is evaluated for the exclusive sums of each call path.
        along : str, optional
            The parameter that orders the runs; by default the only one that varies, or the order in which runs were
            added.
        where : mapping, optional
            Only runs with these values of parameters.
        last : int, optional
            Only that many of the last positions.
        with_startup : bool, optional
            Include the start and the end of the runs.

        Raises
        ------
        SeverityError
            If there are fewer than two runs, several parameters vary, or the properties do not add up together.
        """
        names = as_texts(properties, "properties", SeverityError)
        return series_of(self.runs(where), along, tuple(names), last, with_startup=with_startup)

    def severities(self, series: Series) -> pd.DataFrame:
        """Return the means of a series by property and call path.

        Parameters
        ----------
        series : Series

        Returns
        -------
        DataFrame
            property, title, call_path, and a column for each position, called by its label, followed by its number if
            another column has this name: seconds, occurrences or bytes of all locations, exclusive in each tree, or
            values of a computed metric. What varies most comes first.
        """
        import pandas as pd

        means = series.means()
        order = np.argsort(-(means.max(axis=0) - means.min(axis=0)), kind="stable")
        columns = {"property": series.properties, "title": series.titles, "call_path": series.call_paths}
        for i, label in enumerate(series.labels):
            # a branch may be called title, and a text like a number
            columns[label if label not in columns else f"{label} ({i + 1})"] = means[i]
        table = pd.DataFrame(columns)
        return table.iloc[order].reset_index(drop=True)

    def changes(self, series: Series, rate: float = 0.05, min_share: float = 0.001) -> pd.DataFrame:
        """Return what became slower or faster in a series, where, and since when (`runs.changes`).

        Parameters
        ----------
        series : Series
        rate : float
            How often an alarm may be false in a series without changes.
        min_share : float
            Leave out cells with a smaller part of the total.

        Returns
        -------
        DataFrame
            position, since (its label), chance (the p-value), property, title, call_path, before, after, change, ratio.
            The first row of each change is the total, with an empty property.
        """
        import pandas as pd

        rows = []
        for change in find_changes(series, rate, min_share):
            rows.append((change.since, change.label, change.chance, "", "total", "", change.before, change.after))
            rows += [
                (change.since, change.label, change.chance, c.property, c.title, c.call_path, c.before, c.after)
                for c in change.cells
            ]
        names = ["position", "since", "chance", "property", "title", "call_path", "before", "after"]
        table = pd.DataFrame(rows, columns=names).astype({"before": float, "after": float, "chance": float})
        with np.errstate(divide="ignore", invalid="ignore"):
            return table.assign(change=table.after - table.before, ratio=table.after / table.before)

    def growth(
        self, series: Series, at: float | None = None, rate: float = 0.05, min_share: float = 0.001
    ) -> pd.DataFrame:
        """Return how the time per thread, or a computed metric, grows with the parameter of a series (`runs.growth`).

        Parameters
        ----------
        series : Series
        at : float, optional
            The value to predict for; by default eight times the largest one.
        rate : float
            How often any of the models may be mere noise.
        min_share : float
            Leave out cells with a smaller part of the total.

        Returns
        -------
        DataFrame
            property, title, call_path, model, power, logarithm, constant, coefficient, chance, measured (at the largest
            value) and predicted; the largest growth comes first.
        """
        import pandas as pd

        rows = []
        for g in find_growth(series, at, rate, min_share):
            power, logarithm = g.term if g.coefficient else (0, 0)
            rows.append({**vars(g), "model": g.formula(series.along), "power": float(power), "logarithm": logarithm})
        names = ("property", "title", "call_path", "model", "power", "logarithm", "constant", "coefficient", "chance")
        return pd.DataFrame(rows, columns=[*names, "measured", "predicted"])
