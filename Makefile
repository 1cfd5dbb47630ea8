# One command does it all, and CI runs the same ones. `make help` lists them.

PY := .venv/bin/python
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
FOREGROUND := $(PY) .make/foreground.py
SHELL_SCRIPTS := .ci/run .make/venv.sh .make/lambda.sh .make/deploy.sh $(wildcard infra/*.sh)
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=eu-west-1 .venv-sam/bin/sam
# Test processes side by side, also on two cores, since tests mostly wait; each has a server of its own.
PYTEST := $(PY) -m pytest -q -n 4 --dist worksteal
ARGS ?=
export PYTHON

# SAM does not tell the build for which architecture it is: `make build` tells both.
LAMBDA_ARCHITECTURE ?= arm64
LAMBDA_PYTHON ?= 3.13
BUILD_PYTHON ?= python3
BUILD_DIR ?= .aws-sam/build
export LAMBDA_ARCHITECTURE LAMBDA_PYTHON BUILD_PYTHON

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help up test prove check fmt docs redis build deploy bench bench-quick

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: .venv/.up ## Run everything on this machine: server, cron rules, worker (ARGS='--fire NAME')
	@$(FOREGROUND) .venv/bin/kiqbridge dev $(ARGS)

test: .venv/.dev $(if $(strip $(ARGS)),,.venv-sam/.sam) ## Run every test tier (ARGS='tests/unit -k cron' runs a part)
ifeq ($(strip $(ARGS)),)
	@if command -v redis-server >/dev/null; then \
		echo "== tests/redis, on redis-server"; \
		KIQBRIDGE_TEST_SERVER=redis $(PYTEST) tests/redis || exit 1; \
		echo "== all tiers, on the embedded server"; \
	fi
endif
	@$(PYTEST) $(ARGS)

prove: .venv/.dev ## Prove at full size, in about forty minutes, that nothing is lost (ARGS='-k clock' for one)
	@KIQBRIDGE_PROVE=full PYTHONDONTWRITEBYTECODE=1 $(PY) -m pytest -q -p no:cacheprovider -p no:xdist \
		$(ARGS) tests/prove

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

docs: .venv/.dev ## Write the documents that are generated from code and tests
	$(PY) -m kiqbridge.settings_doc > docs/settings.md.new && mv docs/settings.md.new docs/settings.md
	$(PY) tests/bad_inputs.py
	$(PY) tests/interop/conformance.py

redis: .venv/.up ## Start a throw-away server and print its REDIS_URL
	@$(FOREGROUND) $(PY) .make/redis.py

build: BUILD_PYTHON := $(abspath .venv-sam/bin/python)
build: .venv-sam/.sam ## Build layer and function for Lambda (LAMBDA_ARCHITECTURE=x86_64 for that one)
	@$(SAM) build --build-dir $(BUILD_DIR) --parameter-overrides Architecture=$(LAMBDA_ARCHITECTURE)

deploy: build ## Build and deploy; asks the first time (ARGS=--guided asks again)
	@.make/deploy.sh $(ARGS)

bench: .venv/.dev ## Measure all, beside Sidekiq and Python peers, and write docs/benchmarks.md (ARGS='noop retry' a part)
	@$(PY) tests/benchmarks/bench.py $(ARGS)

bench-quick: .venv/.dev ## The same in two minutes: fewer jobs, one round, nothing written
	@$(PY) tests/benchmarks/bench.py --quick $(ARGS)

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

# `sam build` calls these with ARTIFACTS_DIR, one for each logical id of the template.

.PHONY: build-KiqbridgeLayer build-EnqueueFunction
build-KiqbridgeLayer:
	@.make/lambda.sh layer

build-EnqueueFunction:
	@.make/lambda.sh function lambdas/enqueue
