# What a user does. Every target sets the checkout up first; `make help` lists them.
LAB      ?=
LAB_FILE ?=
VERSION  ?=
CELLS    ?=
MEASURE  ?=
RESULTS  ?=
SEED     ?=
HARDWARE ?=
MASTER   ?=
WEB      ?=
A        ?=
B        ?=

HARNESS := .venv/bin/harness
LAB_OPTIONS := $(if $(LAB),--lab $(LAB)) $(if $(LAB_FILE),--lab-file '$(LAB_FILE)')
CELL_OPTIONS := $(if $(CELLS),--cells '$(CELLS)') $(if $(MEASURE),--measure $(MEASURE)) $(if $(RESULTS),--results '$(RESULTS)')
CLIENT_PACKAGES := freetds-bin mono-mcs libmono-system-data4.0-cil libmono-i18n-west4.0-cil
MODEL_OPTIONS := $(CELL_OPTIONS) $(if $(SEED),--seed $(SEED)) $(if $(HARDWARE),--hardware '$(HARDWARE)') $(if $(MASTER),--master '$(MASTER)')
MATRIX_OPTIONS := $(LAB_OPTIONS) $(if $(VERSION),--server-versions '$(VERSION)') $(MODEL_OPTIONS)

.PHONY: help setup clients matrix quick simulate techniques ui doctor up down status compare test test-all check parity lint bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
	@echo "variables: LAB=embedded|sqlserver|simulated LAB_FILE=lab.toml CELLS='i1-t5-*' MEASURE=1s RESULTS=dir VERSION=2022"
	@echo "           matrix and quick take WEB=8089: a page of the sweep"
	@echo "           matrix, quick and simulate take SEED=1; on a model HARDWARE=paper MASTER='local[*]'"
	@echo "           compare takes A=results/x B=results/y; containers need ACCEPT_EULA=Y"

setup: .venv/.ready  ## virtual environment, ODBC, Java: once

.venv/.ready: pyproject.toml .constraints.txt .ci/setup .ci/packages.py
	@.ci/setup

.venv/.tests: .venv/.ready tests/constraints.txt
	@echo 'tests: installing the packages that only tests need into .venv'
	@.venv/bin/python .ci/packages.py tests/constraints.txt --constraint .constraints.txt --requirement tests/constraints.txt
	@echo 'tests: compiling them once; otherwise each worker of the first run does'
	@.venv/bin/python -m pytest --collect-only --quiet >/dev/null || true  # the run itself says what cannot be imported
	@touch $@

matrix: setup  ## sweep the 528 cells, reduce, draw
	@$(HARNESS) matrix $(MATRIX_OPTIONS) $(if $(WEB),--web $(WEB))

quick: setup  ## the same for 24 cells that span all axes
	@$(HARNESS) matrix --matrix quick $(MATRIX_OPTIONS) $(if $(WEB),--web $(WEB))

simulate: setup  ## the 528 cells on a model of the paper's hardware, in virtual time
	@$(HARNESS) simulate $(MODEL_OPTIONS)

techniques: setup  ## the paper's recommendations one after another: LAB=simulated, embedded or sqlserver
	@$(HARNESS) techniques $(LAB_OPTIONS) $(if $(MEASURE),--measure $(MEASURE)) $(if $(RESULTS),--results '$(RESULTS)')

ui: setup  ## Locust's web UI for one scenario on 127.0.0.1:8089
	@$(HARNESS) ui $(LAB_OPTIONS)

doctor: setup  ## examine a lab: findings and remedies
	@$(HARNESS) doctor $(LAB_OPTIONS) $(if $(VERSION),--server-version $(VERSION))

up: setup  ## SQL Server in containers, left running: ACCEPT_EULA=Y make up VERSION=2022
	@$(HARNESS) lab up $(if $(VERSION),--server-version $(VERSION))

down: setup  ## stop and remove the containers and their data
	@$(HARNESS) lab down

status: setup  ## say which containers run
	@$(HARNESS) lab status

compare: setup  ## ratios, verdicts and figures of two result folders: A=... B=...
	@$(HARNESS) compare $(if $(A),'$(A)') $(if $(B),'$(B)')

test: .venv/.tests  ## one test of each kind, four files at a time; neither Docker nor network: 6 to 9 minutes
	@.venv/bin/python -m pytest -m "not (thorough or sqlserver)" -n 4 --dist loadfile --no-loadscope-reorder \
		--hypothesis-profile half

test-all: .venv/.tests  ## all tests that need no SQL Server, and which branches they reach: what CI runs on GitHub
	@mkdir -p .venv/coverage
	@.venv/bin/python -m coverage erase
	@.venv/bin/python -m coverage run -m pytest -m "not sqlserver" -n 4 --dist loadfile --no-loadscope-reorder -o python_files="test_*.py batches.py"
	@.venv/bin/python -m coverage combine --quiet
	@.venv/bin/python -m coverage report

check: .venv/.tests  ## the tests that need neither processes, Spark nor a driver, and draw no whole runs: 45 to 55 seconds
	@.venv/bin/python -m pytest -m "not (process or spark or drawing or sqlserver)" -n 2 --dist worksteal --hypothesis-profile few

clients: .venv/.tests  ## client libraries for tests/clients: Python's into .venv, Node's into .clients, SqlClient and freebcp by apt-get
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint .constraints.txt --constraint tests/clients/constraints.txt --editable '.[clients]'
	@if command -v npm >/dev/null; then \
		mkdir -p .clients/node && cp tests/clients/node/package.json .clients/node/ && \
		npm install --prefix .clients/node --no-audit --no-fund --loglevel=error; \
	else \
		echo "clients: Node is missing, so tedious and mssql are left out. Install nodejs and npm, then repeat make clients"; \
	fi
	@dpkg --status $(CLIENT_PACKAGES) >/dev/null 2>&1 || \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends $(CLIENT_PACKAGES) >/dev/null; } || \
		echo "clients: SqlClient and freebcp are left out. Install $(CLIENT_PACKAGES) as root, then repeat make clients"

parity: .venv/.tests  ## the embedded broker against SQL Server in a container: results/parity.md
	@.venv/bin/python -m tests.parity

lint: .venv/.tests  ## ruff, mypy, layers of imports, rules about source text
	@.venv/bin/ruff check harness tests
	@.venv/bin/ruff format --check harness tests
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/python -m tests.source_rules

bench: .venv/.tests  ## print what the parts carry on this machine
	@.venv/bin/python -m tests.benchmarks

clean:  ## remove the virtual environment and caches; results stay
	@rm -rf .venv .clients .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
