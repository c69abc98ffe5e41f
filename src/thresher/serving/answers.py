"""What a model says of rows, and of itself, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.runs.saved import SavedModel
from thresher.serving.http import Refused
from thresher.serving.rows import Asked, frame_of, read_body
from thresher.tables.frame import Frame, say_label
from thresher.tables.units.known import CLOCK

__all__ = ["Answerer"]

_NAMED = 50  # values of a category that a schema lists
_ROUNDED = 4  # significant digits of an example


class Answerer:
    """A model that answers requests.

    Parameters
    ----------
    saved : the model
    coverage : share of new targets that intervals hold, where a request says nothing; None for no intervals
    rows : of a request at most
    """

    def __init__(self, saved: SavedModel, *, coverage: float | None, rows: int) -> None:
        self.saved, self._rows, self.names = saved, rows, saved.names
        kinds = [None] * len(self.names) if saved.model.encoder_ is None else saved.model.encoder_.kinds_.values()
        self._columns = [_column(name, kind) for name, kind in zip(self.names, kinds, strict=True)]
        self.bars = saved.task == "regression" and self._has_bars()
        self._coverage = coverage if self.bars else None
        if self._coverage is not None:  # so that the first request finds all ready, or nobody asks in vain
            self._bounds(self._example(), self._coverage)

    def _example(self) -> Frame:
        return frame_of([Asked({one["name"]: [one["example"]] for one in self._columns}, 1, None)])

    def _has_bars(self) -> bool:
        """Return whether the model has error bars."""
        try:
            self._bounds(self._example(), 0.5)
        except InvalidInput:  # trained to zero loss: nothing was left out
            return False
        return True

    def _bounds(self, frame: Frame, coverage: float) -> NDArray[np.float64]:
        """Return the ends of intervals (k, 2) or (k, outputs, 2) that hold this share of new targets."""
        return np.asarray(self.saved.model.predict_quantiles(frame, [(1 - coverage) / 2, (1 + coverage) / 2]))

    def read(self, body: bytes) -> Asked:
        """Return what the body of a request asks for; Refused if that cannot be answered."""
        asked = read_body(body, self.names, most=self._rows, coverage=self._coverage)
        if asked.coverage is not None and not self.bars:
            kind = "classes" if self.saved.task == "classification" else "numbers without error bars"
            raise Refused(422, f"this model predicts {kind}, so it has no intervals. Leave coverage out.")
        return asked

    def answer(self, several: Sequence[Asked]) -> list[bytes | Refused]:
        """Return the answer to each of some requests; those of one signature are predicted together.

        A request that cannot be answered spoils none of the others. Cost: that of one prediction of all rows.
        """
        groups: dict[Any, list[int]] = {}
        for place, one in enumerate(several):
            groups.setdefault(one.signature, []).append(place)
        found: dict[int, bytes | Refused] = {}
        for places in groups.values():
            some = [several[place] for place in places]
            found |= dict(zip(places, self._together(some), strict=True))
        return [found[place] for place in range(len(several))]

    def _together(self, some: list[Asked]) -> list[bytes | Refused]:
        try:
            rows = self._predicted(frame_of(some), some[0].coverage)
        except InvalidInput as error:
            if len(some) == 1:
                return [Refused(422, " ".join(str(error).split()))]
            return [one for each in some for one in self._together([each])]
        made: list[bytes | Refused] = []
        first = 0
        for one in some:
            told: dict[str, Any] = {"predictions": rows[first : first + one.rows]}
            if one.coverage is not None:
                told["coverage"] = one.coverage
            made.append(json.dumps(told, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            first += one.rows
        return made

    def _predicted(self, frame: Frame, coverage: float | None) -> list[dict[str, Any]]:
        """Return what is said of each row, and which of its columns hold what no training row has."""
        model, strange = self.saved.model, self._strange(frame)
        if self.saved.task == "classification":
            told = self._classes(frame)
        else:
            told = _numbers(model.predict(frame), None if coverage is None else self._bounds(frame, coverage))
        for name, cells in strange.items():
            for place in np.flatnonzero(cells).tolist():
                told[place].setdefault("unseen", []).append(name)
        return told

    def _classes(self, frame: Frame) -> list[dict[str, Any]]:
        model = self.saved.model
        if self.saved.classes is None:
            both = zip(model.predict(frame).tolist(), model.predict_proba(frame).tolist(), strict=True)
            return [{"prediction": one, "probabilities": chances} for one, chances in both]
        chances = np.asarray(model.predict_proba(frame))
        labels, names = model.classes_.tolist(), [say_label(one) for one in model.classes_.tolist()]
        best = chances.argmax(axis=1).tolist()
        return [
            {"prediction": labels[place], "probabilities": dict(zip(names, row, strict=True))}
            for place, row in zip(best, chances.tolist(), strict=True)
        ]

    def _strange(self, frame: Frame) -> dict[str, NDArray[np.bool_]]:
        """Return which cells (n,) hold what no training row has; refuse text that is no number or no date."""
        encoder = self.saved.model.encoder_
        if encoder is None:
            self._check_numbers(frame)
            return {}
        found = {}
        for column, kind in zip(frame, encoder.kinds_.values(), strict=True):
            cells = kind.unseen(column)
            if not cells.any():
                continue
            wrong = np.flatnonzero(cells & ~column.missing)
            if kind.kind in ("number", "date") and len(wrong):
                cell = str(column.values[wrong[0]])[:40]
                raise InvalidInput(
                    f"row {wrong[0] + 1}, column {column.name[:40]!r}: {cell!r} is no {kind.kind} that can be read."
                )
            found[column.name] = cells
        return found

    def _check_numbers(self, frame: Frame) -> None:
        for column in frame:
            if column.is_text:
                place = int(np.argmax(column.values != ""))
                cell = str(column.values[place])[:40]
                raise InvalidInput(f"row {place + 1}, column {column.name[:40]!r}: expected a number; got {cell!r}.")
            if column.missing.any():
                place = int(np.argmax(column.missing))
                raise InvalidInput(
                    f"row {place + 1}, column {column.name[:40]!r}: expected a number; no training row lacks one."
                )

    def schema(self) -> dict[str, Any]:
        """Return what the model predicts, its columns, and an example of a request."""
        saved = self.saved
        about: dict[str, Any] = {"task": saved.task, "target": saved.target}
        if saved.classes is not None:
            about["classes"] = saved.classes.tolist()
        if math.isfinite(saved.error):
            about["typical error"] = saved.error
        example = {"rows": [{one["name"]: one["example"] for one in self._columns}]}
        if self.bars:
            example["coverage"] = 0.9 if self._coverage is None else self._coverage  # type: ignore[assignment]
        return {
            "model": about,
            "columns": self._columns,
            "predict": {"method": "POST", "path": "/predict", "body": example},
        }


def _numbers(predicted: NDArray[Any], bounds: NDArray[Any] | None) -> list[dict[str, Any]]:
    """Return predictions of numbers, with the ends of their intervals if there are some."""
    columns = {"prediction": _finite(predicted)}
    if bounds is not None:
        columns |= {"lower": _finite(bounds[..., 0]), "upper": _finite(bounds[..., 1])}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _finite(values: NDArray[Any]) -> list[Any]:
    """Return numbers, and None for those that JSON does not know."""
    finite = np.isfinite(values)
    return values.tolist() if finite.all() else np.where(finite, values, np.array(None, object)).tolist()


def _column(name: str, kind: Any) -> dict[str, Any]:
    """Return what a schema says of a column."""
    told: dict[str, Any] = {"name": name, "kind": "number" if kind is None else kind.kind}
    if unit := getattr(kind, "unit", ""):
        told["unit"] = unit
    values = list(getattr(kind, "values", ()))
    if values:
        named = [one for one in values if one]
        told["values"] = named[:_NAMED]
        if len(named) > _NAMED:
            told["further values"] = len(named) - _NAMED
    told["example"] = _example(kind, values)
    return told


def _example(kind: Any, values: list[str]) -> Any:
    """Return a cell of a column as it may stand in a request."""
    if kind is None:
        return 0.0
    if kind.kind == "number":
        return _written(float(f"{kind.fill:.{_ROUNDED}g}"), kind)
    if kind.kind == "date":
        days = dict(zip(kind.parts, kind.fill, strict=True)).get("day", 19_723.0)
        return str(np.datetime64("1970-01-01") + np.timedelta64(int(days), "D"))
    if values:
        return next((one for one in values if one), None)
    return " ".join(getattr(kind, "words", ())[:3]) if kind.kind == "text" else None


def _written(number: float, kind: Any) -> Any:
    """Return a number as a column with units has it: with its unit and decimal sign, or as a time of a clock."""
    if kind.unit == CLOCK:
        hours, minutes = divmod(round(60 * abs(number)), 60)
        return f"{'-' * (number < 0)}{hours}:{minutes:02d}"
    return f"{number:g} {kind.unit}".replace(".", kind.decimal) if kind.unit else number
