"""Where shards live, and the sums over them that training needs."""

from thresher.engines.cluster import Ray
from thresher.engines.engine import ShardEngine, shard_ranges
from thresher.engines.footprint import Facts, Footprint, Shares, matrix_bytes
from thresher.engines.places import LOCAL, Here, Place, Where, place_of, watched
from thresher.engines.starting import start_engine, start_engines
from thresher.engines.threads import Threads

__all__ = [
    "LOCAL",
    "Facts",
    "Footprint",
    "Here",
    "Place",
    "Ray",
    "ShardEngine",
    "Shares",
    "Threads",
    "Where",
    "matrix_bytes",
    "place_of",
    "shard_ranges",
    "start_engine",
    "start_engines",
    "watched",
]
