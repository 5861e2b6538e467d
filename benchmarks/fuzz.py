"""A fuzz campaign over all converters, stores and severity cubes: `python -m benchmarks.fuzz --mutations 100000`.

Small traces are damaged at random, one file at a time (otf2_mutations, epilog_mutations, paraver_mutations, kineto_mutations and
nsight_mutations of tests/support), then
converted and analyzed by worker processes. `--only "values*"` changes values of stores, with all checksums corrected
(store_mutations), `--only "*cube*"` those of cubes (cube_mutations), which all commands that read cubes must refuse
with a message or accept; `--bounds` checks every index of the kernels. A worker that dies, hangs or exceeds its memory
limit is a failure, like any error that is not one of tracecols'. If the damaged trace is read, the result is compared
with the sound trace:

* *same*: all events, attributes, definitions and severities are equal; the definitions may be in another order.
* *reported*: something differs and the store reports it: lost events, unknown records, missing definitions,
  contradictions that `tracecols check` counts.
* *silent*: something differs without a report. Traces have no checksums; differences are classified by `explain`:

  * *another value*: all records exist, and some fields hold other valid values: a name, a line, a time that keeps the
    order, a tag, a counter, an identifier of another definition. That is another valid trace, which no reader can
    distinguish from the sound one.
  * *other records*: some are left out, added, moved or of another type, and the rest breaks no rule of the format.
  * *not understood*: anything else; there should be none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from support import (
    cube_mutations,
    damage,
    epilog_mutations,
    kineto_mutations,
    kineto_writer,
    nsight_mutations,
    nsight_writer,
    otf2_mutations,
    paraver_mutations,
    paraver_writer,
    store_mutations,
)
from support.otf2_workload import everything, leave_out_large_numbers

import tracecols
from tracecols.errors import TracecolsError
from tracecols.export.cube_read import read_cube
from tracecols.model.model import enhance
from tracecols.schema import DEFINITIONS, EVENTS, SIDE_TABLES
from tracecols.schema.columns import Column, Table
from tracecols.search.cube import analyze_model
from tracecols.store import Store

ROOT = Path(__file__).parents[1]

MEMORY = 4 << 30
"""Address space of a worker, in bytes."""

SECONDS = 60
"""Maximum time of a mutation."""

SILENT = ("another value", "other records", "not understood")
"""Kinds of silent differences."""


class StoreDamage(damage.Damage):
    """A store whose files are damaged in turn."""

    def __init__(self, store: Path) -> None:
        super().__init__(store, sorted(p for p in store.rglob("*") if p.is_file()))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""
        path = chance.choice([*self.files])
        return path, damage.mutate(self.files[path], chance)


class StoreValues(StoreDamage):
    """A store whose values are changed, with all checksums corrected."""

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its changed content."""
        return store_mutations.change(self.anchor, chance)


class CubeValues:
    """A severity cube, in one of three formats, whose values are changed, with all checksums corrected."""

    def __init__(self, cube: Path) -> None:
        self.cube, self.before = cube, cube_mutations.content(read_cube(cube))

    def try_one(self, seed: int, out: Path) -> str:
        """Change a value, use the cube in all ways, repair it; return the outcome."""
        return cube_mutations.try_one(self.cube, seed, out, self.before)


