# `make help` lists the targets. Each does its own set-up: a virtual environment in .venv, made once.

.DELETE_ON_ERROR:
.ONESHELL:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PY := .venv/bin/python
SLICES ?= commit
SINCE ?= HEAD
COUNT ?= 100
HANGS := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true  # a test that hangs fails by name, with its stacks
EXTRAS := demo,examples,opacus,opendp,diffprivlib,huggingface,lightning,mlflow,postgres,kms,dev
SOURCES := pyproject.toml setup.py constraints.txt

.PHONY: help demo docs gallery verify-page test test-near test-slow test-lowest coverage mutants lint types bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

demo: .venv/.demo  ## the main job, end to end, on real data: writes demo/ (under a minute)
	rm -rf demo
	$(PY) -m dpledger demo --out demo

test: .venv/.dev  ## linters, types, layers and the tests, with the slice of seeds that the commit chooses (SLICES=all: all five)
	$(MAKE) --no-print-directory --output-sync -j2 lint types
	$(PY) -m pytest -n 2 --dist worksteal -m "not slow" --slices=$(SLICES) $(HANGS)

test-near: .venv/.dev  ## the tests that a change reaches: what differs from the last commit, or from SINCE=main~3
	files=$$($(PY) tests/support/near.py $(SINCE))
	[ -z "$$files" ] || $(PY) -m pytest -n 2 --dist worksteal -m "not slow" $$files

coverage: .venv/.dev  ## the same tests, and what they reach: fails where that is less than before (twice as long)
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -n 2 --dist worksteal -m "not slow"
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --format=total

test-slow: .venv/.dev  ## the slower statistical and scale tests
	DPLEDGER_HYPOTHESIS=explore $(PY) -m pytest -n 2 --dist worksteal -m slow

test-lowest: .venv-lowest/.made  ## the tests of the core with the lowest versions that pyproject.toml names (as long as `make test`)
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal -m "not slow" -W ignore::DeprecationWarning --slices=$(SLICES) $(HANGS) tests/accounting tests/audit tests/ledger tests/mechanisms tests/reports

mutants: .venv/.dev  ## how many of COUNT small faults, made one by one in a copy, the nearest tests find (a minute each)
	$(PY) tests/support/mutants.py $(COUNT)

docs: .venv/.docs  ## the site of these pages, with search and the reference of the API: writes site/
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict
	echo "open site/index.html"

gallery: .venv/.dev  ## audit released libraries in their own environments, and write docs/gallery.md (minutes; needs their Pythons, or uv)
	$(PY) examples/gallery/run.py --write

verify-page:  ## docs/verify.html, the verifier in one page, from verifier/*.mjs
	$(PYTHON) verifier/make_page.py

lint: .venv/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	.venv/bin/lint-imports
	$(PY) -m vulture

types: .venv/.dev
	$(PY) -m mypy --num-workers 2

bench: .venv/.dev  ## the benchmarks: ratios against peers in the same run
	for file in benchmarks/*.py; do echo "== $$file"; $(PY) "$$file"; done

clean:  ## remove the environment and everything built
	rm -rf .venv .venv-lowest build dist demo site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.made: $(SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "dpledger needs Python 3.11 or newer; this is %s. Try: make PYTHON=python3.11" % sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip
	touch $@

.venv-lowest/.made: $(SOURCES)
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet torch --constraint constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]' --constraint constraints.txt
	.venv-lowest/bin/python tests/support/lowest.py | xargs .venv-lowest/bin/python -m pip install --quiet  # peers that want newer ones are told of
	touch $@

.venv/.demo: .venv/.made
	$(PY) -m pip install --quiet --editable '.[demo]' --constraint constraints.txt
	touch $@

.venv/.docs: .venv/.made
	$(PY) -m pip install --quiet --editable '.[docs]' --constraint constraints.txt
	touch $@

.venv/.dev: .venv/.made
	$(PY) -m pip install --quiet torch --constraint constraints.txt
	$(PY) -m pip install --quiet --editable '.[$(EXTRAS)]' --constraint constraints.txt
	touch $@ .venv/.demo
