"""BLAS and LAPACK on blocks of a matrix, in place, without the interpreter lock.

SciPy's wrappers copy a block that is not a whole array, and hold the interpreter lock as long as they run. Here the
same routines, to which SciPy hands out pointers (``scipy.linalg.cython_blas``), are called with the place of a block in
its matrix. A block is a view (rows, columns) of float64: of a matrix in Fortran order, or of its transpose where that
is said. Its shape is not checked: that is left to the caller.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

__all__ = [
    "copy_triangle",
    "divide_from_left",
    "divide_from_right",
    "divide_vector",
    "factor_block",
    "invert_block",
    "subtract_product",
    "subtract_square",
]

Block = NDArray[np.float64]
_NUMBER = 8  # bytes


def _pointer(module: Any, name: str) -> Any:
    """Return a function that can be called with pointers only, as Fortran has it; calling it releases the lock."""
    capsule, python = module.__pyx_capi__[name], ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = python.PyCapsule_GetName(capsule)
    arguments = [ctypes.c_void_p] * (signature.count(b",") + 1)
    return ctypes.CFUNCTYPE(None, *arguments)(python.PyCapsule_GetPointer(capsule, signature))


_ROUTINES = {name: _pointer(cython_blas, name) for name in ("dgemm", "dsyrk", "dtrsm", "dtrsv")}
_ROUTINES |= {name: _pointer(cython_lapack, name) for name in ("dlacpy", "dpotrf", "dtrtri")}


def _call(name: str, *arguments: Any) -> None:
    """Call a routine. All calls come through here; an interrupt acts before one or after it."""
    _ROUTINES[name](*arguments)


def _whole(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _real(value: float) -> Any:
    return ctypes.byref(ctypes.c_double(value))


def _place(block: Block) -> tuple[bytes, int, Any]:
    """Return whether the block is transposed, where it begins, and how far apart its columns, or its rows, are."""
    straight = block.strides[0] == _NUMBER
    return b"N" if straight else b"T", block.ctypes.data, _whole(max(1, block.strides[straight] // _NUMBER))


def factor_block(block: Block) -> bool:
    """Replace the lower triangle of a block (k, k) by its Cholesky factor; False if it is not positive definite."""
    _, begin, apart = _place(block)
    failed = ctypes.c_int(0)
    _call("dpotrf", b"L", _whole(len(block)), begin, apart, ctypes.byref(failed))
    return failed.value == 0


def invert_block(block: Block) -> None:
    """Replace the lower triangle of a block (k, k) by its inverse."""
    _, begin, apart = _place(block)
    _call("dtrtri", b"L", b"N", _whole(len(block)), begin, apart, _whole(0))


def copy_triangle(block: Block, out: Block) -> None:
    """Copy the lower triangle of a block (k, k); what is above it in ``out`` stays."""
    _, begin, apart = _place(block)
    _, begin_out, apart_out = _place(out)
    _call("dlacpy", b"L", _whole(len(block)), _whole(len(block)), begin, apart, begin_out, apart_out)


def divide_from_left(triangle: Block, block: Block) -> None:
    """Replace a block (k, c) by T⁻¹ block; T (k, k) is a lower triangle or the transpose of one."""
    _divide(b"L", triangle, block)


def divide_vector(triangle: Block, vector: Block) -> None:
    """Replace a vector (k,), whose numbers are side by side, by T⁻¹ vector; faster than a block of one column."""
    transposed, begin, apart = _place(triangle)
    _call("dtrsv", b"L", transposed, b"N", _whole(len(vector)), begin, apart, vector.ctypes.data, _whole(1))


def divide_from_right(block: Block, triangle: Block) -> None:
    """Replace a block (r, k) by block T⁻¹; T (k, k) is a lower triangle or the transpose of one."""
    _divide(b"R", triangle, block)


def _divide(side: bytes, triangle: Block, block: Block) -> None:
    (transposed, begin, apart), (_, begin_block, apart_block) = _place(triangle), _place(block)
    rows, columns = map(_whole, block.shape)
    _call("dtrsm", side, b"L", transposed, b"N", rows, columns, _real(1.0), begin, apart, begin_block, apart_block)


def subtract_product(block: Block, left: Block, right: Block) -> None:
    """Replace a block (r, c) by block - left (r, k) @ right (k, c); left and right may be transposed."""
    if left.size == 0:
        return
    (flag, begin, apart), (flag_right, begin_right, apart_right) = _place(left), _place(right)
    _, begin_block, apart_block = _place(block)
    rows, columns, inner = map(_whole, (*block.shape, len(right)))
    lengths = rows, columns, inner, _real(-1.0)
    factors = begin, apart, begin_right, apart_right
    _call("dgemm", flag, flag_right, *lengths, *factors, _real(1.0), begin_block, apart_block)


def subtract_square(block: Block, left: Block) -> None:
    """Replace the lower triangle of a block (r, r) by that of block - left (r, k) @ leftᵀ."""
    (_, begin, apart), (_, begin_block, apart_block) = _place(left), _place(block)
    rows, inner = map(_whole, left.shape)
    _call("dsyrk", b"L", b"N", rows, inner, _real(-1.0), begin, apart, _real(1.0), begin_block, apart_block)
