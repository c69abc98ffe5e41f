"""Model files: a fitted estimator as plain numbers and words, in the two forms of ``training/result_files.py``.

Both hold the lifted training inputs, which error bars and the limit of infinite width need. Nothing in a file is
executed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.single_columns import Angles, Indicators
from thresher.estimators.files.model_checks import check_fitted, check_model
from thresher.estimators.losses.quantiles import describe_quantiles, restore_quantiles
from thresher.estimators.models.leaves import Leaves, check_leaves
from thresher.files import Stored, read_file, write_file
from thresher.memory import require
from thresher.parallel import core_count
from thresher.tables.text_files import restore_reading
from thresher.theory import Shares
from thresher.training import restore_result, restore_results
from thresher.training.result_files import KIND, RESULT, VERSION, choose_form, describe_results
from thresher.training.train import FILES

__all__ = ["describe_classes", "load_model", "restore_classes", "save_model"]

_ARRAYS = ("inputs_", "alpha_", "penalty_", "gains_", "noise_", "residuals_", "floor_", "prior_", "offset_",
           "loss_penalty_", "feature_importances_", "temperature_", "pivots_", "core_", "dispersion_")  # fmt: skip
_NOT_SAVED = ("callbacks", "device")  # parameters that are of one fit alone
_SINGLE = ("inputs_", "pivots_")  # may be float32; all others are float64
_VALUES = ("bias_", "shift_", "ridge_", "loo_error_", "loo_share_", "feature_learning_", "n_iter_", "n_features_in_",
           "single_target_", "target_", "scale_", "columns_weighed_", "multilabel_", "width_reason_",
           "double_precision_", "loss_", "loss_reason_", "loss_ridge_")  # fmt: skip


def save_model(estimator: Any, path: str | Path, *, form: str) -> str:
    """Write a fitted estimator and return the form it has, ``"full"`` or ``"recipe"``; ``"auto"`` is the smaller one.

    Cost: full O(md) bytes per output, recipe O(n) per step and output; both O(nd).
    """
    form = choose_form(form, estimator.results_)
    parameters = {name: _plain(value) for name, value in estimator.get_params().items() if name not in _NOT_SAVED}
    if "class_weight" in parameters:
        parameters["class_weight"] = _pairs(parameters["class_weight"])
    parameters |= {"quantiles": [*map(float, parameters["quantiles"])]} if "quantiles" in parameters else {}
    if not isinstance(parameters["categorical_features"], str | None):
        parameters["categorical_features"] = np.asarray(parameters["categorical_features"]).tolist()
    if not isinstance(parameters["parts"], str):
        parameters["parts"] = [float(one) for one in parameters["parts"]]
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None
    if parameters["train_options"] is not None:
        parameters["train_options"] = {
            name: _plain(value)
            for name, value in parameters["train_options"].items()
            if name not in FILES and isinstance(_plain(value), str | int | float | None)
        }
    # What was fitted counts, whatever has been set since.
    if (parameters["width"] == math.inf) == bool(estimator.results_):
        parameters["width"] = estimator.results_[0].network.width if estimator.results_ else math.inf
    if (parameters["ridge"] == 0) != (estimator.ridge_ == 0):
        parameters["ridge"] = 0 if estimator.ridge_ == 0 else "auto"
    if parameters["width"] == math.inf:
        parameters["width"] = "inf"
    lift = estimator.lift_
    tensors = _describe_lift(lift)
    tensors |= {
        name: np.atleast_1d(getattr(estimator, name)) for name in _ARRAYS if getattr(estimator, name, None) is not None
    }
    if estimator._class_labels is None:
        tensors |= {"target_mean": estimator.target_scaling_.mean, "target_unit": estimator.target_scaling_.unit}
    if estimator.leaves_ is not None:
        tensors |= {f"leaves.{name}": value for name, value in estimator.leaves_._asdict().items()}
    tensors |= describe_quantiles(getattr(estimator, "quantile_fits_", None))
    networks, weights = describe_results(estimator.results_, form)
    tensors |= weights
    metadata = {
        "estimator": type(estimator).__name__,
        "form": form,
        "parameters": parameters,
        "values": {name: _plain(getattr(estimator, name)) for name in _VALUES if hasattr(estimator, name)}
        | {"parts": estimator.parts_.words, "categories": ", ".join(map(str, estimator.categories_)) or "none guessed"},
        "tried": estimator.tried_,
        "losses": list(getattr(estimator, "loss_errors_", {}).items()),
        "rounds": list(estimator.feature_learning_errors_.items()),
        "approximation": [estimator.approximation_, list(estimator.approximation_errors_.items())],
        "last": lift.last_,
        "rest": lift.rest,
        "parts": [list(estimator.parts_), [[list(one), error] for one, error in estimator.parts_errors_.items()]],
        "groups": None if lift.angles_ is None else lift.angles_.groups,
        "networks": networks,
        "names": list(map(str, estimator.feature_names_in_)) if hasattr(estimator, "feature_names_in_") else None,
        "classes": None if estimator._class_labels is None else describe_classes(estimator._class_labels),
        "encoder": None if estimator.encoder_ is None else estimator.encoder_.to_json(),
        "reading": _describe_reading(estimator.encoder_),
    }
    write_file(Path(path), tensors, metadata, kind=KIND, version=VERSION)
    return form


def _describe_lift(lift: SphereLift) -> dict[str, NDArray[Any]]:
    """Return the arrays of a lift."""
    more = {"metric": lift.metric, "weights": lift.weights}
    if lift.indicators_ is not None:
        more |= {f"indicators.{name}": value for name, value in lift.indicators_._asdict().items()}
    if lift.angles_ is not None:
        own = {**lift.angles_.scaling._asdict(), "numbers": lift.angles_.numbers}
        more |= {f"angles.{name}": value for name, value in own.items()}
    found = {**lift.scaling_._asdict(), **more}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def load_model(path: str | Path, kinds: Sequence[type], *, threads: int | None = None) -> Any:
    """Return the estimator, of one of these kinds, or the :class:`Result` that a file holds.

    Cost: O(bytes); of a recipe also the passes of training, O(mnd) per step and output.
    """
    stored = read_file(Path(path), kind=KIND, version=VERSION)
    try:
        if stored.metadata["estimator"] == RESULT:
            return restore_result(stored, threads=threads or core_count())
        kind = {kind.__name__: kind for kind in kinds}[stored.metadata["estimator"]]
        build = getattr(kind, "from_arrays", None) or partial(_build, kind=kind)
        return build(stored, threads=threads or core_count())
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        said = str(error)[:200] if isinstance(error, InvalidInput) else f"{type(error).__name__}, {str(error)[:200]}."
        raise InvalidInput(f"{path} does not describe a model: {said}") from error


def _restore_loss(estimator: Any, errors: Any, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Set what a classifier keeps of its loss; one that an earlier version wrote was fitted by squares."""
    if not estimator.multilabel_:
        (temperature,) = estimator.temperature_
        estimator.temperature_ = float(temperature)
    estimator.loss_errors_ = {str(name): float(error) for name, error in errors}
    estimator.loss_penalty_ = getattr(estimator, "loss_penalty_", None)
    if "offset_" not in tensors:
        estimator.offset_ = estimator.prior_


