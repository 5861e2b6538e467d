"""Do the tests find mistakes? `python -m benchmarks.mutations --lines 30` changes random lines, one at a time.

A comparison, an operation, or a number of one line below `kernels`, `tracecols/enhance` or `tracecols/patterns` is
changed in a copy of the tree, and the quick tests of the folders that concern it run until one of them fails:

    python -m benchmarks.mutations                              30 lines, one result a line, and the number found
    python -m benchmarks.mutations --seed 2 --lines 12 --below kernels
    python -m benchmarks.mutations --at kernels/stacks.py:812   all changes of one line

A survivor is a line that no test depends on, or a change that has no effect: read it before writing a test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]

CONCERNED = {
    "tracecols/enhance": ("enhance", "model", "causes", "patterns", "analysis", "verbs"),
    "tracecols/patterns": ("patterns", "severity", "enhance", "causes", "analysis"),
    "kernels": (
        "kernels", "enhance", "causes", "patterns", "model", "replay", "clocks", "verbs", "export", "timeline",
        "findings", "analysis",
    ),
}  # fmt: skip
"""Folders that are changed, and the folders of tests that concern them, the closest first."""

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "//": "*",
    "&": "|", "|": "&", "and": "or", "or": "and",
}  # fmt: skip
"""The replacement of each operator."""

MEMORY = 8 << 30
"""Limit of the address space of the tests of a changed tree, in bytes."""


@dataclass(frozen=True)
class Change:
    """Replacement of text at one place of a file.

    Attributes
    ----------
    path : str
        Relative to the root.
    line : int
        From 1.
    begin, end : int
        Bytes of the line that are replaced.
    text : str
        The replacement.
    """

    path: str
    line: int
    begin: int
    end: int
    text: str

    def apply(self, root: Path) -> tuple[str, str]:
        """Change the file; return the line before and after the change."""
        file = root / self.path
        lines = file.read_bytes().split(b"\n")
        before = lines[self.line - 1]
        lines[self.line - 1] = before[: self.begin] + self.text.encode() + before[self.end :]
        file.write_bytes(b"\n".join(lines))
        return before.decode().strip(), lines[self.line - 1].decode().strip()


def _operator(path: str, lines: list[bytes], left: ast.expr, right: ast.expr) -> Iterator[Change]:
    """Change the operator between two expressions, if it is on one line with both."""
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    between = lines[right.lineno - 1][left.end_col_offset : right.col_offset].decode()
    found = re.fullmatch(r"\)*\s*(\S+)\s*\(*", between)
    if found and found[1] in OPERATORS:
        begin = left.end_col_offset + found.start(1)
        yield Change(path, right.lineno, begin, begin + len(found[1]), OPERATORS[found[1]])


def _constant(path: str, node: ast.Constant) -> Iterator[Change]:
    """Change a number or a truth value."""
    if isinstance(node.value, bool):
        text = str(not node.value)
    elif isinstance(node.value, int):
        text = str(node.value + 1)
    else:
        return
    assert node.end_col_offset is not None
    yield Change(path, node.lineno, node.col_offset, node.end_col_offset, text)


def changes(path: str, root: Path = ROOT) -> list[Change]:
    """Return all changes of a file: those in the bodies of functions."""
    source = (root / path).read_bytes()
    lines = source.split(b"\n")
    found: set[Change] = set()
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    for node in (n for function in functions for line in function.body for n in ast.walk(line)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, right in pairwise(operands):
                found.update(_operator(path, lines, left, right))
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                found.update(_operator(path, lines, left, right))
        elif isinstance(node, ast.BinOp):
            found.update(_operator(path, lines, node.left, node.right))
        elif isinstance(node, ast.Constant):
            found.update(_constant(path, node))
    return sorted(found, key=lambda c: (c.line, c.begin, c.text))


def draw(n: int, seed: int, below: list[str]) -> list[Change]:
    """Draw changes of different lines, each line as likely as any other."""
    files = [f"{p.relative_to(ROOT)}" for folder in below for p in sorted((ROOT / folder).rglob("*.py"))]
    by_line: dict[tuple[str, int], list[Change]] = {}
    for change in (c for path in files for c in changes(path)):
        by_line.setdefault((change.path, change.line), []).append(change)
    rng = random.Random(seed)
    return [rng.choice(by_line[line]) for line in rng.sample(sorted(by_line), min(n, len(by_line)))]


def copy(root: Path) -> None:
    """Copy the tree with its compiled kernels."""
    left_out = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".*_cache", "*.egg-info", "node_modules")
    shutil.copytree(ROOT, root, symlinks=True, ignore=left_out)


def run_tests(root: Path, folders: tuple[str, ...], seconds: float | None) -> tuple[str, float]:
    """Run quick tests until one fails; return its name ("" for none), and the time taken."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no"]
    command += [f"tests/{folder}" for folder in folders]
    environment = {**os.environ, "PYTHONPATH": str(root), "NUMBA_NUM_THREADS": "2"}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
    except subprocess.TimeoutExpired:
        return "time ran out", time.monotonic() - begin
    took = time.monotonic() - begin
    if done.returncode == 0:
        return "", took
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}", took


def try_change(change: Change, seconds: float) -> bool:
    """Run the tests with a change, and print the outcome; return whether the change was found."""
    folders = next(tests for folder, tests in CONCERNED.items() if change.path.startswith(folder + "/"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        copy(root)
        if (ROOT.parent / "shared").is_dir():
            # reference traces, which tests expect next to the repository
            (root.parent / "shared").symlink_to((ROOT.parent / "shared").resolve())
        before, after = change.apply(root)
        failed, took = run_tests(root, folders, seconds)
    result = f"found by {failed}" if failed else "SURVIVED"
    print(f"{change.path}:{change.line}  {result}  ({took:.0f} s)\n    {before}\n    {after}", flush=True)
    return bool(failed)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--below", nargs="+", choices=list(CONCERNED), default=list(CONCERNED))
    parser.add_argument("--at", metavar="PATH:LINE", help="try all changes of this line")
    parser.add_argument("--seconds", type=float, default=1800, help="that the tests of a change may take")
    given = parser.parse_args()
    if given.at:
        path, line = given.at.rsplit(":", 1)
        drawn = [c for c in changes(path) if c.line == int(line)]
    else:
        drawn = draw(given.lines, given.seed, given.below)
    found = sum(try_change(change, given.seconds) for change in drawn)
    print(f"{found} of {len(drawn)} changes were found")


if __name__ == "__main__":
    main()
