"""Read severity cubes of other tools: .cubex (Cube 4) and .cube (CUBE 3), and our own.

Files are untrusted: names, numbers and lengths are bounded by the size of the file, and deflated rows by the number of
locations, so that a small file cannot make the reader allocate much memory.
"""

from __future__ import annotations

import gzip
import json
import mmap
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import ForeignCubeWarning, SeverityError
from tracecols.export.cube_parser import CubeParser, Element, InvalidToken, damaged
from tracecols.export.cube_xml import EXTREMES, FACTS, INCLUSIVE, NO_EXTREME
from tracecols.export.cubex import DATA_MAGIC, DEFLATED_MAGIC, DENSE, INDEX_MAGIC, SPARSE
from tracecols.given.arguments import as_path
from tracecols.given.files import advice, open_regular
from tracecols.schema.facts import FACTS as FACTS_OF_CUBES
from tracecols.schema.facts import wrong_fact
from tracecols.severity import checks
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube
from tracecols.severity.formulas import parse
from tracecols.severity.storage import tree_tables
from tracecols.store.layout import CUBES, instead, is_made_here
from tracecols.work.memory import physical

MAX_XML = 4 << 30
"""Bytes of XML, unpacked."""
MAX_CELLS = 1 << 29
"""Nonzero values in a file; each takes 16 bytes of memory."""
CHUNK = 1 << 20
MAKE_ONE = "make one with: tracecols analyze TRACE"

# CubeLib, CubeMetric.cpp: is_int8 ... is_double, and types whose values do not add up (extrema, rates, tuples,
# histograms).
NUMPY_TYPES = {
    "INT8": "i1", "UINT8": "u1", "CHAR": "u1", "INT16": "i2", "SHORT INT": "i2", "SIGNED SHORT INT": "i2",
    "UINT16": "u2", "UNSIGNED SHORT INT": "u2", "INT32": "i4", "INT": "i4", "SIGNED INT": "i4", "UINT32": "u4",
    "UNSIGNED INT": "u4", "INT64": "i8", "INTEGER": "i8", "SIGNED INTEGER": "i8", "UINT64": "u8",
    "UNSIGNED INTEGER": "u8", "DOUBLE": "f8", "FLOAT": "f8",
} | dict.fromkeys(EXTREMES.values(), "f8")  # fmt: skip
STATISTICS = "TAU_ATOMIC"
"""Values that are tuples: how many there were, the least, the greatest, their sum and the sum of their squares."""
TUPLE = [("count", "u4"), ("min", "f8"), ("max", "f8"), ("sum", "f8"), ("squares", "f8")]
OTHERS = {
    "count": ("number of values", "#", "sum"),
    "min": ("least value", "", "min"),
    "max": ("greatest value", "", "max"),
    "squares": ("sum of squares", "^2", "sum"),
}
"""Statistics other than the sum, which become properties of their own: title, unit, and aggregation."""
NOT_READ = ("RATE", "COMPLEX", "SCALE_FUNC", "HISTOGRAM", "NDOUBLES")
STORED = ("EXCLUSIVE", "INCLUSIVE", "SIMPLE")
EXPRESSIONS = ("POSTDERIVED", "PREDERIVED_INCLUSIVE", "PREDERIVED_EXCLUSIVE")
"""Types of metrics: those that hold data, and CubePL expressions over them."""


def is_cube(path: Path) -> bool:
    """Return whether a path is to be read as a cube (a file, a cube's folder, or the name of a cube that does not
    exist); any other folder should be a store.

    Parameters
    ----------
    path : Path
        A file or folder.
    """
    if not path.exists():
        return path.name.endswith((".severity", *CUBES))
    return not path.is_dir() or is_made_here(path, "a severity cube")


