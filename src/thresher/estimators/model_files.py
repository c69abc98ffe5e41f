"""Model files: a fitted estimator as plain numbers and words, in two forms, of which the smaller is the default.

*Full* holds what was added to each neuron; *recipe* holds the steps of training alone and makes the network again on
loading, to the same predictions: a few numbers a training row, whatever the width. Both hold the lifted training
inputs, which error bars and the limit of infinite width need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_fields, check_number, check_whole
from thresher.errors import InvalidInput
from thresher.estimators.features import Plan
from thresher.estimators.lift import SphereLift
from thresher.estimators.networks import remake_networks
from thresher.estimators.scaling import BY_RANK, PULLED, SCALES, Scaling
from thresher.files import Stored, read_file, write_file
from thresher.interfaces import Step
from thresher.memory import require
from thresher.model.network import Network, NetworkSettings
from thresher.model.weights import DenseWeights
from thresher.parallel import core_count
from thresher.theory import firing_probability
from thresher.training.history import History, Iteration, Result, Status

__all__ = ["FORMS", "VERSION", "load_model", "save_model"]

FORMS = ("auto", "full", "recipe")
_KIND, VERSION = "model", 3
_ARRAYS = (
    "inputs_",
    "alpha_",
    "penalty_",
    "gains_",
    "noise_",
    "floor_",
    "prior_",
    "feature_importances_",
    "temperature_",
)
_VALUES = (
    "bias_",
    "shift_",
    "ridge_",
    "loo_error_",
    "feature_learning_",
    "n_iter_",
    "n_features_in_",
    "single_target_",
    "target_",
    "scale_",
    "columns_weighed_",
    "multilabel_",
)


def save_model(estimator: Any, path: str | Path, *, form: str) -> str:
    """Write a fitted estimator and return the form it has, ``"full"`` or ``"recipe"``; ``"auto"`` is the smaller one.

    Cost: full O(md) bytes per output, recipe O(n) per step and output; both O(nd).
    """
    if form not in FORMS:
        raise InvalidInput(f"form must be 'auto', 'full' or 'recipe'; got {form!r}.")
    if form == "auto":  # a full file holds what was added to the neurons beside all that a recipe holds
        form = "recipe" if any(result.network.weights.moved.nbytes for result in estimator.results_) else "full"
    parameters = {name: _plain(value) for name, value in estimator.get_params().items() if name != "callbacks"}
    parameters |= {"class_weight": _describe_class_weight(estimator)} if "class_weight" in parameters else {}
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None
    if parameters["width"] == math.inf:
        parameters["width"] = "inf"
    lift = estimator.lift_
    tensors: dict[str, NDArray[Any]] = {
        name: value for name, value in lift.scaling_._asdict().items() if value is not None
    }
    for name, value in (("metric", lift.metric), ("weights", lift.weights)):
        if value is not None:
            tensors[name] = np.asarray(value)
    tensors |= {name: np.atleast_1d(getattr(estimator, name)) for name in _ARRAYS if hasattr(estimator, name)}
    if hasattr(estimator, "target_scaling_"):
        tensors |= {"target_mean": estimator.target_scaling_.mean, "target_unit": estimator.target_scaling_.unit}
    for place, result in enumerate(estimator.results_):
        if form == "full":
            assert isinstance(result.network.weights, DenseWeights)
            tensors[f"moved{place}"] = result.network.weights.moved
        steps = [step.v for step in result.steps]
        tensors[f"steps{place}"] = np.array(steps).reshape(len(steps), len(estimator.inputs_))
    metadata = {
        "estimator": type(estimator).__name__,
        "form": form,
        "parameters": parameters,
        "values": {name: _plain(getattr(estimator, name)) for name in _VALUES if hasattr(estimator, name)},
        "tried": estimator.tried_,
        "rounds": list(estimator.feature_learning_errors_.items()),
        "last": lift.last_,
        "rest": lift.rest,
        "networks": [_describe(result) for result in estimator.results_],
        "names": list(map(str, estimator.feature_names_in_)) if hasattr(estimator, "feature_names_in_") else None,
        "classes": _describe_classes(estimator),
    }
    write_file(Path(path), tensors, metadata, kind=_KIND, version=VERSION)
    return form


def load_model(path: str | Path, kinds: Sequence[type], *, threads: int | None = None) -> Any:
    """Return the estimator, of one of these kinds, that a file holds; nothing in it is executed.

    Cost: O(bytes); of a recipe also the passes of training, O(mnd) a step and output.
    """
    stored = read_file(Path(path), kind=_KIND, newest=VERSION)
    try:
        return _build(stored, {kind.__name__: kind for kind in kinds}, threads or core_count())
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        said = str(error)[:200] if isinstance(error, InvalidInput) else f"{type(error).__name__}, {str(error)[:200]}."
        raise InvalidInput(f"{path} does not describe a model: {said}") from error


def _build(stored: Stored, kinds: dict[str, type], threads: int) -> Any:
    about, tensors = stored.metadata, stored.tensors
    if stored.version == 1:
        _bring_up_to_date(about, tensors)
    parameters = dict(about["parameters"])
    if parameters["width"] == "inf":
        parameters["width"] = math.inf
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    estimator: Any = kinds[about["estimator"]](**parameters)
    estimator._check_parameters()
    for name, value in _check_values(about["values"], classifies=about["classes"] is not None).items():
        setattr(estimator, name, value)
    for name in _ARRAYS:
        if name in tensors:
            setattr(estimator, name, tensors[name].astype(np.float64))
    lift = SphereLift(
        scale=estimator.scale_,
        bias=float(estimator.bias_),
        weights=tensors.get("weights"),
        metric=tensors.get("metric"),
        rest=bool(about["rest"]),
    )
    lift.scaling_ = Scaling(*(tensors.get(name) for name in Scaling._fields))  # type: ignore[arg-type]
    lift.last_ = float(about["last"])
    lift.n_features_in_ = estimator.n_features_in_
    estimator.lift_ = lift
    if about["classes"] is not None and not estimator.multilabel_:
        (temperature,) = estimator.temperature_
        estimator.temperature_ = float(temperature)
    if "target_mean" in tensors:
        estimator.target_scaling_ = Scaling(tensors["target_mean"], tensors["target_unit"])
    if about["names"] is not None:
        estimator.feature_names_in_ = np.array(about["names"], dtype=object)
    if about["classes"] is not None:
        estimator.classes_ = _restore_classes(about["classes"])
    _check(estimator, networks=len(about["networks"]))
    estimator.results_ = _restore(about["networks"], tensors, estimator, threads, version=stored.version)
    estimator.tried_ = [tuple(one) for one in about["tried"]]
    estimator.feature_learning_errors_ = {str(name): errors for name, errors in about["rounds"]}
    for result in estimator.results_:
        fits = result.network.settings == estimator.results_[0].network.settings
        fits = fits and result.network.shift == estimator.shift_
        if not fits or not np.isfinite(result.network.weights.moved).all():
            raise ValueError("a network does not fit its estimator")
    return estimator


def _check_values(values: dict[str, Any], *, classifies: bool) -> dict[str, Any]:
    """Return the values of a fitted estimator, each of its type; refuse others."""
    checked: dict[str, Any] = {
        "bias_": check_number(values["bias_"], "bias", least=0.0),
        "shift_": NetworkSettings.checked(width=2, dimension=1, shift=check_number(values["shift_"], "shift")).shift,
        "ridge_": check_number(values["ridge_"], "ridge", above=0.0),
        "loo_error_": float(values["loo_error_"]),
        "feature_learning_": check_whole(values["feature_learning_"], "feature_learning", least=0),
        "n_iter_": check_whole(values["n_iter_"], "n_iter", least=0),
        "n_features_in_": check_whole(values["n_features_in_"], "n_features_in", least=1),
        "scale_": str(values["scale_"]),
        "columns_weighed_": bool(values["columns_weighed_"]),
    }
    if classifies:
        return {**checked, "multilabel_": bool(values["multilabel_"])}
    if not isinstance(values["single_target_"], bool):
        raise TypeError(f"single_target is {str(values['single_target_'])[:40]!r}")
    if values["target_"] not in ("linear", "log"):
        raise ValueError(f"targets are {str(values['target_'])[:40]!r}")
    return {**checked, "single_target_": values["single_target_"], "target_": values["target_"]}


def _check(estimator: Any, *, networks: int) -> None:
    """Refuse parts that do not fit together: predictions must not depend on luck."""
    n, outputs = estimator.alpha_.shape
    d = estimator.n_features_in_
    lift, scaling, labels = estimator.lift_, estimator.lift_.scaling_, getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    turned = d if lift.metric is None else np.shape(lift.metric)[-1]
    knots = np.shape(scaling.knots)
    shapes = {
        "inputs": (estimator.inputs_.shape, (n, turned + lift.rest + bool(estimator.bias_))),
        "penalty": (estimator.penalty_.shape, (n,)),
        "gains": (estimator.gains_.shape, (outputs,)),
        "mean": (scaling.mean.shape, (d,)),
        "unit": (scaling.unit.shape, (d,)),
        "metric": (np.shape(lift.metric), (d, turned) if lift.metric is not None else ()),
        "weights": (np.shape(lift.weights), (d,) if lift.weights is not None else ()),
        "knots": (knots, (2, *knots[1:2], d) if scaling.knots is not None else ()),
    }
    bounds = [scaling.low, scaling.high, scaling.soft]
    shapes |= {f"bound {place}": (np.shape(one), np.shape(scaling.low) and (d,)) for place, one in enumerate(bounds)}
    noise = np.zeros((3, outputs)) if labels is not None else estimator.noise_
    shapes["noise"] = noise.shape, (3, outputs)
    frame = estimator._target_frame()
    shapes |= {f"target {place}": (part.shape, (outputs,)) for place, part in enumerate(frame)}
    if labels is not None:
        shapes["classes"] = (labels.shape, (2 if outputs == 1 and not estimator.multilabel_ else outputs,))
        shapes["temperature"] = (np.shape(estimator.temperature_), (outputs,) if estimator.multilabel_ else ())
        frame = (*frame, np.atleast_1d(estimator.temperature_))
        if (frame[-1] <= 0).any():
            raise ValueError("its temperature must be positive")
    floor = estimator._floor
    if floor is not None:
        shapes["floor"] = (floor.shape, (outputs,))
    if names is not None:
        shapes["names"] = (names.shape, (d,))
    if hasattr(estimator, "feature_importances_"):  # not in files of version 1
        shapes["feature importances"] = (estimator.feature_importances_.shape, (d,))
    for name, (found, expected) in shapes.items():
        if found != expected:
            raise ValueError(f"{name} has shape {found}, not {expected}")
    numbers = [getattr(estimator, name) for name in ("inputs_", "alpha_", "penalty_", "gains_")]
    more = (*scaling, lift.metric, lift.weights, floor)
    numbers += [noise, *frame, lift.last_, *(one for one in more if one is not None)]
    if not all(np.isfinite(one).all() for one in numbers):
        raise ValueError("some numbers are not finite")
    if lift.scale not in SCALES or (lift.bias > 0) != (lift.last_ > 0) or (estimator.penalty_ <= 0).any():
        raise ValueError("its lift or its penalty is none")
    if scaling.soft is not None and (scaling.soft <= 0).any():
        raise ValueError("the units in which columns are pulled in must be positive")
    if (scaling.knots is None) == (lift.scale in BY_RANK) or (scaling.low is None) == (lift.scale in PULLED):
        raise ValueError(f"its columns are not scaled by {lift.scale!r}")
    if scaling.knots is not None and (len(scaling.knots[0]) < 3 or (np.diff(scaling.knots[0], axis=0) < 0).any()):
        raise ValueError("its knots are too few, or do not ascend")
    if (noise < 0).any():
        raise ValueError("its error bars must not be negative")
    if labels is None and estimator.single_target_ and outputs > 1:
        raise ValueError(f"{outputs} outputs for a single target")
    if np.abs(np.linalg.norm(estimator.inputs_, axis=1) - 1).max() > 1e-6 or (scaling.unit <= 0).any():
        raise ValueError("inputs are not of unit norm")
    if networks != (0 if estimator.width == math.inf else outputs):
        raise ValueError(f"{networks} networks for {outputs} outputs")


def _bring_up_to_date(about: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
    """Give a description of version 1 what was added since, as it was then."""
    values, parameters = about["values"], about["parameters"]
    parameters["start"] = "random"
    values |= {"scale_": parameters["scale"], "columns_weighed_": False, "multilabel_": False}
    about |= {"rest": False, "rounds": [(Plan(power=float(one)).name, errors) for one, errors in about["rounds"]]}
    if "temperature_" in values:
        tensors["temperature_"] = np.array([check_number(values["temperature_"], "temperature")])
    if "noise_" in tensors:  # the variance had the noise in it, and no border
        factor, addend = tensors["noise_"]
        prior = firing_probability(float(values["shift_"]))
        noise = float(values["ridge_"]) * prior
        tensors["noise_"] = np.stack([factor, addend + factor * noise, np.full_like(factor, prior)])


def _describe_class_weight(estimator: Any) -> Any:
    """Return the weights of classes as JSON knows them: pairs of a label and a number."""
    given = estimator.class_weight
    return [(_plain(label), float(weight)) for label, weight in given.items()] if isinstance(given, dict) else given


def _plain(value: Any) -> Any:
    """Return numbers of NumPy as those of Python, which JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def _describe(result: Result) -> dict[str, Any]:
    settings = result.network.settings
    return {
        "width": settings.width,
        "shift": settings.shift,
        "seed": settings.start.seed,
        "sequence": settings.start.sequence,
        "keeps": [step.keep for step in result.steps],
        "status": result.status.value,
        "message": result.message,
        "remainder": result.remainder,
        "history": [{**asdict(record), "statements": []} for record in result.history],
    }


