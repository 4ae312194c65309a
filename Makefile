# Each target but lock works alone on a fresh clone with Python and make.
PYTHON ?= python3
BIN := .venv/bin
NPM := $(shell command -v npm)
ARGS ?=
# The environment is installed without bytecode: the first program that imports a module writes it, and the others read it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test check fuzz bench soak docs lock clean

# The demo needs the server's packages; everything else those of development, in the same environment.
.venv/.demo: requirements.txt pyproject.toml
	@$(PYTHON) tools/install.py requirements.txt "540 MB"
	@touch $@

.venv/.complete: requirements-dev.txt pyproject.toml
	@$(PYTHON) tools/install.py requirements-dev.txt "1.8 GB in all"
	@touch .venv/.demo $@

setup: .venv/.complete

# In a job of its own at a terminal: Ctrl-C ends the demo, and make reports no error.
demo: .venv/.demo
	@if [ -t 0 ]; then set -m; fi; $(BIN)/motet demo $(ARGS)

# A generator of clients, which a test runs: its packages and ours want different versions, so it has an environment of its own.
.venv/.openapi: tools/openapi/requirements.txt .venv/.complete
	@$(PYTHON) -m venv .venv/openapi
	@.venv/openapi/bin/python -m pip install --quiet --require-hashes --requirement tools/openapi/requirements.txt
	@touch $@

test: setup .venv/.openapi $(if $(NPM),.venv/.typescript)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

# TypeScript checks the JSDoc types of the page where there is Node; npm ci takes only what the lock file has a hash of.
.venv/.typescript: tools/typescript/package-lock.json .venv/.complete
	@mkdir -p .venv/typescript && cp tools/typescript/*.json .venv/typescript
	@npm ci --prefix .venv/typescript --silent --no-audit --no-fund
	@touch $@

check: setup $(if $(NPM),.venv/.typescript)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src tools
	$(if $(NPM),.venv/typescript/node_modules/.bin/tsc --project jsconfig.json,@echo "no Node: the page's JavaScript is not checked")

# CASES random inputs to everything that reads; ARGS="--seed N --only TARGET" has a failure again.
CASES ?= 200000
fuzz: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases $(CASES) $(ARGS)

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

# Mixed load with kills on both databases: MINUTES=3 for a habit; ARGS=--write puts the figures into the docs.
MINUTES ?= 30
soak: setup
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

# Renews the pins (needs uv). The files agree, and name no package index.
LOCK := uv pip compile pyproject.toml --universal --generate-hashes --no-header --no-annotate --python-version 3.11
lock:
	$(LOCK) --all-extras --group dev --upgrade --output-file requirements-dev.txt
	$(LOCK) --extra server --group build --upgrade --constraint requirements-dev.txt --output-file requirements.txt

clean:
	rm -rf .venv site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
