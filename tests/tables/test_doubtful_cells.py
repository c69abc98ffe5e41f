"""Cells that can be read in several ways, or in none: the same way for a row whatever its neighbours are, and said."""

import json
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, TableEncoder, ThresherClassifier, ThresherRegressor
from thresher.tables import read_frame, read_table
from thresher.tables.cells import read_numbers
from thresher.tables.dates import read_dates
from thresher.tables.frame import Reading


def write(folder, text, name="a.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def encoded(folder, text):
    """The encoder of a file, and the numbers it makes."""
    encoder = TableEncoder()
    return encoder, encoder.fit_transform(read_frame(write(folder, text)))


def written(number, sign):
    """A number as a German file has it, or an English one."""
    text = f"{number:,}"
    return text if sign == "." else text.translate(str.maketrans(",.", ".,"))


class TestDecimalSigns:
    def test_thousands_of_a_german_file(self, tmp_path):
        _, made = encoded(tmp_path, "a;b;c\n134,7;3;1.227\n27,4;2;319\n0,5;1;12.000\n")
        np.testing.assert_array_equal(made, [[134.7, 3, 1227], [27.4, 2, 319], [0.5, 1, 12000]])

    @settings(max_examples=examples(50), deadline=None)
    @given(st.lists(st.integers(1, 10**7), min_size=3, max_size=9), st.sampled_from(".,"), st.sampled_from(";\t|"))
    def test_other_columns_tell_the_sign(self, tmp_path_factory, numbers, sign, delimiter):
        rows = [f"{written(k + 0.5, sign)}{delimiter}{written(one, sign)}" for k, one in enumerate(numbers)]
        path = write(tmp_path_factory.mktemp("sign"), "\n".join([f"a{delimiter}b", *rows]))
        table = read_table(path, target="b")
        np.testing.assert_array_equal(table.targets, numbers)

    def test_what_nothing_tells_is_said(self, tmp_path):
        for text, said, first in (
            ("a;b\n1,234;1\n5,678;2\n", "1,234 is read as 1.234.", 1.234),
            ("a;b\n1.234;1\n5.678;2\n", "1.234 is read as 1234.", 1234),
            ("a\tb\n1,234\t1\n5,678\t2\n", "1,234 is read as 1234.", 1234),
            ("a,b\n1.234,1\n5.678,2\n", "1.234 is read as 1.234.", 1.234),
        ):
            encoder, made = encoded(tmp_path, text)
            assert encoder.summary() == [f"Column 'a': nothing tells its decimal sign; {said}"]
            assert made[0, 0] == first
        encoder, _ = encoded(tmp_path, "a,b\n1.234,1.5\n5.678,2\n")
        assert not encoder.summary()

    def test_a_row_is_read_by_its_file_and_not_by_its_neighbours(self, tmp_path):
        encoder, _ = encoded(tmp_path, "a;b\n1,5;1\n2,25;2\n1234,5;3\n")
        german = read_frame(write(tmp_path, "a;b\n1.227;1\n3,5;2\n"))
        english = read_frame(write(tmp_path, "a,b\n1.227,1\n3.5,2\n"))
        for frame, first in ((german, 1227), (english, 1.227)):
            for places in ([0], [0, 1], [1, 0]):
                made = encoder.transform(frame.take(np.array(places)))
                assert made[places.index(0), 0] == first
        alone = pd.DataFrame({"a": ["1.227"], "b": ["1"]})  # no file: as the training rows
        more = pd.DataFrame({"a": ["1.227", "3.5"], "b": ["1", "2"]})
        assert encoder.transform(alone)[0, 0] == encoder.transform(more)[0, 0] == 1227
        assert encoder.unseen(more) == {"a": 1}

    def test_a_german_file_without_a_header(self, tmp_path):
        encoder, made = encoded(tmp_path, "1,23;4,56;10,35\n2,5;3,25;1,5\n")
        np.testing.assert_array_equal(made, [[1.23, 4.56, 10.35], [2.5, 3.25, 1.5]])
        assert encoder.summary() == ["No header found: columns are called column 1, column 2 and so on."]


class TestWordsAmongNumbers:
    def frame(self, words, rows=200):
        cells = [str(k) for k in range(rows)]
        cells[: len(words)] = words
        return pd.DataFrame({"a": cells, "b": np.arange(rows)})

    def test_a_few_are_missing_and_said(self):
        encoder = TableEncoder()
        made = encoder.fit_transform(self.frame(["many", "few", "many"]))
        assert list(encoder.get_feature_names_out()) == ["a", "a missing", "b"]
        np.testing.assert_array_equal(made[:, 1], np.arange(200) < 3)
        assert encoder.summary()[0] == "Cells that are no numbers count as missing: 'many', 'few' in 'a'."
        again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
        new = self.frame(["many", "other", ""], 4)
        np.testing.assert_array_equal(again.transform(new)[:, 1], [1, 1, 1, 0])
        assert again.unseen(new) == {"a": 1}

    def test_many_make_it_text(self):
        encoder = TableEncoder().fit(self.frame(["unknown"] * 20))
        assert encoder.kinds_["a"].kind != "number"

    @settings(max_examples=examples(30), deadline=None)
    @given(st.integers(0, 40), st.integers(0, 2**32 - 1))
    def test_no_split_of_a_file_fails(self, tmp_path_factory, words, seed):
        frame = self.frame(["unknown"] * words)
        frame["d"] = [f"{1 + k % 28:02}.02.2024" for k in range(200)]
        frame.loc[7, "d"] = "soon"
        path = tmp_path_factory.mktemp("split") / "a.csv"
        frame.to_csv(path, index=False)
        table = read_table(path, target="b")
        order = np.random.default_rng(seed).permutation(200)
        kinds = set()
        for train in (order[:30], order[:150], order[50:], order):
            encoder = TableEncoder().fit(table.inputs.take(train))
            assert np.isfinite(encoder.transform(table.inputs)).all()
            kinds.add(encoder.kinds_["a"].kind == "number")
            assert encoder.kinds_["d"].kind == "date"
        assert len(kinds) == 1

    def test_a_target_is_refused(self, tmp_path):
        self.frame(["many"]).to_csv(tmp_path / "a.csv", index=False)
        with pytest.raises(InvalidInput, match="'a': row 1 is 'many'; the target must be numbers"):
            read_table(tmp_path / "a.csv", target="a", missing=True)

    def test_what_is_missing_in_new_rows_alone_is_counted(self):
        frame = pd.DataFrame({"a": [1.0, 2, 4], "d": pd.to_datetime(["2024-01-01", "2024-01-03", "2024-02-01"])})
        encoder = TableEncoder().fit(frame)
        assert encoder.unseen(frame) == {}
        assert encoder.unseen(pd.DataFrame({"a": [None, 1.0], "d": [pd.NaT, pd.NaT]})) == {"a": 1, "d": 2}


class TestWhatIsNoNumberAndNoDate:
    def kind(self, cells):
        rows = 40
        cells = (cells * rows)[:rows]
        return TableEncoder().fit(pd.DataFrame({"a": cells, "b": np.arange(rows)})).kinds_["a"].kind

    @pytest.mark.parametrize(
        "cells",
        [["5'9", "6'1"], ["1 2", "3 4"], ["1_10", "2_10"], ["1,23,4", "1,2"], ["5%", "0.05"], ["1 000'000", "2 000"],
         ["3.11.10", "3.12.1"], ["16-24-80", "10-11-12"], ["01.02.0203", "01.02.0204"], ["99.99.2024", "98.98.2023"],
         ["1/2/2024", "1.2.2024"]],
        ids=str,
    )  # fmt: skip
    def test_they_are_text(self, cells):
        assert self.kind(cells) == "category"

    @pytest.mark.parametrize(
        "cells",
        [["1_000", "2_000"], ["1 000", "12 345 678"], ["1'000.5", "2"], ["5%", "0", "7 %"], ["-1 000", "+5"]],
        ids=str,
    )
    def test_they_are_numbers(self, cells):
        assert self.kind(cells) == "number"

    @given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=6, unique=True), st.sampled_from(".,"))
    def test_negative_numbers_of_accountants_and_typesetters(self, cents, decimal):
        values = [one / 100 for one in cents]
        plain = [f"{one:,.2f}".translate(str.maketrans(",.", ".,") if decimal == "," else {}) for one in values]
        forms = [
            plain,
            [f"({one[1:]})" if one[0] == "-" else one for one in plain],
            [f"(${one[1:]})" if one[0] == "-" else f"${one}" for one in plain],
            [one.replace("-", "\u2212") for one in plain],
        ]
        for cells in forms:
            read = read_numbers(np.array(cells, object), decimal=decimal)
            assert not read.strange.any(), cells
            np.testing.assert_allclose(read.values, values)

    @pytest.mark.parametrize("cells", [["(a)", "(b)"], ["((5))", "(6"], ["(-5)", "(6)(7)"], ["5)", "()"]], ids=str)
    def test_other_parentheses_are_text(self, cells):
        assert self.kind(cells) == "category"

    def test_units_are_named_where_a_column_is_left_out_for_them(self):
        numbers = np.random.default_rng(0).uniform(1, 999, 40)
        for form, unit in (("{:.2f} pcs", "pcs"), ("ABC {:.2f}", "ABC"), ("{:.2f}x2", None), ("No {:.2f}", None)):
            table = pd.DataFrame({"a": [form.format(one) for one in numbers], "b": numbers})
            (line,) = TableEncoder().fit(table).summary()
            assert line.startswith("Left out: 'a' (nearly every row")
            assert (f"; without {unit!r} these are numbers" in line) == (unit is not None) == ("without" in line)

    def test_percents_stay_percents(self):
        encoder = TableEncoder().fit(pd.DataFrame({"a": ["5%", "7%", "0%"], "b": [1, 2, 3]}))
        new = pd.DataFrame({"a": ["5%", "0.05", "0"], "b": [1, 2, 3]})
        np.testing.assert_array_equal(encoder.transform(new)[:, 0], [5, 5, 0])
        assert encoder.unseen(new) == {"a": 1}

    @given(st.datetimes(datetime(1971, 1, 1), datetime(2068, 1, 1)), st.sampled_from([" %p", "%p", "\u202f%p"]))
    def test_hours_of_the_morning_and_the_evening(self, time, half):
        time = time.replace(microsecond=0)
        form = f"%m/%d/%Y %I:%M:%S{half}"
        cells = np.array([time.strftime(form), time.strftime(form).lower()], object)
        read = read_dates(cells, order="mdy")
        assert not read.strange.any()
        assert (read.values == np.datetime64(time)).all()

    def test_hours_that_no_clock_shows(self):
        cells = np.array(["1/2/2024 13:00 PM", "1/2/2024 0:30 AM"], object)
        assert read_dates(cells, order="mdy").strange.all()

    def test_a_few_that_are_no_dates_are_missing(self):
        cells = ["2024-01-01", "2024-01-02"] * 20 + ["2024-02-30"]
        encoder = TableEncoder().fit(pd.DataFrame({"a": cells}))
        assert "no dates count as missing: '2024-02-30' in 'a'" in encoder.summary()[0]
        assert list(encoder.get_feature_names_out())[-1] == "a missing"


