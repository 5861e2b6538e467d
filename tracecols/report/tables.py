"""Tables that fit the width of the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracecols.enhance.scan.paths import fitted, without_arguments
from tracecols.given.printable import finite
from tracecols.given.quantities import counted

if TYPE_CHECKING:
    import pandas as pd

BETWEEN = 3
"""Characters between two columns of a table."""

READABLE, NARROW = 36, 16
"""Widths of text columns when a table is made narrower: spare columns are left out before a text is shortened below the
first; no text is shortened below the second."""

TITLE = 11
"""Titles of number columns are not shortened below this many characters."""


def middle_out(text: str, width: int) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= width:
        return text
    tail = max((width - 3) // 2, 0)
    return f"{text[: max(width - 3 - tail, 0)]}...{text[len(text) - tail :]}"[:width]


def more_rows(n: int, rows: int) -> Iterator[Text]:
    """Yield how many of `n` rows a table leaves out that has the first `rows`, if any."""
    if n > rows:
        yield Text(f"{counted(n - rows, 'more row')}: --rows", "dim")


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON; null, NaN and infinity become None."""
    columns = {}
    for i, name in enumerate(table.columns):
        of = table.iloc[:, i]
        known = of.notna().tolist()
        columns[str(name)] = [_plain(v) if k else None for v, k in zip(of.tolist(), known, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    """Return a value as Python objects, lists from arrays."""
    return finite(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


class TextTable:
    """A table without lines whose cells are plain text. Columns whose title begins with < are texts, left-aligned; the
    others are numbers, right-aligned.

    Rich reads markup in strings, and names of regions and files may look like it. Numbers are never cut. If the table
    is wider than `width`, the columns `spare` are left out first, in this order, then column titles and texts are
    shortened.
    """

    def __init__(self, *columns: str, width: int | None = None, spare: tuple[int, ...] = ()) -> None:
        self.titles = [title.removeprefix("<") for title in columns]
        self.is_text = [title.startswith("<") for title in columns]
        self.width, self.spare = width, spare
        self.rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """Add a row."""
        self.rows.append([Text(cell) if isinstance(cell, str) else cell for cell in cells])

    def _cells_width(self, column: int) -> int:
        return max((row[column].cell_len for row in self.rows), default=0)

    def fitting(self) -> dict[int, int]:
        """Return the width of every column that is shown, by column."""
        widths = {i: max(Text(title).cell_len, self._cells_width(i)) for i, title in enumerate(self.titles)}
        if self.width is None:
            return widths

        def excess() -> int:
            assert self.width is not None
            return sum(widths.values()) + BETWEEN * (len(widths) - 1) - self.width

        for i in self.spare:
            hidden = sum(max(w - READABLE, 0) for i, w in widths.items() if self.is_text[i])
            if excess() - hidden > 0:
                del widths[i]
        for i in [i for i in widths if not self.is_text[i]]:
            widths[i] -= max(min(excess(), widths[i] - max(self._cells_width(i), min(widths[i], TITLE))), 0)
        # the longest text first: a call path is read from its ends
        for i in sorted((i for i in widths if self.is_text[i]), key=lambda i: -widths[i]):
            widths[i] -= max(min(excess(), widths[i] - NARROW), 0)
        return widths

    def left_out(self, what: str) -> Iterator[Text]:
        """Yield how many columns do not fit, if any; `what` is what each is about."""
        if hidden := len(self.titles) - len(self.fitting()):
            yield Text(f"{counted(hidden, what)} left out: --json has all", "dim")

    def __rich__(self) -> RenderableType:
        """Return the table for printing."""
        widths = self.fitting()
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
        for i, width in widths.items():
            side: Literal["left", "right"] = "left" if self.is_text[i] else "right"
            made.add_column(Text(middle_out(self.titles[i], width)), justify=side, no_wrap=True, overflow="crop")
        for cells in zip(*(self._shown(i, width) for i, width in widths.items()), strict=True):
            made.add_row(*cells)
        return made

    def _shown(self, column: int, width: int) -> list[Text]:
        """Return the cells of a column, texts shortened to its width; numbers stay. Names in the middle of a call path
        are left out, or only the middle if several call paths would look alike."""
        cells = [row[column] for row in self.rows]
        if not self.is_text[column]:
            return cells
        short = {cell.plain: fitted(cell.plain, width) for cell in cells if cell.cell_len > width}
        times = Counter(short.values())
        short = {
            text: found if times[found] == 1 else middle_out(without_arguments(text), width)
            for text, found in short.items()
        }
        return [Text(short[cell.plain], cell.style) if cell.plain in short else cell for cell in cells]
