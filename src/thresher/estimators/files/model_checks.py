"""What a model file says is checked before it is believed."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_number, check_whole
from thresher.estimators.data.scaling import BY_RANK, PULLED, SCALES
from thresher.estimators.data.single_columns import Angles
from thresher.estimators.models.intervals import LEVELS
from thresher.estimators.parameters import LOSSES
from thresher.model.network import NetworkSettings
from thresher.theory import Shares

__all__ = ["check_fitted", "check_model"]

Matrix = NDArray[np.float64]
_UNIT = 2e-6  # by which the norm of an input in single precision may differ from 1


def check_fitted(values: dict[str, Any], *, classifies: bool) -> dict[str, Any]:
    """Return the values of a fitted estimator, each of its type; refuse others."""
    checked: dict[str, Any] = {
        "bias_": check_number(values["bias_"], "bias", least=0.0),
        "shift_": NetworkSettings.checked(width=2, dimension=1, shift=check_number(values["shift_"], "shift")).shift,
        "ridge_": check_number(values["ridge_"], "ridge", least=0.0),
        "loo_error_": float(values["loo_error_"]),
        "loo_share_": float(values["loo_share_"]),
        "feature_learning_": check_whole(values["feature_learning_"], "feature_learning", least=0),
        "n_iter_": check_whole(values["n_iter_"], "n_iter", least=0),
        "n_features_in_": check_whole(values["n_features_in_"], "n_features_in", least=1),
        "scale_": str(values["scale_"]),
        "columns_weighed_": bool(values["columns_weighed_"]),
        "double_precision_": bool(values["double_precision_"]),
        "width_reason_": str(values.get("width_reason_", "not known"))[:400],
    }
    if classifies:
        return {**checked, "multilabel_": bool(values["multilabel_"]), **_check_loss(values)}
    if not isinstance(values["single_target_"], bool):
        raise TypeError(f"single_target is {str(values['single_target_'])[:40]!r}")
    if values["target_"] not in ("linear", "log"):
        raise ValueError(f"targets are {str(values['target_'])[:40]!r}")
    loss = str(values.get("loss_", "squared"))  # of which earlier versions had none
    if loss not in LOSSES[:-1]:
        raise ValueError(f"the loss is {loss[:40]!r}")
    found = {"single_target_": values["single_target_"], "target_": values["target_"], "loss_": loss}
    return {**checked, **found}


def _check_loss(values: dict[str, Any]) -> dict[str, Any]:
    """Return by which loss a classifier was fitted, which earlier versions did not say: squares."""
    loss = values.get("loss_", "squared")
    if loss not in ("squared", "log", "mixed"):
        raise ValueError(f"its loss is {str(loss)[:40]!r}")
    return {
        "loss_": loss,
        "loss_reason_": str(values.get("loss_reason_", "not known"))[:400],
        "loss_ridge_": check_number(values.get("loss_ridge_", values["ridge_"]), "loss_ridge", least=0.0),
    }


def check_model(estimator: Any, *, networks: int) -> None:
    """Refuse parts that do not fit together: predictions must not depend on luck."""
    outputs, penalised = len(estimator.gains_), estimator.ridge_ > 0
    lift, scaling, labels = estimator.lift_, estimator.lift_.scaling_, estimator._class_labels
    solved = [estimator.alpha_, estimator.penalty_] if penalised else []
    noise = estimator.noise_ if penalised and labels is None else np.zeros((3, outputs))
    residuals = estimator.residuals_ if penalised and labels is None else np.zeros((len(LEVELS), outputs))
    frame, floor = estimator._target_frame(), estimator._floor
    for name, (found, expected) in _shapes(estimator, solved, noise, residuals).items():
        if found != expected:
            raise ValueError(f"{name} has shape {found}, not {expected}")
    more = (*scaling, lift.metric, lift.weights, floor, None if labels is None else estimator.temperature_)
    numbers = [estimator.inputs_, estimator.gains_, *solved, noise, residuals, *frame, lift.last_]
    if not all(np.isfinite(one).all() for one in (*numbers, *(one for one in more if one is not None))):
        raise ValueError("some numbers are not finite")
    if labels is not None and np.min(estimator.temperature_) <= 0:
        raise ValueError("its temperature must be positive")
    odds = getattr(estimator, "loss_penalty_", None)
    if labels is not None and ((odds is None) != (estimator.loss_ == "squared") or not _valid_penalty(odds, estimator)):
        raise ValueError("it has no penalties of its loss, or some that are not valid")
    positive = not penalised or (estimator.penalty_ > 0).all()
    if lift.scale not in SCALES or (lift.bias > 0) != (lift.last_ > 0) or not positive:
        raise ValueError("its scale, bias or penalty is not valid")
    if scaling.soft is not None and (scaling.soft <= 0).any():
        raise ValueError("the units in which columns are pulled in must be positive")
    if (scaling.knots is None) == (lift.scale in BY_RANK) or (scaling.low is None) == (lift.scale in PULLED):
        raise ValueError(f"its columns are not scaled by {lift.scale!r}")
    if scaling.knots is not None and (len(scaling.knots[0]) < 3 or (np.diff(scaling.knots[0], axis=0) < 0).any()):
        raise ValueError("its knots are too few, or do not ascend")
    spread = getattr(estimator, "dispersion_", None)
    if labels is None and (estimator.loss_ == "poisson") != (spread is not None):
        raise ValueError("its counts do not say how they vary")
    if labels is None and (estimator.loss_ == "quantile") != (estimator.quantile_fits_ is not None):
        raise ValueError("its quantiles are missing")
    if spread is not None and not (
        spread.shape == (4,) and np.isfinite(spread).all() and (spread >= 0).all() and spread[0]
    ):
        raise ValueError("its counts do not vary in a way that is known")
    if spread is not None and (outputs > 1 or estimator.target_ != "log" or estimator.floor_.any()):
        raise ValueError("its counts have no logarithms")
    if (noise < 0).any():
        raise ValueError("its error bars must not be negative")
    if (np.diff(residuals, axis=0) < 0).any():
        raise ValueError("the quantiles of its residuals must ascend")
    if labels is None and estimator.single_target_ and outputs > 1:
        raise ValueError(f"{outputs} outputs for a single target")
    if not _of_unit_norm(estimator.inputs_, estimator) or (scaling.unit <= 0).any():
        raise ValueError("inputs are not of unit norm")
    if estimator._interpolates == penalised:
        raise ValueError("its ridge is not the one that was asked for")
    pivots, core = estimator.pivots_, estimator.core_
    if (pivots is None) != (core is None) or (pivots is not None and not _valid_pivots(pivots, core, estimator)):
        raise ValueError("its pivots are no inputs, or not described by a triangle")
    shares, angles = estimator.parts_, lift.angles_
    valid = min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9
    if not valid or (shares == Shares()) != (angles is None):
        raise ValueError("the shares of its parts are not valid")
    if angles is not None:
        _check_angles(angles, columns=len(scaling.mean))
    if networks != (0 if estimator.width == math.inf else outputs):
        raise ValueError(f"{networks} networks for {outputs} outputs")


def _valid_penalty(penalty: Matrix | None, estimator: Any) -> bool:
    """Return whether penalties (n,) of a fit by log loss are there for each input, and its ridge is above zero."""
    if penalty is None:
        return True
    fits = (
        penalty.shape == (len(estimator.inputs_),) and estimator.loss_ridge_ > 0 and np.all(estimator.temperature_ == 1)
    )
    return bool(fits and np.isfinite(penalty).all() and (penalty > 0).all())


def _check_angles(angles: Angles, *, columns: int) -> None:
    """Refuse columns that are not there, and quantiles that are none."""
    if not {*angles.numbers, *chain(*angles.groups)} <= set(range(columns)):
        raise ValueError("its kernel sees columns that are not there")
    if not len(angles.numbers):
        return
    scaling, shape = angles.scaling, (len(angles.numbers),)
    if scaling.low is None or scaling.high is None or scaling.soft is None or scaling.knots is None:
        raise ValueError("its kernel sees columns without their quantiles")
    flat = (scaling.mean, scaling.unit, scaling.low, scaling.high, scaling.soft)
    if any(one.shape != shape for one in flat) or scaling.knots.shape != (2, *scaling.knots.shape[1:2], *shape):
        raise ValueError("the quantiles of its single columns do not fit together")
    finite = all(np.isfinite(one).all() for one in (*flat, scaling.knots))
    ascending = finite and scaling.knots.shape[1] >= 3 and (np.diff(scaling.knots[0], axis=0) >= 0).all()
    if not ascending or not (scaling.unit > 0).all() or not (scaling.soft > 0).all():
        raise ValueError("the quantiles of its single columns are not valid")


def _valid_pivots(pivots: NDArray[Any], core: Matrix, estimator: Any) -> bool:
    """Return whether pivots (r, d) are inputs, and the core (r, r) is a triangle that can be divided by."""
    if pivots.shape[1:] != estimator.inputs_.shape[1:] or not len(pivots):
        return False
    whole = core.shape == (len(pivots),) * 2 and bool(np.isfinite(core).all())
    return _of_unit_norm(pivots, estimator) and whole and bool((core.diagonal() > 0).all())


def _of_unit_norm(inputs: NDArray[Any], estimator: Any) -> bool:
    """Return whether inputs (n, d) are unit vectors, followed by angles of single columns if the kernel has such."""
    return bool(np.abs(np.linalg.norm(estimator._kernel.split(inputs)[0], axis=1) - 1).max() <= _UNIT)


def _shapes(estimator: Any, solved: list[Matrix], noise: Matrix, residuals: Matrix) -> dict[str, tuple[Any, Any]]:
    """Return the shape of each part, and the one that it should have."""
    (n, _), (outputs,), raw = estimator.inputs_.shape, estimator.gains_.shape, estimator.n_features_in_
    encoder = estimator.encoder_
    d = given = raw if encoder is None else len(encoder.sources_)
    lift, scaling, labels = estimator.lift_, estimator.lift_.scaling_, estimator._class_labels
    d = d if lift.indicators_ is None else len(lift.indicators_.sources)
    turned = d if lift.metric is None else np.shape(lift.metric)[-1]
    angles = 0 if lift.angles_ is None else len(lift.angles_)
    knots = np.shape(scaling.knots)
    shapes: dict[str, tuple[Any, Any]] = {
        "inputs": (estimator.inputs_.shape, (n, turned + lift.rest + bool(estimator.bias_) + angles)),
        "rows": (lift.n_features_in_, given),
        "mean": (scaling.mean.shape, (d,)),
        "unit": (scaling.unit.shape, (d,)),
        "metric": (np.shape(lift.metric), (d, turned) if lift.metric is not None else ()),
        "weights": (np.shape(lift.weights), (d,) if lift.weights is not None else ()),
        "knots": (knots, (2, *knots[1:2], d) if scaling.knots is not None else ()),
        "noise": (noise.shape, (3, outputs)),
        "residuals": (residuals.shape, (len(LEVELS), outputs)),
    }
    shapes |= {f"solution {place}": (one.shape, (n, outputs)[: 2 - place]) for place, one in enumerate(solved)}
    bounds = [scaling.low, scaling.high, scaling.soft]
    shapes |= {f"bound {place}": (np.shape(one), np.shape(scaling.low) and (d,)) for place, one in enumerate(bounds)}
    frame = enumerate(estimator._target_frame())
    shapes |= {f"target {place}": (part.shape, (outputs,)) for place, part in frame}
    if labels is not None:
        shapes["classes"] = (labels.shape, (2 if outputs == 1 and not estimator.multilabel_ else outputs,))
        shapes["temperature"] = (np.shape(estimator.temperature_), (outputs,) if estimator.multilabel_ else ())
    if estimator._floor is not None:
        shapes["floor"] = (estimator._floor.shape, (outputs,))
    if hasattr(estimator, "feature_names_in_"):
        shapes["names"] = (estimator.feature_names_in_.shape, (raw,))
    if hasattr(estimator, "feature_importances_"):  # not with ridge=0
        shapes["feature importances"] = (estimator.feature_importances_.shape, (raw,))
    if encoder is not None:
        shapes["encoder"] = (len(encoder.kinds_), raw)
    return shapes
