"""Small exports of Nsight Systems, as SQLite files and as folders of Parquet files."""

import sqlite3
import struct

import pyarrow as pa
import pyarrow.parquet as pq

RUNTIME, KERNEL, MEMCPY, MEMSET, SYNC = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION")
)
SCHEMAS = 1 << 24


def thread(pid, tid=None):
    """Return the global identifier of a thread, by default the first of its process."""
    return 1 << 48 | pid << 24 | (pid if tid is None else tid)


def process(pid):
    """Return the global identifier of a process."""
    return 1 << 48 | pid << 24


class Export:
    """Rows of tables; the columns of a table are those that any of its rows has.

    Parameters
    ----------
    meta : str
        Name of the table of facts, which is different in older versions.
    facts : str
        Further facts.
    """

    def __init__(self, meta="META_DATA_EXPORT", utc=1_000_000, **facts):
        self.tables = {}
        self.strings = {}
        self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=utc)
        for name, value in {"EXPORT_SCHEMA_VERSION": "3.25.0", **facts}.items():
            self.row(meta, name=name, value=value)
        for number, label in ((1, "Host-to-Device"), (2, "Device-to-Host"), (8, "Device-to-Device")):
            self.row("ENUM_CUDA_MEMCPY_OPER", id=number, name=f"KIND_{number}", label=label)

    def row(self, table, **values):
        """Add a row."""
        self.tables.setdefault(table, []).append(values)
        return self

    def string(self, text):
        """Return the number of a text."""
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.row("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def call(self, begin, end, name="cudaLaunchKernel_v7000", correlation=None, pid=1, tid=None, kind=0):
        """Add a call of CUDA."""
        return self.row(
            RUNTIME, start=begin, end=end, eventClass=kind, globalTid=thread(pid, tid), correlationId=correlation,
            nameId=self.string(name),
        )  # fmt: skip

    def kernel(self, begin, end, name="kernel", correlation=None, pid=1, device=0, context=1, stream=7):
        """Add a kernel."""
        return self.row(
            KERNEL, **self._where(begin, end, correlation, pid, device, context, stream),
            shortName=self.string(name), demangledName=self.string(f"void {name}(int)"),
        )  # fmt: skip

    def copy(self, begin, end, size, kind=1, correlation=None, pid=1, device=0, context=1, stream=7):
        """Add a copy, by default to the device."""
        return self.row(
            MEMCPY, **self._where(begin, end, correlation, pid, device, context, stream), bytes=size, copyKind=kind
        )

    def memset(self, begin, end, size, correlation=None, pid=1, device=0, context=1, stream=7):
        """Add a memset."""
        return self.row(
            MEMSET, **self._where(begin, end, correlation, pid, device, context, stream), bytes=size, value=0
        )

    def sync(self, begin, end, correlation, pid=1, context=1, stream=(1 << 32) - 1, kind=3):
        """Add the wait of a synchronising call; such rows may name any device."""
        return self.row(SYNC, **self._where(begin, end, correlation, pid, 0, context, stream), syncType=kind, eventId=0)

    @staticmethod
    def _where(begin, end, correlation, pid, device, context, stream):
        return {
            "start": begin, "end": end, "deviceId": device, "contextId": context, "streamId": stream,
            "correlationId": correlation, "globalPid": process(pid),
        }  # fmt: skip

    def range(self, begin, end, text, pid=1, tid=None, kind=59, domain=0, registered=False, payload=None):
        """Add a range of NVTX, or another NVTX event."""
        return self.row(
            "NVTX_EVENTS", start=begin, end=end, eventType=kind, text=None if registered else text,
            textId=self.string(text) if registered else None, globalTid=thread(pid, tid), domainId=domain, binaryData=payload,
        )  # fmt: skip

    def mpi(self, begin, end, name, pid=1, table="OTHER", **values):
        """Add a call of MPI."""
        given = {"start": begin, "end": end, "globalTid": thread(pid), "textId": self.string(name)}
        return self.row(f"MPI_{table}_EVENTS", **given, **values)

    def schemas(self):
        """Add the schemas of NCCL that tests use, once for each of two processes."""
        operation = (("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8))
        create = (("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16))
        for _ in range(2):
            for number, fields in (
                (0, create), (4, operation), (5, operation), (6, (*operation, ("Root", 5, 16))),
                (9, (*operation, ("Peer rank", 5, 16))), (10, (*operation, ("Peer rank", 5, 16))), (16, operation),
                (17, (*operation, ("Root", 5, 16))), (18, (*operation, ("Root", 5, 16))),
            ):  # fmt: skip
                for idx, (name, kind, offset) in enumerate(fields):
                    self.row(
                        "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=SCHEMAS + number, idx=idx, type=kind,
                        name=name, offset=offset,
                    )  # fmt: skip
        return self

    def columns(self, table):
        """Return the columns of a table with their types: TEXT, BLOB or INTEGER."""
        found = {}
        for row in self.tables[table]:
            for name, value in row.items():
                kind = "TEXT" if isinstance(value, str) else "BLOB" if isinstance(value, bytes) else "INTEGER"
                if value is not None or name not in found:
                    found[name] = kind if value is not None else found.get(name, "INTEGER")
        return found

    def write(self, path):
        """Write a SQLite file."""
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as file:
            for table, rows in self.tables.items():
                columns = self.columns(table)
                definition = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
                file.execute(f"CREATE TABLE {table} ({definition})")
                file.executemany(
                    f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
                    [[row.get(name) for name in columns] for row in rows],
                )
        file.close()
        return path

    def write_parquet(self, folder):
        """Write a folder with a Parquet file for every table."""
        folder.mkdir()
        types = {"TEXT": pa.string(), "BLOB": pa.binary(), "INTEGER": pa.int64()}
        for table, rows in self.tables.items():
            columns = {
                name: pa.array([row.get(name) for row in rows], types[kind])
                for name, kind in self.columns(table).items()
            }
            pq.write_table(pa.table(columns), folder / f"{table}.parquet")
        return folder


def payload(schema, *values):
    """Return the payload of an NCCL range: a header, the communicator, bytes or ranks, root or peer."""
    body = struct.pack("<QQi", *values) if schema else struct.pack("<Qiii", *values)
    return struct.pack("<QQQQ", 0, SCHEMAS + schema, len(body), 0) + body


def small():
    """Return an export of one process: a step in which a kernel and a copy are launched and waited for."""
    export = Export()
    export.row("PROCESSES", globalPid=process(1), pid=1, name="python3")
    export.row("ThreadNames", nameId=export.string("main thread"), globalTid=thread(1))
    export.range(10, 90, "step, op_id = 1").range(12, 40, "aten::mm, seq = 7, op_id = 2")
    export.call(20, 25, correlation=5).kernel(30, 60, correlation=5)
    export.range(41, 80, "aten::to, op_id = 3", registered=True)
    export.call(42, 45, "cudaMemcpyAsync_v3020", 6).copy(61, 65, 4096, 2, 6)
    export.call(50, 70, "cudaStreamSynchronize_v3020", 8).sync(50, 66, 8, stream=7)
    return export


def all_to_all(late=30, ranks=2, instances=3):
    """Return an export of exchanges: the kernel of the last rank begins `late` after the others, all end together."""
    export = Export()
    for k in range(instances):
        for rank in range(ranks):
            pid, at = rank + 1, 1000 * k + (late if rank == ranks - 1 else 0)
            where = {"pid": pid, "device": rank, "context": pid}
            export.range(at + 1, at + 20, f"nccl:all_to_all, op_id = {k}", pid).range(at + 2, at + 19, "ncclGroupEnd", pid, domain=1)  # fmt: skip
            export.call(at + 5, at + 8, correlation=100 + k, pid=pid)
            export.kernel(at + 10, 1000 * k + 100, "ncclDevKernel_SendRecv", 100 + k, **where)
    return export


def messages():
    """Return an export of two ranks: a late sender, two requests completed together, and two communicators."""
    export = Export()
    for rank, pid in ((1, 1), (0, 2)):
        # each process has its own handles, and they are reused
        export.row("MPI_RANKS", globalTid=thread(pid), rank=rank)
        for time, handle, (uid, local) in ((0, 10 + pid, (1, rank)), (50, 20, (2, 1 - rank)), (0, 20, (1, rank))):
            export.row(
                "MPI_COMMUNICATORS", rank=rank, timestamp=time, commHandle=handle, localRank=local, size=2, groupRoot=0,
                groupRootUid=uid,
            )  # fmt: skip
        world = 10 + pid
        export.mpi(0, 2, "MPI_Init", pid)
        if rank:
            export.mpi(5, 30, "MPI_Recv", pid, "P2P", commHandle=world, tag=4, remoteRank=0, size=64)
        else:
            export.mpi(20, 30, "MPI_Send", pid, "P2P", commHandle=world, tag=4, remoteRank=1, size=64)
        peer = {"commHandle": world, "tag": 5, "remoteRank": 1 - rank, "size": 8}
        export.mpi(31, 32, "MPI_Irecv", pid, "P2P", **peer, requestHandle=7)
        export.mpi(33, 34, "MPI_Isend", pid, "P2P", **peer, requestHandle=8)
        export.mpi(35, 36, "MPI_Test", pid, "START_WAIT", requestHandle=7)
        for request in (7, 8):
            export.mpi(37, 40, "MPI_Waitall", pid, "START_WAIT", requestHandle=request)
        late = 10 if rank else 0
        export.mpi(60 + late, 80, "MPI_Allreduce", pid, "COLLECTIVES", commHandle=20, size=16, recvSize=16)
        export.mpi(81, 82, "MPI_Bcast", pid, "COLLECTIVES", commHandle=20, rootRank=0, size=16 if rank else 0, recvSize=0 if rank else 16)  # fmt: skip
        export.mpi(83, 84, "MPI_Recv", pid, "P2P", commHandle=world, tag=4, remoteRank=-1, size=64)
        export.mpi(90, 95, "MPI_Finalize", pid)
    return export
