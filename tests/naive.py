"""The definitions in their slow, obvious form: NumPy and loops, nothing of the package."""

from itertools import pairwise

import numpy as np
from scipy.stats import norm

HALVINGS = 12


def preactivations(W, X):
    """<w_r, x_i> for all pairs (m, n), each summed from left to right."""
    Z = np.zeros((len(W), len(X)))
    for k in range(X.shape[1]):
        Z += np.outer(W[:, k], X[:, k])
    return Z


def firing(W, X, shift):
    return preactivations(W, X) >= shift


def knots_and_slopes(activation, shift):
    """Of a named activation, or those that were given as a pair: thresholds, and one slope more."""
    named = {
        "relu": ([shift], [0, 1]),
        "max": ([shift], [0, 1]),
        "leaky": ([shift], [0.01, 1]),
        "abs": ([shift], [-1, 1]),
        "hard_tanh": ([-shift, shift], [0, 1, 0]),
        "hat": ([shift, shift + 1, shift + 2], [0, 1, -1, 0]),
    }
    return named[activation] if isinstance(activation, str) else activation


def activate(z, activation, shift):
    """phi(z): the slopes from 0 to z, each times the length of its piece; "max" is the shift more."""
    knots, slopes = knots_and_slopes(activation, shift)
    edges, total = [-np.inf, *knots, np.inf], shift if activation == "max" else 0.0
    for slope, low, high in zip(slopes, edges[:-1], edges[1:], strict=True):
        total += slope * (min(max(z, low), high) - min(max(0.0, low), high))
    return total


def slope_at(z, activation, shift):
    """phi'(z)."""
    knots, slopes = knots_and_slopes(activation, shift)
    return slopes[sum(z >= knot for knot in knots)]


def outputs(W, signs, X, shift, activation="relu"):
    Z = preactivations(W, X)
    if activation in ("relu", "max"):
        active = np.maximum(Z - shift, 0) if activation == "relu" else np.maximum(Z, shift)
    else:
        active = np.array([[activate(z, activation, shift) for z in row] for row in Z])
    return signs @ active / np.sqrt(len(W))


def slopes(W, X, shift, activation):
    """phi'(<w_r, x_i>) for all pairs (m, n)."""
    if activation in ("relu", "max"):
        return firing(W, X, shift).astype(float)
    return np.array([[slope_at(z, activation, shift) for z in row] for row in preactivations(W, X)])


def jacobian(W, signs, X, shift, activation="relu"):
    """J (n, m d): the derivative of the output on input i by entry k of w_r is a_r phi'(z_ri) x_i[k] / sqrt(m)."""
    slope = slopes(W, X, shift, activation)
    rows = [np.outer(signs * slope[:, i], X[i]).ravel() for i in range(len(X))]
    return np.array(rows) / np.sqrt(len(W))


def gram(W, signs, X, shift, activation="relu"):
    J = jacobian(W, signs, X, shift, activation)
    return J @ J.T


def mean_of_slopes(rho, knots, slopes, size=400):
    """E phi'(Z1) phi'(Z2) for N(0, 1) variables with correlation rho: over Z1 piece by piece, by Gauss and Legendre."""
    edges, total = [-9.0, *(k for k in knots if abs(k) < 9), 9.0], 0.0
    x, w = np.polynomial.legendre.leggauss(size)
    for low, high in pairwise(edges):
        z = (low + high) / 2 + x * (high - low) / 2
        first = slope_at((low + high) / 2, (knots, slopes), 0.0)
        inner = np.full(len(z), float(slopes[0]))
        for k, knot in enumerate(knots):  # Z2 given Z1 is N(rho Z1, 1 - rho²)
            inner += (slopes[k + 1] - slopes[k]) * norm.sf((knot - rho * z) / np.sqrt(1 - rho**2))
        total += first * np.sum(w * inner * norm.pdf(z)) * (high - low) / 2
    return total


def count_cofiring(fires):
    """C (n, n): how many neurons fire on both of two inputs."""
    m, n = fires.shape
    counts = np.zeros((n, n), dtype=int)
    for r in range(m):
        for i in range(n):
            for j in range(n):
                counts[i, j] += fires[r, i] and fires[r, j]
    return counts


