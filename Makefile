# What CI runs and what a newcomer runs are the same commands.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := sacct_ingest predictor slurm_plugin
QUICK_JSON := build/bench

.PHONY: help setup lint types test demo bench docs cluster cluster-down clean
help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

$(BIN)/python:
	sh scripts/make-venv $(PYTHON) $(VENV)

$(VENV)/.runtime: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.developer: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	touch $@

setup: $(VENV)/.developer ## make the virtual environment with all a developer needs

lint: $(VENV)/.developer types ## ruff, import contracts, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.developer ## mypy, strict
	$(BIN)/mypy

test: ## all tests; as root installs what they need (Slurm, MariaDB, PostgreSQL, Lua)
	sh scripts/install-system-packages
	$(MAKE) $(VENV)/.developer
	$(BIN)/pytest

demo: $(VENV)/.runtime ## the main job on generated history: no Slurm, no root
	$(BIN)/nimo demo --directory .demo

bench: $(VENV)/.developer ## the quick benchmarks, each beside its peers
	mkdir -p $(QUICK_JSON)
	set -e; for b in benchmarks/[a-z]*.py; do \
	  $(BIN)/python $$b --quick --json $(QUICK_JSON)/$$(basename $$b .py).json; done

docs: $(VENV)/.developer ## the HTML documentation, in build/docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

cluster: $(VENV)/.developer ## start a throw-away Slurm with NIMO switched on, to play with
	$(BIN)/python -m tests.cluster up --directory .cluster --with-nimo

cluster-down: ## stop it
	$(BIN)/python -m tests.cluster down --directory .cluster

clean: ## remove everything that the commands above made, but for .venv
	rm -rf build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
