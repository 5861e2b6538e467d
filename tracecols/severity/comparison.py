"""Comparison of several runs: what changed, and how a program scales."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracecols.distinct import distinct, ends_run
from tracecols.errors import SeverityError
from tracecols.given.arguments import as_texts, is_whole_number, show
from tracecols.given.quantities import counted
from tracecols.severity import algebra
from tracecols.severity.cube import SeverityCube
from tracecols.severity.efficiencies import times_of
from tracecols.severity.narrowed import in_words
from tracecols.severity.reduction import without_residue

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ("property", "parent", "title", "unit", "call_path", "change", "ratio")
"""Columns of tables that also have a column per run; runs cannot have these names."""


class Comparison:
    """Severity cubes of several runs, with their trees unified by names.

    Parameters
    ----------
    cubes : sequence of SeverityCube
        Two or more; the others are compared with the first.
    names : sequence of str, optional
        Names of the runs; by default A, B, ...
    by : str
        How locations correspond, see `algebra.unify`.
    with_startup : bool, optional
        Compare the whole runs, with start-up and shutdown; by default the focus of each (`severity.focus`).

    Attributes
    ----------
    cubes : list of SeverityCube
        The compared cubes.
    united : list of SeverityCube
        The same on common trees; questions about one run, such as `efficiencies`, are for `cubes`.
    names : list of str

    Raises
    ------
    SeverityError
        If there are fewer than two cubes, or they do not fit together.

    Examples
    --------
    >>> runs = tracecols.compare([before, after])  # doctest: +SKIP
    >>> runs.changes("mpi").head()  # doctest: +SKIP
    >>> runs.difference().save("change.severity")  # doctest: +SKIP
    """

    def __init__(
        self,
        cubes: Sequence[SeverityCube],
        names: Sequence[str] | None = None,
        by: str = "position",
        with_startup: bool = False,
    ) -> None:
        if isinstance(cubes, SeverityCube) or not isinstance(cubes, Collection) or len(cubes) < 2:
            raise SeverityError("there is nothing to compare\n  give a list of at least two cubes")
        for cube in cubes:
            if not isinstance(cube, SeverityCube):
                raise SeverityError(
                    f"cannot compare {show(cube)}\n  give cubes; tracecols.read_cube reads them from files"
                )
        self.cubes, self.by = [cube if with_startup else cube.focused() for cube in cubes], by
        self.with_startup = with_startup
        # A, B, ..., Z, A1, B1, ...
        letters = [chr(ord("A") + i % 26) + (str(i // 26) if i >= 26 else "") for i in range(len(cubes))]
        self.names = as_texts(names, "names of runs", SeverityError) if names is not None else letters
        if len(set(self.names) - set(COLUMNS)) != len(cubes):
            raise SeverityError(
                f"{len(cubes)} cubes need as many different names, not {', '.join(self.names)}\n"
                f"  and other ones than {', '.join(COLUMNS)}"
            )
        self.united = algebra.unify(self.cubes, by)
        self._by_call_path = [
            name
            for name, given, cube in zip(self.names, cubes, self.cubes, strict=True)
            if cube is not given and given.outside is None
        ]

    def __repr__(self) -> str:
        lines = [f"<Comparison of {len(self.cubes)} runs, locations by {self.by}>"]
        width = max(map(len, self.names))
        for name, given, cube in zip(self.names, self.cubes, self.united, strict=True):
            processes, threads = self.size(given)
            time = f"{cube.total('time'):12.6f} s, " if "time" in self.properties else ""
            trace = given.facts.get("trace")
            source = f", {trace['source']['path']}" if trace else ""
            lines.append(
                f"  {name:{width}}  {time}{counted(processes, 'process', 'processes')}, "
                f"{counted(threads, 'thread')}{source}"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, "  totals(), changes(), scaling(), difference() compare them"])

    @property
    def properties(self) -> list[str]:
        """Ids of all properties, depth-first."""
        return self.united[0].properties.id

    @property
    def has_phases(self) -> bool:
        """Whether all runs are divided in the same way, so that phases, or bins, of the same number correspond."""
        kinds = {cube.periods.kind if cube.periods is not None else "" for cube in self.united}
        return len(kinds) == 1 and "" not in kinds

    def by_phase(self, name: str = "time") -> pd.DataFrame:
        """Compare a property phase by phase, or bin by bin, by their numbers.

        Parameters
        ----------
        name : str
            Id or title of a property.

        Returns
        -------
        DataFrame
            By phase a column for every run (seconds, occurrences or bytes; a phase that a run does not have is NaN),
            `change` (last - first) and `ratio`, and where it changed most: `call_path`, and `at_call_path`, the change
            there. The largest changes come first.

        Raises
        ------
        SeverityError
            If the runs are not all divided by phases or all by bins, or there is no such property.
        """
        import pandas as pd

        if not self.has_phases:
            raise SeverityError(
                "the runs are not all divided in the same way\n  analyze all of them with phases, or all with bins"
            )
        name = self.united[0].find_property(name)
        n = max(len(cube.divided()) for cube in self.united)
        kind = self.united[0].divided().kind
        columns = {}
        for label, cube in zip(self.names, self.united, strict=True):
            values = np.full(n, np.nan)
            values[: len(cube.divided())] = cube.over_time(name, by="total")[name]
            columns[label] = values
        table = pd.DataFrame(columns, index=pd.RangeIndex(n, name=kind))
        first, last = self.names[0], self.names[-1]
        table["change"] = table[last].fillna(0.0) - table[first].fillna(0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            table["ratio"] = table[last] / table[first]
        path, change = self._where_phases_change(name, n)
        axis = self.united[0].call_paths
        known = np.flatnonzero(path >= 0)
        names = np.full(n, "", object)
        names[known] = axis.paths_of(path[known].tolist())
        table["call_path"], table["at_call_path"] = names, change
        return table.iloc[np.argsort(-table.change.abs().to_numpy(), kind="stable")]

    def _where_phases_change(self, name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the call path at which each phase changed most, -1 where nothing did, and by how much."""
        keys, values = [], []
        n_paths = len(self.united[0].call_paths)
        for sign, cube in ((-1.0, self.united[0]), (1.0, self.united[-1])):
            cells = cube.period_cells[name]
            cells = cells.where(cells.period >= 0)
            keys.append(cells.period.astype(np.int64) * n_paths + cells.call_path)
            values.append(cells.value * (sign * cube.scale(name)))
        key, at = np.unique(np.concatenate(keys), return_inverse=True)
        change = np.bincount(at, np.concatenate(values), key.size)
        order = np.lexsort((key, np.abs(change), key // max(n_paths, 1)))
        period = key[order] // max(n_paths, 1)
        last = np.flatnonzero(ends_run(period))
        path, most = np.full(n, -1, np.int64), np.zeros(n)
        path[period[last]] = np.where(change[order[last]] != 0, key[order[last]] % max(n_paths, 1), -1)
        most[period[last]] = change[order[last]]
        return path, most

    @property
    def is_of_equal_parts(self) -> bool:
        """Whether all analyses look at the same part of a run, so that their runtimes can be compared."""
        return len({in_words(cube.facts) for cube in self.cubes}) == 1

    @property
    def notes(self) -> list[str]:
        """Remarks on differences between the runs that a reader should know of."""
        roots = {str(n) for c in self.cubes for n in c.call_paths.name[c.call_paths.parent < 0]}
        conventions = {c.facts["conventions"] or "another tool's" for c in self.cubes}
        one_root = all(int((c.call_paths.parent < 0).sum()) == 1 for c in self.cubes)
        found = []
        if one_root and len(roots) > 1:
            found.append(f"programs of different names are taken as the same: {', '.join(sorted(roots))}")
        if len(conventions) > 1:
            found.append(f"the rules of the analyses differ: {', '.join(sorted(conventions))}")
        if not self.is_of_equal_parts:
            narrowed: dict[str, list[str]] = {}
            for name, cube in zip(self.names, self.cubes, strict=True):
                narrowed.setdefault(in_words(cube.facts) or "not narrowed", []).append(name)
            narrowings = "; ".join(f"{_some(names)}: {words}" for words, names in narrowed.items())
            found.append(f"the analyses look at different things, so that there is no speedup: {narrowings}")
        if self._by_call_path and len(self._by_call_path) < len(self.cubes):
            found.append(
                f"the focus of {_some(self._by_call_path)} is known by call path only: it includes the time of the "
                "caller before MPI_Init and after MPI_Finalize"
            )
        lengths = {len(c.periods) for c in self.cubes if c.periods is not None}
        if self.has_phases and len(lengths) > 1:
            kind = self.united[0].divided().kind
            found.append(f"the runs have different numbers of {kind}s: {', '.join(f'{n:,}' for n in sorted(lengths))}")
        return found

    def below(self, *properties: str) -> list[str]:
        """Return the ids of properties given by id or title, and of all below them, depth-first.

        Parameters
        ----------
        *properties : str
            Ids or titles.
        """
        axis = self.united[0].properties
        inside = {self.united[0].find_property(p) for p in properties}
        for name, parent in zip(axis.id, axis.parent, strict=True):
            if parent in inside:
                inside.add(name)
        return [name for name in axis.id if name in inside]

    # -- cubes -------------------------------------------------------------------------------------------------------

    def difference(self) -> SeverityCube:
        """Return the last cube minus the first."""
        return algebra.difference(self.cubes[-1], self.cubes[0], self.by)

    def mean(self) -> SeverityCube:
        """Return the mean of all cubes."""
        return algebra.mean(self.cubes, self.by)

    def minimum(self) -> SeverityCube:
        """Return the least values of all cubes."""
        return algebra.minimum(self.cubes, self.by)

    def maximum(self) -> SeverityCube:
        """Return the greatest values of all cubes."""
        return algebra.maximum(self.cubes, self.by)

    def merge(self) -> SeverityCube:
        """Return each property from the first cube that has it."""
        return algebra.merge(self.cubes, self.by)

    # -- tables ------------------------------------------------------------------------------------------------------

    def totals(self) -> pd.DataFrame:
        """Return one row per property.

        Returns
        -------
        DataFrame
            property, parent, title, unit, one float64 column per run by its name (seconds, occurrences, bytes), change
            (last minus first) and ratio (last / first; nan if both are zero, inf if only the first is).
        """
        import pandas as pd

        p = self.united[0].properties
        columns = {"property": p.id, "parent": p.parent, "title": p.title, "unit": p.unit}
        runs = zip(self.names, self.united, strict=True)
        return self._with_change(pd.DataFrame(columns | {name: [cube.total(i) for i in p.id] for name, cube in runs}))

    def _with_change(self, frame: pd.DataFrame) -> pd.DataFrame:
        first, last = frame[self.names[0]].to_numpy(), frame[self.names[-1]].to_numpy()
        change = without_residue(last - first, np.abs(last) + np.abs(first))
        with np.errstate(divide="ignore", invalid="ignore"):
            return frame.assign(change=change, ratio=last / first)

    def changes(self, *properties: str, n: int | None = None) -> pd.DataFrame:
        """Return what changed, by property and call path, largest changes first.

        Parameters
        ----------
        *properties : str
            By id or title: these and those below them; `time` by default.
        n : int, optional
            Return the `n` largest changes; by default all.

        Returns
        -------
        DataFrame
            property, title, unit, call_path, one column per run by its name, change and ratio as in `totals`. Values
            are exclusive along properties and call paths, so that they add up to the change of the properties given.

        Raises
        ------
        SeverityError
            If `n` is not a number of rows, or there is no such property.
        AnalysisError
            If the names of the call paths take more than 1 GiB.
        """
        import pandas as pd

        if n is not None and (not is_whole_number(n) or n < 0):
            raise SeverityError(f"{show(n)} is not a number of changes (n)\n  give a whole number, 0 or more, or None")
        head = self.united[0]
        axis = head.properties
        parts, paths, numbers = [], [], []
        for each in self.below(*properties or ["time"]):
            values = np.stack([cube.by_call_path(each, "eee") for cube in self.united])
            at = np.flatnonzero(values.any(axis=0))
            parts.append(values[:, at])
            paths.append(at)
            numbers.append(np.full(at.size, axis.number[each]))
        columns = {"property": axis.id, "title": axis.title, "unit": axis.unit}
        number = np.concatenate(numbers)
        frame = pd.DataFrame({name: np.asarray(of, object)[number] for name, of in columns.items()}, dtype=str)
        frame["call_path"] = np.concatenate(paths)
        values = pd.DataFrame(np.concatenate(parts, axis=1).T, columns=self.names)
        frame = self._with_change(pd.concat([frame, values], axis=1))
        order = np.argsort(-frame.change.abs().to_numpy(), kind="stable")[:n]
        frame = frame.iloc[order].reset_index(drop=True)
        frame["call_path"] = head.call_paths.paths_of(frame.call_path.tolist())
        return frame

    def scaling(self) -> pd.DataFrame:
        """Return one row per run and property.

        Returns
        -------
        DataFrame
            run, processes, threads (of all processes), property, title, unit, total, mean (total / threads), share (of
            the property's root; like the mean, nan for properties that do not add up), speedup (mean of the first run /
            mean) and efficiency (speedup / growth of threads). The mean of `time` is the run's elapsed time. If the
            problem grows with the run (weak scaling), `speedup` is the efficiency.
        """
        import pandas as pd

        axis = self.united[0].properties
        roots = [axis.number[axis.root_of(i)] for i in axis.id]
        # extremes have neither a mean nor a share
        additive = np.where([axis.adds_up(i) for i in axis.id], 1.0, np.nan)
        comparable = 1.0 if self.is_of_equal_parts else np.nan
        frames: list[pd.DataFrame] = []
        for name, given, cube in zip(self.names, self.cubes, self.united, strict=True):
            processes, threads = self.size(given)
            total = np.array([cube.total(i) for i in axis.id])
            columns = {"run": name, "processes": processes, "threads": threads}
            columns |= {"property": axis.id, "title": axis.title, "unit": axis.unit, "total": total}
            with np.errstate(divide="ignore", invalid="ignore"):
                frame = pd.DataFrame(columns | {"mean": total / threads * additive})
                first = (frames or [frame])[0]
                speedup = first["mean"] / frame["mean"] * comparable
                efficiency = speedup * first.threads / threads
                share = total / total[roots] * additive
                frames.append(frame.assign(share=share, speedup=speedup, efficiency=efficiency))
        return pd.concat(frames, ignore_index=True)

    def runtimes(self) -> list[float]:
        """Return the runtime of each run in seconds, as in `SeverityCube.efficiencies`; for a cube without computation
        its time per thread; nan if it is not known."""
        return [runtime_of(cube, with_startup=self.with_startup) for cube in self.cubes]

    @staticmethod
    def size(cube: SeverityCube) -> tuple[int, int]:
        """Return the numbers of processes and threads of a run; locations of metrics and devices do not count.

        Parameters
        ----------
        cube : SeverityCube
            A cube.
        """
        ranks = cube.system.rank[cube.system.is_thread]
        return int(distinct(ranks).size), max(ranks.size, 1)

    def regressions(self, threshold: float, properties: str | Sequence[str] = ("time",)) -> pd.DataFrame:
        """Return the rows of `totals` whose last value exceeds the first by more than a share of the first.

        Parameters
        ----------
        threshold : float
            0.05 for 5 %; not negative.
        properties : str or sequence of str
            Ids or titles of the properties to look at.

        Raises
        ------
        SeverityError
            If the threshold is not a share, or a property does not exist.
        """
        is_number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
        if not is_number or not 0 <= threshold < np.inf:
            raise SeverityError(
                f"{show(threshold)} is not a share by which something may grow\n  give a number such as 0.05"
            )
        totals = self.totals()
        chosen = self.united[0].find_properties(properties)
        grown = totals.change > threshold * totals[self.names[0]].abs()
        return totals[totals.property.isin(chosen) & grown].reset_index(drop=True)


def runtime_of(cube: SeverityCube, *, with_startup: bool) -> float:
    """Return the runtime of a run in seconds, as in `SeverityCube.efficiencies`; for a cube without computation its
    time per thread; nan if it is not known.

    Parameters
    ----------
    cube : SeverityCube
    with_startup : bool
        Include start-up and shutdown.
    """
    try:
        return times_of(cube, with_startup=with_startup).runtime
    except SeverityError:
        # times without computation: their mean
        n_threads = Comparison.size(cube)[1]
        return cube.total("time") / n_threads if "time" in cube.cells and n_threads else math.nan


def _some(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


def compare(
    cubes: Sequence[SeverityCube], names: Sequence[str] | None = None, by: str = "position", with_startup: bool = False
) -> Comparison:
    """Put the cubes of several runs side by side; see `Comparison`.

    Parameters
    ----------
    cubes : sequence of SeverityCube
        Cubes of the runs; the others are compared with the first.
    names : sequence of str, optional
        Names of the runs.
    by : str, optional
        How locations of several runs are matched (see `Comparison`).
    with_startup : bool, optional
        Compare the whole runs, with start-up and shutdown.

    Returns
    -------
    Comparison

    Raises
    ------
    SeverityError
        If there are fewer than two cubes, or they do not fit together.
    """
    return Comparison(cubes, names, by, with_startup)