def query(values, threshold):
    """What a tree over ``values`` (m,) must answer: the places at or above the threshold, ascending."""
    found = []
    for r in range(len(values)):
        if values[r] >= threshold:
            found.append(r)
    return found


def implicit_weights(W0, coefficients, X):
    """W0 (m, d) plus coefficients (m, n) on the inputs, input by input."""
    W = np.array(W0, dtype=np.float64)
    for j in range(len(X)):
        W += np.outer(coefficients[:, j], X[j])
    return W


def draw_rows(numbers, shares, normals, X, shift):
    """Start rows drawn where they fire, zero unless they are kept: first ``numbers[0]`` of input 0, then of input 1.

    A row comes from a share (rows,) of the probability above the shift, and normals (rows, d). It is kept if it fires
    on its own input and on none before.
    """
    rows, r = np.zeros(normals.shape, np.float32), 0
    for i in range(len(X)):
        for _ in range(numbers[i]):
            t = norm.isf(shares[r] * norm.sf(shift))
            g = normals[r].astype(np.float64)
            row = (t * X[i] + g - (X[i] @ g) * X[i]).astype(np.float32)
            fires = firing(row[None].astype(np.float64), X, shift)[0]
            if fires[i] and not fires[:i].any():
                rows[r] = row
            r += 1
    return rows


def hadamard_matrix(p):
    """H (p, p), p a power of 2: one row on top of the other, and beside them the same with the lower one negated."""
    H = np.ones((1, 1), np.float32)
    while len(H) < p:
        H = np.block([[H, H], [H, -H]])
    return H


