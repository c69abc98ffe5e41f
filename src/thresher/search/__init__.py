"""Who fires? Interchangeable, exact threshold searches."""

from thresher.interfaces import Index
from thresher.search.certified import Certified
from thresher.search.scan import Scan
from thresher.search.tournament import Tournament

__all__ = ["INDEXES", "INDEX_NAMES", "Certified", "Scan", "Tournament"]

INDEXES: dict[str, type[Index]] = {"scan": Scan, "tournament": Tournament}
INDEX_NAMES = ("certified", *INDEXES)
