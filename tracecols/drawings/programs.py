"""Tiny programs with windows of one-sided communication, files, SHMEM, a device, and POSIX threads."""

from __future__ import annotations

from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS, PARADIGMS
from tracecols.testing import Location, Program

PTHREAD = PARADIGMS.index("pthread")
ANY, CLOSES = 1, 3
"""Levels of synchronisation: of the process, and of its memory as well."""
WRITE, COLLECTIVE_IO = 1, 2
"""The mode of an I/O operation, and the flag of collective ones."""


class WindowProgram(Program):
    """Single-threaded processes with one window of one-sided communication that all of them expose."""

    def __init__(self, processes: int) -> None:
        super().__init__(processes)
        self._matching = 0
        self.define("windows", name="window", communicator=0, flags=0)
        for p in range(processes):
            self.define("groups", type="comm_group", paradigm="mpi", flags=0, members=[p])

    def together(self, rank: int, name: str, enter: int, leave: int) -> Location:
        """Record a process's call in a collective operation: creation, fence or freeing of the window."""
        one = self.masters[rank].enter(enter, name).record(enter, K.RMA_COLLECTIVE_BEGIN)
        side = {"window": 0, "op": COLLECTIVE_OPS.index("barrier"), "level": CLOSES, "sent": 0, "received": 0}
        return one.record(leave, K.RMA_COLLECTIVE_END, rma=side).leave(leave)

    def synchronise(self, rank: int, name: str, enter: int, leave: int, other: int) -> Location:
        """Record MPI_Win_post, -start, -complete or -wait with one other process."""
        closes = name in ("MPI_Win_complete", "MPI_Win_wait")
        side = {"window": 0, "group": other, "level": CLOSES if closes else ANY}
        one = self.masters[rank].enter(enter, name)
        return one.record(leave if closes else enter, K.RMA_GROUP_SYNC, rma=side).leave(leave)

    def put(self, rank: int, enter: int, leave: int, target: int) -> Location:
        """Record a put of 8 bytes."""
        self._matching += 1
        side = {"window": 0, "remote": target, "sent": 8, "received": 0, "matching": self._matching}
        return self.masters[rank].enter(enter, "MPI_Put").record(enter, K.RMA_PUT, rma=side).leave(leave)

    def lock(self, rank: int, enter: int, leave: int, unlock: int, release: int) -> Location:
        """Record that a process locks the window of process 0 exclusively, and unlocks it."""
        side = {"window": 0, "remote": 0, "lock": 0}
        one = self.masters[rank].enter(enter, "MPI_Win_lock")
        one.record(enter, K.RMA_REQUEST_LOCK, rma={**side, "lock_type": 0}).leave(leave)
        return one.enter(unlock, "MPI_Win_unlock").record(release, K.RMA_RELEASE_LOCK, rma=side).leave(release)


class FileProgram(Program):
    """Single-threaded processes with one file that all of them use."""

    def __init__(self, processes: int) -> None:
        super().__init__(processes)
        file = self.define("io_files", name="data", type="regular", scope=-1)
        self._handle = self.define("io_handles", name="", file=file, paradigm=0, flags=0, communicator=0, parent=-1)
        self.region("MPI_File_open", "mpi", "file_io_metadata")
        self.region("MPI_File_write_all", "mpi", "file_io")

    def open(self, rank: int, enter: int, leave: int) -> Location:
        """Record that a process opens the file."""
        one = self.masters[rank].enter(enter, "MPI_File_open")
        return one.record(leave, K.IO_CREATE_HANDLE, io={"handle": self._handle}).leave(leave)

    def write_all(self, rank: int, enter: int, leave: int) -> Location:
        """Record that a process takes part in a collective write of 64 bytes."""
        side = {"handle": self._handle, "matching": 1}
        begin = {**side, "mode": WRITE, "operation_flags": COLLECTIVE_IO, "requested": 64}
        one = self.masters[rank].enter(enter, "MPI_File_write_all").record(enter, K.IO_OPERATION_BEGIN, io=begin)
        return one.record(leave, K.IO_OPERATION_COMPLETE, io={**side, "result": 64}).leave(leave)


