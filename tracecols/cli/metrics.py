"""Command-line arguments that define metrics computed from others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tracecols.cli.output import echo

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube


def is_definition(text: str) -> bool:
    """Return whether a text defines a metric; otherwise it names a file."""
    # Path.is_file would fail for a formula that is too long for a name
    return "=" in text and not os.path.isfile(text)


def with_specifications(cube: SeverityCube, texts: Iterable[str]) -> SeverityCube:
    """Return a cube with the metrics defined in files (METRICS.SPEC); texts that are definitions are skipped. Metrics
    with operands that the cube lacks are left out, with a note, since such files are written for many machines. Raises
    SeverityError if a file cannot be read, or a line is not a definition."""
    from tracecols.errors import SeverityError
    from tracecols.given.files import read_bytes
    from tracecols.severity.formulas import specification

    for file in (text for text in texts if not is_definition(text)):
        try:
            lines = read_bytes(Path(file)).decode("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SeverityError(
                f"cannot read the metrics of {file}: {error}\n  give a file of definitions, or NAME = FORMULA"
            ) from error
        try:
            definitions = specification(lines)
        except SeverityError as error:
            raise SeverityError(f"{file}, {error}") from error
        left_out = []
        for name, formula in definitions:
            if all(operand in cube.properties.number for operand in formula.names()):
                cube = cube.with_metrics(f"{name} = {formula.text()}")
            else:
                left_out.append(name)
        if left_out:
            echo(
                f"note: {file}: left out, since the cube lacks what they are computed from: {', '.join(left_out)}",
                err=True,
            )
    return cube
