"""What is trained: the problem, the network, its implicit weights, and which neurons fire on which inputs."""
