"""What is written as instructions of the processor, since compilers do not find them: vectors, products of whole
numbers, places in a row that reach a level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

__all__ = ["repeat", "spread"]


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """Write the code of a vector with one value in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def repeat(builder: Any, times: Any, values: Sequence[Any], body: Callable[[Any, list[Any]], Sequence[Any]]) -> Any:
    """Write a loop, run at least once, in which ``body(k, values)`` makes new values of old ones; return the last."""
    long, before = ir.IntType(64), builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    k, carried = builder.phi(long), [builder.phi(value.type) for value in values]
    new = body(k, carried)
    following = builder.add(k, ir.Constant(long, 1))
    for phi, first, next_one in zip((k, *carried), (ir.Constant(long, 0), *values), (following, *new), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_one, loop)
    builder.cbranch(builder.icmp_unsigned("<", following, times), loop, done)
    builder.position_at_end(done)
    return new
