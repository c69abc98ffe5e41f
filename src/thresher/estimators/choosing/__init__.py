"""Choices by rows left out: ridge, scale, bias and shift, column weights, metric."""
