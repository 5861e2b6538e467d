"""Write enhanced tables as Parquet files, slice by slice, in bounded memory; the same files for any number of threads.

The slices of a trace (partitions, ranges of collective operations) make their rows independently. If the rows of each
slice precede those of the next, every slice writes a file. Otherwise, and if other tables refer to rows by their
numbers, the slices are merged: each leaves its sorted rows in a scratch file, and these files are merged range by range
of the sort keys (`TableSpec.order`), which gives each row the number it has in Python.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import write_array
from tracecols.enhance.dataflow.steps import BUCKET, RECEIVE
from tracecols.enhance.scan.facts import Facts
from tracecols.model.model import Model, Progress
from tracecols.model.pointers import SlicePointers
from tracecols.model.table_files import FOLDER, ROWS, VERSION, origin, part_writer, schema_of
from tracecols.model.tables import STEP_OF, TABLES, TableSpec
from tracecols.schema import EVENTS, Table
from tracecols.store.arrow import ParquetWriter, arrow_schema, as_batch, open_file, to_numpy
from tracecols.store.layout import part_name, write_manifest
from tracecols.store.outputs import folder_output
from tracecols.vectors import Ints
from tracecols.work.ahead import let_go
from tracecols.work.heap import give_back
from tracecols.work.large import zeros_in_file
from tracecols.work.scratch import reserve

SAMPLE = 64
"""The bounds of the ranges in which slices are merged are chosen among every SAMPLE-th row."""

PART_ROWS = 1 << 24
"""Approximate number of rows of a file of merged slices."""


class Parts:
    """The files of an enhanced table that one writer makes, with `n` rows until now. Each is completed before the next
    one begins, after `rows` rows; by default there is one file."""

    def __init__(self, folder: Path, number: int, table: Table, rows: int | None = None) -> None:
        self.folder, self.number, self.table, self.rows = folder, number, table, rows
        self.schema = arrow_schema(table)
        self.n = self._n_here = 0
        self._writer: ParquetWriter | None = None

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def write(self, column: Callable[[str], Any]) -> None:
        """Write some rows; `column` returns their columns by name."""
        if self.rows is not None and self._n_here >= self.rows:
            self.__exit__()
            self.number, self._n_here = self.number + 1, 0
        if self._writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._writer = part_writer(self.folder / part_name(self.number), self.table)
        batch = as_batch(self.schema, column)
        self._writer.write_table(pa.Table.from_batches([batch]), row_group_size=ROWS)
        self.n += batch.num_rows
        self._n_here += batch.num_rows

    def write_rows(self, column: Callable[[str], NDArray[Any]], n: int, order: Ints | None = None) -> None:
        """Write the `n` rows of columns in the given order, block by block."""
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            rows = slice(start, stop) if order is None else order[start:stop]
            self.write({name: column(name)[rows] for name in self.table.names}.__getitem__)


def rows_ascend(division: Division) -> bool:
    """Return whether the events of every partition lie before those of the next."""
    last = -1
    for partition in division.partitions:
        if partition.members.size:
            if int(partition.members.min()) <= last:
                return False
            last = int(partition.members.max())
    return True


def is_separable(spec: TableSpec, division: Division) -> bool:
    """Return whether every slice can write its rows by itself: no row lies between those of another slice, and no table
    refers to their numbers."""
    if len(division) == 1 or not spec.order:
        return True
    refers = spec.references or any(spec.name in other.references.values() for other in TABLES.values())
    by_own_event = len(spec.order) == 1 and spec.schema[spec.order[0]].target == "events"
    return not refers and by_own_event and spec.stage != BUCKET and rows_ascend(division)


@dataclass(frozen=True)
class SliceWriter:
    """Write the rows of some tables in a slice; called by `Run.stages`."""

    folder: Path
    """`TABLE/part-NNNNN.parquet` of the tables that slices write by themselves, `slices/TABLE-NNNNN.arrow` of the
    others."""
    wanted: tuple[str, ...]
    separable: frozenset[str]
    positions: Path | None = None
    """The file with the column `pos`, for `events`."""
    dtype: str = "int64"
    """Dtype of the numbers in this file."""

    def __call__(self, view: Model, stage: str) -> None:
        """Write the tables of a stage."""
        number = view.get("bucket").number if stage == BUCKET else max(view.get("partition"), 0)
        if stage == RECEIVE and "events" in self.wanted:
            self._events(view, number)
        for spec in TABLES.values():
            if spec.name in self.wanted and spec.stage == stage:
                if spec.name in self.separable:
                    with Parts(self.folder / spec.name, number, spec.schema) as parts:
                        for table in made_of(view, spec):
                            parts.write_rows(table.column, len(table), in_order(spec, table))
                else:
                    leave_slice(slice_path(self.folder, spec.name, number), spec, view.declared_table(spec.name))

    def _events(self, view: Model, number: int) -> None:
        table, pointers = schema_of("events"), SlicePointers(view)
        with Parts(self.folder / "events", number, table) as parts:
            for location in np.sort(view.members).tolist():
                stacks = pointers.stacks(location)
                for start in range(0, stacks.time.size, ROWS):
                    stop = min(start + ROWS, stacks.time.size)
                    columns: dict[str, NDArray[Any]] = dict(pointers.columns(stacks, start, stop))
                    for name in EVENTS.names:
                        columns[name] = getattr(stacks, name)[start:stop]
                    columns["location"] = np.full(stop - start, location, np.int32)
                    columns["pos"] = self._positions(stacks.first + start, stop - start)
                    parts.write(columns.__getitem__)

    def _positions(self, first: int, n: int) -> Ints:
        assert self.positions is not None
        dtype = np.dtype(self.dtype)
        return np.fromfile(self.positions, dtype, n, offset=first * dtype.itemsize).astype(np.int64, copy=False)


def slice_path(folder: Path, name: str, number: int) -> Path:
    """Return the file in which a slice leaves its rows of a table."""
    return folder / "slices" / f"{name}-{number:05d}.arrow"


def made_of(view: Model, spec: TableSpec) -> Iterator[CompoundTable]:
    """Make a table of a slice, location by location if it can be made so."""
    if not spec.by_location:
        yield view.declared_table(spec.name)
        return
    step = STEP_OF[spec.name]
    for location in np.sort(view.members):
        yield step.function(*(np.array([location]) if name == "members" else view.get(name) for name, _ in step.reads))


def in_order(spec: TableSpec, table: Columns) -> Ints | None:
    """Return the permutation that sorts the rows of a slice; None if they are sorted."""
    keys = [table[name] for name in spec.order]
    if not keys:
        return None
    ascends = np.ones(max(len(table) - 1, 0), bool)
    for key in reversed(keys):
        ascends = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & ascends)
    return None if ascends.all() else np.lexsort(keys[::-1])


def leave_slice(path: Path, spec: TableSpec, table: CompoundTable) -> None:
    """Write the sorted rows of a slice to `slice_path`, with their numbers in the slice, for `merge_slices`."""
    order = in_order(spec, table)
    rows: Any = slice(None) if order is None else order
    beside = [*(name for name in spec.order if name not in spec.schema.names), "number"]
    schema = pa.schema([*arrow_schema(spec.schema), *(pa.field(name, pa.int64(), nullable=False) for name in beside)])
    number = np.arange(len(table))
    path.parent.mkdir(exist_ok=True)
    with open_file(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(as_batch(schema, lambda name: (number if name == "number" else table[name])[rows]))


class Slice:
    """The rows that `leave_slice` wrote, mapped from their file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._batch: pa.RecordBatch = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._pages))).get_batch(0)

    def __len__(self) -> int:
        return self._batch.num_rows

    def rows(self, name: str, start: int, stop: int) -> pa.Array:
        """Return the rows of a column with start <= row < stop."""
        return self._batch.column(name).slice(start, stop - start)

    def numbers(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows of a column of numbers, without a copy."""
        return to_numpy(pa.chunked_array([self.rows(name, start, len(self) if stop is None else stop)]))

    def let_go(self) -> None:
        let_go(self._pages)


def merge_slices(
    spec: TableSpec, paths: Sequence[Path], folder: Path, numbers: Mapping[str, Sequence[Ints]]
) -> list[Ints]:
    """Merge the rows of all slices, as `leave_slice` wrote them, range by range, in the memory of one range.

    `numbers` holds, for each table that this one refers to, by slice the number of each row in the whole table. Returns
    the same for this table, mapped from files.
    """
    found = [Slice(path) for path in paths]
    own = [
        zeros_in_file(path.with_suffix(".numbers"), len(one), np.int64) if len(one) else np.zeros(0, np.int64)
        for path, one in zip(paths, found, strict=True)
    ]
    first = [one.numbers(spec.order[0]) for one in found]
    sampled = np.sort(np.concatenate([np.zeros(0, np.int64), *(key[::SAMPLE] for key in first)]))
    at, done = [0] * len(found), 0
    with Parts(folder, 0, spec.schema, PART_ROWS) as parts:
        for cut in [*distinct(sampled[ROWS // SAMPLE :: ROWS // SAMPLE]).tolist(), None]:
            stop = [key.size if cut is None else int(np.searchsorted(key, cut)) for key in first]
            spans = [(i, a, b) for i, (a, b) in enumerate(zip(at, stop, strict=True)) if a < b]
            at = stop
            if not spans:
                continue
            keys = [np.concatenate([found[i].numbers(name, a, b) for i, a, b in spans]) for name in spec.order]
            order = np.lexsort(keys[::-1])
            parts.write(partial(_merged_column, spec, found, spans, order, numbers))
            position = np.empty(order.size, np.int64)
            position[order] = np.arange(done, done + order.size)
            done += order.size
            for (i, a, b), of in zip(
                spans, np.split(position, np.cumsum([b - a for _, a, b in spans])[:-1]), strict=True
            ):
                own[i][found[i].numbers("number", a, b)] = of
            for one in found:
                one.let_go()
            for mapped in [*own, *(m for target in spec.references.values() for m in numbers[target])]:
                if isinstance(mapped.base, mmap.mmap):
                    let_go(mapped.base)
    return own


def _merged_column(
    spec: TableSpec,
    found: Sequence[Slice],
    spans: Sequence[tuple[int, int, int]],
    order: Ints,
    numbers: Mapping[str, Sequence[Ints]],
    name: str,
) -> Any:
    """Return a column of some rows of several slices in their order, with references to rows of a slice converted to
    rows of the whole table."""
    if spec.schema[name].dtype == "string":
        return pa.concat_arrays([found[i].rows(name, a, b) for i, a, b in spans]).take(pa.array(order))
    target = spec.references.get(name)
    values = [found[i].numbers(name, a, b) for i, a, b in spans]
    if target is not None:
        values = [pick(numbers[target][i], v) for (i, _, _), v in zip(spans, values, strict=True)]
    return np.concatenate(values)[order]


def write_positions(facts: Facts, folder: Path) -> tuple[Path, str]:
    """Write the position of every event in chronological order to a file, with a temporary one of 8 B per event for the
    times. Returns the file and its dtype."""
    store, n = facts.store, int(facts.store.manifest["n_events"])
    dtype = np.dtype(np.int32 if n < 1 << 31 else np.int64)
    times, positions = folder / "time", folder / "pos"
    with times.open("wb") as file:
        for location in range(facts.n_locations):
            write_array(file, store.read("events", location, ["time"])["time"])
    with positions.open("wb") as file:
        reserve(file.fileno(), n * dtype.itemsize)
    if n:
        with times.open("rb") as of_times, positions.open("r+b") as of_positions:
            pages = (
                mmap.mmap(of_times.fileno(), 0, access=mmap.ACCESS_READ),
                mmap.mmap(of_positions.fileno(), 0, access=mmap.ACCESS_WRITE),
            )
        time, position = np.frombuffer(pages[0], np.int64), np.frombuffer(pages[1], dtype)

        def forget() -> None:
            """Release the pages of the files from memory."""
            for mapped in pages:
                let_go(mapped)

        for _ in facts.order.fill_positions(time, position, forget):
            pass
        # a file that is mapped cannot be removed on every platform
        del time, position
        for mapped in pages:
            mapped.close()
    times.unlink()
    return positions, dtype.name


def with_referred(names: Iterable[str]) -> tuple[str, ...]:
    """Add the tables that some tables refer to, in an order in which every table follows those it refers to."""
    wanted = set(names)
    waiting = list(wanted)
    while waiting:
        spec = TABLES.get(waiting.pop())
        for name in spec.references.values() if spec is not None else ():
            if name not in wanted:
                wanted.add(name)
                waiting.append(name)
    result: list[str] = [name for name in ("events", "call_paths") if name in wanted]
    left = [name for name in TABLES if name in wanted]
    while left:
        ready = [n for n in left if not set(TABLES[n].references.values()) & set(left)]
        assert ready, f"the tables {left} refer to each other"
        result += ready
        left = [n for n in left if n not in ready]
    return tuple(result)


def write_tables(
    model: Model, names: Iterable[str], parent: Path | None = None, progress: Progress | None = None
) -> None:
    """Write enhanced tables, and those that they refer to; older ones are replaced. Their folders are in `parent`, by
    default `enhanced/` of the store. Raises StoreError if they cannot be written."""
    wanted = with_referred(names)
    parent = parent or model.facts.store.path / FOLDER
    with ExitStack() as stack:
        outputs = {name: folder_output(parent / name, "an enhanced table", is_part=True) for name in wanted}
        folders = {name: stack.enter_context(output.new()) for name, output in outputs.items()}
        if not folders:
            return
        # all files are first written beside one of the outputs, so on the same disk
        building = folders[wanted[0]].parent / "building"
        building.mkdir()
        pos = write_positions(model.facts, building) if "events" in wanted else (None, "")
        stages = {TABLES[name].stage if name in TABLES else RECEIVE for name in wanted if name != "call_paths"} - {""}
        # values that slices keep for each other are freed before their tables are merged
        with model.divided() as run:
            separable = frozenset(n for n in wanted if n not in TABLES or is_separable(TABLES[n], run.division))
            for _ in run.stages(SliceWriter(building, wanted, separable, *pos), stages, progress):
                pass
        give_back()
        finish_tables(model, wanted, separable, building)
        for name, folder in folders.items():
            files = sorted((building / name).glob("part-*.parquet"))
            for number, file in enumerate(files):
                file.rename(folder / part_name(number))
            content = {**origin(model.facts.store, name), "files": [part_name(i) for i in range(len(files))]}
            write_manifest(folder, "an enhanced table", VERSION, content)


def finish_tables(model: Model, wanted: Sequence[str], separable: frozenset[str], building: Path) -> None:
    """Merge the files of slices, and write the tables of the whole trace; every table then has a file."""
    numbers: dict[str, list[Ints]] = {}
    for name in wanted:
        spec, schema = TABLES.get(name), schema_of(name)
        if name == "call_paths":
            tree = model.call_paths
            path = np.array([*tree.paths_of(model.regions.name), None], object)[:-1]
            columns = {**{c: getattr(tree, c) for c in schema.names if c != "path"}, "path": path}
            with Parts(building / name, 0, schema) as parts:
                parts.write_rows(columns.__getitem__, len(tree))
        elif spec is not None and not spec.stage:
            with Parts(building / name, 0, schema) as parts:
                parts.write_rows(model.get(name).column, len(model.get(name)))
        elif spec is not None and name not in separable:
            slices = sorted((building / "slices").glob(f"{name}-[0-9]*.arrow"))
            numbers[name] = merge_slices(spec, slices, building / name, numbers)
        if not any((building / name).glob("part-*.parquet")):
            with Parts(building / name, 0, schema) as parts:
                parts.write(CompoundTable.empty(schema).column)
