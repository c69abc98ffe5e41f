"""Compare: rows that come later with those that a run knows; has what the model lives on changed?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput, NotAvailable
from thresher.estimators import ThresherClassifier, ThresherRegressor, load_model
from thresher.figures import BLUE, ORANGE, Picture, as_written, draw, scale_of, set_axis
from thresher.output import write_text
from thresher.pages import find_jinja, render_page, say_number
from thresher.runs.answers import Answers, ask, classes_of
from thresher.runs.later.profile import ColumnProfile, Moved, compare_columns, profile_columns
from thresher.runs.pair import MODEL_FILE
from thresher.runs.record import Record
from thresher.runs.scores import say_scores, score_all
from thresher.tables import Frame
from thresher.tables.rows_on_disk import Part, on_disk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "compare", "profile_rows"]

_MOST_ROWS = 100_000  # that are compared
_MOST_DRAWN, _MOST_SAID, _MOST_BARS = 6, 10, 8
_ITEM = "- "  # begins a line about a column
_ENDS = (0.025, 0.975)  # of an error bar
_MEAN = "mean probability of the answer"
_SURE = 3.0  # standard errors beyond which a difference is no chance
_RATIO = 1.25  # of the widths of error bars, that is worth a word


@dataclass(frozen=True)
class Comparison:
    """How new rows differ from those that a run knows, and what its model does there."""

    what: str  # is predicted
    task: str
    rows: int
    known: int  # rows that they are compared with
    columns: list[Moved]  # the farthest first
    sure: dict[str, float] = field(default_factory=dict)  # how sure the model is: "before" and "now"
    before: dict[str, Any] = field(default_factory=dict)  # scores of the test
    scores: dict[str, Any] = field(default_factory=dict)  # of the new rows, if targets were given
    tested: int = 0  # rows of the test
    errors: tuple[float, float] | None = None  # mean squared errors, the test's and its standard error
    errors_now: tuple[float, float] | None = None

    @property
    def moved(self) -> list[Moved]:
        """The columns that moved by more than chance, the farthest first."""
        return [one for one in self.columns if one.moved]

    @property
    def worse(self) -> bool:
        """Whether the model is worse on the new rows, by more than chance."""
        if self.errors is None or self.errors_now is None:
            return False
        (one, doubt), (other, doubt_now) = self.errors, self.errors_now
        return other - one > _SURE * math.hypot(doubt, doubt_now)

    def summary(self) -> str:
        """Return what there is to know, a sentence or two a line."""
        return "\n".join(_sentences(self))

    def __str__(self) -> str:
        return self.summary()

    def report(self, path: str | Path) -> Path:
        """Write the comparison as one HTML page that needs no network; return its path.

        Needs Jinja2, and matplotlib for figures: ``pip install 'thresher-ml[plot]'``.
        """
        find_jinja()
        remarks: list[str] = []
        try:
            figures = draw(_pictures(self.moved[:_MOST_DRAWN]), self)
        except NotAvailable as error:
            figures, remarks = [], [str(error)]
        page = render_page(
            "compare.html",
            title=f"New rows, compared: {self.what}",
            lines=[one for one in _sentences(self) if not one.startswith(_ITEM)],
            moved=[one.removeprefix(_ITEM) for one in _sentences(self) if one.startswith(_ITEM)],
            remarks=remarks,
            figures=figures,
            head=("column", "moved", "by chance up to", "missing, before", "missing, now", "beyond what was there"),
            table=[_cells(one) for one in self.columns],
        )
        return write_text(Path(path), page, remedy="Choose another file for the page.")


def profile_rows(X: Any, model: Any) -> list[ColumnProfile]:
    """Return the profiles of the columns of rows X, as the model reads them; of very many rows those of some.

    Cost: O(n log n) per column.
    """
    encoder = getattr(model, "encoder_", None)
    return profile_columns(_frame_of(X), None if encoder is None else encoder.kinds_)


def compare(run: Record, X: Any, y: Any = None, *, source: Any) -> Comparison:
    """Return how rows X (n, d), with targets y (n,) if they are known, differ from those that a run knows.

    ``source`` is the run's model, or the folder that it is in; without one columns alone are compared.
    """
    if not run.profiles:
        raise InvalidInput(
            "this run does not know what its columns looked like; a version before 0.2 wrote it, or its rows had no "
            "columns to compare. Train again with thresher train --save, or call thresher.evaluate."
        )
    if not len(X):
        raise InvalidInput("there are no new rows to compare.")
    model = _model_of(source)
    columns = compare_columns(run.profiles, _frame_of(X))
    told: dict[str, Any] = {"what": str(run.model.get("target", "y")), "task": str(run.model.get("task", ""))}
    told |= {"rows": len(X), "known": max(one.rows for one in run.profiles), "columns": columns}
    if model is None:
        return Comparison(**told)
    answers = ask(model, X, task=told["task"], quantiles=_ENDS if told["task"] == "regression" else ())
    if answers.predicted.ndim > 1 or (answers.chances is not None and answers.chances.ndim != 2):
        raise InvalidInput("the model has several outputs; one is compared. Fit and compare a model of each.")
    told |= {"sure": _sure(run, answers), "tested": 0 if run.test is None else run.test.rows}
    if y is not None:
        told |= _scored(run, answers, np.asarray(y), model, told["task"])
    return Comparison(**told)


def _model_of(source: Any) -> Any:
    """Return the model itself, that of a folder, or None."""
    if not isinstance(source, Path):
        return source
    return load_model(source / MODEL_FILE, (ThresherClassifier, ThresherRegressor))


def _frame_of(X: Any) -> Frame:
    """Return rows as a frame; of very many, or of those on disk, some at random."""
    count = len(X)
    some = np.sort(np.random.default_rng(0).permutation(count)[:_MOST_ROWS])
    if on_disk(X):
        return Part(X).take(some)
    frame = Frame.of(X)
    return frame if count <= _MOST_ROWS else frame.take(some)


def _sure(run: Record, answers: Answers) -> dict[str, float]:
    """Return how sure the model was on its test, and is now: mean probabilities, or median widths of error bars."""
    found: dict[str, float] = {}
    if answers.chances is not None:
        found["now"] = float(answers.chances.max(axis=1).mean())
        if run.evaluation is not None and _MEAN in run.evaluation.scores:
            found["before"] = run.evaluation.scores[_MEAN]
    elif answers.quantiles is not None:
        found["now"] = float(np.median(answers.quantiles[:, 1] - answers.quantiles[:, 0]))
        points = [] if run.evaluation is None else run.evaluation.points
        widths = [one.upper - one.lower for one in points if one.lower is not None and one.upper is not None]
        if widths:
            found["before"] = float(np.median(widths))
    return found


def _scored(run: Record, answers: Answers, y: NDArray[Any], model: Any, task: str) -> dict[str, Any]:
    """Return the scores of the new rows whose targets are known, and mean errors before and now."""
    if len(y) != len(answers.predicted):
        raise InvalidInput(f"there are {len(answers.predicted):,} rows and {len(y):,} targets; give one for each row.")
    if task == "regression" and y.dtype.kind not in "fiub":
        raise InvalidInput("the targets are text, and this model predicts numbers. Leave them out, or give numbers.")
    there = y != "" if y.dtype.kind in "UO" else ~np.isnan(y.astype(np.float64))
    if not there.any():
        return {}
    predicted, wanted = answers.predicted[there], y[there]
    chances = None if answers.chances is None else answers.chances[there]
    rarer = run.scores.get("rarer class")  # of the test, so that both are scores of one class
    scores = score_all(predicted, wanted, task=task, chances=chances, classes=classes_of(model), rarer=rarer)
    told: dict[str, Any] = {"scores": scores, "before": run.scores}
    if task == "regression":
        errors = (predicted - wanted) ** 2
        points = [] if run.evaluation is None else run.evaluation.points
        before = np.array([(one.predicted - one.actual) ** 2 for one in points])
    else:
        errors = (predicted != wanted).astype(np.float64)
        right, n = run.scores.get("accuracy"), 0 if run.test is None else run.test.rows
        before = np.repeat([0.0, 1.0], [round(right * n), n - round(right * n)]) if right is not None else np.zeros(0)
    return told | {"errors": _mean(before), "errors_now": _mean(errors)}


def _mean(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the mean of values and its standard error; None of fewer than two."""
    if len(values) < 2:
        return None
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _sentences(found: Comparison) -> Iterator[str]:
    """Yield what there is to know: columns, how sure the model is, scores."""
    moved = found.moved
    many = f"{len(found.columns)} column{'s' * (len(found.columns) != 1)}"
    beside = f"{found.rows:,} new rows beside {found.known:,} known ones"
    yield f"{beside}: {len(moved) or 'none'} of {many} moved by more than chance{':' if moved else '.'}"
    for one in moved[:_MOST_SAID]:
        yield f"{_ITEM}{one.name}: {_say_moved(one)}."
    if len(moved) > _MOST_SAID:
        yield f"{_ITEM}and {len(moved) - _MOST_SAID} more."
    if "now" in found.sure:
        yield _say_sure(found)
    if found.scores:
        verdict = ""
        if found.errors is not None and found.errors_now is not None:
            verdict = " That is worse, by more than chance." if found.worse else " The difference may be chance."
            if found.errors_now[0] <= found.errors[0]:
                verdict = " That is no worse."
        yield f"With the targets given: {say_scores(found.scores)}."
        if found.before:
            yield f"On the {found.tested:,} rows of the test: {say_scores(found.before)}.{verdict}"
    if moved and not found.scores:
        yield "Whether predictions are still right, targets of new rows would tell; where they are not, train again."


def _say_moved(one: Moved) -> str:
    told = []
    if one.distance > one.chance:
        told.append(f"at least {_percent(one.distance)} of its values would have to be others")
        if one.sort != "names" and (middles := _middles(one)):
            told[-1] += f" (the median is {middles[1]}, was {middles[0]})"
    if one.missing_moved:
        told.append(f"{_percent(one.missing)} missing, was {_percent(one.missing_before)}")
    if one.new:
        names = [f"{name[:30]!r}" for name in list(one.new)[:3]]
        more = f" and {len(one.new) - 3} more" if len(one.new) > 3 else ""
        told.append(f"{_percent(one.outside)} have names that were not there: {', '.join(names)}{more}")
    elif one.outside > 0 and one.distance > one.chance and one.sort != "names":
        told.append(f"{_percent(one.outside)} lie beyond all that was there")
    return "; ".join(told)


def _middles(one: Moved) -> tuple[str, str] | None:
    """Return the medians before and now, as they are said; None if they look the same."""
    found = []
    for profile in (one.before, one.now):
        if not profile.at:
            return None
        place = min(int(np.searchsorted(profile.below, 0.5)), len(profile.at) - 1)
        found.append(_say_value(profile.at[place], one.sort))
    return (found[0], found[1]) if found[0] != found[1] else None


