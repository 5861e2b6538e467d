"""Change values of a severity cube, correct all checksums, and check that every command either refuses the cube with a
message or works."""

from __future__ import annotations

import io
import os
import random
import re
import resource
import shutil
import signal
import tarfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from support.small_cubes import random_cube
from support.store_mutations import change_array, change_list, change_manifest
from tracecols.cli import group
from tracecols.errors import SeverityError
from tracecols.export.cube_read import read_cube
from tracecols.export.tables import write_cube
from tracecols.severity import SeverityCube
from tracecols.store.arrow import to_arrow
from tracecols.store.layout import MANIFEST

SECONDS = 20
"""Limit of the processor time of a command on a small cube, in seconds."""

MEMORY = 2 << 30
"""Limit of the memory of a command in addition to that of the process, in bytes."""

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "show": lambda cube, out: ["show", str(cube)],
    "report": lambda cube, out: ["report", str(cube), "-o", str(out / "x.html")],
    "export": lambda cube, out: ["export", str(cube), str(out / "x.csv")],
    "export to cubex": lambda cube, out: ["export", str(cube), str(out / "x.cubex")],
    "export to cube": lambda cube, out: ["export", str(cube), str(out / "x.cube")],
    "export to json": lambda cube, out: ["export", str(cube), str(out / "x.json")],
    "diagnose": lambda cube, out: ["diagnose", str(cube)],
    "compare": lambda cube, out: ["compare", str(cube), str(cube), "-o", str(out / "y.severity")],
    "rules": lambda cube, out: ["rules", str(cube)],
    "efficiency": lambda cube, out: ["efficiency", str(cube)],
    "info": lambda cube, out: ["info", str(cube)],
    "show over time": lambda cube, out: ["show", str(cube), "--over-time"],
    "show a call tree": lambda cube, out: ["show", str(cube), "-p", "time"],
    "show a grid": lambda cube, out: ["show", str(cube), "-p", "time", "--topology", "0"],
}  # fmt: skip
"""Commands that are run on every cube that is not refused."""


# -- changes -----------------------------------------------------------------------------------------------------------


def change_rows(table: pa.Table, chance: random.Random) -> pa.Table:
    """Change rows: remove some, repeat some or all, reorder them, or repeat one very often."""
    n = table.num_rows
    order = np.arange(n)
    match chance.randrange(9):
        case 0:
            order = np.concatenate([order, order])
        case 1:
            order = np.repeat(order, 2)
        case 2:
            order = np.random.default_rng(chance.randrange(1 << 30)).permutation(n)
        case 3:
            order = order[::-1]
        case 4:
            order = np.sort(np.append(order, chance.randrange(n)))
        case 5:
            order = np.delete(order, slice(at := chance.randrange(n), at + chance.choice([1, 1, 5])))
        case 6:
            order = np.roll(order, 1)
        case 7:
            order = order[:0]
        case _:
            # a decompression bomb: one row repeated a million times or more, in a few kilobytes
            order = np.full(chance.choice([1 << 20, 5 << 20]), chance.randrange(n))
    return table.take(pa.array(order))


def change_columns(table: pa.Table, chance: random.Random) -> pa.Table:
    """Change columns: remove one, add one, exchange two, or change the type of one."""
    at = chance.randrange(table.num_columns)
    field = table.schema.field(at)
    match chance.randrange(5):
        case 0:
            return table.remove_column(at)
        case 1:
            return table.append_column(
                pa.field("more", pa.int64(), nullable=False), pa.array([0] * table.num_rows, pa.int64())
            )
        case 2:
            other = chance.choice([i for i in range(table.num_columns) if table.schema.field(i).type == field.type])
            values = table.column(at)
            return table.set_column(at, field, table.column(other)).set_column(other, table.schema.field(other), values)
        case 3:
            types = [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.string()]
            kind = chance.choice([t for t in types if t != field.type])
            nothing = pa.array([{"string": "", "bool": False}.get(str(kind), 0)] * table.num_rows, kind)
            return table.set_column(at, pa.field(field.name, kind, nullable=False), nothing)
        case _:
            return table.set_column(
                at, pa.field(field.name, field.type, nullable=True), pa.nulls(table.num_rows, field.type)
            )


