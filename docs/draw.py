"""Draws the figures of the docs from real runs: ``python docs/draw.py`` (a few minutes), or ``make pictures``.

The benchmarks and the verification draw their own figures; see benchmarks.md and verify.md.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from draw_hadamard import draw_butterfly, draw_rotations, multiply

from thresher import History, Problem, train
from thresher.cli import commands
from thresher.datasets import digits, random_problem
from thresher.figures import BLUE, GREEN, INK, ORANGE, PAPER, PINK, SKY, Drawn, Picture, draw, figure_style, follow
from thresher.report import read_run
from thresher.report.pictures import TRAINING, Course, model_pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent / "figures"
STYLE: dict[str, Any] = {"background": PAPER, "size": (6.4, 3.8)}
WITH_FIGURES = ("effects", "example_churn", "example_houses", "example_counts", "example_images", "example_million")
WIDTH, ROWS = 2**16, 1000  # of the pictures of the idea
LADDER, INPUTS, DIMENSION = [2**k for k in range(12, 21, 2)], 200, 50  # of the picture of the claim


class Story(NamedTuple):
    """One real training on digits, and the states of one of its neurons."""

    shift: float
    width: int
    pairs: int
    preactivations: np.ndarray[Any, Any]  # a sample, at the start
    history: History
    margins: np.ndarray[Any, Any]  # of one neuron, after the first step, to all inputs, ascending
    drifts: list[float]  # of that neuron since then, after the second, third, ... step


def tell_story() -> Story:
    """Train on digits and follow a neuron that fires on some inputs."""
    problem = digits(rows=ROWS).train
    result = train(problem, width=WIDTH)
    steps = len(result.history) - 1
    start = train(problem, width=WIDTH, max_iterations=0).network
    vectors = start.weights.vectors(np.arange(0, WIDTH, 64))
    stages = [train(problem, width=WIDTH, max_iterations=t).network for t in range(1, steps + 1)]
    shift = start.shift
    for neuron in stages[0].weights.support.neurons:
        path = [one.neuron(int(neuron)) for one in stages]
        margins = np.sort(np.abs(problem.inputs @ path[0] - shift))
        travelled = np.cumsum([np.linalg.norm(b - a) for a, b in pairwise(path)])
        if 3 <= np.sum(margins < travelled[-1]) <= 8:
            break
    sample = (vectors @ problem.inputs.T).ravel()
    return Story(shift, WIDTH, WIDTH * ROWS, sample, result.history, margins, [float(one) for one in travelled])


def draw_fires(axes: Axes, story: Story) -> None:
    values = story.preactivations
    counts, edges = np.histogram(values, bins=np.linspace(-4, 5, 181))
    axes.stairs(counts / counts.max(), edges, fill=True, color=SKY, label="pairs of a neuron and an input")
    right = edges[:-1] >= story.shift
    firing = np.append(edges[:-1][right], edges[-1])
    axes.stairs(counts[right] / counts.max(), firing, fill=True, color=ORANGE,
                label=f"those that fire: {np.mean(values >= story.shift):.1%}")  # fmt: skip
    axes.axvline(story.shift, color=INK, linestyle="--")
    axes.annotate(f"shift b = {story.shift:.2f}", (story.shift, 0.8), (8, 0), textcoords="offset points", color=INK)
    axes.set(xlabel="pre-activation ⟨w, x⟩ at the start", yticks=[], xlim=(-4, 5))


def draw_flips(axes: Axes, story: Story) -> None:
    steps = story.history[2:]  # the first one is taken inside the start scan
    places = np.arange(len(steps))
    series = (
        ("all pairs: a dense step looks at each", [story.pairs] * len(steps), PINK),
        ("pairs that fire", [one.firing for one in steps], BLUE),
        ("pairs that are looked at", [one.looks for one in steps], SKY),
        ("pairs that flip", [one.flips for one in steps], ORANGE),
    )
    for k, (label, values, colour) in enumerate(series):
        axes.bar(places + 0.2 * (k - 1.5), np.maximum(values, 0.8), 0.2, color=colour, label=label)
    axes.set(yscale="log", xlabel="iteration", ylim=(0.8, story.pairs * 2), xticks=places)
    axes.set_xticklabels([str(one.iteration) for one in steps])


def draw_expiry(axes: Axes, story: Story) -> None:
    shown = story.margins[:24]
    end = story.drifts[-1]
    colours = [ORANGE if margin < end else SKY for margin in shown]
    axes.barh(np.arange(len(shown)), shown, color=colours, height=0.7)
    for t, drift in enumerate(story.drifts, start=2):
        close = t > 3 and drift - story.drifts[t - 3] < 0.05 * shown[-1]
        axes.axvline(drift, color=INK, linestyle="--", linewidth=1)
        if not close:
            axes.annotate(f"after step {t}", (drift, 3), (3, 0), textcoords="offset points", fontsize=8,
                          color=INK, rotation=90, va="center")  # fmt: skip
    axes.plot([], [], color=ORANGE, linewidth=6, label="expired: looked at")
    axes.plot([], [], color=SKY, linewidth=6, label="not expired: cannot have flipped, not looked at")
    axes.plot([], [], color=INK, linestyle="--", label="how far the neuron has travelled")
    axes.set(
        xlabel="distance from the threshold when last seen = expiry date", ylabel="inputs of one neuron", yticks=[]
    )


PLANE, THRESHOLD = 700, 1.2  # rows and shift of a picture in two dimensions


def draw_drawn(axes: Axes, _: None) -> None:
    rows = np.random.default_rng(0).normal(size=(PLANE, 2))
    angles = np.radians([75, 15, -55])
    inputs = np.column_stack([np.cos(angles), np.sin(angles)])
    fires = rows @ inputs.T >= THRESHOLD
    first = np.where(fires.any(axis=1), fires.argmax(axis=1), -1)
    label = f"fires on no input: not drawn ({np.mean(first < 0):.0%})"
    axes.scatter(*rows[first < 0].T, s=4, color=SKY, alpha=0.5, label=label)
    for i, (colour, x) in enumerate(zip((ORANGE, GREEN, PINK), inputs, strict=True)):
        axes.scatter(*rows[first == i].T, s=9, color=colour, label=f"drawn at input {i + 1}")
        along = np.linspace(-6, 6, 2)[:, None] * np.array([-x[1], x[0]])
        axes.plot(*(THRESHOLD * x + along).T, color=colour, linestyle="--", linewidth=1)
        axes.annotate("", x, (0, 0), arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.5})
        axes.annotate(f"x{i + 1}", 1.25 * x, ha="center", va="center", color=INK,
                      bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5})  # fmt: skip
    axes.set(xlim=(-4.2, 4), ylim=(-3, 3.4), xticks=[], yticks=[], aspect="equal")


def measure_claim() -> list[tuple[int, float, float, float]]:
    """Return width, looks per iteration after the first step with squares and log loss, and pairs, of each width."""
    problem = random_problem(inputs=INPUTS, dimension=DIMENSION)
    classes = Problem(problem.inputs, problem.targets > 0)
    rows = []
    for width in LADDER:
        paths = (train(problem, width=width), train(classes, width=width, loss="log_loss", tol=1e-3))
        looks, more = (float(np.mean([one.looks for one in path.history[2:]])) for path in paths)
        rows.append((width, looks, more, float(width * INPUTS)))
    return rows


def draw_claim(axes: Axes, rows: list[tuple[int, float, float, float]]) -> None:
    widths, looks, more, pairs = (list(column) for column in zip(*rows, strict=True))
    axes.set(xscale="log", yscale="log", xlabel="neurons", ylabel="pre-activations computed per iteration")
    axes.set_xscale("log", base=2)
    axes.plot(widths, pairs, "s--", color=PINK, label="dense: every neuron on every input")
    axes.plot(widths, more, "^-", color=BLUE, label="thresher, log loss to 0.001")
    axes.plot(widths, looks, "o-", color=ORANGE, label="thresher, squares: the same steps, exactly")
    axes.fill_between(widths, looks, pairs, color=SKY, alpha=0.15)
    axes.annotate(f"1 / {pairs[-1] / looks[-1]:,.0f}", (widths[-1], looks[-1]), (-6, 8), textcoords="offset points",
                  ha="right", color=ORANGE, fontsize=11, weight="bold")  # fmt: skip
    axes.annotate(f"1 / {pairs[-1] / more[-1]:,.0f}", (widths[-1], more[-1]), (-6, 8), textcoords="offset points",
                  ha="right", color=BLUE, fontsize=11, weight="bold")  # fmt: skip


BOXES = {  # name: (x, y, words, room, colour)
    "train": (0.5, 0.92, "the loop", "training/loop.py: n numbers in, n numbers out; never sees a neuron", INK),
    "solver": (0.14, 0.60, "Solver, Factor", "algebra/\nwhich solution?", ORANGE),
    "gram": (0.5, 0.60, "Gram", "engines/gram.py\nG = J Jᵀ, an operator", GREEN),
    "objective": (0.86, 0.60, "Objective", "training/objectives.py\nwhere to, and how near?", PINK),
    "sketch": (0.14, 0.28, "Sketch", "algebra/sketches.py\nhow is Jᵀ shortened?", ORANGE),
    "engine": (0.5, 0.28, "Engine", "engines/engine.py\nsums over shards, in a fixed order", BLUE),
    "executor": (0.86, 0.28, "Executor", "engines/threads.py\nwhere do shards live?", BLUE),
    "shard": (0.5, 0.03, "Shard, Shard, Shard, …", "shards/\na slice of neurons: which pairs flip?", SKY),
}
ARROWS = [  # from, to, words, side of the words
    ("train", "solver", "right-hand side  (n,)\nsolution  (n,)", "left"),
    ("train", "gram", "linearise", "right"),
    ("train", "objective", "outputs (n,)  ↓  ↑  step v (n,)", "right"),
    ("solver", "gram", "dense, times,\ndiagonal, sketch", "over"),
    ("solver", "sketch", "", "left"),
    ("sketch", "gram", "", "left"),
    ("gram", "engine", "", "right"),
    ("engine", "executor", "", "over"),
    ("engine", "shard", "step  ↓     ↑  change (n,), Effort", "right"),
]


def draw_architecture(axes: Axes, _: None) -> None:
    axes.axis("off")
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.06, 1.04))
    axes.scatter([], [])
    for begin, end, words, side in ARROWS:
        (x0, y0), (x1, y1) = BOXES[begin][:2], BOXES[end][:2]
        gap = 0.085
        if y0 == y1:
            start, stop = (x0 + 0.13, y0), (x1 - 0.13, y1)
        elif (begin, end) == ("sketch", "gram"):
            start, stop = (x0 + 0.12, y0 + 0.05), (x1 - 0.12, y1 - 0.07)
        else:
            start, stop = (x0 + (x1 - x0) * 0.25, y0 - gap), (x1 - (x1 - x0) * 0.05, y1 + gap)
        axes.annotate("", stop, start, arrowprops={"arrowstyle": "<->", "color": INK, "linewidth": 1})
        middle = ((start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2)
        shift, align = {
            "left": ((-0.05, 0.02), "right"),
            "right": ((0.03, 0.012), "left"),
            "over": ((0, 0.05), "center"),
        }[side]
        axes.text(middle[0] + shift[0], middle[1] + shift[1], words, fontsize=6.5, ha=align, va="center", color=INK)
    for x, y, name, room, colour in BOXES.values():
        box = {"boxstyle": "round,pad=0.5", "facecolor": PAPER, "edgecolor": colour, "linewidth": 1.6}
        axes.text(x, y, f"{name}\n{room}", ha="center", va="center", fontsize=7, color=INK, bbox=box, linespacing=1.4)


def code_of(page: str, kind: str) -> list[str]:
    """Return the parts of a page that are code of a kind."""
    text = (Path(__file__).parent / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def draw_digits() -> list[Drawn]:
    """Run the tutorial of digits, and draw two figures of its training."""
    names: dict[str, Any] = {}
    for block in code_of("tutorial_digits", "python"):
        exec(block, names)
    result, problem = names["result"], names["problem"]
    course = Course([result.history], ["output"], result.network.width * problem.size, exact=True)
    return draw({f"digits_{name}": TRAINING[name] for name in ("loss", "looks")}, course, background=PAPER)


def draw_report() -> list[Drawn]:
    """Make the table of the tutorial, train on it, and draw two figures of the report."""
    table, given = (code_of("tutorial_table", kind)[0] for kind in ("python", "sh"))
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(table, {})
        commands.main(given.split()[1:], standalone_mode=False, obj=[])
        found = read_run(Path("runs/houses")).details
    assert found is not None
    pictures = model_pictures(found)
    chosen = {"report_actual": pictures["actual"], "report_coverage": pictures["coverage"]}
    return draw(chosen, found, background=PAPER)


def draw_page(page: str) -> Iterator[Drawn]:
    """Run a page, and draw each figure that it makes, in the page's order."""
    names: dict[str, Any] = {"figure": None}
    text = (Path(__file__).parent / f"{page}.md").read_text(encoding="utf-8")
    wanted = iter(re.findall(rf"\(figures/({page}\w*)\.svg\)", text))
    with figure_style(page), TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in code_of(page, "python"):
            before = names["figure"]
            exec(block, names)
            if names["figure"] is not before:
                written = io.StringIO()
                names["figure"].savefig(written, format="svg", metadata={"Date": None}, facecolor=PAPER)
                yield Drawn(next(wanted), "", "", follow(written.getvalue()))


