"""Amounts: columns of numbers with units, in one unit; what they are in is found by looking at all cells."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.tables.cells import FEW, NO_VALUE, Read, coded, number_of
from thresher.tables.units.known import (
    CLOCK,
    MAGNITUDE,
    MONEY,
    PLAIN,
    TIMES,
    Taken,
    size_of,
    sizes_of,
    take_apart,
)

__all__ = ["Amounts", "convert", "find_amounts", "is_amount", "is_in_unit", "is_scale", "read_amounts"]

Cells = NDArray[np.object_]
_SOME = 200  # different cells that are looked at first
_SURE = 24.0  # hours from which on ``36:30`` beside ``1:02:03`` is minutes and seconds
_ROUND = 1000.0  # a plain number beside ``3 M`` from which on that is millions
_SHORT, _LONG = {"s", "min", "h", "h:mm:ss"}, {"years", "months"}
_LABELS = {"h:mm:ss": "h", "'": "ft", '"': "in"}  # of units as they are written
_MINUTES = {**_LABELS, CLOCK: "min", "'": "min", '"': "s"}


class Amounts(NamedTuple):
    """The unit that a column is read in, and its quantity ("" if only that unit is known, as ``5 m`` may be anything).

    ``doubt`` says why cells that have numbers and units are not read; "" if they are, or have none.
    """

    unit: str = ""
    quantity: str = ""
    doubt: str = ""

    @property
    def found(self) -> bool:
        """Whether the cells are amounts."""
        return bool(self.unit or self.quantity)


def is_amount(cell: str) -> bool:
    """Return whether a cell is a number with a unit, or with a currency."""
    taken = take_apart(cell)
    return taken is not None and (bool(taken.currency) or any(unit != PLAIN for _, unit in taken.parts))


def is_in_unit(cell: str, unit: str) -> bool:
    """Return whether a cell is one number in this unit, which need not be converted."""
    taken = take_apart(cell)
    return taken is not None and len(taken.parts) == 1 and taken.parts[0][1] == unit


def is_scale(unit: str, quantity: str) -> bool:
    """Return whether a column can be read in this unit of this quantity."""
    if not quantity:
        return not unit or bool(sizes_of(unit))
    if quantity == MONEY:
        return bool(unit)
    return size_of(unit, quantity) is not None


def read_amounts(cells: Cells, *, decimal: str, unit: str, quantity: str) -> Read:
    """Return cells (n,) in one unit. Cost: O(n), with a look at each different cell."""
    different, codes = coded(cells)
    found = [_value(cell, decimal, unit, quantity) for cell in different]
    values = np.array([np.nan if one is None else one for one in found], np.float64)
    return Read(values[codes], np.array([one is None for one in found], np.bool_)[codes])


def convert(values: NDArray[np.float64], *, given: str, unit: str, quantity: str) -> NDArray[np.float64] | None:
    """Return numbers (n,) that are in one unit in another; None if that cannot be."""
    if given == unit:
        return values
    sizes = size_of(given, quantity), size_of(unit, quantity)
    if not quantity or sizes[0] is None or sizes[1] is None:
        return None
    return (values * sizes[0][0] + sizes[0][1] - sizes[1][1]) / sizes[1][0]


def find_amounts(cells: Cells, *, decimal: str) -> Amounts:
    """Return in what unit most of the cells (n,) can be read, or why they cannot; nothing if they are no amounts.

    The unit is the commonest one. Where several quantities would do, others cells decide: ``5 m`` beside ``2 h`` is
    minutes, beside ``20 cm`` metres; alone it is read as it is. Cost: O(n), with a look at each different cell.
    """
    counts = Counter(cell for cell in cells if cell.strip().lower() not in NO_VALUE)
    if not any(is_amount(cell) for cell in [*counts][:_SOME]):
        return Amounts()
    taken = {cell: take_apart(cell) for cell in counts}
    total = sum(counts.values())
    known = {cell: one for cell, one in taken.items() if one is not None}
    if (total - sum(counts[cell] for cell in known)) >= FEW * total:
        return Amounts()
    units, first, money = Counter[str](), Counter[str](), Counter[str]()
    for cell, one in known.items():
        units.update(dict.fromkeys((unit for _, unit in one.parts), counts[cell]))
        first[one.parts[0][1]] += counts[cell]
        if one.currency:
            money[one.currency] += counts[cell]
    if money:
        return _money(units, money, total)
    if set(units) <= {PLAIN}:
        return Amounts()
    return _decide(counts, known, units, first, decimal, total)


def _money(units: Counter[str], money: Counter[str], total: int) -> Amounts:
    """Return the currency of a column, if it has one."""
    if any(size_of(unit, MAGNITUDE) is None for unit in units):
        return Amounts()
    (currency, count), *others = money.most_common()
    if sum(more for _, more in others) >= FEW * total:
        return Amounts(doubt=f"has several currencies, {_first(list(money))}, which are not converted")
    return Amounts(currency, MONEY) if count else Amounts()


def _decide(
    counts: Counter[str], known: dict[str, Taken], units: Counter[str], first: Counter[str], decimal: str, total: int
) -> Amounts:
    quantities = dict.fromkeys(one for unit in units for one in sizes_of(unit) if unit != PLAIN)
    read = {
        one: sum(counts[cell] for cell in known if _value(cell, decimal, "", one, size=1.0) is not None)
        for one in quantities
    }
    most = max(read.values(), default=0)
    best = [one for one, rows in read.items() if rows == most]
    best = [one for one in best if one == TIMES[0] or TIMES[0] not in best or one not in TIMES]
    named = [unit for unit in units if unit != PLAIN]
    if not most:
        return Amounts()
    if total - most >= FEW * total:
        said = _first([unit for unit, _ in units.most_common() if unit != PLAIN])
        if units[PLAIN] >= FEW * total:
            return Amounts(doubt=f"has numbers with units ({said}) and without; write one for each, or none")
        return Amounts(doubt=f"has units of different kinds, {said}; part them into columns, or write one kind")
    if len(named) == 1 and not units[PLAIN] and (len(best) > 1 or named in (["M"], ["K"])):
        return Amounts(named[0])  # read as it is, whatever it means
    quantity = _settle(best, set(named), units, known, decimal)
    if quantity is None:
        unsure = next((unit for unit in named if len(sizes_of(unit)) > 1), named[0])
        what = "'14:35'" if CLOCK in named else repr(f"5 {unsure}")
        return Amounts(doubt=f"has cells such as {what}, which may mean several things; write the unit out")
    if quantity == MAGNITUDE:
        return Amounts("", MAGNITUDE)
    unit = next(unit for unit, _ in first.most_common() if size_of(unit, quantity) is not None)
    labels = _MINUTES if quantity == TIMES[4] else _LABELS
    return Amounts(labels.get(unit, unit), quantity)


def _settle(best: list[str], named: set[str], units: Counter[str], known: dict[str, Taken], decimal: str) -> str | None:
    """Return the one of several quantities that cells speak for; None if nothing tells."""
    if best == [MAGNITUDE]:
        plain = [_value(cell, decimal, "", MAGNITUDE) for cell, one in known.items() if one.parts[0][1] == PLAIN]
        unsure = named <= {"M", "B"} and units[PLAIN] and max(abs(one or 0.0) for one in plain) < _ROUND
        return None if unsure else MAGNITUDE
    others = [one for one in best if one not in TIMES]
    if others and not (set(best) & set(TIMES) and named & {"m"}):
        return others[0] if len(others) == 1 else None
    if others:
        return None
    if TIMES[0] in best:
        return TIMES[0]
    if CLOCK in named:
        late = [one.parts[0][0] for one in known.values() if one.parts[0][1] == CLOCK]
        sure = any(isinstance(one, float) and one >= _SURE for one in late)
        return TIMES[4] if sure and TIMES[4] in best else None
    if "m" in named:
        short, long = bool(named & _SHORT), bool(named & _LONG)
        return TIMES[1] if short and not long else TIMES[2] if long and not short else None
    return best[0] if len(best) == 1 else None


def _value(cell: str, decimal: str, unit: str, quantity: str, size: float | None = None) -> float | None:
    """Return a cell in a unit, NaN if it says that there is no value; None if it cannot be read so."""
    if cell.strip().lower() in NO_VALUE:
        return float("nan")
    if quantity == MONEY:
        taken = take_apart(cell)
        if taken is None or taken.currency not in ("", unit):
            plain = number_of(cell, decimal)
            return plain if taken is None and "%" not in cell else None
        return _sum(taken, decimal, PLAIN, MAGNITUDE)
    taken = take_apart(cell)
    if taken is None or taken.currency:
        return None
    if not quantity:
        (number, own), *more = taken.parts
        value = _number(number, decimal)
        return None if more or value is None or (own != unit and value != 0) else taken.sign * value
    return _sum(taken, decimal, unit, quantity, size)


def _sum(taken: Taken, decimal: str, unit: str, quantity: str, size: float | None = None) -> float | None:
    """Return the sum of the parts of a cell in a unit; parts after the first are less than one of the part before."""
    into = (size, 0.0) if size is not None else size_of(unit, quantity)
    if into is None:
        return None
    if len(taken.parts) == 1:
        number, own = taken.parts[0]
        value = _number(number, decimal)
        if value is None:
            return None
        if own == unit and size is None:
            return taken.sign * value
        if own == PLAIN and quantity != MAGNITUDE:
            return 0.0 if value == 0 and not into[1] else None
        found = size_of(own, quantity)
        return None if found is None else (taken.sign * value * found[0] + (found[1] - into[1])) / into[0]
    total, before = 0.0, None
    for number, own in taken.parts:
        value, found = _number(number, decimal), size_of(own, quantity)
        if value is None or found is None or found[1]:
            return None
        if before is not None and (found[0] >= before or abs(value) * found[0] >= before):
            return None
        total, before = total + value * found[0], found[0]
    return taken.sign * total / into[0]


def _number(written: str | float, decimal: str) -> float | None:
    if isinstance(written, float):
        return written
    found = number_of(written, decimal)
    return None if found != found else found


def _first(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
