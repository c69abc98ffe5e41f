"""Drift: what rows looked like, and how far later ones are from them."""
