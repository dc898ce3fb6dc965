# What CI runs and what a newcomer runs are the same commands.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := sacct_ingest predictor slurm_plugin
# Other releases of Slurm than this machine's run in root directories that the tests make as root.
FOREIGN_SLURM ?= 26.05/slurm
# Made while other tests wait for their servers; those that need it wait for it.
MAKE_ROOT = $(BIN)/python -c 'from tests.cluster import releases; releases.root("$(FOREIGN_SLURM:/slurm=)")'
# Every release with every authentication that there is, those that were built here too.
EVERY_SLURM ?= $$($(BIN)/python -m tests.cluster roots)
# Servers on a busy machine: what fails is run once more with new ones; two such tests may pass.
AGAIN := sh scripts/pytest-once-more
PYTEST := $(AGAIN) $(BIN)/pytest
REAL := cluster or database
# Of the others a few wait, for processes that they kill or let hang: a file more than cores; long files first.
EACH_CORE := -n $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder
# Tests with servers mostly wait for them: eight files at a time, however many cores there are; long files first.
EIGHT := -n 8 --dist loadfile --no-loadscope-reorder
# Files whose choices are between numbers of linear algebra, but for what takes seconds.
SELECTING := tests/predictor -m 'kernels and not slow'
# They run beside tests that mostly wait, whose list of failed tests they leave alone.
EACH_PROCESSOR := nice sh scripts/pytest-each-processor $(BIN)/pytest -q -p no:cacheprovider \
  $(SELECTING) $(EACH_CORE)
# What most changes touch: decisions, hooks' Lua, sources, curves, backtest, tables.
QUICK := tests/slurm_plugin/decision tests/lua tests/sacct_ingest/sources tests/predictor/curves \
  tests/predictor/level tests/predictor/tables tests/predictor/test_table.py
QUICK_JSON := build/bench
FUZZ_SECONDS ?= 30
# The Python of the system that packages are for.
PACKAGE_PYTHON ?= /usr/bin/python3
PIN := $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header \
  --no-annotate

.PHONY: requirements audit help setup lint types quick test test-releases slurm-root demo bench papers fuzz mutate docs cluster cluster-down release reproducible deb rpm test-deb test-rpm test-release clean
help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

$(BIN)/python:
	sh scripts/make-venv $(PYTHON) $(VENV)

# Python compiles a module when it is first imported: most installed modules never are.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-compile --editable

$(VENV)/.runtime: $(BIN)/python pyproject.toml
	$(PIP_INSTALL) .
	touch $@

$(VENV)/.lint: $(BIN)/python pyproject.toml
	$(PIP_INSTALL) '.[lint]'
	touch $@

$(VENV)/.developer: $(BIN)/python pyproject.toml
	$(PIP_INSTALL) '.[dev,docs]'
	touch $(VENV)/.runtime $(VENV)/.lint $@

setup: $(VENV)/.developer ## make the virtual environment with all a developer needs

lint: $(VENV)/.lint types ## ruff, import contracts, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# Of the benchmarks that they call what there is: no test runs them all.
UNTYPED := arg-type assignment list-item misc no-any-return no-untyped-call operator unused-ignore \
	var-annotated
types: $(VENV)/.lint ## mypy, strict
	$(BIN)/mypy & packages=$$!; \
	$(BIN)/mypy --cache-dir .mypy_cache/benchmarks --ignore-missing-imports --implicit-reexport \
	  $(UNTYPED:%=--disable-error-code=%) benchmarks; calls=$$?; wait $$packages && exit $$calls

quick: $(VENV)/.developer ## the tests that most changes need, without servers: a minute on two cores
	$(BIN)/pytest -q -m 'not ($(REAL) or slow)' $(EACH_CORE) $(QUICK)

test: ## all tests; as root installs what they need (Slurm, MariaDB, PostgreSQL, Lua)
	$(MAKE) $(BIN)/python
	$(MAKE) $(VENV)/.developer & sh scripts/install-system-packages && wait $$!
	$(AGAIN) --forget
	$(PYTEST) -m 'not ($(REAL))' $(EACH_CORE)
	$(MAKE_ROOT) >/dev/null 2>&1 &
	$(PYTEST) -m '$(REAL)' $(EIGHT)
	mkdir -p build
	$(EACH_PROCESSOR) >build/processors.log 2>&1 & \
	  $(PYTEST) -m releases --slurm $(FOREIGN_SLURM) $(EIGHT); releases=$$?; \
	  wait $$!; processors=$$?; cat build/processors.log; test $$releases = 0 -a $$processors = 0
	$(AGAIN) --verdict

slurm-root: $(VENV)/.developer ## build Slurm RELEASE (25.11) from the tree SOURCE for test-releases, as root
	$(BIN)/python -m tests.cluster build --source $(SOURCE) --release $(RELEASE)

