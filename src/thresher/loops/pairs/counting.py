"""Co-firing counts: pair by pair where few inputs fire together, by sets of bits where many do."""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled
from thresher.loops.instructions.places import ones

__all__ = ["BITS_PER_PAIR", "cheaper_by_bits", "count_bits", "count_pairs", "count_shared"]

# To count one neuron by bits costs as much as n² / BITS_PER_PAIR pairs counted one by one: 64 neurons share a word.
BITS_PER_PAIR = 768


@compiled(allocates=True)
def cheaper_by_bits(lists, places, n):
    """Return for each listed neuron whether its flips cost more pair by pair than by sets of bits, (places,)."""
    answer = np.empty(places.size, np.bool_)
    for index in range(places.size):
        r = places[index]
        flips = 0
        for p in range(lists.begin[r], lists.begin[r] + lists.length[r]):
            flips += lists.side[p] != (p - lists.begin[r] < lists.linear[r])
        answer[index] = flips * lists.linear[r] * BITS_PER_PAIR > n * n
    return answer


@compiled
def count_pairs(begin, linear, inputs, places, counts):
    """Add to the lower triangle of ``counts`` (n, n) the co-firing inputs of the listed neurons, pair by pair."""
    for index in range(places.size):
        r = places[index]
        for p in range(begin[r], begin[r] + linear[r]):
            for q in range(begin[r], p + 1):
                i, j = inputs[p], inputs[q]
                counts[max(i, j), min(i, j)] += 1


@compiled(allocates=True)
def count_bits(begin, linear, inputs, places, sign, counts):
    """Add ``sign`` times the same to ``counts`` by sets of bits, 64 neurons per word: cheaper where many fire."""
    n = counts.shape[0]
    bits = np.empty((n, 64), np.uint64)
    for chunk in range(0, places.size, 4096):
        bits[:] = 0
        last = min(chunk + 4096, places.size)
        for index in range(chunk, last):
            r = places[index]
            word, mask = (index - chunk) >> 6, np.uint64(1) << np.uint64((index - chunk) & 63)
            for p in range(begin[r], begin[r] + linear[r]):
                bits[inputs[p], word] |= mask
        words = (last - chunk + 63) >> 6
        for i in range(n):
            for j in range(i + 1):
                common = np.uint64(0)
                for word in range(words):
                    common += ones(bits[i, word] & bits[j, word])
                counts[i, j] += sign * np.int64(common)


@compiled
def count_shared(bits, first, last, left, right, sign, counts):
    """Add to ``counts`` (n, n), lower triangle, ``sign`` for each one bit that two rows of ``bits`` (n, words) share.

    Of rows first..last - 1 with rows left..right - 1, eight of the latter at a time, so that they stay in the cache.
    """
    for group in range(left, right, 8):
        for i in range(first, last):
            row = bits[i]
            for j in range(group, min(group + 8, right, i + 1)):
                other = bits[j]
                common = np.uint64(0)
                for word in range(row.size):
                    common += ones(row[word] & other[word])
                counts[i, j] += sign * np.int64(common)
