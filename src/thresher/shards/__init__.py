"""Who fires? Interchangeable, exact threshold searches."""

from thresher.interfaces import Index
from thresher.shards.certified import Certified
from thresher.shards.scan import Scan
from thresher.shards.tournament import Tournament

__all__ = ["INDEXES", "INDEX_NAMES", "Certified", "Scan", "Tournament"]

INDEXES: dict[str, type[Index]] = {"scan": Scan, "tournament": Tournament}
INDEX_NAMES = ("certified", *INDEXES)
