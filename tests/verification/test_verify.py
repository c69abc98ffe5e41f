"""`thresher verify`, as a newcomer uses it: the table, the page, the exit status, and files of one's own."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import verification
from pages import Whole, check_layout
from test_cli import README, run
from verification import ladder, page, pictures
from verification.costs import check_growth, check_limit
from verification.ladder import Measured, Report, Row
from verification.pictures import FIGURES

from thresher import Problem
from thresher.datasets import random_problem
from thresher.errors import InvalidInput
from thresher.report.words import say_number
from thresher.shards import Tournament
from thresher.tables import read_table, split_table
from thresher.theory import Statement, firing_probability

pytestmark = pytest.mark.thorough

TINY = ["--widths", "2^8,2^9,2^10"]


@pytest.fixture(scope="module")
def report():
    told = []
    problem = random_problem(inputs=10, dimension=6)
    made = verification.verify(
        problem, unseen=random_problem(inputs=5, dimension=6, seed=1).inputs, widths=[2**10, 2**8, 2**12],
        title="Ten inputs.", tell=lambda *what: told.append(what),
    )  # fmt: skip
    return SimpleNamespace(report=made, told=told)


@pytest.fixture
def quick(monkeypatch):
    """One figure, and few inputs for sketches and solver: they take most of the time."""
    monkeypatch.setattr(page, "FIGURES", {"limit": pictures.FIGURES["limit"]})
    monkeypatch.setattr(ladder, "_FEW", 4)
    monkeypatch.setattr(ladder, "_SMALL", 8)


class TestReport:
    def test_every_part_is_told_of(self, report):
        total = len(report.told) - 1
        assert [done for _, done, _ in report.told] == list(range(total + 1))
        assert report.told[0][0] == "training 2^8 neurons"
        assert report.told[-1] == ("done", total, total)

    def test_every_statement_of_the_list_is_there(self, report):
        labels = {row.shown.label for row in report.report.rows.values()}
        assert labels == {
            "thm:sep", "eq:kernel", "cor:sparse", "lem:sparse_initial", "lem:shifted_initialization_formal",
            "lem:lemma_C.1_in_syz21", "thm:correctness", "thm:neural_network_sparisity", "lem:induction_part2",
            "lem:boundary_of_G", "lem:shifted_small_move_eigenvalue_formal", "thm:running_time_formal",
            "lem:query_correct", "lem:query_time", "lem:update_time", "lem:subspace-embedding",
            "lem:iterative_regression_number_of_iterations", "lem:small-move_formal",
        }  # fmt: skip

    def test_the_page_on_statements_has_them_all(self, report):
        text = (README.parent / "docs" / "verify.md").read_text()
        for name, row in report.report.rows.items():
            assert f"| {name.removesuffix(ladder.HADAMARD)} | `{row.shown.label}` |" in text

    def test_the_start_and_the_steps_are_checked_from_hadamard_rows_too(self, report):
        rows = report.report.rows
        twice = {name.removesuffix(ladder.HADAMARD) for name in rows if name.endswith(ladder.HADAMARD)}
        assert twice == {
            "limit kernel", "firing, at most", "firing, expected", "firing in training", "first outputs",
            "λ at the start", "halving", "drift", "Gram change by drift", "Gram change", "λ in training",
        }  # fmt: skip
        promised = {name for name in twice if rows[name + ladder.HADAMARD].widest.promised}
        assert promised <= {"halving", "drift"}
        for name in ("limit kernel", "firing, expected", "firing, at most", "first outputs"):
            assert rows[name].widest.promised
            assert rows[name + ladder.HADAMARD].where == "everywhere"
            assert rows[name].widest.measured != rows[name + ladder.HADAMARD].widest.measured

    def test_all_that_is_promised_holds(self, report):
        assert report.report.broken == []
        assert any(one.promised for row in report.report.rows.values() for one in row.statements.values())

    def test_the_worst_of_a_training_is_kept(self, report):
        rung = report.report.rungs[0]
        worst = max(record.contraction for record in rung.history[1:])
        assert report.report.rows["halving"].statements[rung.width].measured == worst

    def test_trees_that_miss_a_neuron_fail(self, monkeypatch):
        class Deaf(Tournament):
            def firing(self, threshold):
                return super().firing(threshold + 0.05)

        monkeypatch.setattr(ladder, "Tournament", Deaf)
        made = Report("", random_problem(inputs=10, dimension=6))
        ladder._search(made, 2**10, seed=0)
        assert [one.name for one in made.broken] == ["trees are exact"]

    def test_predictions_approach_the_limit(self, report):
        errors = report.report.limit.values
        assert errors[-1] < errors[0]
        assert report.report.rows["infinite width"].shown.measured == report.report.limit.exponent

    def test_whether_inputs_are_separable_enough_is_said(self, report):
        for halves, words in ((True, "separable enough"), (False, "more neurons than were tried")):
            rungs = [SimpleNamespace(width=one.width, facts=one.facts, halves=halves) for one in report.report.rungs]
            assert words in page.explain(replace(report.report, rungs=rungs))[0]

    def test_visits_are_counted(self, report):
        visits, answers = report.report.visits[2**12]
        assert answers >= report.report.rungs[-1].history[0].firing  # the same start
        assert visits > answers

    def test_the_page_is_whole(self, report, tmp_path):
        html, *figures = verification.write_page(report.report, tmp_path)
        text = html.read_text(encoding="utf-8")
        Whole().check(text)
        assert len(figures) == 8
        assert text.count('role="img" aria-label=') == text.count("<figcaption>") == 8
        for one in figures:
            assert ElementTree.parse(one).getroot().tag.endswith("svg")
        for row in report.report.rows.values():
            assert row.shown.label in text
        assert "http" not in re.sub(
            r'(xmlns(:\w+)?|rdf:\w+)="[^"]*"|<metadata>.*?</metadata>', "", text, flags=re.DOTALL
        )

    def test_no_label_of_a_figure_covers_another(self, report):
        pytest.importorskip("matplotlib", reason="an extra")
        assert check_layout(FIGURES, report.report) == len(FIGURES)

    def test_equal_reports_give_equal_pages(self, report, tmp_path, quick):
        first, second = (verification.write_page(report.report, tmp_path)[0].read_text() for _ in range(2))
        assert first == second

    def test_without_matplotlib_the_table_remains(self, report, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        written = verification.write_page(report.report, tmp_path)
        assert [path.name for path in written] == ["verify.html"]
        assert "pip install" in written[0].read_text()

    def test_without_matplotlib_the_command_says_how_to_get_it(self, capsys, tmp_path, monkeypatch, quick):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        code, out, _ = run(capsys, "verify", "--widths", "2^8", "--output", str(tmp_path))
        assert code == 0
        assert "Figures need matplotlib, which is not installed. Run: pip install 'thresher-ml[plot]'" in out


class TestRow:
    def row(self, *measured, promised=True):
        made = [Statement("name", "label", "Sentence.", value, 1.0, promised=promised) for value in measured]
        return Row(dict(zip((4, 8, 16), made, strict=False)))

    def test_where(self):
        assert self.row(0, 0, 0).where == "everywhere"
        assert self.row(2, 2).where == "nowhere"
        assert self.row(2, 0, 0).where == "from 2^3 on"
        assert self.row(0, 2, 0).where == "2 of 3 widths"

    def test_a_broken_one_is_shown(self):
        assert self.row(2, 0, 0).shown.broken
        assert self.row(2, 0, 0.5, promised=False).shown.measured == 0.5

    def test_the_width_that_was_enough(self):
        def rungs(*halves):
            return [SimpleNamespace(width=2**k, halves=one) for k, one in enumerate(halves)]

        def enough(*halves):
            return Report("", random_problem(inputs=2, dimension=2), rungs=rungs(*halves)).enough

        assert enough(True, True) == 1
        assert enough(True, False, True, True) == 4
        assert enough(True, False) is None

    def test_exponent(self):
        assert Measured([4, 16, 64], [2.0, 4.0, 8.0]).exponent == pytest.approx(0.5)

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ([1e3, 1e2, 0.0], r"nothing was counted at 2\^6 neurons"),
            ([1e3, np.nan, 1.0], r"nothing was counted at 2\^4"),
            ([1.0, 50.0, 2.0], r"± .* the points lie on no line"),
            ([1.0, 2.0], "an exponent needs 3 widths, here are 2"),
        ],
    )
    def test_an_exponent_that_cannot_be_known_is_not_measured(self, values, words):
        found = Measured([4, 16, 64][: len(values)], values)
        assert np.isnan(found.exponent)
        facts = SimpleNamespace(inputs=4, firing=0.01)
        for one in (
            check_growth(found.exponent, what="looks", facts=facts, why_none=found.why_none),
            check_limit(found.exponent, converged=True, why_none=found.why_none),
        ):
            assert (one.verdict, one.broken, one.holds) == ("not measured", False, False)
            assert re.search(f"not measured, .*{words}", one.sentence)
            assert Row({4: one}).where == ""

    def test_numbers(self):
        assert [say_number(value) for value in (0.0, 12.0, 1234.5, 2e9, 0.01234, np.inf)] == [
            "0", "12", "1,234", "2.0e+09", "0.0123", "∞",
        ]  # fmt: skip


class TestPracticalWidth:
    def test_is_enough_for_itself_and_half_is_not(self):
        problem = random_problem(inputs=10, dimension=10)
        width = verification.practical_width(problem)
        facts = [
            ladder.Facts.of(problem, ladder.NetworkSettings.checked(width=one, dimension=10))
            for one in (width // 2, width)
        ]
        assert facts[0].practical_width > width // 2
        assert facts[1].practical_width <= width

    def test_equal_inputs_have_none(self):
        X = random_problem(inputs=4, dimension=3).inputs
        assert verification.practical_width(Problem(X[[0, 1, 1]], np.arange(3.0))) is None


@pytest.mark.usefixtures("quick")
class TestCommand:
    def test_reads_well_and_ends_with_0(self, capsys, tmp_path):
        code, out, _ = run(capsys, "verify", *TINY, "--output", str(tmp_path))
        assert code == 0
        assert "32 random inputs of dimension 20" in out
        assert "1 of " in out
        assert "training 2^8 neurons" in out
        assert "lem:query_correct" in out
        assert re.search(r"The proofs ask for 10\^\d+ neurons, or 10\^\d+ when only δ is known", out)
        assert "Every statement that is promised at these sizes holds." in out
        assert (tmp_path / "verify.html").is_file()

    def test_a_wrong_kernel_ends_with_1(self, capsys, tmp_path, monkeypatch):
        monkeypatch.setattr(
            "thresher.training.theorems.limit_kernel", lambda products, shift: products * firing_probability(shift)
        )
        code, out, _ = run(capsys, "verify", "--widths", "2^12", "--output", str(tmp_path))
        assert code == 1
        assert "FAILS" in out
        assert re.search(r"promised statements? fails?: .*limit kernel", out)

    def test_a_wrong_shift_ends_with_1(self, capsys, tmp_path, monkeypatch):
        original = ladder.train
        monkeypatch.setattr(ladder, "train", lambda *args, **options: original(*args, **{"shift": 1.0, **options}))
        monkeypatch.setattr("thresher.theory.statements.firing_probability", lambda shift: firing_probability(1.2))
        code, out, _ = run(capsys, "verify", "--widths", "2^12", "--output", str(tmp_path))
        assert code == 1
        assert "firing, expected" in out

    def test_on_data_of_ones_own(self, capsys, tmp_path):
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        path = tmp_path / "diabetes.csv"
        np.savetxt(path, np.column_stack([X, y]), delimiter=",")
        code, out, _ = run(
            capsys, "verify", "--data", str(path), "--rows", "30", *TINY, "--output", str(tmp_path / "out")
        )
        assert code == 0
        assert "30 of 442 rows, 10 columns centred and put on the sphere" in out
        assert "δ > 0, holds; but inputs this close need more neurons" in " ".join(out.split())
        flat = " ".join(out.split())
        own, kept = re.search(
            r"rule of thumb, on the safe side, asks for 2\^(\d+) neurons with the paper's shift, which grows .* "
            r"With the shift of 2\^\d+ neurons kept, [\d.]+, it asks for ([\d,]+)\.", flat
        ).groups()  # fmt: skip
        assert 2 ** int(own) >= int(kept.replace(",", ""))

    def test_equal_rows_are_said_to_be(self, capsys, tmp_path):
        path = tmp_path / "equal.csv"
        path.write_text("".join(f"{k % 3},{k % 2},{k}\n" for k in range(20)))
        code, out, _ = run(capsys, "verify", "--data", str(path), "--widths", "2^8", "--output", str(tmp_path / "out"))
        assert code == 0
        assert "equal or opposite" in out
        assert "merge those that are equal" in out

    def test_a_folder_that_cannot_be_made_is_refused_at_once(self, capsys, tmp_path):
        (tmp_path / "file").write_text("")
        code, out, err = run(capsys, "verify", "--output", str(tmp_path / "file"))
        assert (code, out) == (2, "")
        assert re.search(r"file is a file and no folder\. Choose another place with --output", err)

    @pytest.mark.parametrize(
        ("content", "options", "message"),
        [
            (
                None,
                [],
                r"cannot read .*table\.csv: No such file or directory\. Give a CSV or Parquet file",
            ),
            ("", [], r"is empty"),
            ("a,b\n1,2\n", [], r"at least 2 rows; it has 1"),
            ("1\n2\n3\n", [], r"at least 2 columns, inputs and a target; it has 1"),
            ("a,b\n1,2\n3,\n", [], r"column 'b': row 2 is ''; the target must not be missing"),
            ("a,b\n1,2\n3,NA\n", [], r"column 'b': row 2 is 'NA'; the target must not be missing"),
            ("1,2\n3,inf\n", [], r"column 'column 2': row 2 is 'inf'; numbers must be finite"),
            ("a,b\n1,2\n3,4,5\n", [], r"row 2 has 3 cells; expected 2"),
            ("a,b\n1,2\n3,4\n", ["--target", "c"], r"no column 'c', as --target says; there are a, b"),
            ("1,2\n3,4\n5,7\n", [], r"row 2 is the mean of those trained on and has no direction"),
            ("1,2\n3,4\n5,7\n", ["--rows", "1"], r"rows must be at least 2; got 1"),
            ("1,2\n3,4\n5,7\n", ["--widths", "2^8,many"], r"expected a whole number"),
            ("1,2\n3,4\n6,7\n", ["--widths", "1"], r"width must be at least 2; got 1"),
        ],
    )
    def test_bad_files_end_with_one_line_and_code_2(self, capsys, tmp_path, content, options, message):
        path = tmp_path / "table.csv"
        if content is not None:
            path.write_text(content)
        code, _, err = run(capsys, "verify", "--data", str(path), *options, "--output", str(tmp_path / "out"))
        assert code == 2
        assert re.search(message, err)
        assert "Traceback" not in err


def cells(table):
    return [one.values.tolist() for one in table.inputs]


class TestTables:
    def test_header_target_and_delimiters(self, tmp_path):
        for name, text in {"comma": "a,b,c\n1,2,3\n4,5,6\n", "semicolon": "a;b;c\n1;2;3\n4;5;6\n"}.items():
            path = tmp_path / name
            path.write_text(text)
            last, named = read_table(path), read_table(path, target="a")
            assert (last.target, last.targets.tolist(), cells(last)) == ("c", [3, 6], [["1", "4"], ["2", "5"]])
            assert (named.targets.tolist(), cells(named)) == ([1, 4], [["2", "5"], ["3", "6"]])

    def test_no_header(self, tmp_path):
        path = tmp_path / "bare.csv"
        path.write_text("\ufeff1\t2e-1\n\n3\t-4\n", encoding="utf-8")
        assert cells(read_table(path)) == [["1", "3"]]
        assert read_table(path).targets.tolist() == [0.2, -4]

    def test_no_text(self, tmp_path):
        path = tmp_path / "picture.csv"
        path.write_bytes(bytes(range(256)))
        with pytest.raises(InvalidInput, match="not a text file"):
            read_table(path)

    def test_split(self, tmp_path):
        path = tmp_path / "table.csv"
        rows = np.random.default_rng(0).normal(size=(50, 4))
        path.write_text("\n".join(",".join(map(str, row)) for row in rows))
        split = split_table(read_table(path), rows=30)
        assert (split.train.size, split.test.size) == (30, 20)
        assert split.train.targets.mean() == pytest.approx(0)
        assert split.train.targets.std() == pytest.approx(1)
        assert split_table(read_table(path), rows=1000).train.size == 40


def test_a_plain_installation_says_where_the_verification_is(capsys, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'verification'", name="verification")

    monkeypatch.setattr(import_module("thresher.cli.bench"), "import_module", missing)
    code, _, err = run(capsys, "verify")
    assert code == 2
    assert err.startswith("Error: the folder verification is not part of the installed package. Run thresher from a")
