"""A cube as a self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from tracecols.errors import SeverityError
from tracecols.given.arguments import as_path, show
from tracecols.given.printable import escaped
from tracecols.given.subdomains import Given
from tracecols.report.viewer.container import Container, pack
from tracecols.report.viewer.sources import Sources
from tracecols.severity.cube import SeverityCube
from tracecols.severity.diagnosis import name_of, name_of_source
from tracecols.severity.narrowed import in_words
from tracecols.store.outputs import Output, text_output


@cache
def bundle() -> tuple[str, str]:
    """Return the viewer's JavaScript and style sheet."""
    here = files(__package__)
    return (here / "viewer.js").read_text(encoding="utf-8"), (here / "viewer.css").read_text(encoding="utf-8")


SIGNATURE = b"tracecols-page"
"""Text by which reports are recognised; every report contains it near its beginning."""


def report_output(path: str | Path, *, force: bool = False) -> Output:
    """Return the output file of a report; an existing report is replaced."""
    return text_output(path, "a report", SIGNATURE, force=force, error=SeverityError)


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def title_of(cube: SeverityCube) -> str:
    """Return the name of a cube's trace, or those of the traces it was computed from, and what it is narrowed to; empty
    if unknown."""
    of = ", ".join(map(name_of_source, cube.facts.get("of", ())))
    name = f"{cube.facts['operation']} of {of}" if of and "operation" in cube.facts else name_of(cube)
    return ", ".join(filter(None, (name, in_words(cube.facts))))


def write_page(
    cube: SeverityCube,
    path: str | Path,
    title: str | None = None,
    sources: str | Path | Sources | None = None,
    *,
    force: bool = False,
    with_startup: bool = False,
    store: str = "",
    subdomains: Given | None = None,
) -> Path:
    """Write a cube as an HTML file that contains data, viewer and style, and loads nothing else.

    Names in the file are data: they are compressed and never parsed as markup, and the content security policy of the
    file allows no script but the viewer. Arguments and errors are those of `SeverityCube.report`; `store` is the store
    of the trace, for commands shown in the report, by default one named like the trace.
    """
    path = as_path(path, SeverityError)
    output = report_output(path, force=force)
    output.check()
    if isinstance(sources, str | Path):
        sources = Sources.of(cube.call_paths, sources)
    if title is not None and not isinstance(title, str):
        raise SeverityError(f"a title is given as a text, not as {show(title)}\n  leave it out for that of the trace")
    packed = pack(cube, sources, with_startup, store, subdomains=subdomains)
    title = title if title is not None else title_of(cube) or path.stem
    with output.new() as file, open(file, "w", encoding="utf-8", errors="replace", newline="\n") as out:
        out.writelines(page_of(packed, title))
    return path


def policy() -> str:
    """Return the content security policy of a report: no script but the viewer may run, and nothing may be loaded."""
    script, style = bundle()
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def page_of(packed: Container, title: str) -> Iterator[str]:
    """Yield the text of a report in parts."""
    script, style = bundle()

    def element(name: str, content: bytes) -> str:
        encoded = base64.b64encode(content).decode()
        return f'<script type="application/octet-stream" id="{name}">{encoded}</script>\n'

    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n"
        '<body class="tracecols-page">\n'
        f'<div id="tracecols" data-title="{escaped(title)}">Reading the report. If this stays, the file is not '
        "complete, or JavaScript is switched off.</div>\n"
    )
    # the viewer starts before the cells are read, however many follow
    yield element("tracecols-header", packed.header)
    yield f'<script type="module" async>{script}</script>\n'
    for i in packed.order:
        if packed.blocks[i]:
            yield element(f"tracecols-block-{i}", packed.blocks[i])
    yield "</body>\n</html>\n"
