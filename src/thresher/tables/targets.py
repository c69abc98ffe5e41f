"""Targets: a column as what is to be predicted, the task that it makes, and what cannot be learnt."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.tables.cells import NO_VALUE, coded
from thresher.tables.frame import TRUTHS, CellFormat, Column, Frame, say_label
from thresher.tables.kinds import numbers_of, say_strange, truth_only
from thresher.tables.learning import look
from thresher.tables.units.amounts import is_in_unit
from thresher.tables.units.known import MONEY

__all__ = ["Task", "as_labels", "check_target", "guess_task", "read_targets", "rows_with_target"]

Task = Literal["regression", "classification"]
_NO_CLASS = NO_VALUE - {"none", "nil", "-", "--", "."}  # these may be classes
_MOST_CLASSES = 20  # whole numbers that are taken for classes
_MOST_LABELS = 100  # that are learnt, or half as many as there are rows


def read_targets(frame: Frame, target: str, *, missing: bool = False) -> NDArray[Any]:
    """Return a column as targets (n,), numbers or text; InvalidInput if they are dates, or a few words among numbers.

    Some may be ``missing``, NaN or "", or else are refused. Among words, those for no value are missing too. ``TRUE``
    and ``true`` are True. Cost: O(n).
    """
    column = frame[target]
    form = look(column)
    if form.kind == "date":
        raise InvalidInput(
            f"the target {column.name[:40]!r} holds dates; expected numbers or text. Name another with --target."
        )
    if form.doubt and len(set(column.values)) > _MOST_CLASSES:  # amounts rather than classes
        raise InvalidInput(f"the target {column.name[:40]!r} {form.doubt}.")
    text = form.kind == "text" or (column.is_text and (truth_only(column) or _names_with_units(column, form)))
    if text:
        different, codes = coded(column.values)
        values = np.array(["" if one.lower() in _NO_CLASS else TRUTHS.get(one.lower(), one) for one in different])[
            codes
        ]
        none = values == ""
    else:
        values, strange = numbers_of(
            column, decimal=form.how, percent=form.percent, unit=form.unit, quantity=form.quantity
        )
        if strange.any():
            raise InvalidInput(say_strange(column, strange, "the target must be numbers, as in other rows"))
        none = np.isnan(values)
    if none.any() and not missing:
        raise InvalidInput(say_strange(column, none, "the target must not be missing: remove such rows"))
    return values


def _names_with_units(column: Column, form: CellFormat) -> bool:
    """Return whether cells with units are classes, as there are few; InvalidInput if units would have to be converted.

    A prediction is a number alone: nobody could tell what it is in.
    """
    if not form.unit and not form.quantity:
        return False
    if len(set(column.values)) <= _MOST_CLASSES:
        return True
    cells = [one for one in dict.fromkeys(column.values) if one.lower() not in _NO_CLASS]
    others = [one for one in cells if not is_in_unit(one, form.unit)]
    if others and form.quantity != MONEY:
        raise InvalidInput(
            f"the target {column.name[:40]!r} has several units: {others[0][:20]!r} is not in {form.unit or 'ones'}. "
            "Write plain numbers of one unit."
        )
    return False


def guess_task(targets: NDArray[Any]) -> tuple[Task, str]:
    """Return the task that targets (n,) look like, and why."""
    values = np.unique(targets)
    if targets.dtype.kind != "f":
        return "classification", f"the target is text with {len(values)} values"
    if len(values) == 2:
        return "classification", "the target has two values"
    if len(values) <= _MOST_CLASSES and 2 * len(values) <= len(targets) and (values == np.round(values)).all():
        return "classification", f"the target has {len(values)} values, all whole numbers"
    return "regression", f"the target is a number with {len(values):,} values"


def rows_with_target(targets: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return the places of the rows whose target (n,) is there, at least two."""
    known = np.flatnonzero(targets != "" if targets.dtype.kind == "U" else ~np.isnan(targets))
    if len(known) < 2:
        raise InvalidInput(
            f"the target {name[:40]!r} is there in {len(known)} of {len(targets):,} rows; at least 2 must have "
            "it. Name another column with --target."
        )
    return known


def as_labels(targets: NDArray[Any]) -> NDArray[Any]:
    """Return targets (n,) that are classes, with text in place of numbers that are not whole."""
    if targets.dtype.kind != "f" or (targets == np.round(targets))[~np.isnan(targets)].all():
        return targets
    return np.array(["" if one != one else say_label(one) for one in targets.tolist()])


def check_target(name: str, targets: NDArray[Any], task: str) -> None:
    """Refuse targets (n,) that cannot be learnt, with advice that can be followed."""
    values = np.unique(targets)
    shown = ", ".join(repr(say_label(one)[:20]) for one in values[:3].tolist())
    most, text = max(_MOST_LABELS, len(targets) // 2), targets.dtype.kind != "f"
    if len(values) == 1:
        raise InvalidInput(
            f"the target {name[:40]!r} is {shown} in all {len(targets):,} rows: there is nothing to learn. "
            "Name another column with --target."
        )
    if text and len(values) > most:
        raise InvalidInput(
            f"the target {name[:40]!r} is text with {len(values):,} different values in {len(targets):,} rows, such as "
            f"{shown}: names rather than classes or numbers. Name another column with --target, and leave this one out "
            f"with --drop."
        )
    if text and task == "regression":
        raise InvalidInput(
            f"the target {name[:40]!r} is text, such as {shown}, which a regression cannot predict. Leave --task "
            f"out: its {len(values):,} values are classes."
        )
    if task == "classification" and len(values) > most:
        raise InvalidInput(
            f"the target {name[:40]!r} has {len(values):,} different numbers in {len(targets):,} rows, too many for "
            "classes. Leave --task out: it is a number to predict."
        )