def _build(stored: Stored, *, kind: type, threads: int) -> Any:
    about, tensors = stored.metadata, stored.tensors
    estimator: Any = kind(**_restore_parameters(about["parameters"]))
    estimator._check_parameters()
    values = {"double_precision_": "pivots_" not in tensors, **about["values"]}  # which earlier versions did not say
    for name, value in check_fitted(values, classifies=about["classes"] is not None).items():
        setattr(estimator, name, value)
    estimator.pivots_ = estimator.core_ = None
    for name in _ARRAYS:
        if name in tensors:
            kept = name in _SINGLE and tensors[name].dtype == np.float32
            setattr(estimator, name, tensors[name] if kept else tensors[name].astype(np.float64))
    estimator.lift_ = SphereLift.made(
        Scaling(*(tensors.get(name) for name in Scaling._fields)),  # type: ignore[arg-type]
        scale=estimator.scale_,
        bias=float(estimator.bias_),
        weights=tensors.get("weights"),
        metric=tensors.get("metric"),
        rest=bool(about["rest"]),
        last=float(about["last"]),
        indicators=_restore_indicators(tensors),
        angles=_restore_angles(tensors, about.get("groups")),
    )
    estimator.parts_, estimator.parts_errors_ = _restore_parts(*about.get("parts", [Shares(), []]))
    if about["classes"] is not None:
        _restore_loss(estimator, about.get("losses", []), tensors)
    if "target_mean" in tensors:
        estimator.target_scaling_ = Scaling(tensors["target_mean"], tensors["target_unit"])
    if about["names"] is not None:
        estimator.feature_names_in_ = np.array(about["names"], dtype=object)
    told = about["encoder"]
    estimator.encoder_ = None if told is None else TableEncoder.from_json(told, named=about["names"] is not None)
    if told is not None and about["names"] not in (None, list(estimator.encoder_.kinds_)):
        raise ValueError("its encoder is of columns with other names")
    if told is not None and about["reading"] is not None:
        estimator.encoder_.reading_ = restore_reading(about["reading"])
    if about["classes"] is not None:
        estimator.classes_ = restore_classes(about["classes"])
    if about["classes"] is None:
        estimator.quantile_fits_ = restore_quantiles(tensors, estimator)
    check_model(estimator, networks=len(about["networks"]))
    estimator.results_ = restore_results(about["networks"], tensors, estimator.inputs_, threads=threads)
    estimator.tried_ = [tuple(one) for one in about["tried"]]
    estimator.feature_learning_errors_ = {str(name): errors for name, errors in about["rounds"]}
    way, errors = about["approximation"]
    estimator.approximation_ = str(way)
    estimator.approximation_errors_ = {str(name): float(error) for name, error in errors}
    estimator.leaves_ = None
    if "leaves.starts" in tensors:
        estimator.leaves_ = Leaves(*(tensors[f"leaves.{name}"] for name in Leaves._fields))
        check_leaves(estimator.leaves_, len(estimator.inputs_))
    if any(result.network.shift != estimator.shift_ for result in estimator.results_):
        raise ValueError("a network does not fit its estimator")
    return estimator


