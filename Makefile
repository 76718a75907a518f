# Short targets; .ci/run calls the same ones. Everything is set up inside this folder (.venv, node_modules) and in the
# user's cache (the engine's model, 98 MB). Stamp files make a second run start at once.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
# Test files run beside each other: many tests wait for real clocks.
WORKERS ?= 2
VENV := .venv
PY := $(VENV)/bin/python
RUN = $(PY)
NODE := tests/e2e/node
CODE := src tests docs $(wildcard benchmarks)
# The clients that people use, each in an environment of its own: no pin of theirs can be in the way of another's.
CLIENTS := tests/clients
CLIENT_ENVS := $(patsubst $(CLIENTS)/%.txt,.run/clients/%/.stamp,$(wildcard $(CLIENTS)/*/*.txt)) \
	$(patsubst %/package.json,%/node_modules/.stamp,$(wildcard $(CLIENTS)/*/package.json))

# Programs that tests start: a browser, a Redis, the server that reads the metrics, a model checker.
TOOLS := chromium redis-server prometheus tmux spin

# One line per step, so that nobody looks at a silent terminal. pip and npm draw their own bars on a terminal, and print
# only errors in a pipe.
say = @echo "── $(1)"
quiet := $(if $(MAKE_TERMOUT),,-qq --progress-bar off)
pip = $(PY) -m pip --disable-pip-version-check install --no-deps $(quiet)

# `make requirements UPGRADE=` keeps every version that still fits.
UPGRADE := --upgrade
CLIENT_COMPILE = .run/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE) \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --custom-compile-command 'make requirements'
COMPILE = $(CLIENT_COMPILE) --extra local --extra pdf --extra top

# ---- for everyone ----------------------------------------------------------------------------------------------------

.PHONY: help
help:  ## these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: $(VENV)/run.stamp  ## set up everything and start the gateway with the embedded engine; ARGS="--port 9000"
	$(call say,the engine's model)
	@$(VENV)/bin/slotline engine fetch
	$(call say,slotline serve)
	@exec $(VENV)/bin/slotline serve $(ARGS)

.PHONY: test
test: setup lint  ## set up everything that the tests need, check the code, run all tests; ARGS="-k line"
	$(call say,tests)
	@$(RUN) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS) || { status=$$?; [ $$status = 1 ] || exit $$status; \
	echo '── what failed, once more and alone: many tests bound real waits, and a busy machine can miss one'; \
	$(RUN) -m pytest --last-failed --last-failed-no-failures none $(ARGS); }

.PHONY: coverage
coverage:  ## the same tests, and what of the code they reach; slower
	@$(VENV)/bin/coverage erase
	@status=0; $(MAKE) --no-print-directory test RUN='$(VENV)/bin/coverage run' || status=$$?; \
	$(VENV)/bin/coverage combine --quiet && $(VENV)/bin/coverage report; exit $$status

.PHONY: chaos
chaos: setup  ## minutes of gateways that die, hang and are cut off, checked afterwards; the whole model; ARGS="-k 4"
	$(call say,chaos)
	@$(PY) -m pytest tests/chaos tests/models -m chaos -s $(ARGS)

.PHONY: test-clients
test-clients: setup $(CLIENT_ENVS)  ## many more clients against the gateway (2 GB of them), and docs/clients.md anew
	$(call say,clients)
	@status=0; $(PY) -m pytest $(CLIENTS) -m clients $(ARGS) || status=$$?; \
	$(PY) $(CLIENTS)/page.py || exit; exit $$status

.PHONY: lint
lint: $(VENV)/dev.stamp  ## ruff, mypy, and who may import whom
	$(call say,ruff)
	@$(VENV)/bin/ruff check --quiet $(CODE)
	@$(VENV)/bin/ruff format --check --quiet --diff $(CODE)
	$(call say,mypy)
	@$(VENV)/bin/mypy
	$(call say,import-linter)
	@$(VENV)/bin/lint-imports --no-logo

