"""GPUs: is there one, and what to do if not. Only the room ``gpu`` imports torch and Triton as a matter of course."""

from __future__ import annotations

import importlib
import os
from typing import Any

from thresher.errors import InvalidInput, NotAvailable, not_installed
from thresher.memory import available_bytes

__all__ = ["DEVICES", "check_device", "device_bytes", "find_device", "interpreted"]

DEVICES = ("cpu", "cuda")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise not_installed(f"a GPU needs {name}", extra="gpu") from None


def interpreted() -> bool:
    """Return whether Triton's kernels are interpreted on the CPU, as tests do (TRITON_INTERPRET=1)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def check_device(name: Any) -> str:
    """Return the name of a device; refuse what is none."""
    if not isinstance(name, str) or name not in DEVICES:
        raise InvalidInput(f"device must be one of 'cpu', 'cuda'; got {name!r}.")
    return name


def find_device(name: str) -> Any:
    """Return the torch device that a name stands for; None for "cpu", which needs no torch.

    With Triton's interpreter "cuda" is torch's "cpu": that is how the GPU's code is tested without one.
    """
    if check_device(name) == "cpu":
        return None
    module, _ = _module("torch"), _module("triton")
    if interpreted():
        return module.device("cpu")
    if not module.cuda.is_available():
        raise NotAvailable(
            "device 'cuda' needs an NVIDIA GPU, and torch finds none. Use the CPU, or install the build of torch for "
            "your driver."
        )
    return module.device("cuda")


def device_bytes(device: Any) -> int:
    """Return how many bytes of memory are free on a torch device; on the CPU, those of the machine."""
    if device.type == "cpu":
        return int(available_bytes())
    module = _module("torch")
    free, _ = module.cuda.mem_get_info(device)
    return int(free + module.cuda.memory_reserved(device) - module.cuda.memory_allocated(device))
