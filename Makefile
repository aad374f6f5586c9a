# make demo: install, then prepare, train, evaluate, translate and draw, in a few minutes.  make test: all that CI checks.
# make benchmark: speed and memory beside plain references (docs/benchmarks.md).  make torture: kills it at random moments.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test benchmark torture install clean

demo: install
	$(BIN)/python scripts/demo.py

test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest --cov --cov-report=term:skip-covered

benchmark: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[benchmark]"
	$(BIN)/python scripts/benchmark.py

torture: install
	$(BIN)/python scripts/torture.py

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache
