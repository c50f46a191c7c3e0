# The commands of README.md. Each installs what it needs first, and says so.

# The system's own: python3-venv and python3-dev belong to it, and to no other.
PYTHON ?= /usr/bin/python3
SECTIONS ?= run test
SUITE ?= trixie
WORKERS ?= $(shell nproc)
VENV := .venv
export DESTDIR PURGE
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TYPING := build/typing/iowarden
PACKAGES := daemon rules collectors
# For 'time': the processor time of a tier hardly depends on what else the machine does.
SHELL := /bin/bash
export TIMEFORMAT := %U s of user and %S s of system time, %R s by the clock
# By file: what the tests of a file share is made once.
PYTEST = PATH="$(CURDIR)/build/tools:$$PATH" $(BIN)/python -m pytest --ignore=tests/vm \
    --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help run env test test-system lint format bench example docs test-bare test-vm wheels install uninstall system-packages clean

help:
	@echo "make run          start iowarden here, in the foreground, with the example configuration"
	@echo "make test         the quick tests, before each commit"
	@echo "make test-system  the long ones: kill sweeps, random tests at ten times the examples"
	@echo "make lint         ruff, mypy --strict, the layers"
	@echo "make test-bare    'make run', 'make install', a tenth of the tests in a bare root; SUITE=bookworm"
	@echo "make test-vm      the tests in a virtual machine with failing disks (QEMU); SUITE=bookworm"
	@echo "make bench        the budgets: processor time, memory, scrape, alert"
	@echo "make example      packaging/iowarden.yaml, from the keys of the configuration"
	@echo "make docs         the generated pages of packaging/doc, from the code"
	@echo "make wheels       all that is installed, as wheels in build/wheels"
	@echo "make install      from these, as root, without a network; uninstall removes it (PURGE=1)"
	@echo "make env          only the environment in .venv"
	@echo "make clean        remove .venv, build and caches"

run: $(VENV)/runtime
	$(BIN)/iowarden run --config packaging/iowarden.yaml --state-directory .run

env: $(VENV)/runtime $(VENV)/development

# Another interpreter than last time (a newer distribution) means another environment.
$(VENV)/runtime: packaging/requirements-build.txt packaging/requirements.txt setup.cfg pyproject.toml
	@packaging/install-system-packages run
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON): expected Python 3.11 or later; name another: make PYTHON=..." >&2; exit 1; }
	@[ ! -e $(BIN)/python ] || [ "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V)" ] || rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r packaging/requirements-build.txt
	$(PIP) install --require-hashes --no-build-isolation -r packaging/requirements.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/development: $(VENV)/runtime packaging/requirements-dev.txt
	$(PIP) install --require-hashes -r packaging/requirements-dev.txt
	@touch $@

# mypy does not follow the mapping in setup.cfg, but it follows links.
$(TYPING):
	@mkdir -p $@
	@for package in $(PACKAGES); do ln -sfn ../../../$$package $@/$$package; done

lint: env | $(TYPING)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=build/typing $(BIN)/mypy -p iowarden
	$(BIN)/python -m pytest -q tests/test_layering.py

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test test-system: env build/tools/promtool build/tools/prometheus-node-exporter
	@packaging/install-system-packages test
	time $(PYTEST) $(if $(filter test-system,$@),--system) tests

bench: env
	$(BIN)/python tests/bench/bench.py

# packaging/iowarden.yaml, from the keys of the configuration.
example: env
	$(BIN)/python -c 'from iowarden.daemon.config.keys import example; print(example(), end="")' >build/example
	@mv build/example packaging/iowarden.yaml

# The pages of packaging/doc that follow from the code; a test compares them.
docs: env
	$(BIN)/python -m iowarden.daemon.reference packaging/doc

test-bare:
	@packaging/install-system-packages bare
	@packaging/test-bare $(SUITE)

# Two guests at a time: most of what one does is to wait.
test-vm: env
	@packaging/install-system-packages vm
	SUITE=$(SUITE) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/vm

# Only the programs: their packages would leave servers running on this machine.
build/tools/promtool:
	@packaging/fetch-promtool $@

build/tools/prometheus-node-exporter:
	@packaging/fetch-node-exporter $@

# Together with packaging/, systemd/, LICENSE and README.md they are all that 'install' needs: copy
# them to a machine of the same distribution and run packaging/install there.
wheels: $(VENV)/runtime
	rm -rf build/wheels build/lib build/bdist.*
	$(PIP) wheel --require-hashes --wheel-dir build/wheels -r packaging/requirements-build.txt
	$(PIP) wheel --require-hashes --no-build-isolation --wheel-dir build/wheels \
	    -r packaging/requirements.txt
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheels .
	rm build/wheels/setuptools-*
	cd build/wheels && sha256sum *.whl >SHA256SUMS

install:
	@packaging/install

uninstall:
	@packaging/uninstall

system-packages:
	@packaging/install-system-packages $(SECTIONS)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -prune -exec rm -rf {} +
