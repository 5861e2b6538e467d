"""Pieces of a trace pair operations as the whole trace does: random programs with all kinds of operations, cut at any
time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import slow
from support.random_programs import RandomProgram
from support.slices import CALLS

import tracecols
from tracecols.conversion import write_store
from tracecols.converters.otf2.write import write_archive
from tracecols.enhance.definitions.locations import PIECE_NUMBERS
from tracecols.enhance.definitions.numbering import Numbering
from tracecols.errors import StoreError
from tracecols.model.model import enhance as enhance_store
from tracecols.schema.notes import CONVENTIONS as DIFFERENCES
from tracecols.search.cube import analyze_model
from tracecols.slices.numbering import LEFT_OUT
from tracecols.slices.opened import open_slice
from tracecols.slices.plan import plan_slices
from tracecols.slices.source import StoreSource
from tracecols.store import Store

ALLREDUCE, BARRIER, BROADCAST = 11, 0, 1
LONGEST = 40
"""Upper bound for the time of a call of `ManyKinds`, in ticks."""

ADD_UP = (
    "time", "execution", "mpi", "comms_send", "comms_recv", "bytes_sent", "bytes_rcvd", "syncs_coll", "comms_cxch",
    "comms_csrc", "comms_cdst", "bytes_cout", "bytes_cin", "bytes_put", "mpi_file_bytes",
)  # fmt: skip
# completion is left out: in these programs, some processes leave barriers before others enter them
WAITS = (
    "mpi_latesender", "mpi_latereceiver", "mpi_barrier_wait", "mpi_wait_nxn", "mpi_latebroadcast", "mpi_earlyreduce",
    "mpi_nonblocking_collective_wait", "mpi_rma_wait_at_fence", "mpi_rma_early_fence", "mpi_rma_early_wait",
    "mpi_rma_late_complete", "mpi_rma_sync_late_post", "mpi_rma_comm_late_post", "mpi_rma_sync_lock_competition",
    "mpi_io_collective_wait", "mpi_mgmt_file_wait", "shmem_barrier_wait", "shmem_wait_nxn", "shmem_latebroadcast",
    "shmem_lock_competition",
)  # fmt: skip


class ManyKinds(RandomProgram):
    """A random program with blocking and non-blocking collective operations, fences, epochs, locks, files, and
    SHMEM."""

    def _run(self) -> None:
        archive, rng = self.archive, self.rng
        self.world = next(iter(self.group))
        self.kinds: dict[tuple[int, int], str] = {}
        self.done: dict[tuple[int, int], int] = defaultdict(int)
        self.started: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.windows = {c: self.window(c) for c in self.group}
        archive.group("comm_locations", [p.threads[0] for p in self.processes], "shmem")
        shmem = archive.comm("", range(self.n_ranks), paradigm="shmem")
        self.shmem = archive.define("RmaWin", name=archive.string("SHMEM"), comm=shmem, flags=0)
        self.pairwise = self.window(self.world)
        file = archive.define("IoRegularFile", name=archive.string("data"), scope=0)
        self.files = {
            c: archive.define(
                "IoHandle", name=archive.string(""), file=file, io_paradigm=0, io_handle_flags=0, comm=c, parent=None
            )
            for c in self.group
        }
        self.alone = [archive.group("comm_group", [r]) for r in range(self.n_ranks)]
        archive.region("MPI_File_write_all", "file_io", "mpi")
        for name in ("shmem_barrier_all", "shmem_int_sum_to_all", "shmem_set_lock", "shmem_clear_lock"):
            archive.region(name, "barrier" if "barrier" in name else "function", "shmem")
        # pending epoch calls by rank, and owners of locks
        self.epochs: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self.owners: dict[tuple[int, int], int] = {}
        self.kind_of = partial(
            rng.choice,
            (
                "MPI_Barrier", "MPI_Allreduce", "MPI_Bcast", "nonblocking", "nonblocking", "fence", "fence", "file",
                "shmem",
            ),
        )  # fmt: skip
        super()._run()

    def channel(self, p, sending: bool) -> tuple[int, int, int, int]:
        # most messages use few channels, on which they overtake each other
        if self.rng.random() < 0.3:
            return super().channel(p, sending)
        peer = (p.rank + (1 if sending else -1)) % self.n_ranks
        return (p.rank, peer, self.world, 0) if sending else (peer, p.rank, self.world, 0)

    def window(self, communicator: int) -> int:
        name = self.archive.string("window")
        return self.archive.define("RmaWin", name=name, comm=communicator, flags=0)

    def collective(self, at, p) -> None:
        c, _ = p.obligations.pop(0)
        key = c, self.done[c, p.rank]
        self.done[c, p.rank] += 1
        what = self.kinds.setdefault(key, self.kind_of())
        root = self.group[c].index(min(self.group[c])) if self.group[c] else 0
        if what == "nonblocking":
            request = self.rng.choice([r for r in range(100, 160) if r not in {x[2] for x in self.started[p.rank]}])
            self.enter(at, p, "MPI_Iallreduce")
            self.record(at, p, "other", "NonBlockingCollectiveRequest", {"request": request})
            self.leave(at, p, "MPI_Iallreduce")
            self.started[p.rank].append((c, key[1], request))
        elif what == "fence":
            fields = {"op": BARRIER, "level": 3, "window": self.windows[c], "root": None, "sent": 0, "received": 0}
            self.in_call(at, p, "MPI_Win_fence", [("RmaCollectiveBegin", {}), ("RmaCollectiveEnd", fields)])
        elif what == "file":
            given = {"handle": self.files[c], "matching": key[1]}
            begin = {**given, "mode": 1, "operation_flags": 2, "requested": 8}
            records = [("IoOperationBegin", begin), ("IoOperationComplete", {**given, "result": 8})]
            self.in_call(at, p, "MPI_File_write_all", records)
        elif what == "shmem" and len(self.group[c]) == self.n_ranks:
            op, name = (BARRIER, "shmem_barrier_all") if key[1] % 2 else (ALLREDUCE, "shmem_int_sum_to_all")
            end = {"op": op, "level": 3, "window": self.shmem, "root": None, "sent": 8, "received": 8}
            self.in_call(at, p, name, [("RmaCollectiveBegin", {}), ("RmaCollectiveEnd", end)])
        else:
            op = {"MPI_Allreduce": ALLREDUCE, "MPI_Bcast": BROADCAST}.get(what, BARRIER)
            n = 8 * (op != BARRIER)
            end = {"op": op, "communicator": c, "root": root if op == BROADCAST else None, "sent": n, "received": n}
            name = what if what.startswith("MPI") else "MPI_Barrier"
            self.in_call(at, p, name, [("MpiCollectiveBegin", {}), ("MpiCollectiveEnd", end)])

    def in_call(self, at, p, name, records) -> None:
        self.enter(at, p, name)
        for record, fields in records:
            self.record(at, p, "other", record, fields)
        self.leave(at, p, name)

    def complete_nonblocking(self, at, p, at_most: int) -> None:
        """Complete some operations in one call, in a different order than they were started."""
        started = self.started[p.rank]
        self.rng.shuffle(started)
        self.enter(at, p, "MPI_Waitall")
        for c, k, request in started[:at_most]:
            fields = {"op": ALLREDUCE, "communicator": c, "root": None, "sent": 8, "received": 1000 + k}
            self.record(at, p, "other", "NonBlockingCollectiveComplete", {**fields, "request": request})
        self.leave(at, p, "MPI_Waitall")
        del started[:at_most]

    def message(self, at, p) -> None:
        what = self.rng.choice(
            ("message", "message", "message", "complete", "put", "epoch", "epoch", "epoch", "lock", "lock")
        )
        if at is not p.threads[0] or what == "message":
            # several threads send and receive on the same channels
            super().message(at, p)
        elif what == "complete":
            self.complete_nonblocking(at, p, self.rng.randint(0, 2))
        elif what == "put":
            c, remote = self.world, self.rng.randrange(self.n_ranks)
            self.in_call(
                at,
                p,
                "MPI_Put",
                [
                    ("RmaPut", {"window": self.windows[c], "remote": remote, "sent": 8, "matching": 1}),
                    ("RmaOpCompleteBlocking", {"window": self.windows[c], "matching": 1}),
                ],
            )
        elif what == "epoch":
            self.epoch(at, p)
        else:
            self.lock(at, p)

    def user(self, at, p, depth: int) -> None:
        """Communicate at places where other programs compute."""
        if at is p.threads[0] and self.rng.random() < 0.7:
            self.message(at, p)
        else:
            super().user(at, p, depth)

    def epoch(self, at, p) -> None:
        """Continue the planned epochs, or plan another one."""
        todo = self.epochs[p.rank]
        if not todo:
            target = self.rng.randrange(self.n_ranks)
            if target == p.rank or self.epochs[target]:
                return
            todo += [("MPI_Win_start", target), ("MPI_Win_complete", target)]
            self.epochs[target] += [("MPI_Win_post", p.rank), ("MPI_Win_wait", p.rank)]
            return
        name, other = todo.pop(0)
        self.in_call(at, p, name, [("RmaGroupSync", {"level": 3, "window": self.pairwise, "group": self.alone[other]})])

    def lock(self, at, p) -> None:
        """Acquire a free lock of a window or of SHMEM, or release one."""
        target = self.rng.randrange(self.n_ranks)
        of_shmem = self.rng.random() < 0.5
        key = int(of_shmem), target
        take, give = ("shmem_set_lock", "shmem_clear_lock") if of_shmem else ("MPI_Win_lock", "MPI_Win_unlock")
        window = self.shmem if of_shmem else self.pairwise
        given = {"window": window, "remote": None if of_shmem else target, "lock": 77 + target if of_shmem else 0}
        if key not in self.owners:
            self.owners[key] = p.rank
            record = "RmaAcquireLock" if of_shmem else "RmaRequestLock"
            self.in_call(at, p, take, [(record, {**given, "lock_type": 0})])
        elif self.owners[key] == p.rank:
            del self.owners[key]
            self.in_call(at, p, give, [("RmaReleaseLock", given)])

    def main(self, p):
        yield from super().main(p)
        while self.rng.random() < 0.9 and self.started[p.rank]:
            self.complete_nonblocking(p.threads[0], p, 1)
            yield


class Rows:
    """Map from the events of a piece to those of the whole trace; -1 for repeated events."""

    def __init__(self, store: Store, piece: Store, start: int, stop: int, leaves_out: bool = False) -> None:
        first, of_piece = (s.definitions["locations"].column("first_row").to_pylist() for s in (store, piece))
        self.whole = np.full(piece.manifest["n_events"], -1, np.int64)
        self.in_range: set[int] = set()
        slices = plan_slices(store, None, start, stop, 1, leaves_out).slices
        for location, planned in enumerate(slices):
            rows = np.arange(planned.start, planned.stop)
            kept = first[location] + np.setdiff1d(rows, planned.dropped)
            begin = of_piece[location] + len(planned.before)
            self.whole[begin : begin + kept.size] = kept
            self.in_range.update((first[location] + rows).tolist())

    @property
    def held(self) -> set[int]:
        return set(self.whole[self.whole >= 0].tolist())

    def of_piece(self, other: Rows) -> Rows:
        """Return the map for a piece of this piece."""
        found = copy(self)
        found.whole = np.append(self.whole, -1)[other.whole]
        return found

    def __call__(self, row) -> list[int]:
        return self.whole[row].tolist()


def groups(operation, member) -> set[frozenset]:
    """Return the sets of members of the same operation."""
    found = defaultdict(set)
    for o, m in zip(np.asarray(operation).tolist(), member, strict=True):
        found[o].add(m)
    return {frozenset(of) for of in found.values()}


def within(whole: set[frozenset], held: set) -> set[frozenset]:
    """Return the groups reduced to the members that are held."""
    return {frozenset(of & held) for of in whole if of & held}


def check_counted(whole, part, rows: Rows) -> None:
    """Check that messages and blocking collective operations are those of the whole trace."""
    held = rows.held
    expected = set(zip(whole.messages.send.tolist(), whole.messages.recv.tolist(), strict=True))
    found = set(zip(rows(part.messages.send), rows(part.messages.recv), strict=True))
    assert found == {pair for pair in expected if held.issuperset(pair)}
    m, of = whole.collective_members, part.collective_members
    found = groups(of.collective, rows(of.end))
    assert found == within(groups(m.collective, m.end.tolist()), held)


def check_numbered(whole, part, rows: Rows, start: int, stop: int) -> None:
    """Check that operations that only tracecols pairs are those of the whole trace, too."""
    m, of = whole.window_members, part.window_members
    assert groups(of.operation, rows(of.end)) == within(groups(m.operation, m.end.tolist()), rows.held)
    known = dict(
        zip(m.end.tolist(), zip(m.latest_enter_time.tolist(), m.last_access_time.tolist(), strict=True), strict=True)
    )
    for end, latest, access in zip(
        rows(of.end), of.latest_enter_time.tolist(), of.last_access_time.tolist(), strict=True
    ):
        expected, last_access = known[end]
        assert latest in (-1, max(expected, start))
        if start + LONGEST <= last_access < stop - LONGEST:
            assert access == last_access
    m, of = whole.file_members, part.file_members

    def left(table):
        return list(zip(table.location.tolist(), np.minimum(table.exit_time, stop).tolist(), strict=True))

    found = set(left(of))
    entered = m.enter_time < stop
    of_whole = groups(m.operation[entered], [x for x, inside in zip(left(m), entered.tolist(), strict=True) if inside])
    assert groups(of.operation, left(of)) == within(of_whole, found)
    sure = (m.enter_time >= start) & (m.exit_time < stop)
    assert found >= {x for x, inside in zip(left(m), sure.tolist(), strict=True) if inside}
    # the completing call, and the values that distinguish operations completed by the same call
    m, of = whole.nonblocking_members, part.nonblocking_members

    def completed(table):
        return list(zip(table.location.tolist(), table.communicator.tolist(), table.received.tolist(), strict=True))

    found = set(completed(of))
    assert groups(of.operation, completed(of)) == within(groups(m.operation, completed(m)), found)
    sure = (m.done_enter_time >= start) & (m.done_exit_time < stop)
    assert found >= {x for x, inside in zip(completed(m), sure.tolist(), strict=True) if inside}
    begin = dict(zip(completed(m), m.begin_time.tolist(), strict=True))
    latest = dict(zip(completed(m), m.latest_begin_time.tolist(), strict=True))
    for x, at, until in zip(completed(of), of.begin_time.tolist(), of.latest_begin_time.tolist(), strict=True):
        assert at == max(begin[x], start)
        assert until in (-1, max(latest[x], start))
    check_epochs(whole, part, start, stop)
    check_locks(whole, part, start, stop)


def check_epochs(whole, part, start: int, stop: int) -> None:
    """Check that access epochs have their exposure epochs, and that those that end in the piece are there."""

    def ends(e, inside):
        columns = (
            e.window,
            e.origin,
            e.target,
            np.maximum(e.complete_enter_time, start),
            np.minimum(e.wait_exit_time, stop),
        )
        return set(zip(*(c[inside].tolist() for c in columns), strict=True))

    e, of = whole.epochs, part.epochs
    found = ends(of, np.ones(len(of), bool))
    assert found <= ends(e, np.ones(len(e), bool))
    sure = (np.minimum(e.complete_enter_time, e.wait_enter_time) >= start) & (e.wait_exit_time < stop)
    assert found >= ends(e, sure & (e.complete_enter_time < stop - LONGEST))


def check_locks(whole, part, start: int, stop: int) -> None:
    """Check that locks released in the piece are there, and wait for those released before."""
    e, of = whole.lock_epochs, part.lock_epochs

    def previous(table):
        key = zip(table.location.tolist(), table.lock.tolist(), table.release_time.tolist(), strict=True)
        return dict(zip(key, table.previous_release_time.tolist(), strict=True))

    expected, found = previous(e), previous(of)
    assert found == {
        key: before if before >= start else -1 for key, before in expected.items() if start <= key[2] < stop
    }


# -- single ones -------------------------------------------------------------------------------------------------------


def waits_of(store: Store, name: str, start: int, stop: int | None = None) -> tuple[dict[int, int], dict[str, int]]:
    """Return the ticks of a wait state in a piece by location, and the notes."""
    clock = store.manifest["clock"]
    bounds = [None if t is None else (t - clock["origin"]) / clock["resolution"] for t in (start, stop)]
    with open_slice(store, *bounds, 1) as piece:
        cube = analyze_model(enhance_store(piece, 1))
        found = Counter()
        for location, value in zip(cube.cells[name].location.tolist(), cube.cells[name].value.tolist(), strict=True):
            found[location] += value
        return dict(found), {
            k: n for k, n in cube.facts["counts"].items() if not any(of in k for of in (CALLS, DIFFERENCES))
        }


def test_piece__knows_non_blocking_collectives_that_straddle_its_start(archive, enhance):
    mpi = archive.mpi(2)

    def begin(rank, time, request):
        rank.enter(time, "MPI_Ibarrier").start_collective(time + 1, request)
        rank.leave(time + 2, "MPI_Ibarrier")

    def complete(rank, enter, time, request):
        fields = {"op": 0, "communicator": mpi.world, "root": None, "sent": 0, "received": 0, "request": request}
        rank.enter(enter, "MPI_Wait").record(time, "NonBlockingCollectiveComplete", **fields).leave(time + 1)

    # process 0 starts the first operation at 10, process 1 at 30; then process 0 waits from 55 to 70 for process 1
    for rank, starts in zip(mpi.ranks, ((10, 50, 55), (30, 70, 75)), strict=True):
        rank.enter(0, "main")
        begin(rank, starts[0], 1)
        complete(rank, 35, 36, 1)
        begin(rank, starts[1], 2)
        complete(rank, starts[2], 76, 2)
        rank.leave(100, "main")
    store = enhance(archive).store
    for start in (0, 20, 33):
        assert waits_of(store, "mpi_nonblocking_collective_wait", start) == ({0: 15}, {})
    assert waits_of(store, "mpi_nonblocking_collective_wait", 20, 78) == ({0: 15}, {})


@pytest.mark.slow
def test_piece__knows_non_blocking_collectives_that_are_completed_after_its_end(archive, enhance):
    mpi = archive.mpi(2)
    # process 0 completes the first operation after the second, process 1 both at once; the wait for the second lasts
    # from 25 to 40
    for rank, (second, first_done, second_done) in zip(mpi.ranks, ((20, 90, 45), (40, 45, 46)), strict=True):
        rank.enter(0, "main")
        for time, request in ((10, 1), (second, 2)):
            rank.enter(time, "MPI_Ibarrier").start_collective(time, request)
            rank.leave(time + 1, "MPI_Ibarrier")
        rank.enter(25 if second == 20 else 42, "MPI_Wait")
        for time, request in sorted(((first_done, 1), (second_done, 2))):
            fields = {"op": 0, "communicator": mpi.world, "root": None, "sent": 0, "received": 0, "request": request}
            rank.record(time, "NonBlockingCollectiveComplete", **fields)
        rank.leave(91, "MPI_Wait").leave(100, "main")
    store = enhance(archive).store
    assert waits_of(store, "mpi_nonblocking_collective_wait", 0) == ({0: 15}, {})
    noted = {
        "non-blocking collective operations that are never completed": 1,
        "non-blocking collective operations that lack participants": 1,
    }
    assert waits_of(store, "mpi_nonblocking_collective_wait", 0, 60) == ({0: 15}, noted)


@pytest.mark.slow
def test_piece__knows_fences_that_others_have_left_before_its_start(archive, enhance):
    mpi = archive.mpi(2)
    window = archive.define("RmaWin", name=archive.string("w"), comm=mpi.world, flags=0)
    # one process leaves the first fence at 20, the other at 25; then process 0 waits for 20 and 40 ticks
    for rank, times in zip(
        mpi.ranks, (((10, 20), (50, 72), (100, 142)), ((12, 25), (70, 72), (140, 142))), strict=True
    ):
        rank.enter(0, "main")
        for enter, leave in times:
            end = {"op": 0, "level": 3, "window": window, "root": None, "sent": 0, "received": 0}
            rank.enter(enter, "MPI_Win_fence").record(enter, "RmaCollectiveBegin")
            rank.record(leave, "RmaCollectiveEnd", **end).leave(leave, "MPI_Win_fence")
        rank.leave(200, "main")
    store = enhance(archive).store
    assert waits_of(store, "mpi_rma_wait_at_fence", 30) == ({0: 60}, {})
    lacks = {"operations on windows that lack participants": 1}
    assert waits_of(store, "mpi_rma_wait_at_fence", 22) == ({0: 60}, lacks)


@pytest.mark.slow
def test_piece__knows_in_which_order_receives_were_posted(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for rank in (a, b):
        rank.enter(0, "main")
    a.enter(4, "MPI_Irecv").post_receive(5, 7).leave(6, "MPI_Irecv")
    b.enter(10, "MPI_Send").send(11, 0, mpi.world, 0, 1).leave(12, "MPI_Send")
    # the receive that was posted last is completed first: it waits for its sender from 50 to 60
    a.enter(50, "MPI_Recv").receive(62, 1, mpi.world, 0, 1000).leave(64, "MPI_Recv")
    b.enter(60, "MPI_Send").send(61, 0, mpi.world, 0, 1000).leave(63, "MPI_Send").leave(100, "main")
    a.enter(80, "MPI_Wait").complete_receive(82, 1, mpi.world, 7, 0, 1).leave(84, "MPI_Wait").leave(100, "main")
    store = enhance(archive).store
    assert waits_of(store, "mpi_latesender", 40) == ({0: 10}, {"receives without send": 1})
    # the receive that was posted first is not completed in the piece
    assert waits_of(store, "mpi_latesender", 40, 70) == ({0: 10}, {})
    assert waits_of(store, "mpi_latesender", 0, 70) == ({0: 10}, {"sends without receive": 1})


@pytest.mark.parametrize(
    "numbers", ["1:2:3", "a:b:c:d:e:f:g", "0:0:0:0:0:-1:0", f"0:0:0:0:0:0:{1 << 40}", str(1 << 70)]
)
def test_piece__with_wrong_numbers_is_refused(archive, enhance, numbers):
    archive.location().call(0, 1, "main")
    store = enhance(archive).store
    store.manifest["source"][PIECE_NUMBERS] = numbers
    with pytest.raises(StoreError, match="PIECE_NUMBERS: "):
        Numbering.of(store)


# -- programs ----------------------------------------------------------------------------------------------------------


def program(seed: int, folder: Path, size: int = 150) -> Store:
    return ManyKinds(seed, folder / "traces.otf2", size, ranks=4).store(folder)


def cut(store: Store, seed: int, n: int) -> Iterator[tuple[int, int]]:
    """Draw time ranges; the first one extends to the end."""
    first, last = store.manifest["first_time"], store.manifest["last_time"]
    rng = np.random.default_rng(seed)
    for k in range(n):
        start, stop = np.sort(rng.integers(first, last + 2, 2)).tolist()
        yield start, max(stop, start + 1) if k else last + 1


def piece_of(store: Store, path: Path, start: int, stop: int) -> Store:
    path.mkdir()
    source = StoreSource(store, None, start, stop, jobs=1, keeps_unmatched=True)
    write_store(source, path, jobs=1, salvage=False, progress=None)
    return Store(path)


def check_pieces(seed: int, folder: Path, n_cuts: int = 4) -> None:
    store = program(seed, folder)
    whole = enhance_store(store, 1)
    for k, (start, stop) in enumerate(cut(store, seed, n_cuts)):
        piece = piece_of(store, folder / f"{k}.trace", start, stop)
        rows = Rows(store, piece, start, stop)
        part = enhance_store(piece, 1)
        check_counted(whole, part, rows)
        check_numbered(whole, part, rows, start, stop)


def check_pieces_of_pieces(seed: int, folder: Path) -> None:
    store = program(seed, folder)
    whole = enhance_store(store, 1)
    (start, stop), (inner, _) = cut(store, seed, 2)
    piece = piece_of(store, folder / "p.trace", start, stop)
    bounds = sorted((max(start, inner), (start + stop) // 2))
    bounds[1] = max(bounds[1], bounds[0] + 1)
    of_piece = piece_of(piece, folder / "pp.trace", *bounds)
    rows = Rows(store, piece, start, stop).of_piece(Rows(piece, of_piece, *bounds))
    part = enhance_store(of_piece, 1)
    check_counted(whole, part, rows)
    check_numbered(whole, part, rows, *bounds)


def check_archives(seed: int, folder: Path) -> None:
    """Check that the events in an archive of a piece are joined correctly by counting, and that it omits only those
    that would be joined wrongly."""
    store = program(seed, folder)
    whole = enhance_store(store, 1)
    for k, (start, stop) in enumerate(cut(store, seed, 2)):
        path = write_archive(StoreSource(store, None, start, stop), folder / f"{k}.otf2")
        piece = Store(tracecols.convert(path, folder / f"{k}.trace", jobs=1))
        rows = Rows(store, piece, start, stop, leaves_out=True)
        part = enhance_store(piece, 1)
        assert not np.isin(part.facts.numbering.rows[:, 0], LEFT_OUT).any()
        check_counted(whole, part, rows)
        check_numbered(whole, part, rows, start, stop)
        pairs = set(zip(whole.messages.send.tolist(), whole.messages.recv.tolist(), strict=True))
        assert {p for p in pairs if rows.in_range.issuperset(p)} == {p for p in pairs if rows.held.issuperset(p)}
        m = whole.collective_members
        for of in groups(m.collective, m.end.tolist()):
            assert of <= rows.held or not of <= rows.in_range


def totals(store: Store, names) -> Counter:
    """Return ticks, bytes and occurrences by property and location."""
    found = Counter()
    cube = analyze_model(enhance_store(store, 1))
    for name in set(names) & set(cube.properties.id):
        cells = cube.cells[name]
        for location, value in zip(cells.location.tolist(), cells.value.tolist(), strict=True):
            found[name, location] += value
    return found


def check_sums(seed: int, folder: Path) -> None:
    store = program(seed, folder)
    first, last = store.manifest["first_time"], store.manifest["last_time"]
    cuts = [first, *sorted(np.random.default_rng(seed).integers(first + 1, last + 1, 3).tolist()), last + 1]
    found = Counter()
    for k, (start, stop) in enumerate(pairwise(cuts)):
        if start < stop:
            found.update(totals(piece_of(store, folder / f"{k}.trace", start, stop), (*ADD_UP, *WAITS)))
    whole = totals(store, (*ADD_UP, *WAITS))
    assert {k: v for k, v in found.items() if k[0] in ADD_UP and v} == {
        k: v for k, v in whole.items() if k[0] in ADD_UP and v
    }
    assert {k: (v, whole[k]) for k, v in found.items() if k[0] in WAITS and v > whole[k]} == {}


def check_divisions(seed: int, folder: Path) -> None:
    """Check that neither planning nor the analysis of a piece depends on how the trace is divided."""
    store = program(seed, folder)
    ((start, stop),) = cut(store, seed, 1)
    piece = piece_of(store, folder / "p.trace", start, stop)

    def of_piece():
        plan = plan_slices(store, None, start, stop, 1, True)
        cube = analyze_model(enhance_store(piece, 1))
        cells = {name: [c.tolist() for c in (x.call_path, x.location, x.value)] for name, x in cube.cells.items()}
        return sorted(plan.numbering.rows.tolist()), [x.before for x in plan.slices], cells, cube.facts["counts"]

    expected = of_piece()
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in (
            ("slices.numbering.BATCH", 1),
            ("slices.plan.BATCH", 7),
            ("enhance.dataflow.partitions.PARTITION_ROWS", 1),
            ("enhance.mpi.collectives.BUCKET_ROWS", 5),
        ):
            patch.setattr(f"tracecols.{name}", rows)
        assert of_piece() == expected


CHECKS = {
    "piece": check_pieces,
    "piece of a piece": check_pieces_of_pieces,
    "archive": check_archives,
    "sums": check_sums,
    "divisions": check_divisions,
}


# without the numbers of any kind of operations one of these fails
@pytest.mark.parametrize(("what", "seed"), [("piece", 12), *slow((what, 7) for what in CHECKS)])
def test_piece__pairs_operations_as_the_whole_trace(what, seed, tmp_path):
    CHECKS[what](seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("what", CHECKS)
@pytest.mark.parametrize("seed", [20, 21, 22, 324])
def test_pieces__of_random_programs_pair_operations_as_the_whole_trace(what, seed, tmp_path):
    CHECKS[what](seed, tmp_path)
