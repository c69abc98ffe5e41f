"""Which step? Sketches of the Jacobian and solvers of the n x n system."""

from thresher.algebra.sketches import (
    SKETCHES,
    CountSketch,
    Gaussian,
    Hadamard,
    SparseSign,
    TensorSketch,
    distortion,
)
from thresher.algebra.solvers import Cholesky, ConjugateGradient, Jacobi, MatrixGram, ReusedFactor, Sketched, SketchQR

__all__ = [
    "SKETCHES",
    "SOLVERS",
    "Cholesky",
    "ConjugateGradient",
    "CountSketch",
    "Gaussian",
    "Hadamard",
    "Jacobi",
    "MatrixGram",
    "ReusedFactor",
    "SketchQR",
    "Sketched",
    "SparseSign",
    "TensorSketch",
    "distortion",
]

SOLVERS = {"cholesky": Cholesky, "sketched": Sketched, "cg": ConjugateGradient}
