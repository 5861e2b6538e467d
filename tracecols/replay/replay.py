"""The replay of a trace with other weights: ideal and other networks, faster computation, balanced processes.

What is predicted is the runtime from the first return of MPI_Init to the last call of MPI_Finalize; without these, of
the whole recording. The order of messages, of locks and of polling stays as it was recorded, and so does what the
program computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.given.arguments import show
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.events import Computation, find_computation
from tracecols.replay.graph import Graph, build_graph, synchronised
from tracecols.replay.nodes import TRANSFER, NodeClass, find_nodes, mpi_regions
from tracecols.search.choice import choose

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.int64]


STRAIGHT = 2.0**-20
"""By how much of itself a saving may differ from a straight line: what rounding makes of it."""

RECORDED, DIMEMAS = COLLECTIVES = ("recorded", "dimemas")
"""Who waits for whom in collective operations."""


@dataclass(frozen=True)
class Changes:
    """What is to be different from the recorded run.

    Attributes
    ----------
    scale : dict of str to float
        By region or shell pattern the factor for computation in it and in what it calls; where regions nest, factors
        multiply.
    transfer : float, optional
        Factor for the time that MPI takes beyond waiting: 0 is an ideal network. By default 1, and 0 with a latency or
        bandwidth.
    latency : float, optional
        Seconds that every message takes, and every step of a collective operation.
    bandwidth : float, optional
        Bytes per second of a message.
    balanced : bool
        Every process computes as much as the mean of all.
    openmp : float, optional
        Factor for the time that OpenMP and locks take beyond waiting.
    collectives : str
        `recorded`; or `dimemas`, with an ideal network: everybody waits for all in blocking collective operations but
        Reduce.
    """

    scale: Mapping[str, float] = field(default_factory=dict)
    transfer: float | None = None
    latency: float | None = None
    bandwidth: float | None = None
    balanced: bool = False
    openmp: float | None = None
    collectives: str = "recorded"

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Mapping):
            raise AnalysisError(
                f"factors are given by region, not as {show(self.scale)}\n  give a mapping such as {{'solve': 0.5}}"
            )
        for region, factor in self.scale.items():
            check_number(factor, f"factor of {show(region)}", "a number such as 0.5, not negative", least=0.0)
        check_number(
            self.transfer, "factor of transfer", "a number such as 0.5, not negative; 0 is an ideal network", least=0.0
        )
        check_number(self.openmp, "factor of OpenMP", "a number such as 0.5, not negative", least=0.0)
        if self.collectives not in COLLECTIVES:
            raise AnalysisError(f"collectives are {show(self.collectives)}\n  there are {', '.join(COLLECTIVES)}")
        check_number(self.latency, "latency", "seconds, not negative", least=0.0)
        check_number(self.bandwidth, "bandwidth", "bytes per second, more than 0", least=math.ulp(0.0))

        if self.collectives == DIMEMAS and (
            self.transfer_factor or self.latency is not None or self.bandwidth is not None
        ):
            raise AnalysisError(
                "collectives as Dimemas has them are for an ideal network\n  give transfer=0 besides, and neither latency nor bandwidth"
            )

    @property
    def transfer_factor(self) -> float:
        """Factor for the time that MPI takes beyond waiting."""
        if self.transfer is not None:
            return float(self.transfer)
        return 1.0 if self.latency is None and self.bandwidth is None else 0.0

    def __str__(self) -> str:
        words = [f"{region} x {factor:g}" for region, factor in self.scale.items()]
        words += ["processes balanced"] if self.balanced else []
        factor = self.transfer_factor
        other = self.latency is not None or self.bandwidth is not None
        if factor or not other:
            words += [f"transfer x {factor:g}" if factor else "ideal network"] if factor != 1 else []
        words += [f"latency {self.latency:g} s"] if self.latency is not None else []
        words += [f"bandwidth {self.bandwidth:g} B/s"] if self.bandwidth is not None else []
        words += [f"OpenMP x {self.openmp:g}"] if self.openmp is not None else []
        words += ["collectives as of Dimemas"] if self.collectives == DIMEMAS else []
        return ", ".join(words) or "as recorded"


def check_number(value: object, what: str, expected: str, least: float) -> None:
    if value is None:
        return
    number = float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    if not least <= number < math.inf:
        raise AnalysisError(f"the {what} is {show(value)}\n  give {expected}")


class Replay:
    """A trace as a graph of what waits for what, to be swept with other weights.

    Memory grows with nodes (MPI calls, barriers, forks, locks: about 100 B each with their edges), and during one pass
    with the events of one location; it is not divided into partitions as an analysis is.

    Attributes
    ----------
    nodes : Nodes
    first, last : (n,) int64
        Nodes between which the runtime extends: from the earliest of the first to the latest of the last.
    is_between : bool
        Whether these are those of MPI_Init and MPI_Finalize.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes = nodes = find_nodes(model)
        regions = model.regions
        is_init, is_end = (which[nodes.call_region] for which in (regions.is_init, regions.is_finalize))
        everything = np.arange(len(nodes))
        self.is_between = bool(is_init.any())
        self.first = nodes.call_exit[is_init] if self.is_between else everything
        # a recording may end before MPI_Finalize
        self.last = nodes.call_enter[is_end] if self.is_between and is_end.any() else everything

    def __repr__(self) -> str:
        return f"<Replay of {self.model.facts.store.path.name}: {len(self.nodes):,} nodes>"

    @once
    def graph(self) -> Graph:
        """What waits for what, made when first needed."""
        return build_graph(self.model, self.nodes)

    @property
    def counts(self) -> dict[str, int]:
        """What the replay does not know, by description."""
        return self.graph.counts

    @once
    def computation(self) -> Computation:
        """The computation before each node, by call path."""
        # the graph tells where threads wait
        return find_computation(self.model, self.graph.nodes)

    @once
    def ideal(self) -> Rows:
        """Times of the nodes on an ideal network; (n_nodes,) int64."""
        return self.graph.sweep(self.weights(Changes(transfer=0)))

    def window(self, time: Rows) -> tuple[int, int]:
        """Return the ticks between which the runtime extends."""
        if not self.first.size:
            return 0, 0
        return int(time[self.first].min()), int(time[self.last].max())

    def runtime(self, time: Rows) -> int:
        """Return the runtime of some times of the nodes, in ticks."""
        begin, end = self.window(time)
        return end - begin

    def call_paths_of(self, region: str) -> NDArray[np.bool_]:
        """Select the call paths in a region: those that enter it and what these call.

        Raises
        ------
        AnalysisError
            If nothing is called so.
        """
        n = len(self.model.call_paths)
        choice = choose(None, None, region, None)
        return choice.mask(self.model, np.arange(n, dtype=np.int32), np.zeros(n, np.int32))

    def factors(self, changes: Changes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the factors of computation: by call path, and by location.

        Raises
        ------
        AnalysisError
            If a region does not exist, or there is nothing to scale in it.
        """
        model, c = self.model, self.computation
        of_call_path = np.ones(len(model.call_paths))
        for region, factor in changes.scale.items():
            mask = self.call_paths_of(region)
            if not mask[c.call_path].any():
                is_mpi = mpi_regions(model.regions)[model.call_paths.region][mask].all()
                hint = (
                    "give transfer, latency or bandwidth for what MPI takes"
                    if is_mpi
                    else "only time outside of MPI, of barriers, and of calls that create and join threads can be scaled"
                )
                raise AnalysisError(f"there is no computation in {show(region)} to be scaled\n  {hint}")
            of_call_path[mask] *= factor
        of_location = np.ones(model.n_locations)
        if changes.balanced:
            process = model.facts.process
            own = np.bincount(process[c.location], c.ticks, int(process.max(initial=-1)) + 1)
            scaled = np.bincount(process[c.location], c.ticks * of_call_path[c.call_path], own.size)
            computes = own > 0
            if computes.any():
                mean = scaled[computes].mean()
                with np.errstate(divide="ignore", invalid="ignore"):
                    of_location = np.where(scaled > 0, mean / scaled, 1.0)[process]
        return of_call_path, of_location

    def weights(self, changes: Changes) -> Rows:
        """Return the weights of nodes and hubs after changes; (n_all,) int64."""
        g = self.graph_of(changes)
        weight = g.weight.copy()
        factor = changes.transfer_factor
        if factor != 1:
            of = np.flatnonzero(np.isin(g.nodes.kind, [int(kind) for kind in TRANSFER]))
            weight[of] = np.rint(weight[of] * factor).astype(np.int64)
        if changes.openmp is not None:
            of = np.flatnonzero(np.isin(g.nodes.kind, [int(NodeClass.OPENMP), int(NodeClass.LOCK)]))
            weight[of] = np.rint(weight[of] * changes.openmp).astype(np.int64)
        if changes.scale or changes.balanced:
            of_call_path, of_location = self.factors(changes)
            c = self.computation
            self.scale(weight, of_call_path[c.call_path] * of_location[c.location])
        return weight

    def scale(self, weight: Rows, factor: NDArray[np.float64]) -> None:
        """Change the weights of nodes, in place, by a factor for each row of `computation`."""
        c = self.computation
        change = np.bincount(c.node, (factor - 1) * c.ticks, len(self.graph.nodes))
        weight[: change.size] += np.rint(change).astype(np.int64)
        np.maximum(weight, 0, out=weight)

    @once
    def synchronised(self) -> Graph:
        """The graph in which collective operations synchronise."""
        return synchronised(self.model, self.graph)

    def graph_of(self, changes: Changes) -> Graph:
        """Return the graph to be swept for some changes."""
        return self.synchronised if changes.collectives == DIMEMAS else self.graph

    def lags(self, changes: Changes) -> Rows:
        """Return the lags of edges after changes; (n_edges,) int64."""
        g = self.graph_of(changes)
        if changes.latency is None and changes.bandwidth is None:
            return g.lag
        resolution = self.model.facts.resolution
        seconds = np.full(len(g.edges), changes.latency or 0.0, np.float64)
        if changes.bandwidth is not None:
            seconds += g.edges.length / changes.bandwidth
        return g.lag + np.rint(g.edges.steps * seconds * resolution).astype(np.int64)

    def times(self, changes: Changes) -> Rows:
        """Return the times of the nodes after changes; (n_nodes,) int64."""
        return self.graph_of(changes).sweep(self.weights(changes), self.lags(changes))

    def savings(self, changes: Changes, factor: float = 0.5, n: int = 20) -> pd.DataFrame:
        """Return by how much the runtime would shrink if a call path took less time, for the `n` with most computation.

        One sweep for each of them. What a call path calls keeps its time.

        Returns
        -------
        DataFrame
            call_path, path, computation (s, of all locations in the replay), largest (s, of one location), saving (s)
            and share (of the runtime), the largest saving first.
        """
        import pandas as pd

        check_number(factor, "factor", "a number such as 0.5, not negative", least=0.0)
        c, resolution = self.computation, self.model.facts.resolution
        graph, weight, lag = self.graph_of(changes), self.weights(changes), self.lags(changes)
        ones = self._scales(changes)
        before = self.runtime(graph.sweep(weight, lag))
        rows = []
        for call_path, total in self._largest(ones, n):
            mine = c.call_path == call_path
            changed = weight.copy()
            less = np.bincount(c.node[mine], (factor - 1) * ones[mine] * c.ticks[mine], len(self.graph.nodes))
            changed[: less.size] += np.rint(less).astype(np.int64)
            np.maximum(changed, 0, out=changed)
            saved = before - self.runtime(graph.sweep(changed, lag))
            largest = np.bincount(c.location[mine], ones[mine] * c.ticks[mine]).max()
            rows.append((call_path, total / resolution, largest / resolution, saved / resolution))
        frame = pd.DataFrame(rows, columns=["call_path", "computation", "largest", "saving"])
        self._with_paths(frame)
        frame["share"] = frame["saving"] / (before / resolution) if before > 0 else math.nan
        return frame.sort_values("saving", ascending=False, kind="stable").reset_index(drop=True)

    def _scales(self, changes: Changes) -> NDArray[np.float64]:
        """Return the factors of the rows of `computation` after changes."""
        c = self.computation
        if not (changes.scale or changes.balanced):
            return np.ones(c.ticks.size)
        of_call_path, of_location = self.factors(changes)
        return of_call_path[c.call_path] * of_location[c.location]

    def _largest(self, scales: NDArray[np.float64], n: int) -> list[tuple[int, float]]:
        """Return the call paths with most computation, and its ticks."""
        total = np.bincount(self.computation.call_path, scales * self.computation.ticks, len(self.model.call_paths))
        chosen = np.argsort(-total, kind="stable")[:n]
        return [(int(i), float(total[i])) for i in chosen[total[chosen] > 0]]

    def _with_paths(self, frame: pd.DataFrame) -> None:
        """Add call paths as text."""
        from tracecols.enhance.scan.paths import path_names

        model = self.model
        paths = path_names(
            model.call_paths.parent, list(model.regions.name[model.call_paths.region]), frame["call_path"].tolist()
        )
        frame.insert(1, "path", np.array([*paths, None], object)[:-1])

    def slack(self, changes: Changes, n: int = 20) -> pd.DataFrame:
        """Return by how much call paths can shrink before another path takes over, for the `n` with most computation.

        The saving is a concave function of how much shorter a call path is, made of straight lines: of how much of it
        lies on the longest path. The first line ends where another path becomes the longest. That is found by up to 18
        sweeps for each call path, to 2^-16 of it; ticks are divided for that, so that a clock may be as coarse as it
        likes.

        Returns
        -------
        DataFrame
            call_path, path, critical (s), slack (s), limit (a factor), the largest slack first.
        """
        import pandas as pd

        c, graph = self.computation, self.graph_of(changes)
        weight, lag, start = self.weights(changes), self.lags(changes), graph.time - graph.time.min(initial=0)
        span = int(max(start.max(initial=1), weight.max(initial=1), lag.max(initial=1)))
        fine = max(1, (1 << 58) // max(span, 1))
        weight, lag, start = weight * fine, lag * fine, start * fine
        before = self.runtime(graph.sweep(weight, lag, start))
        scales = self._scales(changes)
        rows = []
        for call_path, _ in self._largest(scales, n):
            mine = c.call_path == call_path
            ticks = np.bincount(c.node[mine], scales[mine] * c.ticks[mine] * float(fine), weight.size).astype(
                np.float64
            )

            def saved(part: float, ticks: NDArray[np.float64] = ticks) -> float:
                less = np.maximum(weight - np.rint(part * ticks).astype(np.int64), 0)
                return float(before - self.runtime(graph.sweep(less, lag, start)))

            low, high = 2.0**-16, 1.0
            critical = saved(low) / low
            if critical <= 0:
                continue
            if saved(high) >= critical * (1 - STRAIGHT):
                low = high
            while high - low > 2.0**-16:
                middle = (low + high) / 2
                is_straight = saved(middle) >= middle * critical * (1 - STRAIGHT)
                low, high = (middle, high) if is_straight else (low, middle)
            seconds = critical / fine / self.model.facts.resolution
            rows.append((call_path, seconds, low * seconds, 1 - low))
        frame = pd.DataFrame(rows, columns=["call_path", "critical", "slack", "limit"])
        self._with_paths(frame)
        return frame.sort_values("slack", ascending=False, kind="stable").reset_index(drop=True)


def notes(counts: Mapping[str, int]) -> list[str]:
    """Say what a replay does not know."""
    return [f"{n:,} {what}" for what, n in counts.items() if n]


def as_changes(**given: Any) -> Changes:
    """Make changes of what a caller gave; None for what was not."""
    return Changes(**{name: value for name, value in given.items() if value is not None})