.PHONY: fmt
fmt: $(VENV)/dev.stamp  ## format the code, and mend what ruff can mend
	@$(VENV)/bin/ruff check --fix $(CODE)
	@$(VENV)/bin/ruff format $(CODE)

.PHONY: bench
bench: $(VENV)/dev.stamp  ## the benchmarks; ARGS="…" goes to benchmarks/run.py
	@if [ -f benchmarks/run.py ]; then exec $(PY) benchmarks/run.py $(ARGS); \
	else echo 'There is no benchmarks/run.py in this tree.'; fi

.PHONY: setup
setup: tools $(VENV)/dev.stamp $(NODE)/node_modules/.stamp  ## what `make test` sets up, without the tests
	$(call say,the engine's model)
	@$(VENV)/bin/slotline engine fetch

.PHONY: tools
tools:  ## the programs that tests start; installs what is missing, as root on Debian and its like
	@missing=(); for tool in $(TOOLS); do command -v $$tool >/dev/null || missing+=($$tool); done; \
	if [ -z "$${missing[*]}" ]; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "── installing $${missing[*]}"; apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
	else echo "The tests need $${missing[*]}. On Debian: sudo apt-get install $${missing[*]}" >&2; exit 1; fi

.PHONY: requirements
requirements:  ## compile all pins anew: newest versions, with hashes, without any index's address
	$(call say,compiling requirements/*.txt and the clients' pins and lock files)
	@mkdir -p .run && $(PYTHON) -m venv .run/uv && .run/uv/bin/python -m pip install --quiet uv
	@$(COMPILE) -o requirements/run.txt pyproject.toml requirements/run.in
	@$(COMPILE) --extra otel --extra cluster -o requirements/dev.txt -c requirements/run.txt pyproject.toml requirements/run.in requirements/dev.in
	@for pins in $(wildcard $(CLIENTS)/*/*.in); do \
		$(CLIENT_COMPILE) -o $${pins%.in}.txt $$pins || exit; done
	@for folder in $(NODE) $(dir $(wildcard $(CLIENTS)/*/package.json)); do (cd $$folder && \
		npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund) || exit; done

.PHONY: clean
clean:  ## remove what was set up and built here (not the model in the user's cache)
	rm -rf $(VENV) $(NODE)/node_modules $(CLIENTS)/*/node_modules .run dist build .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	find src tests $(wildcard benchmarks) -name __pycache__ -prune -exec rm -rf {} +

# ---- the pieces ------------------------------------------------------------------------------------------------------

# Slotline itself is installed in place: changed code needs no new set-up, only changed metadata does.
# requirements/dev.txt holds all of run.txt, at the same versions.
$(VENV)/run.stamp: requirements/run.txt pyproject.toml | $(PY)
	$(call say,installing the gateway and the engine into $(VENV))
	@$(pip) --require-hashes -r requirements/run.txt
	@$(pip) --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(PY)
	$(call say,installing the gateway with the engine and the tools for tests into $(VENV))
	@$(pip) --require-hashes -r requirements/dev.txt
	@$(pip) --no-build-isolation --editable .
	@touch $(VENV)/run.stamp $@

$(PY):
	$(call say,making $(VENV) with $(PYTHON))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Slotline needs Python 3.11 or newer. Name one: make run PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments. On Debian: sudo apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(NODE)/node_modules/.stamp: $(NODE)/package.json $(NODE)/package-lock.json
	$(call say,installing the vendor's TypeScript client)
	@command -v npm >/dev/null || \
		{ echo "The tests need node and npm. On Debian: sudo apt-get install nodejs npm" >&2; exit 1; }
	@cd $(NODE) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# Python clients: everything they need is in the pins, so nothing is looked for beyond them.
.run/clients/%/.stamp: $(CLIENTS)/%.txt
	$(call say,installing the client $*)
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check install --no-deps $(quiet) --require-hashes -r $<
	@touch $@

$(CLIENTS)/%/node_modules/.stamp: $(CLIENTS)/%/package.json $(CLIENTS)/%/package-lock.json
	$(call say,installing the client $*)
	@cd $(CLIENTS)/$* && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
