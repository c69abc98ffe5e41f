"""Fitted estimators as plain arrays, numbers, words and dictionaries: what files, pickles and copies are made of.

:func:`take_apart` takes what was fitted of an estimator of the limit apart, :func:`put_together` refuses what does not
fit. A file has the parameters and the labels too, as JSON knows them (:func:`to_arrays`, :func:`from_arrays`); a pickle
has these as they are (:func:`join_state`, :func:`split_state`). Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_number, check_whole
from thresher.errors import InvalidInput
from thresher.estimators.choose import Choice, Choices
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.scaling import SCALES, Scaling
from thresher.estimators.data.single_columns import Angles, Indicators
from thresher.estimators.intervals import LEVELS
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leaves import Leaves, check_leaves
from thresher.estimators.model import KernelModel
from thresher.estimators.predictive import Predictive
from thresher.estimators.quantiles import QuantileFits
from thresher.files import Stored, read_file, write_file
from thresher.memory import require
from thresher.model.network import NetworkSettings
from thresher.parallel import core_count
from thresher.tables.text_files import restore_reading
from thresher.theory import Parts, Shares
from thresher.training import restore_result
from thresher.training.result_files import KIND, RESULT, VERSION

__all__ = [
    "TAKEN",
    "describe_classes",
    "describe_parameters",
    "describe_table",
    "from_arrays",
    "join_state",
    "load_model",
    "put_together",
    "restore_classes",
    "restore_parameters",
    "restore_table",
    "save_model",
    "split_state",
    "take_apart",
    "to_arrays",
]

Matrix = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
About = dict[str, Any]
_NOT_SAVED = ("device",)  # a parameter that is of one machine alone
_FITTED = "fitted"  # what was fitted, in what is pickled
# Attributes that are taken apart; labels and parameters stay as they are.
TAKEN = (
    "model_", "choices_", "encoder_", "feature_importances_", "loo_error_", "loo_share_", "n_features_in_",
    "feature_names_in_", "predictive_", "single_target_", "offset_", "temperature_", "multilabel_", "loss_",
)  # fmt: skip
_UNIT = 2e-6  # by which the norm of an input in single precision may differ from 1


def save_model(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator to a file. Cost: O(nd) bytes."""
    stored = to_arrays(estimator)
    write_file(Path(path), stored.tensors, stored.metadata, kind=KIND, version=VERSION)


def load_model(path: str | Path, kinds: Sequence[type], *, threads: int | None = None) -> Any:
    """Return the estimator, of one of these kinds, or the :class:`Result` that a file holds.

    Cost: O(bytes); of networks that are trained again also the passes of training, O(mnd) per step and output.
    """
    stored = read_file(Path(path), kind=KIND, version=VERSION)
    try:
        name = stored.metadata["estimator"]
        if name == RESULT:
            return restore_result(stored, threads=threads or core_count())
        kind: Any = {one.__name__: one for one in kinds}[name]
        return kind.from_arrays(stored, threads=threads or core_count())
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        said = str(error)[:200] if isinstance(error, InvalidInput) else f"{type(error).__name__}, {str(error)[:200]}."
        raise InvalidInput(f"{path} does not describe a model: {said}") from error


def to_arrays(estimator: Any) -> Stored:
    """Return the arrays of a fitted estimator by name, and what else it holds, as JSON knows it."""
    arrays, about = take_apart(estimator)
    labels = estimator._class_labels
    more = {} if labels is None else {"classes": describe_classes(labels)}
    parameters = describe_parameters(estimator)
    return Stored(arrays, {"estimator": type(estimator).__name__, "parameters": parameters, **about, **more})


def from_arrays(kind: Any, stored: Stored) -> Any:
    """Return the estimator that :func:`to_arrays` took apart; ValueError and the like where parts do not fit."""
    about = stored.metadata
    estimator = kind(**restore_parameters(about["parameters"]))
    estimator._check_parameters()
    if hasattr(kind, "predict_proba"):
        estimator.classes_ = restore_classes(about["classes"])
    put_together(estimator, stored)
    return estimator


def join_state(state: Mapping[str, Any], fitted: Stored, taken: Collection[str] = TAKEN) -> dict[str, Any]:
    """Return what is pickled: attributes as they are, and for those that were taken apart what became of them."""
    kept = {name: value for name, value in state.items() if name not in taken}
    return {**kept, _FITTED: {"version": VERSION, "arrays": fitted.tensors, "about": fitted.metadata}}


