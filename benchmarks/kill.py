"""Kill commands at random moments: `python -m benchmarks.kill --kills 300`.

Afterwards there must be the older output, the complete new one, or none; the command must succeed when it is run again,
and remove temporary files. If it is interrupted (SIGINT, SIGTERM), a command must remove them itself.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import tracecols
from benchmarks.generate import make, write

ROOT = Path(__file__).parents[1]
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


def content(folder: Path) -> dict[str, str]:
    """Return the digests of the files below a folder, by path."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)): hashlib.blake2b(p.read_bytes()).hexdigest() for p in files}


class Case:
    """A command (arguments of `tracecols`) that is run in a folder, the name of its output, and an older output that
    may be in its place."""

    def __init__(self, name: str, arguments: list[str], output: str, folder: Path, older: Path | None = None) -> None:
        self.name, self.arguments, self.output, self.older = name, arguments, output, older
        self.folder, self.temporary = folder / "work", folder / "temporary"
        self.clear()
        begin = time.monotonic()
        self.start().wait()
        self.seconds = time.monotonic() - begin
        self.sound = content(self.folder)
        self.old = {}
        if older is not None:
            self.put_older()
            self.old = content(self.folder)
        assert self.sound, f"{name}: does not work at all"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command."""
        env = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        command = [sys.executable, "-m", "tracecols", *self.arguments]
        return subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def clear(self) -> None:
        """Empty the folders."""
        for folder in (self.folder, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def put_older(self) -> None:
        """Empty the folders, and put the older output in its place."""
        self.clear()
        assert self.older is not None
        shutil.copytree(self.older, self.folder / self.output)

    def left(self) -> list[str]:
        """Return the names of files other than outputs."""
        return [p.name for p in self.folder.glob(".*")] + [p.name for p in self.temporary.iterdir()]

    def state(self) -> str:
        """Return the state of the output."""
        found = {k: v for k, v in content(self.folder).items() if not k.startswith(".")}
        names = {".".join(p.name.split(".")[:1]) for p in self.folder.iterdir() if not p.name.startswith(".")}
        if not names:
            return "nothing"
        if found == self.sound:
            return "complete"
        return "older" if self.old and found == self.old else f"HALF: {sorted(found)}"

    def kill(self, chance: random.Random, number: int) -> tuple[str, list[str]]:
        """End the command at a random moment and run it again; return the state found in between, and errors."""
        wrong: list[str] = []
        has_older = self.older is not None and number % 2 == 0
        (self.put_older if has_older else self.clear)()
        how = SIGNALS[number // 2 % len(SIGNALS)]
        process = self.start()
        try:
            _, errors = process.communicate(timeout=self.seconds * chance.uniform(0.1, 1.1))
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            _, errors = process.communicate()
        code, state, left = process.returncode, self.state(), self.left()
        found = f"{how.name}: {state}" + (", scratch left" if left else "")
        # the older output is moved away before the new one is put in its place; after a kill in between, the next run
        # puts it back
        fits = state == "complete" or (state == "older" if has_older else state == "nothing")
        if not fits and not (has_older and state == "nothing" and left):
            wrong.append(f"{how.name}: {state}")
        if how != signal.SIGKILL:
            if left:
                wrong.append(f"{how.name}: left behind {left}")
            # before the command runs, the interpreter handles the signal itself
            if code not in (0, 128 + how, -how) and not (code == 1 and b"KeyboardInterrupt" in errors):
                wrong.append(f"{how.name}: exit code {code}: {errors.decode()[-300:]}")
        if state != "complete" or self.older is not None:
            begin = time.monotonic()
            _, errors = (again := self.start()).communicate()
            # the first run may have had to compile
            self.seconds = min(self.seconds, time.monotonic() - begin)
            if again.returncode:
                wrong.append(f"{how.name}: does not run again: {errors.decode()[-300:]}")
            if self.state() != "complete":
                wrong.append(f"{how.name}: run again: {self.state()}")
            if self.left():
                wrong.append(f"{how.name}: run again, left behind {self.left()}")
        return found, wrong


def cases(folder: Path, archive: Path, other: Path) -> list[Case]:
    """Return all commands that write, on one archive; another one makes older outputs."""
    store = tracecols.convert(archive, folder / "store.trace")
    older = tracecols.convert(other, folder / "older.trace")
    cube = tracecols.open(older).analyze().save(folder / "older.severity")
    return [
        Case("convert", ["convert", str(archive), "-o", "x.trace"], "x.trace", folder / "1", older),
        Case("analyze", ["analyze", str(archive), "-o", "x.severity"], "x.severity", folder / "2", cube),
        *(Case(f"export {x}", ["export", str(store), f"x{x}"], f"x{x}", folder / x) for x in (".otf2", ".parquet")),
    ]


def campaign(all_cases: list[Case], kills: int, seed: int) -> tuple[dict[str, Counter[str]], list[str]]:
    """Kill each command in turn; return the states found, by command, and errors."""
    chance = random.Random(seed)
    seen: dict[str, Counter[str]] = {case.name: Counter() for case in all_cases}
    failures = []
    for number in range(kills):
        case = all_cases[number % len(all_cases)]
        found, wrong = case.kill(chance, number // len(all_cases))
        seen[case.name][found] += 1
        failures += [f"{case.name}, kill {number}: {w}" for w in wrong]
    return seen, failures


def main() -> None:
    """Run the campaign and print the outcomes; exit 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description="Kill commands at random moments.")
    for name, default in (("kills", 300), ("events", 1_000_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tracecols-kill-") as scratch:
        archive = write(make("irregular", 8, 1, given.events, depth=12), Path(scratch) / "archive")
        made = cases(Path(scratch), archive, ROOT / "tests" / "data" / "late_sender")
        seen, failures = campaign(made, given.kills, given.seed)
    for name, found in seen.items():
        for what, n in sorted(found.items()):
            print(f"{name:20}{what:40}{n:6,} times")
    print(f"{given.kills} kills, {time.monotonic() - begin:.0f} s, {len(failures)} failures")
    for failure in failures[:20]:
        print(f"  {failure}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
