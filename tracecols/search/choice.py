"""The choice of what a search is narrowed to, with its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import find_locations
from tracecols.enhance.definitions.topologies import Topology, each_of, given_topology
from tracecols.enhance.mpi.neighbours import find_topology
from tracecols.enhance.scan.paths import named, with_descendants
from tracecols.enhance.scan.periods import NO_PERIODS, Periods
from tracecols.errors import AnalysisError
from tracecols.given.arguments import as_locations, as_seconds, as_texts, did_you_mean, show
from tracecols.model.model import Model
from tracecols.patterns.base import Family, Property
from tracecols.patterns.counters import counter_properties
from tracecols.patterns.plugins import installed
from tracecols.patterns.registry import CONVENTIONS, find_declared, properties
from tracecols.severity.axes import PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.periods import PeriodCells
from tracecols.vectors import Mask

OfCells = TypeVar("OfCells", Cells, PeriodCells)


@dataclass(frozen=True)
class Choice:
    """What an analysis is narrowed to, and its parameters."""

    properties: tuple[str, ...] | None = None
    """Ids or titles; their ancestors are included. All by default."""
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Values of parameters, by property id and name."""
    within: str | None = None
    """A region, or a shell pattern: only its instances and what they call."""
    locations: tuple[int | str, ...] | None = None
    """Rows of locations, or texts that select some (`rank 0`); all by default."""
    start: float | None = None
    stop: float | None = None
    """`start` and `stop`: seconds, only recorded here: the model is that of the trace slice between them
    (`tracecols.slices`)."""
    periods: Periods = NO_PERIODS
    """The periods that the time of the model is divided into; only recorded here, too."""

    def resolved(self, declared: list[Property]) -> Choice:
        """Return the same choice with ids instead of titles of properties. Raises AnalysisError if there is no such
        property, or several have a title."""
        axis = PropertyAxis.of(declared)
        return self.named_by(lambda name: [find_declared(axis, name)])

    def named_by(self, ids_of: Callable[[str], list[str]]) -> Choice:
        """Return the same choice with the ids of the properties that its names mean."""
        names = None if self.properties is None else [id for name in self.properties for id in ids_of(name)]
        return replace(
            self,
            properties=None if names is None else tuple(dict.fromkeys(names)),
            parameters={id: values for name, values in self.parameters.items() for id in ids_of(name)},
        )

    def with_properties(self, names: Sequence[str]) -> Choice:
        """Return the same choice with more properties, unless all are chosen."""
        return self if self.properties is None else replace(self, properties=(*self.properties, *names))

    def facts(self) -> dict[str, Any]:
        """Return what differs from the defaults, for the facts of the cube."""
        found = {k: v for k, v in asdict(self).items() if v is not None and v != {} and k != "periods"}
        return found | self.periods.facts()

    def cells(self, model: Model, cells: OfCells) -> OfCells:
        """Keep the cells of the chosen call paths and locations."""
        if self.is_everywhere or not len(cells):
            return cells
        return cells.where(self.mask(model, cells.call_path, cells.location))

    @property
    def is_everywhere(self) -> bool:
        """Whether all call paths and locations are chosen."""
        return self.within is None and self.locations is None

    def mask(self, model: Model, call_path: NDArray[np.int32], location: NDArray[np.int32]) -> Mask:
        """Select what lies on the chosen call paths, of the whole time, and locations; (n,) bool."""
        call_paths, locations = np.append(self._call_paths(model), False), self._locations(model)
        return call_paths[call_path] & locations[location]

    def _call_paths(self, model: Model) -> Mask:
        tree = model.call_paths.whole
        if self.within is None:
            return np.ones(len(tree), bool)
        names = model.regions.name
        heads = named(names, self.within)[tree.region]
        if not heads.any():
            raise no_region(self.within, names[tree.region].tolist())
        return with_descendants(heads, tree.end)

    def _locations(self, model: Model) -> Mask:
        if self.locations is None:
            return np.ones(model.n_locations, bool)
        mask = np.zeros(model.n_locations, bool)
        mask[find_locations(model.store, self.locations, error=AnalysisError)] = True
        return mask


EVERYTHING = Choice()


