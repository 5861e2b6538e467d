"""Commands of tracecols, run in the process of the tests."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from tracecols.cli import group


def run(*arguments: object, **settings: Any) -> Result:
    """Run a command, its name first; `settings` are those of `CliRunner.invoke`."""
    return CliRunner().invoke(group, [str(a) for a in arguments], catch_exceptions=False, **settings)


def executed(*arguments: object, code: int = 0, **settings: Any) -> str:
    """Run a command that ends with an exit code; return its output."""
    result = run(*arguments, **settings)
    assert result.exit_code == code, result.output
    return result.output
