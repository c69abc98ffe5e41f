"""How counts lie around their mean: Poisson's law, wider where observations left out say so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy

__all__ = ["count_deviations", "count_quantiles", "deviance_of", "dispersion_of"]

Matrix = NDArray[np.float64]
_LEAST, _MOST = -7.0, 2.0  # powers of ten of the dispersion that are tried
_PIECES = -3.0, 3.0  # powers of ten of the mean that may come at a time
_NARROW = 1e-2  # deviation of amounts above 0, relative to their mean, at the least


def deviance_of(counts: Matrix, means: Matrix, weights: Matrix) -> float:
    """Return the mean Poisson deviance of means (c,) for counts (c,)."""
    parts = xlogy(counts, np.maximum(counts, np.finfo(float).tiny) / means) - (counts - means)
    return 2 * float(np.average(parts, weights=weights))


def dispersion_of(counts: Matrix, means: Matrix, weights: Matrix) -> Matrix:
    """Return (factor, excess, whole, piece) (4,): the variance around a mean m is factor m + excess m².

    Whole counts have the law of a Poisson number whose mean varies (the negative binomial) with the excess under which
    they are most likely; amounts that are not whole have a gamma law, with the factor that they have shown. Where some
    are 0, one is so with the chance exp(-m / piece) that makes this likeliest, as if they came in pieces; else the
    ``piece`` is 0.
    """
    if (counts != np.rint(counts)).any():
        squares = (counts - means) ** 2 / means
        factor = max(float(np.average(squares, weights=weights)), np.finfo(float).tiny)
        return np.array([factor, 0.0, 0.0, _piece(counts == 0, means, weights)])

    def surprise(power: float) -> float:
        number = 10**-power
        told = gammaln(counts + number) - gammaln(number) - number * np.log1p(means / number)
        told += xlogy(counts, means / (number + means))
        return -float(np.average(told, weights=weights))

    found = minimize_scalar(surprise, bounds=(_LEAST, _MOST), method="bounded")
    plain = surprise(_LEAST)  # Poisson's law, but for rounding
    return np.array([1.0, 10**found.x if found.fun < plain else 0.0, 1.0, 0.0])


def _piece(none: NDArray[np.bool_], means: Matrix, weights: Matrix) -> float:
    """Return what comes at a time, on average, if it is likeliest that nothing (c,) came; 0 if all have some."""
    if not none.any():
        return 0.0
    unit = float(np.average(means, weights=weights))

    def surprise(power: float) -> float:
        number = means / (unit * 10**power)
        some = np.log(np.maximum(-np.expm1(-number), np.finfo(float).tiny))
        return -float(np.average(np.where(none, -number, some), weights=weights))

    return unit * 10 ** float(minimize_scalar(surprise, bounds=_PIECES, method="bounded").x)


def count_deviations(means: Matrix, dispersion: Matrix) -> Matrix:
    """Return the deviations of new counts around means, in their shape."""
    factor, excess, *_ = dispersion
    return np.sqrt(factor * means + excess * means**2)


def count_quantiles(means: Matrix, quantiles: Matrix, dispersion: Matrix) -> Matrix:
    """Return quantiles (c, q) of new counts around means (c,): whole numbers where counts are whole."""
    from scipy.stats import gamma, nbinom, poisson  # slow to import

    factor, excess, whole, piece = dispersion
    at = means[:, None]
    if piece:  # a gamma law of those above 0, with the mean and the variance that leaves
        some = -np.expm1(-at / piece)
        mean = at / some
        variance = np.maximum((factor + at) * mean - mean**2, (_NARROW * mean) ** 2)
        above = gamma.ppf(np.maximum(quantiles - (1 - some), 0) / some, mean**2 / variance, scale=variance / mean)
        found = np.where(quantiles > 1 - some, above, 0.0)
    elif not whole:
        found = gamma.ppf(quantiles, at / factor, scale=factor)
    elif excess == 0:
        found = poisson.ppf(quantiles, at)
    else:
        found = nbinom.ppf(quantiles, 1 / excess, 1 / (1 + excess * at))
    return np.asarray(found, np.float64)
