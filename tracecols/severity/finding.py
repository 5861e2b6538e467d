"""A finding of a diagnosis: what it says, and how it is made of the cells of a property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.given.printable import one_line, printable
from tracecols.given.providers import provider
from tracecols.schema.properties import COMPUTATION, EXECUTION
from tracecols.severity.axes import SystemAxis
from tracecols.severity.causes import is_part
from tracecols.severity.cells import Cells
from tracecols.severity.queries import Severities

LEAST = 0.005
"""Share of the time in the focus below which a cost is no finding."""


@dataclass(frozen=True)
class Place:
    """A location, a call path or both, and its part of a finding."""

    location: str
    call_path: str
    """`location` and `call_path`: in words; empty if the place is about the other only."""
    seconds: float
    share: float
    """`seconds` and `share`: part of the finding, or of the costs that identify the cause."""
    n_call_paths: int = 1
    """If more than one, `call_path` is the name of a region that they all enter."""


@dataclass(frozen=True, repr=False)
class Finding:
    """A cause of lost time, or a property of lost time that no cause explains."""

    property: str
    """Its id."""
    title: str
    """With the titles above it that are needed to understand it."""
    seconds: float
    share: float
    """`seconds` and `share`: over all locations, and of the time in the focus."""
    where: Place
    """The call path with the largest part."""
    region: Place
    """The region with the largest part, on whatever call path."""
    paid_by: tuple[Place, ...]
    """The locations with the largest parts, at most three."""
    n_paying: int
    """Number of locations with more than 0.5 % of the total; if these have less than half of it together, of those with
    more than half the mean of all locations that have any."""
    is_even: bool
    """All of them have about the same: the largest less than 1.1 times the mean."""
    cause: Place | None
    """The location and call path that others wait for most, by delay costs; None if the cube has none."""
    meanwhile: tuple[tuple[str, float], ...]
    """Of idle threads: properties of the time of their masters with their shares."""
    advice: str
    """One sentence."""
    call_path: int
    """The number of `where.call_path` in the cube."""
    what: str = ""
    """The cause in one line; empty if the finding is a property without a known cause."""
    kind: str = ""
    """Kind of cause (`tracecols.findings.cause.KINDS`); empty likewise."""
    gain: float | None = None
    gain_share: float | None = None
    """`gain` and `gain_share`: seconds by which the run would be shorter if the cause were mended, and their part of
    the runtime, by replay."""
    rank: int | None = None
    thread: int | None = None
    """`rank` and `thread`: the rank of the culprit if it is a single process; its thread if processes have several and
    it is the same one in all culprit processes, or 0 if all masters are."""
    cause_region: str = ""
    """The region that is the cause."""
    parts: tuple[tuple[str, float], ...] = ()
    """The properties that it explains, with their seconds."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Quantities that prove it, by name."""
    shows: str = ""
    """The evidence in words."""

    def __repr__(self) -> str:
        about, where = one_line(self.what or self.title), one_line(self.where.call_path)
        return f"<Finding {self.share:.1%}, {self.seconds:.6g} s: {about}, {where} ({self.where.share:.0%})>"

    def _repr_html_(self) -> str:
        return str(provider("finding as HTML")(self))

    def command(self, source: str = "CUBE") -> str:
        """Return the command that shows more of it."""
        return f"tracecols show {source} -p {self.property}"


def is_below(cube: Severities, name: str, top: str) -> bool:
    """Return whether a property is `top`, or below it."""
    return top in (name, *cube.properties.above(name))


def of_computation(cube: Severities) -> str:
    """Return the property whose time is not lost: computation."""
    return COMPUTATION if COMPUTATION in cube.properties.number else EXECUTION


def _rank_of_stream(s: SystemAxis, location: int) -> int:
    """Return the rank of a stream; if its device is a process of its own, that of the process which the device belongs
    to; -1 if it is not known."""
    rank, node = int(s.rank[location]), s.location.index(location)
    while rank < 0 and node >= 0:
        node = s.parent[node]
        beside = [at for at, parent in zip(s.location, s.parent, strict=True) if parent == node and at >= 0]
        rank = max((int(s.rank[at]) for at in beside), default=-1)
    return rank


def location_in_words(s: SystemAxis, location: int) -> str:
    """Return rank and, if processes have several threads, thread of a location; for a stream of a device, its rank, if
    it is known, and its name."""
    if s.location_type[location] == "gpu":
        stream = f"stream {printable(s.location_name[location]) or s.thread[location]}"
        rank = _rank_of_stream(s, location)
        return f"rank {rank} {stream}" if rank >= 0 else stream
    words = f"rank {s.rank[location]}"
    return f"{words} thread {s.thread[location]}" if s.has_threads else words


