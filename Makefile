# One command does it all, and CI runs the same ones. `make help` lists them.

# PYTHON=python3.13 (or a path, or 3.13) chooses the interpreter. The first one gets .venv, a Python of
# another version a virtual environment of its own, such as .venv-3.13.
ifeq ($(strip $(PYTHON)),)
VENV := .venv
else
WANTED := $(PYTHON)
override PYTHON := $(shell .make/python.sh find '$(WANTED)')
ifeq ($(PYTHON),)
$(error PYTHON=$(WANTED) is no Python 3.11 or newer. Name one that is, or leave PYTHON unset to look for one)
endif
VENV := $(shell .make/python.sh venv '$(PYTHON)')
endif
export PYTHON
PYTHONS ?= 3.11 3.12 3.13 3.14

PY := $(VENV)/bin/python
# An environment whose Python is gone, by an upgrade of the system, is made anew.
$(shell for venv in '$(VENV)' .venv-sam; do [ -x "$$venv/bin/python" ] || rm -f "$$venv"/.up "$$venv"/.unit "$$venv"/.test "$$venv"/.dev "$$venv"/.sam; done)
# Compiling all that is installed takes as long as installing it, and a tenth of it is ever imported.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --no-compile
PIP_FAILED := { echo "pip could not install all of that: it needs the network once, or PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER with the wheels; then call make again" >&2; exit 1; }
# What every worker imports is compiled here once: proofs and jobs under a foreign clock write no bytecode.
# Tests start hundreds of processes, so they write it, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE
COMPILE_IMPORTED := -m kiqbridge worker --help >/dev/null
# Else each of the processes that share the tests compiles all of them in the first run.
COMPILE_TESTS := -m pytest --collect-only -q --quick >/dev/null 2>&1 || true
FOREGROUND := $(PY) .make/foreground.py
SHELL_SCRIPTS := .ci/run .make/python.sh .make/test_pythons.sh .make/venv.sh .make/debian13.sh .make/lambda.sh .make/deploy.sh $(wildcard infra/*.sh)
SAM := SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=eu-west-1 .venv-sam/bin/sam
# Test processes side by side, also on two cores, since tests mostly wait; each has a server of its own.
PYTEST := $(PY) -m pytest -q -n 5 --dist worksteal
ARGS ?=
# What is installed for the tests: `test` for those of `make test`; `unit` is enough for tests/kernel/unit, and a third of `dev`.
TOOLS ?= $(if $(strip $(ARGS)),dev,test)

# SAM does not pass the architecture to the build: `make build` passes it to both.
LAMBDA_ARCHITECTURE ?= arm64
LAMBDA_PYTHON ?= 3.13
BUILD_PYTHON ?= python3
BUILD_DIR ?= .aws-sam/build
# Files that map events to jobs; the build translates them with the package itself.
MAPPINGS := $(wildcard lambdas/enqueue/mappings*.yml)
MAPPINGS_PYTHON ?= $(abspath $(PY))
export LAMBDA_ARCHITECTURE LAMBDA_PYTHON BUILD_PYTHON MAPPINGS_PYTHON

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help up test test-all test-tiers test-redis test-pythons prove e2e without check fmt docs capture site redis dist build deploy bench bench-quick scale

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(VENV)/.up ## Run everything on this machine: server, cron rules, worker (ARGS='--fire NAME')
	@$(FOREGROUND) $(VENV)/bin/kiqbridge dev $(ARGS)

test: $(VENV)/.$(TOOLS) ## For everybody: each promise once, in four minutes (ARGS='tests/kernel/unit -k cron' runs a part)
	@$(PYTEST) $(or $(strip $(ARGS)),--quick)

test-all: test-tiers test-redis ## For CI and before a merge: every tier, also on redis-server, with Ruby, Chromium and proofs

test-tiers: $(VENV)/.dev .venv-sam/.sam .debian13/.root ## Of test-all, every tier on the embedded server
	@$(PYTEST)

# What depends on redis-py's own code: run with the oldest one that is supported, too.
OF_REDIS_PY := $(addprefix tests/kernel/redis/test_,redis_connection.py redis_pool.py round_trip.py wake_connection.py connection_faults.py) \
	tests/kernel/unit/test_lean_redis.py tests/features/cluster/test_calls.py
test-redis: $(VENV)/.dev $(VENV)/oldest/redis ## Of test-all, tests/kernel/redis and tests/features on redis-server, and some with the oldest redis-py
	@PYTHONPATH=$(VENV)/oldest $(PYTEST) -m 'not newest_redis_py' $(OF_REDIS_PY)
	@if command -v redis-server >/dev/null; then \
		KIQBRIDGE_TEST_SERVER=redis $(PYTEST) -m 'not any_server' tests/kernel/redis tests/features; \
	else \
		echo "NOT RUN: tests/kernel/redis and tests/features on redis-server. Install: apt-get install redis-server"; [ "$$CI" != true ]; \
	fi

test-pythons: ## Run the tests on each supported Python that is found (PYTHONS='3.12 3.14', ARGS=tests/kernel/unit)
	@.make/test_pythons.sh $(PYTHONS)

prove: $(VENV)/.dev .venv-sam/.sam ## Prove at full size, in an hour, that no job is lost and that the tests see faults (ARGS='-k clock' for one proof)
	@KIQBRIDGE_PROVE=full PYTHONDONTWRITEBYTECODE=1 $(PY) -m pytest -q -p no:cacheprovider -p no:xdist \
		$(ARGS) tests/prove
ifeq ($(strip $(ARGS)),)
	@echo "== without all features, and without each"
	@$(PY) .make/without.py all --some 99
	@echo "== models with ten times the examples"
	@KIQBRIDGE_PROVE=full $(PYTEST) -m hypothesis tests/kernel/unit tests/kernel/redis tests/kernel/lambdas tests/features
	@echo "== ten planted faults"
	@$(PY) .make/plant.py --some 10
endif

e2e: $(VENV)/.dev .venv-sam/.sam .venv-e2e/.e2e ## Deploy the template to LocalStack and let each source deliver (ARGS='SQS S3' for some)
	@$(FOREGROUND) $(PY) tests/e2e/run.py $(ARGS)

without: $(VENV)/.dev ## Show that all else works without all features at once, and without three at random (ARGS='limiters' without these)
	@$(PY) .make/without.py $(or $(strip $(ARGS)),all --some 3 --quick)

check: $(VENV)/.dev .venv-sam/.sam ## Check style, types, template and scripts; changes nothing
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m kiqbridge check
	$(PY) -m kiqbridge.schedule.check template.yaml
	$(PY) -m kiqbridge schedule lint --template template.yaml
	@for file in $(MAPPINGS); do \
		echo $(PY) -m kiqbridge.features.mappings.check $$file; \
		$(PY) -m kiqbridge.features.mappings.check $$file --template template.yaml --answers samconfig.local.toml || exit 1; done
	$(PY) tests/infra/check_template.py
	$(SAM) validate --lint --template template.yaml
	@for script in $(SHELL_SCRIPTS); do bash -n "$$script" || exit 1; done
	@if command -v shellcheck >/dev/null; then echo shellcheck $(SHELL_SCRIPTS); shellcheck $(SHELL_SCRIPTS); \
		else echo "shellcheck is not installed: scripts were only parsed (apt install shellcheck)"; fi
	@echo "make check: all is well"

fmt: $(VENV)/.dev ## Format the code and apply safe fixes
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

docs: $(VENV)/.dev ## Write the documents that are generated from code and tests
	$(PY) .make/settings_doc.py > docs/reference/settings.md.new && mv docs/reference/settings.md.new docs/reference/settings.md
	$(PY) tests/heat_map_picture.py > docs/images/heat_map.svg.new && mv docs/images/heat_map.svg.new docs/images/heat_map.svg
	$(PY) tests/dst_picture.py > docs/images/dst.svg.new && mv docs/images/dst.svg.new docs/images/dst.svg

capture: $(VENV)/.dev ## Play docs/tutorial, and write what is printed and its pictures into the pages
	@PYTHONPATH=tests $(PY) tests/tutorial.py

site: $(VENV)/.dev ## Build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "make site: open build/site/index.html"

redis: $(VENV)/.up ## Start a throw-away server and print its REDIS_URL
	@$(FOREGROUND) $(PY) .make/redis.py

dist: $(VENV)/.dev ## Build and check sdist and wheel, in dist (ARGS=FOLDER)
	@$(PY) .make/dist.py $(ARGS)

build: BUILD_PYTHON := $(abspath .venv-sam/bin/python)
build: .venv-sam/.sam $(VENV)/.up ## Build layer and function for Lambda (LAMBDA_ARCHITECTURE=x86_64 instead of arm64)
	@$(SAM) build --build-dir $(BUILD_DIR) --parameter-overrides Architecture=$(LAMBDA_ARCHITECTURE) Runtime=python$(LAMBDA_PYTHON)

deploy: check build ## Check, build and deploy; asks the first time (ARGS=--guided asks again)
	@.make/deploy.sh $(ARGS)

bench: $(VENV)/.dev ## Run all benchmarks, beside Sidekiq and Python peers, and write docs/explanation/benchmarks.md (ARGS=table: the lines that come first on it, in 8 minutes; ARGS='noop retry': a part)
	@$(PY) tests/benchmarks/bench.py $(ARGS)

bench-quick: $(VENV)/.dev ## Run the benchmarks in two minutes: fewer jobs, one round, nothing written
	@$(PY) tests/benchmarks/bench.py --quick $(ARGS)

scale: $(VENV)/.dev ## Simulate a million jobs a second of sixteen fleets on a cluster whose primaries fail and slots move
	@$(PY) tests/scale.py

# Stamps: made once, renewed when the versions change.

$(VENV)/.up: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (first time, or versions changed) …"
	@sh .make/venv.sh $(VENV)
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[local]' || $(PIP_FAILED)
	@$(PY) $(COMPILE_IMPORTED)
	@touch $@

# Each brings what .up brings, so it does not wait for it: one installation instead of two.
$(VENV)/.unit $(VENV)/.test $(VENV)/.dev: $(VENV)/.%: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with [$*] of pyproject.toml (first time, or versions changed) …"
	@sh .make/venv.sh $(VENV)
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[$*]' || $(PIP_FAILED)
	@$(PY) $(COMPILE_IMPORTED)
	@$(if $(filter unit,$*),:,$(PY) $(COMPILE_TESTS))
	@touch $(VENV)/.up $(if $(filter dev,$*),$(VENV)/.test) $@

$(VENV)/oldest/redis: pyproject.toml
	@rm -rf $(VENV)/oldest
	@$(PY) $(PIP_INSTALL) --no-deps --target $(VENV)/oldest redis==$$(sed -n 's/.*"redis>=\([0-9.]*\),.*/\1/p' pyproject.toml) || $(PIP_FAILED)
	@touch $@

.venv-sam/.sam: constraints-sam.txt
	@echo "Setting up .venv-sam (first time, or versions changed) …"
	@sh .make/venv.sh .venv-sam
	@.venv-sam/bin/python $(PIP_INSTALL) -c constraints-sam.txt aws-sam-cli || $(PIP_FAILED)
	@touch $@

# Says why where it cannot be made, and the tests on it say that they did not run.
.debian13/.root: .make/debian13.sh
	@.make/debian13.sh .debian13

# LocalStack without Docker. Its Python also runs the function, so it is of the function's version.
.venv-e2e/.e2e: constraints-e2e.txt
	@echo "Setting up .venv-e2e (first time, or versions changed) …"
	@python=$$(.make/python.sh find $(LAMBDA_PYTHON)) || { \
		echo "make e2e needs Python $(LAMBDA_PYTHON), the function's Runtime: pyenv install $(LAMBDA_PYTHON)" >&2; exit 1; }; \
		PYTHON=$$python sh .make/venv.sh .venv-e2e
	@.venv-e2e/bin/python $(PIP_INSTALL) -c constraints-e2e.txt 'localstack-core[runtime]' service-identity awslambdaric
	@touch $@

# `sam build` calls these with ARTIFACTS_DIR, one for each logical id of the template.

.PHONY: build-KiqbridgeLayer build-EnqueueFunction build-MonitorFunction build-TickFunction build-WebFunction
build-KiqbridgeLayer:
	@.make/lambda.sh layer

build-EnqueueFunction:
	@.make/lambda.sh function lambdas/enqueue

build-MonitorFunction:
	@.make/lambda.sh function lambdas/monitor

build-TickFunction:
	@.make/lambda.sh function lambdas/tick

build-WebFunction:
	@.make/lambda.sh function lambdas/web