def change_values(table: pa.Table, chance: random.Random) -> pa.Table:
    """Change values of one or two columns."""
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(table.num_columns)
        field, column = table.schema.field(at), table.column(at)
        if pa.types.is_string(field.type):
            values: Any = change_list(column.to_pylist(), "string", chance)
        elif field.name == "value" and chance.randrange(2):
            # values of float64, stored as their bits
            values = column.to_numpy().copy()
            values.view(np.float64)[chance.randrange(values.size)] = chance.choice(
                [np.nan, np.inf, -np.inf, 1e308, 1e-320, -1.0]
            )
        elif pa.types.is_floating(field.type):
            values = column.to_numpy().copy()
            values[chance.randrange(values.size)] = chance.choice([np.nan, np.inf, -np.inf, -1.0, 2.0, 1e308])
        else:
            values = change_array(column.to_numpy(), chance)
        table = table.set_column(at, field, to_arrow(values, field.type))
    return table


def change_tree(table: pa.Table, chance: random.Random) -> pa.Table:
    """Give a node another parent, such as itself, the next node, or a descendant."""
    at = table.schema.get_field_index("parent")
    if at < 0 or table.num_rows < 2:
        return change_values(table, chance)
    field, values = table.schema.field(at), table.column(at).to_pylist()
    node = chance.randrange(len(values))
    other = chance.choice([node, (node + 1) % len(values), chance.randrange(len(values))])
    values[node] = table.column("id")[other].as_py() if field.type == pa.string() else other
    if chance.randrange(3) == 0:
        values[other] = table.column("id")[node].as_py() if field.type == pa.string() else node
    return table.set_column(at, field, to_arrow(values, field.type))


def change_table(path: Path, chance: random.Random) -> bytes:
    """Change a Parquet file of a cube; the checksums of its pages are correct."""
    table = pq.ParquetFile(path).read()
    if table.num_rows:
        how = chance.choice([change_rows, change_columns, change_values, change_values, change_values, change_tree])
        table = how(table, chance)
    else:
        columns = [np.zeros(3, f.type.to_pandas_dtype()) if f.type != pa.string() else ["x"] * 3 for f in table.schema]
        table = pa.Table.from_arrays(
            [to_arrow(c, f.type) for c, f in zip(columns, table.schema, strict=True)], schema=table.schema
        )
    out = io.BytesIO()
    pq.write_table(table, out, compression="lz4", write_page_checksum=True)
    return out.getvalue()


NUMBER = re.compile(rb"(?<=[>\" ])-?\d+(\.\d+)?(e-?\d+)?(?=[<\"\n ])")
"""Numbers in the XML of a cube."""


def change_xml(text: bytes, chance: random.Random) -> bytes:
    """Change a number or a word, or remove or repeat a line, in the XML of a cube."""
    lines = text.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            found = [*re.finditer(rb">([^<>]*)<|\"([^\"]*)\"", text)]
            place = chance.choice(found)
            return (
                text[: place.start() + 1]
                + chance.choice([b"", b"x", b"FLOAT", b"MINDOUBLE", b"INCLUSIVE", b"1"])
                + text[place.end() - 1 :]
            )
        case _:
            found = [*NUMBER.finditer(text)]
            place = chance.choice(found)
            other = chance.choice(
                [
                    b"-1",
                    b"0",
                    b"1",
                    b"nan",
                    b"inf",
                    b"1e308",
                    b"99999999",
                    b"2147483648",
                    b"9223372036854775808",
                    chance.choice(found)[0],
                ]
            )
            return text[: place.start()] + other + text[place.end() :]
    return b"\n".join(lines)


def change_cubex(data: bytes, chance: random.Random) -> bytes:
    """Change the anchor of an archive, or exchange, remove or change one of its other members."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
    others = [name for name in members if name != "anchor.xml"]
    match chance.randrange(6):
        case 0:
            del members[chance.choice(others)]
        case 1:
            a, b = chance.choice(others), chance.choice(others)
            members[a], members[b] = members[b], members[a]
        case 2:
            name = chance.choice(others)
            content = bytearray(members[name])
            # bytes after the name of the format: numbers of rows and call paths
            content[chance.randrange(11, len(content))] = chance.randrange(256)
            members[name] = bytes(content)
        case _:
            members["anchor.xml"] = change_xml(members["anchor.xml"], chance)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def change(cube: Path, chance: random.Random) -> tuple[Path, bytes]:
    """Choose a file of a cube and its changed content."""
    if cube.is_file():
        data = cube.read_bytes()
        return cube, change_cubex(data, chance) if cube.suffix == ".cubex" else change_xml(data, chance)
    files = sorted(cube.glob("*.parquet"))
    if chance.randrange(6) == 0:
        return cube / MANIFEST, change_manifest((cube / MANIFEST).read_bytes(), chance)
    path = chance.choice([*files, *[f for f in files if f.stem in ("cells", "period_cells")] * 3])
    return path, change_table(path, chance)


# -- use ---------------------------------------------------------------------------------------------------------------


class Failure(Exception):
    """A command ended in an unexpected way."""


@contextmanager
def limits(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """Limit processor time and additional memory within the context."""

    def late(*_: object) -> None:
        raise Failure(f"takes longer than {seconds} s")

    # a timer of processor time, which does not depend on the load of the machine
    before, (soft, hard) = signal.signal(signal.SIGPROF, late), resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    signal.setitimer(signal.ITIMER_PROF, seconds)
    most = used + memory if hard == resource.RLIM_INFINITY else min(used + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(name: str, cube: Path, out: Path) -> str:
    """Run a command; return its error, or an empty text.

    Raises
    ------
    Failure
        If it ends with a traceback, without a message, or with an error that does not say what to do.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with limits():
        result = CliRunner().invoke(group, COMMANDS[name](cube, out))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Failure(f"{name}: {''.join(traceback.format_exception(result.exception))[-1500:]}") from result.exception
    if result.exit_code == 0:
        return ""
    error = result.output[result.output.find("error: ") :] if "error: " in result.output else ""
    if result.exit_code != 1 or "\n  " not in error:
        raise Failure(f"{name}: exit code {result.exit_code}, {result.output[-300:]!r}")
    return error


