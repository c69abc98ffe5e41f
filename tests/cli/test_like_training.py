"""``thresher predict`` reads a file as that of the training rows was read, says where it is another, or is told."""

import contextlib
import csv
import io
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from learnable import SMALL
from test_cli import run

import thresher
from thresher.cli import commands
from thresher.files import read_file, write_file
from thresher.tables import read_table
from thresher.tables.frame import Reading
from thresher.tables.text_files import restore_reading
from thresher.training.result_files import VERSION

ROWS = 60
TOWNS = ("Köln", "Besançon", "Łódź")


def cells_of(*, decimal, seed=0, whole=False):
    """A column of numbers, one of towns, one of dates and the target, as text; rows (ROWS, 4)."""
    rng = np.random.default_rng(seed)
    a, town = rng.normal(size=ROWS) * 3, rng.integers(3, size=ROWS)
    y = 2 * a + town
    said = [f"{round(one)}" if whole else f"{one:.3f}".replace(".", decimal) for one in a]
    return [
        [said[k], TOWNS[town[k]], f"2024-01-{1 + k % 28:02}", f"{y[k]:.4f}".replace(".", decimal)] for k in range(ROWS)
    ]


def text_of(rows, *, delimiter=",", header=True):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerows([["size", "town", "day", "price"], *rows] if header else rows)
    return stream.getvalue()


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train on a file, once for each way of writing it; return the folder of the run."""
    place, made = tmp_path_factory.mktemp("like"), {}

    def train(delimiter=",", decimal=".", encoding="utf-8", header=True, more=()):
        key = (delimiter, decimal, encoding, header, more)
        if key not in made:
            file = write(
                place / f"{len(made)}.csv",
                text_of(cells_of(decimal=decimal), delimiter=delimiter, header=header),
                encoding,
            )
            given = ["train", file, *SMALL, "--quiet", "--save", str(place / f"run {len(made)}"), *more]
            with contextlib.redirect_stdout(io.StringIO()):
                commands.main(given, standalone_mode=False, obj=given)
            made[key] = str(place / f"run {len(made)}")
        return made[key]

    return train


WAYS = [(",", "."), (",", ","), (";", ","), (";", "."), ("\t", ","), ("|", ".")]


@pytest.mark.parametrize(("delimiter", "decimal"), WAYS)
def test_one_row_that_tells_nothing_is_read_as_the_training_rows(capsys, trained, tmp_path, delimiter, decimal):
    """1.234 and 1,234 mean what they mean in the training file, though nothing in the new one tells."""
    folder = trained(delimiter, decimal)
    saved = thresher.load(folder)
    assert saved.encoder_.reading_ == Reading(True, delimiter, decimal, "utf-8")
    for cell, value in ((f"1{decimal}234", 1.234), (f"1{'.' if decimal == ',' else ','}234", 1234.0)):
        file = write(tmp_path / "new.csv", text_of([[cell, "Köln", "2024-01-03", ""]], delimiter=delimiter))
        code, out, err = run(capsys, "predict", folder, file, "--digits", "full")
        assert code == 0, err
        expected = saved.predict(frame_of(value))
        np.testing.assert_allclose(float(out.splitlines()[1]), expected[0], rtol=1e-9)


def frame_of(size):
    return pd.DataFrame({"size": [size], "town": ["Köln"], "day": ["2024-01-03"]})


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations([(",", "."), (";", ","), ("\t", ".")], 2)))
def test_another_delimiter_is_refused_and_can_be_chosen(capsys, trained, tmp_path, old, new):
    folder, names = trained(*old), {",": "commas", ";": "semicolons", "\t": "tabs"}
    file = write(tmp_path / "new.csv", text_of(cells_of(decimal=new[1], seed=1), delimiter=new[0]))
    like = write(tmp_path / "like.csv", text_of(cells_of(decimal=old[1], seed=1), delimiter=old[0]))
    code, out, err = run(capsys, "predict", folder, file)
    option = "tab" if new[0] == "\t" else new[0]
    assert (code, out) == (2, "")
    assert f"parted by {names[new[0]]}; expected {names[old[0]]}, as in the file" in err
    assert f"--delimiter {option!r}" in err or "--delimiter tab" in err
    code, out, err = run(capsys, "predict", folder, file, "--delimiter", option)
    if old[1] != new[1]:
        assert code == 2
        assert f"expected decimal {'commas' if old[1] == ',' else 'points'}" in err and f"Add --decimal {new[1]}" in err
        code, out, err = run(capsys, "predict", folder, file, "--delimiter", option, "--decimal", new[1])
    assert code == 0, err
    assert out == run(capsys, "predict", folder, like)[1]


def test_whole_numbers_do_not_bind_the_decimal_sign(capsys, tmp_path):
    rows = [[one[0], one[1], one[2], str(k)] for k, one in enumerate(cells_of(decimal=".", whole=True))]
    file, folder = write(tmp_path / "t.csv", text_of(rows, delimiter=";")), str(tmp_path / "run")
    assert run(capsys, "train", file, *SMALL, "--save", folder)[0] == 0
    assert thresher.load(folder).encoder_.reading_.decimal is None
    for cell in ("2.5", "2,5"):
        new = write(tmp_path / "new.csv", text_of([[cell, "Köln", "2024-01-03", ""]], delimiter=";"))
        code, out, err = run(capsys, "predict", folder, new, "--digits", "full")
        assert code == 0, err
        np.testing.assert_allclose(float(out.splitlines()[1]), thresher.load(folder).predict(frame_of(2.5))[0])


class TestHeaders:
    def test_none_in_training_and_none_in_one_new_row(self, capsys, trained, tmp_path):
        named, bare = trained(), trained(header=False, more=("--no-header",))
        row = [["1.5", "Köln", "2024-01-03", ""]]
        _, expected, _ = run(capsys, "predict", named, write(tmp_path / "a.csv", text_of(row)))
        code, out, err = run(capsys, "predict", bare, write(tmp_path / "b.csv", text_of(row, header=False)))
        assert (code, out) == (0, expected), err

    def test_names_where_there_were_none(self, capsys, trained, tmp_path):
        bare = trained(header=False, more=("--no-header",))
        file = write(tmp_path / "a.csv", text_of(cells_of(decimal=".", seed=1)))
        code, _, err = run(capsys, "predict", bare, file)
        assert code == 2
        assert "first line is 'size', 'town', 'day', which look like names" in err
        assert "Add --no-header to predict that line too, or remove it" in err
        code, out, err = run(capsys, "predict", bare, file, "--no-header")
        assert (code, len(out.splitlines())) == (0, 2 + ROWS), err
        assert "Column 'column 1': 1 of 61 rows have no number that can be read" in err

    def test_no_names_where_there_were_some(self, capsys, trained, tmp_path):
        rows = [[one[0], "7", one[2], one[3]] for one in cells_of(decimal=".", seed=1)]
        rows = [["1", "2", "3", "4"], *rows]
        file = write(tmp_path / "a.csv", text_of(rows, header=False))
        code, out, err = run(capsys, "predict", trained(), file)
        assert (code, out) == (2, "")
        assert "first line is '1', '2', '3'; expected names of columns" in err and "Add --no-header" in err
        code, out, _ = run(capsys, "predict", trained(), file, "--no-header")
        assert (code, len(out.splitlines())) == (0, 2 + ROWS)

    def test_names_that_come_again_or_are_numbers_are_names(self, capsys, tmp_path):
        rows = [["2019", "kind", "y"], *([f"{k / 7:.3f}", "kind" if k % 2 else "other", f"{k}.5"] for k in range(ROWS))]
        text = "\n".join(map(",".join, rows))
        file, folder = write(tmp_path / "t.csv", text), str(tmp_path / "run")
        assert run(capsys, "train", file, *SMALL, "--header", "--save", folder)[0] == 0
        code, out, err = run(capsys, "predict", folder, file)
        assert (code, len(out.splitlines())) == (0, 1 + ROWS), err


class TestEncodings:
    def test_the_one_that_was_chosen_is_kept(self, capsys, trained, tmp_path):
        folder = trained(";", ",", "iso8859-16", more=("--encoding", "iso8859-16"))
        text = text_of(cells_of(decimal=",", seed=1), delimiter=";")
        files = [write(tmp_path / f"{name}.csv", text, name) for name in ("iso8859-16", "utf-16", "utf-8-sig")]
        found = [run(capsys, "predict", folder, file) for file in files]
        assert [code for code, _, _ in found] == [0, 0, 0], found
        assert len({out for _, out, _ in found}) == 1
        assert not any("no training row has" in err for _, _, err in found)

    def test_another_is_refused_by_line_or_can_be_chosen(self, capsys, trained, tmp_path):
        folder = trained()
        file = write(tmp_path / "a.csv", text_of(cells_of(decimal=".", seed=1)), "utf-16-le")
        code, _, err = run(capsys, "predict", folder, file)
        assert code == 2 and "not a text file" in err
        code, out, err = run(capsys, "predict", folder, file, "--encoding", "utf-16-le")
        assert code == 0, err
        assert (
            out == run(capsys, "predict", folder, write(tmp_path / "b.csv", text_of(cells_of(decimal=".", seed=1))))[1]
        )
        code, _, err = run(capsys, "predict", folder, file, "--encoding", "ascii")
        assert code == 2 and ("is not text in ascii" in err or "not a text file" in err)

    def test_a_guess_is_said(self, capsys, trained, tmp_path):
        text = text_of([one for one in cells_of(decimal=".", seed=1) if one[1] != "Łódź"])
        code, _, err = run(capsys, "predict", trained(), write(tmp_path / "a.csv", text, "latin-1"))
        assert code == 0
        assert "is not UTF-8" in err and "no training row has" not in err


@pytest.mark.parametrize("order", ["%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d"])
def test_dates_that_plainly_have_another_order_are_refused(capsys, tmp_path, order):
    orders = {"%d.%m.%Y": "day", "%m/%d/%Y": "month", "%Y-%m-%d": "year"}
    days = pd.Series(pd.date_range("2024-01-01", periods=ROWS))
    rows = [f"{day},{k}.5" for k, day in enumerate(days.dt.strftime(order))]
    file, folder = write(tmp_path / "t.csv", "\n".join(["day,y", *rows])), str(tmp_path / "run")
    assert run(capsys, "train", file, *SMALL, "--save", folder)[0] == 0
    expected = run(capsys, "predict", folder, file)[1]
    for other, first in orders.items():
        new = write(tmp_path / "new.csv", "\n".join(["day", *days.dt.strftime(other)]))
        code, out, err = run(capsys, "predict", folder, new)
        if first in ("year", orders[order]):  # a year of four digits at the beginning can be read at any time
            assert (code, out) == (0, expected), err
            continue
        assert (code, out) == (2, "")
        assert f"with the {first} first; expected the {orders[order]} first" in err and "Write dates as" in err


@pytest.mark.parametrize(
    "given", [("--delimiter", "ab"), ("--delimiter", "1"), ("--encoding", "klingon"), ("--decimal", "x")]
)
def test_options_that_cannot_be(capsys, trained, tmp_path, given):
    code, _, err = run(capsys, "predict", trained(), "nothing.csv", *given)
    assert code == 2
    assert given[0] in err and "Traceback" not in err


def test_a_reading_that_cannot_be_is_refused(trained, tmp_path):
    folder = Path(trained(";", ","))
    stored = read_file(folder / "model.thresher", kind="model", version=VERSION)
    assert stored.metadata["reading"] == {"header": True, "delimiter": ";", "decimal": ",", "encoding": "utf-8"}
    for bad in ({"header": 3}, {"delimiter": "ab"}, {"decimal": "x"}, {"encoding": "rot13"}, {"colour": "red"}, [1]):
        write_file(tmp_path / "b", stored.tensors, {**stored.metadata, "reading": bad}, kind="model", version=VERSION)
        with pytest.raises(thresher.InvalidInput, match="does not describe a model"):
            thresher.load(tmp_path / "b")


def test_a_reading_comes_back(tmp_path):
    file = tmp_path / "t.csv"
    write(file, text_of(cells_of(decimal=","), delimiter=";"))
    reading = read_table(file).inputs.reading
    assert restore_reading(reading._asdict()) == reading == Reading(True, ";", ",", "utf-8")
