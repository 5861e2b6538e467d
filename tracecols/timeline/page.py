"""The page of the timeline: its head, script and style sheet."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content security policy: nothing is loaded from elsewhere, and only the script of the page runs."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tracecols timeline</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="timeline.css">
<script type="module" src="timeline.js"></script>
</head>
<body><div id="timeline"></div></body>
</html>
"""

COMPARE = "compare"
"""The page that shows two runs."""


@cache
def documents() -> dict[str, tuple[str, bytes]]:
    """Return the files of the page by name: their type and content."""
    here = files(__package__)
    page = ("text/html; charset=utf-8", PAGE.encode())
    return {
        "": page,
        "fold": page,
        COMPARE: page,
        "timeline.js": ("text/javascript; charset=utf-8", (here / "timeline.js").read_bytes()),
        "timeline.css": ("text/css; charset=utf-8", (here / "timeline.css").read_bytes()),
    }
