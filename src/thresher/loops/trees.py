"""Flat max-trees, one for each column of ``nodes`` (2m, n): the paper's binary trees without pointers.

Leaf r is node m + r, node k is the larger of nodes 2k and 2k + 1, the root is node 1; any m >= 1 will do. A node is a
row of n values, so that an update of one neuron climbs all n trees at once over contiguous memory.
"""

from __future__ import annotations

import numpy as np

from thresher.loops import compiled

__all__ = ["build", "climb", "query"]


@compiled
def build(nodes):
    """Fill all inner nodes from the leaves."""
    for k in range(nodes.shape[0] // 2 - 1, 0, -1):
        for i in range(nodes.shape[1]):
            nodes[k, i] = max(nodes[2 * k, i], nodes[2 * k + 1, i])


@compiled(allocates=True)
def climb(nodes, leaves):
    """Renew the inner nodes above changed leaves (ascending places 0..m - 1); return the number of nodes written.

    Rounds of parents without repetition: a node is written again when a deeper path reaches it later, so that its last
    value is taken after the last change below it.
    """
    m = nodes.shape[0] // 2
    front = leaves + m
    touched = leaves.size
    while front.size:
        count = 0
        for j in range(front.size):
            parent = front[j] >> 1
            if parent > 0 and (count == 0 or front[count - 1] != parent):
                front[count] = parent
                count += 1
        front = front[:count]
        for j in range(count):
            k = front[j]
            for i in range(nodes.shape[1]):
                nodes[k, i] = max(nodes[2 * k, i], nodes[2 * k + 1, i])
        touched += count
    return touched * nodes.shape[1]


@compiled(allocates=True)
def query(nodes, i, low):
    """Return the places r of all leaves of tree i with value >= low, ascending, and the number of nodes visited."""
    m = nodes.shape[0] // 2
    found = np.empty(16, np.int64)
    count = 0
    stack = np.empty(130, np.int64)  # two nodes per level
    visits = 1
    top = 0
    if nodes[1, i] >= low:
        stack[0], top = 1, 1
    while top:
        top -= 1
        k = stack[top]
        if k >= m:
            if count == found.size:
                larger = np.empty(2 * count, np.int64)
                for j in range(count):
                    larger[j] = found[j]
                found = larger
            found[count] = k - m
            count += 1
            continue
        visits += 2
        for child in (2 * k + 1, 2 * k):
            if nodes[child, i] >= low:
                stack[top] = child
                top += 1
    # Leaves came from left to right: those of the deepest level, which have the largest numbers, before the others.
    deep = 1
    while deep < count and found[deep - 1] < found[deep]:
        deep += 1
    places = np.empty(count, np.int64)
    for k in range(count):
        places[k - deep if k >= deep else k + count - min(deep, count)] = found[k]
    return places, visits