def split_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], Stored | None]:
    """Return the two that :func:`join_state` joined; None if nothing was fitted."""
    kept = {name: value for name, value in state.items() if name != _FITTED}
    found = state.get(_FITTED)
    if found is not None and found["version"] != VERSION:
        raise InvalidInput(
            f"this estimator was pickled by another thresher: version {str(found['version'])[:40]} of the layout, and "
            f"this one reads {VERSION}. Fit again."
        )
    return kept, None if found is None else Stored(found["arrays"], found["about"])


def take_apart(estimator: Any) -> Stored:
    """Return all that was fitted but labels: arrays by name, and numbers, words, lists and dictionaries."""
    model: KernelModel = estimator.model_
    lift, kernel = model.lift, model.kernel
    arrays: Arrays = {"inputs": model.inputs, "alpha": model.alpha, "penalty": model.penalty}
    arrays |= {name: value for name in ("pivots", "core") if (value := getattr(model, name)) is not None}
    arrays["feature_importances"] = estimator.feature_importances_
    arrays |= _named(lift.scaling_, "scaling.") | ({} if lift.metric is None else {"metric": np.asarray(lift.metric)})
    arrays |= {} if lift.indicators_ is None else _named(lift.indicators_, "indicators.")
    if lift.angles_ is not None:
        arrays |= _named(lift.angles_.scaling, "angles.") | {"angles.numbers": lift.angles_.numbers}
    arrays |= {} if model.leaves is None else _named(model.leaves, "leaves.")
    about: About = {
        "kernel": {"bias": float(kernel.bias), "shift": float(kernel.shift), "parts": list(estimator.parts_)},
        "ridge": float(model.ridge),
        "way": model.way,
        "double": bool(model.double),
        "lift": {"scale": lift.scale, "rest": bool(lift.rest), "last": float(lift.last_), "bias": float(lift.bias)},
        "groups": None if lift.angles_ is None else [list(map(int, group)) for group in lift.angles_.groups],
        "choices": [choice.to_json() for choice in estimator.choices_],
        "loo_error": float(estimator.loo_error_),
        "loo_share": float(estimator.loo_share_),
        "n_features_in": int(estimator.n_features_in_),
        **describe_table(estimator),
    }
    if estimator._class_labels is None:
        arrays |= {f"predictive.{name}": value for name, value in estimator.predictive_.to_arrays().items()}
        about["single_target"] = bool(estimator.single_target_)
    else:
        arrays |= {"offset": estimator.offset_, "temperature": np.atleast_1d(estimator.temperature_)}
        about |= {"multilabel": bool(estimator.multilabel_), "loss": estimator.loss_}
    return Stored({name: np.asarray(value) for name, value in arrays.items()}, about)


def put_together(estimator: Any, stored: Stored) -> None:
    """Give an estimator what :func:`take_apart` took apart; ValueError and the like where parts do not fit."""
    arrays, about = stored.tensors, stored.metadata
    estimator.n_features_in_ = check_whole(about["n_features_in"], "n_features_in", least=1)
    encoder = restore_table(estimator, about)
    columns = estimator.n_features_in_ if encoder is None else len(encoder.sources_)
    estimator.model_ = _restore_model(arrays, about, _restore_lift(arrays, about, columns))
    estimator.choices_ = Choices(_restore_choice(*one) for one in about["choices"])
    estimator.loo_error_, estimator.loo_share_ = float(about["loo_error"]), float(about["loo_share"])
    estimator.feature_importances_ = _floats(arrays, "feature_importances", (estimator.n_features_in_,))
    outputs = estimator.model_.alpha.shape[1]
    if hasattr(estimator, "predict_proba"):
        _restore_classifier(estimator, arrays, about, outputs)
    else:
        _restore_regressor(estimator, arrays, about, outputs)


def _named(group: Any, prefix: str) -> Arrays:
    return {prefix + name: np.asarray(value) for name, value in group._asdict().items() if value is not None}


def _fits(name: str, found: NDArray[Any], shape: tuple[int, ...]) -> None:
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, not {shape}")


