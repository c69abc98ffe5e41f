# Everything a newcomer needs: `make demo` and `make test`, from a bare clone with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OLDEST := .venv-oldest

.PHONY: setup demo test coverage test-all test-slow test-gpu test-gpu-kernels test-oldest test-wheel check docs limits pictures start bench bench-full certified scaling prediction deployment kernel depth preconditioners start-rows cluster many-rows gpu reliability

setup: $(VENV)/.ready

# The package alone is enough for the demo; tests, docs and benchmarks add theirs.
$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "thresher needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.ready: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/thresher demo

test: setup check
	$(BIN)/python -m pytest

# The same, and which lines of the package they run; compiled functions and what runs on a GPU alone are not counted.
coverage: setup
	$(BIN)/python -m reliability.covered

# The default tests and all that takes longer: the site, every documented command, clusters, benchmarks, defaults; before a change lands.
test-all: setup check
	$(BIN)/python -m pytest -m 'not slow and not gpu' --durations=20

# Long trials: full sizes, distortion statistics, soak of the state machine, hundreds of examples of each property.
test-slow: setup
	$(BIN)/python -m pytest -m '(slow or hypothesis) and not gpu' --hypothesis-profile=many -n 0

# What runs on a GPU: on one, or on the processor in Triton's interpreter.
test-gpu: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu]'
	$(BIN)/python -m pytest tests/gpu -m 'gpu or not gpu' -n 0
test-gpu-kernels: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu]'
	TRITON_INTERPRET=1 $(BIN)/python -m pytest tests/gpu

# The fast tests with the oldest versions of everything that pyproject.toml allows, in an environment of their own.
test-oldest:
	rm -rf $(OLDEST) && $(PYTHON) -m venv $(OLDEST)
	$(PYTHON) -m reliability.oldest > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt '.[test]'
	$(OLDEST)/bin/python -m pytest -m 'not slow and not gpu' -p no:cacheprovider --junitxml=$(OLDEST)/report.xml; ended=$$?; \
	    $(OLDEST)/bin/python -m reliability.oldest --record $(OLDEST)/report.xml && exit $$ended

# Wheel and sdist, built and installed into an empty environment, away from the sources.
test-wheel: setup
	$(BIN)/python -m reliability.wheel

# Everything behind docs/reliability.md but the fuzzer, test-oldest and test-wheel; takes about two hours.
reliability: setup
	$(BIN)/python -m reliability.kills --count 50
	$(BIN)/python -m reliability.soak --minutes 25
	$(BIN)/python -m reliability.covered
	$(BIN)/python -m reliability.uncompiled
	$(BIN)/python -m reliability.mutants --minutes 60
	$(BIN)/python -m reliability.page

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build/index.html: any warning is an error, and reading it needs no network.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "Written: docs/_build/index.html"

# The tables of docs/limits.md, from the constants of the code.
limits: setup
	$(BIN)/python docs/limits.py

# The figures of README and docs that are drawn from real runs; about a minute.
pictures: setup
	$(BIN)/python docs/draw.py

# Benchmarks, up to `start-rows` those of docs/benchmarks.md, into which they write. Nothing else should run meanwhile.

# Whole trainings and predictions beside one dense evaluation, with Gaussian and with Hadamard rows, where the time of the start
# goes, and start rows drawn where they fire, up to 10^10 neurons; about 25 minutes and 14 GiB of memory.
# `make start DATA=FOLDER` for rows of MNIST as well.
start: setup
	$(BIN)/python -m benchmarks.start $(if $(DATA),--data-dir '$(DATA)')

# The paper's cost claim: moved neurons and node visits per iteration as the width grows from 2^14 to 2^20.
scaling: setup
	$(BIN)/python -m benchmarks.scaling

# Every method side by side: a few minutes, or with the sizes of the docs about an hour.
bench: setup
	$(BIN)/thresher bench
bench-full: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[torch]'
	$(BIN)/thresher bench --full

# Certified search: imports, looks, growth, digits, memory; about six minutes.
certified: setup
	$(BIN)/python -m benchmarks.certified

# What a prediction costs: of networks, with and without the neurons that never moved, and of default models; some minutes.
prediction: setup
	$(BIN)/python -m benchmarks.prediction

# What a model costs where it is used: files and ONNX models; some minutes.
deployment: setup
	$(BIN)/python -m benchmarks.deployment

# What an entry of the kernel of the estimators costs, of all columns and of parts; half a minute.
kernel: setup
	$(BIN)/python -m benchmarks.kernel_entries

# What "deeper" can mean: features, more layers in the limit, inputs that move; some minutes. `make depth DATA=FOLDER` for the
# published tables as well, about half an hour.
depth: setup
	$(BIN)/python -m benchmarks.depth $(if $(DATA),--data-dir '$(DATA)')

# Preconditioners of the Gram matrix side by side, without an n x n matrix; about five minutes.
preconditioners: setup
	$(BIN)/python -m benchmarks.preconditioners $(if $(DATA),--mnist '$(DATA)/mnist')

# What trainings make of random and Hadamard start rows, over twenty seeds; about ten minutes.
start-rows: setup
	$(BIN)/python -m benchmarks.start_rows $(if $(DATA),--mnist '$(DATA)/mnist')

# Workers on Ray beside threads of one process, and larger clusters on paper; a few minutes.
cluster: setup
	$(BIN)/python -m benchmarks.cluster --page docs/cluster.md

# Tables of up to a million rows beside LightGBM and others; `make many-rows DATA=FOLDER` for the published sets as well.
many-rows: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.many_rows $(if $(DATA),--data-dir '$(DATA)',--case friedman growth)

# Training on one NVIDIA GPU beside its rivals and ceilings; estimators: python -m benchmarks.gpu_estimators --help.
gpu: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu]'
	$(BIN)/python -m benchmarks.gpu
