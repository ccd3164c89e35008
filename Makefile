# Everything is installed into .venv. Outside of this directory only caches are written, of pip and of
# plans (~/.cache).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# The libraries that we are compared with, apart: they are large, and none of ours.
PEERS       := .venv-bench
PEERS_STAMP := $(PEERS)/.installed
BENCH       := build/bench
VALIDATION  := build/validation
SMOKE       := build/validation-smoke
NOTES       := $(addprefix docs/validation/,history.md left_out.md hosts.md)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint test-lit test-unit bench-smoke bench-solver bench bench-peers \
        bench-tvm validate validate-smoke validation-report clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort \
	  | awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

install: $(STAMP) ## create .venv and install mopt-mlir with its development tools into it

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("mopt-mlir needs Python >= 3.10, and $(PYTHON) is " \
	  + sys.version.split()[0] + ": try make PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	@echo "Creating $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing mopt-mlir and its development tools into $(VENV), about 1 GB (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## compile ResNet-18's convolutions, run and check them on this machine
	$(BIN)/mopt-demo examples/resnet18.mlir

test: lint test-lit test-unit ## run the linter, the type checker and all tests

lint: $(STAMP) ## check style (ruff) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-lit: $(STAMP) ## run the FileCheck tests only
	$(BIN)/lit --succinct --order=smart test

test-unit: $(STAMP) ## run the Python tests only
	$(BIN)/python -m pytest -n 2 --dist loadgroup

bench-smoke: $(STAMP) ## measure and check a sample of operators, a few minutes
	$(BIN)/python -m benchmarks.smoke

bench-solver: $(STAMP) ## measure how fast plans are proven, about ten minutes, and write docs/model.md
	$(BIN)/python -m benchmarks.solver

bench-peers: $(PEERS_STAMP) ## install the peers that `make bench` measures, about 2 GB (needs a C++ compiler)

$(PEERS_STAMP): benchmarks/peers/requirements.txt benchmarks/peers/onednn_driver.cpp
	@echo "Installing peers into $(PEERS), about 2 GB (once) ..."
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -r benchmarks/peers/requirements.txt
	$(CXX) -std=c++17 -O2 -Wall -Wextra -shared -fPIC -I$(PEERS)/include \
	  benchmarks/peers/onednn_driver.cpp -L$(PEERS)/lib -ldnnl -Wl,-rpath,'$$ORIGIN' \
	  -o $(PEERS)/lib/libmopt_onednn.so
	@touch $@

bench-tvm: $(PEERS_STAMP) ## install TVM as well, for mopt-bench run --peers tvm
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -r benchmarks/peers/requirements-tvm.txt

bench: $(STAMP) $(PEERS_STAMP) ## measure all of docs/performance.md, 70 minutes on a quiet machine, and write it
	$(BIN)/mopt-bench suite --directory $(BENCH)
	$(BIN)/mopt-bench scale --json $(BENCH)/scale.json
	$(BIN)/mopt-bench report $(BENCH)/*.json --output docs

validate: $(STAMP) $(PEERS_STAMP) ## put the model on trial, hours: build/validation/validation.md
	$(BIN)/mopt-bench suite --configurations a-cold --directory $(VALIDATION)
	$(BIN)/mopt-validate measure
	$(BIN)/mopt-validate measure --isa avx2
	$(BIN)/mopt-validate measure --operators testset
	$(BIN)/mopt-validate measure --operators heldout
	$(BIN)/mopt-validate measure --operators networks
	$(BIN)/mopt-validate measure --layout nhwc_hwcf
	$(BIN)/mopt-validate measure --layout nhwc_hwcf --isa avx2
	$(BIN)/mopt-validate simulate --valgrind
	$(BIN)/mopt-validate report $(VALIDATION)/*.jsonl $(VALIDATION)/*.json --output $(VALIDATION)

validate-smoke: $(STAMP) ## the same for a few operators and plans, 4 to 9 minutes: build/validation-smoke
	$(BIN)/mopt-validate measure --only R2,R9,R12,M2,Y5,Y9 --samples 20 --directory $(SMOKE)
	$(BIN)/mopt-validate simulate --samples 20 --directory $(SMOKE)
	$(BIN)/mopt-validate report $(SMOKE)/*.jsonl --output $(SMOKE)

validation-report: $(STAMP) ## write docs/validation.md again, of the data and notes beside it
	$(BIN)/mopt-validate report docs/validation/*.xz $(NOTES) --output docs

clean: ## remove .venv and everything else that was built
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
