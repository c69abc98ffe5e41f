"""Results as files: networks as plain numbers, in two forms, of which the smaller is the default.

*Full* holds what training added to the neurons; *recipe* holds the steps of training alone, and loading makes the
network again, to the bit: a few numbers per training row, whatever the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.files import write_file
from thresher.model.activations import tell

__all__ = [
    "FORMS", "KIND", "RESULT", "VERSION", "Origin", "choose_form", "describe_results", "save_result",
]  # fmt: skip

FORMS = ("auto", "full", "recipe")
KIND, VERSION = "model", 8
RESULT = "Result"  # what a file holds that is no estimator's
Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Origin:
    """What the steps of a training need, besides the settings of its network, to make the network again."""

    inputs: NDArray[np.float64]  # (n, d)
    index: str
    dtype: str
    first_step: str  # "gram" if the first step was taken after the start, else within the pass over the start weights


def choose_form(form: str, results: Sequence[Any]) -> str:
    """Return the form of a file with these results, "full" or "recipe": for "auto" the smaller one."""
    if form not in FORMS:
        raise InvalidInput(f"form must be 'auto', 'full' or 'recipe'; got {form!r}.")
    if form != "auto":
        return form
    return "recipe" if results else "full"  # a full file holds all that a recipe holds


def describe_results(results: Sequence[Any], form: str) -> tuple[list[dict[str, Any]], Tensors]:
    """Return what a file says of results of one training, as JSON, and the arrays that belong to it.

    Cost: recipe O(n) per step and output; full O(md) per output that was trained dense, else O(coefficients).
    """
    tensors: Tensors = {}
    for place, result in enumerate(results):
        inputs = len(result.origin.inputs)
        tensors[f"steps{place}"] = np.array(result.steps).reshape(len(result.steps), inputs)
        if form == "full":
            tensors |= {f"{name}{place}": value for name, value in result.network.weights.arrays().items()}
    return [_describe(result) for result in results], tensors


def save_result(result: Any, path: str | Path, *, form: str) -> str:
    """Write a :class:`Result` to a file; return the form it has. Cost: that of :func:`describe_results`, and O(nd)."""
    outputs = result.outputs or (result,)
    form = choose_form(form, outputs)
    networks, tensors = describe_results(outputs, form)
    about = {"estimator": RESULT, "form": form, "networks": networks, "several": bool(result.outputs)}
    tensors["inputs_"] = result.origin.inputs
    write_file(Path(path), tensors, about, kind=KIND, version=VERSION)
    return form


def _describe(result: Any) -> dict[str, Any]:
    settings, origin = result.network.settings, result.origin
    return {
        "start": settings.start.kind,
        "neurons": settings.neurons,
        "width": settings.width,
        "shift": settings.shift,
        "activation": tell(settings.activation),
        "seed": settings.start.seed,
        "twins": settings.start.twins,
        "index": origin.index,
        "dtype": origin.dtype,
        "first_step": origin.first_step,
        "steps": len(result.steps),
        "status": result.status.value,
        "message": result.message,
        "remainder": result.remainder,
        "audit": list(result.audit),
        "solver": result.solver,
        "loss": result.loss,
        "history": [{**asdict(record), "statements": []} for record in result.history],
    }
