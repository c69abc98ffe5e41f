"""thresher train --loss: counts, bounds, and what it refuses."""

import numpy as np
from test_cli import run


def table(path, *, classes=False):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 3))
    y = rng.poisson(np.exp(2 * X[:, 0] + X[:, 1]))
    told = [("many" if one > 3 else "few") if classes else str(one) for one in y]
    lines = [",".join([*(f"{cell:.4f}" for cell in row), one]) for row, one in zip(X, told, strict=True)]
    path.write_text("\n".join(["a,b,c,visits", *lines]))
    return path


def test_counts_and_their_bounds(tmp_path, capsys):
    file, model = table(tmp_path / "visits.csv"), tmp_path / "model"
    code, out, _ = run(capsys, "train", str(file), "--loss", "poisson", "--save", str(model))
    assert (code, "regression (as --loss poisson says" in out) == (0, True)  # few whole numbers are no classes then
    code, out, _ = run(capsys, "predict", str(model), str(file), "--interval", "0.9")
    lines = out.splitlines()
    assert (code, len(lines)) == (0, 121)
    assert all(float(cell).is_integer() for cell in lines[1].split(",")[1:])


def test_what_is_refused(tmp_path, capsys):
    code, _, told = run(capsys, "train", str(table(tmp_path / "classes.csv", classes=True)), "--loss", "huber")
    assert (code, "is for numbers" in told) == (2, True)
    exact = "--loss", "huber", "--width", "256"
    code, _, told = run(capsys, "train", str(table(tmp_path / "visits.csv")), *exact)
    assert (code, "--width trains a network" in told) == (2, True)


def test_bounds_beyond_those_learnt_are_refused(tmp_path, capsys):
    file, model = table(tmp_path / "visits.csv"), tmp_path / "model"
    run(capsys, "train", str(file), "--loss", "quantile", "--save", str(model))
    code, out, _ = run(capsys, "predict", str(model), str(file), "--interval", "0.9")
    assert (code, out.splitlines()[1].count(",")) == (0, 2)
    code, out, told = run(capsys, "predict", str(model), str(file), "--interval", "0.99")
    assert (code, out, "has learnt those from 0.05 to 0.95" in told) == (2, "", True)
