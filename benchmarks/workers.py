"""Kill worker processes at random moments: `python -m benchmarks.workers --kills 30` kills one in each of 30 analyses
and conversions, and compares the results, bit for bit, with those of threads."""

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
from pathlib import Path
from threading import Event, Thread
from typing import Any

import tracecols
from benchmarks.generate import make, write
from benchmarks.kill import content
from tracecols.work.cluster import local_workers


def differences(one: Any, other: Any) -> list[str]:
    """Return the names of files (facts, axes, cells) in which two cubes differ, bit by bit."""
    with tempfile.TemporaryDirectory(prefix="tracecols-cubes-") as name:
        a, b = (content(cube.save(Path(name) / f"{i}.severity")) for i, cube in enumerate((one, other)))
    return [file for file in sorted(a.keys() | b.keys()) if a.get(file) != b.get(file)]


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
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("kills", 30), ("events", 2_000_000), ("workers", 2), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracecols-kill-") as name, local_workers(given.workers) as client:
        archive, scratch = write(make("multizone", 16, 4, given.events, 0, depth=4), Path(name) / "a"), Path(name) / "b"
        scratch.mkdir()
        met, wrong = campaign(archive, scratch, client, given.kills, given.seed)
    print(f"{given.kills} kills, {met} of them while there was work; {len(wrong)} failures")
    print("".join(f"  {line}\n" for line in wrong), end="")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
