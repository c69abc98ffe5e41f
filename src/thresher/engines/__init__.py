"""Where shards live, and the sums over them that training needs."""

from thresher.engines.cluster import Ray
from thresher.engines.engine import ShardEngine, shard_ranges
from thresher.engines.footprint import Facts, Footprint, matrix_bytes
from thresher.engines.places import Here, Place, Where, place_of
from thresher.engines.starting import start_engine, start_engines
from thresher.engines.threads import Threads

__all__ = [
    "Facts",
    "Footprint",
    "Here",
    "Place",
    "Ray",
    "ShardEngine",
    "Threads",
    "Where",
    "matrix_bytes",
    "place_of",
    "shard_ranges",
    "start_engine",
    "start_engines",
]
