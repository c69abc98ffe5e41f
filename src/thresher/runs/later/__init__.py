"""Rows that come later: how far they are from those of a run, and a model that takes them in."""