def _restore(
    networks: list[dict[str, Any]], tensors: dict[str, NDArray[Any]], estimator: Any, threads: int, *, version: int
) -> list[Result]:
    """Return the results of all outputs: weights from the file, or made again from the steps."""
    if not networks:
        return []
    inputs = estimator.inputs_
    settings = [_settings(one, inputs.shape[1]) for one in networks]
    if any(one != settings[0] for one in settings):
        raise ValueError("its networks are not of one start")
    steps = [_steps(one, tensors[f"steps{place}"], inputs, version) for place, one in enumerate(networks)]
    made: list[Network] = []
    if "moved0" not in tensors:
        made = remake_networks(inputs, steps, settings=settings[0], penalty=estimator.penalty_, threads=threads)
    results = []
    for place, (one, taken) in enumerate(zip(networks, steps, strict=True)):
        if made:
            network = made[place]
        else:
            moved = tensors[f"moved{place}"]
            if moved.shape != (settings[0].width, inputs.shape[1]):
                raise ValueError(f"weights have shape {moved.shape}")
            network = Network(settings[0], DenseWeights(settings[0].start, moved.astype(np.float32, copy=False)))
        known = {field.name for field in fields(Iteration)}
        records = [record for record in one["history"] if set(record) == known]
        for record in records:
            check_fields(Iteration, record)
        history = History([Iteration(**{**record, "statements": ()}) for record in records])
        left = float(one["gap" if version < VERSION else "remainder"])
        status = Status(one["status"])
        results.append(Result(network, history, status, str(one["message"]), steps=tuple(taken), remainder=left))
    return results


