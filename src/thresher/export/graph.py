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
        self.cells: dict[str, tuple[str, str]] = {}  # numbers (k, 1) of columns of a table, and where they are there

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

    def __call__(
        self, operator: str, *inputs: str, name: str | None = None, domain: str = "", **attributes: Any
    ) -> str:
        """Add a step, and return the name of its result."""
        return self.several(
            operator, *inputs, names=[self._name() if name is None else name], domain=domain, **attributes
        )[0]

    def several(self, operator: str, *inputs: str, names: list[str] | int, **attributes: Any) -> list[str]:
        """Add a step with several results, and return their names."""
        from onnx import helper

        names = [self._name() for _ in range(names)] if isinstance(names, int) else names
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

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

    def rows(self, value: str, first: str, last: str) -> str:
        """Return rows from ``first`` up to ``last``, both (1,)."""
        return self("Slice", value, first, last, self.put([0]))

    def loop(self, times: str, carried: str, step: Callable[[str, str], str]) -> str:
        """Return what is left of a value (k, ...) after steps: ``step`` makes of the count and the value the next."""
        from onnx import TensorProto, helper

        outside, self.nodes = self.nodes, []
        count, go, before = (self._name() for _ in range(3))
        after = self("Identity", step(count, before))
        still = self("Identity", go)
        inside, self.nodes = self.nodes, outside
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        body = helper.make_graph(
            inside,
            self._name(),
            [
                helper.make_tensor_value_info(count, TensorProto.INT64, []),
                helper.make_tensor_value_info(go, TensorProto.BOOL, []),
                helper.make_tensor_value_info(before, kind, [None, None]),
            ],
            [
                helper.make_tensor_value_info(still, TensorProto.BOOL, []),
                helper.make_tensor_value_info(after, kind, [None, None]),
            ],
        )
        return self("Loop", times, "", carried, body=body)

    def _name(self) -> str:
        self._made += 1
        return f"{self._mark}step{self._made}"