ONE = [
    pd.Series([1, 2]), pd.Series([1.0, 2.0]), pd.Series(["1", "2"]), pd.Series(["1.0", "2.0"]),
    pd.Series([1, 2], dtype=object), pd.Series([1.0, "2"], dtype=object), pd.Series([1, 2], dtype="category"),
]  # fmt: skip
TRUTH = [
    pd.Series([True, False]), pd.Series(["True", "False"]), pd.Series(["TRUE", "false"]),
    pd.Series([True, False], dtype=object), pd.Series([True, False], dtype="category"), pd.Series([1, 0]),
]  # fmt: skip


class TestLabels:
    @pytest.mark.parametrize("forms", [ONE, TRUTH], ids=["numbers", "truth"])
    def test_one_label_however_it_is_written(self, forms):
        for learnt in forms:
            encoder = TableEncoder(categorical_features=["a"])
            made = encoder.fit_transform(pd.DataFrame({"a": learnt}))
            assert made.shape == (2, 2)
            for new in forms:
                frame = pd.DataFrame({"a": new})
                np.testing.assert_array_equal(encoder.transform(frame), made)
                assert not encoder.unseen(frame)

    def test_long_whole_numbers_keep_their_digits(self):
        frame = pd.DataFrame({"a": [2**53 + k for k in range(3)]})
        for given_ in (frame, frame.astype(str), frame.astype("category")):
            encoder = TableEncoder(categorical_features=["a"]).fit(given_)
            assert [f"a={2**53 + k}" for k in range(3)] == list(encoder.get_feature_names_out())
            np.testing.assert_array_equal(encoder.transform(frame), np.eye(3))

    def test_text_targets(self, tmp_path):
        table = read_table(write(tmp_path, "a,y\n1,yes\n2,NA\n3,no\n4,n/a\n5,none\n"), missing=True)
        assert table.targets.tolist() == ["yes", "", "no", "", "none"]
        table = read_table(write(tmp_path, "a,y\n1,TRUE\n2,False\n3,false\n4,true\n5,NA\n"), missing=True)
        assert table.targets.tolist() == ["True", "False", "False", "True", ""]
        table = read_table(write(tmp_path, "a,y\n1,+\n2,-\n"), missing=True)
        assert table.targets.tolist() == ["+", "-"]


