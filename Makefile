# The targets that people and CI call. Each does its own set-up; second runs skip what is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test check bench docs clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Dragoman needs Python 3.10 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/dragoman demo --out demo

test: $(READY)
	$(BIN)/python -m pytest -m 'not slow and not exhaustive'

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

bench: $(READY)
	$(BIN)/python benchmarks/preparation.py
	$(BIN)/python benchmarks/memory.py

docs: demo
	$(BIN)/python benchmarks/report.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) demo site build dist *.egg-info