def main() -> None:
    """Draw everything, or what is named."""
    names = set(sys.argv[1:]) or {"idea", "claim", "hadamard", "architecture", "report", "digits", "pages"}
    drawn = []
    if "report" in names:
        drawn += draw_report()
    drawn += [one for page in WITH_FIGURES if names & {"pages", page} for one in draw_page(page)]
    if "digits" in names:
        drawn += draw_digits()
    if "idea" in names:
        pictures = {"idea_fires": draw_fires, "idea_flips": draw_flips, "idea_expiry": draw_expiry}
        drawn += draw({name: Picture(make, "") for name, make in pictures.items()}, tell_story(), **STYLE)
        drawn += draw({"idea_drawn": Picture(draw_drawn, "")}, None, **STYLE)
    if "hadamard" in names:
        drawn += draw({"idea_butterfly": Picture(draw_butterfly, "")}, None, **STYLE)
        drawn += draw({"idea_rotations": Picture(draw_rotations, "")}, multiply(), **STYLE)
    if "claim" in names:
        drawn += draw({"claim": Picture(draw_claim, "")}, measure_claim(), **STYLE)
    if "architecture" in names:
        drawn += draw({"architecture": Picture(draw_architecture, "")}, None, **STYLE)
    for one in drawn:
        path = FOLDER / f"{one.name}.svg"
        path.write_text(one.svg, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
