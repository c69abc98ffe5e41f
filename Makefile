# Everything a newcomer needs: `make demo` and `make test`, from a bare clone with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: setup demo test test-slow check docs pictures scaling certified bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "thresher needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: setup
	@$(BIN)/thresher demo

test: setup check
	$(BIN)/python -m pytest

# Long trials: full sizes, distortion statistics, soak of the state machine.
test-slow: setup
	$(BIN)/python -m pytest -m slow -n 0

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build/index.html: any warning is an error, and reading it needs no network.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "Written: docs/_build/index.html"

# The figures of README and docs that are drawn from real runs; about a minute.
pictures: setup
	$(BIN)/python docs/draw.py

# The paper's cost claim: moved neurons and node visits per iteration as the width grows from 2^14 to 2^20.
scaling: setup
	$(BIN)/python -m benchmarks.scaling

# Every method side by side, a few minutes; `thresher bench --full` takes about an hour. Nothing else should run meanwhile.
bench: setup
	$(BIN)/thresher bench

# Certified search against a dense evaluation and dense Gauss-Newton; takes about a quarter of an hour.
certified: setup
	$(BIN)/python -m benchmarks.certified

clean:
	rm -rf $(VENV) docs/_build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
