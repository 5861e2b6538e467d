"""Payloads of NCCL ranges: communicator, bytes, root or peer, read according to the schemas in an export."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tracecols.converters.nsight.content import Content

NCCL_SCHEMAS = 1 << 24
"""Offset of the schema numbers of NCCL."""

FUNCTIONS = {
    4: "ncclAllGather", 5: "ncclAllReduce", 6: "ncclBroadcast", 7: "ncclReduceScatter", 8: "ncclReduce", 9: "ncclSend",
    10: "ncclRecv", 16: "ncclAlltoAll", 17: "ncclGather", 18: "ncclScatter",
}  # fmt: skip
"""Functions by schema."""

_COMMUNICATOR, _SIZE, _ROOT, _PEER, _RANK, _N_RANKS = (
    "NCCL communicator ID", "Message size [bytes]", "Root", "Peer rank", "Rank", "No. of ranks",
)  # fmt: skip

_BYTES_OF_TYPE = {5: 4, 18: 8, 22: 8}
"""Bytes of int32, uint64 and size_t, by type number."""

_LARGEST = 1 << 48
"""Maximum number of bytes of a message; more is damage."""

_HEADER, _SCHEMA_AT, _SIZE_AT = 32, 8, 16
"""Bytes of the header before the payload, and the positions of schema and size in it."""


@dataclass(frozen=True)
class Payload:
    """The payload of a range."""

    function: str
    """Function of the library; empty if a communicator is created."""
    communicator: int
    size: int = 0
    """Bytes of the message."""
    peer: int = -1
    """Rank of the root, or of the peer; -1 none."""
    rank: int = -1
    n_ranks: int = -1
    """`rank` and `n_ranks`: of the process that creates a communicator, and its size; -1 elsewhere."""


Schemas = dict[int, dict[str, tuple[int, int]]]
"""By number: offset and number of bytes of each field."""


def read_schemas(content: Content) -> Schemas:
    """Read the schemas of NCCL; they repeat per process."""
    found: Schemas = {}
    numbers = dict.fromkeys(("schemaId", "type", "offset"), pa.int64())
    rows = content.values("NVTX_PAYLOAD_SCHEMA_ENTRIES", {**numbers, "name": pa.string()})
    for schema, kind, offset, name in rows:
        if schema is not None and name and kind in _BYTES_OF_TYPE:
            found.setdefault(schema - NCCL_SCHEMAS, {})[name] = (offset or 0, _BYTES_OF_TYPE[kind])
    return {number: fields for number, fields in found.items() if _COMMUNICATOR in fields}


def read_payload(data: bytes, schemas: Schemas) -> Payload | None:
    """Read the payload of a range; None if it is not of NCCL."""
    if len(data) % 2 == 0:
        # written as text: two hexadecimal digits per byte
        with suppress(ValueError):
            data = bytes.fromhex(data.decode("ascii"))
    if len(data) < _HEADER:
        return None
    schema = int.from_bytes(data[_SCHEMA_AT : _SCHEMA_AT + 8], "little") - NCCL_SCHEMAS
    size = int.from_bytes(data[_SIZE_AT : _SIZE_AT + 8], "little")
    body = data[_HEADER : _HEADER + size]
    fields = schemas.get(schema)
    if fields is None:
        return None

    def value(name: str, otherwise: int) -> int:
        offset, n = fields.get(name, (0, 0))
        if not n or offset + n > len(body):
            return otherwise
        return int.from_bytes(body[offset : offset + n], "little", signed=n == 4)

    if not 0 < sum(fields[_COMMUNICATOR]) <= len(body):
        return None
    return Payload(
        FUNCTIONS.get(schema, ""),
        # signed, like other columns
        int.from_bytes(body[fields[_COMMUNICATOR][0] :][:8], "little", signed=True),
        min(value(_SIZE, 0), _LARGEST),
        value(_PEER, value(_ROOT, -1)),
        value(_RANK, -1),
        value(_N_RANKS, -1),
    )
