"""Facts that describe a severity cube: JSON in the manifest of a .severity folder and in an attribute of .cubex and
.cube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from numbers import Integral, Real
from typing import Any

LARGEST_SEVERITY = 1e30
"""No severity is this large; sums of larger numbers could overflow float64."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Fact:
    """One entry of an object, or one element of a list."""

    name: str
    """Its key; for elements of a list and entries that may have any key, what they are."""
    kind: str
    """`text`, `integer`, `number`, `number or infinity`, `text or integer`, `list` or `object`."""
    doc: str = ""
    required: bool = False
    low: int = _LOWEST
    high: int = _HIGHEST
    entries: tuple[Fact, ...] = ()
    """Of an object, its entries: others are allowed and not checked. Of a list, the elements, one by one."""
    each: Fact | None = None
    """Every element of a list, or every entry of an object that is not among `entries`."""
    may_be_null: bool = False
    together: tuple[str, ...] = ()
    """Entries of an object that has all of them or none."""

    def __getitem__(self, name: str) -> Fact:
        return next(fact for fact in self.entries if fact.name == name)

    @property
    def words(self) -> str:
        """The expected value in words, for an error message."""
        if self.kind == "integer":
            least = f" from {self.low}" if self.low > _LOWEST else ""
            return f"a whole number{least}" + (f" to {self.high}" if self.high < _HIGHEST else "")
        words = {
            "text": "a text",
            "number": "a finite number",
            "number or infinity": "a number",
            "text or integer": "a text or a whole number",
            "list": f"a list of {len(self.entries)} values" if self.entries else "a list",
            "object": "an object",
        }
        return words[self.kind] + " or null" * self.may_be_null


def _is(fact: Fact, value: Any) -> bool:
    """Return whether a value is of the kind of a fact; its contents are not checked."""
    if value is None:
        return fact.may_be_null
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    match fact.kind:
        case "text":
            return isinstance(value, str)
        case "integer":
            return is_number and isinstance(value, Integral) and fact.low <= int(value) <= fact.high
        case "number":
            # NaN fails this comparison, too
            return is_number and abs(value) < LARGEST_SEVERITY
        case "number or infinity":
            return is_number and not isnan(value)
        case "text or integer":
            return isinstance(value, str) or (is_number and isinstance(value, Integral))
        case "list":
            return isinstance(value, list | tuple) and (not fact.entries or len(value) == len(fact.entries))
        case _:
            return isinstance(value, Mapping)


def _are(fact: Fact, values: Sequence[Any]) -> bool:
    """Return whether values are known to be all texts, or all whole numbers, as a fact declares: the long lists of a
    cube are of these, and are looked at together, not element by element."""
    types = set(map(type, values))
    if fact.kind == "integer" and types == {int}:
        return bool(fact.low <= min(values) and max(values) <= fact.high)
    return fact.kind == "text" and types == {str}


def wrong_fact(fact: Fact, value: Any, where: str = "") -> str:
    """Return the first mismatch between a value and its declaration, and what was expected; empty if there is none.
    `where` names the value in the message, by default as the fact."""
    where = where or fact.name
    if not _is(fact, value):
        return f"{where} is {value!r:.60}, expected {fact.words}"
    if fact.kind == "list":
        if fact.each is not None and not fact.entries and _are(fact.each, value):
            return ""
        declared = fact.entries or (fact.each,) * len(value)
        inside = [(d, v, f"{where}[{i}]") for i, (d, v) in enumerate(zip(declared, value, strict=True))]
    elif fact.kind == "object":
        lacking = next((d for d in fact.entries if d.required and d.name not in value), None)
        if lacking is not None:
            return f"{where} lacks {lacking.name!r}, expected {lacking.words}"
        present = [name for name in fact.together if name in value]
        if 0 < len(present) < len(fact.together):
            absent = next(name for name in fact.together if name not in value)
            return f"{where} has {present[0]!r}, but lacks {absent!r}"
        known = {d.name: d for d in fact.entries}
        inside = [(known.get(key, fact.each), v, f"{where}.{key:.60}") for key, v in value.items()]
    else:
        return ""
    return next(filter(None, (wrong_fact(d, v, at) for d, v, at in inside if d is not None)), "")


