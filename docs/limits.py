"""Writes the tables of limits.md from the constants of the code: ``python docs/limits.py``, or ``make limits``.

A constant is named by its package and its name, so it may move from file to file. Values are read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "thresher"
PAGE = Path(__file__).parent / "limits.md"


class Limit(NamedTuple):
    """A number that users or engineers meet: what it is, the package that sets it, and what it is called there."""

    words: str
    package: str
    name: str


TRAINING = [
    Limit('inputs up to which `solver="auto"` factors every matrix', "training", "ALWAYS_FACTOR"),
    Limit('inputs up to which `solver="auto"` makes any n x n matrix', "interfaces", "EVER_FACTOR"),
    Limit('share of the last contraction that a solve of `solver="pivots"` may leave', "algebra: cg.py", "_SHARE"),
    Limit("relative residual of such a solve, at the finest", "training", "_TOLERANCE"),
    Limit("the same, at the coarsest", "algebra: cg.py", "_LOOSEST"),
    Limit('expected path of a firing neuron from which `index="dense"` is the default', "training", "_FAR"),
    Limit('columns from which `start="auto"` takes Hadamard rows', "training", "_MANY"),
    Limit('columns that `start="hadamard"` takes at most', "model: hadamard.py", "MOST_COLUMNS"),
    Limit("Hadamard rows that share random signs at least", "model: hadamard.py", "_FEWEST"),
    Limit("columns up to which predictions transform such rows", "model: outputs.py", "_LONGEST"),
    Limit("share of twins that must have moved for that", "model: outputs.py", "_COUNTED"),
    Limit("columns for each input a neuron fires on, above which products of inputs move it", "loops", "_SCATTERED"),
    Limit("halvings of a step that are tried", "training", "_HALVINGS"),
    Limit("knots of an activation at most", "model: curves.py", "_MOST_KNOTS"),
    Limit('smallest `tol` with `dtype="float32"`', "training", "_FINEST_FLOAT32"),
    Limit("share of the first residual by which a resumed run may differ, on another machine", "training", "_AGREE"),
    Limit("shards (slices of neurons) at most", "engines", "_MOST_SHARDS"),
    Limit("neurons of a shard at least, unless it is dense", "engines", "_SHARD"),
    Limit("distance of the norm of an input from 1 that is accepted", "loops", "NORM_TOLERANCE"),
    Limit("numbers that a sketch S Jᵀ has at most", "algebra", "_MOST_ENTRIES"),
]
CHOICES = [
    Limit("biases that are tried, regression", "estimators", "ThresherRegressor._biases"),
    Limit("biases that are tried, classification", "estimators", "ThresherClassifier._biases"),
    Limit("shift of the kernel, regression", "estimators", "ThresherRegressor._shift"),
    Limit("shift of the kernel, classification", "estimators", "ThresherClassifier._shift"),
    Limit("smallest ridge, relative to the diagonal of the kernel", "estimators", "RIDGES[0]"),
    Limit("largest ridge", "estimators", "RIDGES[-1]"),
    Limit("power of the outer products that is the next metric", "estimators", "POWER"),
    Limit("rounds of the metric at most, unasked", "estimators: metric.py", "_ROUNDS"),
    Limit("share of the least error so far that one more round must leave", "estimators", "_A_ROUND"),
    Limit("columns up to which a kernel has parts unasked", "estimators: fit.py", "_COLUMNS"),
    Limit("observations below which a gain by categories must be more certain", "estimators: leave_one_out.py", "_FEW"),
    Limit(
        "standard errors that this gain must be: below that number, and from it on",
        "estimators: leave_one_out.py",
        "_DOUBTS",
    ),
    Limit(
        "values of a column of whole numbers that may be a category, at most",
        "estimators: single_columns.py",
        "_LEVELS",
    ),
    Limit("columns that such numbers become at most", "estimators", "_INDICATORS"),
    Limit("share of the squared error that categories must gain", "estimators: choose.py", "_WORTH"),
    Limit("share of the CRPS of targets that logarithms must leave", "estimators: log_targets.py", "_CLEARLY"),
    Limit("and standard errors that they must gain", "estimators: log_targets.py", "_SURE"),
    Limit("share of it from which on they are better by far", "estimators: log_targets.py", "_BETTER"),
    Limit(
        "share of the squared error that they may have, and where they are better by far",
        "estimators: log_targets.py",
        "_SQUARES",
    ),
    Limit("floor of logarithms below the smallest target, in deviations of the targets", "estimators", "_ABOVE"),
    Limit(
        'deviations of most targets to which the others are pulled in while `loss="huber"` chooses its kernel',
        "estimators: regressor.py",
        "_REACH",
    ),
    Limit('deviations of a target at most that `loss="huber"` sees', "estimators: regressor.py", "_MOST"),
    Limit('knee of `loss="huber"`, in deviations of most errors', "estimators", "_KNEE"),
    Limit('rows that the levels of `loss="quantile"` are fitted to, at most', "estimators: quantiles.py", "_ROWS"),
    Limit("share of the error of centres that an exact fit must leave", "estimators: solve.py", "_CLEARLY"),
    Limit("share of the error of rows left out by which answers may miss what a fit promised", "estimators", "_AGREE"),
]
TABLES = [
    Limit("values of a column of words up to which each becomes a column of zeros and ones", "tables", "MOST_VALUES"),
    Limit("share of words among numbers or dates up to which they count as missing", "tables", "FEW"),
    Limit("share of different values from which they are names of rows, and left out", "tables", "_NEARLY_ALL"),
    Limit("words of a cell, on average, from which a column is free text", "tables", "_SENTENCE"),
    Limit("parts of the rows for means of targets by category", "tables", "_FOLDS"),
    Limit("rows that the mean of all targets counts as in such a mean", "tables", "_PRIOR"),
    Limit(
        "values of a category that may have zeros and ones, as a share of the rows",
        "estimators: encodings.py",
        "_SHARE",
    ),
    Limit("and at most", "estimators: encodings.py", "_MOST"),
    Limit(
        "standard errors by which these, or columns made of others, must be better", "estimators: encodings.py", "_SURE"
    ),
    Limit("rows on which this is tried, at most", "estimators: encodings.py", "_ROWS"),
    Limit("pairs of dates that are tried", "estimators: made.py", "_PAIRED"),
    Limit("columns of own values in nearly every row that are tried in pieces", "estimators: made.py", "_PIECED"),
    Limit("different whole numbers above which they may be names", "estimators: made.py", "_FEWEST"),
    Limit("rows for each of these, on average, at least", "estimators: made.py", "_ROWS"),
    Limit("components of a free text at most", "estimators: grams.py", "_NUMBERS"),
    Limit("buckets that its words and pieces of words are hashed into", "estimators: grams.py", "_BUCKETS"),
    Limit("of these, buckets that are kept at most", "estimators: grams.py", "_KEPT"),
    Limit("classes up to which each has means of its own", "estimators", "_MOST_MEANS"),
    Limit("different whole numbers in a target up to which they are classes", "tables", "_MOST_CLASSES"),
]


@cache
def parsed(path: Path) -> tuple[ast.Module, list[str]]:
    """Return the code of a file, and its lines."""
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), text.splitlines()


def assigned(package: str) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield the names that a package sets in modules and classes (``Class.name``), what to, and the comment beside.

    Where several files of a package set a name, ``package: file.py`` says which is meant.
    """
    room, _, file = package.partition(": ")
    for path in sorted((SOURCE / room).rglob(file or "*.py")) or [SOURCE / f"{room}.py"]:
        module, lines = parsed(path)
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        for owner, body in (("", module.body), *((f"{node.name}.", node.body) for node in classes)):
            for node in body:
                if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                    continue
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                comment = lines[node.end_lineno - 1][node.end_col_offset :].strip(" #")
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                yield from ((owner + one.id, what, comment) for one, what in pairs if isinstance(one, ast.Name))


