"""Fits by other losses than squares: on the kernel that these have chosen, or by squares again and again."""