def largest_places(cube: Severities, cells: Cells, scale: float) -> tuple[Place, Place, int]:
    """Return the call path with the largest part of some cells, the region with the largest part, and the call path's
    number."""
    by_path = np.bincount(cells.call_path, cells.value, len(cube.call_paths)) * scale
    whole = float(by_path.sum())
    best = int(by_path.argmax())
    names, of = cube.names_of_steps
    by_name = np.bincount(of, by_path, len(names))
    most = int(by_name.argmax())
    path = Place("", cube.call_paths.paths_of([best])[0], float(by_path[best]), float(by_path[best]) / whole)
    n = int(((by_path > 0) & (of == most)).sum())
    return path, Place("", names[most], float(by_name[most]), float(by_name[most]) / whole, n), best


def cause_of(cube: Severities, causes: Cells | None) -> Place | None:
    """Return the call path with the largest part of some costs, or the region if they are spread over its call paths,
    and the location with most of them there."""
    if causes is None or not len(causes) or causes.value.sum() <= 0:
        return None
    scale = 1 / cube.resolution
    path, region, best = largest_places(cube, causes, scale)
    is_spread = region.n_call_paths > 1 and path.share < 0.5 and region.share > 1.5 * path.share
    found = region if is_spread else path
    of, wanted = np.arange(len(cube.call_paths)), best
    if is_spread:
        names, of = cube.names_of_steps
        wanted = names.index(region.call_path)
    here = causes.on(of == wanted)
    by_location = np.bincount(here.location, here.value, cube.system.n_locations)
    most = int(by_location.argmax())
    seconds = float(by_location[most]) * scale
    share = float(by_location[most] / causes.value.sum())
    words, tree = found.call_path, cube.call_paths
    is_program = tree.parent[best] < 0 and tree.end[best] > best + 1
    if cube.system.location_type[most] == "gpu" and not is_spread and is_program:
        # on hosts and streams alike, operations whose launch is not known are charged to the program
        words = "operations whose launch is not recorded"
    return Place(location_in_words(cube.system, most), words, seconds, share, found.n_call_paths)


def costs_of(cube: Severities, name: str) -> Cells | None:
    """Return the delay costs of a wait state; None if the cube has none, or covers a part of the run only, where they
    would include those of waits elsewhere."""
    if is_part(cube):
        return None
    axis = cube.properties
    # properties below a wait wait for the same
    of = [name, *(at for at in axis.above(name) if axis.is_wait[axis.number[at]])]
    return cube.cells.get(next((delay for at in of if (delay := axis.delay[axis.number[at]])), ""))


def advice_of(cube: Severities, name: str) -> str:
    """Return the first sentence of the advice for a property, or for the nearest one above it that has some.

    The advice of a root is not used, as it is about the whole tree.
    """
    axis = cube.properties
    below_root = [at for at in (name, *axis.above(name)) if axis.parent[axis.number[at]]]
    advice = next((text for at in below_root if (text := axis.advice[axis.number[at]])), "")
    return advice.split(". ")[0].rstrip(".") + "." * bool(advice)


def _paying(parts: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the locations that have a relevant part of a finding (`Finding.n_paying`)."""
    total = parts.sum()
    paying = np.flatnonzero(parts > LEAST * total)
    if parts[paying].sum() < total / 2:
        # with many locations, none may have half a percent
        paying = np.flatnonzero(parts > parts[parts > 0].mean() / 2)
    return paying


def costs_of_locations(cube: Severities, own: Cells, scale: float, total: float, seconds: float) -> dict[str, Any]:
    """Return the fields of `Finding` on its sum over all locations (`total`, a part of `seconds`), and on the locations
    that pay for it; `own` are its cells."""
    by_location = np.bincount(own.location, own.value, cube.system.n_locations) * scale
    paying = _paying(by_location) if total > 0 else np.zeros(0, np.int64)
    largest = paying[np.argsort(-by_location[paying], kind="stable")][:3].tolist()
    parts = {i: float(by_location[i]) for i in largest}
    return {
        "seconds": total,
        "share": total / seconds if seconds else 0.0,
        "paid_by": tuple(Place(location_in_words(cube.system, i), "", n, n / total) for i, n in parts.items()),
        "n_paying": paying.size,
        "is_even": bool(paying.size > 3 and by_location.max() < 1.1 * by_location[paying].mean()),
    }


def finding_of(
    cube: Severities, name: str, own: Cells, seconds: float, causes: Cells | None = None, **fields: Any
) -> Iterator[Finding]:
    """Yield the finding about time of a property, unless it is less than `LEAST` of `seconds`. Its cause is where most
    of the costs `causes` are; `fields` are the fields of `Finding` that do not follow from the cells."""
    scale = cube.scale(name)
    total = float(own.value.sum()) * scale
    if total <= 0 or (seconds and total < LEAST * seconds):
        return
    path, region, best = largest_places(cube, own, scale)
    found: dict[str, Any] = {
        "property": name,
        **costs_of_locations(cube, own, scale, total, seconds),
        "where": path,
        "region": region,
        "cause": cause_of(cube, causes),
        "meanwhile": (),
        "call_path": best,
        "parts": ((name, total),),
    }
    yield Finding(**(found | fields))
