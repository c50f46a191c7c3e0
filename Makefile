# The commands of README.md. Each first installs what it needs, and prints what that is.

# The address where you publish the apt repository of 'make repo', as https://...; none yet.
REPOSITORY ?=
# Where it is made. Not in build, which 'make clean' removes: it has all earlier versions.
REPOSITORY_DIRECTORY ?= published
# Paths of the private keys that sign, separated by blanks, and of further public ones (packaging/sign).
KEY ?=
PUBLIC_KEYS ?=
PASSPHRASE_FILE ?=
# How long hosts accept an index of the repository: run 'make repo-refresh' more often.
VALID_DAYS ?= 30
# The distribution's interpreter: python3-venv and python3-dev are packages for that one only.
PYTHON ?= /usr/bin/python3
SECTIONS ?= run test
SUITE ?= trixie
# One more than processors: tests wait for processes, servers and disks a third of their time.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
VENV := .venv
export DESTDIR PURGE REPOSITORY KEY PUBLIC_KEYS PASSPHRASE_FILE VALID_DAYS
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Compiled when first imported, and only what is.
INSTALL := $(PIP) install --no-compile
TYPING := build/typing/iowarden
PACKAGES := daemon rules collectors
DEB := build/deb/iowarden_SHA256SUMS
BUNDLE := build/deb/wheels
# The time of all that is released: that of the package's changelog, so that two builds are equal.
DATE = $(shell date -d "$$(sed -n 's/^ -- .*>  //p' packaging/debian/changelog | head -n 1)" +%s)
# bash for 'time': CPU time is shown because it hardly depends on the machine's other load.
SHELL := /bin/bash
export TIMEFORMAT := %U s of user and %S s of system time, %R s by the clock
# Distributed by file: shared fixtures of a file are created once.
PYTEST = PATH="$(CURDIR)/build/tools:$$PATH" $(BIN)/python -m pytest --ignore=tests/vm \
    --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Of 'make run': four make the environment, the last one starts. Others end with steps of their own.
