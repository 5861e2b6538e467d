"""Operations of NCCL, RCCL and oneCCL, found by the names of kernels, ranges and functions."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tracecols.schema.enums import COLLECTIVE_OPS


class Operation(NamedTuple):
    """An operation."""

    function: str
    """Function of the library."""
    op: int
    """Index of the collective operation in `COLLECTIVE_OPS`; -1 for messages and groups of operations."""
    role: str
    """Role of its region."""

    @property
    def waits_for_all(self) -> bool:
        """Whether no participant can end before all have begun."""
        return self.role in ("coll_all2all", "barrier")


SEND, RECEIVE = "ncclSend", "ncclRecv"
"""Functions of messages."""

PARTNERS = re.compile(r" (\d{1,9})(?:->|<-)(\d{1,9})$")
"""What ranges around messages say after the operation: the rank in the process group, and that of the partner."""

_OPERATIONS = (
    ("ncclAllReduce", "allreduce", "coll_all2all", r"allreduce(coalesced|sparse)?"),
    ("ncclAllGather", "allgather", "coll_all2all", r"allgather(v|base|(into)?tensor(coalesced)?|coalesced)?"),
    ("ncclReduceScatter", "reduce_scatter", "coll_all2all", r"reducescatter(v|base|tensor(coalesced)?|coalesced)?"),
    ("ncclAlltoAll", "alltoall", "coll_all2all", r"alltoall(v|base|single)?"),
    ("ncclBroadcast", "bcast", "coll_one2all", r"(broadcast|bcast)(oop|coalesced)?"),
    ("ncclReduce", "reduce", "coll_all2one", r"reduce(oop)?"),
    ("ncclGather", "gather", "coll_all2one", r"gather"),
    ("ncclScatter", "scatter", "coll_one2all", r"scatter"),
    ("ncclBarrier", "barrier", "barrier", r"(allreduce)?barrier"),
    (SEND, "", "point2point", r"send"),
    (RECEIVE, "", "point2point", r"recv(anysource)?"),
    ("ncclGroup", "", "point2point", r"sendrecv|group(start|end)?"),
)  # fmt: skip
_FITS = tuple(
    (pattern, Operation(function, COLLECTIVE_OPS.index(op) if op else -1, role))
    for function, op, role, pattern in _OPERATIONS
)

GROUP = next(operation for _, operation in _FITS if operation.function == "ncclGroup")
"""Sends and receives in one kernel, which also make up all-to-all, gather and scatter."""

_KERNEL = re.compile(
    r"(?:void )?(?:nccl|rccl|oneccl|ccl)(?:Symk?)?(?:Dev)?(?:Kernel)?_?"
    r"([A-Za-z]+?)(?:(?:(?:Ring|Tree|CollNet)(?:LL128|LL)?)?Kernel)?(?![A-Za-z])"
)

_COMMUNICATES = re.compile(r"(void )?(nccl|rccl)([A-Z]\w*?)?Kernel(?![a-z])")
"""All names of kernels: `ncclAllReduceRingLLKernel_sum_f32` up to NCCL 2.7, then `ncclKernel_AllReduce_RING_LL_...` and
`ncclDevKernel_...`; from 2.27 on also `ncclSymDevKernel_...` and `ncclSymkDevKernel_...` for symmetric memory."""


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Operation], ...]:
    """Return the patterns of operation names; they are compiled when first needed."""
    return tuple((re.compile(pattern), operation) for pattern, operation in _FITS)


def communicates(kernel: str) -> bool:
    """Return whether a kernel communicates with other devices, by its name."""
    return _COMMUNICATES.match(kernel) is not None


def find_operation(name: str) -> Operation | None:
    """Return the operation that a function of a library, a range around it or a parameter names (`ncclAllReduce`,
    `nccl:all_reduce`, `nccl:send 0->1`, `_allgather_base`); None if it names none."""
    plain = PARTNERS.sub("", name)
    plain = re.sub(r"^p?(nccl|rccl|oneccl|ccl|gloo|c10d)(:+|_|(?=[A-Z]))", "", plain.strip())
    plain = plain.replace("_", "").replace(" ", "").lower()
    return next((operation for pattern, operation in _compiled() if pattern.fullmatch(plain)), None)


def operation_of_kernel(name: str) -> Operation | None:
    """Return the operation in the name of a kernel; None if there is none (`ncclDevKernel_Generic`).

    An example is `ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)`.
    """
    found = _KERNEL.match(name)
    return find_operation(found[1]) if found else None


def fits_kernel(operation: Operation, kernel: Operation | None) -> bool:
    """Return whether a kernel, by its name, may execute an operation that parameters or ranges name: some operations
    consist of sends and receives, and a barrier is an all-reduce."""
    if kernel is None or kernel == operation:
        return True
    if kernel == GROUP:
        return operation.function in ("ncclAlltoAll", "ncclGather", "ncclScatter", SEND, RECEIVE, "ncclGroup")
    return (kernel.function, operation.function) == ("ncclAllReduce", "ncclBarrier")


_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "int8": 1, "uint8": 1, "signedchar": 1, "unsignedchar": 1, "float8e4m3fn": 1,
    "float8e5m2": 1, "float8e4m3fnuz": 1, "float8e5m2fnuz": 1, "f8e4m3": 1, "f8e5m2": 1, "short": 2, "shortint": 2,
    "int16": 2, "half": 2, "float16": 2, "bfloat16": 2, "f16": 2, "bf16": 2, "int": 4, "int32": 4, "uint32": 4,
    "float": 4, "float32": 4, "f32": 4, "long": 8, "longint": 8, "int64": 8, "uint64": 8, "double": 8, "float64": 8,
    "f64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def bytes_of_type(name: str) -> int:
    """Return the bytes of an element of a type in any spelling (`BFloat16`, `c10::Half`, `long int`); 0 if unknown."""
    plain = re.sub(r"c10::|nccl|<|>|[\s_]", "", name).lower()
    return _BYTES.get(plain, 0)
