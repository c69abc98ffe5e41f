"""Which step? Sketches of the Jacobian and solvers of the n x n system: they prepare it once and solve many times."""

from thresher.algebra.cg import ConjugateGradient, Jacobi, Loose
from thresher.algebra.direct import Cholesky, DirectFactor, ReusedFactor
from thresher.algebra.gram import MatrixGram, relative_damping
from thresher.algebra.near import RandomPivots
from thresher.algebra.paper import Sketched, SketchQR, paper_solver
from thresher.algebra.sketches import (
    SKETCHES,
    CountSketch,
    Gaussian,
    Hadamard,
    SparseSign,
    TensorSketch,
    distortion,
)

__all__ = [
    "SKETCHES",
    "SOLVERS",
    "Cholesky",
    "ConjugateGradient",
    "CountSketch",
    "DirectFactor",
    "Gaussian",
    "Hadamard",
    "Jacobi",
    "Loose",
    "MatrixGram",
    "RandomPivots",
    "ReusedFactor",
    "SketchQR",
    "Sketched",
    "SparseSign",
    "TensorSketch",
    "distortion",
    "paper_solver",
    "relative_damping",
]

SOLVERS = {"cholesky": Cholesky, "sketched": Sketched, "cg": ConjugateGradient}
