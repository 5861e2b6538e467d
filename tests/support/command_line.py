"""Commands of tracecols, run in the process of the tests, and programs that run in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tracecols.cli import group

ROOT = Path(__file__).parents[2]


def run(*arguments: object, **settings: Any) -> Result:
    """Run a command, its name first; `settings` are those of `CliRunner.invoke`."""
    return CliRunner().invoke(group, [str(a) for a in arguments], catch_exceptions=False, **settings)


def executed(*arguments: object, code: int = 0, **settings: Any) -> str:
    """Run a command that ends with an exit code; return its output."""
    result = run(*arguments, **settings)
    assert result.exit_code == code, result.output
    return result.output


def python(
    *arguments: object, code: int | None = 0, env: Mapping[str, str] | None = None, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python in another process, with the packages of this checkout, and additions to the environment; it ends with
    an exit code, which may be any if `code` is None."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **settings)
    assert code is None or done.returncode == code, done.stderr
    return done