def targets(folder: Path) -> dict[str, damage.Damage | CubeValues]:
    """Write the traces, stores and cubes to be damaged."""
    leave_out_large_numbers()
    tiny = everything(folder / "otf2" / "traces.otf2", rounds=3, event_chunk=5000, definition_chunk=3000).write()
    recorded = folder / "recorded"
    shutil.copytree(ROOT / "tests" / "data" / "late_sender", recorded)
    result: dict[str, damage.Damage | CubeValues] = {
        "OTF2, all record types": otf2_mutations.Damage(tiny),
        "OTF2, recorded": otf2_mutations.Damage(recorded / "traces.otf2"),
    }
    for anchor in epilog_mutations.write_all(folder / "epilog"):
        result[f"EPILOG, {anchor.parent.name}"] = epilog_mutations.Damage(anchor)
    (folder / "paraver").mkdir()
    for name in ("text.prv", "packed.prv.gz"):
        row = "LEVEL THREAD SIZE 6\n" + "".join(f"thread {k}\n" for k in range(6))
        written = paraver_writer.write(folder / "paraver" / name, paraver_writer.random_program(4, 3, 2, 12), row=row)
        result[f"Paraver, {name}"] = paraver_mutations.Damage(written)
    for ending in (".json", ".json.gz"):
        run = kineto_writer.write_run(folder / f"kineto{ending}", kineto_writer.two_ranks(), ending)
        result[f"Kineto, {ending}"] = kineto_mutations.Damage(run)
    steps = kineto_writer.write_run(folder / "kineto with steps", kineto_writer.random_run(1, 2, 3))
    result["Kineto, steps"] = kineto_mutations.Damage(steps)
    (folder / "nsight").mkdir()
    for export in (nsight_writer.small, nsight_writer.all_to_all, nsight_writer.messages):
        written = export().write(folder / "nsight" / f"{export.__name__}.sqlite")
        result[f"Nsight Systems, {export.__name__}"] = nsight_mutations.Damage(written)
    for name, source in (("OTF2", tiny), ("EPILOG", folder / "epilog" / "hybrid")):
        result[f"store of {name}"] = StoreDamage(tracecols.convert(source, folder / f"{name}.trace", jobs=1))
        copy = shutil.copytree(folder / f"{name}.trace", folder / "values" / f"{name}.trace")
        result[f"values in a store of {name}"] = StoreValues(copy)
    for cube in cube_mutations.write_cubes(folder / "cubes", ROOT / "tests" / "data" / "hybrid_2x3" / "traces.otf2"):
        result[f"values in a cube, {cube.name}"] = CubeValues(cube)
    return result


def digest(values: Any) -> str:
    """Return a short digest of an array or table column."""
    data = values.tobytes() if isinstance(values, np.ndarray) else repr(values).encode()
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def content(store_path: Path) -> tuple[dict[str, str], str]:
    """Return digests of everything in a store and of its severities, and the problems that it reports."""
    store = Store(store_path)
    found: dict[str, str] = {}
    for name in store.tables:
        for location in range(int(store.manifest["n_locations"])):
            for column, values in store.read(name, location).items():
                key = f"{name}.{column}"
                found[key] = digest(found.get(key, "") + digest(values))
    for name, table in store.definitions.items():
        for column in table.column_names:
            found[f"{name}.{column}"] = digest(table.column(column).to_pylist())
    found["clock"] = digest(store.manifest["clock"])
    missing = store.manifest["source"].get("definitions missing among others")
    reported = repr((store.manifest["lost"], store.manifest["not_understood"], missing))
    model = enhance(store, 1)
    for conventions in ("scalasca", "expert", "exact"):
        cube = analyze_model(model, conventions)
        reported += repr(cube.facts["counts"])
        found[f"severities, {conventions}"] = digest(
            [(n, c.key.tolist(), c.value.tolist()) for n, c in cube.cells.items()]
        )
    return found, reported


Values = dict[str, dict[Any, Any]]


def values_of(store_path: Path) -> Values:
    """Return the content of a store, independent of the order of its definitions: references are identifiers.

    For events and side tables, values by table, location and column; for definitions, rows by table and identifier.
    """
    store = Store(store_path)
    rows = {name: table.to_pylist() for name, table in store.definitions.items()}
    named = {
        name: [(r["id"], r.get("name", "")) if r["id"] == -1 else r["id"] for r in of]
        if of and "id" in of[0]
        else [*range(len(of))]
        for name, of in rows.items()
    }

    def resolved(value: Any, to: str) -> Any:
        if isinstance(value, list):
            return [resolved(v, to) for v in value]
        return value if to not in named or value < 0 else named[to][value]

    result: Values = {"clock": {0: dict(store.manifest["clock"])}}
    for name, of in rows.items():
        if name == "segments":
            continue
        columns = [c for c in DEFINITIONS[name].columns if c.name not in ("first_row", "n_events")]
        found = [{c.name: resolved(r[c.name], c.target) for c in columns} for r in of]
        if "id" in DEFINITIONS[name].names:
            result[name] = dict(zip(named[name], found, strict=True))
        else:
            result[name] = dict(enumerate(sorted(found, key=repr)))
    firsts = [r["first_row"] for r in rows["locations"]]
    for name, table in store.tables.items():
        for location, number in enumerate(named["locations"]):
            columns = store.read(name, location)
            for column in table.columns:
                values = columns[column.name]
                if column.name == "row":
                    values = values - firsts[location]
                kept = [resolved(v, column.target) for v in values.tolist()] if column.target else values.tolist()
                result.setdefault(name, {}).setdefault(number, {})[column.name] = kept
    return result


