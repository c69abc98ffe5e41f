"""Whole trainings and predictions beside one dense evaluation of the network: what the start costs, and why."""
