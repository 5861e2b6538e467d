"""The severity cube: property x call path x location, sparse, integers inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tracecols.errors import SeverityError
from tracecols.given.printable import printable
from tracecols.given.providers import provider
from tracecols.given.quantities import counted
from tracecols.given.subdomains import Given
from tracecols.severity import (
    algebra,
    diagnosis,
    efficiencies,
    focus,
    frames,
    grids,
    similar,
    storage,
    subdomains,
    unfolded,
)
from tracecols.severity.narrowed import in_words
from tracecols.severity.queries import Severities

if TYPE_CHECKING:
    import pandas as pd


class SeverityCube(Severities):
    """Severities of all properties per call path and location (thesis 4.14).

    A value is inclusive along the property tree, exclusive along the call tree, and of one location. Other aggregations
    (the views of thesis 4.16) are named by three letters, `i` or `e` for inclusive or exclusive, for property, call
    path and system.

    Attributes
    ----------
    properties : PropertyAxis
    call_paths : CallAxis
    system : SystemAxis
    cells : dict of str to Cells
        By property: ticks, occurrences, bytes or a counter's own unit.
    facts : dict
        Conventions, clock resolution, the trace, and counts of what could not be matched.
    topologies : list of Topology
        Grids that locations are on: those of the trace, among them always the one of processes and threads.
    periods : PeriodAxis, optional
        Phases or bins of time; None if the cube is not divided by them.
    period_cells : dict of str to PeriodCells
        The same severities by phase or bin, by property; their sums over periods are `cells`. Empty if not divided.
    outside : dict of str to PeriodCells, optional
        The part of the severities outside of the focus of the run (`severity.focus`), by property, of no period if the
        cube is not divided; None if it is not known.

    Other Parameters
    ----------------
    name, names, properties : str or sequence of str
        Properties by id or title. SeverityError is raised if there is none, or if several have the title.
    call_path : str, optional
        A path, a region or a shell pattern (`find_call_paths`); all call paths by default.
    call_paths : (n_call_paths,) bool, optional
        A mask of call paths, which `find_call_paths` returns; all by default.
    rank, thread : int, optional
        Locations; all by default.
    aggregation : str, optional
        Three letters, see above. The last one is used by `by_system` and `on_topology` only.
    subdomains : mapping, callable, str or Path, optional
        Parts of the application that locations belong to (`by_subdomain`).

    Examples
    --------
    >>> cube = tracecols.open("hybrid.trace").analyze()  # doctest: +SKIP
    >>> cube.total("omp_idle_threads") / cube.total("time")  # doctest: +SKIP
    0.5264089000057031
    >>> cube.frame("mpi_latesender", call_path="*/MPI_Sendrecv")  # doctest: +SKIP
    >>> cube["late sender"]  # doctest: +SKIP
    """

    # functions of other modules, which take the cube first

    find_topology = grids.find_topology
    on_topology = grids.on_topology
    with_topology = grids.with_topology
    by_subdomain = subdomains.by_subdomain
    with_subdomains = subdomains.with_subdomains

    frame = to_frame = frames.frame
    wide = frames.wide
    to_hatchet = frames.to_hatchet
    to_xarray = frames.to_xarray
    over_time = frames.over_time
    periods_frame = frames.periods_frame
    similar_periods = similar.similar_periods
    with_phases_as_call_paths = unfolded.with_phases_as_call_paths
    __arrow_c_stream__ = frames.arrow_stream

    diagnosis = diagnosis.diagnose
    efficiencies = efficiencies.efficiencies
    focused = focus.focused

    save = storage.save

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a cube from a folder.

        Parameters
        ----------
        path : str or Path
            The folder `NAME.severity`.

        Raises
        ------
        SeverityError
            If it is not a cube, damaged, or of a version this tracecols does not know.
        """
        return cls(**storage.read(path))

    def __sub__(self, other: SeverityCube) -> SeverityCube:
        """Subtract another cube, on trees unified by names (`algebra.difference`)."""
        return algebra.difference(self, other) if isinstance(other, SeverityCube) else NotImplemented

    def additive(self) -> Self:
        """Return this cube without the properties that do not add up, such as minima of a profile."""
        p = self.properties
        kept = [name for name in p.id if p.adds_up(name)]
        if len(kept) == len(p.id):
            return self
        axis = p.take([p.number[name] for name in kept])
        for i, above in enumerate(axis.parent):
            while above and not p.adds_up(above):
                above = p.parent[p.number[above]]
            axis.parent[i] = above
        return self.replaced(properties=axis)

    def violations(self) -> list[str]:
        """Check every cell: 0 <= child <= parent, and the sum of siblings that do not overlap <= parent.

        The parts of estimates (`PropertyAxis.is_estimate`) are left out.

        Returns
        -------
        list of str
            One line per violation; empty if there are none.
        """
        lines = []
        p = self.properties
        for name, every in p.children.items():
            children = list(filter(p.adds_up, every))
            if not name or not children or not p.adds_up(name):
                continue
            if any(p.is_estimate[p.number[at]] for at in (name, p.root_of(name))):
                continue
            for child in children:
                negative = int((self.cells[child].value < 0).sum())
                lines += [f"{child} is negative in {counted(negative, 'cell')}"] * (negative > 0)
            parts = p.parts(name)
            exceeding = [(f"the children of {name} exceed it", parts)]
            exceeding += [(f"{child} exceeds {name}", [child]) for child in children if child not in parts]
            for words, some in exceeding:
                left = self.cells[name].without([self.cells[child] for child in some])
                # charged costs have fractions of ticks, and their sums are rounded
                whole = self.cells[name].value
                is_rounded = left.value.dtype.kind == "f" and whole.size
                below = left.value < -(2.0**-40 * float(np.abs(whole).max()) if is_rounded else 0)
                if below.any():
                    i = int(left.value.argmin())
                    lines.append(
                        f"{words} in {counted(int(below.sum()), 'cell')}, most by "
                        f"{-left.value[i] * self.scale(name):g} at "
                        f"{self.call_paths.paths_of([int(left.call_path[i])])[0]}, rank "
                        f"{self.system.rank[left.location[i]]} thread {self.system.thread[left.location[i]]}"
                    )
        return lines

    def summary(self) -> str:
        """Return one line: size, conventions, operation, and what the cube is narrowed to."""
        found = sum(len(self.cells[n]) > 0 for n in self.properties.id)
        size = (
            f"{counted(found, 'property', 'properties')} x {counted(len(self.call_paths), 'call path')} x "
            f"{counted(self.system.n_locations, 'location')}"
        )
        conventions = f"{self.facts['conventions']} conventions" if self.facts["conventions"] else ""
        of = f"{self.facts['operation']} of {len(self.facts['of'])} cubes" if "operation" in self.facts else ""
        return ", ".join(filter(None, (size, conventions, of, in_words(self.facts))))

    def __getitem__(self, properties: str | list[str]) -> pd.DataFrame:
        """Return the severities of a property, or of several, as `frame` does: `cube["late sender"]`."""
        return self.frame(properties)

    __iter__ = None

    def __getattr__(self, name: str) -> Any:
        # imported only if there is no such attribute
        from difflib import get_close_matches

        near = [] if name.startswith("_") else get_close_matches(name, dir(self), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"a cube has no attribute {name!r}{hint}", name=name, obj=self)

    def __repr__(self) -> str:
        lines = [f"<SeverityCube {self.summary()}>"]
        trace = self.facts.get("trace")
        if trace:
            lines.append(f"  of {trace['source']['path']}, {trace['n_events']:,} events")
        try:
            looked_at = self.focused()
        except SeverityError:
            # its values contradict each other
            looked_at = self
        if words := focus.in_words(looked_at.facts):
            lines.append(f"  {words}")
        p, sign = self.properties, "+" if self.is_difference else ""
        whole = looked_at.whole("time") if "time" in self.cells else 0.0
        if whole:
            names = [n for i, n in enumerate(p.id) if p.root_of(n) == "time" and not p.overlaps[i] and p.adds_up(n)]
            shares = [(looked_at.own_total(n), n) for n in names]
            for value, name in sorted(shares, key=lambda share: -abs(share[0]))[:5]:
                if value:
                    share = f"{value / whole:{sign}7.2%} {value:{sign}12.6f} s"
                    lines.append(f"  {share}  {p.title_of(name)} ({name})")
        return printable("\n".join(lines))

    def report(
        self,
        path: str | Path,
        title: str | None = None,
        sources: str | Path | None = None,
        *,
        force: bool = False,
        with_startup: bool = False,
        subdomains: Given | None = None,
    ) -> Path:
        """Write the cube as one HTML file for a browser: three coupled trees, topologies, distributions (thesis 4.5).

        The file holds everything it needs and loads nothing.

        Parameters
        ----------
        path : str or Path
            A report there is replaced.
        title : str, optional
            The name of the trace by default.
        sources : str or Path, optional
            The folder that has the sources of the program: the report then shows the lines of the definitions of its
            regions.
        force : bool, optional
            Replace any other file as well.
        with_startup : bool, optional
            Show the whole run, with start-up and shutdown.
        subdomains : mapping, callable, str or Path, optional
            Subdomains of the application that locations belong to, as for `by_subdomain`: the system tree then has a
            switch between them and the machine.

        Raises
        ------
        SeverityError
            If the file cannot be written, something else exists in its place, there is no such folder, or there are no
            such subdomains.
        """
        write = provider("cube as a page")
        return Path(write(self, path, title, sources, force=force, with_startup=with_startup, subdomains=subdomains))

    def view(self, height: int = 620) -> Any:
        """Return the page of `report` as a notebook widget (extra `notebook`).

        Its `selection` is a dict: `properties`, a list of [id, whether without the properties below it]; `call_paths`,
        a list of the numbers of the selected call paths; `periods`, the first and the last selected phase or bin, None
        if none are selected.

        Parameters
        ----------
        height : int
            Pixels.

        Raises
        ------
        MissingExtraError
            Without anywidget.
        """
        return provider("cube as a widget")(self, height)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(provider("cube in a notebook")(self))

    def _repr_html_(self) -> str:
        return str(provider("cube as a table")(self))
