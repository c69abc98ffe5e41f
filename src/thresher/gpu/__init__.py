"""What runs on a GPU. Modules of this room import torch and Triton, and are imported once a GPU was asked for."""