def value(package: str, name: str) -> Any:
    """Return the one value that a package gives to a name; ``NAME[0]`` is the first of several."""
    name, _, place = name.rstrip("]").partition("[")
    found = [what for one, what, _ in assigned(package) if one == name]
    if len(found) != 1:
        raise SystemExit(f"{package} sets {name} {len(found)} times; docs/limits.py has to name one constant.")
    number = eval(ast.unparse(found[0]))
    return number[int(place)] if place else number


def fields(package: str, owner: str) -> list[Limit]:
    """Return the numbers that a class holds, in the words of the comments beside them."""
    found = [(name, comment) for name, _, comment in assigned(package) if name.startswith(f"{owner}.")]
    return [Limit(comment, package, name) for name, comment in found]


def written(number: Any) -> str:
    """Return a number as the docs write it."""
    if isinstance(number, tuple):
        return ", ".join(map(written, number))
    if isinstance(number, int) and number >= 1 << 14 and number & (number - 1) == 0:
        return f"{number:,} (2^{number.bit_length() - 1})"
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def table(limits: list[Limit]) -> str:
    """Return the rows of a part."""
    lines = ["| what | value | constant |", "| --- | ---: | --- |"]
    for one in limits:
        number = written(value(one.package, one.name))
        lines.append(f"| {one.words} | {number} | `{one.package}: {one.name}` |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with the tables of today's code."""
    sizes = fields("estimators", "Sizes")
    parts = {"training": TRAINING, "sizes": sizes, "choices": CHOICES, "tables": TABLES}
    for part, limits in parts.items():
        begin, end = f"<!-- {part}: python docs/limits.py writes from here -->", "<!-- to here -->"
        before, mark, rest = text.partition(begin)
        _, last, after = rest.partition(end)
        if not mark or not last:
            raise SystemExit(f"{PAGE} must hold the line {begin} and, below it, {end}.")
        text = f"{before}{begin}\n\n{table(limits)}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Written: {PAGE}")
