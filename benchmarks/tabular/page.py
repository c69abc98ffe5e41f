"""Write docs/accuracy.md from the rows of results, so that no figure is typed by hand.

python -m benchmarks.tabular.page [--results results/tabular.json] [--output docs/accuracy.md]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.page import computer
from benchmarks.tabular.cases import CASES
from benchmarks.tabular.goals import goal_sheet, goals
from benchmarks.tabular.measured import means, percent
from benchmarks.tabular.models import CLASSIFIERS, REGRESSORS, TABLE_CLASSIFIERS, TABLE_REGRESSORS, TIMED, Model
from benchmarks.tabular.protocol import SUITES
from benchmarks.tabular.store import CHOICE, Row
from benchmarks.tabular.tables import CAVEATS, MEASURES, tables
from thresher import InvalidInput

MODELS = {
    "classification": CLASSIFIERS,
    "regression": REGRESSORS,
    "tables": TABLE_CLASSIFIERS + TABLE_REGRESSORS,
    "times": TIMED,
}
LOST = 1.0  # points of accuracy below the best rival from which a set is listed
BEHIND = 0.01  # accuracy, log loss or R² by which a case is
COMPARED = ("accuracy", "log_loss", "r2")

INTRODUCTION = """# Accuracy on tabular data

Commands wrote every figure in the tables of this page; none was typed by hand. Published data sets keep their published splits and
protocols; another suite makes its tables from a seed.

    pip install -r benchmarks/requirements.txt                             # LightGBM; the other rivals are in scikit-learn
    python -m benchmarks.tabular --data-dir DIR                            # accuracy; goes on where an earlier run ended
    python -m benchmarks.tabular --suite tables                            # tables that are made; needs no folder
    python -m benchmarks.tabular --data-dir DIR --suite times              # seconds; nothing else should run meanwhile
    python -m benchmarks.tabular.page                                      # this page

*Default* is the estimator without arguments; it sees only the training rows of a split. *Tuned* models choose parameters on
rows that the protocol reserves for this. Every model that takes a seed (the number of the split) or a number of threads gets both.
"""


def _cases() -> str:
    return "\n".join(f"- {name}: {case.about}." for name, case in CASES.items())


SECTIONS = {
    "classification": """## Classification

45 UCI sets of at most 5000 rows. Accuracy is measured on `kf_test` after fitting `kf_train`, and averaged over four splits, then
over the sets. Tuned models are fitted on `hp_train` with every candidate and judged by accuracy on `hp_val`, once per set. Ties go to the
lower Brier score, for models with probabilities, then to the candidate tried first. Bold: the best of a row.
""",
    "regression": """## Regression

RMSE in original units, on 20 published splits. Inputs and target are standardised on the training part. Tuned models choose on an
inner 80/20 split of the training rows, drawn again for each split. The likelihood is that of `predict(return_std=True)`, in original
units, for the models that have it; 95 % error bars extend 1.96 of its standard deviations to either side.
""",
    "tables": f"""## Tables as people have them

Categories, repeated rows, wrong cells, skewed or useless columns, more columns than rows, raw pixels:

{_cases()}

Training and test rows are drawn again for each split, seeded by its number. Only training rows are damaged. The cases from
*friedman* to *heavy-tails* are one problem, on the same rows; the targets of its test rows have no noise, so the best R² is 1. In all
other cases test rows are as noisy as training rows. Models see the columns as they are, except linear models and the SVM: their
columns, and the targets of a regression, are standardised on the rows that are fitted. The SVM chooses on an inner 80/20 split of the
training rows. Log loss is shown for models with probabilities, error bars for models with `return_std`. Bold: the best of a row.
""",
    "times": """## Time

""",
}

CHOSEN = """## How parameters were chosen

This lists each model and the values it was tuned over. Default models choose for themselves, on the training rows of a split. No choice
sees a test target, except in the rows that the published `hp_train` and `hp_val` share with later test rows:
`tests/benchmarks/test_tabular.py` and `tests/benchmarks/test_tabular_cases.py` corrupt the test rows and get the same choices and the same fits.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/tabular.json"))
    parser.add_argument("--output", type=Path, default=Path("docs/accuracy.md"))
    asked = parser.parse_args(arguments)
    try:
        found = results.read(asked.results)
        if not found.get("rows"):
            raise InvalidInput(f"{asked.results} holds no rows; run python -m benchmarks.tabular first.")
        text = page(found)
        unfinished = asked.output.with_name(f"{asked.output.name}.unfinished")
        try:
            unfinished.write_text(text)
            unfinished.replace(asked.output)
        except OSError as error:
            raise InvalidInput(f"the page cannot be written to {asked.output}: {error.strerror}.") from error
    except InvalidInput as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"Written to {asked.output}.")
    return 0


