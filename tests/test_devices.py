"""A GPU that was asked for: found, or one line that says why not and what to do."""

import importlib
import types

import numpy as np
import pytest

from thresher import InvalidInput, NotAvailable, train
from thresher.devices import find_device


@pytest.fixture
def without(monkeypatch):
    """Make a module impossible to import, or another in its place."""
    real = importlib.import_module

    def take_away(name, instead=None):
        def other(wanted, *rest):
            if wanted != name:
                return real(wanted, *rest) if wanted not in stand_ins else stand_ins[wanted]
            raise ImportError(name)

        monkeypatch.setattr(importlib, "import_module", other)

    stand_ins = {}
    take_away.stand_ins = stand_ins
    return take_away


def test_the_processor_needs_nothing(without):
    without("torch")
    assert find_device("cpu") is None


@pytest.mark.parametrize("name", ["torch", "triton"])
def test_what_is_missing_is_named_with_the_command_that_installs_it(without, name):
    without.stand_ins.update({"torch": types.SimpleNamespace(), "triton": types.SimpleNamespace()})
    without(name)
    with pytest.raises(NotAvailable, match=f"needs {name}, which is not installed. Run: pip install") as refused:
        find_device("cuda")
    assert str(refused.value).endswith("pip install 'thresher-ml[gpu]'")
    assert "\n" not in str(refused.value)


def test_a_machine_without_a_gpu_gets_one_line(without, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    nothing = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
    without.stand_ins.update({"torch": nothing, "triton": types.SimpleNamespace()})
    without("no such module")
    with pytest.raises(NotAvailable, match="needs an NVIDIA GPU, and torch finds none"):
        train(np.eye(3), np.ones(3), width=8, device="cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:7", "", None, 3])
def test_other_names_are_refused(name):
    with pytest.raises(InvalidInput, match="device must be"):
        find_device(name)
