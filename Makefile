PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# Two workers, and the long files first, so that both end together. One that dies is not replaced: by files, the
# scheduler would then wait for ever.
TWO    := --numprocesses 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

.PHONY: help venv demo demo-schemas bench test test-long test-unit test-properties test-faults test-cluster test-connect test-readers test-matrix test-alerts test-notebooks notebooks test-report test-infra soak docs docs-outputs stack-up stack-down dist clean

help: ## Say what can be made; CONTRIBUTING.md says how long it takes
	@grep -hE "^[a-z-]+:.*##" $(MAKEFILE_LIST) | sed -E "s/:.*## /	/" | expand -t 14

venv: $(VENV)/.installed ## The Python environment in .venv, exactly as pinned in constraints.txt

# What the demo needs is half of what the tests need; where that is installed, it is taken.
DEMO := $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.demo)
$(VENV)/.installed: EXTRAS := dev
$(VENV)/.demo: EXTRAS := gate,local,demo

# Again only when what is to be installed has changed.
$(VENV)/.installed $(VENV)/.demo: pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
	  echo "lakeingest needs Python 3.11 or newer, and $(PYTHON) is none: install one, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# What Python compiles when it is first imported is a small part of it: 22 seconds instead of 45, without downloads.
	@echo "installing what constraints.txt pins into $(VENV) (once, some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$(EXTRAS)]' || { \
	  echo "pip could not install it: see its message above; without a network, name a mirror to pip (PIP_INDEX_URL) and run this again" >&2; exit 1; }
	@touch $@

demo: $(DEMO) ## Bring up Kafka, S3 and a registry, and ingest real flights
	@$(BIN)/lakeingest demo

demo-schemas: $(DEMO) ## The same with weather as Avro, whose schema changes twice on the way
	@$(BIN)/lakeingest demo --schemas

test: venv ## Format, lint, types, and the tests that are not slow; stops at the first that fails
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=tests:benchmarks $(BIN)/mypy --config-file= --ignore-missing-imports --follow-imports=silent benchmarks
	$(BIN)/pytest $(TWO)

# All but what has a target of its own.
NO_MATRIX := not faults and not soak and not cluster and not readers and not matrix and not notebooks and not report \
  and not alerts and not infra
test-long: venv ## The slow tests; CI runs them behind `make test`
	$(BIN)/pytest -m "slow and $(NO_MATRIX)" $(TWO) --durations 40

test-unit: venv ## The tests that need neither servers nor Spark
	$(BIN)/pytest tests/unit $(TWO)

test-properties: venv ## What must hold for any input, searched at random with 50 times the examples
	LAKEINGEST_TEST_EXAMPLES=50 $(BIN)/pytest tests/unit tests/spark -m "hypothesis and not faults" $(TWO)

test-faults: venv ## The whole matrix of faults, printed as a table, and other long matrices
	$(BIN)/pytest -m "faults" $(TWO)

test-cluster: venv ## Over a Spark cluster of a master and two workers: flights, weather, executors and a worker killed
	$(BIN)/pytest tests/cluster -m cluster

test-connect: venv ## The tests of whole pipelines once more, over a Spark Connect server
	$(BIN)/pytest tests/integration/test_connect.py -m cluster
	$(BIN)/pytest tests/integration --connect -m "not faults and not classic and not cluster" $(TWO)

test-readers: venv ## Which readers read the tables: delta-rs, polars, DuckDB, chdb, daft, and Trino where there is Java 24
	$(BIN)/pytest tests/readers -m readers

# Whole pipelines on the oldest version, which differs most; in the files that are left out there is no Spark.
PIPELINES := tests/integration $(foreach file,distribution registry stack testing_proxies,--ignore tests/integration/test_$(file).py)
ON_SPARK = PYTHONPATH=$(CURDIR) $$(PYTHONPATH=tests $(BIN)/python -m support.servers.spark_versions spark-$(1) dev) \
  -m pytest --jars tests/matrix/spark-$(1)-jars.txt -m "not faults and not pinned" tests/spark tests/matrix/test_demo.py $(TWO)

test-matrix: venv ## What Spark computes on Spark 4.1 and 4.0, whole pipelines on 4.0, sessions of the user's own, the refusal of 3.5
	$(BIN)/pytest tests/matrix -m matrix --ignore tests/matrix/test_demo.py
	$(BIN)/pytest tests/matrix/test_demo.py -m matrix
	$(call ON_SPARK,4.1)
	$(call ON_SPARK,4.0) $(PIPELINES)

test-alerts: venv ## A Prometheus scrapes runs with real faults until each alert fires, and an Alertmanager tells of it
	$(BIN)/pytest tests/integration/test_alerts_fire.py tests/integration/test_dashboard_types.py -m alerts

test-notebooks: venv ## The notebooks, each in a kernel of its own
	$(BIN)/pytest tests/integration/test_notebook.py -m "notebooks"

notebooks: venv ## Run the notebooks, and write what they show into them
	$(BIN)/python notebooks/outputs.py

test-report: venv ## The page of `lakeingest report` in a headless browser: every size, dark and light, axe-core, print
	$(BIN)/pytest tests/integration/test_report_page.py -m "report"

test-infra: venv ## infra/ by the CDK, cfn-lint, checkov, schemas and linters; Airflow and Dagster load their examples
	$(BIN)/pytest tests/infra -m infra

bench: venv ## Every figure that has a target, beside it, in one run of an hour, into benchmarks/RESULTS.md
	$(BIN)/python benchmarks/bench.py --json benchmarks/results.json --markdown benchmarks/RESULTS.md

soak: venv ## Faults and kills at random: make soak MINUTES=10 KILLS=50 SEED=1
	MINUTES=$(or $(MINUTES),10) KILLS=$(or $(KILLS),50) $(if $(SEED),SEED=$(SEED)) $(BIN)/pytest tests/faults/test_soak.py -m soak

docs: venv ## The documentation as pages, in build/site; a broken link or a missing page is an error
	@$(BIN)/python docs/reference.py build/docs
	@NO_COLOR=1 $(BIN)/zensical build --strict

docs-outputs: venv ## Run the commands that the pages show, and write what they print into the pages
	$(BIN)/python docs/outputs.py

stack-up: venv ## Start the embedded stack
	@$(BIN)/lakeingest stack up

stack-down: venv ## End the embedded stack; its data stays
	@$(BIN)/lakeingest stack down

dist: venv ## The wheel and the sdist that it is built from, into dist
	@rm -rf dist *.egg-info
	@$(BIN)/python -m build --quiet --no-isolation
	@ls dist/*

clean: ## Delete what was made here (end the stack first: make stack-down)
	rm -rf $(VENV) build dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
