"""Scores of every model on every split of every set: what is missing is computed, what is there is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.tabular.limited import within
from benchmarks.tabular.models import Model
from benchmarks.tabular.protocol import Suite, Tables, choose, evaluate, reason_of
from benchmarks.tabular.sets import Set
from benchmarks.tabular.store import CHOICE, SCORE, Row, Store, key_of

DONE, FAILED = "done", "failed"


class Effort(NamedTuple):
    """How much is done: threads for every fit; what is computed although it is there, all or failures alone."""

    threads: int
    again: bool = False
    retry: bool = False


def run_suite(
    suite: Suite,
    models: Sequence[Model],
    sets: Sequence[Set],
    *,
    store: Store,
    effort: Effort,
    console: Console,
) -> list[Row]:
    """Return the row of every cell that was asked for, small sets first; rows reach the store as they come.

    A set of classes is shown to classifiers, a set of values to regressors.
    """
    data = sorted(sets, key=lambda one: len(one.targets))
    fitting = {one.name: [model for model in models if model.classifies == one.labelled] for one in data}
    total = sum(len(suite.splits(one)) * len(fitting[one.name]) for one in data)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[now]}"))
    rows = []
    with Progress(TextColumn("{task.description}"), *columns, console=console, transient=True) as progress:
        bar = progress.add_task(suite.name, total=total, now="")
        for one in data:
            for model in fitting[one.name]:
                mine = []
                for split in suite.splits(one):
                    progress.update(bar, now=f"{model.name} on {one.name}, split {split}")
                    mine.append(score_row(suite, model, one, split, store=store, effort=effort))
                    progress.advance(bar)
                rows += mine
                if not console.is_terminal and any(row["run"] == store.run for row in mine):
                    console.print(f"{model.name} on {one.name}: {_in_words(mine)}", highlight=False, markup=False)
    return rows


def score_row(suite: Suite, model: Model, data: Set, split: int, *, store: Store, effort: Effort) -> Row:
    """Return the row of one split, from the store or computed now; a fit that fails gives a row that says why."""
    about = _about(SCORE, suite, data, model.name, split, model.recipe)
    found = _kept(about, store, effort)
    if found is not None:
        return found
    arguments: dict[str, Any] = {}
    if model.tuning is not None:
        choice = choice_row(suite, model, data, split, store=store, effort=effort)
        if choice["status"] == FAILED:
            return store.add({**about, "status": FAILED, "reason": f"no choice: {choice['reason']}"})
        arguments = choice["chosen"]
    train, test = suite.score_parts(data, split)
    try:
        figures = within(
            suite.limit, lambda: evaluate(suite, model, arguments, train, test, seed=split, threads=effort.threads)
        )
    except Exception as error:  # whatever a library raises belongs into the row
        return store.add({**about, "status": FAILED, "reason": reason_of(error), "arguments": arguments})
    return store.add({**about, "status": DONE, "arguments": arguments, **figures})


def choice_row(suite: Suite, model: Model, data: Set, split: int, *, store: Store, effort: Effort) -> Row:
    """Return the choice that a split is fitted with, from the store or made now."""
    name, recipe = model.choices
    about = _about(CHOICE, suite, data, name, suite.choice_key(split), recipe)
    found = _kept(about, store, effort)
    if found is not None:
        return found
    fit, judge = suite.choice_parts(data, split)
    try:
        chosen = choose(suite, model, fit, judge, seed=split, threads=effort.threads)
    except RuntimeError as error:  # every candidate failed
        return store.add({**about, "status": FAILED, "reason": str(error)})
    return store.add({**about, "status": DONE, **chosen})


def _about(kind: str, suite: Suite, data: Set, model: str, split: object, recipe: str) -> Row:
    size, dimension = data.inputs.shape
    if isinstance(suite, Tables):  # rows of a split are its own, or not all of them are used
        size = len(suite.score_parts(data, 0)[0].targets)
    where = {"set": data.name, "split": split, "inputs": size, "dimension": dimension, "data": data.digest}
    if data.labelled:
        where["classes"] = len(set(data.targets.tolist()))
    return {"kind": kind, "suite": suite.name, "model": model, **where, "recipe": recipe}


def _kept(about: Row, store: Store, effort: Effort) -> Row | None:
    """Return the row in the store if it still answers the question: same recipe, same data, not asked for again."""
    found = store.get(key_of(about))
    if found is None or any(found[name] != about[name] for name in ("recipe", "data")):
        return None
    anew = effort.again or (effort.retry and found["status"] == FAILED)
    return None if anew and found["run"] != store.run else found


def _in_words(rows: list[Row]) -> str:
    failed = [row for row in rows if row["status"] == FAILED]
    if failed:
        return f"{len(failed)} of {len(rows)} splits failed: {failed[0]['reason']}"
    name = next(name for name in ("accuracy", "r2", "rmse") if name in rows[0])
    return f"{name} {sum(row[name] for row in rows) / len(rows):.4f}"
