# make demo   build and show the bundled sample     make test   everything CI checks
# make lint   ruff and mypy only                    make clean  remove what the others made
#
# Override: make test VENV=/path/to/venv PYTHON=python3.12 PYTEST_ARGS="-k sentences"

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test
PYTEST_ARGS ?= -n auto

BIN := $(VENV)/bin
# Without byte-compiling all of it: a quarter of the time, and most of it is never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
CODE := schemas transforms pipeline runners tests benchmarks

.PHONY: demo test lint clean

demo: $(VENV)/.stamp-base
	$(BIN)/bert-data build tests/data/documents.jsonl --vocab_file tests/data/vocab.txt \
	  --output demo --overwrite --do_whole_word_mask
	$(BIN)/bert-data show demo -n 3

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.stamp-$(EXTRAS)
	$(BIN)/ruff check setup.py $(CODE)
	$(BIN)/ruff format --check setup.py $(CODE)
	$(BIN)/mypy $(CODE)

# A stamp is made last, so that an interrupted set-up is done again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-base: setup.py constraints.txt | $(VENV)/bin/python
	$(PIP) --editable . --constraint constraints.txt
	touch $@

$(VENV)/.stamp-$(EXTRAS): setup.py constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[$(EXTRAS)]" --constraint constraints.txt
	touch $@

# VENV may be anything: only a virtual environment is removed.
clean:
	if [ -f $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	rm -rf demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./.git/*" -prune -exec rm -rf {} +