def page(found: dict[str, Any]) -> str:
    """Return the page; ``found`` is what a store has written."""
    rows: list[Row] = found["rows"]
    suites = [name for name in MODELS if any(row["suite"] == name for row in rows)]
    against = goal_sheet([goal for name in suites for goal in goals(name, rows)])
    parts = [INTRODUCTION, "## Against the goals\n", against.markdown()]
    for name in suites:
        parts += [SECTIONS[name], "\n".join(f"- {caveat}" for caveat in CAVEATS[name]) + "\n"]
        for sheet in tables(name, rows):
            if sheet.title != against.title:
                parts += [f"**{sheet.title}**\n", sheet.markdown()]
        if name in LOSSES:
            parts += LOSSES[name](rows)
    parts.append(CHOSEN)
    parts += [recipes(name, rows) for name in suites]
    return "\n".join([*parts, "## Where the figures come from\n", origins(found)])


def losses(rows: list[Row]) -> list[str]:
    """Return the sets on which the plain estimator is behind a rival that is no network of ours."""
    known = percent(rows)
    ours, lines = known.get("thresher", {}), []
    for one, mine in ours.items():
        gap, label = max(
            ((theirs - mine, label) for theirs, label in _rivals(one, known, CLASSIFIERS)), default=(0.0, "")
        )
        if gap > LOST:
            lines.append((gap, f"- {one}: {mine:.2f}, {label} {gap:+.2f}"))
    return _listed(lines, f"more than {LOST:g} behind the best rival, {len(lines)} of {len(ours)} sets")


def case_losses(rows: list[Row]) -> list[str]:
    """Return the cases on which the plain estimator is behind, in accuracy or R², or in log loss."""
    lines, count = [], 0
    for name in COMPARED:
        known, (label, badness) = means(rows, "tables", name), MEASURES[name]
        for one, mine in known.get("thresher", {}).items():
            count += 1
            rivals = _rivals(one, known, TABLE_CLASSIFIERS)
            gap, best, rival = max(
                ((badness(mine) - badness(their), their, who) for their, who in rivals), default=(0.0, 0.0, "")
            )
            if gap > BEHIND:
                lines.append((gap, f"- {one}: {label} {mine:.3f}, {rival} {best:.3f}"))
    return _listed(lines, f"more than {BEHIND:g} behind the best rival, {len(lines)} of {count} figures")


LOSSES = {"classification": losses, "tables": case_losses}


def _rivals(one: str, known: dict[str, dict[str, float]], models: tuple[Model, ...]) -> list[tuple[float, str]]:
    """Return the figure and the label of every rival that has done a set."""
    rivals = [model for model in models if model.source[0] != "thresher" and one in known.get(model.name, {})]
    return [(known[model.name][one], model.label) for model in rivals]


def _listed(lines: list[tuple[float, str]], what: str) -> list[str]:
    text = "\n".join(line for _, line in sorted(lines, reverse=True))
    return [f"**Where we lose: default thresher {what}**\n", f"{text}\n"] if lines else []


def recipes(suite: str, rows: list[Row]) -> str:
    """Return what each model is and what was chosen how often; rows of another recipe are pointed out."""
    lines = [f"### {suite.capitalize()}\n"]
    for models in _by_name(suite):
        model, recipes = models[0], [one.recipe for one in models]
        mine = [row for row in rows if row["suite"] == suite and row["model"] == model.name and row["kind"] != CHOICE]
        if not mine:
            continue
        lines.append(f"- **{model.label}**: {', '.join(f'`{recipe}`' for recipe in recipes)}.")
        others = sum(row["recipe"] not in recipes for row in mine)
        if others:
            lines[-1] += f" **{others} of {len(mine)} rows were made by another recipe.**"
        if model.tuning and suite in SUITES:
            lines[-1] += _counted(suite, model, rows)
    return "\n".join(lines) + "\n"


def _by_name(suite: str) -> list[list[Model]]:
    """Return the models of a suite, those of one name together: one may be for classes, another for values."""
    found: dict[str, list[Model]] = {}
    for model in MODELS[suite]:
        found.setdefault(model.name, []).append(model)
    return list(found.values())


def _counted(suite: str, model: Model, rows: list[Row]) -> str:
    name, _ = model.choices
    mine = [row for row in rows if (row["kind"], row["suite"], row["model"]) == (CHOICE, suite, name)]
    made = [row["chosen"] for row in mine if row["status"] == "done"]
    assert model.tuning is not None
    parts = []
    for parameter in model.tuning.values:
        counts = Counter(str(chosen.get(parameter, "default")) for chosen in made)
        parts.append(f"{parameter} " + ", ".join(f"{value} ({times})" for value, times in counts.most_common()))
    return f" Chosen (times): {'; '.join(parts)}."


def origins(found: dict[str, Any]) -> str:
    """Return, for each suite and model, the commits its rows were made at; then the machines."""
    lines = ["| suite | model | rows | commits |", "| --- | --- | ---: | --- |"]
    for suite in MODELS:
        for model, *_ in _by_name(suite):
            mine = [row for row in found["rows"] if (row["suite"], row["model"]) == (suite, model.name)]
            if mine:
                commits = ", ".join(sorted({row["commit"] for row in mine}))
                lines.append(f"| {suite} | {model.label} | {len(mine)} | {commits} |")
    machines: dict[str, None] = {}
    for run in found["runs"].values():
        machines[f"{computer(run['environment'])}; {run['threads']} threads.\n"] = None
    return "\n".join([*lines, "", *machines])


if __name__ == "__main__":
    sys.exit(main())
