"""What a fit takes: memory, which is asked for before it is taken, and time, for the bar that shows progress."""

from __future__ import annotations

import math
from bisect import bisect_right

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.options import Options
from thresher.estimators.sizes import Sizes
from thresher.memory import allowed_bytes, available_bytes, require
from thresher.shards import block_bytes
from thresher.theory.limit_matrix import half_bytes

__all__ = ["auto_width", "check_sizes", "costs", "fewer_neurons", "learns", "require_memory"]

_MOST_NEURONS, _LEAST_WIDTH = 1 << 20, 1 << 10  # for all outputs together, and for one, with width="auto"
_MOST_PAIRS = 1 << 39  # width times the square of the rows, with width="auto": a second or two of counting bits
_PER_ROW = 32  # neurons for each training row, between bounds: the noise of a kernel grows with rows over neurons


def auto_width(rows: int, outputs: int, bounds: tuple[int, int], sizes: Sizes) -> int | float:
    """Return the neurons of each network that are enough for so many rows, between bounds; infinity for many rows."""
    if rows > sizes.one_by_one:
        return math.inf
    enough = min(max(_PER_ROW * rows, bounds[0]), bounds[1])
    return fewer_neurons(min(enough, max(_LEAST_WIDTH, _MOST_PAIRS // rows**2 // 2 * 2)), outputs)


def fewer_neurons(width: int, outputs: int) -> int:
    """Return the width, or as many neurons as each of many networks may have."""
    return min(width, max(_LEAST_WIDTH, _MOST_NEURONS // outputs // 2 * 2))


def require_memory(data: Observations, options: Options) -> None:
    """Refuse what does not fit, with the number of rows that would."""
    (n, d), outputs = data.X.shape, data.targets.shape[1]
    what = f"fitting {n:,} rows of {d:,} columns"
    if n <= options.sizes.one_by_one:
        allowed = allowed_bytes(None)
        fit = bisect_right(range(1, n), allowed, key=lambda rows: _bytes(rows, data, options))
        remedy = f"Fit on fewer rows or columns. About {fit:,} rows would fit."
        require(_bytes(n, data, options), budget=int(allowed), what=what, remedy=remedy, rows=fit)
    else:
        fixed, per_row = _many_bytes(data, options)
        may = int((0.9 * available_bytes() - fixed) / per_row)
        enough = may >= options.sizes.one_by_one
        remedy = f"About {may:,} rows would fit." if enough else "Close other programs, or use a larger machine."
        require(fixed + n * per_row, budget=None, what=what, remedy=remedy, rows=max(may, 0))
    options.backend.require(n, d, outputs)


def _bytes(n: int, data: Observations, options: Options) -> float:
    """Return about how many bytes a fit of so many of few rows takes."""
    d, outputs = data.X.shape[1], data.targets.shape[1]
    span, observed = min(n, d), len(data.row) * n / len(data)
    taken = 8 * (6 * n * n + 48 * n * outputs + 8 * n * d + (8 * span * span if learns(data, options) else 0))
    taken += 8 * observed * 6 * outputs
    if options.width == math.inf:
        return taken
    taken += options.threads * block_bytes(n, span + 1)
    if options.or_limit:  # networks are compared by their start, and rarely trained: then training asks for its memory
        return taken
    return taken + outputs * options.width * (9 * (span + 1) + n / 3)


def _many_bytes(data: Observations, options: Options) -> tuple[float, float]:
    """Return about how many bytes a fit of many rows takes whatever their number, and for each row.

    If no entry of the kernel is kept.
    """
    (n, d), outputs, sizes = data.X.shape, data.targets.shape[1], options.sizes
    exact = n <= sizes.exact or options.approximation == "exact"
    held, rank = 0 if data.on_disk else d, min(sizes.rank, n // 8)
    per_row = 8 * (4 * held + 24 * outputs) + 4 * held + (4 * rank if exact else 0)
    return half_bytes(min(n, sizes.large + sizes.held)) + 24 * rank**2, per_row


def learns(data: Observations, options: Options) -> bool:
    """Return whether features may be learnt from observations at few rows."""
    if options.plan is None and data.count.sum() < options.sizes.for_judging:
        return False
    return options.learns(min(data.X.shape[1], len(data)))


def check_sizes(data: Observations, options: Options) -> None:
    """Refuse networks on more rows than they are trained on, and kernels beyond single precision on many rows."""
    n, sizes = len(data), options.sizes
    if n > sizes.exact and options.width != math.inf and options.approximation != "exact":
        raise InvalidInput(f"networks are trained on at most {sizes.exact:,} distinct rows. Use width='auto'.")
    if n > sizes.one_by_one and options.shift is not None and not options.first_kernel.single:
        raise InvalidInput(
            f"shift={options.shift:g} is beyond single precision, which many rows need. Use a smaller one."
        )


def costs(data: Observations, options: Options) -> dict[str, float]:
    """Return roughly what each part costs, in multiplications: how progress is told and time left guessed."""
    (n, d), outputs, sizes = data.X.shape, data.targets.shape[1], options.sizes
    few, network = n <= sizes.one_by_one, options.width != math.inf
    width, ridges = float(options.width) if network else 0.0, 5.0 if options.ridge is None else 1.0
    some = float(min(n, options.rows if few else sizes.small))
    one = some**3 * ridges + 200 * some**2
    scale, biases = 5 * one if options.scale is None else 0.0, len(options.tried_biases)
    if not few:
        large, learnt = min(n, sizes.large), options.learns(d)
        return {
            "choosing the scale": scale,
            "choosing bias, shift and features": (biases + 3) * one + learnt * (15 * one + 1e3 * large**2),
            "fitting all rows": n * n * (50.0 + 2.5 * d + 300 * (1 + outputs)),
            "training": outputs * width * n * d * 25,
        }
    learnt, trained = learns(data, options), 0.0 if options.or_limit else width
    d = min(n, d)
    rounds = 15 * min(n, sizes.weighed) ** 3 + 3 * min(n, sizes.learnt) ** 3 + min(n, sizes.learnt_last) ** 3
    return {
        "choosing the scale": scale,
        "choosing bias and shift": (biases + 3) * one,
        "choosing features": 60 * some**3 if options.plan is None and learnt else 0.0,
        "learning features": rounds if learnt else 0.0,
        "choosing for the network": network * (biases + 1) * (one + width * some / n * some * (some / 8 + d)),
        "fitting all rows": ridges * min(n, sizes.left_out) ** 3 + n**3 + trained * n * (n / 8 + 2 * d) + 200 * n**2,
        "training": outputs * trained * n * d * 2,
    }
