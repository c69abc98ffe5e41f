"""What is written as instructions of the processor, since compilers do not find them: vectors, transforms, places in a
row that reach a level."""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir

__all__ = ["REGISTER", "spread"]


def _register() -> int:
    """Return how many numbers of 32 bits a register holds: 16 with AVX-512, unless code is for another machine."""
    chosen = numba.config
    if chosen.DISABLE_JIT or chosen.CPU_NAME or chosen.CPU_FEATURES:  # type: ignore[attr-defined]
        return 8
    has = llvmlite.binding.get_host_cpu_features()
    return 16 if has.get("avx512f") and has.get("avx512bw") else 8


REGISTER = _register()


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """Write the code of a vector with one value in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))
