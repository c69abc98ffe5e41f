"""Who fires? Interchangeable, exact threshold searches."""

from thresher.search.scan import Scan
from thresher.search.tournament import Tournament

__all__ = ["INDEXES", "Scan", "Tournament"]

INDEXES = {"scan": Scan, "tournament": Tournament}
