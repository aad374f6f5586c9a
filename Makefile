# make demo: install, then prepare, train, evaluate, translate and draw, in a few minutes.
# make test: all that CI checks.
# make coverage: the same tests, counting lines, which takes half as much processor time again on Python 3.11.
# make docs-run: run the commands of README and docs/, and the notebook, and compare; takes about half an hour.
# make site: write docs/ as HTML, with search, to build/site.
# make best: train and judge the best translators of Multi30k in some four hours (docs/results.md).
# make torture: kill training and prepare at random moments.  make long: the tests that take minutes.
# make hammer: 10,000 requests to tfm serve, a sixth of them hostile; takes minutes.
# make browser-test: the page of tfm serve, in chromium where that is installed; make test runs this too.
# make linear: how the time of all that reads a text grows with the text, for inputs that are bad for it; takes minutes.
# make lowest: the tests with the lowest version of every direct dependency that pyproject.toml allows.
# make benchmark: speed and memory beside plain references (docs/benchmarks.md).

PYTHON ?= python3
BIN := .venv/bin

TESTS := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10

.PHONY: demo test site docs-run coverage browser-test linear lowest long benchmark best hammer torture install clean

demo: install
	$(BIN)/python scripts/demo.py

# mypy works beside the tests, which do not keep all cores busy; its words come after theirs.
test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy >.venv/mypy.txt 2>&1 & types=$$!; \
	$(TESTS); \
	tests=$$?; wait $$types || tests=1; cat .venv/mypy.txt; exit $$tests

coverage: install
	$(TESTS) --cov --cov-report=term:skip-covered

browser-test: install
	$(BIN)/pytest -vv tests/unit/adapters/serve/test_page.py

docs-run: install
	$(BIN)/python scripts/run_docs.py

site: install
	$(BIN)/python -m mkdocs build --quiet --strict
	@echo build/site/index.html

lowest: install
	$(PYTHON) -m venv .venv-lowest
	$(BIN)/python scripts/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/constraints.txt --editable ".[dev]"
	.venv-lowest/bin/pytest --numprocesses auto --maxprocesses 4 --dist worksteal -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

long: install
	$(BIN)/pytest -m long --log-cli-level=INFO

benchmark: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[benchmark]"
	$(BIN)/python scripts/benchmark.py

best: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[benchmark]"
	$(BIN)/python scripts/best.py
	$(BIN)/python scripts/best.py --diverse

hammer: install
	$(BIN)/python scripts/hammer.py

linear: install
	$(BIN)/python scripts/linear.py

torture: install
	$(BIN)/python scripts/torture.py

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv .venv-lowest build *.egg-info .mypy_cache .ruff_cache .pytest_cache
