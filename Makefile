# Every target works from a fresh clone; `make install` is run by the ones that need it.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROTOS := $(shell find protos -name '*.proto')
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test check kubectl clients docs images bench proto proto-check migration format lint types test-gpu coverage clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## Make .venv with everything; CPU torch where no GPU is found.

$(STAMP): pyproject.toml constraints.txt scripts/install.sh
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/install.sh
	@touch $@

demo: $(STAMP) ## Optimize one task from start to end, without a GPU and without a key.
	$(BIN)/adaexplore optimize examples/lowrank_gelu_residual.py --steps 12 --seed 7 --out demo-out --state-dir demo-out/state $(ARGS)

test: $(STAMP) ## Run all tests that need no GPU.
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-gpu: $(STAMP) ## Run the tests that need a GPU.
	$(BIN)/python -m pytest tests/gpu $(ARGS)

check: proto-check lint types kubectl test ## Everything CI checks.

kubectl: $(STAMP) ## Bring kubectl, which tests render the manifests with, where the machine has none.
	$(BIN)/python scripts/kubectl.py

lint: $(STAMP) ## Lint sources, imports and protos.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/buf lint

types: $(STAMP) ## Type-check everything, strictly.
	$(BIN)/mypy

format: $(STAMP) ## Format sources and protos.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/buf format -w

proto: $(STAMP) ## Generate the Python modules from the protos.
	BIN=$(BIN) scripts/proto.sh src

proto-check: $(STAMP) ## Fail if the generated modules or the API reference do not match the protos.
	BIN=$(BIN) scripts/proto.sh --check
	$(BIN)/python scripts/api_docs.py --check

docs: $(STAMP) ## Write the API reference, docs/api, from the protos.
	$(BIN)/python scripts/api_docs.py

migration: $(STAMP) ## Write a migration of a store: SERVICE=memory MESSAGE="what changes".
	$(BIN)/python scripts/migration.py "$(SERVICE)" "$(MESSAGE)"

clients: ## Build the example clients of other languages; their READMEs name the packages.
	scripts/clients.sh build $(ARGS)

images: ## Build the services' images and print their sizes; ENGINE=buildah where no Docker engine runs.
	scripts/images.sh $(ARGS)

bench: $(STAMP) ## Print the fixed costs as medians and ratios.
	$(BIN)/python -m benchmarks.fixed_costs $(ARGS)

coverage: $(STAMP) ## Run the tests and report which lines they reach.
	$(BIN)/coverage run -m pytest $(ARGS) && $(BIN)/coverage combine && $(BIN)/coverage report --skip-covered

clean: ## Remove what the other targets made.
	rm -rf $(VENV) demo-out build dist htmlcov .pytest_cache .mypy_cache .ruff_cache .coverage*
