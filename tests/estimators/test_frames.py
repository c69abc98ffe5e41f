"""Estimators of tables with anything in them: fit, predict, save and load, from frames, arrays and files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thresher
from thresher import InvalidInput, TableEncoder, ThresherClassifier, ThresherRegressor
from thresher.cli import commands
from thresher.tables import read_table

FIXED = {"random_state": 0, "bias": 1.0, "ridge": 0.1, "feature_learning": 0}


def make_frame(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "none"], n),
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.integers(1, 90, n)),
            "sold": pd.date_range("2020-01-01", periods=n, freq="9D"),
            "city": [f"city {k}" for k in rng.integers(40, size=n)],
            "garden": rng.random(n) < 0.5,
        }
    )
    return frame, frame.area + 2 * (frame.colour == "red") + frame.age.isna() + rng.normal(size=n) / 10


@pytest.fixture(scope="module")
def fitted():
    frame, y = make_frame()
    return ThresherRegressor(**FIXED).fit(frame, y), frame, y


def test_mixed_frames_are_fitted_and_predicted_by_name(fitted):
    model, frame, y = fitted
    assert model.score(frame, y) > 0.8
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    expected = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame[frame.columns[::-1]]), expected)
    np.testing.assert_array_equal(model.predict(pl.from_pandas(frame)), expected)
    np.testing.assert_array_equal(clone(model).fit(pl.from_pandas(frame), y).predict(frame), expected)
    with pytest.raises(InvalidInput, match="it lacks age, and it has also years"):
        model.predict(frame.rename(columns={"age": "years"}))
    strange = frame.assign(colour="mauve", city=None, age=None)
    assert np.isfinite(model.predict(strange)).all()


def test_what_is_fitted_is_what_the_encoder_makes(fitted):
    model, frame, y = fitted
    rows = TableEncoder(task="regression").fit_transform(frame, y)
    bare = ThresherRegressor(**FIXED).fit(rows, y)
    np.testing.assert_array_equal(bare.model_.inputs, model.model_.inputs)
    np.testing.assert_array_equal(bare.predict(model.encoder_.transform(frame)), model.predict(frame))


def test_plain_numbers_go_as_they_always_went(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 3))
    monkeypatch.setattr("thresher.estimators.data.rows.TableEncoder", None)  # not even looked at
    expected = ThresherRegressor(**FIXED).fit(X, X[:, 0]).predict(X)
    for table in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc")), X.tolist()):
        model = ThresherRegressor(**FIXED).fit(table, X[:, 0])
        assert model.encoder_ is None
        np.testing.assert_array_equal(model.predict(table), expected)


def test_missing_numbers_of_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[rng.random(80) < 0.3, 1] = np.nan
    y = np.isnan(X[:, 1]) + 0.0
    model = ThresherRegressor(**FIXED).fit(X, y)
    assert model.score(X, y) > 0.9
    from scipy import sparse

    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), model.predict(X))
    np.testing.assert_array_equal(model.predict(np.array(X, object)), model.predict(X))
    whole = ThresherRegressor(**FIXED).fit(X[:, [0, 2]], y)
    with pytest.raises(InvalidInput, match="contains NaN, and no training row did"):
        whole.predict([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="infinity"):
        model.predict([[np.inf, 1.0, 1.0]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_what_is_no_number_is_refused_by_its_column(make):
    cells = {"a": [1.0, 2.0, 4.0], "b": [3.0, 3.5, 3.0]}
    model = ThresherRegressor(**FIXED).fit(make(cells), [1.0, 2.0, 3.0])
    for strange, message in [
        (["x", "2", "z"], "column 'b': row 1 is 'x', row 3 is 'z'; expected numbers"),
        (np.arange(3).astype("M8[us]").tolist(), "column 'b' holds times; expected numbers"),
        ([1.0, np.inf, 2.0], "column 'b': row 2 is 'inf'; numbers must be finite"),
        ([1.0, np.nan, 2.0], "row 1 of X, column 'b', contains NaN, and no training row did"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            model.predict(make(cells | {"b": strange}))
    with pytest.raises(InvalidInput, match="column 'b': row 2 is 'inf'; numbers must be finite"):
        ThresherRegressor(**FIXED).fit(make(cells | {"b": [1.0, np.inf, 2.0]}), [1.0, 2.0, 3.0])


def test_rows_of_weight_zero_teach_nothing():
    frame, y = make_frame()
    weights = np.ones(120)
    weights[::4] = 0
    strange = frame.copy()
    strange.loc[weights == 0, "colour"] = [f"other {k}" for k in range(30)]
    model = ThresherRegressor(**FIXED).fit(strange, y, sample_weight=weights)
    kept = ThresherRegressor(**FIXED).fit(frame[weights > 0], y[weights > 0])
    assert model.encoder_.to_json() == kept.encoder_.to_json()
    np.testing.assert_array_equal(model.predict(frame), kept.predict(frame))


def test_each_fold_of_a_cross_validation_has_its_own_encoder():
    frame, y = make_frame()
    assert cross_val_score(ThresherRegressor(**FIXED), frame, y, cv=3).min() > 0.5
    pipeline = make_pipeline(TableEncoder(), StandardScaler(), ThresherRegressor(**FIXED))
    assert cross_val_score(pipeline, frame, y, cv=3).min() > 0.5


def test_numbers_that_are_names():
    X = np.random.default_rng(0).integers(5, size=(60, 2)).astype(float)
    y = np.array([3.0, -1, 4, -1, 5])[X[:, 0].astype(int)]
    model = ThresherRegressor(categorical_features=[0], **FIXED).fit(X, y)
    assert list(model.encoder_.get_feature_names_out()) == [*(f"x0={k}" for k in range(5)), "x1"]
    assert model.score(X, y) > 0.9


def test_files_keep_the_encoder(fitted, tmp_path):
    model, frame, _ = fitted
    model.save(tmp_path / "model")
    loaded = thresher.load(tmp_path / "model")
    assert loaded.encoder_.to_json() == model.encoder_.to_json()
    strange = frame.assign(colour="mauve", city=None, age=None)
    for table in (frame, strange):
        np.testing.assert_array_equal(loaded.predict(table, return_std=True), model.predict(table, return_std=True))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_file_of_missing_numbers_has_no_names(tmp_path):
    X = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, 5.0], [0.5, 1.0]])
    model = ThresherClassifier(**FIXED, categorical_features=[1]).fit(X, list("abab"))
    model.save(tmp_path / "model")
    loaded = thresher.load(tmp_path / "model")
    assert not hasattr(loaded, "feature_names_in_")
    assert loaded.get_params()["categorical_features"] == [1]
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_what_the_command_line_saves_python_opens_and_the_other_way_round(tmp_path, capsys):
    frame, y = make_frame()
    labels = np.where(y > y.median(), "dear", "cheap")
    frame.assign(price=labels).to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    given = ["--parts", "all"]
    run = tmp_path / "run"
    commands.main(["train", str(tmp_path / "a.csv"), *given, "--save", str(run), "--quiet"], standalone_mode=False)
    model = thresher.load(run)
    assert isinstance(model, ThresherClassifier)
    found = model.predict(frame)
    assert (found == labels).mean() > 0.8
    table = read_table(tmp_path / "a.csv")
    np.testing.assert_array_equal(model.predict(table.inputs), found)
    model.save(tmp_path / "model")
    outputs = []
    for place in (run, tmp_path / "model"):
        given = ["predict", str(place), str(tmp_path / "a.csv"), "--output", str(tmp_path / "p.csv"), "--force"]
        commands.main(given, standalone_mode=False)
        outputs.append((tmp_path / "p.csv").read_text().split()[1:])
    assert outputs[0] == outputs[1] == found.tolist()


def test_errors_left_out_are_those_of_new_rows_whatever_a_category_means():
    """Means of a category without meaning must not look like knowledge."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "city": [f"c{k}" for k in rng.integers(150, size=600)]})
    y = frame.x + rng.normal(size=600)
    model = ThresherRegressor().fit(frame[:300], y[:300])
    new = ((model.predict(frame[300:]) - y[300:]) ** 2).mean() / y[:300].var()
    assert 0.8 < model.loo_error_ / new < 1.25


