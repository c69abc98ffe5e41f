"""The GPU's code runs on a GPU (`make test-gpu`), or in Triton's interpreter (`make test-gpu-kernels`)."""

import importlib.util
import os

import pytest

from thresher.shards import SHARDS

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]


def why_not():
    if MISSING:
        return f"needs {' and '.join(MISSING)}: pip install 'thresher-ml[gpu]'"
    import torch

    if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
        return "needs an NVIDIA GPU, or Triton's interpreter: make test-gpu-kernels"
    return None


REASON = why_not()


def pytest_collection_modifyitems(items):
    if REASON is not None:
        for item in items:
            if "/gpu/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture
def gpu_kind(monkeypatch):
    """The shards of a GPU under a name that the shared stories of the tests know."""
    from thresher.gpu.shard import DeviceShard

    monkeypatch.setitem(SHARDS, "gpu", DeviceShard)
    return "gpu"
