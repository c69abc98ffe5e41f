"""Compiled for a GPU by Triton: loops over tensors, one file per task."""
