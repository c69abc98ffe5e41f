"""The kernel of rows, and the gradients that metrics are made of."""
