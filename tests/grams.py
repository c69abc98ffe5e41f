"""Small networks for the tests: random inputs, shards, the Gram operator at the start, the Jacobian by definition."""

import math

import numpy as np

from thresher.engines import start_engine
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem, to_sphere
from thresher.shards import SHARDS, Recipe


def make_gram(*, inputs, width, shift, seed=0, threads=1):
    network = NetworkSettings.checked(width=width, dimension=inputs.shape[1], shift=shift, seed=seed)
    engine, _ = start_engine(Problem(inputs, np.zeros(len(inputs))), network, index="scan", threads=threads)
    return engine.linearise(), network


def random_inputs(count, dimension, seed=0):
    return to_sphere(np.random.default_rng(seed).normal(size=(count, dimension)))


def dense_jacobian(network, inputs):
    """Jᵀ (md, n) by its definition."""
    weights = network.start.block(0, network.width).astype(np.float64)
    fires = weights @ inputs.T >= network.shift  # (m, n)
    signed = network.start.signs(np.arange(network.width))[:, None] * fires / math.sqrt(network.width)
    return np.einsum("ri,ik->rki", signed, inputs).reshape(-1, len(inputs))


def make_shard(index, settings, inputs, neurons, *, dtype):
    return SHARDS[index](Recipe(SHARDS[index], settings, inputs, dtype), neurons)


def minus(step):
    """The step that takes Jᵀ step away, or none."""
    return None if step is None else -np.asarray(step)
