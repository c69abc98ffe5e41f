"""What users are told: what was expected, what came, what to do."""

from __future__ import annotations

__all__ = [
    "BrokenCertificate", "FarOutside", "InvalidInput", "MemoryRefused", "NotAvailable", "ThresherError",
    "WorkerLost",
    "not_installed",
]  # fmt: skip


class ThresherError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInput(ThresherError, ValueError):
    """An argument cannot be used; the message says which, why, and what to pass instead."""


class NotAvailable(ThresherError, NotImplementedError):
    """A name that is known but not available here; the message lists those that are."""


class MemoryRefused(ThresherError, MemoryError):
    """The estimated memory is over the budget; nothing was allocated.

    ``rows`` is about how many rows would fit; None where that is not known.
    """

    def __init__(self, message: str, *, rows: int | None = None) -> None:
        super().__init__(message)
        self.rows = rows


class BrokenCertificate(ThresherError, AssertionError):
    """An audit found that what is maintained is not what is true; the message says where."""


class WorkerLost(ThresherError, RuntimeError):
    """A worker of a cluster was lost and did not come back; a checkpoint holds all iterations until then."""


class FarOutside(UserWarning):
    """Some values of a column lie far outside the others.

    Far means ten times the range of 98 % of the values, or a hundred times that of 80 %.

    The model is still fitted; check whether the values are real.
    """


def not_installed(what: str, *, extra: str) -> NotAvailable:
    """Return the error for a package that is not installed: ``what`` needs it, and an extra of thresher installs it."""
    return NotAvailable(f"{what}, which is not installed. Run: pip install 'thresher-ml[{extra}]'")
