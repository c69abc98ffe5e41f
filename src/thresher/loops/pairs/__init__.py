"""Loops over the pairs of a neuron and an input that fire: listed by neuron, or kept as bits."""