def _restore_parameters(told: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator from what a file says."""
    parameters = dict(told)
    if parameters["width"] == "inf":
        parameters["width"] = math.inf
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    if "quantiles" in parameters:
        parameters["quantiles"] = tuple(parameters["quantiles"])
    return parameters


def _restore_parts(shares: Any, errors: Any) -> tuple[Shares, dict[Shares, float]]:
    """Return the shares of the parts of a kernel, and the errors of those that were tried."""
    tried = {Shares(*map(float, one)): float(error) for one, error in errors}
    return Shares(*map(float, shares)), tried


def _restore_indicators(tensors: dict[str, NDArray[Any]]) -> Indicators | None:
    """Return which whole numbers become indicators; None if none do."""
    if "indicators.values" not in tensors:
        return None
    kept, columns, values = (tensors[f"indicators.{name}"] for name in Indicators._fields)
    found = Indicators(kept, columns, values)
    known = np.unique(found.sources)
    if kept.dtype.kind != "i" or columns.dtype.kind != "i" or known.tolist() != list(range(len(known))):
        raise ValueError("its indicators are of columns that are not there")
    if len(columns) != len(values) or len(np.unique(kept)) != len(kept) or not np.isfinite(values).all():
        raise ValueError("its indicators do not fit together")
    return found


def _restore_angles(tensors: dict[str, NDArray[Any]], groups: Any) -> Angles | None:
    """Return how single columns are seen; None if they are not."""
    if "angles.numbers" not in tensors:
        return None
    scaling = Scaling(*(tensors.get(f"angles.{name}") for name in Scaling._fields))  # type: ignore[arg-type]
    numbers = tensors["angles.numbers"]
    found = Angles(scaling, numbers, tuple(tuple(int(column) for column in group) for group in groups))
    shapes = {np.shape(one)[-1:] for one in scaling if one is not None}
    if numbers.dtype.kind != "i" or shapes != {(len(numbers),)} or not all(found.groups) or not len(found):
        raise ValueError("its columns do not fit together")
    return found


def _describe_reading(encoder: TableEncoder | None) -> dict[str, Any] | None:
    """Return how the file of the training rows was read, as JSON knows it."""
    return None if encoder is None or encoder.reading_ is None else encoder.reading_._asdict()


def _pairs(given: Any) -> Any:
    """Return a dict from labels to numbers as JSON knows it: pairs of both."""
    return [(_plain(name), float(value)) for name, value in given.items()] if isinstance(given, Mapping) else given


def _plain(value: Any) -> Any:
    """Return numbers of NumPy as those of Python, which JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def restore_classes(about: dict[str, Any]) -> NDArray[Any]:
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


def describe_classes(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels as JSON knows them; those of other types than numbers, truth values and text are refused."""
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind not in "iufbU":
        raise InvalidInput(f"labels of type {labels.dtype} cannot be written to a file. Use numbers or text.")
    return {"labels": labels.tolist(), "type": labels.dtype.str}