def choose(
    properties: str | Iterable[str] | None,
    parameters: Mapping[str, Mapping[str, float]] | None,
    within: str | None = None,
    locations: int | str | Iterable[int | str] | None = None,
    start: float | None = None,
    stop: float | None = None,
    periods: Periods | None = None,
) -> Choice:
    """Make a choice from the arguments of a caller. Raises AnalysisError if one is of the wrong kind."""
    if within is not None and not isinstance(within, str):
        raise AnalysisError(
            f"a region is given by its name, not as {show(within)}\n  give one name, or a shell pattern"
        )
    return Choice(
        None if properties is None else tuple(as_texts(properties, "properties", AnalysisError)),
        _parameters(parameters or {}),
        within,
        None if locations is None else tuple(as_locations(locations, AnalysisError)),
        as_seconds(start, "start of the piece", AnalysisError),
        as_seconds(stop, "end of the piece", AnalysisError),
        periods or NO_PERIODS,
    )


def no_region(wanted: str, names: Iterable[str]) -> AnalysisError:
    """Return the error about a region that is not entered; `names` are those from which a similar one is suggested."""
    hint, in_shell = (
        did_you_mean(wanted, names, otherwise)
        for otherwise in ("see trace.call_paths", "tracecols show CUBE -p visits shows where regions are entered")
    )
    return AnalysisError(f"no call path enters a region {show(wanted)}\n  {hint}", in_shell=in_shell)


def _parameters(given: object) -> dict[str, dict[str, float]]:
    """Return parameters by property and name. Raises AnalysisError if they are not numbers by property and name."""
    if not isinstance(given, Mapping) or not all(isinstance(values, Mapping) for values in given.values()):
        raise AnalysisError(
            f"parameters are given by property and name, not as {show(given)}\n"
            "  such as parameters={'late_big': {'threshold': 1e6}}"
        )
    for of, values in given.items():
        for name, value in values.items():
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or math.isnan(value):
                raise AnalysisError(
                    f"parameter {name!r} of property {of!r} is not a number: {show(value)}\n  give a number"
                )
    return {of: dict(values) for of, values in given.items()}


def check_conventions(conventions: object) -> None:
    """Check the name of conventions. Raises AnalysisError if there are none of this name."""
    if not isinstance(conventions, str) or conventions not in CONVENTIONS:
        hint = did_you_mean(conventions, CONVENTIONS, f"there are {', '.join(CONVENTIONS)}")
        raise AnalysisError(f"no conventions {show(conventions)}\n  {hint}")


def declared_for(model: Model, conventions: str, patterns: Iterable[Family]) -> list[Property]:
    """Return all properties that can exist in a trace: built in, counters, from installed packages, and given ones."""
    check_conventions(conventions)
    more = [p for family in (*installed(), *patterns) for p in family.properties]
    return properties(conventions, [*counter_properties(model, conventions), *more], model)


def trees_of(declared: list[Property], part: str) -> list[str]:
    """Return the properties that are declared to count as a part (`schema.properties.PARTS`)."""
    return [p.id for p in declared if p.part == part]


def without(declared: list[Property], roots: Iterable[str]) -> list[Property]:
    """Return the properties that are not in the trees of some roots."""
    gone = set(roots)
    for p in declared:
        if p.parent in gone:
            gone.add(p.id)
    return [p for p in declared if p.id not in gone]


def topology_found(model: Model) -> Topology | None:
    """Return the topology of the processes that is inferred from who sends to whom, if the trace defines none; else
    None. It is looked for once."""
    if not all(t.is_artificial for t in model.topologies):
        return None
    memo = model.facts.memo
    if find_topology not in memo:
        memo[find_topology] = find_topology(model.facts, model.jobs)
    return memo[find_topology]


def with_topologies(model: Model, topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Model:
    """Return the model with additional topologies: those that are given or, if neither the trace nor the caller defines
    any, the one that is inferred from who sends to whom; the model itself if there are none."""
    if not topologies:
        found = topology_found(model)
        return model if found is None else model.with_topologies([found])
    axis = SystemAxis.of(model.store)
    return model.with_topologies([given_topology(t, axis.rank, axis.thread) for t in each_of(topologies)])