def _floats(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], *, single: bool = False) -> Any:
    """Return finite numbers in double precision, or, where they may, as they are in single."""
    found = arrays[name]
    found = found if single and found.dtype == np.float32 else found.astype(np.float64)
    _fits(name, found, shape)
    if not np.isfinite(found).all():
        raise ValueError(f"some numbers of {name} are not finite")
    return found


def _restore_lift(arrays: Mapping[str, NDArray[Any]], about: About, columns: int) -> SphereLift:
    said = about["lift"]
    indicators = _restore_indicators(arrays)
    if indicators is not None and len(np.unique(indicators.sources)) != columns:
        raise ValueError("its indicators are of columns that are not there")
    d = columns if indicators is None else len(indicators.sources)
    scaling = _restore_scaling(arrays, "scaling.", d, scale=said["scale"])
    metric = arrays.get("metric")
    if metric is not None:
        metric = _floats(arrays, "metric", (d, np.shape(metric)[-1]))
    angles = _restore_angles(arrays, about["groups"], d)
    bias, last = (check_number(said[name], name, least=0.0) for name in ("bias", "last"))
    if (bias > 0) != (last > 0):
        raise ValueError("its lift has a bias and no coordinate for it, or the reverse")
    return SphereLift.made(
        scaling,
        scale=str(said["scale"]),
        bias=bias,
        metric=metric,
        rest=bool(said["rest"]),
        last=last,
        indicators=indicators,
        angles=angles,
    )


def _restore_angles(arrays: Mapping[str, NDArray[Any]], told: Any, columns: int) -> Angles | None:
    """Return how single columns are seen; None if none are."""
    if told is None:
        if any(name.startswith("angles.") for name in arrays):
            raise ValueError("its kernel sees single columns, and has no groups of them")
        return None
    groups, numbers = tuple(tuple(int(column) for column in group) for group in told), arrays["angles.numbers"]
    known = {*numbers.tolist(), *chain(*groups)} <= set(range(columns))
    if numbers.ndim != 1 or numbers.dtype.kind != "i" or not all(groups) or not known or not (len(numbers) or groups):
        raise ValueError("its kernel sees columns that are not there")
    return Angles(_restore_scaling(arrays, "angles.", len(numbers), scale="quantile"), numbers, groups)


def _restore_scaling(arrays: Mapping[str, NDArray[Any]], prefix: str, d: int, *, scale: str) -> Scaling:
    if scale not in SCALES:
        raise ValueError(f"its columns are scaled by {str(scale)[:40]!r}")
    flat = ["mean", "unit", *(["low", "high", "soft"] if scale in ("robust", "quantile") and d else [])]
    found: dict[str, Any] = {name: _floats(arrays, prefix + name, (d,)) for name in flat}
    if scale == "quantile" and d:
        knots = arrays[f"{prefix}knots"]
        found["knots"] = _floats(arrays, f"{prefix}knots", (2, *knots.shape[1:2], d))
        if knots.shape[1] < 3 or (np.diff(knots[0], axis=0) < 0).any():
            raise ValueError("its knots are too few, or do not ascend")
    if {name.removeprefix(prefix) for name in arrays if name.startswith(prefix)} - {*found, "numbers"}:
        raise ValueError(f"its columns are not scaled by {scale!r}")
    if (found["unit"] <= 0).any() or ("soft" in found and (found["soft"] <= 0).any()):
        raise ValueError("the units of its columns must be positive")
    return Scaling(**found)


def _restore_indicators(arrays: Mapping[str, NDArray[Any]]) -> Indicators | None:
    """Return which whole numbers become indicators; None if none do."""
    if "indicators.values" not in arrays:
        return None
    kept, columns, values = (arrays[f"indicators.{name}"] for name in Indicators._fields)
    found = Indicators(kept, columns, values)
    known = np.unique(found.sources)
    if kept.dtype.kind != "i" or columns.dtype.kind != "i" or known.tolist() != list(range(len(known))):
        raise ValueError("its indicators are of columns that are not there")
    if len(columns) != len(values) or len(np.unique(kept)) != len(kept) or not np.isfinite(values).all():
        raise ValueError("its indicators do not fit together")
    return found