def content(cube: SeverityCube) -> dict[str, Any]:
    """Return the whole content of a cube."""
    held: dict[str, Any] = {}
    for axis in ("properties", "call_paths", "system"):
        of = getattr(cube, axis)
        held |= {f"{axis}.{c}": np.asarray(getattr(of, c)).tolist() for c in of.__dataclass_fields__}
    held["topologies"] = [t.to_dict() for t in cube.topologies]
    held["facts"] = {k: v for k, v in cube.facts.items() if k != "source"}
    held["cells"] = {n: (c.key.tolist(), c.value.dtype.kind, c.value.tolist()) for n, c in cube.cells.items()}
    if cube.periods is not None:
        held["periods"] = {k: np.asarray(v).tolist() for k, v in vars(cube.periods).items()}
        held["period_cells"] = {
            n: [np.asarray(v).tolist() for v in vars(c).values()] for n, c in cube.period_cells.items()
        }
    return held


def try_one(cube: Path, seed: int, out: Path, before: dict[str, Any] | None = None) -> str:
    """Change a cube, run all commands on it, repair it.

    Returns `refused`, `same`, or `another value` with the names of what differs from the sound cube but is also valid.

    Raises
    ------
    Failure
        If a command ends in an unexpected way.
    """
    before = content(read_cube(cube)) if before is None else before
    path, data = change(cube, random.Random(seed))
    sound = path.read_bytes()
    path.write_bytes(data)
    try:
        with limits():
            try:
                found = content(read_cube(cube))
            except SeverityError as error:
                assert "\n  " in str(error), error
                assert str(cube) in str(error), error
                found = None
        if found is None:
            for name in random.Random(seed).sample([*COMMANDS], 2):
                if not run(name, cube, out):
                    raise Failure(f"{name}: does not refuse what cannot be read")
            return "refused"
        for name in COMMANDS:
            run(name, cube, out)
        differs = sorted(
            what for what in before.keys() | found.keys() if repr(before.get(what)) != repr(found.get(what))
        )
        return f"another value: {', '.join(differs)}" if differs else "same"
    finally:
        path.write_bytes(sound)
        shutil.rmtree(out, ignore_errors=True)


def write_cubes(folder: Path, archive: Path | None = None) -> list[Path]:
    """Write a made-up cube, and cubes of a trace: whole, by bins, narrowed, computed from others; some also in other
    formats."""
    import tracecols

    folder.mkdir(parents=True, exist_ok=True)
    cubes = {"random": random_cube(7)}
    written = ["random"]
    if archive is not None:
        trace = tracecols.open(tracecols.convert(archive, folder / "x.trace", jobs=1), jobs=1)
        cubes["whole"] = trace.analyze(ideal_network=True)
        cubes["bins"] = trace.analyze(bins=5, properties=["mpi", "visits", "delay"])
        cubes["narrowed"] = trace.analyze(within="*MPI*", locations=[0], conventions="expert")
        cubes["difference"] = cubes["whole"] - trace.analyze("expert")
        written.append("narrowed")
    for name, of in cubes.items():
        of.save(folder / f"{name}.severity")
    for name in written:
        for ending in ("cubex", "cube"):
            write_cube(cubes[name], folder / f"{name}.{ending}")
    return sorted(p for p in folder.iterdir() if p.suffix in (".severity", ".cubex", ".cube"))
