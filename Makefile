# Each target but lock works alone on a fresh clone with Python and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.complete
ARGS ?=

.PHONY: setup demo test check bench docs lock clean

setup: $(STAMP)

$(STAMP): requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

demo: setup
	$(BIN)/motet demo $(ARGS)

test: setup
	$(BIN)/python -m pytest -n auto $(ARGS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

# Renews the pins (needs uv); the file names no package index.
lock:
	uv pip compile pyproject.toml --universal --all-extras --group dev --generate-hashes --no-header --no-annotate \
	  --python-version 3.11 --upgrade --output-file requirements-dev.txt

clean:
	rm -rf .venv site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
