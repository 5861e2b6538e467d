"""Facts that describe a severity cube, JSON in the manifest of a .severity folder and in an attribute of .cubex and
.cube; and those in the manifest of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _declare(kind: str) -> Callable[..., Fact]:
    """Return a function that declares facts of a kind by their name, what they are, and their entries."""

    def declare(name: str, doc: str = "", *entries: Fact, **how: Any) -> Fact:
        return Fact(name, kind, doc, entries=entries, **how)

    return declare


_text, _integer, _number, _list, _object = map(_declare, ("text", "integer", "number", "list", "object"))

_TEXT = _text("a name")
_COUNT = _integer("a note", low=0, high=(1 << 127) - 1)
_SHARE = _number("a share")
_LOCATION = _integer("a location", low=0)
_INTERVAL = (_integer("begin", required=True), _integer("end", required=True))
_SOURCE = _object(
    "source",
    "the file or archive it was made of; also what its recorder says of itself",
    _text("path", "where it was", required=True),
    _text("format", "its format"),
    required=True,
)

NARROWED = _object(
    "narrowed",
    "what the analysis was narrowed to, and what it was given; absent for a plain one of the whole trace",
    _list("properties", "ids of the properties that were asked for", each=_TEXT),
    _object(
        "parameters",
        "parameters of patterns, by property",
        each=_object("values", each=Fact("a value", "number or infinity")),
    ),
    _text("within", "a region, or a pattern"),
    _list("locations", "rows of locations, and texts that select some", each=Fact("a location", "text or integer")),
    _number("start", "seconds"),
    _number("stop", "seconds"),
    _text("phases", "the region, or the call, whose instances are the phases"),
    _integer("bins", "number of bins of time", low=1),
    _number("bin_width", "seconds"),
)

CAUSES = _object(
    "causes",
    "causes of lost time that a replay of the trace found; absent where it cannot be replayed",
    _integer("runtime", "ticks of the run as recorded", required=True),
    _integer("n_call_paths", "number of call paths of the trace", required=True, low=0),
    _integer("n_locations", "number of locations of the trace", required=True, low=0),
    _list(
        "found",
        "the causes, the one that gains most first",
        required=True,
        each=_object(
            "a cause",
            "",
            _text("kind", "the kind of the cause", required=True),
            _integer("call_path", "row of the call path", required=True, low=-1),
            _list("locations", "rows of locations", required=True, each=_LOCATION),
            _integer("gain", "ticks by which the run is shorter once it is mended", required=True),
            _object("evidence", "quantities that prove it"),
            _list(
                "explains",
                "call paths, or -1 of idle threads, locations, and ticks",
                _list("call paths", each=_integer("a call path", low=-1)),
                _list("locations", each=_LOCATION),
                _list("ticks", each=_integer("a time")),
                required=True,
            ),
            _list(
                "in_calls",
                "how much of these ticks calls take beyond waiting; absent in cubes of earlier versions",
                each=_integer("a time", low=0),
            ),
        ),
    ),
    _list(
        "piece",
        "of a trace too large to replay all of it the begin and the end of each piece in which causes were found, "
        "in seconds since the start of the recording; gains and ticks are scaled to the run",
        each=_number("a time"),
    ),
    _list(
        "starts",
        "calls in which devices start: call paths, locations, and ticks",
        _list("call paths", each=_integer("a call path", low=0)),
        _list("locations", each=_LOCATION),
        _list("ticks", each=_integer("a time", low=0)),
    ),
)

FACTS = _object(
    "facts",
    "what a cube says of itself",
    _text("conventions", "whose rules were followed; empty of cubes of other tools", required=True),
    _integer("resolution", "ticks per second", required=True, low=1, high=(1 << 62) - 1),
    _object("counts", "notes, and how often each holds", each=_COUNT),
    _object(
        "trace",
        "the trace that was analyzed",
        _SOURCE,
        _integer("n_events", "number of events", required=True, low=0),
        _integer("n_locations", "number of locations", low=0),
        _integer("first_time", "ticks of the first event", required=True),
        _integer("last_time", "ticks of the last event", required=True),
        _integer("origin", "ticks at which the recording starts"),
    ),
    _object("source", "the file of another tool", *_SOURCE.entries),
    _object("mpi_interval", "ticks of the last exit of MPI_Init and of the first enter of MPI_Finalize", *_INTERVAL),
    _object(
        "device_efficiencies",
        "efficiencies of devices; empty without any",
        _list("devices", "their names", each=_TEXT),
        each=_SHARE,
    ),
    _object(
        "topology_found",
        "of a topology that was found from who sends to whom",
        _text("kind", "line, ring, grid, torus, hypercube, star or tree", required=True),
        _number("confidence", "1 less the chance that a random graph of as many edges has this shape", required=True),
        _number("explained", "part of the messages, or of their bytes, between neighbours", required=True),
    ),
    _integer("ideal_runtime", "ticks of the run on an ideal network, by replay of the trace"),
    _object("replay_notes", "what this replay does not know, and how often", each=_COUNT),
    CAUSES,
    NARROWED,
    _object(
        "focus",
        "what of the time is shown of a cube without start-up and shutdown",
        _number("share", required=True),
        _number("seconds", required=True),
        _text("words"),
        _number("creating"),
    ),
    _object(
        "focus_window",
        "ticks at which the first process leaves MPI_Init, and the last one enters MPI_Finalize",
        *_INTERVAL,
    ),
    _list(
        "late_processes",
        "processes with another MPI_COMM_WORLD than the one that begins first (spawn, connect)",
        each=_object(
            "a process",
            "",
            _integer("rank", required=True),
            _integer("begin", "ticks: its first event", required=True),
            _integer("focus", "ticks: when it leaves MPI_Init, or its first event", required=True),
        ),
    ),
    _text("operation", "how it was computed from other cubes"),
    _list("of", "the sources of these cubes", each=_TEXT),
    _object("whole", "by property what shares of a difference refer to", each=_number("a total")),
    _list("left_out", "properties without values, and why", each=_TEXT),
    _list("inclusive", "of a CUBE 3 file: properties whose call paths include what they call", each=_TEXT),
    together=("operation", "of"),
)
"""The facts of a cube. Further ones may be present; nothing reads them."""

MANIFEST_FACTS = _object(
    "manifest",
    "",
    _list("float_properties", "ids of properties whose values are floating point", required=True, each=_TEXT),
    replace(FACTS, required=True),
    _integer("has_outside", "1 if the table `outside_cells` says what lies outside of the focus", low=0, high=1),
    _object(
        "periods",
        "of a cube that is divided by phases or bins",
        _text("kind", "`phase` or `bin`", required=True),
        _text("words", "what was asked for", required=True),
    ),
)
"""Contents of the manifest of a .severity folder besides its format, version and checksum."""

STORE_FACTS = (
    _object(
        "clock",
        "",
        *(_integer(name, required=True) for name in ("origin", "length", "realtime")),
        _integer("resolution", required=True, low=1),
    ),
    _object("source", "", _text("path", required=True), _text("format", required=True)),
    _list(
        "lost",
        each=_object(
            "a loss",
            "",
            *(_integer(name, required=True) for name in ("location", "n_events")),
            _text("reason", required=True),
        ),
    ),
    *(_object(name, each=_integer("a count", low=0)) for name in ("not_understood", "events_by_kind")),
    *(_integer(name, low=0) for name in ("n_events", "n_locations", "n_attributes")),
    *(_integer(name) for name in ("first_time", "last_time")),
)
"""Entries of the manifest of a store that readers rely on; `tables` and versions are read by themselves."""
