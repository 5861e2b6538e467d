"""Analyse on worker processes: compare with threads, and kill workers at random moments.

`python -m benchmarks.workers equal ARCHIVE ...` compares cubes and stores, bit for bit, with those of threads; for a
STORE only the cubes. `python -m benchmarks.workers kill --kills 30` kills a worker in each of 30 analyses and
conversions, and compares the results. The step `analyze_workers` measures the cost of workers (`python -m benchmarks
run -k analyze`).
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import tracecols
from benchmarks.generate import make, write
from benchmarks.kill import content
from tracecols.enhance.dataflow import partitions
from tracecols.enhance.mpi import collectives
from tracecols.errors import TracecolsError
from tracecols.model import model
from tracecols.work.cluster import local_workers


def differences(one: Any, other: Any) -> list[str]:
    """Return the names of files (facts, axes, cells) in which two cubes differ, bit by bit; or two different errors."""
    if isinstance(one, str) or isinstance(other, str):
        return [] if isinstance(one, type(other)) and one == other else [f"{one} and {other}"]
    with tempfile.TemporaryDirectory(prefix="tracecols-cubes-") as name:
        a, b = (content(cube.save(Path(name) / f"{i}.severity")) for i, cube in enumerate((one, other)))
    return [file for file in sorted(a.keys() | b.keys()) if a.get(file) != b.get(file)]


def finer() -> None:
    """Divide small traces into several partitions, ranges of collective operations, and groups of a scan."""
    partitions.PARTITION_ROWS = 64
    collectives.BUCKET_ROWS = 50
    model.SMALLEST_SCAN = 1000


def outcome(work: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """Do some work; return its result, or the message of its error."""
    try:
        return work(*given, **more)
    except TracecolsError as error:
        return str(error)


def equal_stores(archive: Path, folder: Path, client: Any) -> tuple[Path | None, list[str]]:
    """Convert an archive with threads and with workers; return the store, None if it is refused, and differences."""
    if archive.suffix == ".trace":
        return archive, []
    expected, found = folder / "expected.trace", folder / "found.trace"
    made = [
        outcome(tracecols.convert, archive, path, **more)
        for path, more in ((expected, {}), (found, {"cluster": client}))
    ]
    if str in map(type, made):
        print(f"{archive}: refused: {str(made[0]).splitlines()[0]}", flush=True)
        same = made[0] == str(made[1]).replace(str(found), str(expected))
        return None, [] if same else [f"{made[0]} and {made[1]}"]
    return expected, [] if content(expected) == content(found) else ["stores differ"]


def equal(archives: list[Path], workers: list[int], conventions: list[str], ways: list[dict[str, Any]]) -> list[str]:
    """Compare the results of workers for archives, or stores, with those of threads; return the differences.

    Analyses are made with each number of workers, under each of the conventions, and with each dict of arguments in
    `ways`: {}, {"bins": 5}, ...
    """
    wrong: list[str] = []
    for n in workers:
        with local_workers(n) as client:
            for archive in archives:
                with tempfile.TemporaryDirectory(prefix="tracecols-equal-") as name:
                    store, different = equal_stores(archive, Path(name), client)
                    for rules, way in product(conventions, ways) if store is not None else ():
                        given: dict[str, Any] = {"cluster": client, "scratch": Path(name)}
                        analyze = partial(outcome, tracecols.open(store).analyze, rules, **way)
                        different += [f"{rules}, {way}: {d}" for d in differences(analyze(), analyze(**given))]
                    different += [f"left {left}" for left in Path(name).glob(".*")]
                wrong += [f"{archive}, {n} workers: {d}" for d in different]
                print(f"{n} workers: {archive}: {len(wrong)} differences so far", flush=True)
    return wrong


def kill_one(client: Any, work: Callable[[], Any], after: float, chance: random.Random) -> tuple[Any, bool]:
    """Do some work and kill a worker after some seconds; return the result, and whether the kill was before its end."""
    # only running ones: a nanny that is just starting a worker does not start another one
    nannies = [n for n in client.cluster.workers.values() if n.status.name == "running"]
    victim, done, hit = chance.choice(sorted(n.pid for n in nannies)), Event(), Event()

    def shoot() -> None:
        if not done.wait(after):
            hit.set()
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    thread = Thread(target=shoot)
    thread.start()
    try:
        made = work()
    finally:
        done.set()
        thread.join()
    return made, hit.is_set()


def wait_for_nannies(client: Any, n: int) -> None:
    """Wait until the workers of a local cluster are back; replace a worker that its nanny does not restart."""
    try:
        client.wait_for_workers(n, timeout=30)
    except TimeoutError:
        client.cluster.scale(len(client.cluster.workers) + 1)
        client.wait_for_workers(1, timeout=120)


def campaign(archive: Path, folder: Path, client: Any, kills: int, seed: int) -> tuple[int, list[str]]:
    """Kill a worker in each of some analyses and conversions; return the number of kills during work, and errors."""
    n_workers = len(client.nthreads())
    chance = random.Random(seed)
    store = tracecols.convert(archive, folder / "expected.trace")
    trace, expected = tracecols.open(store), content(store)
    cube = trace.analyze()

    def analyze() -> list[str]:
        return differences(cube, trace.analyze(cluster=client, scratch=folder))

    def convert() -> list[str]:
        found = tracecols.convert(archive, folder / "found.trace", cluster=client)
        return [] if content(found) == expected else ["stores differ"]

    works = (analyze, convert)
    seconds, wrong, met = [], [], 0
    for work in works:
        # warm up: the first time, processes import modules and load kernels
        work()
        begin = time.monotonic()
        wrong += work()
        seconds.append(time.monotonic() - begin)
    for number in range(kills):
        print(f"kill {number}: {met} met workers at work, {len(wrong)} failures so far", flush=True)
        # every third is a conversion
        k = int(number % 3 == 1)
        found, hit = kill_one(client, works[k], chance.uniform(0, seconds[k]), chance)
        met += hit
        wrong += [f"kill {number} ({works[k].__name__}): {w}" for w in found]
        left = list(folder.glob(".*"))
        wrong += [f"kill {number}: left {left}"] if left else []
        wait_for_nannies(client, n_workers)
    return met, wrong


def main() -> None:
    """Run the command; exit 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    add = commands.add_parser("equal")
    add.add_argument("archives", nargs="+", type=Path)
    add.add_argument("--workers", nargs="+", type=int, default=[2, 4])
    add.add_argument("--conventions", nargs="+", default=["exact", "scalasca"])
    add.add_argument("--bins", type=int, help="compare analyses by so many bins of time, too")
    add.add_argument("--phases", help="compare analyses by the instances of a region, too")
    add.add_argument("--large", action="store_true", help="leave partitions as large as they are")
    add = commands.add_parser("kill")
    for name, default in (("kills", 30), ("events", 2_000_000), ("workers", 2), ("seed", 0)):
        add.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    wrong: list[str] = []
    if given.command == "equal":
        if not given.large:
            finer()
        ways = [{}, *({name: v} for name in ("bins", "phases") if (v := getattr(given, name)) is not None)]
        wrong = equal(given.archives, given.workers, given.conventions, ways)
    else:
        with tempfile.TemporaryDirectory(prefix="tracecols-kill-") as name:
            archive = write(make("multizone", 16, 4, given.events, 0, depth=4), Path(name) / "archive")
            (Path(name) / "work").mkdir()
            with local_workers(given.workers) as client:
                met, wrong = campaign(archive, Path(name) / "work", client, given.kills, given.seed)
        print(f"{given.kills} kills, {met} of them while there was work; {len(wrong)} failures")
    print("".join(f"  {line}\n" for line in wrong), end="")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
