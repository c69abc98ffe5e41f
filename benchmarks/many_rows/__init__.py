"""Fits of many rows and their rivals, each in a process of its own: error, seconds, memory.

    python -m benchmarks.many_rows --data-dir DIR [--case NAME ...]

A case that is stored is not run again unless --again. Every run ends with writing docs/many_rows.md.
"""
