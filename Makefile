# `make` lists the targets. Each one installs what it needs, once.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Children of the tests read compiled modules, as users do.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# Planning a query uses one core: two workers, each with its own session, use two. They share a JVM.
WORKERS ?= 2
# How often a failed test is run again; each such test is listed at the end as RERUN.
RERUNS ?= 0
MINUTES ?= 30
SEED ?=
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# The first Python that is new enough and has venv.
PYTHON = $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  if $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$python; break; fi; done)

.PHONY: help demo test check soak lint format types walls site smoke bench clean

help: ## list all targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## two months of New York flights, and a database at work (ARGS=--no-database without it)
	@$(BIN)/sluice demo $(ARGS)

test: $(VENV)/.dev $(VENV)/.spark ## all tests (ARGS="-k name" for some)
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --reruns $(RERUNS) -raR --durations 40 --durations-min 5 $(ARGS)

check: lint types walls site ## everything that CI runs: lint, types, walls, site, tests
	@$(MAKE) test

soak: $(VENV)/.dev $(VENV)/.spark ## long random runs: property and crash tests with many cases (MINUTES=30, SEED=...)
	@.ci/soak $(BIN)/python $(MINUTES) $(SEED)

SMOKE_TESTS = test_a_new_project_runs_at_once test_a_second_run_finds_nothing_to_do test_rows_come_as_json

smoke: $(VENV)/.dev ## few tests that show that this Java works (JAVA_HOME=...)
	@$(BIN)/python -m pytest tests/unit/run $(addprefix tests/e2e/test_command_line.py::,$(SMOKE_TESTS)) $(ARGS)

lint: $(VENV)/.dev ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(VENV)/.dev ## fix and format with ruff
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: $(VENV)/.dev ## mypy, strict
	@$(BIN)/mypy

walls: $(VENV)/.dev ## import-linter: each room imports only the rooms below it
	@$(BIN)/lint-imports --no-logo

site: $(VENV)/.dev ## the documentation as a site in build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1 | { grep -v '^INFO' || true; } # --quiet would hide broken links

bench: $(VENV)/.bench $(VENV)/.spark ## benchmarks, compared with Spark's own pipelines; results in bench/RESULTS.md
	@$(BIN)/python -m bench $(ARGS)

clean: ## remove the environment and caches; tables and checkpoints under .sluice stay
	@rm -rf $(VENV) build/site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# One virtual environment; a stamp file for each installed set of extras.
$(BIN)/python:
	@$(if $(PYTHON),,$(error Sluice needs Python 3.11 or newer with venv: install it (Debian: apt-get install python3-venv), then call make again))
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Sluice into $(VENV) (the first time takes a minute or two) ..." >&2
	@$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Sluice and its tools into $(VENV) (the first time takes a minute or two) ..." >&2
	@$(INSTALL) '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.dev
	@$(INSTALL) '.[dev,bench]'
	@touch $@

# The tests start many JVMs: download Delta's jars and build the class archive first, once.
$(VENV)/.spark: | $(VENV)/.dev
	@echo "Preparing Spark: Delta's jars and a class archive (once, half a minute) ..." >&2
	@$(BIN)/python -m framework.archive_training
	@touch $@
