# make demo    run the default study from scratch: environment, model, text, training, report; about 8 minutes
# make demo-more  run a study of another language, with more initializers, seeds and strategies and longer training; about
#                 an hour
# make test    run the tests
# make test-more  run longer tests: small studies that are killed, resumed and changed; the installed package; learned
#                 metrics, vLLM and llama.cpp in separate environments; several processes; Ctrl-C; the tokenizers and
#                 weights of real models; the GPU benchmarks on the CPU
# make test-cluster  run the tests on a real Slurm cluster, started on this machine; installs Slurm if it is missing
# make check   check formatting, lints and types
# make metrics  create the environment of learned metrics (BLEURT, COMET), which `make demo` does not need
# make docs    build the documentation as a site in site/, which needs no network
# make verify  hash every file of results/ and list damaged files: make verify RESULTS=elsewhere
# make status  show the progress of a study, during or after its run: make status CONFIG=config/studies/salt.yaml
# make cost    estimate the cost of a study before it runs: make cost CONFIG=...
# make config-tables  regenerate the tables of keys in config/README.md, and config/schemas, from workflow/config
# make record  copy the numbers of a study that has run here to docs/results, and show them on the pages: make record CONFIG=...
# make pages   fill the tables of README.md and docs/ with the numbers in docs/results: docs/tables.yaml
# make memory  simulate the GPU memory of training runs, for docs/gpu.md
# make bench   benchmark each stage against its usual alternative, one after the other, for docs/benchmarks.md
# make gpu-check  run tests and benchmarks on one GPU, for docs/gpu.md; a single part: make gpu-check PARTS=training
# make profiles  let `snakemake --profile slurm` find this repository's profile
PYTHON ?= $(shell command -v python3.11 || command -v python3)
CORES ?= $(shell nproc)
# Four fifths of the machine's memory; Snakemake starts no job that would exceed it.
MEMORY_MB ?= $(shell awk '/MemTotal/ {print int($$2 / 1024 * 0.8)}' /proc/meminfo)
RESULTS ?= results
CONFIG ?= config/config.yaml
PARTS ?= correctness training generation cell
REPETITIONS ?= 3
BENCHMARKS ?= expansion initialization glove tokenization generation training planning report
GPU := gpu=$(shell nvidia-smi -L 2>/dev/null | grep -c ^GPU)
BIN := .venv/bin
INSTALL = $(@D)/bin/python scripts/install.py
# The tests compute on the CPU, those of tests/gpu excepted: see gpu-check.
PYTEST := CUDA_VISIBLE_DEVICES= $(BIN)/python -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder -q
LONGER := tests/more tests/workflow/test_study.py tests/workflow/test_reuse.py \
  tests/workflow/test_interruption.py tests/training/test_distributed.py \
  tests/vocabulary/test_lowres_tokenizers.py
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES) --resources mem_mb=$(MEMORY_MB) $(GPU)

.PHONY: demo demo-more test test-more test-cluster slurm check config-tables record memory bench gpu-check pages docs metrics profiles verify status cost clean

demo: REPORT = results/report/default
demo-more: STUDY = --configfile config/studies/demo-more.yaml
demo-more: REPORT = results/report/demo-more

demo demo-more: .venv/main
	@mkdir -p results
	@flock --nonblock --conflict-exit-code 75 results/.lock sh -e -c '\
	  if [ -n "$$(ls -A .snakemake/locks 2>/dev/null)" ]; then \
	    echo "An earlier run was killed; resuming from its finished steps."; \
	    $(BIN)/snakemake --quiet all --unlock $(STUDY); fi; \
	  if [ -t 1 ]; then progress="--logger rich"; else progress="--quiet reason host"; fi; \
	  $(SNAKEMAKE) $$progress $(STUDY); \
	  $(BIN)/snakemake --quiet all --report $(REPORT)/workflow.html $(STUDY)' \
	  || { status=$$?; [ $$status -ne 75 ] || echo "error: another run is at work in results"; exit $$status; }
	@echo
	@echo "Read     $(CURDIR)/$(REPORT)/report.html"
	@echo "More     $(CURDIR)/$(REPORT)/workflow.html  (Snakemake's report: every figure, table and setting)"

# Each test file runs on one worker, in the order defined in tests/conftest.py.
test: .venv/dev
	@$(PYTEST) $(addprefix --ignore=,$(LONGER)) $(TESTS)

