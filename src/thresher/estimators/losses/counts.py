"""How counts lie around their mean: Poisson's law, wider where observations left out say so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy

__all__ = ["count_deviations", "count_quantiles", "deviance_of", "dispersion_of"]

Matrix = NDArray[np.float64]
_LEAST, _MOST = -7.0, 2.0  # powers of ten of the dispersion that are tried


def deviance_of(counts: Matrix, means: Matrix, weights: Matrix) -> float:
    """Return the mean Poisson deviance of means (c,) for counts (c,)."""
    parts = xlogy(counts, np.maximum(counts, np.finfo(float).tiny) / means) - (counts - means)
    return 2 * float(np.average(parts, weights=weights))


def dispersion_of(counts: Matrix, means: Matrix, weights: Matrix) -> Matrix:
    """Return (factor, excess, whole) (3,): the variance around a mean m is factor m + excess m².

    Whole counts have the law of a Poisson number whose mean varies (the negative binomial) with the excess under which
    they are most likely; amounts that are not whole have a gamma law, with the factor that they have shown.
    """
    if (counts != np.rint(counts)).any():
        squares = (counts - means) ** 2 / means
        return np.array([max(float(np.average(squares, weights=weights)), np.finfo(float).tiny), 0.0, 0.0])

    def surprise(power: float) -> float:
        number = 10**-power
        told = gammaln(counts + number) - gammaln(number) - number * np.log1p(means / number)
        told += xlogy(counts, means / (number + means))
        return -float(np.average(told, weights=weights))

    found = minimize_scalar(surprise, bounds=(_LEAST, _MOST), method="bounded")
    plain = surprise(_LEAST)  # Poisson's law, but for rounding
    return np.array([1.0, 10**found.x if found.fun < plain else 0.0, 1.0])


def count_deviations(means: Matrix, dispersion: Matrix) -> Matrix:
    """Return the deviations of new counts around means, in their shape."""
    factor, excess, _ = dispersion
    return np.sqrt(factor * means + excess * means**2)


def count_quantiles(means: Matrix, quantiles: Matrix, dispersion: Matrix) -> Matrix:
    """Return quantiles (c, q) of new counts around means (c,): whole numbers where counts are whole."""
    from scipy.stats import gamma, nbinom, poisson  # slow to import

    factor, excess, whole = dispersion
    at = means[:, None]
    if not whole:
        found = gamma.ppf(quantiles, at / factor, scale=factor)
    elif excess == 0:
        found = poisson.ppf(quantiles, at)
    else:
        found = nbinom.ppf(quantiles, 1 / excess, 1 / (1 + excess * at))
    return np.asarray(found, np.float64)