class TestLikeTheCommandLine:
    """What one of the two reads or says, the other does not pass over in silence."""

    @pytest.fixture
    def rows(self):
        X = np.random.default_rng(0).normal(size=(40, 3))
        return X, np.round(3000 + 1000 * X[:, 0])

    @pytest.mark.parametrize("given", ["list", "array", "series", "two"])
    def test_targets_with_thousands_are_read(self, rows, given):
        X, y = rows
        text = [f"{one:,.0f}" for one in y]
        assert "," in text[0]
        told = {"list": text, "array": np.array(text), "series": pd.Series(text), "two": np.array([text, text]).T}
        expected = ThresherRegressor(**FIXED).fit(X, np.column_stack([y, y]) if given == "two" else y).predict(X)
        np.testing.assert_array_equal(ThresherRegressor(**FIXED).fit(X, told[given]).predict(X), expected)

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            (["red", "green"], "y is text, such as 'red'; expected numbers. For classes use ThresherClassifier"),
            (["2024-01-03", "2024-02-01"], "holds dates"),
            (["1,200", ""], "must not be missing"),
        ],
    )
    def test_other_text_is_refused_in_plain_words(self, rows, cells, message):
        with pytest.raises(InvalidInput, match=message):
            ThresherRegressor(**FIXED).fit(rows[0], cells * 20)

    def test_a_model_of_rows_without_names_has_none(self, rows, tmp_path, monkeypatch, capsys):
        X, y = rows
        monkeypatch.chdir(tmp_path)
        np.savetxt("X.csv", np.column_stack([X, y]), delimiter=",")
        small = ["--parts", "all"]
        commands.main(["train", "X.csv", *small, "--save", "run"], standalone_mode=False)
        capsys.readouterr()
        model = thresher.load("run")
        assert not hasattr(model, "feature_names_in_")
        answers = model.predict(X)  # a warning would be an error here
        commands.main(["predict", "run", "X.csv", "--digits", "full"], standalone_mode=False)
        printed = capsys.readouterr().out.splitlines()[1:]
        np.testing.assert_allclose(np.array(printed, float), answers)

    def test_columns_that_are_left_out_are_named(self, rows, tmp_path, monkeypatch, capsys):
        X, y = rows
        monkeypatch.chdir(tmp_path)
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
        frame.to_csv("t.csv", index=False)
        frame[["c", "b", "a"]].assign(number=7, colour="red").to_csv("more.csv", index=False)
        small = ["--parts", "all"]
        commands.main(["train", "t.csv", *small, "--save", "run"], standalone_mode=False)
        capsys.readouterr()
        commands.main(["predict", "run", "t.csv"], standalone_mode=False)
        assert "Left out" not in capsys.readouterr().err
        commands.main(["predict", "run", "more.csv", "--digits", "full"], standalone_mode=False)
        printed = capsys.readouterr()
        assert "Left out, since the model was not trained on them: number, colour." in printed.err
        model = thresher.load("run")
        np.testing.assert_allclose(np.array(printed.out.splitlines()[1:], float), model.predict(frame[["a", "b", "c"]]))
        with pytest.raises(InvalidInput, match=r"it has also y. Leave them out: X\[model.feature_names_in_\]"):
            model.predict(frame)
        assert len(model.predict(frame[model.feature_names_in_])) == len(y)
