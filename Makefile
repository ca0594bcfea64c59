# make demo    a look at arcops with real vLLM on this machine's processor
# make test    everything that is tested, with what it needs set up first
# make check   format, lint, types, layers and the fast tests: seconds
SHELL := /bin/bash
.DEFAULT_GOAL := help
# The first interpreter that really runs and is new enough: a version manager's shim may be there without its version.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := libnuma1 libtcmalloc-minimal4 tmux

.PHONY: help setup packages runtime demo check format lint types layers fast test bench docs clean

help: ## Show the targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## .venv with arcops and what development needs.

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "== arcops' own environment ($(VENV))"
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; name one with PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

packages: ## Debian packages that the runtime and the tests use (asks for root only if one is missing).
	@missing=; for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "== Debian packages:$$missing"; \
	  if [ $$(id -u) = 0 ]; then run=; else run=sudo; fi; \
	  $$run apt-get update -qq && $$run apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi

runtime: ## vLLM for the CPU (2.3 GB) and the tiny models, once per machine.
	@$(PYTHON) tools/vllm_cpu/build.py

demo: setup packages ## Real vLLM on the CPU: switch to demo-dflash2, ask, and open the screen.
	@$(BIN)/python -m tools.demo

check: setup lint types layers fast ## Seconds: run it before every commit.

format: setup
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: setup
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: setup
	@$(BIN)/pyright

layers: setup
	@$(BIN)/lint-imports --no-cache | tail -n 12

fast: setup
	@$(BIN)/pytest -q -m "not real and not processes and not newcomer"

test: setup packages lint types layers ## All of it: about ten minutes.
	@$(PYTHON) tools/vllm_cpu/build.py >/dev/null
	@$(BIN)/pytest

bench: setup packages ## Costs beside their budgets: prints a table.
	@$(BIN)/python -m tools.bench

docs: setup ## Write what documents take from the code.
	@$(BIN)/python -m tools.docs

clean: ## Remove what this checkout built (the runtime in the cache stays).
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
