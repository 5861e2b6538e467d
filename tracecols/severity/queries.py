"""Content of a cube and queries on it: values by property, call path, location and node of the system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.definitions.topologies import Topology
from tracecols.enhance.scan.paths import find_paths, without_numbers
from tracecols.errors import SeverityError
from tracecols.given.arguments import as_texts, did_you_mean, show
from tracecols.once import once
from tracecols.schema.properties import VISITS
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells, inclusive
from tracecols.severity.formulas import Formula, definition, parse
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.reduction import filled, reduce_at, reduce_upwards
from tracecols.severity.resolve import find_property

if TYPE_CHECKING:
    import pandas as pd

Cube = TypeVar("Cube", bound="Severities")
"""Type of a cube, for functions that return a cube of the type that they are given."""


def check_aggregation(aggregation: object) -> None:
    """Check that an aggregation is three letters `i` or `e`. Raises SeverityError if it is something else."""
    if not isinstance(aggregation, str) or len(aggregation) != 3 or set(aggregation) - set("ie"):
        raise SeverityError(
            f"aggregation {show(aggregation)} is not three letters i or e\n"
            "  the default is 'iee': property inclusive, call path and system exclusive"
        )


def values_of(cube: Severities, name: str, of: Callable[[str], Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return what `of` returns for a property, an array of this shape in reported units; for a property that is
    computed, its formula evaluated on what `of` returns for the properties in it."""
    if not cube.properties.is_computed(name):
        found: NDArray[np.float64] = of(name)
        return found
    values = cube.computed(name, lambda operand: values_of(cube, operand, of, shape))
    return np.broadcast_to(values, shape).copy()


def leaves_of(cube: Severities, name: str) -> list[str]:
    """Return the ids of the properties with cells that a property is computed from, directly or by way of others,
    sorted; a property with cells itself."""
    if not cube.properties.is_computed(name):
        return [name]
    return sorted({leaf for operand in cube.operands(name) for leaf in leaves_of(cube, operand)})