def read_cube(path: str | Path) -> SeverityCube:
    """Read a severity cube: a .severity folder, a .cubex (Cube 4) or a .cube (CUBE 3, also .cube.gz).

    For files of other tools, all metrics are kept under their unique names, and times as float64 seconds. For files
    written by tracecols, times become the same integer ticks again: seconds are ticks / resolution rounded to float64
    (relative error 2^-52), which rounds back to the original integer up to 2^51 ticks in a cell. If it does not,
    because another tool has calculated with the file, ticks stay float64. So do the fractions of ticks of root causes,
    which are restored except for their last bit.

    Values that are inclusive along the call tree are made exclusive. Minima and maxima are kept as properties that do
    not add up (`PropertyAxis.aggregation`). For statistics (TAU_ATOMIC), the sum has the metric's name, and number,
    minimum, maximum and sum of squares are properties of their own. Metrics that are expressions (CubePL) of
    numbers and `metric::NAME()` with `+ - * /`, `min` and `max` are computed; other expressions, histograms, rates and
    other tuples have no cells. A `ForeignCubeWarning` lists them, and topologies that are left out because positions
    are not on their grids.

    Parameters
    ----------
    path : str or Path
        A folder or file; the format is recognised by its first bytes.

    Returns
    -------
    SeverityCube

    Raises
    ------
    SeverityError
        If the format is none of these, or the file is damaged; the message says what is wrong and where.

    Examples
    --------
    >>> theirs = tracecols.read_cube("scorep_run_sum/scout.cubex")  # doctest: +SKIP
    >>> (tracecols.read_cube("run.severity") - theirs).total("mpi_latesender")  # doctest: +SKIP
    """
    path = as_path(path, SeverityError)
    if path.is_dir():
        return SeverityCube.load(path)
    try:
        with open_regular(path) as file:
            start = file.read(512)
    except FileNotFoundError as error:
        raise SeverityError(f"no such cube: {path}\n  {MAKE_ONE}") from error
    except OSError as error:
        raise SeverityError(f"cannot read {path}: {error.strerror}\n  {advice(error, MAKE_ONE)}") from error
    packed = start[:2] == b"\x1f\x8b"
    if start[257:262] == b"ustar":
        read = _read_cubex
    elif packed or start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        read = partial(_read_cube3, packed)
    else:
        if what := instead(path, "a severity cube"):
            raise SeverityError(what)
        raise SeverityError(
            f"{path} is not a severity cube: neither a .severity folder, nor a .cubex (tar) or .cube (XML)\n"
            f"  {MAKE_ONE}"
        )
    try:
        cube = read(path, None)
    except InvalidToken:
        # EXPERT writes names as the trace has them, whatever encoding it declares
        cube = read(path, "iso-8859-1")
    if "left_out" in cube.facts:
        names = ", ".join(cube.facts["left_out"])
        n = len(cube.facts["left_out"])
        why = f"{path}: {n} without values, since they are expressions or do not add up: {names}"
        warnings.warn(why, ForeignCubeWarning, stacklevel=2)
    return cube


# -- CUBE 3 ------------------------------------------------------------------------------------------------------------


def _chunks(path: Path, packed: bool) -> Iterator[bytes]:
    """Yield the uncompressed bytes of an XML file."""
    size = 0
    try:
        with open_regular(path) as stored, gzip.open(stored) if packed else stored as file:
            while chunk := file.read(CHUNK):
                size += len(chunk)
                if size > MAX_XML:
                    raise damaged(f"{path} has more than {MAX_XML >> 30} GiB of XML")
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(f"cannot read {path} beyond byte {size:,} of its XML: {error}") from error


