"""Where shards live, and the sums over them that training needs."""

from thresher.engines.engine import ShardEngine, shard_ranges, start_engine, start_engines
from thresher.engines.footprint import estimate_memory, require_memory
from thresher.engines.threads import Threads

__all__ = [
    "EXECUTORS",
    "ShardEngine",
    "Threads",
    "estimate_memory",
    "require_memory",
    "shard_ranges",
    "start_engine",
    "start_engines",
]

EXECUTORS = {"local": Threads}
