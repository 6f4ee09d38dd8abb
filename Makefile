# Every target makes its own environment in .venv; nothing needs to be installed by hand but Python >= 3.11 and Java 17.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Sources change and are compiled by every process anew; what is installed is compiled once, when it is installed.
RUN := env PYSPARK_PYTHON=$(CURDIR)/$(BIN)/python PYTHONDONTWRITEBYTECODE=1 $(BIN)/python
COMPILE := uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --quiet --python-version 3.11

.DEFAULT_GOAL := help
.PHONY: help demo quick test check bench soak mutants docs wheel format pins clean

help: ## Show what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(VENV)/.test ## Run the main job end to end on this machine
	@$(RUN) examples/demo.py

quick: $(VENV)/.test ## Run the tests that tell soon (two minutes): no Spark, no simulation, nothing slow
	@$(RUN) -m tests.parts --quick

test: $(VENV)/.test ## Run all tests, in parts, on two cores
	@$(RUN) -m tests.parts

check: $(VENV)/.test ## Format, lint, types, layers
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && echo "ruff: ok"
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports --no-logo
	@$(RUN) -m tests.house

bench: $(VENV)/.bench ## Measure ours and the peers in one run, with bars, and draw them into docs/images
	@$(RUN) -m benchmarks --plots docs/images

soak: $(VENV)/.bench ## Run the volume that does not fit into `make test` (hours)
	@$(RUN) -m tests.parts --soak

mutants: $(VENV)/.test ## Plant bugs and show that the tests catch each
	@$(RUN) -m tests.mutants

docs: $(VENV)/.bench ## Build the documentation site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "site/index.html"

wheel: $(VENV)/.test ## Build wheel and sdist into dist/
	@rm -rf dist && $(BIN)/python -m hatchling build

format: $(VENV)/.test ## Rewrite the sources in the house format
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

pins: ## Compile the requirement files anew (needs uv)
	$(COMPILE) pyproject.toml --all-extras --group test --group check --group build -o requirements/test.txt
	$(COMPILE) pyproject.toml --all-extras --group test --group check --group build --group bench --group docs \
	  -c requirements/test.txt -o requirements/bench.txt

clean: ## Remove what was built
	rm -rf $(VENV) site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@touch $@

$(VENV)/.test: $(VENV)/.uv requirements/test.txt pyproject.toml
	@$(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/test.txt
	@$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.bench: $(VENV)/.test requirements/bench.txt
	@$(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@touch $@
