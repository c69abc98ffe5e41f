"""Every size at which a fit of the estimators changes its ways, in one table that is passed along."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Sizes"]


class Sizes(NamedTuple):
    """Numbers of rows, columns and outputs; an estimator has one of these, and tests give it smaller ones."""

    one_by_one: int = 4096  # rows up to which observations are left out one at a time; beyond, some rows are held out
    exact: int = 1 << 17  # rows up to which a fit may have a coefficient for each
    exact_cheap: int = 3 << 14  # rows up to which a processor makes such a fit without comparing it with centres
    double: int = 1024  # training rows up to which predictions in double precision are quick enough
    for_judging: int = 8  # observations below which leaving some out says nothing
    for_scales: int = 50  # observations from which scales are compared, and by which loss classes are fitted
    for_columns: int = 128  # observations from which column weights are tried
    columns: int = 512  # columns up to which features are learnt unasked, and scales by rank are tried
    spanned: int = 1000  # rows whose span is computed, in a second or two; columns of more are used as they are
    left_out: int = 1024  # rows that are left out one at a time at most; of more, ridge and parts are found on these
    learnt: int = 1024  # rows that a metric is learnt on, if observations are left out one at a time
    learnt_last: int = 2048  # rows of the last round of that metric
    weighed: int = 512  # rows that column weights are learnt on
    held: int = 4096  # rows that are held out at most, a fifth of all at most
    small: int = 2048  # rows on which most is chosen, if some are held out
    large: int = 16_384  # rows on which a metric is learnt then
    gradients: int = 4096  # rows, of these, whose gradients make the metric
    scaled: int = 1 << 16  # rows from which the scales of columns are learnt
    sorted: int = 1 << 23  # numbers in these rows at most: columns times rows
    mixed: int = 10  # outputs that fits of some of many rows have at most: random sums of all
    ridge_outputs: int = 4  # outputs beyond which ridges are compared on some rows only, once some are held out
    centres: int = 2048  # centres that are tried first
    more_centres: int = 4096  # centres that are tried then, unless leaves are better
    sample: int = 40_000  # rows from which centres are drawn at most
    leaf: int = 4096  # rows of a leaf
    leaves_judged: int = 1000  # held-out rows that choose the ridge of leaves, and whether all are fitted
    rank: int = 1024  # rank of the preconditioner of an exact fit
    pivots: int = 512  # rows that error bars of many rows are made of
    known: int = 1 << 17  # rows that say what these pivots know
    few_rows: int = 1024  # rows of the small fit that one of many rows is checked against