class _Gathered:
    """Collects the cells of the metrics row by row."""

    def __init__(self, where: str) -> None:
        self.where, self.n, there_is = where, 0, physical()
        self.most = MAX_CELLS if there_is is None else min(MAX_CELLS, there_is // checks.BYTES_PER_CELL)
        self.batches: dict[int, list[tuple[NDArray[np.int64], NDArray[Any]]]] = {}

    def add(self, metric: int, call_path: int, values: NDArray[Any], present: NDArray[np.bool_] | None = None) -> None:
        """Add one row with the values of all locations; keep those marked in `present`, by default the nonzero ones."""
        location = np.flatnonzero(values if present is None else present)
        self.n += location.size
        if self.n > self.most:
            raise damaged(f"{self.where} has more than {self.most:,} values other than zero")
        self.batches.setdefault(metric, []).append(((call_path << 32) | location, values[location]))

    def cells(self, metric: int, how: str = "sum") -> Cells:
        """Return all cells of a metric."""
        parts = self.batches.pop(metric, [])
        if not parts:
            return Cells.empty()
        rows = Counter(int(k[0]) >> 32 for k, _ in parts if k.size)
        twice = next((row for row, n in rows.items() if n > 1), None)
        if twice is not None:
            raise damaged(f"{self.where} has two rows of values of metric {metric} for call path {twice}")
        key, value = np.concatenate([k for k, _ in parts]), np.concatenate([v for _, v in parts])
        too_large = value.dtype.kind == "u" and value.size and int(value.max()) >= 1 << 63
        value = value.astype(np.float64 if value.dtype.kind == "f" or too_large else np.int64)
        return Cells.reduce(key >> 32, key & 0xFFFFFFFF, value, how)


def _type_of(metric: Element) -> str:
    """Return the type of the values of a metric; FLOAT if the file does not give it."""
    return metric.texts.get("dtype", "").strip() or "FLOAT"


def _extremes(values: NDArray[Any], ours: bool) -> NDArray[np.bool_]:
    """Return a mask of the values of a row that are extremes.

    Missing extremes are written as the largest float64 (or its negative); other tools also write zero, as for sums.
    """
    found = np.abs(values) < max(NO_EXTREME.values())
    result: NDArray[np.bool_] = (found if ours else found & (values != 0)) | np.isnan(values)
    return result


def _read_cube3(packed: bool, path: Path, encoding: str | None) -> SeverityCube:
    rows = _Gathered(str(path))
    how_of: dict[int, str] = {}

    def on_row(number: int, call_path: int, values: NDArray[np.float64]) -> None:
        if not how_of:
            how_of.update({m.number: parser.aggregation_of(m) for m in parser.metrics})
        is_sum = how_of.get(number, "sum") == "sum"
        rows.add(number, call_path, values, None if is_sum else _extremes(values, FACTS in parser.attributes))

    parser = CubeParser(str(path), encoding, on_row)
    parser.parse(_chunks(path, packed))
    if not parser.version.startswith("3"):
        raise SeverityError(f"{path} is of version {parser.version!r} of Cube\n  as XML, version 3 can be read")
    if unknown := set(rows.batches) - {m.number for m in parser.metrics}:
        raise damaged(f"{path} has values of metric {min(unknown)}, which it does not describe")

    def cells_of(metric: Element) -> dict[str, Cells]:
        cells = rows.cells(metric.number, parser.aggregation_of(metric))
        is_integer = NUMPY_TYPES[_type_of(metric)][0] != "f"
        if is_integer and (np.abs(cells.value) < 1 << 62).all() and (cells.value % 1 == 0).all():
            cells = Cells(cells.key, cells.value.astype(np.int64))
        return {"": cells}

    return _cube_of(path, parser, "CUBE", cells_of)


# -- Cube 4 ------------------------------------------------------------------------------------------------------------


def _members(path: Path, content: memoryview) -> dict[str, memoryview]:
    """Return the regular files of a tar archive by name.

    Checksums of headers are not verified: those of CubeWriter 4.8 are wrong (pycubexr, custom_tarinfo.py).
    """
    found: dict[str, memoryview] = {}
    at = 0
    while at + 512 <= len(content):
        header = bytes(content[at : at + 512])
        if not header.strip(b"\0"):
            break
        digits = header[124:136]
        if digits[0] & 0x80:
            size = int.from_bytes(bytes([digits[0] & 0x7F]) + digits[1:], "big")
        else:
            text = digits.strip(b"\0 ")
            if text.translate(None, b"01234567"):
                raise damaged(f"{path} is damaged: the archive has no header at byte {at:,}")
            size = int(text or b"0", 8)
        if at + 512 + size > len(content):
            name = header[:100].split(b"\0")[0].decode("utf-8", "replace")
            raise damaged(f"{path} is cut off: {name} should end at byte {at + 512 + size:,} of {len(content):,}")
        if header[156:157] in (b"0", b"\0"):
            name = header[:100].split(b"\0")[0].decode("utf-8", "replace").removeprefix("./")
            found[name] = content[at + 512 : at + 512 + size]
        at += 512 + (size + 511) // 512 * 512
    return found


def _anchor_chunks(path: Path, anchor: memoryview) -> Iterator[bytes]:
    """Yield the uncompressed anchor."""
    if bytes(anchor[:2]) != b"\x1f\x8b":
        for at in range(0, len(anchor), CHUNK):
            yield bytes(anchor[at : at + CHUNK])
        return
    unpack, size, rest = zlib.decompressobj(31), 0, bytes(anchor)
    try:
        while rest and not unpack.eof:
            chunk = unpack.decompress(rest, CHUNK)
            rest, size = unpack.unconsumed_tail, size + len(chunk)
            if size > MAX_XML:
                raise damaged(f"{path}: anchor.xml has more than {MAX_XML >> 30} GiB")
            yield chunk
    except zlib.error as error:
        raise damaged(f"{path}: anchor.xml is damaged beyond byte {size:,} ({error})") from error


def _index_of(where: str, index: memoryview, n_call_paths: int) -> tuple[str, NDArray[np.int64]]:
    """Return the byte order of a metric, and the numbers of the call paths that have rows, in order."""
    head = len(INDEX_MAGIC)
    if bytes(index[:head]) != INDEX_MAGIC or len(index) < head + 7:
        raise damaged(f"{where}: its index does not begin with {INDEX_MAGIC.decode()}")
    byte_order = {b"\1\0\0\0": "<", b"\0\0\0\1": ">"}.get(bytes(index[head : head + 4]))
    kind = index[head + 6]
    if byte_order is None or kind not in (DENSE, SPARSE):
        raise damaged(f"{where}: its index says neither its byte order nor its kind at byte {head}")
    if kind == DENSE:
        return byte_order, np.arange(n_call_paths)
    body = bytes(index[head + 7 :])
    words = np.frombuffer(body[: len(body) // 4 * 4], byte_order + "u4").astype(np.int64)
    if not words.size or words.size != words[0] + 1 or len(body) % 4:
        raise damaged(f"{where}: its index is {len(body):,} bytes long, which is not what it counts")
    numbers = words[1:]
    if numbers.size and (numbers.max() >= n_call_paths or distinct(numbers).size < numbers.size):
        raise damaged(f"{where}: its index names a call path twice, or one beyond the {n_call_paths:,} there are")
    return byte_order, numbers


def _rows(where: str, data: memoryview, byte_order: str, n_rows: int, n_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each row of a metric, except rows that were never written."""
    if bytes(data[: len(DATA_MAGIC)]) == DATA_MAGIC:
        body = data[len(DATA_MAGIC) :]
        if len(body) > n_rows * n_bytes or len(body) % max(n_bytes, 1):
            raise damaged(f"{where}: its data are {len(body):,} bytes, not {n_rows:,} rows of {n_bytes:,}")
        # the data may end early: the last rows were never written
        for row in range(len(body) // max(n_bytes, 1)):
            yield row, bytes(body[row * n_bytes : (row + 1) * n_bytes])
        return
    head = len(DEFLATED_MAGIC)
    if bytes(data[:head]) != DEFLATED_MAGIC or len(data) < head + 8:
        raise damaged(f"{where}: its data begin with neither {DATA_MAGIC.decode()} nor {DEFLATED_MAGIC.decode()}")
    n = int(np.frombuffer(data[head : head + 8], byte_order + "u8")[0])
    base = head + 8 + 24 * n
    if n != n_rows or base > len(data):
        raise damaged(f"{where}: its data have {n:,} rows, its index {n_rows:,}, and {len(data):,} bytes")
    blocks = np.frombuffer(data[head + 8 : base], byte_order + "u8").reshape(n, 3).tolist()
    seen: set[int] = set()
    # if rows could share bytes, a small file could cause any amount of work
    if sum(size for _, _, size in blocks) > len(data) - base:
        raise damaged(f"{where}: its deflated rows overlap, or lie beyond the end at byte {len(data):,}")
    for start, at, size in blocks:
        if not size:
            continue
        row, off = divmod(start, n_bytes) if n_bytes else (0, 0)
        if off or row >= n_rows or row in seen or base + at + size > len(data):
            raise damaged(
                f"{where}: a deflated row should lie at byte {base + at:,} and begin row {start}/{n_bytes}, once"
            )
        seen.add(row)
        try:
            values = zlib.decompressobj().decompress(data[base + at : base + at + size], n_bytes + 1)
        except zlib.error as error:
            raise damaged(f"{where}: row {row:,} is damaged ({error})") from error
        if len(values) != n_bytes:
            raise damaged(f"{where}: row {row:,} is not {n_bytes:,} bytes long")
        yield row, values


def _read_cubex(path: Path, encoding: str | None) -> SeverityCube:
    with open_regular(path) as file:
        members = _members(path, memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    if "anchor.xml" not in members:
        raise SeverityError(f"{path} is an archive without anchor.xml\n  a .cubex has one")
    parser = CubeParser(f"{path}: anchor.xml", encoding)
    parser.parse(_anchor_chunks(path, members["anchor.xml"]))
    if not parser.version.startswith("4"):
        raise SeverityError(f"{path} is of version {parser.version!r} of Cube\n  .cubex of version 4 can be read")
    n_locations, n_call_paths = parser.n_locations, len(parser.call_paths)

    gathered, ours = _Gathered(str(path)), FACTS in parser.attributes
    parent = np.array([c.parent for c in parser.call_paths], np.int64)

    def cells_of(metric: Element) -> dict[str, Cells]:
        where = f"{path}: metric {metric.number} '{metric.name}'"
        index, data = (members.get(f"{metric.number}.{kind}") for kind in ("index", "data"))
        if data is None and ours:
            raise SeverityError(f"{where} has no data\n  the archive was cut off; export it again")
        if data is None or not n_call_paths:
            return {"": Cells.empty()}
        if index is None:
            raise damaged(f"{where} has data and no index")
        byte_order, numbers = _index_of(where, index, n_call_paths)
        name, along = _type_of(metric), metric.given.get("type", "EXCLUSIVE")
        order = parser.enumeration(along)[numbers]
        if name == STATISTICS:
            dtype = np.dtype([(statistic, byte_order + code) for statistic, code in TUPLE])
            how_of = {statistic: OTHERS[statistic][2] if statistic in OTHERS else "sum" for statistic, _ in TUPLE}
        else:
            dtype = np.dtype(byte_order + NUMPY_TYPES[name])
            how_of = {"": parser.aggregation_of(metric).partition("_")[0]}
        for row, values in _rows(where, data, byte_order, numbers.size, n_locations * dtype.itemsize):
            found = np.frombuffer(values, dtype)
            for i, (statistic, how) in enumerate(how_of.items()):
                if statistic:
                    gathered.add(i, int(order[row]), found[statistic], found["count"] > 0)
                else:
                    gathered.add(i, int(order[row]), found, None if how == "sum" else _extremes(found, ours))
        result = {}
        for i, (statistic, how) in enumerate(how_of.items()):
            cells = gathered.cells(i, how)
            of_children = along == "INCLUSIVE" and how == "sum"
            result[statistic if statistic != "sum" else ""] = _exclusive(cells, parent) if of_children else cells
        return result

    return _cube_of(path, parser, "Cube", cells_of)


# -- both --------------------------------------------------------------------------------------------------------------


def _facts(path: Path, parser: CubeParser, tool: str) -> tuple[dict[str, Any], bool]:
    """Return the facts of a cube, and whether tracecols wrote the file."""
    text = parser.attributes.get(FACTS)
    if text is None:
        source = {k: v for k, v in parser.attributes.items() if k} | {
            "path": str(path),
            "format": f"{tool} {parser.version}",
        }
        return {"conventions": "", "resolution": 1, "counts": {}, "source": source}, False
    try:
        facts = json.loads(text)
        what = wrong_fact(FACTS_OF_CUBES, facts)
    except (ValueError, RecursionError) as error:
        what = f"it is not JSON: {error}"
    if what:
        raise damaged(f"{path}: its attribute '{FACTS}' is damaged: {what}")
    return facts, True


def _in_ticks(cells: Cells, resolution: int) -> Cells:
    """Convert seconds back to the ticks they were computed from: int64 if all are whole, else float64."""
    ticks = np.rint(cells.value * resolution)
    if (np.abs(ticks) < 1 << 62).all() and (ticks.astype(np.int64) * (1 / resolution) == cells.value).all():
        return Cells(cells.key, ticks.astype(np.int64))
    ticks = cells.value * resolution
    # choose the neighbouring number that converts to exactly these seconds
    for towards in (-np.inf, np.inf):
        near = np.nextafter(ticks, towards)
        ticks = np.where(
            (ticks * (1 / resolution) != cells.value) & (near * (1 / resolution) == cells.value), near, ticks
        )
    return Cells(cells.key, ticks)


def _statistic(p: PropertyAxis, metric: Element, statistic: str, kind: str, taken: Set[str]) -> dict[str, Any]:
    """Return the columns of a property for one of the statistics of a metric; its id is none of those `taken`."""
    title, unit, how = OTHERS[statistic]
    at, name = p.number[metric.name], f"{metric.name}_{statistic}"
    while name in taken:
        name += "_"
    return {
        "id": name,
        "title": f"{p.title[at]}, {title}",
        "unit": unit if statistic == "count" else p.unit[at] + unit,
        "summary": f"The {title} of which {p.title[at]} ({metric.name}) is the sum.",
        "confidence": p.confidence[at],
        "part": p.part[at],
        "aggregation": f"{how}_inclusive" if how != "sum" and kind == "INCLUSIVE" else how,
    }


def _compute(cube: SeverityCube, metric: Element, pending: Set[str]) -> bool:
    """Set the formula of a metric that is an expression (CubePL), or compute its cells if the expression applies before
    aggregation (PREDERIVED). Return False if it is no formula of `severity.formulas`, or uses a pending metric."""
    p, kind = cube.properties, metric.given["type"]
    try:
        formula = parse(metric.texts.get("cubepl", "").strip().rstrip(";"))
    except SeverityError:
        return False
    operands = set(formula.names())
    number = p.number[metric.name]
    kinds = ("sum", "computed") if kind == "POSTDERIVED" else ("sum",)
    if not operands <= set(p.id) - pending or any(p.aggregation[p.number[name]] not in kinds for name in operands):
        return False
    if kind == "POSTDERIVED":
        p.formula[number], p.aggregation[number] = formula.text(), "computed"
        return True
    n_call_paths, n_locations = len(cube.call_paths), cube.system.n_locations
    along = "iie" if kind == "PREDERIVED_INCLUSIVE" else "iee"
    of = {name: cube.cells_of(name, along) for name in operands}
    keys = distinct(np.concatenate([np.zeros(0, np.int64), *(cells.key for cells in of.values())]))
    if formula.evaluate(lambda _: 0.0) != 0:
        # cells without any operand have a value, too
        if n_call_paths * n_locations > MAX_CELLS // 16:
            return False
        keys = ((np.arange(n_call_paths) << 32)[:, None] | np.arange(n_locations)).ravel()
    values = np.broadcast_to(formula.evaluate(lambda name: of[name].at(keys) * cube.scale(name)), keys.shape)
    if not np.isfinite(values).all():
        return False
    cells = Cells(keys, values / cube.scale(metric.name)).where(values != 0)
    own = cells if along == "iee" else _exclusive(cells, cube.call_paths.parent)
    cube.cells = {**cube.cells, metric.name: own}
    return True


def _exclusive(cells: Cells, parent: NDArray[np.signedinteger[Any]]) -> Cells:
    """Subtract the values of child call paths from inclusive cells."""
    up = parent[cells.call_path]
    return cells - Cells.sum(up[up >= 0], cells.location[up >= 0], cells.value[up >= 0])


def _cube_of(
    path: Path, parser: CubeParser, tool: str, cells_of: Callable[[Element], dict[str, Cells]]
) -> SeverityCube:
    facts, ours = _facts(path, parser, tool)
    properties, call_paths, system = parser.properties(), parser.call_axis(), parser.system_axis()
    for name in facts.pop(INCLUSIVE, ()):
        if name in properties.number and not properties.adds_up(name):
            properties.aggregation[properties.number[name]] = f"{properties.reduction(name)}_inclusive"
    cells: dict[str, Cells] = {}
    left_out: list[str] = []
    computed: list[Element] = []
    statistics: list[dict[str, Any]] = []
    for metric, unit in zip(parser.metrics, properties.unit, strict=True):
        dtype, kind = _type_of(metric), metric.given.get("type", "EXCLUSIVE")
        cells[metric.name] = Cells.empty()
        if parser.value_of(metric) == "VOID":
            continue
        if kind in EXPRESSIONS:
            computed.append(metric)
            continue
        is_tuple = dtype == STATISTICS and tool != "CUBE"
        not_read = NOT_READ if is_tuple else (*NOT_READ, STATISTICS)
        if dtype.partition("(")[0].strip() in not_read:
            left_out.append(f"{metric.name} ({dtype})")
            continue
        if (dtype not in NUMPY_TYPES and not is_tuple) or kind not in STORED:
            raise damaged(f"{path}: metric {metric.name!r} is {kind!r} of {dtype!r}, which are not types of Cube")
        for statistic, found in cells_of(metric).items():
            wrong = checks.first_wrong_number(found.value)
            if wrong >= 0:
                at, value = call_paths.paths_of([int(found.call_path[wrong])])[0], float(found.value[wrong])
                what = (
                    f"the value {value:g}, which is beyond all bounds"
                    if np.isfinite(value)
                    else "a value that is not a number"
                )
                raise damaged(f"{path}: metric {metric.name!r} has {what}, at {at}")
            name = metric.name
            if statistic:
                statistics.append(_statistic(properties, metric, statistic, kind, {*properties.id, *cells}))
                name = statistics[-1]["id"]
            cells[name] = _in_ticks(found, int(facts["resolution"])) if ours and unit == "sec" else found
    topologies, beside = parser.placed_topologies()
    cube = SeverityCube(properties.with_rows(statistics), call_paths, system, cells, facts, topologies)
    for i, metric in enumerate(computed):
        if not _compute(cube, metric, {other.name for other in computed[i:]}):
            left_out.append(f"{metric.name} ({metric.given['type']})")
    if left_out:
        cube.facts["left_out"] = left_out
    cube = cube.replaced(properties=replace(cube.properties))
    if what := checks.wrong_trees(tree_tables(cube)):
        raise damaged(f"{path}: {what}")
    if beside:
        why = f"{path}: topologies that are left out, since positions are not on their grids: {', '.join(beside)}"
        warnings.warn(why, ForeignCubeWarning, stacklevel=4)
    return cube
