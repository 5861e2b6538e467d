"""The command line: `python -m benchmarks run`, `compare`, `table`, `list`; the first two call pytest and
pytest-benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USAGE = """python -m benchmarks COMMAND ...
  run -o RESULTS.json [--workloads NAME...] [-k STEPS] [--large] ...   measure (pytest benchmarks/test_steps.py --help)
  compare OLD.json NEW.json ...   what has changed (pytest-benchmark compare --help)
  table RESULTS.json...           tables of results, in Markdown
  list                            names of workloads and steps"""


def run(arguments: list[str]) -> int:
    """Measure under pytest-benchmark."""
    import pytest

    options = ["--benchmark-columns=median,min,max,rounds", "--benchmark-sort=fullname", "-rf"]
    given = ["--benchmark-json" if a == "-o" else a for a in arguments]
    return int(pytest.main([f"{Path(__file__).with_name('test_steps.py')}::test_step", *options, *given]))


def compare(arguments: list[str]) -> int:
    """Compare the medians of results."""
    return subprocess.call([sys.executable, "-m", "pytest_benchmark", "compare", "--between=median", *arguments])


def table(arguments: list[str]) -> int:
    """Print tables in Markdown."""
    from benchmarks.results import ResultsError, read, tables

    try:
        print("\n\n".join(tables(read([Path(a) for a in arguments]))))
    except ResultsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def show(arguments: list[str]) -> int:
    """Print workloads and steps."""
    from benchmarks.peers import STEPS
    from benchmarks.workloads import workloads

    found = {w.name: w.about + (" (with --large)" if w.is_large else "") for w in workloads().values()}
    for title, names in (("workloads", found), ("steps", {s.name: s.title for s in STEPS.values()})):
        print(f"{title}:")
        for name, about in names.items():
            print(f"  {name:24}{about}")
    return 0


def main(arguments: list[str]) -> int:
    """Run a command."""
    commands = {"run": run, "compare": compare, "table": table, "list": show}
    if not arguments or arguments[0] not in commands:
        print(USAGE, file=sys.stderr)
        return 2
    return commands[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
