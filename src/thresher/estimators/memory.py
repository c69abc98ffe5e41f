"""Memory of a fit, asked for before it is taken."""

from __future__ import annotations

from bisect import bisect_right

from thresher.estimators.data.observations import Observations
from thresher.estimators.settings import Settings
from thresher.memory import allowed_bytes, available_bytes, require
from thresher.theory.limit_matrix import half_bytes

__all__ = ["require_memory"]


def require_memory(data: Observations, settings: Settings) -> None:
    """Refuse what does not fit, with the number of rows that would."""
    (n, d), outputs, most = data.X.shape, data.targets.shape[1], settings.sizes.chosen_on
    what = f"fitting {n:,} rows of {d:,} columns"
    if n <= most:
        allowed = allowed_bytes(None)
        fit = bisect_right(range(1, n), allowed, key=lambda rows: _bytes_of_few(rows, data, settings))
        remedy = f"Fit on fewer rows or columns. About {fit:,} rows would fit."
        require(_bytes_of_few(n, data, settings), budget=int(allowed), what=what, remedy=remedy, rows=fit)
    else:
        fixed, per_row = _bytes_of_many(data, settings)
        may = int((0.9 * available_bytes() - fixed) / per_row)
        enough = may >= most
        remedy = f"About {may:,} rows would fit." if enough else "Close other programs, or use a larger machine."
        require(fixed + n * per_row, budget=None, what=what, remedy=remedy, rows=max(may, 0))
    settings.backend.require(n, d, outputs)


def _bytes_of_few(n: int, data: Observations, settings: Settings) -> float:
    """Return about how many bytes a fit of so many of few rows takes."""
    d, outputs = data.X.shape[1], data.targets.shape[1]
    span, observed = min(n, d), len(data.row) * n / len(data)
    learns = settings.rounds is not None or span <= settings.sizes.columns
    taken = 8 * (6 * n * n + 48 * n * outputs + 8 * n * d + (8 * span * span if learns else 0))
    return taken + 8 * observed * 6 * outputs


def _bytes_of_many(data: Observations, settings: Settings) -> tuple[float, float]:
    """Return about how many bytes a fit of many rows takes whatever their number, and for each row.

    If no entry of the kernel is kept.
    """
    (n, d), outputs, sizes = data.X.shape, data.targets.shape[1], settings.sizes
    exact = n <= sizes.exact or settings.approximation == "exact"
    held, rank = 0 if data.on_disk else d, min(sizes.rank, n // 8)
    per_row = 8 * (4 * held + 24 * outputs) + 4 * held + (4 * rank if exact else 0)
    chosen = 8 * 6 * sizes.chosen_on**2
    return half_bytes(min(n, sizes.chosen_on)) + chosen + 24 * rank**2, per_row
