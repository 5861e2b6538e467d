"""A cube as a small HTML table without scripts."""

from __future__ import annotations

from tracecols.given.printable import escaped
from tracecols.severity import focus
from tracecols.severity.cube import SeverityCube


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
        if axis.unit[axis.number[root]] != "sec" or not whole or not axis.adds_up(name):
            continue
        own = cube.own_total(name)
        if own:
            rows.append((abs(own) / whole, own, own / whole, axis.title[axis.number[name]], name))
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
