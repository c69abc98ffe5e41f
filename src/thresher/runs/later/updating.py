"""Update: a run whose model has taken in rows that came later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.runs.answers import ask, classes_of
from thresher.runs.record import LATER, LEFT_OUT, Record
from thresher.runs.scores import score_all

__all__ = ["Update", "update"]

_ROWS, _TESTED = "rows trained on", "tested"  # in ``data``


class Update(NamedTuple):
    """What became of a run, and how well the model did on the new rows before it took them in."""

    run: Any
    scores: dict[str, Any]
    again: int  # new rows with the inputs of rows that the model was trained on


def update(run: Record | None, model: Any, X: Any, y: NDArray[Any], *, task: str, source: str = "") -> Update:
    """Let a fitted estimator take in rows X (n, d) that came later, with targets y (n,), and tell its run.

    Scores and pictures of the run stay those of the test of the model before, and it says so; ``source`` is where the
    rows came from. The model is changed, the run is not: the new one is returned, None without one. Nothing changes if
    rows are refused.

    Cost: one prediction, and that of ``partial_fit``.
    """
    from thresher.estimators import hash_rows_of

    try:
        take_in = model.partial_fit
    except AttributeError as error:  # scikit-learn's way to say that there is none
        raise InvalidInput(str(error.__cause__ or error)) from None
    answers = ask(model, X, task=task)
    scores = score_all(answers.predicted, y, task=task, chances=answers.chances, classes=classes_of(model))
    marks = hash_rows_of(model, X)
    take_in(X, y)
    if run is None:
        return Update(None, scores, 0)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    line = f"{len(y):,} rows{f' of {source}' if source else ''}, {when}"
    data = dict(run.data)
    if isinstance(data.get(_ROWS), int):
        data[_ROWS] += len(y)
    data[_TESTED] = f"{str(data.get(_TESTED, 'with this model')).split(', before')[0]}, before rows were taken in later"
    data[LATER] = f"{data[LATER]}; {line}" if LATER in data else line
    network = run.network | {"inputs": len(model.inputs_), LEFT_OUT: model.loo_share_}
    told = replace(run, data=data, network=network, seen=np.concatenate([run.seen, marks]))
    return Update(told, scores, int(np.isin(marks, run.seen).sum()))
