"""Parse the XML of both Cube formats; the input is untrusted.

Expat reads it chunk by chunk. Document types, and with them entities, are refused; depth and lengths are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.topologies import ARTIFICIAL_NAMES, Topology, make_topology
from tracecols.errors import SeverityError
from tracecols.export.cube_xml import ADVICE, EXTREMES, LOCATION_TYPES, inclusive_order
from tracecols.severity.axes import STREAM, CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.reduction import ends

MAX_DEPTH = 1 << 20
"""Maximum depth of nested elements; only call paths nest that deeply."""
MAX_TREE_DEPTH = 100
"""Maximum depth of nested metrics, and of the system tree."""
MAX_TEXT = 1 << 20
"""Maximum number of characters of an element that is not a row of values."""
MAX_ELEMENTS, MAX_KEPT = 8_000_000, 1 << 28
"""Maximum total number of metrics, regions, call paths, nodes, attributes and coordinates, and of their characters."""
MAX_SIZE = 1 << 32
"""Upper bound of the size of a dimension of a topology."""
MAX_NUMBER = 64
"""Maximum average number of characters of a value in a row."""

_TYPES = {theirs: ours for ours, theirs in LOCATION_TYPES.items()}

_NODES = ("systemtreenode", "machine", "node")
_GROUPS = ("locationgroup", "process")
_LOCATIONS = ("location", "thread")
_TEXTS: dict[str, tuple[str, ...]] = {
    "metric": ("disp_name", "uniq_name", "dtype", "uom", "val", "descr", "cubepl"),
    "region": ("name", "paradigm", "role"),
    "csite": ("callee",),
    **dict.fromkeys(_NODES, ("name", "class")),
    **dict.fromkeys((*_GROUPS, *_LOCATIONS), ("name", "rank", "type")),
    "cart": ("coord",),
    "matrix": ("row",),
}
"""Elements whose text is kept, by the element around them."""

_TRUTH = {"true": 1, "false": 0}
"""Values of boolean attributes of metrics; without the attribute, `is_wait` and `is_heading` are unknown
(`PropertyAxis`)."""


class InvalidToken(SeverityError):
    """XML has bytes that its encoding does not allow, or something else that is no XML."""


@dataclass(slots=True)
class Element:
    """Description of a metric, a region, a call path or a node of the system in the file."""

    tag: str
    given: dict[str, str]
    """Its XML attributes."""
    parent: int = -1
    """Position of the parent in the list that holds this element; -1 for roots."""
    depth: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    """Texts of the elements inside, by tag."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Values of the elements `<attr key= value=>` inside, by key; also those of `<parameter>`."""

    @property
    def number(self) -> int:
        """Its id."""
        return int(self.given["Id" if "Id" in self.given else "id"])

    @property
    def name(self) -> str:
        """The id of a metric."""
        return self.texts.get("uniq_name") or self.texts.get("disp_name", "")


def damaged(what: str) -> SeverityError:
    """Make the error about a file that contradicts itself or its format."""
    return SeverityError(f"{what}\n  the file is damaged; make it again")


def _texts(values: Iterable[str]) -> NDArray[np.object_]:
    return np.array([*values, None], object)[:-1]


def _name_of_node(node: Element, kind: str) -> str:
    """Return the name of a node of the system, without the class that Cube 4 puts before it (`node vm`)."""
    name = node.texts.get("name", "")
    return name.removeprefix(f"{kind} ") if node.tag == "systemtreenode" else name


def _is_on_grid(at: list[int], sizes: list[int]) -> bool:
    """Return whether a position has a coordinate for each dimension, below its size if that is known."""
    return 0 < len(at) == len(sizes) and all(0 <= x < (size or MAX_SIZE) for x, size in zip(at, sizes, strict=True))


RowFunction = Callable[[int, int, NDArray[np.float64]], None]