test-more: .venv/dev .venv-metrics/main
	@LEXIGRAFT_METRICS=required $(PYTEST) $(LONGER)

# Slurm's own services are not started: the tests start what they need, in separate folders.
slurm:
	@PATH="$$PATH:/usr/sbin"; command -v slurmctld >/dev/null && command -v slurmd >/dev/null || { \
	  echo "Installing Slurm"; sudo=$$(command -v sudo || true); \
	  $$sudo apt-get -qq update && $$sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install --no-install-recommends slurmctld slurmd slurm-client munge; }

# Twice as many workers as cores, because they mostly wait for Slurm.
test-cluster: .venv/dev slurm
	@LEXIGRAFT_CLUSTER=1 CUDA_VISIBLE_DEVICES= $(BIN)/python -m pytest -n $$((2 * $(CORES))) --dist loadfile -q tests/cluster

check: .venv/dev
	@$(BIN)/ruff format --check lexigraft scripts tests workflow benchmarks docs/site docs/library.ipynb
	@$(BIN)/ruff check lexigraft scripts tests workflow benchmarks docs/site docs/library.ipynb
	@$(BIN)/snakefmt --check Snakefile workflow/rules
	@$(BIN)/mypy

metrics: .venv-metrics/main

docs: .venv-docs/main
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "Open $(CURDIR)/site/index.html; for search, run python3 -m http.server -d site and open http://localhost:8000"

verify: .venv/main
	@$(BIN)/python scripts/verify.py $(RESULTS) $(wildcard .cache/packages)

status cost: .venv/main
	@$(BIN)/python scripts/$@.py $(CONFIG)

config-tables: .venv/main
	@$(BIN)/python -m workflow.config.documentation

record: .venv/main
	@$(BIN)/python -m workflow.pages $(CONFIG)

memory: .venv/main
	@$(BIN)/python -m benchmarks.memory
	@$(BIN)/python -m workflow.pages

bench: .venv/dev
	@failed=; for name in $(BENCHMARKS); do \
	  echo "$$name"; $(BIN)/python -m benchmarks.$$name --record --repetitions $(REPETITIONS) || failed="$$failed $$name"; done; \
	  $(BIN)/python -m workflow.pages; \
	  if [ -n "$$failed" ]; then echo "error: not or only partly measured:$$failed"; exit 1; fi

gpu-check: .venv/dev
	@$(BIN)/python -m benchmarks.gpu $(PARTS)

pages: .venv/main
	@$(BIN)/python -m workflow.pages

profiles:
	@mkdir -p $(HOME)/.config/snakemake
	@ln -sfn $(CURDIR)/profiles/slurm $(HOME)/.config/snakemake/slurm
	@echo "snakemake --profile slurm now reads $(CURDIR)/profiles/slurm"

clean:
	rm -rf results .snakemake site

.venv/bin/python .venv-metrics/bin/python .venv-docs/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or newer is needed; name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Creating the virtual environment $(@:/bin/python=) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(@:/bin/python=)

.venv/main: envs/main.txt envs/main.lock pyproject.toml | .venv/bin/python
	@echo "Installing torch"
	@$(INSTALL) -c envs/main.lock torch==2.13.0
	@echo "Installing the packages of envs/main.txt"
	@$(INSTALL) -c envs/main.lock -r envs/main.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev: .venv/main envs/dev.txt envs/oracles.txt
	@echo "Installing the packages of envs/dev.txt and envs/oracles.txt"
	@$(INSTALL) -c envs/main.lock -r envs/dev.txt
	@$(INSTALL) --no-deps -r envs/oracles.txt
	@touch $@

.venv-metrics/main: envs/metrics.txt envs/metrics.lock | .venv-metrics/bin/python
	@echo "Installing the packages of envs/metrics.txt, in a separate environment"
	@$(INSTALL) -c envs/metrics.lock torch==2.13.0
	@$(INSTALL) -c envs/metrics.lock -r envs/metrics.txt
	@touch $@

.venv-docs/main: envs/docs.txt envs/docs.lock | .venv-docs/bin/python
	@echo "Installing the packages of envs/docs.txt, in a separate environment"
	@$(INSTALL) -c envs/docs.lock -r envs/docs.txt
	@touch $@
