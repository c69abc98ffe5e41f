"""Random and quasi-random numbers: each start row is a function of the seed and its number."""
