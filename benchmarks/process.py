"""One task in a process of its own, so that the most memory it held is that of one step.

Started as `python -m benchmarks.process` with a task as JSON on standard input; the last line it prints is the result, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from benchmarks.peers import STEPS
from benchmarks.steps import YARDSTICKS, Subject, Watch
from benchmarks.workloads import ROOT, bytes_of, workloads

WARMED = 30_000_000
"""Events up to which a round that does not count goes first; with more, what is done once hardly matters."""

LIMIT = 60.0
"""Seconds of measuring after which there are no more rounds of a step."""

HOURS = 4
"""What a task may take."""


class TaskError(Exception):
    """A task has failed."""


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    """Run a task in a process of its own.

    Raises
    ------
    TaskError
        If it fails, with the last line it wrote to standard error.
    """
    command = [sys.executable, "-m", "benchmarks.process"]
    # temporary files, too, are removed with the folder, even if the process is killed
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(task["folder"])}
    try:
        done = subprocess.run(
            command, input=json.dumps(task), capture_output=True, text=True, cwd=ROOT, env=environment,
            timeout=HOURS * 3600,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TaskError(f"not done after {HOURS} hours") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else "no message"
        if done.returncode < 0:
            reason = f"ended by signal {-done.returncode}" + (f"; {reason}" if lines else ", out of memory perhaps")
        # no paths of a machine in what is kept
        raise TaskError(reason.replace(str(task["folder"]), "FOLDER").replace(str(ROOT), "."))
    try:
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise TaskError("ended without a result") from error
    return result


def scratch_bytes(folders: Sequence[Path], stop: Event, most: list[int]) -> None:
    """Note the most bytes that stand in folders at a time, until told to stop; finished files of tables (`part-*.parquet`) do not count."""
    while not stop.wait(0.2):
        n = 0
        for folder in folders:
            for where, _, names in os.walk(folder):
                for name in names:
                    with suppress(OSError):
                        is_made = name.startswith("part-") and name.endswith(".parquet")
                        n += 0 if is_made else os.stat(os.path.join(where, name)).st_size
        most[0] = max(most[0], n)


# -- memory ------------------------------------------------------------------------------------------------------------


def _status(field: str) -> int | None:
    """Return a line of what Linux tells of this process, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def reset_peak() -> None:
    """Forget the most memory held so far, where that can be done (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak() -> int:
    """Return the most memory this process held since the last reset, or one of its children ever, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    own = _status("VmHWM")
    return max(children, own if own is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def held() -> int | None:
    """Return the memory this process holds, in bytes; None where nothing tells."""
    return _status("VmRSS")


# -- tasks -------------------------------------------------------------------------------------------------------------


def prepare(workload: str, n_events: int, folder: Path, jobs: int) -> dict[str, Any]:
    """Write a workload's archive and its store into a folder; returns what there is to know of them."""
    from tracecols import convert
    from tracecols.converters.registry import open_source
    from tracecols.schema import SIDE_TABLES
    from tracecols.store import Store

    begin = time.perf_counter()
    archive = workloads(n_events)[workload].make(folder)
    made = time.perf_counter() - begin
    source = open_source(archive)
    store = Store(convert(archive, folder / "kept.trace", jobs=jobs))
    n: int = store.manifest["n_events"]
    return {
        "archive": str(archive),
        "store": str(store.path),
        "facts": {
            "format": source.format,
            "n_events": n,
            "n_records": source.properties.get("records", n),
            "n_locations": store.manifest["n_locations"],
            "n_rows": {name: store.n_rows(name) for name in SIDE_TABLES if store.n_rows(name)},
            "archive_bytes": bytes_of(archive),
            "store_bytes": sum(f.stat().st_size for f in store.path.rglob("*") if f.is_file()),
            "making_seconds": made,
        },
    }


def measure(step: str, subject: Subject, n_events: int, rounds: int) -> dict[str, Any]:
    """Time a step some rounds, then the yardsticks in the same process.

    Returns
    -------
    dict
        `seconds` of every round; `parts`, each with its seconds of every round; `items` and their number, if it makes any;
        `peak_bytes` while it ran and `held_bytes` before; `yardsticks` with seconds of every round and their number of events.
    """
    declared = STEPS[step]
    seconds: list[float] = []
    parts: dict[str, list[float]] = {}
    before: list[int | None] = []
    peaks: list[int] = []

    def start() -> None:
        before.append(held())
        reset_peak()

    items = None
    is_warm = n_events > WARMED
    began = time.perf_counter()
    while len(seconds) < rounds and (not seconds or time.perf_counter() - began < LIMIT):
        watch = Watch(start)
        items = declared.run(subject, watch)
        peaks.append(peak())
        if not is_warm:
            is_warm = True
            continue
        seconds.append(watch.seconds)
        for name, value in watch.parts.items():
            parts.setdefault(name, []).append(value)
    if declared.counts_events and items is not None and items[1] != n_events:
        raise RuntimeError(f"{items[1]:,} events were read, there are {n_events:,}")
    result: dict[str, Any] = {"seconds": seconds, "peak_bytes": max(peaks), "held_bytes": before[0]}
    if parts:
        result["parts"] = parts
    if items is not None:
        result["items"] = {"what": items[0], "n": items[1]}
    result["yardsticks"] = {}
    for name, yardstick in YARDSTICKS.items():
        taken = []
        for _ in range(1 + max(rounds, 3)):
            watch = Watch()
            yardstick(subject, watch)
            taken.append(watch.seconds)
        result["yardsticks"][name] = {"seconds": taken[1:], "n_events": subject.n_sampled}
    return result


def main() -> None:
    """Do a task."""
    task = json.load(sys.stdin)
    folder = Path(task["folder"])
    if "workload" in task:
        result = prepare(task["workload"], task["n_events"], folder, task["jobs"])
    else:
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        subject = Subject(Path(task["archive"]), Path(task["store"]), scratch, task["jobs"])
        result = measure(task["step"], subject, task["n_events"], task["rounds"])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
