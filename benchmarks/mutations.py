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
from pathlib import Path
from typing import Any, NamedTuple

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

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
"""The replacement of each operator."""

MEMORY = 8 << 30
"""Limit of the address space of the tests of a changed tree, in bytes."""


class Change(NamedTuple):
    """Replacement of one operator or number in a file."""

    path: str
    """Relative to the root."""
    line: int
    """From 1."""
    node: int
    """Number of the expression in the order of `expressions`."""
    place: int
    """Which of the operators of a comparison; 0 of other expressions."""

    def apply(self, root: Path) -> tuple[str, str]:
        """Change the file; return the expression before and after the change."""
        file = root / self.path
        tree = ast.parse(file.read_bytes())
        # the fields of an expression depend on its kind
        node: Any = expressions(tree)[self.node]
        before = ast.unparse(node)
        if isinstance(node, ast.Compare):
            node.ops[self.place] = OPERATORS[type(node.ops[self.place])]()
        elif isinstance(node, ast.Constant):
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        else:
            node.op = OPERATORS[type(node.op)]()
        file.write_text(ast.unparse(tree))
        return before, ast.unparse(node)


def expressions(tree: ast.AST) -> list[ast.expr]:
    """Return all expressions in the bodies of functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = {n: None for f in functions for line in f.body for n in ast.walk(line) if isinstance(n, ast.expr)}
    return list(found)


def changes(path: str, root: Path = ROOT) -> list[Change]:
    """Return all changes of a file."""
    found = []
    for number, node in enumerate(expressions(ast.parse((root / path).read_bytes()))):
        operators = node.ops if isinstance(node, ast.Compare) else [getattr(node, "op", None)]
        places = [k for k, operator in enumerate(operators) if type(operator) in OPERATORS]
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            places = [0]
        found += [Change(path, node.lineno, number, place) for place in places]
    return sorted(found)


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