_TEXT = Fact("a name", "text")
_COUNT = Fact("a note", "integer", low=0, high=(1 << 127) - 1)
_SHARE = Fact("a share", "number")
_LOCATION = Fact("a location", "integer", low=0)
_INTERVAL = (Fact("begin", "integer", required=True), Fact("end", "integer", required=True))
_SOURCE = Fact(
    "source",
    "object",
    "the file or archive it was made of; also what its recorder says of itself",
    required=True,
    entries=(Fact("path", "text", "where it was", required=True), Fact("format", "text", "its format")),
)

NARROWED = Fact(
    "narrowed",
    "object",
    "what the analysis was narrowed to, and what it was given; absent for a plain one of the whole trace",
    entries=(
        Fact("properties", "list", "ids of the properties that were asked for", each=_TEXT),
        Fact(
            "parameters",
            "object",
            "parameters of patterns, by property",
            each=Fact("values", "object", each=Fact("a value", "number or infinity")),
        ),
        Fact("within", "text", "a region, or a pattern"),
        Fact(
            "locations",
            "list",
            "rows of locations, and texts that select some",
            each=Fact("a location", "text or integer"),
        ),
        Fact("start", "number", "seconds"),
        Fact("stop", "number", "seconds"),
        Fact("phases", "text", "the region, or the call, whose instances are the phases"),
        Fact("bins", "integer", "number of bins of time", low=1),
        Fact("bin_width", "number", "seconds"),
    ),
)

CAUSES = Fact(
    "causes",
    "object",
    "causes of lost time that a replay of the trace found; absent where it cannot be replayed",
    entries=(
        Fact("runtime", "integer", "ticks of the run as recorded", required=True),
        Fact("n_call_paths", "integer", "number of call paths of the trace", required=True, low=0),
        Fact("n_locations", "integer", "number of locations of the trace", required=True, low=0),
        Fact(
            "found",
            "list",
            "the causes, the one that gains most first",
            required=True,
            each=Fact(
                "a cause",
                "object",
                entries=(
                    Fact("kind", "text", "the kind of the cause", required=True),
                    Fact("call_path", "integer", "row of the call path", required=True, low=-1),
                    Fact("locations", "list", "rows of locations", required=True, each=_LOCATION),
                    Fact("gain", "integer", "ticks by which the run is shorter once it is mended", required=True),
                    Fact("evidence", "object", "quantities that prove it"),
                    Fact(
                        "explains",
                        "list",
                        "call paths, or -1 of idle threads, locations, and ticks",
                        required=True,
                        entries=(
                            Fact("call paths", "list", each=Fact("a call path", "integer", low=-1)),
                            Fact("locations", "list", each=_LOCATION),
                            Fact("ticks", "list", each=Fact("a time", "integer")),
                        ),
                    ),
                    Fact(
                        "in_calls",
                        "list",
                        "how much of these ticks calls take beyond waiting; absent in cubes of earlier versions",
                        each=Fact("a time", "integer", low=0),
                    ),
                ),
            ),
        ),
        Fact(
            "piece",
            "list",
            "of a trace too large to replay all of it the begin and the end of the piece in which causes were found, "
            "in seconds since the start of the recording; gains and ticks are scaled to the run",
            each=Fact("a time", "number"),
        ),
        Fact(
            "starts",
            "list",
            "calls in which devices start: call paths, locations, and ticks",
            entries=(
                Fact("call paths", "list", each=Fact("a call path", "integer", low=0)),
                Fact("locations", "list", each=_LOCATION),
                Fact("ticks", "list", each=Fact("a time", "integer", low=0)),
            ),
        ),
    ),
)

