"""Notebooks, loggers and figures: what results show of themselves, and what is said where a package is missing."""

import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from thresher import History, NotAvailable, train
from thresher.datasets import random_problem
from thresher.figures import Picture, draw
from thresher.notebook import show_facts, show_table
from thresher.runs import Recorder, read_run, write_run


@pytest.fixture(scope="module")
def result():
    return train(random_problem(inputs=15, dimension=6), width=2000)


class TestShown:
    def test_a_result(self, result):
        page = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>")
        text = " ".join(page.itertext())
        assert "Converged: The residual fell to 1e-06 of its size at the start." in text
        assert "2,000" in text
        rows = page.findall("table")[1].find("tbody").findall("tr")
        assert len(rows) == len(result.history)
        assert rows[1][5].text == f"{result.history[1].looks:,}"

    def test_a_network(self, result):
        assert f"{len(result.network.weights.moved_neurons()):,} neurons" in result.network._repr_html_()

    def test_an_empty_history(self):
        assert "<tbody></tbody>" in History()._repr_html_()

    def test_words_are_escaped(self):
        assert "&lt;b&gt;" in show_facts("<b>", [])
        assert "&lt;b&gt;" in show_table("", ["<b>"], [])


class TestHistory:
    def test_plot_draws_loss_and_line(self, result):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("agg")
        axes = result.history.plot()
        measured, line = axes.get_lines()
        assert measured.get_ydata()[0] == line.get_ydata()[0] == result.history[0].loss
        assert line.get_ydata()[1] == pytest.approx(result.history[0].loss / 4)
        assert result.history.plot(axes) is axes
        matplotlib.pyplot.close(axes.figure)

    def test_to_pandas(self, result):
        pytest.importorskip("pandas", reason="optional")
        frame = result.history.to_pandas()
        assert frame.index.tolist() == list(range(len(result.history)))
        assert frame["loss"].tolist() == [record.loss for record in result.history]
        assert frame["seconds_start"][0] == result.history[0].seconds["start"]

    @pytest.mark.parametrize(
        ("package", "use"),
        [
            ("matplotlib", lambda history: history.plot()),
            ("pandas", lambda history: history.to_pandas()),
            ("matplotlib", lambda history: draw({"one": Picture(lambda axes, _: None, "")}, None)),
        ],
    )
    def test_a_missing_package_is_named_with_its_remedy(self, result, monkeypatch, package, use):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(NotAvailable, match="pip install"):
            use(result.history)


class TestRecorder:
    def test_distances_and_bands(self):
        recorder, options = Recorder(), {"width": 3000, "seed": 4}
        result = train(random_problem(inputs=15, dimension=6), **options, callbacks=[recorder])
        (training,) = recorder.trainings
        assert training.history is result.history
        moved = len(result.network.weights.support.neurons)
        distances = np.array([
            np.linalg.norm(result.network.neuron(int(r)) - start)
            for r, start in zip(
                result.network.weights.support.neurons[:50],
                result.network.weights.start.rows(result.network.weights.support.neurons[:50]),
                strict=True,
            )
        ])  # fmt: skip
        np.testing.assert_allclose(result.network.weights.distances()[:50], distances, rtol=1e-5)
        assert training.histograms["distance"].counts.sum() == moved
        assert training.histograms["band"].counts.sum() == moved
        assert training.histograms["band"].edges[-1] == pytest.approx(1.0)  # whoever left a band has a wider one now

    def test_other_indexes_have_no_bands(self):
        recorder = Recorder()
        train(random_problem(inputs=10, dimension=5), width=500, index="scan", callbacks=[recorder])
        assert set(recorder.trainings[0].histograms) == {"distance"}

    def test_what_is_written_is_read(self, tmp_path):
        recorder, options = Recorder(), {"width": 1000}
        train(random_problem(inputs=10, dimension=5), **options, callbacks=[recorder])
        run = recorder.run("A thousand.", options=options, data={"file": "x"}, command="thresher")
        again = read_run(write_run(run, tmp_path / "run"))
        assert again.options == options
        assert (again.what, again.network, again.environment) == (run.what, run.network, run.environment)
        assert run.environment.keys() >= {"thresher", "numpy", "machine"}
        np.testing.assert_array_equal(again.inputs, run.inputs)
        before, after = run.trainings[0].history, again.trainings[0].history
        assert repr(list(before)) == repr(list(after))  # NaN included
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.thresher"]

    def test_several_outputs(self):
        from thresher import Problem, train_together

        first = random_problem(inputs=10, dimension=5)
        problems = [first, Problem(first.inputs, -2 * first.targets)]
        recorder = Recorder(["one", "two"])
        train_together(problems, width=1000, callbacks=[recorder])
        run = recorder.run("Two.", options={"width": 1000})
        assert [one.name for one in run.trainings] == ["one", "two"]
        np.testing.assert_array_equal(run.targets[1], problems[1].targets)

    def test_nothing_trained(self):
        with pytest.raises(ValueError, match="Pass it to train in callbacks"):
            Recorder().run("", options={})
