# Two commands do all set-up on a machine with Python 3.11+, git and make:
#   make demo    mine, label, verify, train, evaluate and report on this repository's own history
#   make test    lint, types, import contracts and tests
.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench clean

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# A stamp inside the environment: installed again only when what it was made from changes.
STAMP := $(VENV)/.installed

help:
	@sed -n '2,3s/^#  *//p' Makefile
	@echo "make lint    ruff, mypy --strict and import contracts"
	@echo "make bench   speed ratios against named peers"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,dev]'
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/assay demo $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n auto $(ARGS)

bench: $(STAMP)
	@for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
