"""From a table to a fitted model: scale, kernel, features, ridge, fit, network."""
