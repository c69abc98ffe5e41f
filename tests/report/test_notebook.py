"""Notebooks, loggers and figures: what results show of themselves, and what is said where a package is missing."""

import sys
from xml.etree import ElementTree

import pytest

from thresher import History, NotAvailable, train
from thresher.datasets import random_problem
from thresher.figures import Picture, draw
from thresher.notebook import show_facts, show_table


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
