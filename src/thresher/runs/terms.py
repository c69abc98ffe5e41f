"""Terms of a model with a kernel of parts, as a report keeps and draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["MOST_TERMS", "Term", "terms_of"]

MOST_TERMS = 12  # that a report draws
_LEAST = 0.0005  # share of a term that is worth a line: what is below would be said to be 0.0 %


@dataclass(frozen=True)
class Term:
    """A term: where it was looked at, and its values there, in units of what is learnt."""

    name: str
    kind: str  # "number", "date", "cycle" of a date, "category" or "pair"
    share: float  # of what varies in the model
    at: list[float] = field(default_factory=list)  # numbers, or days since 1970; of a pair those of its first column
    words: list[str] = field(default_factory=list)  # names of categories instead
    outputs: list[str] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)  # (outputs, at); of a pair (first, second), of one output
    deviations: list[list[float]] = field(default_factory=list)  # standard errors, if there are any
    edges: list[float] = field(default_factory=list)  # of the histogram of a number
    counts: list[float] = field(default_factory=list)  # shares of the rows in it, or with each category
    second: list[float] = field(default_factory=list)  # of a pair: as ``at``, of its second column
    second_words: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # of the columns of a pair
    columns: list[str] = field(default_factory=list)  # the names of these
    scale: str = "linear"  # of the axis of a number
    part: str = ""  # of a date: "time", or what recurs: "month", "weekday", "hour"; means over the dates in it


def terms_of(model: Any, *, most: int = MOST_TERMS, std: bool = True) -> list[Term]:
    """Return the most important terms of a model, the largest share first; none of a model without parts or effects.

    Terms of next to no share are left out, unless all are.
    """
    if not hasattr(model, "effects") or model.lift_.angles_ is None:
        return []
    made = [Term(**one) for one in model._curves(most=most, deviations=std)]
    return [one for one in made if one.share >= _LEAST] or made[:1]
