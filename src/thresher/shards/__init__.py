"""Kinds of shards: how the firing pairs of a slice of neurons are found. All find the same pairs; dense ones
with float32 start from what they have stored in it."""

from thresher.shards.certified import Certified
from thresher.shards.dense import Dense
from thresher.shards.recipe import Kind, Recipe, Slice
from thresher.shards.scan import Scan
from thresher.shards.search import ScanShard, TournamentShard
from thresher.shards.tournament import Tournament

__all__ = ["SHARDS", "Certified", "Dense", "Kind", "Recipe", "Scan", "Slice", "Tournament"]

SHARDS: dict[str, Kind] = {
    "certified": Certified,
    "scan": ScanShard,
    "tournament": TournamentShard,
    "dense": Dense,
}
