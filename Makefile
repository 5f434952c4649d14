# Needs Python 3.11 or newer, git and make; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FAST := not spark and not kill

.PHONY: help setup constraints demo docs test test-fast check static lint format types imports search bench clean

help:
	@echo "make demo    install, run a real pipeline over real data on Spark, check it against its golden"
	@echo "make test    install, run all tests"
	@echo "make check   lint, types, import rules and tests: exactly what CI runs"
	@echo "make docs    build the documentation as a site: site/index.html"
	@echo "make search  the random searches, long"
	@echo "make bench   the benchmarks of this repository (see benchmarks/README.md for the peers)"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q sqlstream planner operators
	@touch $(READY)

setup: $(READY)

constraints:
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	(head -2 constraints.txt; $(VENV)-newest/bin/python -m pip freeze --exclude-editable) > constraints.new
	mv constraints.new constraints.txt && rm -r $(VENV)-newest

demo: setup
	@$(BIN)/python -m sqlstream.demo

docs: setup
	@$(BIN)/python -m docs.site site

# Spark's tests come first (tests/conftest.py): one process has its session, the others run what needs none. Three on two
# cores: what waits for a JVM, a broker or a killed process leaves its core to them.
# Compiled files are kept, also where the environment says not to: else each process compiles all 600 files of tests anew,
# which takes 20 s of the 34 s that it needs to collect them.
test test-fast: export PYTHONDONTWRITEBYTECODE =

test: setup
	$(BIN)/python -m pytest -q -n 3 --dist worksteal --durations 50

test-fast: setup
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "$(FAST)"

static: lint types imports

check: static test

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

search: setup
	SQLSTREAM_SEARCH=long SQLSTREAM_EXAMPLES=2000 $(BIN)/python -m pytest -q tests/properties tests/identity tests/edits tests/operators/state/test_state_properties.py
	SQLSTREAM_SEARCH=long SQLSTREAM_EXAMPLES=300 $(BIN)/python -m pytest -q -m "$(FAST)" tests --ignore tests/properties --ignore tests/edits
	SQLSTREAM_SEARCH=long SQLSTREAM_EXAMPLES=5 $(BIN)/python -m pytest -q -m "spark or kill" tests

bench: setup
	$(BIN)/python benchmarks/state_bench.py

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
