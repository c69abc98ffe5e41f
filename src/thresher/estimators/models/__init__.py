"""Fits of few and of many rows, what comes out of them, and how each checks itself."""
