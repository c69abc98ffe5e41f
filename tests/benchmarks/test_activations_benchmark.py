"""The benchmark of activations runs, and chooses nothing by test rows."""

import numpy as np
from benchmarks.activations import accuracy, looks


def table(seed=0, *, classes=False):
    rng = np.random.default_rng(seed)
    rows, test = rng.normal(size=(60, 3)), np.arange(60) % 4 == 3
    targets = (rows[:, 0] > 0).astype(int) if classes else np.abs(rows[:, 0])
    return accuracy.Table.of(rows, targets, test)


def test_looks_are_counted_at_each_width():
    rows = [looks.measure(name, width, inputs=4, dimension=5) for name in ("relu", "hat") for width in (256, 512)]
    fitted = looks.exponents(rows)
    assert set(fitted) == {"relu", "hat"}
    text = looks.sheet(rows, fitted).markdown()
    assert "| hat |" in text and "exponent" in text


def test_scores_of_classes_and_of_numbers():
    for one in (table(), table(classes=True)):
        assert one.score(one.Y[one.test]) == 1.0
        found = accuracy.measure(one, "hat", width=256)
        assert found["limit"] > 0.6 and np.isfinite(found["network"])
    assert "three" in accuracy.sheet([{"table": "three", "rows": 9, "classes": True, **found}]).markdown()


def test_test_rows_choose_nothing():
    one = table()
    other = one._replace(Y=np.where(one.test[:, None], 100 * one.Y, one.Y))
    assert accuracy.choose(one, "hat", width=64) == accuracy.choose(other, "hat", width=64)
    first, second = (accuracy.measure(part, "hat", width=64) for part in (one, other))
    assert {k: first[k] for k in first if "penalty" in k} == {k: second[k] for k in second if "penalty" in k}
