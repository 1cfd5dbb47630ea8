# One command does it all, and CI runs the same ones. `make help` lists them.

PY := .venv/bin/python
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
FOREGROUND := $(PY) .make/foreground.py
SHELL_SCRIPTS := .ci/run .make/venv.sh $(wildcard infra/*.sh)
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=eu-west-1 .venv-sam/bin/sam
# Test processes side by side; each has a server of its own.
PYTEST := $(PY) -m pytest -q -n auto --maxprocesses 4
ARGS ?=
export PYTHON

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help up test check fmt redis bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: .venv/.up ## Run everything on this machine: server, cron rules, worker (ARGS='--fire NAME')
	@$(FOREGROUND) .venv/bin/kiqbridge dev $(ARGS)

test: .venv/.dev ## Run every test tier (ARGS='tests/unit -k cron' runs a part)
ifeq ($(strip $(ARGS)),)
	@if command -v redis-server >/dev/null; then \
		echo "== tests/redis, on redis-server"; \
		KIQBRIDGE_TEST_SERVER=redis $(PYTEST) tests/redis || exit 1; \
		echo "== all tiers, on the embedded server"; \
	fi
endif
	@$(PYTEST) $(ARGS)

check: .venv/.dev .venv-sam/.sam ## Check style, types, template and scripts, changing nothing
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m kiqbridge.template template.yaml
	$(PY) tests/infra/check_template.py
	$(SAM) validate --lint --template template.yaml
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script" || exit 1; done
	@if command -v shellcheck >/dev/null; then echo shellcheck $(SHELL_SCRIPTS); shellcheck $(SHELL_SCRIPTS); \
		else echo "shellcheck is not installed: scripts were only parsed (apt install shellcheck)"; fi
	@echo "make check: all is well"

fmt: .venv/.dev ## Format the code and mend what can be mended safely
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

redis: .venv/.up ## Start a throw-away server and print its REDIS_URL
	@$(FOREGROUND) $(PY) .make/redis.py

bench: .venv/.up ## Measure jobs per second, beside Ruby Sidekiq if it is installed (ARGS=…)
	@$(PY) tests/benchmarks/bench.py $(ARGS)

# Stamps: made once, renewed when the versions change.

.venv/.up: pyproject.toml constraints.txt
	@echo "Setting up .venv (first time, or versions changed) …"
	@sh .make/venv.sh .venv
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[local]'
	@touch $@

# Brings what .up brings, so it does not wait for it: one installation instead of two.
.venv/.dev: pyproject.toml constraints.txt
	@echo "Setting up .venv with the test tools (first time, or versions changed) …"
	@sh .make/venv.sh .venv
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch .venv/.up $@

.venv-sam/.sam: constraints-sam.txt
	@echo "Setting up .venv-sam (first time, or versions changed) …"
	@sh .make/venv.sh .venv-sam
	@.venv-sam/bin/python $(PIP_INSTALL) -c constraints-sam.txt aws-sam-cli
	@touch $@

# `sam build` calls this with ARTIFACTS_DIR: the package and what it needs, for Lambda's own Python.
# SAM does not say for which architecture: give LAMBDA_ARCHITECTURE together with the parameter.
LAMBDA_ARCHITECTURE ?= arm64
LAMBDA_PYTHON ?= 3.13
LAMBDA_PLATFORM = manylinux2014_$(if $(filter arm64,$(LAMBDA_ARCHITECTURE)),aarch64,x86_64)
LAYER_PIP ?= python3 -m pip

.PHONY: build-KiqbridgeLayer
build-KiqbridgeLayer:
	@test -n "$(ARTIFACTS_DIR)" || { echo "sam build runs this target and says where to" >&2; exit 2; }
	$(LAYER_PIP) install --quiet --disable-pip-version-check --no-compile \
		--target "$(ARTIFACTS_DIR)/python" --platform $(LAMBDA_PLATFORM) --implementation cp \
		--python-version $(LAMBDA_PYTHON) --only-binary=:all: --constraint constraints.txt \
		'.[lambda,schedule]'