def _settings(about: dict[str, Any], dimension: int) -> NetworkSettings:
    return NetworkSettings.checked(
        width=about["width"],
        dimension=dimension,
        shift=about["shift"],
        seed=about["seed"],
        twins=True,
        sequence=about.get("sequence", "random"),
    )


def _steps(about: dict[str, Any], rows: NDArray[Any], inputs: NDArray[np.float64], version: int) -> list[Step]:
    """Return the steps of a network; files before version 3 tell whole solutions and the fraction that was taken."""
    shares = [float(share) for share in about["fractions" if version < VERSION else "keeps"]]
    if rows.shape != (len(shares), len(inputs)) or not np.isfinite(rows).all():
        raise ValueError(f"steps have shape {rows.shape}, or are not finite")
    rows = rows.astype(np.float64)
    if version < VERSION:
        return [Step(share * row, 1.0 - share) for row, share in zip(rows, shares, strict=True)]
    return [Step(row, share) for row, share in zip(rows, shares, strict=True)]


def _restore_classes(about: dict[str, Any]) -> NDArray[Any]:
    """Return labels (classes,) as they were written; refuse what cannot have been."""
    given, kind = about["labels"], np.dtype(about["type"])
    longest = max(len(label) if isinstance(label, str) else 2 for label in given)
    require(
        4 * longest * len(given), budget=None, what="reading the labels of the classes", remedy="Give a smaller file."
    )
    labels = np.array(given)
    labels = labels.astype(kind) if kind.kind in "iufb" else labels  # text is as long as its longest label
    if labels.dtype.kind != kind.kind or labels.tolist() != given or len(set(given)) != len(given):
        raise ValueError("its labels are not what their type says, or not different")
    return labels


def _describe_classes(estimator: Any) -> dict[str, Any] | None:
    """Return labels as JSON knows them; those of other types than numbers, truth values and text are refused."""
    labels = getattr(estimator, "classes_", None)
    if labels is None:
        return None
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind not in "iufbU":
        raise InvalidInput(f"labels of type {labels.dtype} cannot be written to a file. Use numbers or text.")
    return {"labels": labels.tolist(), "type": labels.dtype.str}
