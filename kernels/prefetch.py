"""Prefetch memory that will be needed soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tracecols.kernels.kernel import kernel


@intrinsic  # type: ignore[misc]
def _prefetch(_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [place.type, number, number, number]), "llvm.prefetch.p0i8"
        )
        # for reading, with locality in all caches, as data
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@kernel
def prefetch(data, index):
    """Fetch the cache line of `data[index]`, an array of bytes, in the background; an index out of bounds does no
    harm."""
    _prefetch(data, index)
