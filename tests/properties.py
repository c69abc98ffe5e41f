"""How many examples a property is tried on."""

from hypothesis import settings

__all__ = ["FEW", "examples"]

FEW = 20  # by default


def examples(number: int) -> int:
    """Return this number of examples; a few at most unless a profile of Hypothesis that tries more was asked for."""
    return number if settings.default.max_examples > FEW else min(number, FEW)
