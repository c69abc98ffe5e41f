"""The pictures of start rows that share random signs, for ``python docs/draw.py hadamard``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import hadamard

from thresher.figures import BLUE, INK, ORANGE, PAPER, SKY
from thresher.loops.numbers.hadamard import GROUP, spread_signs
from thresher.model.network import NetworkSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]
NUMBERS, SIGNS = np.array([3, 1, 2, 5, 4, 1, 0, 2]), np.array([1, -1, 1, 1, -1, 1, 1, -1])
WIDTH, BLOCK = 2**18, 256


def draw_butterfly(axes: Axes, _: None) -> None:
    """Draw the transform of eight numbers, from columns of sums and differences."""
    columns = [NUMBERS, SIGNS * NUMBERS]
    for apart in (4, 2, 1):
        before = columns[-1]
        partner = before[np.arange(8) ^ apart]
        columns.append(np.where(np.arange(8) & apart, partner - before, before + partner))
    made = np.empty((16, GROUP), np.float32)
    spread_signs(np.append(columns[1], np.zeros(8)).astype(np.float32), made)
    assert np.array_equal(columns[-1], made[:8, 0])  # the transform that makes start rows
    assert np.array_equal(columns[-1], hadamard(8) @ columns[1])
    for level, values in enumerate(columns):
        for k, value in enumerate(values):
            axes.text(level, 7 - k, f"{value}".replace("-", "\N{MINUS SIGN}"), ha="center", va="center", color=INK,
                      zorder=3, bbox={"boxstyle": "circle,pad=0.3", "facecolor": PAPER, "edgecolor": INK})  # fmt: skip
    for k in range(8):
        axes.plot([0, 1], [7 - k, 7 - k], color=BLUE if SIGNS[k] > 0 else ORANGE, linewidth=1.2)
        axes.text(4.25, 7 - k, f"neuron {k + 1}", va="center", color=INK, fontsize=8)
        for level, apart in enumerate((4, 2, 1), start=1):
            lower = bool(k & apart)
            axes.plot([level, level + 1], [7 - k, 7 - (k ^ apart)], color=BLUE, linewidth=1.2)
            axes.plot([level, level + 1], [7 - k, 7 - k], color=ORANGE if lower else BLUE, linewidth=1.2)
    axes.plot([], [], color=BLUE, label="added")
    axes.plot([], [], color=ORANGE, label="subtracted, or its sign turned")
    for level, words in enumerate(("an input,\nrotated", "with the\nrandom signs", "4 apart", "2 apart", "1 apart")):
        axes.text(level, -0.75, words, ha="center", va="top", color=INK, fontsize=8)
    axes.axis("off")
    axes.set(xlim=(-0.35, 4.9), ylim=(-1.7, 7.4))


class Products(NamedTuple):
    """Pre-activations of an input along an axis, in two dimensions, by how often inputs are rotated."""

    once: Array
    twice: Array


def multiply() -> Products:
    """Return products of many rows with the first axis."""
    start = NetworkSettings.checked(width=WIDTH, dimension=2, sequence="hadamard").start
    return Products(_rotated_once(), start.rows(np.arange(WIDTH))[:, 0])


def _rotated_once() -> Array:
    """Return products with rows that would be made with one rotation, by signs and a transform, in place of two."""
    generator, H = np.random.default_rng(0), hadamard(BLOCK)
    z = generator.choice([-1, 1]) * H[:, :1] / np.sqrt(BLOCK)
    signs = generator.choice([-1, 1], (BLOCK, WIDTH // BLOCK))
    lengths = np.sqrt(generator.chisquare(BLOCK, signs.shape) / BLOCK) * generator.choice([-1, 1], signs.shape)
    return (lengths * (H @ (signs * z))).ravel()


def draw_rotations(axes: Axes, products: Products) -> None:
    """Draw how products are spread."""
    edges = np.linspace(-3.0125, 3.0125, 242)  # sums of signs lie in the middle of bins
    once, twice = (np.histogram(one, bins=edges)[0] / (WIDTH * (edges[1] - edges[0])) for one in products)
    axes.stairs(once, edges, fill=True, color=SKY, label="inputs rotated once: not offered")
    axes.stairs(twice, edges, color=ORANGE, linewidth=1.3, label="rotated twice, as it is done")
    places = np.linspace(-3, 3, 200)
    axes.plot(places, np.exp(-(places**2) / 2) / np.sqrt(2 * np.pi), "--", color=INK, label="a normal number")
    axes.set(xlabel="pre-activation of an input along an axis, two columns", yticks=[], xlim=(-3, 3), ylim=(0, 2.1))
