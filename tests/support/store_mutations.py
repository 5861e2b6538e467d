"""Change values of a store, correct all checksums, and check that using it works or raises an error of tracecols.

Also a program, to be started in `tests` with bounds checks of the kernels: ``python -m support.store_mutations FOLDER
FIRST_SEED COUNT`` writes a store into FOLDER and prints how many changed stores could be used and were refused.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracecols.errors import TracecolsError
from tracecols.schema import DEFINITIONS, EVENTS, SIDE_TABLES
from tracecols.store import Store
from tracecols.store.arrow import arrow_schema, event_writer, to_arrow
from tracecols.store.layout import MANIFEST, checksum

NUMBERS = (-(2**63), -(2**31), -257, -2, -1, 0, 1, 2, 10, 255, 256, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


def other_number(chance: random.Random, values: np.ndarray) -> int:
    """Choose a number for a column: an extreme one, one close to a value of the column, or a random one."""
    dtype = values.dtype
    low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if dtype.kind in "iu" else (-(2**63), 2**63 - 1)
    found = int(values[chance.randrange(values.size)]) if values.size and dtype.kind in "iu" else 0
    number = chance.choice([*NUMBERS, low, high, found, found + 1, found - 1, int(values.size), chance.getrandbits(62)])
    return min(max(number, low), high)


def change_array(values: np.ndarray, chance: random.Random) -> np.ndarray:
    """Change numbers: one, several or all, or exchange two."""
    result = values.copy()
    if not result.size:
        return result
    n = result.size
    match chance.randrange(6):
        case 0:
            a, b = chance.randrange(n), chance.randrange(n)
            result[a], result[b] = values[b], values[a]
        case 1:
            result[:] = other_number(chance, values)
        case 2:
            first = chance.randrange(n)
            result[first : first + chance.randrange(1, 20)] = other_number(chance, values)
        case 3:
            result[:] = np.roll(values, chance.randrange(1, max(n, 2)))
        case _:
            for _ in range(chance.choice((1, 1, 1, 3))):
                result[chance.randrange(n)] = other_number(chance, values)
    return result


def change_list(values: list[Any], dtype: str, chance: random.Random) -> list[Any]:
    """Change one of several texts or lists."""
    if not values:
        return values
    result = list(values)
    at = chance.randrange(len(values))
    if dtype.startswith("list["):
        inner = list(values[at])
        match chance.randrange(4):
            case 0:
                inner = inner[:-1]
            case 1:
                inner = [*inner, *(inner[:1] or (["x"] if "string" in dtype else [0]))]
            case 2:
                inner = list(chance.choice(values))
            case _:
                if inner:
                    place = chance.randrange(len(inner))
                    numbers = np.array([0], dtype[5:-1]) if "string" not in dtype else None
                    inner[place] = "x" if numbers is None else other_number(chance, numbers)
        result[at] = inner
    else:
        result[at] = chance.choice(
            [*values, "", "x", "self", "inter", "artificial", "openmp", "p2p", "events", "ä" * 300]
        )
    return result


def change_table(path: Path, chance: random.Random) -> bytes:
    """Change a Parquet file of a store; the checksums of its pages are correct."""
    file = pq.ParquetFile(path)
    table = file.read()
    definition = DEFINITIONS.get(path.stem) if path.parent.name == "definitions" else None
    columns: dict[str, Any] = {}
    for field in table.schema:
        plain = pa.types.is_list(field.type) or pa.types.is_string(field.type)
        columns[field.name] = (
            table.column(field.name).to_pylist() if plain else table.column(field.name).to_numpy().copy()
        )
    rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    if chance.randrange(8) == 0 and table.num_rows:
        # remove or repeat a row
        at, more = chance.randrange(table.num_rows), chance.randrange(2)
        columns = {
            c: np.insert(v, at, v[at])
            if more and isinstance(v, np.ndarray)
            else np.delete(v, at)
            if isinstance(v, np.ndarray)
            else v[: at + more] + v[at + 1 - (1 - more) + (1 - more) - more :]
            for c, v in columns.items()
        }
        size = len(next(iter(columns.values())))
        columns = {c: v[:size] for c, v in columns.items()}
        rows = [size]
    else:
        for _ in range(chance.choice((1, 1, 2))):
            name = chance.choice(table.schema.names)
            values = columns[name]
            if isinstance(values, np.ndarray):
                columns[name] = change_array(values, chance)
            else:
                declared = next(c for c in definition.columns if c.name == name) if definition else None
                columns[name] = change_list(values, declared.dtype if declared else "string", chance)
    arrays = [to_arrow(columns[f.name], f.type) for f in table.schema]
    if len({len(a) for a in arrays}) > 1:
        size = min(len(a) for a in arrays)
        arrays, rows = [a[:size] for a in arrays], [size]
    changed = pa.Table.from_arrays(arrays, schema=table.schema)
    known = definition or {**SIDE_TABLES, "events": EVENTS}.get(path.parent.name)
    if known is not None and definition is None and arrow_schema(known) == table.schema:
        with tempfile.NamedTemporaryFile(suffix=".parquet") as out:
            with event_writer(Path(out.name), known) as writer:
                start = 0
                for n in rows:
                    writer.write_table(changed.slice(start, n), row_group_size=max(n, 1))
                    start += n
            return Path(out.name).read_bytes()
    out = io.BytesIO()
    pq.write_table(changed, out, row_group_size=max(*rows, 1), compression="lz4", write_page_checksum=True)
    return out.getvalue()


def change_manifest(data: bytes, chance: random.Random) -> bytes:
    """Change or remove an entry of a manifest; its checksum is correct."""
    manifest = json.loads(data)
    at: Any = manifest
    while True:
        key = chance.choice([*at]) if isinstance(at, dict) else chance.randrange(len(at))
        if not isinstance(at[key], (dict, list)) or not at[key] or chance.randrange(6) == 0:
            break
        at = at[key]
    if chance.randrange(8) == 0:
        del at[key]
    elif isinstance(at[key], int):
        at[key] = chance.choice([*NUMBERS, at[key] + 1, -at[key], 2**64, 2**70, 1.5, "1", None, [], {}])
    else:
        at[key] = chance.choice(["", "x", 0, -1, None, [], {}, [1], {"a": 1}])
    manifest["checksum"] = checksum(manifest)
    return json.dumps(manifest).encode()


def change(store: Path, chance: random.Random) -> tuple[Path, bytes]:
    """Choose a file of a store and its changed content."""
    files = sorted(p for p in store.rglob("*") if p.is_file())
    # tables of events and their attributes are chosen about as often as all definitions
    tables = [p for p in files if p.parent.name != "definitions" and p.suffix == ".parquet"]
    match chance.randrange(8):
        case 0:
            return store / MANIFEST, change_manifest((store / MANIFEST).read_bytes(), chance)
        case 1 | 2 | 3:
            path = chance.choice([p for p in files if p.parent.name == "definitions"])
        case _:
            path = chance.choice(tables)
    return path, change_table(path, chance)


def use(path: Path, out: Path, how: int) -> None:
    """Use a store in one of several ways; `how` selects it."""
    import tracecols
    from tracecols.earl import EventTrace
    from tracecols.export.archive import export_archive
    from tracecols.export.viewers import export_timeline
    from tracecols.model.model import enhance as enhance_store
    from tracecols.patterns.constraints import find_violations
    from tracecols.report.check import check_trace, lines
    from tracecols.report.info import describe
    from tracecols.search.cube import analyze_model

    match how % 8:
        case 0:
            analyze_model(enhance_store(Store(path), 1), "expert")
        case 1:
            list(lines(check_trace(enhance_store(Store(path), 1))))
        case 2:
            describe(Store(path))
            find_violations(enhance_store(Store(path), 1))
        case 3:
            trace = tracecols.open(path, jobs=1)
            first, last = (trace.manifest[k] for k in ("first_time", "last_time"))
            middle = trace.seconds((first + last) // 2)
            trace.analyze(start=float(middle))
        case 4:
            export_timeline(path, out / "x.trace.json", waits=["mpi_latesender"], critical_path=False, jobs=1)
        case 5:
            export_timeline(path, out / "x.pftrace", waits="none", critical_path=False, jobs=1)
        case 6:
            export_archive(path, out / "x.otf2", jobs=1)
        case _:
            events = EventTrace(path)
            for pos in range(1, min(events.nevents, 50)):
                _ = events.event(pos), events.queue(pos)
    analyze_model(enhance_store(Store(path), 1))


def try_one(store: Path, seed: int, out: Path) -> str:
    """Change a store, use it, repair it; return `used`, or the text of the error."""
    chance = random.Random(seed)
    path, data = change(store, chance)
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        use(store, out, seed)
        return "used"
    except TracecolsError as error:
        assert "\n  " in str(error), error
        return f"refused: {error}"
    finally:
        path.write_bytes(before)
        shutil.rmtree(store / "enhanced", ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()


def write_store(folder: Path) -> Path:
    """Write a store with all kinds of events."""
    import tracecols
    from support.otf2_workload import everything, leave_out_large_numbers

    leave_out_large_numbers()
    archive = everything(folder / "archive" / "traces.otf2", rounds=3).write()
    return tracecols.convert(archive, folder / "x.trace", jobs=1)


def main() -> None:
    """Run changes; print how many stores could be used and how many were refused."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    store, out = write_store(folder), folder / "out"
    out.mkdir()
    seen = {"used": 0, "refused": 0}
    for seed in range(first, first + count):
        print(f"seed {seed}", file=sys.stderr, flush=True)
        seen[try_one(store, seed, out).partition(":")[0]] += 1
    print(seen["used"], seen["refused"])


if __name__ == "__main__":
    main()