def hadamard_signs(words, count):
    """1 or -1 for each of the first bits of random words, lowest first."""
    return np.array([1 - 2 * (int(words[k // 32]) >> k % 32 & 1) for k in range(count)], np.float32)


def hadamard_length(normal, word, p):
    """A number that is distributed as ±sqrt(chi² / p): the cube of a normal one, and a sign from the last bit."""
    share = np.float32(2) / np.float32(9 * p)
    root = np.float32(1) - share + np.float32(normal) * np.sqrt(share)
    return np.sqrt(root * root * root) * np.float32(1 - 2 * (int(word) & 1))


def hadamard_turns(words, normals):
    """S (p,) and T (p / 2, 2, 2): signs, and a turn of each pair of coordinates with a sign for each of the two.

    From words (p, 3) and the normal numbers (p,) that belong to the last of them: those of a pair give its angle.
    """
    signs = np.where(words & 1, -1.0, 1.0)
    turns = np.empty((len(words) // 2, 2, 2), np.float32)
    for k in range(len(turns)):
        a, b = np.float64(normals[2 * k]), np.float64(normals[2 * k + 1])
        cosine, sine = a / np.sqrt(a * a + b * b), b / np.sqrt(a * a + b * b)
        turns[k] = np.diag(signs[2 * k : 2 * k + 2, 1]) @ [[cosine, -sine], [sine, cosine]]
    return signs[:, 0].astype(np.float32), turns


def hadamard_row(j, D, S, T, length, d):
    """Row j of a block with signs D (p,): length / p times S H Tᵀ H D H_j, of which the first d numbers are kept."""
    p, H = len(D), hadamard_matrix(len(D))
    v = H @ (D * H[j])  # whole numbers
    turned = np.empty(p, np.float32)
    for k in range(p // 2):
        for side in range(2):
            turned[2 * k + side] = T[k, 0, side] * v[2 * k] + T[k, 1, side] * v[2 * k + 1]
    return (length * in_halves(turned) * S / np.float32(p))[:d]


def in_halves(values):
    """H times values, summed in the order in which the package does: halves of them first."""
    if len(values) == 1:
        return values
    first, second = np.split(values, 2)
    return np.concatenate([in_halves(first + second), in_halves(first - second)])


def rotated(X, S, T):
    """z = H T H S x / p for inputs X (n, d), padded with zeros; products with ±H_j D_k are those with rows."""
    p, H = len(S), hadamard_matrix(len(S)).astype(np.float64)
    padded = np.zeros((len(X), p))
    padded[:, : X.shape[1]] = X
    turned = ((padded * S) @ H).reshape(len(X), p // 2, 2)
    return np.einsum("kab,nkb->nka", T, turned).reshape(len(X), p) @ H / p


def condition(G):
    values = np.linalg.eigvalsh(G)
    return values[-1] / values[0] if values[0] > 0 else np.inf


def gauss_newton(W0, signs, X, y, *, shift, iterations, activation="relu", damping=0.0):
    """Dense Gauss-Newton with halved steps, from W0 (m, d): a list of states, the start included.

    A state is a dict of loss, residual, fires (m, n), weights (m, d), gram (n, n) and step, the fraction of the full
    step that led there. The list ends early once no step goes down. Singular systems get their minimum-norm solution.
    """
    W = np.array(W0, dtype=np.float64)
    r = outputs(W, signs, X, shift, activation) - y
    states = [_state(W, signs, X, shift, r, activation, step=0.0)]
    for _ in range(iterations):
        J = jacobian(W, signs, X, shift, activation)
        G = J @ J.T
        G_damped = G + damping * np.mean(np.diag(G)) * np.eye(len(X))
        g = np.linalg.lstsq(G_damped, r, rcond=1e-13)[0]
        taken = _descend(W, J, G, g, r, lambda V: outputs(V, signs, X, shift, activation) - y)
        if taken is None:
            break
        W, r, step = taken
        states.append(_state(W, signs, X, shift, r, activation, step=step))
    return states


def gauss_newton_step(residual, J, added):
    """The shortest s with the least |r + J s|² + added |s|²: by least squares over the parameters, not the rows."""
    p = J.shape[1]
    stacked = np.vstack([J, np.sqrt(added) * np.eye(p)])
    return np.linalg.lstsq(stacked, np.concatenate([-residual, np.zeros(p)]), rcond=1e-9)[0]


def _descend(W, J, G, g, r, residual_at):
    slope = r @ (G @ g)
    if slope <= 1e-12 * (r @ r):
        return None
    for halving in range(HALVINGS + 1):
        fraction = 0.5**halving
        W_new = W - fraction * (J.T @ g).reshape(W.shape)
        r_new = residual_at(W_new)
        if r_new @ r_new / 2 <= r @ r / 2 - 1e-4 * fraction * slope:
            return W_new, r_new, fraction
    return None


def _state(W, signs, X, shift, r, activation, *, step):
    return {
        "loss": r @ r / 2,
        "residual": np.linalg.norm(r),
        "fires": firing(W, X, shift),
        "weights": W,
        "gram": gram(W, signs, X, shift, activation),
        "step": step,
    }


def narrow(loss, f, y):
    """Slopes, and curvatures of parabolas that touch a loss, so narrow that steps gain half of what they promise."""
    slope, curvature = loss.slope(f, y), loss.curvature(f, y)
    for i in range(len(f)):

        def gained(h, i=i):
            there = f[i : i + 1] - slope[i] / h
            return (loss.value(f[i : i + 1], y[i : i + 1]) - loss.value(there, y[i : i + 1]))[0]

        while gained(curvature[i]) < slope[i] ** 2 / curvature[i] / 4:
            curvature[i] *= 2
    return slope, curvature


def loss_steps(W0, signs, X, y, loss, *, shift, fractions):
    """Generalised Gauss-Newton on a loss: the weights after each step.

    A step solves Jᵀ H J D = -Jᵀ l' for the shortest D. ``fractions`` say how far each step goes.
    """
    W, found = np.array(W0, dtype=np.float64), []
    for fraction in fractions:
        J, f = jacobian(W, signs, X, shift), outputs(W, signs, X, shift)
        slope, h = narrow(loss, f, y)
        step = -np.linalg.lstsq(np.sqrt(h)[:, None] * J, slope / np.sqrt(h), rcond=1e-13)[0]
        W = W + fraction * step.reshape(W.shape)
        found.append(W)
    return found


def softmax(F):
    """The shares of the classes at outputs (n, k)."""
    powers = np.exp(F - F.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def left_out(K, place, Y, weights, units, noise):
    """What ridge regression on a kernel, or a Gaussian process, says to each observation when it is not told of it.

    Observation i is at input ``place[i]`` of the kernel K with target Y[i] and the noise variance ``noise /
    weights[i]``; what is left out of it has the weight ``units[i]``: all, or one of several equal ones.

    Returns outputs (n, k) and variances (n,), each from a fit of its own.
    """
    outputs, variances = np.zeros_like(Y), np.empty(len(Y))
    for i in range(len(Y)):
        left = weights.copy()
        left[i] -= units[i]
        kept = np.flatnonzero(left > 1e-9)
        A = K[np.ix_(place[kept], place[kept])] + np.diag(noise / left[kept])
        towards = K[place[i], place[kept]]
        outputs[i] = towards @ np.linalg.solve(A, Y[kept])
        variances[i] = K[place[i], place[i]] - towards @ np.linalg.solve(A, towards)
    return outputs, variances


def negative_log_likelihood(K, Y, noises):
    """Of targets Y (n, k) under a Gaussian process with kernel K and these noise variances (n,), per observation.

    Both are multiplied by the factor under which the targets are likeliest.
    """
    n, k = Y.shape
    A = K + np.diag(noises)
    factor = np.sum(Y * np.linalg.solve(A, Y)) / (n * k)
    determinant = np.linalg.slogdet(2 * np.pi * factor * A)[1]
    return (k * determinant + np.sum(Y * np.linalg.solve(factor * A, Y))) / (2 * n)


def at_share(values, share):
    """The least of some values such that at least this share of them is not above it."""
    ordered = sorted(values)
    for place, value in enumerate(ordered):
        if (place + 1) / len(ordered) >= share - 1e-9:
            return value
    raise AssertionError("no share is above 1")


def middle_and_spread(column):
    """The median, and the deviation of a normal distribution with the same quartiles; with farther ones if equal."""
    middle = at_share(column, 0.5)
    for share, deviations in ((0.25, 0.6744897501960817), (0.1, 1.2815515655446004), (0.02, 2.0537489106318225)):
        spread = (at_share(column, 1 - share) - at_share(column, share)) / (2 * deviations)
        if spread > 0:
            return middle, spread
    spread = np.sqrt(np.mean((column - middle) ** 2))
    return middle, spread if spread > 0 else 1.0


def pulled_in(value, low, high, soft):
    """A value, or its bound and so many units as the logarithm of the distance says."""
    if value > high:
        return high + soft * np.log1p((value - high) / soft)
    return low - soft * np.log1p((low - value) / soft) if value < low else value


def rank_level(column, value):
    """The share of a column below a value, equal ones counting by half."""
    return np.mean(column < value) + np.mean(column == value) / 2


def ridge_on_centres(K, C, y, weights, penalty):
    """alpha (M, k): least sum of w_i (f(x_i) - y_i)² + penalty alphaᵀ C alpha, with f = K alpha, K (n, M), C (M, M)."""
    W = np.diag(weights)
    return np.linalg.solve(K.T @ W @ K + penalty * C, K.T @ W @ y)


def kernel_ridge(K, y, weights, penalty):
    """alpha (n, k): least sum of w_i (f(x_i) - y_i)² + penalty alphaᵀ K alpha, with f = K alpha, K (n, n)."""
    return np.linalg.solve(K + np.diag(penalty / weights), y)


def penalised_counts(K, y, alpha, constant):
    """Slopes of the Poisson loss by outputs (n,), and alpha: at the least penalised loss one is -ridge the other."""
    slopes = np.array([np.exp(constant + K[i] @ alpha) - y[i] for i in range(len(y))])
    return slopes, alpha


def tree_weights(row, directions, thresholds, borders, children, leaves):
    """The weight of each leaf at a row: the product of the shares of all sides on the way to it."""
    weights = np.zeros(leaves)

    def descend(node, weight):
        if node < 0:
            weights[~node] += weight
            return
        away = float(row @ directions[node]) - thresholds[node]
        if borders[node] > 0:
            place = min(max((away + borders[node]) / (2 * borders[node]), 0.0), 1.0)
        else:
            place = 1.0 if away >= 0 else 0.0
        share = 3 * place**2 - 2 * place**3
        descend(children[node][0], weight * (1 - share))
        descend(children[node][1], weight * share)

    descend(0 if len(thresholds) else -1, 1.0)
    return weights


def means_by_value(values, targets, folds, prior):
    """Means of targets by value, drawn to the mean of all as if ``prior`` more rows had it.

    Returns a dict from values to means, and the mean (n,) that each row gets from rows of other folds.
    """

    def mean(value, rows):
        everything = sum(targets[i] for i in rows) / len(rows)
        some = [targets[i] for i in rows if values[i] == value]
        return (sum(some) + prior * everything) / (len(some) + prior)

    rows = range(len(values))
    others = [[j for j in rows if folds[j] != folds[i]] for i in rows]
    return {value: mean(value, rows) for value in values}, [mean(values[i], others[i]) for i in rows]


def permutation_importance(predict, error, X, y, column, orders):
    """How much the error grows, on average, when the cells of a column are put into other orders."""
    grown = []
    for order in orders:
        changed = X.copy()
        for i, other in enumerate(order):
            changed[i, column] = X[other, column]
        grown.append(error(predict(changed), y) - error(predict(X), y))
    return sum(grown) / len(grown)


def partial_dependence(predict, X, column, value):
    """The mean answer if every row had the same value in a column."""
    answers = []
    for row in X:
        changed = row.copy()
        changed[column] = value
        answers.append(predict(changed[None])[0])
    return sum(answers) / len(answers)


def coverage(actual, predicted, deviations, level):
    """The share of rows within error bars that should hold a share ``level``, if errors are normal."""
    reach = norm.ppf(0.5 + level / 2)
    inside = [abs(a - p) <= reach * s for a, p, s in zip(actual, predicted, deviations, strict=True)]
    return sum(inside) / len(inside)


def conformal_quantile(errors, level):
    """What a new error is below with this probability: of n errors the i-th is at i / (n + 1), in between a line."""
    ordered, place = sorted(errors), level * (len(errors) + 1)
    below = min(max(int(place), 1), len(ordered) - 1) if len(ordered) > 1 else 1
    first, second = ordered[below - 1], ordered[min(below, len(ordered) - 1)]
    return first + (place - below) * (second - first)


def recall_and_precision(actual, predicted, label):
    found = [p == label for a, p in zip(actual, predicted, strict=True) if a == label]
    right = [a == label for a, p in zip(actual, predicted, strict=True) if p == label]
    return tuple(sum(ones) / len(ones) if ones else float("nan") for ones in (found, right))


def area_under_curve(chances, truth):
    """The share of pairs of a row that has the class and one that has not where the first has the higher chance."""
    pairs = [(a > b) + (a == b) / 2 for a, one in zip(chances, truth, strict=True) if one
             for b, other in zip(chances, truth, strict=True) if not other]  # fmt: skip
    return sum(pairs) / len(pairs)


def average_precision(chances, truth):
    """The mean, over the rows that have the class, of the precision of answers from their chance on."""
    found = []
    for chance, one in zip(chances, truth, strict=True):
        if one:
            answered = [other for c, other in zip(chances, truth, strict=True) if c >= chance]
            found.append(sum(answered) / len(answered))
    return sum(found) / len(found)


def calibration(chances, has, least):
    """Mean probability, share that has the class, and number of rows, in groups of rows with like probabilities.

    Groups end at tenths of 1 and tenths of the rows; from the top, one of fewer than ``least`` rows joins the next.
    """
    pairs = sorted(zip(chances, has, strict=True))
    ends = sorted({k / 10 for k in range(1, 10)} | {float(np.quantile(chances, k / 10)) for k in range(1, 10)})
    groups = []
    for low, high in zip([-1.0, *ends], [*ends, 2.0], strict=True):
        groups.append([(c, r) for c, r in pairs if low <= c < high])
    for k in range(len(groups) - 1, 0, -1):
        if len(groups[k]) < least:
            groups[k - 1], groups[k] = groups[k - 1] + groups[k], []
    filled = [group for group in groups if group]
    if len(filled) > 1 and len(filled[0]) < least:
        filled = [filled[0] + filled[1], *filled[2:]]
    return [(sum(c for c, _ in one) / len(one), sum(r for _, r in one) / len(one), len(one)) for one in filled]


def lifted(rows, last, metric=None):
    """Rows (n, d), under a metric, with one more coordinate ``last``, each divided by its norm."""
    found = []
    for row in rows:
        turned = row if metric is None else np.array([row @ column for column in np.asarray(metric).T])
        longer = np.append(turned, last)
        found.append(longer / np.sqrt(np.sum(longer**2)))
    return np.array(found)


def limit_kernel(X, Y, shift):
    """<x, y> P(Z >= shift on both) for inputs X (k, d) and Y (n, d) of unit norm: an integral over one of the two."""
    z, step = np.linspace(shift, shift + 10.0, 2_001, retstep=True)
    simpson = step / 3 * np.r_[1, np.tile([4, 2], 999), 4, 1]
    found = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            rho = float(np.clip(x @ y, -1.0, 1.0))
            if abs(rho) > 1 - 1e-12:
                both = norm.sf(shift) if rho > 0 else max(0.0, 1 - 2 * norm.cdf(shift))
            else:
                values = norm.pdf(z) * norm.sf((shift - rho * z) / np.sqrt(1 - rho**2))
                both = simpson @ values
            found[i, j] = rho * both
    return found


def column_kernel(x, y, *, category):
    """What neurons that see one column make of two cells: of numbers by the angle of (x, 1) and (y, 1)."""
    if category:
        return 1.0 if x == y else 0.0
    angle = np.arctan2(abs(x - y), 1 + x * y)
    return np.cos(angle) * (1 - angle / np.pi)


def kernel_of_parts(X, Y, cells, others, *, categories, shift, shares):
    """A kernel of parts between inputs X (k, d) with cells (k, u) and Y (n, d) with others (n, u).

    ``categories`` (u,) says which columns of cells are categories; the others are normal quantiles. ``shares`` are
    those of all columns, single columns, pairs and the layer.
    """
    whole, single, pairs, layer = shares
    found = whole * limit_kernel(X, Y, shift) if whole else np.zeros((len(X), len(Y)))
    for i, mine in enumerate(cells):
        for j, its in enumerate(others):
            columns = [column_kernel(x, y, category=one) for x, y, one in zip(mine, its, categories, strict=True)]
            mean = sum(columns) / len(columns)
            both = [columns[k] * columns[other] for k in range(len(columns)) for other in range(k)]
            middle = sum(both) / len(both) if both else mean
            top = mean * (1 - np.arccos(np.clip(mean, -1, 1)) / np.pi)
            found[i, j] += norm.sf(shift) * (single * mean + pairs * middle + layer * top)
    return found


def fit_by_loss(K, Y, weights, slope, curvature, level, *, steps=400):
    """Coefficients (n, k) and outputs of the least ``sum_i w_i l(y_i, f_i) + level/2 sum_k a_k' K a_k``, f = K a.

    By plain Newton steps in all n k unknowns with halved steps where slopes grow; ``curvature`` (n, k, k) of each row.
    """
    n, k = Y.shape
    big, a = np.kron(K, np.eye(k)), np.zeros(n * k)

    def gradient(a):
        return (weights[:, None] * slope((big @ a).reshape(n, k), Y)).ravel() + level * a

    for _ in range(steps):
        g, W = gradient(a), np.zeros((n * k, n * k))
        bend = curvature((big @ a).reshape(n, k), Y)
        for i in range(n):
            W[i * k : i * k + k, i * k : i * k + k] = weights[i] * bend[i]
        step = -np.linalg.solve(level * np.eye(n * k) + W @ big, g)
        while np.linalg.norm(gradient(a + step)) > np.linalg.norm(g) > 1e-9:
            step = step / 2
        a = a + step
        if np.linalg.norm(step) <= 1e-10 * np.linalg.norm(a):
            break
    return a.reshape(n, k), (big @ a).reshape(n, k)