class TestFiles:
    def test_blank_lines_of_one_column_are_missing_cells(self, tmp_path):
        path = write(tmp_path, "\na\n1\n\n3\n  \n5\n\n\n")
        assert read_frame(path)["a"].values.tolist() == ["1", "", "3", "", "5"]
        assert read_frame(write(tmp_path, "\n1\n\n2\n\n"), how=Reading(header=False))["column 1"].values.tolist() == [
            "",
            "1",
            "",
            "2",
        ]
        assert read_frame(write(tmp_path, "a,b\n1,2\n\n3,4\n\n")).shape == (2, 2)

    def test_another_encoding_is_said(self, tmp_path):
        encoder, _ = encoded(tmp_path, b"a,b\n1,x\n2,y\n" + "3,Köln\n4,Øre\n".encode("latin-1"))
        assert encoder.summary()[0] == "Read as Latin-1, because line 4 is not UTF-8."

    @pytest.mark.parametrize("estimator", [ThresherRegressor(), ThresherClassifier()], ids=["r", "c"])
    @pytest.mark.parametrize("cells", [[[1.0, 2.0], [2.0, 4.0], [3.0, 1.0]], [["x", "y"], ["y", "x"], ["z", "x"]]])
    def test_columns_of_one_name_are_refused_by_estimators(self, estimator, cells):
        with pytest.raises(InvalidInput, match=r"several columns have the same name: a\. Rename all but one"):
            estimator.fit(pd.DataFrame(cells, columns=["a", "a"]), [0, 1, 0])
