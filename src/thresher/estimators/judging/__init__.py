"""Judges: what a kernel and a ridge are worth, by observations left out."""
