# The targets that people and CI call. Each does its own set-up; second runs skip what is done.
PYTHON ?= python3
DATA ?= multi30k
MODEL ?= demo/en-fr
TEXT ?= demo/phrasebook/test.en
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

# One thread to each of pytest's processes, so that they do not wait for one another. In the order of the files, because
# those with few tests, which would come last, have the longest ones.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder
SHARE ?= 0.1
SEED ?= $(shell date +%s)

.PHONY: setup demo test fuzz check bench bench-serve bench-gpu docs clean

setup: $(READY)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Dragoman needs Python 3.10 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/dragoman demo --out demo

test: $(READY)
	$(PYTEST) -m 'not slow and not exhaustive'

# Explores: examples that no run had before, and SHARE of the damaged inputs of benchmarks/fuzz.py. SEED repeats a run.
fuzz: $(READY)
	@echo "make fuzz SEED=$(SEED) SHARE=$(SHARE)"
	$(PYTEST) -m 'not slow and not exhaustive' --hypothesis-profile explore --hypothesis-seed $(SEED)
	$(BIN)/python benchmarks/fuzz.py $(SHARE) $(SEED) --no-record

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --python-version 3.13
	$(BIN)/python -m pytest -q tests/test_architecture.py

# DATA: a folder with Multi30k's train, val and test_2016_flickr, .en and .de (github.com/multi30k/dataset, task 1, raw)
bench: .bench/peers/.ready .bench/joeynmt/.ready
	.bench/peers/bin/python benchmarks/speed.py $(DATA)
	$(BIN)/python benchmarks/report.py

# MODEL: a model folder; TEXT: a file of sentences in its source language (those of make demo)
bench-serve: .bench/libretranslate/.ready | $(READY)
	$(BIN)/python benchmarks/serve.py $(MODEL) $(TEXT)
	$(BIN)/python benchmarks/report.py

.bench/libretranslate/.ready: constraints.txt benchmarks/requirements-libretranslate.txt
	$(PYTHON) -m venv .bench/libretranslate
	.bench/libretranslate/bin/python -m pip install --quiet -c constraints.txt -r benchmarks/requirements-libretranslate.txt
	@touch $@

# On a machine with an NVIDIA GPU; DATA as for bench.
bench-gpu: .bench/peers/.ready
	.bench/peers/bin/python benchmarks/gpu.py $(DATA)

.bench/peers/.ready: constraints.txt benchmarks/requirements-peers.txt | $(READY)
	$(PYTHON) -m venv .bench/peers
	.bench/peers/bin/python -m pip install --quiet -c constraints.txt -e . -r benchmarks/requirements-peers.txt
	@touch $@

.bench/joeynmt/.ready: constraints.txt benchmarks/requirements-joeynmt.txt
	$(PYTHON) -m venv .bench/joeynmt
	.bench/joeynmt/bin/python -m pip install --quiet -c constraints.txt -r benchmarks/requirements-joeynmt.txt
	@touch $@

# site/try is the demo's translator as a page, for which npm fetches transformers.js.
NPM := $(shell command -v npm)

docs: $(READY) $(if $(NPM),.bench/web/node_modules demo/en-fr/config.json)
	$(BIN)/python benchmarks/report.py
	$(BIN)/python docs_build/refresh.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
ifdef NPM
	rm -rf site/try
	$(BIN)/dragoman export demo/en-fr --to web --assets .bench/web/node_modules --out site/try
else
	@echo "without site/try, the translator to try in a browser: it needs npm"
endif
	@echo "open site/index.html"

demo/en-fr/config.json: | $(INSTALLED)
	$(BIN)/dragoman demo --out demo

.bench/web/node_modules: dragoman/interop/web.py | $(READY)
	npm install --ignore-scripts --no-fund --no-audit --prefix .bench/web \
	  "$$($(BIN)/python -c 'from dragoman.interop.web import PACKAGE; print(PACKAGE)')"
	@touch $@

clean:
	rm -rf $(VENV) .bench demo site build dist *.egg-info
