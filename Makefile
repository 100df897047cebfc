# `make demo` and `make test` are all that a fresh machine needs: each makes .venv when it is not
# there, and again when a file that it was made from has changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PLUGINS := $(VENV)/.plugins
SPHINX := $(VENV)/.sphinx
SOURCES := requirements-dev.txt $(wildcard packages/*/pyproject.toml examples/*/pyproject.toml) \
	$(wildcard packages/*/CMakeLists.txt) \
	$(shell find packages/*/native packages/devrt-core/src/devrt/native -type f -not -name '*.md' -not -name '*.py*' 2>/dev/null)

.PHONY: help setup plugins check demo test test-all lint types stubs rules native bench docs parity format clean

help:
	@echo "make demo      discover the backends, shard a data set over a mesh, check it bit for bit"
	@echo "make test      the test-suite (a few minutes)"
	@echo "make plugins   real PJRT plugins, to compile for TPUs and GPUs (520 MB; make test does it)"
	@echo "make test-all  the test-suite on every Python, wheels, native sanitizers (long)"
	@echo "make check     lint, types, rules, stubs, the test-suite and the documentation"
	@echo "make native    the C++ tests under sanitizers, which CI runs too"
	@echo "make bench     devrt beside its peers, as a table"

setup: $(STAMP)

$(STAMP): $(SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing devrt and its tools into $(VENV) (once; a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

plugins: $(PLUGINS)

# Without a network the tests that need them are skipped by name, and the next run tries again.
$(PLUGINS): requirements-plugins.txt | $(STAMP)
	@echo "installing real PJRT plugins for the tests (once; 520 MB)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< \
		&& touch $@ || echo "they cannot be had; tests that need them are skipped"

$(SPHINX): requirements-docs.txt $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

demo: $(STAMP)
	@$(BIN)/devrt demo $(ARGS)

# What .ci/run runs, but for wheels and sanitizers; the quickest first.
check: lint types rules stubs test docs

# A worker more than processors: a sixth of their time is waits.
test: $(STAMP) $(PLUGINS)
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
		--dist=worksteal --ignore=tests/repo $(ARGS)

test-all: $(STAMP)
	$(BIN)/nox

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.cpp' '*.hpp' '*.h' '*.c' | xargs $(BIN)/clang-format -i

types: $(STAMP)
	$(BIN)/mypy packages/devrt-core/src packages/devrt-cpu/src packages/devrt-cuda/src \
		packages/devrt-rocm/src packages/devrt-tpu/src

stubs: $(STAMP)
	$(BIN)/python -m pytest -q packages/devrt-cpu/tests/client/test_stub.py

rules: $(STAMP)
	$(BIN)/python -m pytest -q tests/repo

# Everything anew each time: a page that no longer exists must not be found.
docs: $(STAMP) $(SPHINX)
	@$(BIN)/python -m sphinx --fresh-env --fail-on-warning --quiet docs docs/_build
	@echo "docs/_build/index.html"

# Runs the rows of tools/parity_rows, and writes docs/parity.md where all of them are true.
parity: $(STAMP)
	$(BIN)/python tools/parity.py

bench: $(STAMP)
	$(BIN)/python -m bench $(ARGS)

native: $(STAMP)
	tools/native_tests.sh

clean:
	rm -rf $(VENV) .nox build dist packages/*/build packages/*/dist
