"""Effects in their slow, obvious form: linear functionals of independent functions, and their covariances."""

import numpy as np


def main_functional(weights, column, columns):
    """The main effect at the last point: what multiplies functions of units (vectors) and of two of them (matrices)."""
    mean, here = np.append(weights / weights.sum(), 0.0), np.eye(len(weights) + 1)
    left = here[-1] - mean
    found = {j: left for j in range(len(columns)) if columns[j] == column}
    for j in range(len(columns)):
        for k in range(j + 1, len(columns)):
            found[j, k] = np.zeros(here.shape)
            if columns[j] == column:
                found[j, k] += np.outer(left, mean)
            if columns[k] == column:
                found[j, k] += np.outer(mean, left)
            if columns[j] == columns[k] == column:
                found[j, k] += np.outer(left, left)
                found[j, k] -= sum(w * np.outer(at - mean, at - mean) for w, at in zip(mean, here, strict=True))
    return found


def pair_functional(weights, one, other, columns):
    left = np.append(-weights / weights.sum(), 1.0)
    units = [(j, k) for j in range(len(columns)) for k in range(j + 1, len(columns))]
    return {both: np.outer(left, left) for both in units if {columns[both[0]], columns[both[1]]} == {one, other}}


def covariance_of(one, other, kernels, single, pair):
    """Of two functionals of independent functions of units, and of pairs of them; kernels (u, p, p) at all points."""
    found = 0.0
    for key in set(one) & set(other):
        if isinstance(key, tuple):
            found += pair * np.sum((kernels[key[0]] @ other[key] @ kernels[key[1]].T) * one[key])
        else:
            found += single * one[key] @ kernels[key] @ other[key]
    return found
