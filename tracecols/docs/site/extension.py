"""Content of the site besides its pages: drawings of wait states, a live report, the help of all commands, and a check
that every page is in a section."""

from __future__ import annotations

import html
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import tracecols
from tracecols.cli import group as command_line
from tracecols.cli.vocabulary import all_commands
from tracecols.docs.site.contents import complete, without_section, write_property_pages
from tracecols.drawings.examples import EXAMPLES
from tracecols.drawings.svg import draw
from tracecols.work.scratch import temporary_folder

PROPERTIES = "properties/"
REPORT = "hybrid_2x3.html"
"""The live report, in the folder of the start page; report.md shows it."""


def add_timeline(page: str, name: str) -> str:
    """Return the page of a property with its timeline, and the program drawn there, after the title."""
    shown = EXAMPLES[name]
    caption = f"By the rules of EXPERT: {shown.caption}" if shown.conventions == "expert" else shown.caption
    picture = draw(shown.make(), name, caption)
    # several pictures may come from one function with different arguments
    make = shown.make.func if isinstance(shown.make, partial) else shown.make
    code = html.escape(re.split(r"^def ", inspect.getsource(make), maxsplit=1, flags=re.MULTILINE)[1])
    figure = "\n".join(
        [
            '<figure class="timeline">',
            picture,
            f"<figcaption>{html.escape(caption)}</figcaption>",
            "</figure>",
            "<details><summary>The program, as written down for <code>tracecols.testing</code></summary>",
            f"<pre>def {code}</pre>",
            "</details>",
        ]
    )
    # an empty line would end the block of HTML
    figure = re.sub(r"\n\s*\n", "\n", figure)
    head, _, rest = page.partition("\n## ")
    return f"{head}\n{figure}\n\n## {rest}"


def inline_attachments(text: str) -> str:
    """Return a notebook with attached pictures inlined into the text that shows them."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for name, versions in cell.get("attachments", {}).items():
            kind, data = next(iter(versions.items()))
            source = source.replace(f"attachment:{name}", f"data:{kind};base64,{''.join(data)}")
        cell["source"] = source
    return json.dumps(notebook)


def prepare_source(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the content to a page that is made only for the site."""
    source[0] = complete(name, source[0])
    if name.removeprefix(PROPERTIES) in EXAMPLES and name.startswith(PROPERTIES):
        source[0] = add_timeline(source[0], name.removeprefix(PROPERTIES))
    elif app.env.doc2path(name).suffix == ".ipynb":
        source[0] = inline_attachments(source[0])
    # Mermaid diagrams are removed: its script would come from the network, and a table below has the same content
    source[0] = re.sub(r"\n```mermaid\n.*?\n```\n(\nThick arrows.*?\n)?", "\n", source[0], flags=re.DOTALL)


class Commands(SphinxDirective):
    """The help of every command, as the command line prints it."""

    def run(self) -> list[nodes.Node]:
        """Make a section for each command."""
        import click

        sections: list[nodes.Node] = []
        context = click.Context(command_line, info_name="tracecols", terminal_width=90, max_content_width=90)
        for name, command in all_commands(command_line):
            with click.Context(
                command, info_name=name, parent=context, terminal_width=90, max_content_width=90
            ) as inner:
                text = command.get_help(inner)
            section = nodes.section(ids=[f"tracecols-{name.replace(' ', '-')}"], names=[f"tracecols {name}"])
            section += nodes.title(text=f"tracecols {name}")
            section += nodes.literal_block(text, text, language="text")
            self.state.document.note_explicit_target(section)
            sections.append(section)
        return sections


def check_contents(app: Sphinx, env: BuildEnvironment) -> None:
    """Fail with a clear message if pages are in no section."""
    lost = without_section(Path(app.srcdir))
    if lost:
        raise ExtensionError(
            f"pages in no section of the site: {', '.join(lost)}\n"
            "  add each to one of the tables of contents (```{toctree}) of tracecols/docs/index.md"
        )


def write_report(app: Sphinx, failed: Exception | None) -> None:
    """Analyse a small real trace and write its report to the output folder."""
    if failed is not None or app.builder.format != "html":
        return
    archive = Path(tracecols.__file__).parents[1] / "tests" / "data" / "hybrid_2x3"
    with temporary_folder() as folder:
        trace = tracecols.open(tracecols.convert(archive, folder / "hybrid.trace"))
        trace.analyze().report(Path(app.outdir) / REPORT, title="hybrid_2x3")


_sidebars: dict[str, str] = {}


def keep_sidebar(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """List sections and their pages in the sidebar of every page, but not the pages of all properties, which would take
    most of the build time.

    The list is the same for all property pages, so it is made once for them.
    """
    make: Callable[..., str] = context["toctree"]

    def toctree(**options: Any) -> str:
        options["maxdepth"] = 1
        if not page.startswith(PROPERTIES):
            return make(**options)
        if PROPERTIES not in _sidebars:
            _sidebars[PROPERTIES] = make(**options)
        return _sidebars[PROPERTIES]

    context["toctree"] = toctree


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the event handlers of this module."""
    app.add_directive("commands", Commands)
    app.connect("builder-inited", lambda app: write_property_pages(Path(app.srcdir)))
    app.connect("source-read", prepare_source)
    app.connect("env-check-consistency", check_contents)
    # before the theme uses it
    app.connect("html-page-context", keep_sidebar, priority=400)
    app.connect("build-finished", write_report)
    return {"version": tracecols.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
