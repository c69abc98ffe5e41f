"""What computes: the processor; a GPU is a package of its own (thresher.gpu)."""
