# `make run` and `make test` are the whole set-up on a machine with Python 3.10+ (3.11 to 3.14 for the engine), make and git.
PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# pip prints errors only and asks nothing; its indexes, caches and certificates are those that it is configured with.
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-all check format screenshots clean

help:
	@echo "make run          install the console and, where there is no vLLM, an engine; then open it (ARGS=--cold)"
	@echo "make test         make check, then all tests that run without a GPU (PYTEST_ARGS='-k engine')"
	@echo "make test-all     the same with every fault of the lab, not a third of them"
	@echo "make check        format, lint, types, imports, generated pages"
	@echo "make format       put the code into its format"
	@echo "make screenshots  make the pictures of the README again"
	@echo "make clean        remove what was built here; the installed engine stays"

run: $(VENV)/.installed
	@$(BIN)/vllm-console engine install --if-needed
	@$(BIN)/vllm-console $(ARGS)

test-all: override PYTEST_ARGS += --all-faults
test-all: test

test: $(VENV)/.installed-dev
	@$(BIN)/vllm-console engine install --if-needed
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: $(VENV)/.installed-dev
	$(BIN)/python screenshots/make.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "vllm-console needs Python 3.10 or newer; name one with: make PYTHON=/path/to/python3 run" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make a venv (Debian and Ubuntu: install python3-venv)" >&2; exit 1; }

# The stamps stand for what is installed, so that a second `make run` installs nothing and needs no network.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing vllm-console into $(VENV)" >&2
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing vllm-console and what its tests need into $(VENV)" >&2
	@$(PIP) install --editable '.[dev]'
	@command -v cc >/dev/null || $(PIP) install ziglang  # the tests build a stand-in driver library
	@touch $@ $(VENV)/.installed
