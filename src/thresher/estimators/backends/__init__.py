"""What computes: the processor and a cluster; a GPU is a package of its own (thresher.gpu)."""
