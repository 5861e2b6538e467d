"""The diagnosis in the form shown by the viewer's overview."""

from __future__ import annotations

from typing import Any

from tracecols.errors import SeverityError
from tracecols.report.diagnosis import details, device_line, duration, efficiency_rows, explanations, heading, headline
from tracecols.severity.cube import SeverityCube
from tracecols.severity.diagnosis import Diagnosis

WIDTH = 120
"""Maximum number of characters of a line about a finding."""


def diagnosis_of(cube: SeverityCube, with_startup: bool = False) -> Diagnosis | None:
    """Return the diagnosis of a cube; None if the cube has no times or was computed from several cubes."""
    try:
        return cube.diagnosis(with_startup=with_startup)
    except SeverityError:
        return None


def overview(cube: SeverityCube, found: Diagnosis) -> dict[str, Any]:
    """Return the texts of the overview; findings have the numbers of their property and call path."""
    head = [
        line.replace("; --with-startup shows all", "; tracecols report --with-startup shows all")
        for line in heading(found)
    ]
    rows = list(efficiency_rows(found))
    return {
        "heading": head,
        "title": headline(found),
        "efficiencies": [
            {
                "title": title if i else "",
                "cells": [{"text": cell.strip(" <"), "lowest": bool(i) and cell.endswith("<")} for cell in cells],
            }
            for i, (title, cells) in enumerate(rows)
        ],
        "efficiency_lines": [
            *explanations(found),
            *([f"Devices: {device_line(found, ' (lowest)')}"] if found.device_efficiencies else []),
        ],
        "findings": [
            {
                "property": cube.properties.number[f.property],
                "call_path": f.call_path,
                "share": f.share,
                "percent": f"{f.share:.1%}",
                "seconds": duration(f.seconds),
                "title": f.what or f.title,
                "details": [pair for pair in details(f, "", WIDTH) if pair[0] != "more"],
            }
            for f in found.findings
        ],
    }
