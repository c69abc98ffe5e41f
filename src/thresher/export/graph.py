"""An ONNX graph while it is being made: steps one after the other, and the numbers that stand in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Graph"]


class Graph:
    """Steps, each called with the names of its inputs; it returns the name of its result.

    Parameters
    ----------
    dtype : of what is stored and added up; what prepares columns is double
    taken : names that no step may have, those of inputs
    """

    def __init__(self, dtype: Any = np.float64, *, taken: Iterable[str] = ()) -> None:
        longest = max((len(one) - len(one.lstrip("/")) for one in taken), default=0)
        self._mark = "/" * (longest + 1)  # before the names of steps
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.domains = {"": 18}  # and the version of each, as old as the steps allow
        self._known: dict[tuple[Any, ...], str] = {}
        self._made = 0

    def put(self, value: Any, dtype: Any = None) -> str:
        """Return the name of numbers or words that stand in the graph; equal ones stand there once."""
        array = np.asarray(value, dtype)
        array = array.astype(object) if array.dtype.kind == "U" else array
        told = tuple(array.ravel().tolist()) if array.dtype.kind == "O" else array.tobytes()
        key = (array.dtype.str, array.shape, told)
        if key not in self._known:
            self._known[key] = f"{self._mark}constant{len(self._known)}"
            self.constants[self._known[key]] = array
        return self._known[key]

    def number(self, value: float) -> str:
        """Return the name of a number in the precision of what is stored."""
        return self.put(value, self.dtype)

    def double(self, value: Any) -> str:
        """Return the name of numbers in double precision."""
        return self.put(value, np.float64)

    def __call__(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Add a step, and return the name of its result."""
        from onnx import helper

        name = self._name() if name is None else name
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """Return a value as numbers of another type."""
        from onnx import helper

        return self("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def short(self, value: str) -> str:
        """Return a value of double precision in that of what is stored."""
        return value if self.dtype == np.float64 else self.cast(value, self.dtype)

    def long(self, value: str) -> str:
        """Return a value in the precision of what is stored in double precision."""
        return value if self.dtype == np.float64 else self.cast(value, np.float64)

    def cosine(self, angle: str) -> str:
        """Return the cosine of an angle in double precision, by the sine, which older runtimes have too."""
        return self("Sin", self("Add", angle, self.double(np.pi / 2)))

    def blocks(self, rows: str, size: int, columns: int, step: Callable[[str, str], str]) -> str:
        """Return what ``step`` makes (k, columns) of rows, ``size`` at a time: of the first and the last of a block."""
        from onnx import TensorProto, helper

        length = self.put([size])
        count = self("Slice", self("Shape", rows), self.put([0]), self.put([1]))
        times = self("Squeeze", self("Div", self("Add", count, self.put([size - 1])), length))
        nothing = self.put(np.zeros((0, columns), self.dtype))
        outside, self.nodes = self.nodes, []
        block, go, before = (self._name() for _ in range(3))
        first = self("Mul", self("Unsqueeze", block, self.put([0])), length)
        after = self("Concat", before, step(first, self("Add", first, length)), axis=0)
        still = self("Identity", go)
        inside, self.nodes = self.nodes, outside
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        of_value = helper.make_tensor_value_info
        body = helper.make_graph(
            inside,
            self._name(),
            [
                of_value(block, TensorProto.INT64, []),
                of_value(go, TensorProto.BOOL, []),
                of_value(before, kind, [None, None]),
            ],
            [of_value(still, TensorProto.BOOL, []), of_value(after, kind, [None, None])],
        )
        return self("Loop", times, "", nothing, body=body)

    def _name(self) -> str:
        self._made += 1
        return f"{self._mark}step{self._made}"
