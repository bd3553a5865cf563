# Everything starts here: `make` lists the targets. Each sets up what it needs, once; only Python >= 3.11 and make
# must be there. Written are this folder, the cache folder, and temporary folders that go when the target ends.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:

DIRECTKAFKA_CACHE ?= $(HOME)/.cache/directkafka
export DIRECTKAFKA_CACHE
export PIP_CACHE_DIR := $(DIRECTKAFKA_CACHE)/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# What a shell of another project may carry, and what would make this one use its files.
unexport PYTHONHOME PYTHONPATH PYTHONPYCACHEPREFIX PYTHONSTARTUP VIRTUAL_ENV
# Without bytecode, which lies in this folder too, each of the tests' many processes compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
unexport NUMBA_CACHE_DIR

# The first of these that is young enough; `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for one in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$one" && break; done)
VENV_PYTHON := .venv/bin/python
ARGS ?=

# A temporary folder for all that a command and its children write, removed when they end or are interrupted.
# The JVM asks neither TMPDIR nor anybody else before it writes to /tmp; the two options of Spark tell it not to.
in_temporary_folder = folder=$$(mktemp -d "$${TMPDIR:-/tmp}/directkafka-make-XXXXXX") && \
	trap 'rm -rf "$$folder"' EXIT && trap 'exit 130' INT && trap 'exit 143' TERM HUP && \
	export TMPDIR="$$folder" SPARK_LAUNCHER_OPTS="-XX:-UsePerfData" \
	SPARK_SUBMIT_OPTS="-XX:-UsePerfData -Djava.io.tmpdir=$$folder" &&

.PHONY: help setup demo test test-all test-browser test-kerberos soak bench lint format docs pins clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo "  ARGS=\"...\" is passed on by demo, the tests, soak and bench. Cache: $(DIRECTKAFKA_CACHE)"

setup: .venv/.stamp ## virtual environment, pinned packages, broker jars (every target does this by itself)
	@$(VENV_PYTHON) -m directkafka.testing.broker_jars

demo: setup ## the whole path at work: broker, Spark and Postgres on this machine
	@$(if $(findstring --keep,$(ARGS)),,$(in_temporary_folder)) .venv/bin/directkafka demo $(ARGS)

# Four files at a time, since many tests wait, in the order that tests/conftest.py gives them; ARGS="-n 0" has them one after the other.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

# The static checks use one core. Meanwhile the other one makes the files that let the tests' processes start quickly.
checked_first = { $(VENV_PYTHON) -m tests.quick_start & } && $(MAKE) --no-print-directory lint && wait &&

test: setup ## static checks, then all tests but the slow ones
	@$(in_temporary_folder) $(checked_first) $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) -m "not slow" $(ARGS)

test-all: setup ## static checks, then all tests
	@$(in_temporary_folder) $(checked_first) $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) $(ARGS)

SCREENSHOTS ?= build/screenshots
test-browser: setup ## the page in a real browser (Chromium and its driver must be there); pictures in SCREENSHOTS
	@$(in_temporary_folder) DIRECTKAFKA_BROWSER_REQUIRED=1 DIRECTKAFKA_SCREENSHOTS="$(SCREENSHOTS)" \
		$(VENV_PYTHON) -m pytest tests/real/monitoring/test_dashboard_in_browser.py $(ARGS)

# The package is compiled, so the tests' environment does not have it until this asks for it.
test-kerberos: setup ## logins by Kerberos, with a KDC (its programs and libkrb5's headers must be there)
	@$(in_temporary_folder) $(VENV_PYTHON) -m pip install --quiet --require-virtualenv --require-hashes \
		--use-pep517 -r requirements/kerberos.txt
	@$(in_temporary_folder) DIRECTKAFKA_KERBEROS_REQUIRED=1 $(VENV_PYTHON) -m pytest \
		tests/real/kafka/test_kerberos.py $(ARGS)

MINUTES ?= 10
SEED ?= 1
soak: setup ## random kills for MINUTES=10 from SEED=1: what is lost, what is doubled, kills counted by kind
	@$(in_temporary_folder) $(VENV_PYTHON) -m soak --minutes $(MINUTES) --seed $(SEED) $(ARGS)

bench: .venv-bench/.stamp .venv-peers/.stamp ## compare with Spark's JVM connector, in an environment of its own
	@.venv-bench/bin/python -m directkafka.testing.broker_jars
	@$(in_temporary_folder) .venv-bench/bin/python benchmarks/run.py $(ARGS)

lint: .venv/.stamp ## ruff, mypy, import contracts
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m mypy
	.venv/bin/lint-imports

format: .venv/.stamp ## format, and correct what ruff can correct
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

docs: .venv/.stamp ## write the reference pages anew, and the parts of docs/DESIGN.md that are made from the code
	@$(VENV_PYTHON) -m tools.reference

UV ?= uv==0.13.9
pins: ## look up the hashes of all pinned packages, after a pin in requirements/ was changed
	@"$(PYTHON)" -m venv .venv-pins
	@.venv-pins/bin/python -m pip install --quiet $(UV)
	@.venv-pins/bin/python tools/pins.py

clean: ## remove all that was made in this folder; the cache folder stays
	rm -rf .venv .venv-bench .venv-peers .venv-pins build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/directkafka.egg-info

# $(1) is the folder of the virtual environment, $(2) the file with its pins. Debian 12's pip would install what comes
# without a wheel (PySpark) the old way, with a list of source files for metadata; --use-pep517 makes it a wheel first.
define environment
$(1)/.stamp: requirements/common.txt $(2) pyproject.toml
	@test -n "$$(PYTHON)" || { echo "directkafka needs Python 3.11 or later; found:" \
		"$$$$(python3 --version 2>/dev/null || echo no python3 on PATH). Install one and run make again:" \
		"apt-get install python3 python3-venv (Debian 12, Ubuntu 24.04), dnf install python3.11," \
		"or brew install python@3.12. One that is not on PATH: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "$$(PYTHON) cannot make virtual environments." \
		"Install what is missing and run make again: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(1) with $$(PYTHON) (a few minutes the first time)"
	@rm -f $(1)/.stamp
	@$(1)/bin/python -c '' 2>/dev/null || "$$(PYTHON)" -m venv --clear $(1)
	@$$(in_temporary_folder) $(1)/bin/python -m pip install --quiet --require-virtualenv --require-hashes \
		--use-pep517 -r $(2)
	@$$(in_temporary_folder) $(1)/bin/python -m pip install --quiet --require-virtualenv \
		--no-deps --no-build-isolation --editable .
	@touch $(1)/.stamp
endef

$(eval $(call environment,.venv,requirements/dev.txt))
$(eval $(call environment,.venv-bench,requirements/bench.txt))

# The peers that `make bench` compares with: none of our own packages, which they would not agree with.
.venv-peers/.stamp: requirements/peers.txt .venv-bench/.stamp
	@echo "setting up .venv-peers"
	@rm -f $@
	@.venv-peers/bin/python -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear .venv-peers
	@$(in_temporary_folder) .venv-peers/bin/python -m pip install --quiet --require-virtualenv --require-hashes -r $<
	@touch $@
