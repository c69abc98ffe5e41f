"""Where? An engine is a sum over shards of neurons."""

from thresher.engines.local import LocalEngine

__all__ = ["ENGINES", "LocalEngine"]

ENGINES = {"local": LocalEngine}
