"""Severity trees in the terminal (thesis 4.5): properties, the call tree of one, the locations of a call path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from tracecols.enhance.scan.paths import shortened
from tracecols.errors import SeverityError
from tracecols.given.printable import one_line
from tracecols.report.text import value_in_words
from tracecols.severity import focus
from tracecols.severity.cube import SeverityCube
from tracecols.severity.periods import PeriodCells
from tracecols.severity.similar import groups_in_words

# Share from which on each style is used. Readable on dark and light backgrounds, and ordered by brightness for the
# colour-blind.
COLOURS = (
    (0.5, "bold bright_red"),
    (0.2, "bright_red"),
    (0.1, "yellow"),
    (0.05, "green"),
    (0.01, "cyan"),
    (0.0, "bright_black"),
)

DEPTH = 40
"""Default maximum depth of printed trees: deeper levels are indented too far to be read."""
LINES = 5_000
"""Default maximum number of nodes printed of a tree: the largest ones."""

SHADES = " ░▒▓█"
"""Shades from zero to the largest value, used where numbers do not fit."""

BARS = " ▁▂▃▄▅▆▇█"
"""Bars from zero to the largest value, over time."""

BAR_WIDTH = 60
"""Maximum number of bars in a line over time; if there are more phases or bins, each bar is the mean of neighbours."""

PLANES = 12
"""Maximum number of planes shown of a grid with more than two dimensions."""

Chosen = Callable[[PeriodCells], "NDArray[np.bool_] | slice"]
"""Function that returns which cells of a property are chosen."""


def _style(share: float) -> str:
    """Return the style of a share; for NaN that of 0."""
    return next((style for limit, style in COLOURS if abs(share) >= limit), COLOURS[-1][1])


def bars(values: NDArray[np.float64]) -> str:
    """Draw values as a line of at most `BAR_WIDTH` bars; for more values, each bar is the mean of neighbours. Negative
    means are drawn as 0."""
    each = max(-(-values.size // BAR_WIDTH), 1)
    firsts = np.arange(0, values.size, each)
    means = np.add.reduceat(values, firsts) / np.diff(firsts, append=values.size) if values.size else values
    largest = float(means.max(initial=0.0))
    if largest <= 0:
        return BARS[0] * means.size
    steps = np.ceil(np.maximum(means, 0.0) / largest * (len(BARS) - 1)).astype(np.int64)
    return "".join(BARS[i] for i in steps.tolist())


class Display:
    """Turn a cube into trees of text. Raises SeverityError if a cube that is not divided is to be shown over time.

    Values are percentages of the property's root; of the selection to the left if `relative`; seconds, occurrences or
    bytes if `plain`. Nodes with less than the share `threshold` of the whole are left out; a tree has at most `depth`
    levels and `rows` nodes. With `over_time`, bars with the values by phase or time bin are in front of every name.
    """

    def __init__(
        self,
        cube: SeverityCube,
        *,
        relative: bool = False,
        plain: bool = False,
        threshold: float = 0.005,
        depth: int = DEPTH,
        rows: int = LINES,
        over_time: bool = False,
    ) -> None:
        self.axis = cube.divided() if over_time else None
        self.cube, self.relative, self.plain, self.threshold = cube, relative, plain, threshold
        self.sign = "+" if cube.is_difference else ""
        self.of = " of what was subtracted" if cube.is_difference else ""
        self.depth, self.rows = depth, rows

    def render(self, name: str | None, call_path: str | None) -> Iterator[RenderableType]:
        """Yield the trees that belong to a selection."""
        if name is None:
            yield from self.property_trees()
            return
        name = self.cube.find_property(name)
        if call_path is None:
            yield from self.call_tree(name)
        else:
            yield from self.system_tree(name, call_path)

    def _label(
        self,
        value: float,
        whole: float,
        unit: str,
        name: str,
        own: float | None = None,
        plain: bool = False,
        line: str = "",
    ) -> Text:
        share = value / whole if whole else 0.0
        style = _style(share)
        plain = plain or self.plain
        text = Text(self._number(value, unit) if plain else self._share(share), style)
        if own is not None:
            text.append(
                "  " + (self._number(own, unit) if plain else self._share(own / whole if whole else 0.0)), "dim"
            )
        if line:
            text.append(f"  {line}", style)
        return text.append(f"  {one_line(name)}", "" if abs(share) >= self.threshold else "bright_black")

    def _line(self, name: str, chosen: Chosen) -> str:
        """Draw the sums of some cells of a property by period as bars; empty unless values over time are shown."""
        return "" if self.axis is None else bars(np.nan_to_num(self._by_period(name, chosen, len(self.axis))))

    def _by_period(self, name: str, chosen: Chosen, n: int) -> NDArray[np.float64]:
        """Return the sums of some cells of a property in stored units, or its formula of such sums, for `n` periods."""
        cube = self.cube
        if cube.properties.is_computed(name):
            values = cube.computed(name, lambda of: self._by_period(of, chosen, n) * cube.scale(of))
            return np.broadcast_to(values, n) / cube.scale(name)
        cells = cube.period_cells[name]
        mask = chosen(cells)
        period, value = cells.period[mask], cells.value[mask]
        inside = period >= 0
        return np.bincount(period[inside], value[inside], n).astype(np.float64)

    def _over_time(self) -> Iterator[RenderableType]:
        axis = self.axis
        if axis is None:
            return
        n, each = len(axis), -(-len(axis) // BAR_WIDTH)
        by = f", the mean of {each} each" if each > 1 else ""
        seconds = (int(axis.end_time.max()) - int(axis.begin_time.min())) / self.cube.resolution if n else 0.0
        yield Text(
            f"Bars are {n:,} {axis.kind}s of {axis.words} over {seconds:.6f} s{by}; the largest of a line is full\n",
            "dim",
        )

    def groups(self) -> Iterator[RenderableType]:
        """Yield the groups of similar phases, and the outliers."""
        if self.axis is not None and self.axis.kind == "phase" and "time" in self.cube.cells:
            yield ""
            yield Text("Phases that are alike in time and in what they do", "bold")
            for line in groups_in_words(self.cube.similar_periods()):
                yield Text(line)

    def _together(self, name: str) -> str:
        """Name the reduction of a property whose values do not add up (it has no shares); empty for others."""
        if self.cube.properties.is_computed(name):
            return ", computed"
        how = self.cube.properties.reduction(name)
        return {"min": ", the least of all", "max": ", the greatest of all"}.get(how, "")

    def _share(self, share: float) -> str:
        return f"{share:{self.sign}8.2%}"

    def _number(self, value: float, unit: str) -> str:
        width = 16 if unit in ("sec", "occ", "sec/occ") else 17 + len(unit)
        return f"{value_in_words(value, unit, self.sign):>{width}}"

    def property_trees(self) -> Iterator[RenderableType]:
        """Yield one tree of inclusive values per root property that is not zero."""
        cube, axis = self.cube, self.cube.properties
        yield Text(cube.summary(), "bold")
        yield from self._focus()
        yield Text(
            "Inclusive severity of properties"
            + ("" if self.plain else f", percent of the root{self.of}")
            + "; -p shows where\n",
            "dim",
        )
        yield from self._over_time()
        for root in axis.roots:
            whole = cube.whole(root)
            if whole and self._reach(root):
                yield self._property_tree(root, whole)
                yield ""
        yield from self.groups()

    def _property_tree(self, root: str, whole: float) -> Tree:
        """Return the tree of a root and its largest descendants, as many as there are rows for."""
        cube, axis = self.cube, self.cube.properties
        unit = axis.unit_of(root)
        reach = {name: self._reach(name) for name in axis.id if name != root and axis.root_of(name) == root}
        large = [name for name, value in reach.items() if value and value >= self.threshold * abs(whole)]
        # parents come before children, and their reach is no smaller
        shown = set(sorted(large, key=lambda name: -reach[name])[: max(self.rows - 1, 0)])

        def label(name: str) -> Text:
            number, how = axis.number[name], self._together(name)
            line = self._line(name, lambda _: slice(None))
            text = self._label(cube.total(name), whole, unit, axis.title[number], plain=bool(how), line=line)
            return text.append(f"  {name}{how}", "dim")

        head = label(root)
        if not self.plain and axis.adds_up(root):
            head.append("  " + self._number(cube.total(root), unit).strip(), "bold")
        branches = {root: Tree(head, guide_style="bright_black")}
        for name in filter(shown.__contains__, axis.id):
            branches[name] = branches[axis.parent[axis.number[name]]].add(label(name))
        return branches[root]

    def _focus(self) -> Iterator[RenderableType]:
        """Yield a line about start-up and shutdown if they are set apart."""
        if words := focus.in_words(self.cube.facts):
            yield Text(f"{words}; --with-startup shows all", "yellow")

    def _reach(self, name: str) -> float:
        """Return the largest absolute total of a property and its descendants."""
        return max(abs(self.cube.total(name)), *(self._reach(c) for c in self.cube.properties.children[name]), 0.0)

    def _whole(self, name: str) -> float:
        return abs(self.cube.total(name)) if self.relative else self.cube.whole(name)

    def call_tree(self, name: str) -> Iterator[RenderableType]:
        """Yield the call tree of a property: inclusive and exclusive values."""
        cube, axis = self.cube, self.cube.call_paths
        number = cube.properties.number[name]
        whole, unit = self._whole(name), cube.properties.unit[number]
        inclusive, exclusive = cube.by_call_path(name, "iie"), cube.by_call_path(name)
        how = self._together(name)
        yield self._of_selection(name, cube.total(name))[0]
        yield from self._focus()
        yield Text(
            f"{cube.properties.summary[number]}\n{cube.properties.advice[number]}".strip()
            + "\nCall tree: with and without what is called; -c shows the locations\n",
            "dim",
        )
        yield from self._over_time()

        def in_subtree(i: int) -> Chosen:
            # cells are ordered by call path, and those of a subtree follow each other
            return lambda cells: slice(*np.searchsorted(cells.call_path, [i, axis.end[i]]).tolist())

        yield from self._forest(
            axis.parent,
            axis.depth,
            inclusive,
            whole,
            lambda i: self._label(
                float(inclusive[i]),
                whole,
                unit,
                " from ".join(filter(None, (axis.name[i], axis.call_site[i]))),
                float(exclusive[i]),
                bool(how),
                self._line(name, in_subtree(i)),
            ),
        )

    def _of_selection(self, name: str, selected: float) -> tuple[Text, float]:
        """Return the headline for the value of a property on selected call paths, and what shares refer to."""
        p, number = self.cube.properties, self.cube.properties.number[name]
        whole = abs(selected) if self.relative else self._whole(name)
        base = "the selection" if self.relative else p.root_of(name) + self.of
        how = self._together(name) or ("" if self.plain else f", percent of {base}")
        value = self._number(selected, p.unit[number]).strip()
        return Text(f"{p.title[number]} ({name})", "bold").append(f"  {value}{how}", ""), whole

    def system_tree(self, name: str, call_path: str) -> Iterator[RenderableType]:
        """Yield the system tree of a property on selected call paths."""
        cube, axis = self.cube, self.cube.system
        unit, how = cube.properties.unit_of(name), self._together(name)
        mask = cube.find_call_paths(call_path)
        values = cube.by_system(name, mask)
        head, whole = self._of_selection(name, cube.total(name, mask))
        yield head
        yield from self._focus()
        chosen = np.flatnonzero(mask).tolist()
        paths = [one_line(shortened(path)) for path in cube.call_paths.paths_of(chosen[:5])]
        yield Text(
            "\n".join(paths + ([f"... and {len(chosen) - 5:,} more call paths"] if len(chosen) > 5 else [])) + "\n",
            "dim",
        )
        leaves = np.abs(values[np.array(axis.location) >= 0]).sum()
        if not leaves:
            yield Text("nothing here")
            return

        yield from self._over_time()
        held = axis.held

        def label(i: int) -> Text:
            row = axis.location[i]
            line = self._line(name, lambda cells: mask[cells.call_path] & np.isin(cells.location, held[i]))
            where = (
                f"rank {axis.rank[row]} thread {axis.thread[row]}  {axis.name[i]}"
                if row >= 0
                else f"{axis.kind[i]} {axis.name[i]}"
            )
            return self._label(values[i], whole, unit, where, plain=bool(how), line=line)

        parent = np.array(axis.parent)
        yield from self._forest(parent, np.zeros(parent.size, np.int32), values, float(leaves), label)

    def grid(self, name: str, call_path: str | None, topology: str, width: int) -> Iterator[RenderableType]:
        """Yield the severity of a property on a grid: the first dimension to the right, the second downwards, others
        plane by plane.

        Severities are those of the selected call paths, by default all. They are shown as numbers if these fit the
        width of the terminal, else as shades.
        """
        cube = self.cube
        name = cube.find_property(name)
        if not cube.properties.adds_up(name):
            raise SeverityError(f"{name} does not add up, so that it cannot be shown on a grid\n  see cube.on_topology")
        unit = cube.properties.unit_of(name)
        t = cube.find_topology(int(topology) if topology.isdecimal() else topology)
        values = cube.on_topology(t, name, call_path)
        largest = float(np.nanmax(np.abs(values), initial=0.0))
        head, whole = self._of_selection(name, float(np.nansum(values)))
        yield head
        yield from self._focus()
        flat = values.reshape(*values.shape, *[1] * (2 - values.ndim))
        planes = list(np.ndindex(flat.shape[2:]))
        fits = 9 * flat.shape[0] + 8 <= width
        axes = [f"{d} {to}" for d, to in zip(t.dimensions, ("to the right", "downwards"), strict=False)]
        yield Text(
            f"{t.name}: {', '.join(axes)}"
            + ("" if fits else f"; shades up to {self._number(largest, unit).strip()}")
            + "; empty positions are marked -\n",
            "dim",
        )
        for plane in planes[:PLANES]:
            if plane:
                at = ", ".join(f"{d} {i}" for d, i in zip(t.dimensions[2:], plane, strict=True))
                yield Text(at, "bold")
            if fits:
                yield Text(" " * 8 + "".join(f"{x:9}" for x in range(flat.shape[0])), "dim")
            for y in range(flat.shape[1]):
                line = Text(f"{y:6}  ", "dim")
                for value in flat[(slice(None), y, *plane)].tolist():
                    line.append(*self._position(value, whole, largest, unit, fits))
                yield line
        if len(planes) > PLANES:
            yield Text(
                f"and {len(planes) - PLANES} more planes, which are not printed; tracecols report shows all", "dim"
            )

    def _position(self, value: float, whole: float, largest: float, unit: str, fits: bool) -> tuple[str, str]:
        """Return text and style of a position of a grid; the style follows its share of the largest value."""
        if np.isnan(value):
            return ("        -" if fits else "-"), "bright_black"
        share = value / largest if largest else 0.0
        style = _style(share)
        if not fits:
            # for differences, the style marks decreases
            return SHADES[int(np.ceil(abs(share) * (len(SHADES) - 1)))], "" if share >= 0 else "reverse"
        if not self.plain:
            return f"{value / whole if whole else 0.0:{self.sign}9.2%}", style
        return (f"{value:{self.sign}9.4f}" if unit == "sec" else f"{value:{self.sign}9.3g}"), style

    def _forest(
        self,
        parent: NDArray[np.int32],
        depth: NDArray[np.int32],
        values: NDArray[np.float64],
        whole: float,
        label: Callable[[int], Text],
    ) -> Iterator[RenderableType]:
        """Yield trees of the nodes that reach the threshold and of their ancestors, then notes on what was left out.

        Parents come before their children.
        """
        size = np.abs(values)
        if (values < 0).any():  # otherwise no node is smaller than a descendant
            for i in range(size.size - 1, -1, -1):
                if parent[i] >= 0:
                    size[parent[i]] = max(size[parent[i]], size[i])
        # the whole of a computed metric may be not a number where parts of it are
        reached = size > 0 if math.isnan(whole) else size >= self.threshold * abs(whole)
        large = np.flatnonzero(reached) if whole else np.zeros(0, np.int64)
        shown = large[depth[large] < self.depth]
        n_smaller = max(shown.size - self.rows, 0)
        if n_smaller:
            shown = np.sort(shown[np.argsort(-size[shown], kind="stable")[: self.rows]])
        branches: dict[int, Tree] = {}
        trees = []
        for i in shown.tolist():
            above = branches.get(int(parent[i]))
            branches[i] = Tree(label(i), guide_style="bright_black") if above is None else above.add(label(i))
            if above is None:
                trees.append(branches[i])
        if not (size > 0).any():
            what = "all values are zero" if not np.isnan(size).any() else "no value is a number other than zero"
            yield Text(f"nothing to show: {what}", "yellow")
            return
        if not trees and self.rows:
            yield Text(f"all of it is less than {self.threshold:.4g} of the whole: --min-share 0 shows it", "yellow")
        yield from trees
        deeper = large[depth[large] >= self.depth]
        if deeper.size:
            yield Text(
                f"... and {deeper.size:,} call paths on the levels {self.depth + 1:,} to {depth[deeper].max() + 1:,}; "
                "--depth shows more",
                "dim",
            )
        if n_smaller:
            yield Text(f"... and {n_smaller:,} smaller ones; --rows shows more, export has all", "dim")
