"""Where? An engine is a sum over shards of neurons."""

from thresher.engines.engine import LocalEngine
from thresher.engines.footprint import estimate_memory, require_memory

__all__ = ["ENGINES", "LocalEngine", "estimate_memory", "require_memory"]

ENGINES = {"local": LocalEngine}
