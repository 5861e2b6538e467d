"""A terminal for rich's displays on which names from traces cannot emit control sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tracecols.given.printable import printable


class Screen(Console):
    """A console (`rich.console.Console`) on which names are shown as they are: no markup, no highlighting, and control
    characters in `printable` form."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render a display; only rich's own control segments reach the terminal unchanged."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