FACTS = Fact(
    "facts",
    "object",
    "what a cube says of itself",
    together=("operation", "of"),
    entries=(
        Fact("conventions", "text", "whose rules were followed; empty of cubes of other tools", required=True),
        Fact("resolution", "integer", "ticks per second", required=True, low=1, high=(1 << 62) - 1),
        Fact("counts", "object", "notes, and how often each holds", each=_COUNT),
        Fact(
            "trace",
            "object",
            "the trace that was analyzed",
            entries=(
                _SOURCE,
                Fact("n_events", "integer", "number of events", required=True, low=0),
                Fact("n_locations", "integer", "number of locations", low=0),
                Fact("first_time", "integer", "ticks of the first event", required=True),
                Fact("last_time", "integer", "ticks of the last event", required=True),
                Fact("origin", "integer", "ticks at which the recording starts"),
            ),
        ),
        Fact("source", "object", "the file of another tool", entries=_SOURCE.entries),
        Fact(
            "mpi_interval",
            "object",
            "ticks of the last exit of MPI_Init and of the first enter of MPI_Finalize",
            entries=_INTERVAL,
        ),
        Fact(
            "device_efficiencies",
            "object",
            "efficiencies of devices; empty without any",
            entries=(Fact("devices", "list", "their names", each=_TEXT),),
            each=_SHARE,
        ),
        Fact(
            "topology_found",
            "object",
            "of a topology that was found from who sends to whom",
            entries=(
                Fact("kind", "text", "line, ring, grid, torus, hypercube, star or tree", required=True),
                Fact(
                    "confidence",
                    "number",
                    "1 less the chance that a random graph of as many edges has this shape",
                    required=True,
                ),
                Fact(
                    "explained", "number", "part of the messages, or of their bytes, between neighbours", required=True
                ),
            ),
        ),
        Fact("ideal_runtime", "integer", "ticks of the run on an ideal network, by replay of the trace"),
        Fact("replay_notes", "object", "what this replay does not know, and how often", each=_COUNT),
        CAUSES,
        NARROWED,
        Fact(
            "focus",
            "object",
            "what of the time is shown of a cube without start-up and shutdown",
            entries=(
                Fact("share", "number", required=True),
                Fact("seconds", "number", required=True),
                Fact("words", "text"),
                Fact("creating", "number"),
            ),
        ),
        Fact(
            "focus_window",
            "object",
            "ticks at which the first process leaves MPI_Init, and the last one enters MPI_Finalize",
            entries=_INTERVAL,
        ),
        Fact(
            "late_processes",
            "list",
            "processes with another MPI_COMM_WORLD than the one that begins first (spawn, connect)",
            each=Fact(
                "a process",
                "object",
                entries=(
                    Fact("rank", "integer", required=True),
                    Fact("begin", "integer", "ticks: its first event", required=True),
                    Fact("focus", "integer", "ticks: when it leaves MPI_Init, or its first event", required=True),
                ),
            ),
        ),
        Fact("operation", "text", "how it was computed from other cubes"),
        Fact("of", "list", "the sources of these cubes", each=_TEXT),
        Fact("whole", "object", "by property what shares of a difference refer to", each=Fact("a total", "number")),
        Fact("left_out", "list", "properties without values, and why", each=_TEXT),
        Fact("inclusive", "list", "of a CUBE 3 file: properties whose call paths include what they call", each=_TEXT),
    ),
)
"""The facts of a cube. Further ones may be present; nothing reads them."""

MANIFEST_FACTS = Fact(
    "manifest",
    "object",
    entries=(
        Fact(
            "float_properties", "list", "ids of properties whose values are floating point", required=True, each=_TEXT
        ),
        replace(FACTS, required=True),
        Fact(
            "has_outside",
            "integer",
            "1 if the table `outside_cells` says what lies outside of the focus",
            low=0,
            high=1,
        ),
        Fact(
            "periods",
            "object",
            "of a cube that is divided by phases or bins",
            entries=(
                Fact("kind", "text", "`phase` or `bin`", required=True),
                Fact("words", "text", "what was asked for", required=True),
            ),
        ),
    ),
)
"""Contents of the manifest of a .severity folder besides its format, version and checksum."""
