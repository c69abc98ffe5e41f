"""Fits by other losses than squares, on the kernel that squares have chosen."""