def explain(before: Values, after: Values) -> str:
    """Return the kind of difference between the contents of two stores, and the fields that differ."""
    tables = {EVENTS.name: EVENTS, **SIDE_TABLES}
    values: set[str] = set()
    records: set[str] = set()

    def field(table: Table | None, name: str, of: str) -> str:
        column = table[name] if table is not None and name in table.names else Column(name, "int64", "")
        if column.target:
            return f"{of}: another of the {column.target.replace('_', ' ')}"
        if "string" in column.dtype:
            return f"{of}: texts and enumerations"
        if name == "time":
            return "events: times, in order"
        return f"{of}: numbers" + (f" of {column.unit}" if column.unit else "")

    for name in before.keys() | after.keys():
        old, new = before.get(name, {}), after.get(name, {})
        if name in DEFINITIONS or name == "clock":
            if len(old) != len(new):
                records.add(f"definitions left out or added: {name}")
            elif old.keys() != new.keys():
                values.add("definitions: identifiers")
            for key in old.keys() & new.keys():
                values |= {
                    field(DEFINITIONS.get(name), c, "definitions" if name != "clock" else "clock")
                    for c in old[key]
                    if old[key][c] != new[key][c]
                }
            continue
        table = tables.get(name)
        for location in old.keys() | new.keys():
            a, b = old.get(location, {}), new.get(location, {})
            shapes = [[c.get("row"), c.get("kind"), len(c.get("time", ()))] if c else [[], [], 0] for c in (a, b)]
            for shape in shapes:
                shape[0], shape[1] = shape[0] or [], shape[1] or []
            if shapes[0] != shapes[1]:
                records.add("events left out, added, moved or of another type")
            else:
                values |= {field(table, c, "events") for c in a if a[c] != b.get(c)}
    if records:
        return "other records: " + ", ".join(sorted(records | values))
    if values:
        return "another value: " + ", ".join(sorted(values))
    return "same" if before == after else "not understood"


def try_one(target: damage.Damage, sound: tuple[dict[str, str], str, Path], seed: int, out: Path) -> str:
    """Damage, read and repair a trace; return the outcome, with the fields that differ if the difference is silent."""
    path, data = target.damaged(random.Random(seed))
    path.write_bytes(data)
    try:
        store = target.anchor
        if not isinstance(target, StoreDamage):
            store = tracecols.convert(target.anchor, out / "x.trace", jobs=1, salvage=seed % 4 == 0)
        if isinstance(target, StoreValues):
            (out / "used").mkdir()
            store_mutations.use(store, out / "used", seed)
        found, reported = content(store)
        before, reported_before, sound_store = sound
        if found == before:
            return "same"
        if reported != reported_before:
            return "reported"
        return explain(values_of(sound_store), values_of(store))
    except TracecolsError:
        return "refused"
    finally:
        path.write_bytes(target.files[path])
        for made in (out / "x.trace", out / "used", target.anchor / "enhanced"):
            shutil.rmtree(made, ignore_errors=True)