STEPS := 5
COMMA := ,
# The packages of the Python index that a file of requirements pins.
pinned = $$(sed -n 's/^\([a-z][^=]*\)==.*/\1/p' packaging/$(1).txt | paste -s -d ' ')
step = @echo "[$(1)/$(STEPS)] $(2)"
run: STEPS := 5
wheels: STEPS := 6
test test-system: STEPS := 7
# All that a command needs is asked for at once.
NEEDED := run
wheels: NEEDED := run build
test test-system: NEEDED := run test
# What root makes in a user's checkout belongs to the user, who otherwise could not go on without sudo.
GIVE_BACK = [ "$$(id -u)" -ne 0 ] || chown -hR --reference=. $(VENV) $$(ls -d *.egg-info 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help run env test test-system fuzz test-fleet lint format bench example docs golden test-bare test-vm test-zfs vm-image deb test-deb lint-deb release repo repo-refresh signing-key date test-repo wheels install uninstall system-packages clean

help:
	@echo "make run          run iowarden in the foreground, with the example configuration"
	@echo "make test         run the quick tests, before each commit"
	@echo "make test-system  run the long tests: kill sweeps, random tests with ten times the examples"
	@echo "make fuzz         run the random tests with other examples each time; SEED=number repeats them"
	@echo "make lint         check style, types and layers: ruff, mypy --strict, layering test"
	@echo "make format       format the code and apply ruff's fixes"
	@echo "make test-bare    test 'make run', 'make install' and a tenth of the tests in a minimal system; SUITE=bookworm"
	@echo "make deb          build the Debian package in build/deb, in a minimal Debian 13"
	@echo "make test-deb     install, run, upgrade and remove it in a minimal system; SUITE=noble"
	@echo "make lint-deb     check it with lintian and piuparts"
	@echo "make release      build deb, wheels, SBOM and sums in build/release, signed; KEY=private.asc"
	@echo "make repo         make or extend a signed apt repository in 'published'; KEY=private.asc REPOSITORY=https://..."
	@echo "make repo-refresh sign the same index with a new date, before hosts refuse the old one; KEY=private.asc"
	@echo "make test-repo    install, upgrade and rotate keys from it in a minimal system, and attack it; SUITE=noble"
	@echo "make test-vm      test in a virtual machine with failing disks (QEMU); SUITE=bookworm"
	@echo "make test-zfs     test pools of OpenZFS there; builds it once into ~/.cache, 10 minutes of CPU"
	@echo "make test-fleet   test 200 simulated hosts with a real Prometheus and Alertmanager, 30 min"
	@echo "make bench        measure CPU time, memory, scrapes and alerts against their budgets"
	@echo "make example      generate packaging/iowarden.yaml from the configuration keys"
	@echo "make docs         generate the pages of packaging/doc that come from the code"
	@echo "make golden       rewrite the committed texts that the program made: mails, subjects, pages, samples"
	@echo "make wheels       build wheels, man pages and completion in build/wheels"
	@echo "make install      install these wheels, as root, without network"
	@echo "make uninstall    remove the installation; PURGE=1: also configuration and state"
	@echo "make env          create the environment in .venv"
	@echo "make clean        remove .venv, build and caches"

run: $(VENV)/runtime
	$(call step,5,start iowarden in the foreground; its state and mails are in the directory .run)
	@packaging/run-here $(BIN)/iowarden

env: $(VENV)/runtime $(VENV)/development

# A different interpreter than last time (after a distribution upgrade) needs a new environment.
$(VENV)/runtime: packaging/requirements-build.txt packaging/requirements.txt setup.cfg pyproject.toml
	$(call step,1,system packages from apt)
	@packaging/install-system-packages $(NEEDED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON): expected Python 3.11 or later; use another one: make PYTHON=..." >&2; exit 1; }
	@[ ! -e $(BIN)/python ] || [ "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V)" ] || rm -rf $(VENV)
	$(call step,2,Python environment in '$(VENV)'$(COMMA) by $(PYTHON))
	@$(PYTHON) -m venv $(VENV)
	$(call step,3,into it the build tools: $(call pinned,requirements-build))
	@$(INSTALL) --require-hashes -r packaging/requirements-build.txt
	@packaging/link-systemd $(PYTHON) $(BIN)/python || packaging/install-system-packages build
	$(call step,4,into it the libraries and iowarden: $(call pinned,requirements))
	@$(INSTALL) --require-hashes --no-build-isolation -r packaging/requirements.txt
	@PYTHONWARNINGS=ignore $(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
	@$(GIVE_BACK)

$(VENV)/development: $(VENV)/runtime packaging/requirements-dev.txt
	@[ -w $(VENV) ] || { echo "'$(VENV)': expected write access, got a directory of user $$(stat -c %U $(VENV)); \
	    run this with sudo as well, or 'sudo make clean' first" >&2; exit 1; }
	$(call step,5,into it the tools of developers: $(call pinned,requirements-dev))
	@$(INSTALL) --require-hashes -r packaging/requirements-dev.txt
	@touch $@
	@$(GIVE_BACK)

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

test-system: build/tools/promtool-3 build/tools/nginx build/tools/stunnel build/tools/axe.min.js \
    build/tools/prometheus-alertmanager build/tools/nrpe build/tools/check_nrpe
test test-system: env build/tools/promtool build/tools/amtool build/tools/prometheus-node-exporter
	$(call step,6,system packages from apt that tests use)
	@packaging/install-system-packages test
	$(call step,7,tests)
	@time $(PYTEST) $(if $(filter test-system,$@),--system) $(ALONE) tests

# The two above try the same examples each time: what fails there is the change's. This searches on.
fuzz: SEED := $(shell date +%s)
fuzz: env
	@echo "SEED=$(SEED)"
	$(PYTEST) --system --hypothesis-seed=$(SEED) -m hypothesis tests

bench: env
	$(BIN)/python tests/bench/bench.py

# Generates packaging/iowarden.yaml from the configuration keys.
example: env
	$(BIN)/python -c 'from iowarden.daemon.config.keys import example; print(example(), end="")' >build/example
	@mv build/example packaging/iowarden.yaml

# The pages of packaging/doc that follow from the code; tests compare them.
docs: env
	$(BIN)/python -m iowarden.daemon.reference pages packaging/doc

# Only the tests with such a text run; review the difference as CONTRIBUTING.md says.
golden: env
	$(BIN)/python -m pytest -q --rewrite-golden $$(grep -rlw 'golden: Golden' tests --include 'test_*.py')
	@git --no-pager diff --stat

# Half an hour: two hundred hosts before the real Prometheus and Alertmanager.
test-fleet: env build/tools/prometheus build/tools/prometheus-alertmanager
	$(BIN)/python tests/bench/fleet.py

test-bare:
	@packaging/install-system-packages bare
	@packaging/test-bare $(SUITE)

# One package for all releases; built when a file that it is made of is newer.
deb: $(DEB)

$(DEB) $(BUNDLE): $(shell find CHANGELOG.md LICENSE README.md SECURITY.md $(PACKAGES) packaging systemd -type f \
    ! -path '*/__pycache__/*')

$(DEB):
	@packaging/install-system-packages bare
	@packaging/make-deb

test-deb: $(DEB)
	@packaging/test-deb $(SUITE)

lint-deb: $(DEB)
	@packaging/lint-deb

$(BUNDLE): Makefile setup.cfg pyproject.toml
	@packaging/install-system-packages bare
	@packaging/make-wheels
	@touch $@

# A wrong key is reported before the builds, which take minutes.
release: signing-key
	@$(MAKE) --no-print-directory $(DEB) $(BUNDLE)
	@SOURCE_DATE_EPOCH=$(DATE) packaging/make-release

repo: signing-key
	@$(MAKE) --no-print-directory $(DEB)
	@packaging/make-repo $(REPOSITORY_DIRECTORY) build/deb/iowarden_*_all.deb

repo-refresh: signing-key
	@packaging/make-repo $(REPOSITORY_DIRECTORY)

signing-key:
	@packaging/install-system-packages release
	@packaging/sign check

date:
	@echo $(DATE)

test-repo: $(DEB)
	@packaging/test-repo $(SUITE)

vm-image: env
	@packaging/install-system-packages build vm
	SUITE=$(SUITE) PYTHONPATH=tests $(BIN)/python -c 'from vm.harness import image; image()'

# Two guests at a time: beside a third commands of a guest outlast their own limits. Files whose guest ended or was late are tried once more, alone.
test-vm: env $(DEB)
	@packaging/install-system-packages build vm
	SUITE=$(SUITE) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --durations 20 tests/vm || { \
	    [ $$? -eq 7 ] && SUITE=$(SUITE) xargs $(BIN)/python -m pytest <"$${IOWARDEN_VM_IMAGES:-build/vm}/again"; }

# What is built stays in the cache of this machine; with it 'make test-vm' runs these tests, too.
test-zfs: vm-image
	tests/vm/build_zfs.sh $(SUITE) "$$(echo "$${IOWARDEN_VM_IMAGES:-build/vm}"/$(SUITE)-*)" \
	    "$${XDG_CACHE_HOME:-$$HOME/.cache}/iowarden/zfs"
	SUITE=$(SUITE) $(BIN)/python -m pytest --numprocesses 1 tests/vm/test_zfs.py

# Only the programs: the packages would start servers on this machine.
build/tools/promtool build/tools/amtool build/tools/nginx build/tools/stunnel \
build/tools/prometheus build/tools/prometheus-alertmanager build/tools/nrpe build/tools/check_nrpe:
	@packaging/fetch-tool $(@F) $@

# Of another major version than that of Debian 12 and 13.
build/tools/promtool-3:
	@packaging/fetch-tool promtool $@ forky

# Missing without chromium or npm: then its tests are skipped, and 'make' tries again next time.
build/tools/axe.min.js:
	@packaging/fetch-axe $@

build/tools/prometheus-node-exporter:
	@packaging/fetch-node-exporter $@

# build/wheels, packaging/, systemd/, LICENSE and README.md are all that 'install' needs: copy them to a
# machine with the same distribution and run packaging/install there. build/wheels/share: of /usr/share.
wheels: export SOURCE_DATE_EPOCH = $(DATE)
# Debugging information has the path of the build.
wheels: export CFLAGS += -g0
wheels: $(VENV)/runtime
	$(call step,5,system packages from apt to compile systemd-python)
	@packaging/install-system-packages build
	$(call step,6,wheels of iowarden and what it needs in build/wheels)
	@rm -rf build/wheels build/lib build/bdist.*
	@$(PIP) wheel --require-hashes --wheel-dir build/wheels -r packaging/requirements-build.txt
	@$(PIP) wheel --require-hashes --no-build-isolation --wheel-dir build/wheels \
	    -r packaging/requirements.txt
	@PYTHONWARNINGS=ignore $(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheels .
	@rm build/wheels/setuptools-* build/wheels/shtab-*
	@$(BIN)/python -m iowarden.daemon.reference share packaging/doc build/wheels/share
	@cd build/wheels && find * -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS

install:
	@packaging/install

uninstall:
	@packaging/uninstall

system-packages:
	@packaging/install-system-packages $(SECTIONS)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests -name __pycache__ -prune -exec rm -rf {} +