def _restore_model(arrays: Mapping[str, NDArray[Any]], about: About, lift: SphereLift) -> KernelModel:
    said, angles = about["kernel"], lift.angles_
    shares = Shares(*map(float, said["parts"]))
    valid = min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9
    if not valid or (shares == Shares()) != (angles is None):
        raise ValueError("the shares of its parts are not valid")
    bias = check_number(said["bias"], "bias", least=0.0)
    if bias != lift.bias:
        raise ValueError("its lift has another bias")
    shift = NetworkSettings.checked(width=2, dimension=1, shift=check_number(said["shift"], "shift", least=0.0)).shift
    kernel = SphereKernel(bias, shift)
    kernel = kernel if angles is None else kernel._replace(parts=Parts.of(len(angles), shares))
    d = len(lift.scaling_.mean) if lift.metric is None else np.shape(lift.metric)[1]
    wide = d + bool(lift.rest) + bool(bias) + (0 if angles is None else len(angles))
    (n, _), outputs = arrays["inputs"].shape, arrays["alpha"].shape[1]
    inputs, alpha = _floats(arrays, "inputs", (n, wide), single=True), _floats(arrays, "alpha", (n, outputs))
    penalty, way = _floats(arrays, "penalty", (n,)), str(about["way"])
    ridge = check_number(about["ridge"], "ridge", above=0.0)
    if not (penalty > 0).all() or not n or not outputs or way not in ("exact", "centres", "leaves"):
        raise ValueError("its penalties, outputs or way are not valid")
    pivots = core = leaves = None
    if "pivots" in arrays:
        r = len(arrays["pivots"])
        pivots = _floats(arrays, "pivots", (r, wide), single=True)
        core = _floats(arrays, "core", (r, r))
        if not r or not (core.diagonal() > 0).all() or not _of_unit_norm(pivots, kernel):
            raise ValueError("its pivots are no inputs, or not described by a triangle")
    if "leaves.starts" in arrays:
        leaves = Leaves(*(arrays[f"leaves.{name}"] for name in Leaves._fields))
        check_leaves(leaves, n)
    if (pivots is None and ("core" in arrays or way != "exact")) or (leaves is None) == (way == "leaves"):
        raise ValueError("its pivots or leaves are missing, or there are some too many")
    if not _of_unit_norm(inputs, kernel):
        raise ValueError("inputs are not of unit norm")
    if not isinstance(about["double"], bool):
        raise TypeError(f"double is {str(about['double'])[:40]!r}")
    return KernelModel(lift, kernel, inputs, alpha, penalty, ridge, way, pivots, core, leaves, about["double"])


def _of_unit_norm(inputs: NDArray[Any], kernel: SphereKernel) -> bool:
    """Return whether inputs (n, d) are unit vectors, followed by angles of single columns if the kernel has such."""
    return bool(np.abs(np.linalg.norm(kernel.split(inputs)[0], axis=1) - 1).max() <= _UNIT)


def _restore_regressor(estimator: Any, arrays: Mapping[str, NDArray[Any]], about: About, outputs: int) -> None:
    if not isinstance(about["single_target"], bool):
        raise TypeError(f"single_target is {str(about['single_target'])[:40]!r}")
    if about["single_target"] and outputs > 1:
        raise ValueError(f"{outputs} outputs for a single target")
    estimator.single_target_ = about["single_target"]
    own = {name.removeprefix("predictive."): name for name in arrays if name.startswith("predictive.")}
    found: dict[str, Any] = {name: _floats(arrays, own[name], (outputs,)) for name in ("mean", "unit")}
    counts = "dispersion" in own
    found["noise"] = _floats(arrays, own["noise"], (3, outputs))
    found["residuals"] = _floats(arrays, own["residuals"], (0 if counts else len(LEVELS), outputs))
    if (found["noise"] < 0).any():
        raise ValueError("its error bars must not be negative")
    if (np.diff(found["residuals"], axis=0) < 0).any():
        raise ValueError("the quantiles of its residuals must ascend")
    if "floor" in own:
        found["floor"] = _floats(arrays, own["floor"], (outputs,))
    if counts:
        spread = found["dispersion"] = _floats(arrays, own["dispersion"], (4,))
        if outputs > 1 or not ((spread >= 0).all() and spread[0]):
            raise ValueError("its counts do not vary in a way that is known")
    if "fits.levels" in own:
        found["fits"] = _restore_quantiles(arrays, own, estimator.model_, outputs)
    if counts and ("fits" in found or "floor" in found):
        raise ValueError("its counts have a floor, or quantiles of their own")
    estimator.predictive_ = Predictive(**found)


