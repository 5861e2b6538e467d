"""Patterns declared outside of tracecols: in a notebook, a file, or an installed package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracecols.errors import AnalysisError
from tracecols.given.files import read_bytes
from tracecols.given.packages import points_of
from tracecols.patterns.base import Family

GROUP = "tracecols.patterns"
"""Entry points of packages that provide patterns: each names a `Family`, a list of them, or a module that holds
some."""


def families_in(found: Any, where: str) -> list[Family]:
    """Return the families that an object is or holds.

    Parameters
    ----------
    found : Family, iterable of Family, or module
        What was given.
    where : str
        Where it comes from, for errors.

    Raises
    ------
    AnalysisError
        If there is none.
    """
    if isinstance(found, Family):
        return [found]
    values: Iterable[Any] = vars(found).values() if hasattr(found, "__dict__") else found
    if isinstance(found, dict):
        values = found.values()
    try:
        families = list({id(v): v for v in values if isinstance(v, Family)}.values())
    except TypeError:
        families = []
    if not families:
        raise AnalysisError(
            f"{where} declares no patterns\n  declare one with @tracecols.pattern(...), or some in a tracecols.Family"
        )
    return families


def load(what: Family | str | Path) -> list[Family]:
    """Return the families of a plug-in: a family itself, or a Python file that declares some.

    Parameters
    ----------
    what : Family, str or Path
        A family, or a Python file that declares some.

    Raises
    ------
    AnalysisError
        If the file cannot be run or declares none.
    """
    if isinstance(what, (str, Path)):
        # imported only if there is a file
        from runpy import run_path

        path = Path(what)
        try:
            read_bytes(path)
        except OSError as error:
            raise AnalysisError(
                f"cannot read {path}: {error.strerror or error}\n  give a Python file that declares patterns"
            ) from error
        try:
            names = run_path(str(path))
        except (Exception, SystemExit) as error:
            # a file that ends the interpreter would end the analysis, as if all were well
            raise AnalysisError(
                f"{path} cannot be run: {type(error).__name__}: {error}\n  it is run as a module that declares patterns"
            ) from error
        return families_in(names, str(path))
    return families_in(what, f"{what!r}")


def load_all(given: Family | str | Path | Iterable[Family | str | Path]) -> list[Family]:
    """Return the families of one plug-in or of several (`load`).

    Parameters
    ----------
    given : Family, str, Path, or iterable of them
        Families, and Python files that declare some.

    Raises
    ------
    AnalysisError
        If one cannot be loaded.
    """
    several = [given] if isinstance(given, Family | str | Path) or not isinstance(given, Iterable) else given
    return [family for what in several for family in load(what)]


def installed() -> list[Family]:
    """Return the families that installed packages provide.

    Raises
    ------
    AnalysisError
        If one of them cannot be loaded.
    """
    result: list[Family] = []
    for point in points_of(GROUP):
        where = f"the plug-in {point.name!r} ({point.value})"
        try:
            found = point.load()
        except (Exception, SystemExit) as error:
            raise AnalysisError(
                f"{where} cannot be loaded: {type(error).__name__}: {error}\n"
                "  mend or uninstall the package that brings it"
            ) from error
        result += families_in(found, where)
    return result
