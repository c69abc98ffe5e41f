"""Activations that are linear between knots: what they cost as the width grows, and how well they predict."""
