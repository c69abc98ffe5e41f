"""From a table to observations at rows of numbers, scaled and lifted to the sphere."""
