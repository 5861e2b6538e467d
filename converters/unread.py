"""Files of other tools that people mistake for a trace: what they are, and how to get a trace instead."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tracecols.errors import SourceError
from tracecols.given.files import open_regular

WITH_SCORE_P = "record the program with Score-P, which writes OTF2"


class Unread(NamedTuple):
    """A kind of file that is not read."""

    what: str
    """Description of the file."""
    todo: str
    """How to get a trace."""
    endings: tuple[str, ...] = ()
    """File name endings."""
    magic: bytes = b""
    """First bytes; if endings and magic are given, one match is enough."""


SIONLIB = Unread(
    "a SIONlib container", "unpack it with 'sionsplit' or record with SCOREP_TRACING_USE_SION=false", magic=b"sion"
)

UNREAD = (
    SIONLIB,
    Unread(
        "a tar archive",
        "unpack it, and give the folder of the trace in it",
        (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"),
    ),
    Unread("a zip archive", "unpack it, and give the folder of the trace in it", (".zip",), b"PK\3\4"),
    Unread(
        "a report of Nsight Systems",
        "export it: nsys export --type sqlite --include-blobs=true REPORT.nsys-rep",
        (".nsys-rep", ".qdrep"),
    ),
    Unread(
        "an export of Nsight Systems that is neither SQLite nor Parquet, or no trace",
        "export the report again: nsys export --type sqlite --include-blobs=true REPORT.nsys-rep",
        (".jsonl", ".arrow", ".h5", ".hdf"),
    ),
    Unread(
        "a report of Nsight Compute, which has metrics of kernels and no trace",
        "record a trace with Nsight Systems: nsys profile",
        (".ncu-rep",),
    ),
    Unread(
        "what Extrae writes before it is merged", "merge it: mpi2prv -f TRACE.mpits -o run.prv.gz", (".mpit", ".mpits")
    ),
    Unread("a trace in TAU's own format", "let TAU write OTF2: TAU_TRACE=1 TAU_TRACE_FORMAT=otf2", (".trc", ".edf")),
    Unread("a trace in the first version of OTF", WITH_SCORE_P, (".otf",)),
    Unread("a trace of the Intel Trace Collector", WITH_SCORE_P, (".stf",)),
    Unread("a trace of MPE", WITH_SCORE_P, (".clog2", ".slog2")),
    Unread(
        "a timeline for Perfetto",
        "record OTF2 instead, for example with rocprofv3 --output-format otf2",
        (".pftrace", ".perfetto-trace"),
    ),
    Unread("a compressed file", "decompress it first", (".zst", ".bz2", ".xz", ".otf2.gz", ".sqlite.gz")),
)
"""The known kinds, the more special before the more general."""


def _unread(path: Path) -> Unread | None:
    """Return the kind of a file if it is known but not read, else None."""
    try:
        with open_regular(path) as file:
            begin = file.read(max(len(kind.magic) for kind in UNREAD)) or b""
    except (OSError, SourceError):
        return None
    for kind in UNREAD:
        if path.name.lower().endswith(kind.endings) or (kind.magic and begin.startswith(kind.magic)):
            return kind
    return None


def refusal(files: Iterable[Path]) -> str:
    """Return the error for the first file of a kind that is known but not read; empty if there is none."""
    found = ((path, kind) for path in files if (kind := _unread(path)) is not None)
    return next((f"{path} is {kind.what}; that is not read\n  {kind.todo}" for path, kind in found), "")