@dataclass(repr=False, eq=False)
class Severities:
    """Severities of properties per call path and location. `SeverityCube` describes the attributes, and adds tables,
    files and displays."""

    properties: PropertyAxis
    call_paths: CallAxis
    system: SystemAxis
    cells: Mapping[str, Cells]
    facts: dict[str, Any]
    topologies: list[Topology] = field(default_factory=list)
    periods: PeriodAxis | None = None
    period_cells: Mapping[str, PeriodCells] = field(default_factory=dict)
    outside: dict[str, PeriodCells] | None = None

    def replaced(self, **columns: Any) -> Self:
        """Return a cube with some attributes replaced; if `cells` is one of them, `outside` is dropped unless it is
        given, too.

        Parameters
        ----------
        **columns
            New attributes by name.
        """
        return replace(self, **({"outside": None} if "cells" in columns else {}) | columns)

    @property
    def resolution(self) -> int:
        """Ticks per second."""
        return int(self.facts["resolution"])

    @property
    def is_difference(self) -> bool:
        """Whether its values are changes: positive where the first operand is larger, which is the later run of a
        comparison."""
        return bool(self.facts.get("operation") == "difference")

    def divided(self) -> PeriodAxis:
        """Return the phases or bins of the cube.

        Raises
        ------
        SeverityError
            If it has none.
        """
        if self.periods is None:
            raise SeverityError(
                "this cube is divided neither by phases nor by bins of time\n"
                "  analyze the trace with phases=..., bins=... or bin_width=...",
                in_shell="analyze the trace with --phases, --bins or --bin-width",
            )
        return self.periods

    @once
    def names_of_steps(self) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct names of regions, and the number of each call path's name among them, as in
        `CallAxis.numbered_names`; steps with running numbers have the name of their family."""
        names, of = self.call_paths.numbered_names
        if VISITS not in self.cells:
            return names, of
        visits = self.cells_of(VISITS)
        by_name = Cells.sum(of[visits.call_path], visits.location, visits.value)
        most = np.zeros(len(names), np.int64)
        np.maximum.at(most, by_name.call_path, by_name.value.astype(np.int64))
        families, _ = without_numbers(np.array([*names, ""], object)[:-1], most, np.zeros(len(names), bool))
        numbers: dict[str, int] = {}
        of_family = np.array([numbers.setdefault(name, len(numbers)) for name in families], np.int64)
        return list(numbers), of_family[of]

    def find_property(self, name: str) -> str:
        """Return the id of a property given by id or title.

        Raises
        ------
        SeverityError
            If there is none, with the nearest ids; if several have the title, with all of them.
        """
        hint, in_shell = "cube.properties.id has all", "tracecols show --min-share 0 prints all that have values"
        return find_property(self.properties, name, "in this cube", SeverityError, hint, in_shell)

    def find_properties(self, names: str | Iterable[str]) -> list[str]:
        """Return the ids of properties given by id or title, each once; a single text is one of them.

        Raises
        ------
        SeverityError
            If there is none, or several have a title.
        """
        return list(dict.fromkeys(map(self.find_property, as_texts(names, "properties", SeverityError))))

    def find_call_paths(self, *patterns: str) -> NDArray[np.bool_]:
        """Select call paths by their whole path, by shell patterns (``*`` also matches slashes), or by the region they
        enter.

        A text is tried as a whole path, as a pattern of whole paths, as a region, and as a pattern of regions, in this
        order.

        Parameters
        ----------
        *patterns : str
            Whole paths, shell patterns, or regions.

        Raises
        ------
        SeverityError
            If a text matches nothing.
        """
        axis = self.call_paths
        mask = np.zeros(len(axis), bool)
        for pattern in as_texts(patterns, "call paths", SeverityError):
            found = find_paths(axis.parent, axis.name, pattern)
            if not found.any():
                hint = "give a whole path, a region, or a pattern such as '*/MPI_Recv'"
                hint = did_you_mean(pattern.rpartition("/")[2], axis.name.tolist(), hint)
                raise SeverityError(f"no call path matches {show(pattern)}\n  {hint}")
            mask |= found
        return mask

    def scale(self, name: str) -> float:
        """Return the factor from stored values to reported units: seconds per tick for times, else 1."""
        number = self.properties.number[self.find_property(name)]
        return 1 / self.resolution if self.properties.unit[number] == "sec" else 1.0

    def in_units(self, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Convert results of `reduce_at` on cells of a property to seconds, occurrences or bytes; 0 where there was no
        cell.

        Parameters
        ----------
        values : (n,) int64, float64 or object
            Results of `reduce_at`: ticks, occurrences or bytes.
        """
        name = self.find_property(name)
        return (filled(values, self.properties.reduction(name)) * self.scale(name)).astype(np.float64)

    def cells_of(self, name: str, aggregation: str = "iee") -> Cells:
        """Return the cells of a property, inclusive or exclusive along properties and call paths.

        Raises
        ------
        SeverityError
            If there is no such property, or the letters are not `i` or `e`.
        """
        check_aggregation(aggregation)
        name = self.find_property(name)
        if self.properties.is_computed(name):
            return self._computed_cells(name, aggregation)
        cells = self.cells[name]
        if aggregation[0] == "e":
            cells = cells.without([self.cells[child] for child in self.properties.parts(name)])
        if aggregation[1] == "i" and not self.properties.includes_calls(name):
            cells = inclusive(cells, self.call_paths, self.properties.reduction(name))
        return cells

    def computed(self, name: str, ask: Callable[[str], Any]) -> NDArray[np.float64]:
        """Evaluate the formula of a property on values of the properties in it.

        Parameters
        ----------
        ask : callable
            From the id of a property to a value, or an array of them; all of one shape.

        Raises
        ------
        SeverityError
            If there is no such property, or it is not computed.
        """
        return self._formula_of(name).evaluate(ask)

    def cells_on(self, name: str, call_paths: NDArray[np.bool_] | None) -> Cells:
        """Return the cells of a property, or those of some call paths.

        Raises
        ------
        SeverityError
            If there is no such property, or `call_paths` is not a mask.
        """
        name = self.find_property(name)
        if call_paths is None:
            return self.cells[name]
        mask = np.asarray(call_paths)
        if mask.dtype != bool or mask.shape != (len(self.call_paths),):
            raise SeverityError(
                f"a mask of call paths is {len(self.call_paths)} truth values, not {show(call_paths)}\n"
                "  find_call_paths returns one"
            )
        return self.cells[name].on(mask)

    def operands(self, name: str) -> set[str]:
        """Return the ids of the properties in the formula of a property that is computed.

        Raises
        ------
        SeverityError
            If there is no such property, or it is not computed.
        """
        return set(self._formula_of(name).names())

    def _formula_of(self, name: str) -> Formula:
        name = self.find_property(name)
        if not self.properties.is_computed(name):
            raise SeverityError(f"{name} is not computed from other properties\n  cells_of has its values")
        return parse(self.properties.formula[self.properties.number[name]])

    def _computed_cells(self, name: str, aggregation: str) -> Cells:
        """Compute a property for each call path and location that have any of the properties it is computed from,
        directly or by way of others."""
        of = {leaf: self.cells_of(leaf, aggregation) for leaf in leaves_of(self, name)}
        keys = distinct(np.concatenate([np.zeros(0, np.int64), *(cells.key for cells in of.values())]))
        values = values_of(self, name, lambda leaf: of[leaf].at(keys) * self.scale(leaf), keys.shape)
        return Cells(keys, values / self.scale(name)).where(values != 0)

    def with_metrics(self, *definitions: str) -> Self:
        """Return this cube with properties that are computed from others, after aggregation: for a call path from its
        sums over locations, for a location from its sums over call paths. So ratios are never added up.

        Parameters
        ----------
        *definitions : str
            `NAME = FORMULA`, of names of properties, numbers, `+ - * /`, parentheses, `min(A, B)` and `max(A, B)`.
            Names that are not words are put in quotation marks; times are in seconds. 0 divided by anything is 0,
            anything else divided by 0 is nan, as in Cube.

        Raises
        ------
        SeverityError
            If a definition is malformed, a property of that name exists, or one in the formula does not.

        Examples
        --------
        >>> cube = cube.with_metrics("ipc = PAPI_TOT_INS / PAPI_TOT_CYC")  # doctest: +SKIP
        >>> cube.by_call_path("ipc", "iie")  # doctest: +SKIP
        """
        result = self
        for text in as_texts(definitions, "metrics", SeverityError):
            result = result._with_metric(*definition(text))
        return result

    def _with_metric(self, name: str, formula: Formula) -> Self:
        """Return this cube with one more property."""
        p = self.properties
        if name in p.number:
            raise SeverityError(f"{show(name)} is a property of this cube already\n  choose another name")
        formula = formula.replaced(lambda operand: Formula("metric", self.find_property(operand)))
        text = formula.text()
        row = {
            "id": name,
            "title": name,
            "unit": formula.unit(lambda operand: p.unit_of(operand)),
            "summary": f"Computed: {text}.",
            "aggregation": "computed",
            "formula": text,
        }
        nothing = {name: PeriodCells.empty()}
        return self.replaced(
            properties=p.with_rows([row]),
            cells={**self.cells, name: Cells.empty()},
            period_cells={**self.period_cells, **nothing} if self.period_cells else {},
            outside=None if self.outside is None else self.outside | nothing,
        )

    def without_computed(self) -> Self:
        """Return this cube without the properties that are computed from others."""
        p = self.properties
        kept = [i for i, formula in enumerate(p.formula) if not formula]
        if len(kept) == len(p.id):
            return self
        return self.replaced(properties=p.take(kept))

    def total(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> float:
        """Return the sum over all call paths and locations, in seconds, occurrences or bytes; for a minimum or maximum,
        that of all."""

        def total(of: str) -> Any:
            return self.cells_on(of, call_paths).total(self.properties.reduction(of)) * self.scale(of)

        return float(values_of(self, self.find_property(name), total, ()))

    def own_total(self, name: str) -> float:
        """Return the total of a property without those below it."""
        name = self.find_property(name)
        if self.properties.is_computed(name):
            return self.total(name)
        return float(self.cells_of(name, "eee").total(self.properties.reduction(name)) * self.scale(name))

    def whole(self, name: str) -> float:
        """Return the total that shares of a property refer to: that of its root; for a difference, that of the cube
        subtracted.

        It is never negative, so shares have the sign of their values: increases are positive even if the whole shrinks.
        """
        root = self.properties.root_of(self.find_property(name))
        return abs(float(self.facts.get("whole", {}).get(root, 0.0)) or self.total(root))

    def by_call_path(self, name: str, aggregation: str = "iee") -> NDArray[np.float64]:
        """Return the sum over locations per call path; (n_call_paths,) float64."""
        check_aggregation(aggregation)
        axis = self.call_paths

        def by_call_path(of: str) -> NDArray[np.float64]:
            how = self.properties.reduction(of)
            # along call paths locations need not be distinguished
            cells = self.cells_of(of, f"{aggregation[0]}e{aggregation[2]}")
            values = reduce_at(cells.call_path, cells.value, len(axis), how)
            if aggregation[1] == "i" and not self.properties.includes_calls(of):
                values = reduce_upwards(values, axis.parent, axis.depth, how)
            return self.in_units(of, values)

        return values_of(self, self.find_property(name), by_call_path, (len(axis),))

    def by_location(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the sum over call paths, or over some given as a mask, per location; (n_locations,) float64.

        `locations_of` returns them with ranks, threads and names."""

        def by_location(of: str) -> NDArray[np.float64]:
            return self.in_units(of, self._at_locations(of, call_paths))

        return values_of(self, self.find_property(name), by_location, (self.system.n_locations,))

    def locations_of(self, name: str, call_paths: NDArray[np.bool_] | None = None) -> pd.DataFrame:
        """Return `by_location` as a table, with the rank, thread and name of each location.

        Returns
        -------
        DataFrame
            By location: `rank`, `thread`, `name`, `value` (seconds, occurrences or bytes).
        """
        import pandas as pd

        s = self.system
        columns = {"rank": s.rank, "thread": s.thread, "name": list(s.location_name)}
        return pd.DataFrame({**columns, "value": self.by_location(name, call_paths)}).rename_axis("location")

    def _at_locations(self, name: str, call_paths: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Reduce the cells of a property, or those of some call paths, per location (`reduce_at`)."""
        cells = self.cells_on(name, call_paths)
        return reduce_at(cells.location, cells.value, self.system.n_locations, self.properties.reduction(name))

    def by_system(
        self, name: str, call_paths: NDArray[np.bool_] | None = None, aggregation: str = "iei"
    ) -> NDArray[np.float64]:
        """Return values per node of the system tree, inclusive or exclusive; (n_system,) float64."""
        check_aggregation(aggregation)
        s, location = self.system, np.array(self.system.location, np.int64)
        nodes = np.flatnonzero(location >= 0)

        def by_system(of: str) -> NDArray[np.float64]:
            how, of_location = self.properties.reduction(of), self._at_locations(of, call_paths)
            values = reduce_at(nodes, of_location[location[nodes]], location.size, how)
            if aggregation[2] == "i":
                values = reduce_upwards(values, np.array(s.parent, np.int64), s.depth, how)
            return self.in_units(of, values)

        return values_of(self, self.find_property(name), by_system, (location.size,))
