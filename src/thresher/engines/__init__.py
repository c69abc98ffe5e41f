"""Where shards live, and the sums over them that training needs."""

from thresher.engines.engine import ShardEngine, shard_ranges, start_engine, start_engines
from thresher.engines.footprint import Facts, estimate_memory, matrix_bytes, require_memory
from thresher.engines.threads import Threads

__all__ = [
    "EXECUTORS",
    "Facts",
    "ShardEngine",
    "Threads",
    "estimate_memory",
    "matrix_bytes",
    "require_memory",
    "shard_ranges",
    "start_engine",
    "start_engines",
]

EXECUTORS = {"local": Threads, "gpu": Threads}  # on a GPU there is one slice, whose shard is another
