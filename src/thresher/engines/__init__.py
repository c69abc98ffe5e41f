"""Where shards live, and the sums over them that training needs."""

from typing import Any

from thresher.engines.cluster import Ray
from thresher.engines.engine import ShardEngine, shard_ranges, start_engine, start_engines
from thresher.engines.footprint import Facts, Shares, estimate_memory, estimate_shares, matrix_bytes, require_memory
from thresher.engines.threads import Threads

__all__ = [
    "EXECUTORS",
    "Facts",
    "Ray",
    "ShardEngine",
    "Shares",
    "Threads",
    "estimate_memory",
    "estimate_shares",
    "matrix_bytes",
    "require_memory",
    "shard_ranges",
    "start_engine",
    "start_engines",
]

# On a GPU there is one slice, whose shard is another; "ray" are options, from which an executor is made.
EXECUTORS: dict[str, Any] = {"local": Threads, "gpu": Threads, "ray": Ray}