def _say_value(value: float, sort: str) -> str:
    if sort == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(math.floor(value), "D"))
    return f"{say_number(value)} words" if sort == "text" else say_number(value)


def _percent(share: float) -> str:
    return "none" if share == 0 else "under 0.1 %" if share < 0.001 else f"{100 * share:.3g} %"


def _say_sure(found: Comparison) -> str:
    now, before = found.sure["now"], found.sure.get("before")
    if found.task == "classification":
        was = "" if before is None else f"; on rows of the test it was {before:.1%}"
        return f"The mean probability of its answers is {now:.1%}{was}. That is the accuracy to expect if it is right."
    was = ""
    if before is not None:
        ratio = now / before if before > 0 else math.inf
        much = f", {ratio:.2g} times as wide" if ratio > _RATIO or ratio < 1 / _RATIO else ""
        was = f"; on rows of the test they were {say_number(before)}{much}"
    return f"Half of its 95 % error bars are wider than {say_number(now)}{was}."


def _cells(one: Moved) -> list[str]:
    return [
        one.name,
        f"{one.distance:.1%}" + (" *" if one.moved else ""),
        f"{one.chance:.1%}",
        _percent(one.missing_before),
        _percent(one.missing),
        _percent(one.outside),
    ]


def _pictures(moved: Sequence[Moved]) -> dict[str, Picture]:
    """Return a picture of each column that moved."""
    return {
        f"column {place}": Picture(partial(_draw, one=one), f"{one.name}: {_say_moved(one)}.")
        for place, one in enumerate(moved)
        if one.before.at or one.before.counts
    }


def _draw(axes: Axes, _: Any, *, one: Moved) -> str:
    if one.sort == "names":
        _draw_names(axes, one)
    else:
        _draw_steps(axes, one)
    return f"{one.name}: {_say_moved(one)}."


def _draw_steps(axes: Axes, one: Moved) -> None:
    """Draw the shares of rows up to each value."""
    ends: list[float] = []
    for profile, colour, label in ((one.before, BLUE, "before"), (one.now, ORANGE, "now")):
        if profile.at:
            axes.step(profile.at, 100 * np.array(profile.below), where="post", color=colour, label=label)
            ends += profile.at
    axes.set(xlabel=as_written(f"{one.name}{', words' if one.sort == 'text' else ''}"), ylabel="rows up to here, %")
    axes.set_ylim(0, 102)
    if ends:
        scale = "linear" if one.sort == "date" else scale_of(ends)
        set_axis(axes, "x", scale=scale, at=ends, dates=one.sort == "date")


def _draw_names(axes: Axes, one: Moved) -> None:
    """Draw the shares of the names that moved most."""
    had, have = (max(sum(one.counts.values()) + one.others, 1) for one in (one.before, one.now))
    names = [*one.before.counts, *(name for name in one.now.counts if name not in one.before.counts)]
    shares = {name: (one.before.counts.get(name, 0) / had, one.now.counts.get(name, 0) / have) for name in names}
    shown = sorted(names, key=lambda name: -abs(shares[name][0] - shares[name][1]))[:_MOST_BARS][::-1]
    places = np.arange(len(shown))
    axes.barh(places + 0.2, [100 * shares[name][0] for name in shown], height=0.38, color=BLUE, label="before")
    axes.barh(places - 0.2, [100 * shares[name][1] for name in shown], height=0.38, color=ORANGE, label="now")
    axes.set_yticks(places, [as_written(name if len(name) <= 18 else f"{name[:17]}…") for name in shown])
    axes.set(xlabel=f"rows, %, with these values of {as_written(one.name)}")
