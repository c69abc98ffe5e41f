"""Where? An engine is a sum over shards of neurons."""

from thresher.engines.footprint import estimate_memory, require_memory
from thresher.engines.local import LocalEngine

__all__ = ["ENGINES", "LocalEngine", "estimate_memory", "require_memory"]

ENGINES = {"local": LocalEngine}
