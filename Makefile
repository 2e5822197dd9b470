# Everything works from a clean checkout with Python 3.11+ and make alone. `make` tells what there is.

JOBS ?= $(shell tools/jobs.sh)
ARGS ?=
SEED ?=
MINUTES ?= 30
BIN := .venv/bin
# A crashed worker ends the run with the name of its test. With a worker in its place pytest-xdist may wait for ever.
PARALLEL := --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Thousands of processes import lrq in the tests: without compiled modules each would compile all of them again.
test nightly unit oldest oldest-spark faults: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test nightly unit oldest oldest-spark faults mutants bench bench-snapshot check docs format proto diagram clean

help: ## Tell what there is to make
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

demo: ## Run the demonstration of four sites on SQLite, Spark snapshot included (ARGS=--ring: a ring, without Spark)
	@tools/ensure_venv.sh demo
	@$(if $(filter --ring,$(ARGS)),,JAVA_HOME=$$(tools/ensure_java.sh) && export JAVA_HOME &&) $(BIN)/lrq demo $(ARGS)

test: SELECT := -m "not nightly"
test: nightly ## Run the suite on SQLite and PostgreSQL, but for the nightly tests (JOBS=2 for two at once, ARGS="-k name")

nightly: ## Run the whole suite: the tests of `make test`, and those that take too long for each change
	@tools/ensure_venv.sh test
	@JAVA_HOME=$$(tools/ensure_java.sh) && export JAVA_HOME && \
		LRQ_TEST_CONNECT=$$(tools/ensure_connect.sh) && export LRQ_TEST_CONNECT && \
		LRQ_TEST_CHROMIUM=$$(tools/ensure_chromium.sh) && export LRQ_TEST_CHROMIUM && \
		LRQ_TEST_PGBOUNCER=$$(tools/ensure_pgbouncer.sh) && export LRQ_TEST_PGBOUNCER && \
		LRQ_TEST_PROMTOOL=$$(tools/ensure_promtool.sh) && export LRQ_TEST_PROMTOOL && \
		LRQ_TEST_HELM=$$(tools/ensure_helm.sh) && export LRQ_TEST_HELM && \
		LRQ_TEST_SYSTEMD=$$(tools/ensure_systemd.sh) && export LRQ_TEST_SYSTEMD && \
		$(BIN)/python -m pytest $(PARALLEL) $(SELECT) $(ARGS)

unit: ## Run the quick tests: pure ones and those on SQLite; needs neither Java nor PostgreSQL (ARGS="-k name")
	@tools/ensure_venv.sh unit
	@$(BIN)/python -m pytest $(PARALLEL) -m "not (postgresql or processes or spark or long)" \
		tests/discovery tests/queues tests/lr_server tests/sink tests/lr_client/snapshot tests/lr_client/subscriber $(ARGS)

oldest: TESTS ?= tests/discovery tests/queues tests/lr_server tests/sink tests/lr_client/snapshot \
	tests/lr_client/subscriber tests/lrq/cli
oldest: ## Run the quick tests with the oldest supported libraries, in .venv-oldest (TESTS="folders", ARGS="-k name")
	@tools/ensure_venv.sh unit oldest
	@.venv-oldest/bin/python -m pytest $(PARALLEL) -m "not (postgresql or processes or spark or long)" \
		-W "ignore::DeprecationWarning" \
		$(TESTS) $(ARGS)

oldest-spark: ## Run some tests of Spark's formats on SQLite with the oldest supported Spark and PyArrow (ARGS="-k name")
	@tools/ensure_venv.sh unit,spark oldest
	@JAVA_HOME=$$(tools/ensure_java.sh) && export JAVA_HOME && \
		.venv-oldest/bin/python -m pytest -m "spark and sqlite and not (processes or long)" \
		-W "ignore::DeprecationWarning" \
		tests/lr_client/spark/sources/test_log.py tests/lr_client/spark/sources/test_log_writing.py \
		tests/lr_client/spark/sources/test_receive.py tests/lr_client/spark/snapshot/test_provider.py \
		-k "in_parallel or each_row or doubled or spark_repeats or origin_of or at_the_cut_arrives or fails_once" $(ARGS)

faults: ## Kill processes at random moments and judge what arrived (SEED=number repeats a run, ARGS="--moments 200")
	@tools/ensure_venv.sh test
	@$(BIN)/python -m tests.faults.run $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: ## Break the code on purpose and count the changes that no test notices (MINUTES=30, ARGS="NAME ...")
	@tools/ensure_venv.sh mutants
	@$(BIN)/python -m tests.faults.mutants $(ARGS)
	@$(BIN)/python -m tests.faults.mutants.pure --minutes $(MINUTES)

bench: ## Measure lrq beside what one would use instead (ARGS="--quick --only deliveries"); writes docs/benchmarks.md
	@tools/ensure_venv.sh bench
	@$(BIN)/python -m benchmarks $(ARGS)

bench-snapshot: ## Measure snapshots by Spark against COPY and pg_dump | psql (ARGS="--json", "--large 1024", "--help")
	@tools/ensure_venv.sh test
	@JAVA_HOME=$$(tools/ensure_java.sh) && export JAVA_HOME && $(BIN)/python -m benchmarks.snapshot $(ARGS)

check: ## Run every static check: format, lint, types, layers, generated code
	@tools/ensure_venv.sh dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/wire.py --check

docs: ## Build the documentation into build/docs; a warning is an error
	@tools/ensure_venv.sh docs
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -c docs . build/docs
	@echo build/docs/index.html

format: ## Format the code and mend what ruff can mend
	@tools/ensure_venv.sh dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

proto: ## Generate queues/wire from proto
	@tools/ensure_venv.sh dev
	$(BIN)/python tools/wire.py

diagram: ## Draw the states of a session into docs/sessions.md
	@tools/ensure_venv.sh dev
	$(BIN)/python -m tools.diagram

clean: ## Remove all that was made, the environment included
	rm -rf .venv .venv-oldest mutants build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