class CubeParser:
    """Collect the trees of a file and hand on its rows of values.

    `encoding` is that of the text, by default the one that it declares. `on_row` is called with the id of a metric, the
    row of a call path and one value per location (CUBE 3 only). `attributes` are those of the file itself; `metrics`,
    `call_paths` and `system` are in depth-first order, and `topologies` have name, dimensions (list of {name, size,
    periodic}), and coordinates by identifier of the location.
    """

    def __init__(self, where: str, encoding: str | None = None, on_row: RowFunction | None = None) -> None:
        self.where, self.on_row = where, on_row
        self.version = ""
        self.attributes: dict[str, str] = {}
        self.metrics: list[Element] = []
        self.call_paths: list[Element] = []
        self.system: list[Element] = []
        self.topologies: list[dict[str, Any]] = []
        self._regions: dict[str, Element] = {}
        self._sites: dict[str, Element] = {}
        self._row_of: dict[int, int] = {}
        self._numbers: dict[str, set[int]] = {}
        self._open: list[Element] = []
        self._rows: list[int] = []
        self._text: list[str] | None = None
        self._length = self._limit = self.n_locations = self._n_elements = self._n_kept = 0
        self._parser = expat.ParserCreate(encoding)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    # -- reading -----------------------------------------------------------------------------------------------------

    def parse(self, chunks: Iterable[bytes]) -> None:
        """Parse a whole file given in chunks. Raises SeverityError if it is not XML, or not a Cube file; InvalidToken
        if it may be in another encoding."""
        try:
            for chunk in chunks:
                self._parser.Parse(chunk, False)
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            wrong = self.error(f"is not well-formed XML: {expat.errors.messages.get(error.code, error)}")
            is_token = error.code == expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]
            raise (InvalidToken(str(wrong)) if is_token else wrong) from error
        except KeyError as error:
            raise self.error(f"lacks {error}, or names one that is not there") from error
        except LookupError as error:
            raise self.error(f"cannot be read: {error}") from error
        except (ValueError, OverflowError) as error:
            raise self.error(f"has something else where a number should be: {error}") from error

    def error(self, what: str) -> SeverityError:
        """Make an error that says where the parser is."""
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        return SeverityError(
            f"{self.where} {what}\n  at line {line}, column {column}; it is damaged, or not a file of Cube"
        )

    def _doctype(self, *_: Any) -> None:
        raise self.error("declares a document type, which files of Cube do not")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        around = self._open[-1] if self._open else None
        if len(self._open) >= MAX_DEPTH:
            raise self.error(f"nests more than {MAX_DEPTH:,} elements")
        element = Element(tag, given)
        row = -1
        if around is None:
            if tag != "cube":
                raise self.error(f"begins with <{tag}>, not with <cube>")
            self.version = given.get("version", "")
        elif tag == "metric":
            row = self._add(self.metrics, element, ("metric",))
        elif tag == "cnode":
            row = self._add(self.call_paths, element, ("cnode",))
        elif tag in _NODES or tag in _GROUPS or tag in _LOCATIONS:
            row = self._add(self.system, element, (*_NODES, *_GROUPS))
            self.n_locations += tag in _LOCATIONS
        elif tag == "region":
            self._regions[given["id"]] = element
        elif tag == "csite":
            self._sites[given["id"]] = element
        elif tag == "attr":
            owner = self.attributes if around.tag == "cube" else around.attributes
            owner[given.get("key", "")] = given.get("value", "")
        elif tag == "parameter":
            around.attributes[given.get("parkey", "")] = given.get("parvalue", "")
        elif tag == "cart":
            self.topologies.append({"name": given.get("name", ""), "dimensions": [], "coordinates": {}})
        elif tag == "dim" and around.tag == "cart":
            dimension = {"name": given.get("name", ""), "size": int(given["size"])}
            self.topologies[-1]["dimensions"].append(dimension | {"periodic": given.get("periodic") == "true"})
        elif tag == "severity":
            self._row_of = {c.number: i for i, c in enumerate(self.call_paths)}
        kept = around is not None and tag in _TEXTS.get(around.tag, ())
        if tag != "row" and (not kept or tag == "coord"):
            self._count(sum(map(len, given.values())))
        self._text, self._length = ([] if kept else None), 0
        self._limit = MAX_NUMBER * (self.n_locations + 1) if tag == "row" else MAX_TEXT
        self._open.append(element)
        self._rows.append(row)

    def _add(self, into: list[Element], element: Element, above: tuple[str, ...]) -> int:
        _ = element.number  # all of these elements have a number; a missing one is an error here
        if self._open[-1].tag in above:
            element.parent, element.depth = self._rows[-1], self._open[-1].depth + 1
        if element.depth > MAX_TREE_DEPTH and into is not self.call_paths:
            raise self.error(f"nests more than {MAX_TREE_DEPTH} elements <{element.tag}>")
        if into is not self.system:
            # values refer to metrics and call paths by their numbers
            numbers = self._numbers.setdefault(element.tag, set())
            if element.number in numbers:
                raise self.error(f"has two elements <{element.tag}> with the id {element.number}")
            numbers.add(element.number)
        into.append(element)
        return len(into) - 1

    def _count(self, length: int, elements: int = 1) -> None:
        """Count elements and characters kept in memory. Raises SeverityError if there are too many."""
        self._n_elements, self._n_kept = self._n_elements + elements, self._n_kept + length
        if self._n_elements > MAX_ELEMENTS or self._n_kept > MAX_KEPT:
            raise self.error(f"describes more than {MAX_ELEMENTS:,} things, or in more than {MAX_KEPT:,} characters")

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._length += len(text)
            if self._length > self._limit:
                raise self.error(f"has more than {self._limit:,} characters in <{self._open[-1].tag}>")
            self._text.append(text)

    def _end(self, tag: str) -> None:
        element = self._open.pop()
        self._rows.pop()
        if self._text is None:
            return
        text, self._text = "".join(self._text), None
        around = self._open[-1]
        if tag == "row":
            values = np.array(text.split(), np.float64)
            if values.size != self.n_locations:
                raise self.error(f"has a row of {values.size:,} values for {self.n_locations:,} locations")
            if self.on_row is not None:
                self.on_row(int(around.given["metricId"]), self._row_of[int(element.given["cnodeId"])], values)
        elif tag == "coord":
            key = next((k for k in ("locId", "thrdId") if k in element.given), None)
            if key is not None:
                self.topologies[-1]["coordinates"][int(element.given[key])] = [int(c) for c in text.split()]
        else:
            self._count(len(text), 0)
            around.texts[tag] = text

    # -- the trees ---------------------------------------------------------------------------------------------------

    def value_of(self, metric: Element) -> str:
        """Return the kind of a metric's values, its parent's if it has none (CubeLib, `Metric::get_val`)."""
        while not metric.texts.get("val", "").strip() and metric.parent >= 0:
            metric = self.metrics[metric.parent]
        return metric.texts.get("val", "").strip()

    @staticmethod
    def aggregation_of(metric: Element) -> str:
        """Return how the values of a metric are aggregated (`schema.severity.AGGREGATIONS`)."""
        dtype = metric.texts.get("dtype", "").strip()
        how = next((how for how, name in EXTREMES.items() if name == dtype), "sum")
        return f"{how}_inclusive" if how != "sum" and metric.given.get("type") == "INCLUSIVE" else how

    def properties(self) -> PropertyAxis:
        """Make the property axis. Raises SeverityError if two metrics have the same unique name."""
        names = [m.name for m in self.metrics]
        if "" in names or len(set(names)) < len(names):
            twice = next((n for n in names if not n or names.count(n) > 1), "")
            raise damaged(f"{self.where} has {f'two metrics {twice!r}' if twice else 'a metric without name'}")
        about = [m.texts.get("descr", "").rstrip().partition(ADVICE) for m in self.metrics]
        try:
            confidence = [float(m.attributes.get("confidence", "1")) for m in self.metrics]
        except ValueError as error:
            raise damaged(f"{self.where} has a confidence that is not a number: {error}") from error
        return PropertyAxis(
            names,
            [names[m.parent] if m.parent >= 0 else "" for m in self.metrics],
            [m.texts.get("disp_name") or m.name for m in self.metrics],
            [m.texts.get("uom", "").strip() for m in self.metrics],
            [summary.strip() for summary, _, _ in about],
            [advice for _, _, advice in about],
            confidence,
            [m.attributes.get("overlaps") == "true" for m in self.metrics],
            [self.aggregation_of(m) for m in self.metrics],
            [_TRUTH.get(m.attributes.get("is_wait", ""), -1) for m in self.metrics],
            [m.attributes.get("delay", "") for m in self.metrics],
            [m.attributes.get("part", "") for m in self.metrics],
            [_TRUTH.get(m.attributes.get("is_heading", ""), -1) for m in self.metrics],
            [_TRUTH.get(m.attributes.get("is_estimate", ""), 0) for m in self.metrics],
        )

    def call_axis(self) -> CallAxis:
        """Make the call path axis. Raises SeverityError if a call path names a region that is not there."""
        found = self.call_paths
        regions: list[Element] = []
        sites: list[str] = []
        try:
            for c in found:
                site, region = c.given, c.given.get("calleeId")
                if region is None:
                    of = self._sites[c.given["csiteId"]]
                    site, region = of.given, of.texts["callee"].strip()
                regions.append(self._regions[region])
                file, line = site.get("mod", ""), site.get("line", "")
                known = line.isascii() and line.isdigit() and int(line) > 0
                at = [f"{file}:{line}" if known and file else file]
                sites.append(" ".join(filter(None, (*at, *(f"{k}={v}" for k, v in c.attributes.items())))))
            begin, end_line = (
                np.array([max(int(r.given.get(key, "0")), 0) for r in regions], np.int64) for key in ("begin", "end")
            )
        except (KeyError, ValueError, OverflowError) as error:
            raise SeverityError(
                f"{self.where}: call path {len(regions)} is of a region that is not described\n  {error}"
            ) from error
        parent, depth = (np.array([getattr(c, name) for c in found], np.int32) for name in ("parent", "depth"))
        return CallAxis(
            parent,
            depth,
            ends(parent, depth),
            _texts(r.texts.get("name", "") for r in regions),
            _texts(r.texts.get("role", "") for r in regions),
            _texts(r.texts.get("paradigm", "") for r in regions),
            _texts(r.given.get("mod", "") for r in regions),
            begin,
            _texts(sites),
            end_line,
        )

    def system_axis(self) -> SystemAxis:
        """Make the system axis; locations are in order of their ids. Raises SeverityError if two locations have the
        same id, or a location has no process."""
        at = [i for i, n in enumerate(self.system) if n.tag in _LOCATIONS]
        order = sorted(at, key=lambda i: self.system[i].number)
        row = {i: k for k, i in enumerate(order)}
        numbers = [self.system[i].number for i in order]
        if len(set(numbers)) < len(numbers) or any(self.system[i].parent < 0 for i in at):
            raise damaged(f"{self.where} has two locations with the same id, or one outside of any process")
        kinds = []
        for node in self.system:
            if node.tag in _NODES:
                kinds.append(node.texts.get("class") or node.given.get("class") or node.tag.replace("systemtree", ""))
            elif node.tag in _GROUPS:
                kinds.append(node.texts.get("type", "process"))
            else:
                kinds.append(STREAM if _TYPES.get(node.texts.get("type", "")) == "gpu" else "thread")
        try:
            groups = [self.system[self.system[i].parent].texts for i in order]
            # accelerators are not processes, even if they have a rank in the file
            ranks = [-1 if g.get("type") == "accelerator" else int(g.get("rank") or -1) for g in groups]
            threads = [int(self.system[i].texts.get("rank") or 0) for i in order]
            rank, thread = np.array(ranks, np.int32), np.array(threads, np.int32)
        except (ValueError, OverflowError) as error:
            raise damaged(f"{self.where} has a rank that is not a number: {error}") from error
        types = [self.system[i].texts.get("type", "thread") for i in order]
        return SystemAxis(
            kinds,
            [_name_of_node(n, kind) for n, kind in zip(self.system, kinds, strict=True)],
            [n.parent for n in self.system],
            [row.get(i, -1) for i in range(len(self.system))],
            rank,
            thread,
            [self.system[i].texts.get("name", "") for i in order],
            [_TYPES.get(t, t) for t in types],
        ).with_devices()

    def placed_topologies(self) -> tuple[list[Topology], list[str]]:
        """Return the topologies, with rows of locations instead of identifiers, and the names of the topologies left
        out because positions lie outside their grid."""
        numbers = sorted(n.number for n in self.system if n.tag in _LOCATIONS)
        found, beside = [], []
        for t in self.topologies:
            positions = [(row, t["coordinates"][n]) for row, n in enumerate(numbers) if n in t["coordinates"]]
            names, sizes, periodic = ([d[c] for d in t["dimensions"]] for c in ("name", "size", "periodic"))
            if all(0 <= size < MAX_SIZE for size in sizes) and all(_is_on_grid(at, sizes) for _, at in positions):
                is_artificial = t["name"].lower() in ARTIFICIAL_NAMES
                found.append(make_topology(t["name"], names, sizes, periodic, positions, is_artificial))
            else:
                beside.append(t["name"])
        return found, beside

    def enumeration(self, kind: str) -> NDArray[np.int64]:
        """Return the rows of call paths in the order in which a metric of some type numbers them.

        CubeW, `cube_metric_create_enumeration`: depth first for EXCLUSIVE; all children of a node before their own
        children for INCLUSIVE; by id for SIMPLE.
        """
        if kind == "SIMPLE":
            return np.argsort([c.number for c in self.call_paths], kind="stable").astype(np.int64)
        return self._inclusive_order if kind == "INCLUSIVE" else np.arange(len(self.call_paths))

    @cached_property
    def _inclusive_order(self) -> NDArray[np.int64]:
        return inclusive_order([c.parent for c in self.call_paths])