def _restore_quantiles(
    arrays: Mapping[str, NDArray[Any]], own: dict[str, str], model: KernelModel, outputs: int
) -> QuantileFits:
    """Return quantiles that are functions of their own."""
    levels, rows = arrays[own["fits.levels"]].astype(np.float64), len(arrays[own["fits.inputs"]])
    inputs = _floats(arrays, own["fits.inputs"], (rows, model.inputs.shape[1]))
    columns = outputs * len(levels)
    alpha, shifts = (
        _floats(arrays, own["fits.alpha"], (rows, columns)),
        _floats(arrays, own["fits.shifts"], (columns,)),
    )
    ascending = levels.ndim == 1 and len(levels) > 0 and bool((np.diff(levels) > 0).all())
    if not ascending or not (levels[0] > 0 and levels[-1] < 1) or not _of_unit_norm(inputs, model.kernel):
        raise ValueError("its quantiles are not valid")
    return QuantileFits(levels, inputs, alpha, shifts)


def _restore_classifier(estimator: Any, arrays: Mapping[str, NDArray[Any]], about: About, outputs: int) -> None:
    if not isinstance(about["multilabel"], bool):
        raise TypeError(f"multilabel is {str(about['multilabel'])[:40]!r}")
    estimator.multilabel_ = about["multilabel"]
    _fits("classes", estimator.classes_, (2 if outputs == 1 and not estimator.multilabel_ else outputs,))
    estimator.offset_ = _floats(arrays, "offset", (outputs,))
    temperature = _floats(arrays, "temperature", (outputs if estimator.multilabel_ else 1,))
    estimator.temperature_ = temperature if estimator.multilabel_ else float(temperature[0])
    estimator.loss_ = str(about["loss"])
    if estimator.loss_ not in ("log_loss", "squared_error") or not (temperature > 0).all():
        raise ValueError("its loss or its temperature is not valid")


def _restore_choice(name: Any, tried: Any, taken: Any, measure: Any) -> Choice:
    return Choice(str(name), {str(key): float(value) for key, value in tried.items()}, str(taken), str(measure))


def describe_table(estimator: Any) -> About:
    """Return the names of the columns of a table, and how they are encoded, as JSON knows it."""
    encoder = estimator.encoder_
    return {
        "names": list(map(str, estimator.feature_names_in_)) if hasattr(estimator, "feature_names_in_") else None,
        "encoder": None if encoder is None else encoder.to_json(),
        "reading": None if encoder is None or encoder.reading_ is None else encoder.reading_._asdict(),
        "notes": [] if encoder is None else list(map(str, encoder.notes_)),
    }


def restore_table(estimator: Any, about: About) -> TableEncoder | None:
    """Give an estimator of some number of columns what :func:`describe_table` described; return its encoder."""
    names, told = about["names"], about["encoder"]
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        _fits("names", estimator.feature_names_in_, (estimator.n_features_in_,))
    encoder = estimator.encoder_ = None if told is None else TableEncoder.from_json(told, named=names is not None)
    if encoder is None:
        return None
    if names not in (None, list(encoder.kinds_)):
        raise ValueError("its encoder is of columns with other names")
    if len(encoder.kinds_) != estimator.n_features_in_:
        raise ValueError("its encoder is of another number of columns")
    encoder.reading_ = None if about["reading"] is None else restore_reading(about["reading"])
    encoder.notes_ = [str(note) for note in about["notes"]]
    return encoder


def describe_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator as JSON knows them."""
    found = {name: _plain(value) for name, value in estimator.get_params().items() if name not in _NOT_SAVED}
    if isinstance(found.get("class_weight"), Mapping):
        found["class_weight"] = [(_plain(name), float(value)) for name, value in found["class_weight"].items()]
    if "quantiles" in found:
        found["quantiles"] = [*map(float, found["quantiles"])]
    if not isinstance(found["categorical_features"], str | None):
        found["categorical_features"] = np.asarray(found["categorical_features"]).tolist()
    if not isinstance(found["random_state"], int | None):
        found["random_state"] = None
    return found


def restore_parameters(told: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator from what a file says."""
    parameters = dict(told)
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(parameters["class_weight"])
    if "quantiles" in parameters:
        parameters["quantiles"] = tuple(parameters["quantiles"])
    return parameters


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
