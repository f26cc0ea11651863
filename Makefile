# The whole set-up: each target makes the virtual environment and builds the package if needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WITH_SPARK := scripts/with-spark
BUILD_INPUTS := setup.py pyproject.toml $(wildcard mta/*.py mta/stores/*.py mta/*.pyx mta/*.pxd mta/*.pxi mta/*.h)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test bench lint types format clean

help:  ## Say what can be made
	@echo "usage: make TARGET [PYTHON=python3]"
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

run: $(VENV)/run.stamp  ## Run the main job on Spark; results and a picture in out/
	$(WITH_SPARK) python examples/flight_delays.py

test: $(VENV)/test.stamp  ## Lint, types and the whole test suite, with a summary
	$(WITH_SPARK) scripts/check lint types stubs imports tests

bench: $(VENV)/test.stamp  ## Measure against pandas, polars and bottleneck (quick)
	$(WITH_SPARK) python -m asv_benchmarks.compare --quick

lint: $(VENV)/test.stamp  ## Check style and format only
	PATH=$(CURDIR)/$(BIN):$$PATH scripts/check lint

types: $(VENV)/test.stamp  ## Check types, stubs and the import order only
	PATH=$(CURDIR)/$(BIN):$$PATH scripts/check types stubs imports

format: $(VENV)/test.stamp  ## Bring the sources into the format that lint asks for
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

clean:  ## Remove everything made: environment, builds, caches, results
	rm -rf $(VENV) build dist out *.egg-info .asv .hypothesis .import_linter_cache
	rm -rf .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find mta -name '*.so' -delete

$(BIN)/python:
	scripts/make-venv $(PYTHON) $(VENV)

# Installed in place: the sources are what runs, and only a change of what is compiled or
# required installs again.
$(VENV)/run.stamp: $(BIN)/python $(BUILD_INPUTS)
	$(BIN)/python -m pip install --quiet --editable '.[spark,examples]'
	@touch $@

$(VENV)/test.stamp: $(BIN)/python $(BUILD_INPUTS)
	$(BIN)/python -m pip install --quiet --editable '.[spark,examples,dev]'
	@touch $(VENV)/run.stamp $@
