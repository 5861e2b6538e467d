"""An experiment as a folder, with a cube, `NAME.severity`, and the parameters, `NAME.json`, of each run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracecols.errors import SeverityError
from tracecols.given.arguments import did_you_mean, show
from tracecols.given.files import advice_for_output, check_path, read_json
from tracecols.severity.comparison import Comparison
from tracecols.severity.cube import SeverityCube
from tracecols.store.layout import instead
from tracecols.store.outputs import Output, check_place, parents_made
from tracecols.work.scratch import only_one

FORMAT = "tracecols run"

MEASURED = ("processes", "threads")
"""Parameters that every run has: the numbers of processes, and of threads of all processes together."""

Value = str | float


@dataclass(frozen=True)
class Run:
    """A run of an experiment."""

    name: str
    parameters: dict[str, Value]
    """The parameters given by the caller, and those of `MEASURED`."""
    added: str
    """Date and time in UTC, with microseconds, as in ISO 8601."""
    path: Path
    """Path of the cube."""


def in_words(value: Value) -> str:
    """Return the value of a parameter as text; the texts of different numbers differ."""
    # repr has as many digits as it takes to tell a number from all others, which dates such as 20261124120000 need
    return repr(value).removesuffix(".0") if isinstance(value, float) else value


def add(
    folder: Path, cube: SeverityCube, name: str | None, parameters: Mapping[str, Value], *, force: bool = False
) -> Run:
    """Put a run into an experiment; the folder is made if it is missing, and without a name the next free one is taken.
    Raises SeverityError if the name of the run or of a parameter is not valid, a parameter is NaN, infinite or no text
    in Unicode, there is a run of this name, or the folder cannot be written."""
    if name is not None and not re.fullmatch(r"[^/\\\0\ud800-\udfff.][^/\\\0\ud800-\udfff]*", name):
        raise SeverityError(
            f"{name!r} is not a name for a run\n  give a name that can be a file's, without a dot in front"
        )
    for parameter in parameters:
        if not re.fullmatch(r"\w[\w.-]*", parameter) or parameter in ("run", "added", "runtime"):
            raise SeverityError(
                f"{parameter!r} is not a name for a parameter\n  letters, digits, _, - and . are allowed"
            )
    for parameter, value in parameters.items():
        if not _is_valid(value if isinstance(value, int | float) else str(value)):
            raise SeverityError(
                f"the parameter {parameter} is {show(value)}\n  give a finite number or a text, or leave it out"
            )
    given: dict[str, Value] = dict(zip(MEASURED, map(float, Comparison.size(cube)), strict=True))
    given |= {key: float(value) if isinstance(value, int | float) else str(value) for key, value in parameters.items()}
    check_path(folder, SeverityError)
    check_place(folder / "run", SeverityError)
    with ExitStack() as stack:
        try:
            # it stays if it has any runs
            stack.enter_context(parents_made(folder / "run"))
        except OSError as error:
            raise SeverityError(
                f"cannot write {folder}: {error.strerror or error}\n"
                f"  {advice_for_output(error, 'choose a folder you may write to')}"
            ) from error
        stack.enter_context(only_one(folder))
        return _put(folder, cube, name or _free_name(folder), given, force)


def _put(folder: Path, cube: SeverityCube, name: str, parameters: dict[str, Value], force: bool) -> Run:
    """Write the files of a run."""
    about = folder / f"{name}.json"
    if about.exists() and not force:
        raise SeverityError(
            f"{folder} has a run called {name} already\n  give another name, or force=True to replace it",
            in_shell="give another name with --name, or --force to replace it",
        )
    run = Run(name, parameters, datetime.now(UTC).isoformat(timespec="microseconds"), folder / f"{name}.severity")
    content = {"format": FORMAT, "version": 1, "name": name, "added": run.added, "parameters": run.parameters}
    with Output(about, "a run of an experiment", _recognise, force=force, error=SeverityError).new() as file:
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        # last, so that no cube is there whose parameters cannot be written
        cube.save(run.path, force=force)
    return run


def _free_name(folder: Path) -> str:
    numbers = [int(path.stem[4:]) for path in folder.glob("run-*.json") if path.stem[4:].isdecimal()]
    return f"run-{max(numbers, default=0) + 1}"


def _is_valid(value: Any) -> bool:
    """Return whether something is text in Unicode or a finite number, of which tables and series can be made."""
    try:
        if isinstance(value, str):
            value.encode("utf-8")
            return True
        return isinstance(value, int | float) and math.isfinite(value)
    except (OverflowError, UnicodeEncodeError):
        return False


def _recognise(path: Path) -> str | None:
    try:
        return "" if read_json(path)["format"] == FORMAT else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def runs_in(folder: Path) -> list[Run]:
    """Return the runs of an experiment as they were added. Raises SeverityError if there is none, or a damaged one."""
    found = [_read(path) for path in sorted(folder.glob("*.json")) if _is_run(path)]
    if not found:
        if what := instead(folder, "a folder of runs"):
            raise SeverityError(what)
        raise SeverityError(f"{folder} holds no runs\n  add one: tracecols runs add {folder} run.severity")
    return sorted(found, key=lambda run: (run.added, run.name))


def _is_run(path: Path) -> bool:
    """Return whether a file is that of a run. Raises SeverityError if it is beside a cube, and cannot be read."""
    if path.with_suffix(".severity").is_dir():
        try:
            read_json(path)
        except (OSError, ValueError) as error:
            raise SeverityError(f"{path} cannot be read: {error}\n  mend it, or remove it and the cube") from error
    return _recognise(path) is not None


def _read(path: Path) -> Run:
    content = read_json(path)
    if content.get("version") != 1:
        raise SeverityError(f"{path} is of a version that this tracecols does not know\n  update tracecols")
    parameters, added = content.get("parameters"), content.get("added")
    is_known = isinstance(parameters, dict) and all(map(_is_valid, (*parameters, *parameters.values())))
    if not is_known or not isinstance(added, str) or not _is_valid(added):
        raise SeverityError(
            f"{path} is damaged: parameters or date are missing, or not valid\n  remove it, and add the run again"
        )
    values: dict[str, Value] = {k: v if isinstance(v, str) else float(v) for k, v in parameters.items()}
    return Run(path.stem, values, added, path.with_suffix(".severity"))


def chosen(runs: Iterable[Run], where: Mapping[str, Value]) -> list[Run]:
    """Return the runs whose parameters have the given values. Raises SeverityError if there is none."""
    runs = list(runs)
    kept = [run for run in runs if all(run.parameters.get(key) == value for key, value in where.items())]
    if not kept:
        known = sorted({key for run in runs for key in run.parameters})
        unknown = [key for key in where if key not in known]
        hint = (
            did_you_mean(unknown[0], known, f"parameters are {', '.join(known)}")
            if unknown
            else "list them: tracecols runs list"
        )
        raise SeverityError(f"no run has {', '.join(f'{k}={in_words(v)}' for k, v in where.items())}\n  {hint}")
    return kept


def varying(runs: Iterable[Run]) -> list[str]:
    """Return the parameters in which runs differ, sorted."""
    runs = list(runs)
    names = sorted({key for run in runs for key in run.parameters})
    return [name for name in names if len({run.parameters.get(name) for run in runs}) > 1]


def read_cubes(runs: Iterable[Run]) -> list[SeverityCube]:
    """Read the cubes of runs."""
    return [SeverityCube.load(run.path) for run in runs]
