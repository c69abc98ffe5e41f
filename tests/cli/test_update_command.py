"""``thresher update``: rows that came later are taken in, and nothing is lost."""

import re
import warnings

import numpy as np
import pytest
from test_cli import run

import thresher
from thresher.runs import read_run

HEAD = "area,town,price"


def rows(n, seed):
    rng = np.random.default_rng(seed)
    area, town = rng.uniform(20, 200, n).round(4), rng.choice(["Arles", "Brugg"], n)
    price = (3 * area + 100 * (town == "Brugg") + 5 * rng.normal(size=n)).round(1)
    return [f"{a},{t},{p}" for a, t, p in zip(area, town, price, strict=True)]


@pytest.fixture
def files(tmp_path, capsys):
    (tmp_path / "first.csv").write_text("\n".join([HEAD, *rows(60, 0)]))
    (tmp_path / "later.csv").write_text("\n".join([HEAD, *rows(20, 1), "50,Arles,"]))
    given = [str(tmp_path / "first.csv"), "--target", "price", "--quiet", "--save", str(tmp_path / "run")]
    assert run(capsys, "train", *given)[0] == 0
    return tmp_path


def test_a_run_takes_rows_in(capsys, files):
    before, model = read_run(files / "run"), thresher.load(files / "run")
    code, out, err = run(capsys, "update", str(files / "run"), str(files / "later.csv"), "--save", str(files / "new"))
    assert code == 0, err
    assert "20 rows taken in, 80 distinct rows now" in out
    assert "On these rows, before they were taken in: R2 0.9" in err
    assert "Left out 1 row without a target." in err
    found, made = read_run(files / "new"), thresher.load(files / "new")
    assert found.data["rows trained on"] == 80
    assert "20 rows of" in found.data["rows taken in later"]
    assert "before rows were taken in later" in found.data["tested"]
    assert found.scores == before.scores
    assert len(found.seen) == 80
    assert len(made.inputs_) == 80
    assert len(thresher.load(files / "run").inputs_) == 60  # as it was
    from thresher.tables.frame import Frame, column_of

    later = [line.split(",") for line in rows(20, 1)]
    X = Frame([column_of("area", np.array([float(a) for a, _, _ in later])),
               column_of("town", np.array([t for _, t, _ in later], object))])  # fmt: skip
    with warnings.catch_warnings(action="ignore"):
        model.partial_fit(X, [float(p) for _, _, p in later])
    np.testing.assert_allclose(made.predict(X), model.predict(X), rtol=1e-9)


def test_again_and_over_itself(capsys, files):
    given = ["update", str(files / "run"), str(files / "later.csv")]
    code, _, err = run(capsys, *given)
    assert code == 2
    assert "would be replaced" in err
    assert run(capsys, *given, "--force")[0] == 0
    code, out, err = run(capsys, *given, "--force")
    assert code == 0
    assert "20 of them have the inputs of rows that the model knew" in err
    assert "80 distinct rows now" in out
    assert read_run(files / "run").data["rows trained on"] == 100


def test_a_saved_estimator(capsys, files):
    model = thresher.load(files / "run")
    model.save(files / "model")
    given = ["update", str(files / "model"), str(files / "later.csv"), "--save", str(files / "other")]
    code, _, err = run(capsys, *given)
    assert code == 2
    assert "no column 'y', with the targets of its rows" in err
    assert run(capsys, *given, "--target", "price")[0] == 0
    assert len(thresher.load(files / "other").inputs_) == 80
    code, _, err = run(capsys, *given, "--target", "price")
    assert code == 2
    assert "is there already" in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("area,town\n50,Arles\n", "no column 'price'"),
        ("area,town,price\n50,Arles,\n", "no row of .* has a target"),
        ("area,town,price\n50,Arles,dear\n", "holds text"),
        ("area,price\n50,3\n", "lacks columns"),
        ("", "empty|no rows|no columns"),
    ],
)
def test_what_it_refuses(capsys, files, text, why):
    (files / "bad.csv").write_text(text)
    code, _, err = run(capsys, "update", str(files / "run"), str(files / "bad.csv"), "--save", str(files / "new"))
    assert code == 2
    assert "Traceback" not in err
    assert re.search(why, err), err
    assert not (files / "new").exists()


@pytest.mark.parametrize(
    "more, why", [(["--loss", "huber"], "fits by squares; got --loss huber"), (["--ridge", "0"], "infinite width")]
)
def test_models_that_take_no_rows(capsys, files, more, why):
    given = ["--target", "price", "--quiet", *more, "--save", str(files / "other")]
    assert run(capsys, "train", str(files / "first.csv"), *given)[0] in (0, 1)
    code, _, err = run(capsys, "update", str(files / "other"), str(files / "later.csv"), "--save", str(files / "new"))
    assert (code, "Traceback" in err) == (2, False)
    assert why in err
    assert not (files / "new").exists()
