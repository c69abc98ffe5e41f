"""What is trained: the problem, the network, its implicit weights, and who fires on what."""
