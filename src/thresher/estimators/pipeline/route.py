"""What the two routes of a fit have in common: the steps, and what each of them hands on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.single_columns import Angles
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import Coordinates
from thresher.estimators.models.fit_check import Asked
from thresher.estimators.models.fitted import LimitFit, Networks
from thresher.estimators.options import Learning
from thresher.estimators.pipeline.scale import Scale
from thresher.theory import Shares

__all__ = ["Features", "Model", "Route"]


class Features(NamedTuple):
    """The kernel that was chosen, on coordinates made of scaled columns."""

    coordinates: Coordinates
    choice: Choice
    learning: Learning
    some: Observations  # at these coordinates, some rows by which importances are told
    angles: Angles | None = None  # what sees raw columns one by one, if the kernel has such parts
    errors_of_parts: dict[Shares, float] = {}  # on observations left out, of the shares that were tried  # noqa: RUF012


class Model(NamedTuple):
    """A model of all rows, its networks if there are any, and rows whose answers are known."""

    limit: LimitFit
    networks: Networks | None
    asked: Asked
    last: float  # the bias coordinate of its inputs
    why: str = ""  # this width, if networks were compared with the limit


class Route(Protocol):
    """How the steps are taken for some number of rows."""

    def computing(self) -> AbstractContextManager[object]:
        """Return a context for everything that follows."""

    def choose_scale(self) -> Scale:
        """Return the scale of the columns."""

    def choose_kernel(self, scale: Scale) -> Features:
        """Return the kernel, with the features that help, and a ridge to begin with."""

    def fit(self, ridge: float | None) -> Model:
        """Return the model of all rows; if a ridge is given, it is made again with that one and with more care."""
