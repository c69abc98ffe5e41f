"""Checks of what users pass: a value of the right type comes back, or a refusal that names the fault and the remedy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.errors import InvalidInput

__all__ = ["check_fields", "check_number", "check_values", "check_whole", "find_twice", "guess_name", "name_some",
           "refuse_twice", "restore", "say_all", "split_names"]  # fmt: skip

_MOST_FAULTS = 10  # things that are wrong, in one message


def check_whole(value: object, name: str, *, least: int, most: int | None = None) -> int:
    """Return a whole number between the bounds; 1e6 is one, True and 1.5 are not."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInput(f"{name} must be a whole number of at least {least}; got {value!r}.")
    if value < least or (most is not None and value > most):
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise InvalidInput(f"{name} must be {bound}; got {value}.")
    return int(value)


def check_number(value: object, name: str, *, least: float = -math.inf, above: float = -math.inf) -> float:
    """Return a finite real number of at least ``least`` and above ``above``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{name} must be a number; got {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{name} must be a finite number; got {number}.")
    if number < least or number <= above:
        bound = f"at least {least:g}" if number < least else f"above {above:g}"
        raise InvalidInput(f"{name} must be {bound}; got {number:g}.")
    return number


def check_values(values: ArrayLike, name: str, *, shape: str) -> NDArray[np.float64]:
    """Return a float64 copy of a non-empty array of finite real numbers whose shape reads like "(n, d)" or "(n,)"."""
    array = _as_real(values, name)
    if array.ndim != len(shape.strip("(),").split(",")):
        raise InvalidInput(f"{name} must have shape {shape}; got shape {array.shape}.")
    if array.size == 0:
        raise InvalidInput(f"{name} must not be empty; got shape {array.shape}.")
    finite = np.isfinite(array)
    if not finite.all():
        place = tuple(int(k) for k in np.argwhere(~finite)[0])
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "")
        raise InvalidInput(f"{name} must be finite; {where} is {array[place]}. Remove or impute such rows first.")
    return array


def _as_real(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"{name} must be one rectangular array of numbers: {error}") from None
    if np.ma.is_masked(values):
        raise InvalidInput(f"{name} must not have masked values. Remove or impute them first.")
    if np.iscomplexobj(array):
        raise InvalidInput(f"{name} must be real; got complex numbers. Pass real and imaginary parts as columns.")
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"{name} must be numbers; got values of type {array.dtype}. Encode them first.")
    return np.array(array, dtype=np.float64, order="C")


def guess_name(given: str, names: Iterable[str]) -> str:
    """Return " Did you mean NAME?" with the name nearest to one that was given; "" if none is near."""
    known = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), known, n=1)
    return f" Did you mean {known[near[0]][:40]}?" if near else ""


def restore(kind: Any, stored: Any, name: str = "it") -> Any:
    """Return a value of a type from JSON; TypeError if it is none, with the ``name`` of what is wrong.

    Types are data classes, named tuples, lists, tuples of one type, dicts, numbers, truth values, text, or one of
    these or None. Numbers that JSON does not know are "nan", "inf" and "-inf".
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if stored is None else restore(next(one for one in inner if one is not type(None)), stored, name)
    if origin is list and isinstance(stored, list):
        return [restore(inner[0], one, name) for one in stored]
    if origin is tuple and isinstance(stored, list | tuple):
        return tuple(restore(inner[0], one, name) for one in stored)
    if origin is dict and isinstance(stored, dict):
        return {str(key): restore(inner[1], one, name) for key, one in stored.items()}
    if kind is float and stored in ("nan", "inf", "-inf"):
        return float(stored)
    hints = get_type_hints(kind) if origin is None and isinstance(kind, type) else {}
    if hints and isinstance(stored, dict) and set(stored) <= set(hints):
        return kind(**{key: restore(hints[key], value, key) for key, value in stored.items()})
    if hints or origin is not None or not _fits(stored, kind):
        raise TypeError(f"{name} is {str(stored)[:40]!r}")
    return float(stored) if kind is float else stored


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise TypeError unless values from a file are of the types that the fields of a class of ours say."""
    for name, expected in get_type_hints(kind).items():
        if name in values and not _fits(values[name], expected):
            raise TypeError(f"{name} is {str(values[name])[:40]!r}")


def _fits(value: object, expected: Any) -> bool:
    if get_origin(expected) is dict:
        _, inner = get_args(expected)
        return isinstance(value, dict) and all(isinstance(key, str) and _fits(one, inner) for key, one in value.items())
    if expected in (int, float):
        if isinstance(value, int) and not isinstance(value, bool):
            return abs(value) < 2**63
        return expected is float and isinstance(value, float)
    return expected is Any or not isinstance(expected, type) or isinstance(value, expected)


def name_some(names: Sequence[str]) -> str:
    """Return the first dozen of the names, shortened, and how many there are besides."""
    return ", ".join(name[:40] for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def find_twice(names: Sequence[str]) -> list[str]:
    """Return the names that come more than once. Cost: O(d)."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def refuse_twice(names: Sequence[str], *, source: str = "") -> None:
    """Refuse columns of one name."""
    if twice := find_twice(names):
        raise InvalidInput(f"{source}several columns have the same name: {name_some(twice)}. Rename all but one.")


def say_all(wrong: Sequence[str], *, source: str = "") -> None:
    """Raise InvalidInput with everything that is wrong, if anything is: one line, or a line for each."""
    if not wrong:
        return
    begin = f"{source}: " if source else ""
    if len(wrong) == 1:
        raise InvalidInput(f"{begin}{wrong[0]}")
    more = [f"and {len(wrong) - _MOST_FAULTS} more"] if len(wrong) > _MOST_FAULTS else []
    lines = "\n".join(f"  - {one}" for one in [*wrong[:_MOST_FAULTS], *more])
    raise InvalidInput(f"{begin}{len(wrong)} things are wrong:\n{lines}")


def split_names(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names in a list, of which some may hold several between commas."""
    return [part for one in given for part in ([one] if one in names else map(str.strip, one.split(","))) if part]