def work(folder: Path, first: int, last: int, step: int, only: str) -> None:
    """Run mutations of a worker; write the seed of each before it, and its outcome."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder.mkdir(parents=True, exist_ok=True)
    all_targets = {name: target for name, target in targets(folder).items() if fnmatch(name, only)}
    out = folder / "out"
    out.mkdir()
    names = [*all_targets]
    sound: dict[str, tuple[dict[str, str], str, Path]] = {}
    for number, (name, target) in enumerate(all_targets.items()):
        if isinstance(target, CubeValues):
            continue
        store = folder / f"{number}.trace"
        if isinstance(target, StoreDamage):
            shutil.copytree(target.anchor, store)
        else:
            tracecols.convert(target.anchor, store, jobs=1)
        sound[name] = (*content(store), store)
    for seed in range(first, last, step):
        name = names[seed % len(names)]
        print(json.dumps([seed]), flush=True)
        try:
            target = all_targets[name]
            is_cube = isinstance(target, CubeValues)
            outcome = target.try_one(seed, out / "used") if is_cube else try_one(target, sound[name], seed, out)
        except BaseException as error:
            outcome = f"FAILED: {type(error).__name__}: {error} (seed {seed})"
        print(json.dumps([name, outcome, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]), flush=True)


@dataclass
class Found:
    """Outcomes by trace, failures of workers, and the peak memory of a worker in KiB."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    peak: int = 0


def run_worker(number: int, given: argparse.Namespace, scratch: Path, ends: float, found: Found) -> None:
    """Run every `--jobs`-th mutation in a process, which is started again after a mutation that ends it or takes too
    long."""
    environment = dict(os.environ)
    if given.bounds:
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(scratch / "kernels")}
    first = number
    while first < given.mutations and time.monotonic() < ends:
        what = map(str, (scratch / f"{number}-{first}", first, given.mutations, given.jobs, given.only))
        command = [sys.executable, "-m", "benchmarks.fuzz", "--work", *what]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
            assert process.stdout is not None
            # until the first mutation, traces are written and kernels are compiled
            timer = Timer(10 * SECONDS, process.kill)
            timer.start()
            for line in process.stdout:
                timer.cancel()
                timer = Timer(SECONDS, process.kill)
                timer.start()
                message = json.loads(line)
                if len(message) == 1:
                    (first,) = message
                else:
                    name, outcome, peak = message
                    found.outcomes.setdefault(name, Counter())[outcome] += 1
                    found.peak = max(found.peak, peak)
                if time.monotonic() > ends:
                    process.kill()
            timer.cancel()
        if process.returncode and time.monotonic() < ends:
            found.failures.append(f"dies or hangs ({process.returncode}) at seed {first}")
        first += given.jobs


def report(found: Found) -> None:
    """Print the outcomes by trace, and what differs where nothing says so."""
    outcomes: dict[str, Counter[str]] = {}
    silent: Counter[str] = Counter()
    for name, seen in found.outcomes.items():
        for outcome, n in seen.items():
            kind, _, what = outcome.partition(": ")
            outcomes.setdefault(name, Counter())[kind] += n
            if kind in SILENT:
                silent[outcome] += n
            elif kind == "FAILED":
                found.failures.append(f"{name}: {what}")
    table = Grid("trace", "mutations", "refused", "same", "reported", *SILENT, "other %", "failed")
    total = sum(outcomes.values(), Counter[str]())
    for name, seen in [*outcomes.items(), ("all", total)]:
        n = sum(seen.values())
        columns = (f"{seen[k]:,}" for k in ("refused", "same", "reported", *SILENT))
        other = seen["other records"] + seen["not understood"]
        table.add_row(name, f"{n:,}", *columns, f"{100 * other / max(n, 1):.2f}", f"{seen['FAILED']}")
    console = Console(width=140)
    console.print(table)
    console.print("what differs where nothing says so:")
    for what, n in silent.most_common(60):
        console.print(f"{n:8,}  {what}")
    console.print(f"most memory {found.peak >> 10} MiB, {len(found.failures)} failures")
    for failure in found.failures[:20]:
        console.print(f"  {failure}")


def main() -> None:
    """Run the campaign and print the outcomes; exit 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description="Damage traces and read them.")
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="Stop after so long.")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="Only traces whose name fits a shell pattern.")
    parser.add_argument("--bounds", action="store_true", help="Check the bounds of all indices in kernels.")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        folder, first, last, step, only = given.work
        work(Path(folder), int(first), int(last), int(step), only)
        return
    found, ends = Found(), time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory(prefix="tracecols-") as scratch, ThreadPoolExecutor(given.jobs) as pool:
        done = [pool.submit(run_worker, i, given, Path(scratch), ends, found) for i in range(given.jobs)]
        for one in done:
            one.result()
    report(found)
    sys.exit(bool(found.failures))


if __name__ == "__main__":
    main()
