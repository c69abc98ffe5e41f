"""Parameters of the estimators, each refused with what it must be."""

from __future__ import annotations

import math
from typing import Any

from thresher.checks import check_number, check_whole
from thresher.devices import DEVICES
from thresher.errors import InvalidInput
from thresher.estimators.data.scaling import SCALES
from thresher.parallel import core_count
from thresher.theory import Shares

__all__ = ["LOSSES", "PARTS", "check_loss", "check_parameters", "shares_of", "threads_of"]

SEQUENCES = ("random", "hadamard")
APPROXIMATIONS = ("auto", "exact", "centres", "leaves")
LOSSES = ("squared", "huber", "poisson", "quantile", "auto")  # of a regressor
PARTS = {
    "all": Shares(),
    "columns": Shares(0.0, 1.0),
    "pairs": Shares(0.0, 0.5, 0.5),
}


def check_parameters(model: Any) -> None:
    """Refuse what no fit could mean, before anything else is looked at."""
    if model.width not in ("auto", math.inf):
        check_whole(model.width, "width", least=1)
    for name in ("shift", "bias", "ridge"):
        if getattr(model, name) != "auto":
            check_number(getattr(model, name), name, least=0.0)
    rounds = model.feature_learning
    if isinstance(rounds, str) and rounds not in ("auto", "columns"):
        raise InvalidInput(f"feature_learning must be 'auto', 'columns' or a number of rounds; got {rounds!r}.")
    if not isinstance(rounds, str):
        check_whole(rounds, "feature_learning", least=0)
    words = {"scale": ("auto", *SCALES), "approximation": APPROXIMATIONS, "device": DEVICES, "start": SEQUENCES}
    for name, known in words.items():
        if getattr(model, name) not in known:
            raise InvalidInput(f"{name} must be one of {', '.join(map(repr, known))}; got {getattr(model, name)!r}.")
    if shares_of(model.parts, model.width) not in (None, Shares()) and model.ridge == 0:
        raise InvalidInput("ridge=0 trains networks, which see all columns at once. Use parts='all', or a ridge.")
    threads_of(model.n_jobs)
    if model.tol != "auto":
        check_number(model.tol, "tol", least=0.0)
    if model.max_iterations != "auto":
        check_whole(model.max_iterations, "max_iterations", least=1)
    if model.approximation in ("centres", "leaves") and model.width not in ("auto", math.inf):
        raise InvalidInput(f"approximation={model.approximation!r} is for infinite width. Leave width out.")
    if model.approximation == "leaves" and model.bias == 0:
        raise InvalidInput("leaves need a bias above 0. Use another bias, or approximation='centres'.")


def check_loss(model: Any, *, interpolates: bool) -> None:
    """Refuse a loss of a regressor that is none, or that goes with no such fit."""
    if model.loss not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(map(repr, LOSSES))}; got {model.loss!r}.")
    if model.loss in ("auto", "squared"):
        return
    if interpolates:
        raise InvalidInput(f"ridge=0 meets every target, whatever the loss. Leave loss={model.loss!r} or ridge=0 out.")
    if model.target == "log":
        raise InvalidInput(f"target='log' is for squares; got loss={model.loss!r}. Leave one of them out.")
    if model.loss != "huber" and model.width not in ("auto", math.inf):
        raise InvalidInput(f"loss={model.loss!r} is for infinite width. Leave width out.")
    if model.loss == "quantile":
        try:
            levels = [check_number(one, "a level of quantiles") for one in model.quantiles]
        except TypeError:
            levels = []
        if not levels or not all(0 < one < 1 for one in levels):
            raise InvalidInput(
                "quantiles must be numbers between 0 and 1, such as (0.05, 0.5, 0.95); "
                f"got {str(model.quantiles)[:60]}."
            )


def shares_of(parts: Any, width: Any) -> Shares | None:
    """Return the shares of the parts of a kernel that ``parts`` stands for; None if they are to be chosen.

    Networks of finite width see all columns.
    """
    finite = width not in ("auto", math.inf)
    if not isinstance(parts, str) or parts not in (*PARTS, "auto"):
        names = ", ".join(map(repr, ("auto", *PARTS)))
        raise InvalidInput(f"parts must be one of {names}; got {str(parts)[:80]!r}.")
    if parts == "auto":
        return Shares() if finite else None
    shares = PARTS[parts]
    if finite and shares != Shares():
        raise InvalidInput("networks of finite width see all columns at once. Use parts='all', or width=float('inf').")
    return shares


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads that ``n_jobs`` stands for: None for all cores, negative for all but some."""
    if n_jobs is None:
        return core_count()
    jobs = check_whole(n_jobs, "n_jobs", least=-(1 << 20))
    if jobs == 0:
        raise InvalidInput("n_jobs must be a number of threads, or negative for all but some cores; got 0.")
    return jobs if jobs > 0 else max(1, core_count() + 1 + jobs)
