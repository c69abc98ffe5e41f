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
from benchmarks.page import END, begin, computer
from benchmarks.tabular import compared
from benchmarks.tabular.cases import CASES
from benchmarks.tabular.goals import goal_sheet, goals
from benchmarks.tabular.measured import means, percent
from benchmarks.tabular.models import (
    CLASSIFIERS,
    PUBLISHED_CLASSIFIERS,
    PUBLISHED_REGRESSORS,
    REGRESSORS,
    TABLE_CLASSIFIERS,
    TABLE_REGRESSORS,
    TIMED,
    Model,
)
from benchmarks.tabular.protocol import SUITES
from benchmarks.tabular.store import CHOICE, Row
from benchmarks.tabular.tables import CAVEATS, MEASURES, tables
from thresher import InvalidInput

PART = "published-tables"  # stands between marks, and is written from its rows alone
MODELS = {
    PART: PUBLISHED_CLASSIFIERS + PUBLISHED_REGRESSORS,
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

    pip install -r benchmarks/requirements.txt                             # LightGBM and others; the rest is in scikit-learn
    python -m benchmarks.tabular --data-dir DIR                            # accuracy; goes on where an earlier run ended
    python -m benchmarks.tabular --data-dir DIR --suite published-tables   # 24 tables as people have them
    python -m benchmarks.tabular --suite tables                            # tables that are made; needs no folder
    python -m benchmarks.tabular --data-dir DIR --suite times              # seconds; nothing else should run meanwhile
    python -m benchmarks.tabular.page                                      # this page

*Default* is the estimator without arguments; it sees only the training rows of a split. *Tuned* models choose parameters on
rows that the protocol reserves for this. Every model that takes a seed (the number of the split) or a number of threads gets both.
"""


def _cases() -> str:
    return "\n".join(f"- {name}: {case.about}." for name, case in CASES.items())


SECTIONS = {
    PART: """## Published tables

24 tables of PMLB and UCI as people have them: 144 to 370,515 training rows, whole numbers that stand for categories, few levels, noise,
skewed columns, rare classes. Models see the columns as they are; nobody is told which ones are categories. Every rival has its defaults,
but for ExtraTrees, which has 500 trees, and the splines: ten knots at quantiles of each column, then a ridge chosen by leave-one-out, or
logistic regression. *All columns at once* is the kernel without parts. *Columns* is a sum of functions of one column, as the splines
are; *pairs* adds functions of two, as EBM does. A model is level with the best if its accuracy or R² is at most 0.002 below. Ranks are
among the rivals and one model of ours: the one of the row, or the default. Bold: the best of a row.
""",
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
        text = page(found, before=asked.output.read_text() if asked.output.is_file() else "")
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


def page(found: dict[str, Any], *, before: str = "") -> str:
    """Return the page; ``found`` is what a store has written, ``before`` the page as it was.

    The part of the published tables and the rest of the page stay as they were if there are no rows of theirs.
    """
    rows: list[Row] = found["rows"]
    suites = [name for name in MODELS if any(row["suite"] == name for row in rows)]
    rest = [name for name in suites if name != PART]
    text = _rest(found, rest) if rest or begin(PART) not in before else before
    head, _, tail = text.partition(begin(PART))
    _, _, tail = tail.partition(END)
    kept = before.partition(begin(PART))[2].partition(END)[0].strip("\n")
    part = _part(found) if PART in suites else kept
    return "\n".join([f"{head}{begin(PART)}", *([f"\n{part}\n"] if part else []), f"{END}{tail}"])


def _rest(found: dict[str, Any], suites: list[str]) -> str:
    """Return the page with nothing between the marks of its part."""
    rows = found["rows"]
    against = goal_sheet([goal for name in suites for goal in goals(name, rows)])
    parts = [INTRODUCTION, "## Against the goals\n", against.markdown(), f"{begin(PART)}\n{END}\n"]
    for name in suites:
        parts += _section(name, rows)
    parts.append(CHOSEN)
    parts += [f"### {name.capitalize()}\n\n{recipes(name, rows)}" for name in suites]
    return "\n".join([*parts, "## Where the figures come from\n", origins(found, suites)])


def _part(found: dict[str, Any]) -> str:
    """Return the part of the published tables, with its goal, its models, and where its figures come from."""
    rows = found["rows"]
    parts = [*_section(PART, rows), "**Against the goal**\n", goal_sheet(goals(PART, rows)).markdown()]
    parts += ["**The models**\n", recipes(PART, rows), "**Where the figures come from**\n", origins(found, [PART])]
    return "\n".join(parts).strip("\n")


def _section(suite: str, rows: list[Row]) -> list[str]:
    """Return what a suite is, and all of its tables but that of goals."""
    parts = [SECTIONS[suite], "\n".join(f"- {caveat}" for caveat in CAVEATS[suite]) + "\n"]
    for sheet in tables(suite, rows):
        if sheet.title != goal_sheet([]).title:
            parts += [f"**{sheet.title}**\n", sheet.markdown()]
    return parts + (LOSSES[suite](rows) if suite in LOSSES else [])


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


def table_losses(rows: list[Row]) -> list[str]:
    """Return the published tables on which the plain estimator is not level with the best rival."""
    lines, judged = compared.losses(rows)
    return _listed(lines, f"more than {compared.LEVEL:g} behind the best rival, {len(lines)} of {judged} tables")


LOSSES = {"classification": losses, "tables": case_losses, PART: table_losses}


def _rivals(one: str, known: dict[str, dict[str, float]], models: tuple[Model, ...]) -> list[tuple[float, str]]:
    """Return the figure and the label of every rival that has done a set."""
    rivals = [model for model in models if model.source[0] != "thresher" and one in known.get(model.name, {})]
    return [(known[model.name][one], model.label) for model in rivals]


def _listed(lines: list[tuple[float, str]], what: str) -> list[str]:
    text = "\n".join(line for _, line in sorted(lines, reverse=True))
    return [f"**Where we lose: default thresher {what}**\n", f"{text}\n"] if lines else []


def recipes(suite: str, rows: list[Row]) -> str:
    """Return what each model is and what was chosen how often; rows of another recipe are pointed out."""
    lines = []
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


def origins(found: dict[str, Any], suites: list[str]) -> str:
    """Return, for each of these suites and each model, the commits its rows were made at; then the machines."""
    lines = ["| suite | model | rows | commits |", "| --- | --- | ---: | --- |"]
    for suite in suites:
        for model, *_ in _by_name(suite):
            mine = [row for row in found["rows"] if (row["suite"], row["model"]) == (suite, model.name)]
            if mine:
                commits = ", ".join(sorted({row["commit"] for row in mine}))
                lines.append(f"| {suite} | {model.label} | {len(mine)} | {commits} |")
    machines: dict[str, None] = {}
    used = {row["run"] for row in found["rows"] if row["suite"] in suites}
    for run in (one for name, one in found["runs"].items() if name in used):
        machines[f"{computer(run['environment'])}; {run['threads']} threads.\n"] = None
    return "\n".join([*lines, "", *machines])


if __name__ == "__main__":
    sys.exit(main())