class ShmemProgram(Program):
    """Single-threaded processes that use SHMEM."""

    def __init__(self, processes: int) -> None:
        super().__init__(processes)
        members = list(range(processes))
        world = self.define("communicators", kind="group", paradigm="shmem", flags=0, members=members)
        self.define("windows", name="SHMEM", communicator=world, flags=0)

    def together(self, rank: int, name: str, op: str, enter: int, leave: int, root: int = -1) -> Location:
        """Record a process's call in an operation of all processes, each of which receives 8 bytes unless it is a
        barrier; only the root sends, or all if there is none."""
        self.region(name, "shmem", "barrier" if op == "barrier" else "function")
        sent, received = (0, 0) if op == "barrier" else (8 * (root in (-1, rank)), 8)
        side = {"window": 0, "op": COLLECTIVE_OPS.index(op), "level": CLOSES, "sent": sent, "received": received}
        one = self.masters[rank].enter(enter, name).record(enter, K.RMA_COLLECTIVE_BEGIN)
        return one.record(leave, K.RMA_COLLECTIVE_END, rma={**side, "root": root}).leave(leave)

    def lock(self, rank: int, enter: int, taken: int, clear: int, release: int) -> Location:
        """Record that a process sets a lock, and clears it."""
        self.region("shmem_set_lock", "shmem", "function")
        self.region("shmem_clear_lock", "shmem", "function")
        side = {"window": 0, "remote": -1, "lock": 1}
        one = self.masters[rank].enter(enter, "shmem_set_lock")
        one.record(taken, K.RMA_ACQUIRE_LOCK, rma={**side, "lock_type": 0}).leave(taken)
        return one.enter(clear, "shmem_clear_lock").record(release, K.RMA_RELEASE_LOCK, rma=side).leave(release)


class OffloadProgram(Program):
    """A single-threaded process (`host`) with a device that has one stream (`device`)."""

    def __init__(self) -> None:
        super().__init__(processes=1, threads=2)
        self.host, self.device = self.locations
        self.definitions["locations"] |= {"type": ["cpu_thread", "gpu"], "name": ["host", "CUDA[0:7]"]}
        members = self.define("communicators", kind="group", paradigm="cuda", flags=0, members=[0, 1])
        self.define("windows", communicator=members, flags=0)

    def call(self, enter: int, leave: int, name: str) -> OffloadProgram:
        """Record a call of the device's API by the host."""
        self.region(name, "cuda", "wrapper")
        self.host.enter(enter, name).leave(leave)
        return self

    def kernel(self, begin: int, end: int, name: str = "kernel") -> OffloadProgram:
        """Record a kernel."""
        self.region(name, "cuda", "function")
        self.device.enter(begin, name).leave(end)
        return self

    def copy_to_host(self, begin: int, end: int) -> OffloadProgram:
        """Record a copy of 64 bytes from the device to the host."""
        return self._copy(begin, end, K.RMA_PUT, self.host)

    def copy_to_device(self, begin: int, end: int) -> OffloadProgram:
        """Record a copy of 64 bytes from the host to the device."""
        return self._copy(begin, end, K.RMA_GET, self.host)

    def copy_within(self, begin: int, end: int) -> OffloadProgram:
        """Record a copy of 64 bytes within the device."""
        return self._copy(begin, end, K.RMA_PUT, self.device)

    def _copy(self, begin: int, end: int, kind: K, other: Location) -> OffloadProgram:
        n = {"sent": 64 * (kind == K.RMA_PUT), "received": 64 * (kind == K.RMA_GET)}
        side = {"window": 0, "remote": self.locations.index(other), "matching": 1}
        self.device.record(begin, kind, rma={**side, **n})
        self.device.record(end, K.RMA_OP_COMPLETE_BLOCKING, rma={"window": 0, "matching": 1})
        return self


class PosixProgram(Program):
    """A thread (`main`) that creates another one (`created`, in the team `pool`), with calls for locks."""

    def __init__(self) -> None:
        super().__init__(processes=1, threads=2)
        self.main, self.created = self.locations
        self.pool = self.define("communicators", kind="group", paradigm="pthread", flags=0, members=[0, 1])
        self.region("pthread_create", "pthread", "thread_create")
        self.region("pthread_join", "pthread", "thread_wait")
        for name in ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_signal"):
            self.region(name, "pthread", "wrapper")
