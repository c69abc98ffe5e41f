"""Kernels of rows, and what computes them: a processor, a GPU, a cluster."""
