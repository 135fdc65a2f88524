# Recapito's commands. `make help` is printed from the comments behind the targets.
PYTHON ?= python3
SEEDS ?= 200
MINUTES ?= 10
CUTS ?= 10000
RUNS ?= 100000
MUTANTS ?= 500
ARGS ?=
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
BIN := .venv/bin
NODE := tests/clients/node
GO := tests/clients/go
JAVA := tests/clients/java
AZURITE := tests/azurite
RELAY := tests/relay
AMQP := tests/amqp
PIP := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help serve cluster quick test check lint format sim soak powercuts fuzz mutants bench pythons image docs lock clean

help: ## Show this help
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

serve: .venv/.run ## Run Recapito on its embedded store in ./data and print what to do next
	@$(BIN)/recapito serve --data data $(ARGS)

cluster: .venv/.test ## Run a cluster on this machine: three NATS servers and two nodes, in ./cluster-data
	@$(BIN)/python examples/cluster.py $(ARGS)

quick: .venv/.test ## Run the fast tests: domain, contracts on memory, intake, dispatch and 25 seeds (a minute)
	@$(BIN)/python -m pytest --quiet --numprocesses auto --ignore tests/intake/test_connection_check.py \
		tests/domain tests/intake tests/dispatch $(ARGS)
	@$(BIN)/python -m pytest --quiet --numprocesses auto -k memory tests/contracts
	@$(BIN)/python -m tests.sim --seeds 25 --workers $$(nproc)

test: .venv/.test .venv-az/.az $(if $(shell command -v npm),$(NODE)/node_modules/.clients $(AZURITE)/node_modules/.azurite $(RELAY)/node_modules/.relay $(AMQP)/node_modules/.amqp) $(if $(shell command -v go),$(GO)/build/clients) $(if $(shell command -v mvn),$(JAVA)/target/.clients) ## Run all tests
	@$(BIN)/python -m pytest --numprocesses auto --dist loadgroup $(ARGS)

check: lint test ## Run linters, type checks, layer checks and all tests

lint: .venv/.test ## Run ruff, mypy --strict and import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

format: .venv/.test ## Format the code
	@$(BIN)/ruff check --fix-only -q . && $(BIN)/ruff format -q .

sim: .venv/.test ## Simulate SEEDS histories of the whole service, with faults (SEEDS=200)
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) --workers $$(nproc) $(ARGS)

soak: .venv/.test ## Kill, pause and starve a real server under load for MINUTES (10), or a cluster (ARGS="--cluster 200"), and account for each event
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

powercuts: .venv/.test ## Cut the power CUTS times under the real SQLite (10,000), and look at what is left
	@$(BIN)/python -m tests.powercuts --cuts $(CUTS) $(ARGS)

fuzz: .venv/.proof ## Run RUNS guesses at what is read from outside (100,000), guided by coverage
	@$(BIN)/python -m tests.fuzz --runs $(RUNS) $(ARGS)

mutants: .venv/.proof ## Plant MUTANTS bugs in copies of the tree, and list those that no test finds (500)
	@$(BIN)/python -m tests.mutants --count $(MUTANTS) $(ARGS)

bench: .venv/.bench ## Measure speed and print a table (ARGS="--quick" for a short run)
	@$(BIN)/python -m bench $(ARGS)

pythons: .venv/.test ## Install the wheel on each of PYTHONS that is there (3.11 to 3.14), and run the sample project with it
	@$(BIN)/python -m hatchling build -t wheel -d dist
	@for python in $(PYTHONS); do command -v $$python >/dev/null || continue; \
		fresh=$$(mktemp -d) && $$python -m venv $$fresh && $$fresh/bin/python $(PIP) --only-binary :all: dist/recapito-*.whl pytest azure-eventgrid \
		&& (cd examples/orders-service && $$fresh/bin/python -m pytest --quiet -p no:cacheprovider) || exit 1; \
		rm -rf $$fresh; done

image: .venv/.test ## Build the container's image as an OCI layout in dist/image, without an engine (needs mmdebstrap)
	@rm -rf dist/image && mkdir -p dist && $(BIN)/python deploy/container/oci.py dist/image

docs: .venv/.test ## Generate docs/reference, and build the site into build/site
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.site

lock: ## Resolve and lock all requirements (needs uv and npm)
	@for set in run test proof bench az; do \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
			--no-annotate -o requirements/$$set.txt requirements/$$set.in; done
	@for set in $(NODE) $(AZURITE) $(RELAY) $(AMQP); do \
		(cd $$set && npm install --loglevel=error --no-audit --no-fund --package-lock-only); done

clean: ## Remove the virtual environments, node's modules and built programs
	@rm -rf build .venv .venv-az $(GO)/build $(JAVA)/target $(NODE)/node_modules $(AZURITE)/node_modules $(RELAY)/node_modules $(AMQP)/node_modules

.venv/bin/python .venv-az/bin/python: %/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Recapito needs Python 3.11 or newer; set PYTHON=… to choose one." >&2; exit 1; }
	@$(PYTHON) -m venv $* \
		|| { echo "On Debian, install the package python3-venv first." >&2; rm -rf $*; exit 1; }

.venv/.run .venv/.test .venv/.proof .venv/.bench: .venv/.%: requirements/%.txt pyproject.toml | .venv/bin/python
	@echo "Installing what requirements/$*.txt names …"
	@$(BIN)/python $(PIP) --require-hashes -r requirements/$*.txt
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# az writes the bytecode of what it loads; compiling all of it would take as long again as installing it.
.venv-az/.az: requirements/az.txt | .venv-az/bin/python
	@echo "Installing Microsoft's az, which the tests run (a minute) …"
	@.venv-az/bin/python $(PIP) --require-hashes --no-compile -r requirements/az.txt
	@touch $@

$(NODE)/node_modules/.clients: $(NODE)/package.json $(NODE)/package-lock.json
	@echo "Installing Microsoft's clients for node, which the tests run …"
	@cd $(NODE) && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

# A toolchain that is too old leaves no program: the tests then say so.
$(GO)/build/clients: $(GO)/main.go $(GO)/go.mod $(GO)/go.sum
	@echo "Building a program with Microsoft's clients for Go, which the tests run …"
	-@cd $(GO) && go build -trimpath -o build/clients .

$(JAVA)/target/.clients: $(JAVA)/pom.xml $(JAVA)/src/main/java/Clients.java
	@echo "Building a program with Microsoft's clients for Java, which the tests run …"
	-@cd $(JAVA) && mvn -q -B compile dependency:copy-dependencies -DoutputDirectory=target/lib && touch target/.clients

$(AZURITE)/node_modules/.azurite: $(AZURITE)/package.json $(AZURITE)/package-lock.json
	@echo "Installing Microsoft's emulator of Azure Storage, which the tests run …"
	@cd $(AZURITE) && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

$(RELAY)/node_modules/.relay: $(RELAY)/package.json $(RELAY)/package-lock.json
	@echo "Installing Microsoft's listener of hybrid connections, which the tests run …"
	@cd $(RELAY) && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

$(AMQP)/node_modules/.amqp: $(AMQP)/package.json $(AMQP)/package-lock.json
	@echo "Installing an AMQP engine for the broker that the tests run …"
	@cd $(AMQP) && npm ci --loglevel=error --no-audit --no-fund
	@touch $@
