"""A cube in a notebook: the viewer (extra `notebook`), or a small HTML table without scripts."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from tracecols.errors import MissingExtraError
from tracecols.given.printable import escaped
from tracecols.report.viewer.container import pack
from tracecols.report.viewer.page import bundle, title_of
from tracecols.severity import focus
from tracecols.severity.cube import SeverityCube

SHOWN_UNASKED = 2_000_000
"""A cube with more cells is shown as a table unless the view is requested, since the data of a widget are saved in the
notebook file."""


def html_table(cube: SeverityCube, most: int = 12) -> str:
    """Return an HTML table of the properties (at most `most`) whose exclusive values have the largest shares of their
    root, in the focus of the cube; names are escaped."""
    summary = cube.summary()
    cube = cube.focused()
    axis = cube.properties
    rows = []
    for name in axis.id:
        root = axis.root_of(name)
        whole = cube.whole(root)
        # only roots whose properties divide time that was spent; charged or estimated times do not
        if not axis.is_spent(root):
            continue
        if axis.unit_of(root) != "sec" or not whole or not axis.adds_up(name):
            continue
        own = cube.own_total(name)
        if own:
            rows.append((abs(own) / whole, own, own / whole, axis.title_of(name), name))
    rows.sort(key=lambda row: -row[0])
    sign = "+" if cube.is_difference else ""
    body = "".join(
        f'<tr><td style="text-align: right">{share:{sign}.2%}</td><td style="text-align: right">{own:{sign}.6f} s</td>'
        f'<td style="text-align: left">{escaped(title)} <small>{escaped(name)}</small></td></tr>'
        for _, own, share, title, name in rows[:most]
    )
    words = focus.in_words(cube.facts)
    said = f"<p><small>{escaped(words)}</small></p>" if words else ""
    rest = f"<p><small>and {len(rows) - most} smaller ones</small></p>" if len(rows) > most else ""
    return (
        f"<div><p><b>Severity cube</b> {escaped(summary)}</p>{said}<table><thead><tr><th>share</th><th>time</th>"
        f'<th style="text-align: left">property</th></tr></thead><tbody>{body}</tbody></table>{rest}</div>'
    )


@cache
def _widget_class() -> type[Any]:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise MissingExtraError("anywidget", "notebook", "SeverityCube.view") from error
    script, style = bundle()

    class SeverityWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """Three coupled trees over a cube; `selection` is updated when the user selects something."""

        _esm = script
        _css = style
        data = traitlets.Bytes().tag(sync=True)
        title = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int(620).tag(sync=True)
        selection = traitlets.Dict().tag(sync=True)
        table = ""

        def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
            """Add the table, which is shown where widgets cannot run."""
            shown = super()._repr_mimebundle_(**kwargs)
            # ipywidgets gives the data, or the data and their metadata
            found = shown[0] if isinstance(shown, tuple) else shown
            return {**(found or {}), "text/html": self.table}

    return SeverityWidget


def widget(cube: SeverityCube, height: int = 620) -> Any:
    """Return a notebook widget of a cube (`SeverityCube.view`). Raises MissingExtraError if anywidget is not
    installed."""
    made = _widget_class()
    packed = pack(cube)
    parts = [packed.header, *packed.blocks]
    head = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    shown = made(data=head + b"".join(parts), title=title_of(cube), height=height)
    shown.table = html_table(cube)
    return shown


def mimebundle(cube: SeverityCube) -> dict[str, Any]:
    """Return the MIME bundle of a cube for notebooks: the widget if anywidget is installed and the cube is not large,
    else a table."""
    plain = {"text/plain": repr(cube)}
    if sum(map(len, cube.cells.values())) + sum(map(len, cube.period_cells.values())) <= SHOWN_UNASKED:
        try:
            return {**widget(cube)._repr_mimebundle_(), **plain}
        except MissingExtraError:
            pass
    return {**plain, "text/html": html_table(cube)}
