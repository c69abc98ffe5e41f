"""What is written as instructions of the processor, since compilers do not find them: vectors, products of whole
numbers, places in a row that reach a level."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

__all__ = ["spread"]


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """Write the code of a vector with one value in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))