test-releases: ## all tests with a cluster on every release of Slurm that there is, as root; an hour
	sh scripts/install-system-packages
	$(MAKE) $(VENV)/.developer
	failed=; for slurm in $(EVERY_SLURM); do \
	  $(AGAIN) --forget; \
	  NIMO_PYSLURM=make NIMO_ENGINES=make $(PYTEST) -m cluster --slurm $$slurm $(EIGHT) && \
	    $(AGAIN) --verdict || failed="$$failed $$slurm"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

demo: $(VENV)/.runtime ## NIMO on a simulated cluster: no Slurm, no root (DEMO=--all: every step)
	$(BIN)/nimo demo --directory .demo $(DEMO)

bench: $(VENV)/.developer ## the quick benchmarks, each beside its peers
	mkdir -p $(QUICK_JSON)
	set -e; for b in benchmarks/[a-z]*.py; do \
	  $(BIN)/python $$b --quick --json $(QUICK_JSON)/$$(basename $$b .py).json; done

papers: $(VENV)/.developer ## the papers' tables and figures that can be made here, in build/papers
	$(BIN)/python benchmarks/papers.py --directory build/papers --json build/papers/tables.json

fuzz: $(VENV)/.developer ## fuzz the parsers, FUZZ_SECONDS (30) for each of eight targets
	$(PIP_INSTALL) '.[fuzz]'
	$(BIN)/python benchmarks/fuzz_parsers.py --seconds $(FUZZ_SECONDS)

mutate: $(VENV)/.developer ## small faults in the numbers and the policy that the tests notice; MUTATE="GROUP --sample 80"
	$(BIN)/python scripts/mutate.py $(MUTATE)

requirements: $(VENV)/.developer ## pin what the packages hold, with hashes, in packages/*requirements.txt
	$(BIN)/python -m pip install --quiet uv
	$(PIN) --extra packages pyproject.toml -o packages/requirements.txt
	printf 'hatchling>=1.25\nshiv>=1\n' | $(PIN) - -o packages/build-requirements.txt

audit: $(VENV)/.developer ## look up vulnerabilities of the pinned packages
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python scripts/audit.py

docs: $(VENV)/.developer ## the HTML documentation, in build/docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

cluster: $(VENV)/.developer ## start a throw-away Slurm with NIMO switched on, to play with
	$(BIN)/python -m tests.cluster up --directory .cluster --with-nimo $(CLUSTER)

cluster-down: ## stop it
	$(BIN)/python -m tests.cluster down --directory .cluster

# Times in what is built are those of the last commit: the same bytes each time.
release reproducible: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: $(VENV)/.developer ## sdist, wheel, nimo.pyz, deb, rpm, bill of materials and checksums of the last commit, in dist
	@test -z "$$(git status --porcelain)" || { echo "commit first: a release is what git has" >&2; exit 1; }
	rm -rf dist
	$(BIN)/python -m packages.release dist --python $(PACKAGE_PYTHON)
	! command -v dpkg-deb >/dev/null || { $(MAKE) deb && cp build/deb/*.deb dist; }
	! command -v rpmbuild >/dev/null || { $(MAKE) rpm && cp build/rpm/RPMS/*/*.rpm dist; }
	cd dist && sha256sum * >SHA256SUMS

reproducible: ## build a release twice and compare, with diffoscope where there is one
	$(MAKE) release && rm -rf build/first && mv dist build/first && $(MAKE) release
	if command -v diffoscope; then diffoscope build/first dist; else diff -r build/first dist; fi

deb: $(VENV)/.developer ## the Debian package, in build/deb, for this system's Python
	$(BIN)/python -m packages.deb.build build/deb --python $(PACKAGE_PYTHON)

rpm: $(VENV)/.developer ## the RPM, in build/rpm
	rm -rf build/rpm
	rpmbuild -bb --define "project $(CURDIR)" --define "builder $(abspath $(BIN))/python" \
	  --define "python $(PACKAGE_PYTHON)" --define "_topdir $(CURDIR)/build/rpm" \
	  packages/rpm/nimo-slurm.spec

test-deb: deb ## install, use, upgrade and remove the whole package in a copy of this system, as root
	NIMO_DEB=$$(ls build/deb/*.deb) $(PYTEST) tests/packages

test-rpm: rpm ## install, use and erase the whole RPM in a copy of this system, as root
	NIMO_RPM=$$(ls build/rpm/RPMS/*/*.rpm) $(PYTEST) tests/packages/test_rpm.py

test-release: ## what `make release` built: checksums, deb, RPM, wheel and nimo.pyz installed and used, as root
	cd dist && sha256sum --quiet --check SHA256SUMS
	NIMO_DEB=$$(ls $(CURDIR)/dist/*.deb) NIMO_RPM=$$(ls dist/*.rpm) NIMO_WHEEL=$$(ls $(CURDIR)/dist/*.whl) \
	  $(PYTEST) tests/packages tests/test_wheel.py tests/slurm_plugin/demo/test_tour.py \
	  tests/slurm_plugin/cli/test_local_on_cluster.py

clean: ## remove everything that the commands above made, but for .venv
	test ! -e .demo/nimod.pid || $(BIN)/nimo demo --stop --directory .demo
	rm -rf build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
