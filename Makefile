# Two commands for a newcomer: `make run` and `make test`. Everything they need is set up by them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: help setup sync at-once run demo check test test-all test-long test-docker test-page test-postgres test-training test-hosts test-schema test-faults test-references test-guards test-properties screenshots gpu-check lint audit lock sbom dist ui clean bench figures

help:
	@echo "make run     set up and serve the API and the page on http://127.0.0.1:8000"
	@echo "make demo    the same, with example jobs that start training at once"
	@echo "make check   lint, types, and what needs no engine, no browser and no second process; 3 minutes"
	@echo "make test    set up what is missing, check, and try all parts for real; 12 minutes, as CI does"
	@echo "make test-all    everything, part after part, in about 90 minutes. Its parts are also targets:"
	@echo "make test-long   what is in no shorter tier for its length alone"
	@echo "make test-docker    what takes long in containers and in training"
	@echo "make test-page   each screen in a real browser; five minutes of live updates, in which memory must not grow"
	@echo "make test-postgres  what touches the database, on PostgreSQL"
	@echo "make test-faults 1,000 runs with faults in virtual time, 60 over real engines, kills at every side effect, two soaks"
	@echo "make test-schema more than 20,000 requests by the description of the API, without a token and in each role"
	@echo "make test-hosts  the tests over three real engines, about 9 minutes; they need root"
	@echo "make test-training  real training, resized and killed, in each framework; 20 minutes, and 15 more the first time"
	@echo "make test-references  our formulas beside AdaptDL, statsmodels, scikit-learn and plain PyTorch; prints how far they agree"
	@echo "make test-guards 30 guards are taken out one by one: a test of make test must notice each; 20 minutes"
	@echo "make test-properties  properties on 2,000 new random examples each; make test has the same 100 each time"
	@echo "make screenshots  pictures of every screen of the page, into docs/screens"
	@echo "make gpu-check  all that only a real GPU can show, as a table; docs/gpu.md"
	@echo "make setup   only set up (.venv with the command schedulearn, and the page)"
	@echo "make bench   measure the budgets of docs/performance.md"
	@echo "make figures write the simulated tables of docs/policies.md and docs/simulator.md"
	@echo "make audit   ask public databases for known weaknesses of what the lock files name; a minute at most"
	@echo "make dist    the source archive and the wheel, checked as a registry does, into dist"
	@echo "make sbom    what the wheel, the page and the worker images are made of, as CycloneDX, into dist/sbom"
	@echo "make lock    resolve the dependencies anew and write the lock files"

setup: $(VENV)/.server $(VENV)/.page sync

# The synchronous client. setup.py makes it too; this keeps it current after a change.
sync: $(VENV)/.server
	@$(BIN)/python scripts/unasync.py

# What only needs Python and Node, at the same time.
at-once:
	@scripts/first-environment.sh "$(PYTHON)" $(ARGS)
	@$(MAKE) --no-print-directory -j2 setup

$(VENV)/.server: requirements/server.txt requirements/build.txt pyproject.toml setup.py scripts/venv.sh
	@scripts/venv.sh "$(PYTHON)" $(VENV) requirements/server.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.server
	@scripts/venv.sh "$(PYTHON)" $(VENV) requirements/dev.txt
	@touch $@

# Node of PATH builds the page beside the server; else Node is a package of the server's environment.
NODE := $(shell scripts/node.sh --there && echo yes)
PAGE := $(shell find ui -type f -not -path '*/node_modules/*' -not -name schema.d.ts 2>/dev/null)
$(VENV)/.page: $(PAGE) scripts/build-ui.sh | $(if $(NODE),,$(VENV)/.server)
	@scripts/build-ui.sh $(VENV)
	@mkdir -p $(VENV) && touch $@

ui: $(VENV)/.page

run: at-once
	@exec scripts/serve.sh $(BIN)/schedulearn $(ARGS)

demo: at-once
	@exec scripts/demo.sh $(BIN)/schedulearn $(ARGS)

check: setup $(VENV)/.dev
	@scripts/test.sh $(BIN) check $(ARGS)

test: setup $(VENV)/.dev
	@scripts/test.sh $(BIN) test $(ARGS)

test-all: setup $(VENV)/.dev
	@scripts/test-all.sh $(ARGS)

test-long: setup $(VENV)/.dev
	@scripts/test.sh $(BIN) all -m "long and not browser and not docker and not horovod" $(ARGS)

test-docker: setup $(VENV)/.dev
	@scripts/test.sh $(BIN) all -m "long and not browser and (docker or horovod)" $(ARGS)

test-page: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_PAGE=1 scripts/test.sh $(BIN) all -m browser $(ARGS)

test-postgres: setup $(VENV)/.dev
	@scripts/test.sh $(BIN) all --postgres -m postgres $(ARGS)

test-training: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_TRAINING=1 scripts/test.sh $(BIN) all -n 0 tests/e2e/test_resize.py tests/e2e/test_adapters.py tests/e2e/test_in_place.py tests/e2e/test_compose.py tests/worker $(ARGS)

test-hosts: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_HOSTS=1 scripts/test.sh $(BIN) all -n 0 tests/hosts $(ARGS)

test-schema: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_SCHEMA=40 scripts/test.sh $(BIN) all -n 0 tests/api/safety/test_schema.py $(ARGS)

test-faults: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_FAULTS=1 scripts/test.sh $(BIN) all tests/faults/real tests/faults/test_seeds.py $(ARGS)

build/references: requirements/references.txt $(VENV)/.dev
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ -r $<
	@touch $@

test-references: setup build/references
	@PYTHONPATH=build/references $(BIN)/python -m bench references

test-guards: setup $(VENV)/.dev
	@$(BIN)/python scripts/guards.py $(ARGS)

test-properties: setup $(VENV)/.dev
	@SCHEDULEARN_TEST_EXAMPLES=2000 $(BIN)/pytest -n 2 -m hypothesis $(ARGS)

screenshots: setup $(VENV)/.dev
	@$(BIN)/python tests/browser/screenshots.py $(ARGS)

gpu-check:
	@scripts/gpu-check.sh $(ARGS)

lint: sync $(VENV)/.dev
	@scripts/test.sh $(BIN) lint

bench: setup $(VENV)/.dev
	@$(BIN)/python -m bench $(ARGS)

figures: setup $(VENV)/.dev
	@$(BIN)/python -m bench.policies.figures $(ARGS)

lock: $(VENV)/.dev
	@scripts/lock.sh $(BIN)

audit: $(VENV)/.dev
	@$(BIN)/python scripts/audit.py

sbom: $(VENV)/.dev
	@scripts/sbom.sh $(VENV) $(ARGS)

build/dist-tools: requirements/dist.txt $(VENV)/.server
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ -r $<
	@touch $@

dist: setup build/dist-tools
	@scripts/dist.sh $(BIN) build/dist-tools $(ARGS)

clean:
	rm -rf $(VENV) api/static ui/node_modules build dist *.egg-info
