"""Change what a good file holds, as somebody who wants to do harm would: it fits its checksum, and lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Choose = Callable[[Sequence[Any]], Any]  # returns one of several; a fuzzer and Hypothesis both can

HOSTILE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 7, 10**15, 2**63, 10**400, 0.5, -1.5, 1e308, float("nan"), float("inf"),
    "", "x", "inf", "O", "|O", "<U999999999", "<f8", "M8[s]", "../../x", "auto", "no text\0", "os.system",
    [], {}, [[1]], [1, "a", None], {"x": 1}, [0.0] * 5,
)  # fmt: skip


def tamper(metadata: dict[str, Any], tensors: dict[str, NDArray[Any]], choose: Choose) -> None:
    """Change one thing in place: a value of the metadata, or an array. Cost: O(size of the metadata)."""
    kind = choose(["value", "value", "value", "gone", "array", "array gone"])
    if kind in ("value", "gone"):
        places = list(_places(metadata))
        if places:
            holder, key = choose(places)
            if kind == "value":
                holder[key] = choose(HOSTILE)
            else:
                del holder[key]
    elif tensors:
        name = choose(sorted(tensors))
        if kind == "array":
            tensors[name] = choose(_VARIANTS)(tensors[name])
        else:
            del tensors[name]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, one in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(one, dict | list):
            yield from _places(one)


_VARIANTS: list[Callable[[NDArray[Any]], NDArray[Any]]] = [
    lambda array: array[:0],
    lambda array: array[:1],
    lambda array: array.ravel(),
    lambda array: array[None],
    lambda array: np.concatenate([array, array]) if array.ndim else array,
    lambda array: np.full_like(array, np.nan, dtype=np.float64),
    lambda array: np.full_like(array, np.inf, dtype=np.float64),
    lambda array: np.full_like(array, 1e300, dtype=np.float64),
    lambda array: np.zeros_like(array),
    lambda array: -array,
    lambda array: array.astype(np.int8),
    lambda array: array.astype(bool),
    lambda array: array.astype(np.float16),
    lambda array: np.asarray(array.sum()),
]
