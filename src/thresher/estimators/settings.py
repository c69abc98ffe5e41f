"""Settings of a fit: what was asked, and the sizes at which a fit changes its ways."""

from __future__ import annotations

from typing import Any, NamedTuple

from thresher.checks import check_number, check_whole
from thresher.devices import DEVICES
from thresher.errors import InvalidInput
from thresher.estimators.data.single_columns import Groups
from thresher.estimators.interfaces import Backend
from thresher.parallel import core_count
from thresher.theory import Shares

__all__ = ["Settings", "Sizes", "check_parameters", "shares_of", "threads_of"]

APPROXIMATIONS = ("auto", "exact", "centres", "leaves")
PARTS = {"all": Shares(), "columns": Shares(0.0, 1.0), "pairs": Shares(0.0, 0.5, 0.5)}


class Sizes(NamedTuple):
    """Numbers of rows, columns and outputs; an estimator has one of these, and tests give it smaller ones."""

    chosen_on: int = 4096  # rows that everything is chosen on at most; up to here a fit is one Cholesky factor
    exact: int = 1 << 17  # rows up to which a fit may have a coefficient for each
    exact_cheap: int = 3 << 14  # rows up to which a processor makes such a fit unasked
    double: int = 1024  # training rows up to which predictions in double precision are quick enough
    for_judging: int = 8  # observations below which leaving some out says nothing
    for_choosing: int = 50  # observations from which transforms and columns are compared
    bias_rows: int = 512  # rows on which the bias, categories and logarithms are chosen
    columns: int = 512  # columns up to which a metric is learnt unasked
    spanned: int = 1000  # rows whose span is computed, in a second or two; columns of more are used as they are
    left_out: int = 1024  # rows that are left out one at a time at most; of more, the ridge is found on these
    learnt: int = 1 << 14  # rows that the last round of the metric is learnt from at most
    folds: int = 1024  # observations from which one part is left out while a metric is learnt, instead of each of four
    held: int = 4096  # rows that are held out at most where rows are many, a fifth of all at most
    scaled: int = 1 << 16  # rows from which the scales of columns are learnt
    sorted: int = 1 << 23  # numbers in these rows at most: columns times rows
    ridge_outputs: int = 4  # outputs beyond which the ridge of many rows is that of some of them
    centres: int = 2048  # centres that are tried first
    more_centres: int = 4096  # centres that are tried then, unless leaves are better
    sample: int = 40_000  # rows from which centres are drawn at most
    leaf: int = 4096  # rows of a leaf
    leaves_judged: int = 1000  # held-out rows that choose the ridge of leaves, and whether all are fitted
    rank: int = 1024  # rank of the preconditioner of an exact fit
    pivots: int = 512  # rows that error bars of many rows are made of
    known: int = 1 << 17  # rows that say what these pivots know


class Settings(NamedTuple):
    """What was asked of a fit; None is to be chosen."""

    backend: Backend
    shift: float
    biases: tuple[float, ...]  # to choose from; one if it was asked for
    shares: tuple[Shares, ...]  # of the parts of the kernel, to choose from; one if they were asked for
    ridge: float | None = None
    rounds: int | None = None  # of the metric
    approximation: str = "auto"
    groups: Groups = ()  # columns that are indicators of one category
    measured: tuple[int, ...] | None = None  # columns that may become categories; None for all
    guesses_categories: bool = False  # whether whole numbers of few values may become categories
    asked_for_parts: bool = False
    sizes: Sizes = Sizes()


def check_parameters(model: Any) -> None:
    """Refuse what no fit could mean, before anything else is looked at."""
    for name, least in (("bias", {"least": 0.0}), ("ridge", {"above": 0.0})):
        if getattr(model, name) != "auto":
            check_number(getattr(model, name), name, **least)
    rounds = model.feature_learning
    if isinstance(rounds, str) and rounds != "auto":
        raise InvalidInput(f"feature_learning must be 'auto' or a number of rounds; got {rounds!r}.")
    if not isinstance(rounds, str):
        check_whole(rounds, "feature_learning", least=0)
    for name, known in {"approximation": APPROXIMATIONS, "device": DEVICES}.items():
        if getattr(model, name) not in known:
            raise InvalidInput(f"{name} must be one of {', '.join(map(repr, known))}; got {getattr(model, name)!r}.")
    shares_of(model.parts)
    threads_of(model.n_jobs)
    if model.approximation == "leaves" and model.bias == 0:
        raise InvalidInput("leaves need a bias above 0. Use another bias, or approximation='centres'.")


def shares_of(parts: Any) -> Shares | None:
    """Return the shares of the parts of a kernel that ``parts`` stands for; None if they are to be chosen."""
    if not isinstance(parts, str) or parts not in (*PARTS, "auto"):
        names = ", ".join(map(repr, ("auto", *PARTS)))
        raise InvalidInput(f"parts must be one of {names}; got {str(parts)[:80]!r}.")
    return PARTS.get(parts)


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads that ``n_jobs`` stands for: None for all cores, negative for all but some."""
    if n_jobs is None:
        return core_count()
    jobs = check_whole(n_jobs, "n_jobs", least=-(1 << 20))
    if jobs == 0:
        raise InvalidInput("n_jobs must be a number of threads, or negative for all but some cores; got 0.")
    return jobs if jobs > 0 else max(1, core_count() + 1 + jobs)
