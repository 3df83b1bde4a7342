# make demo   build and show the bundled sample     make test   everything CI checks
# make lint   ruff and mypy only                    make clean  remove what the others made
# make demo-train   install torch, and train a tiny BERT on the demo
#
# Override: make test VENV=/path/to/venv PYTHON=python3.12 PYTEST_ARGS="-k sentences"

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test,train
PYTEST_ARGS ?= -n auto

BIN := $(VENV)/bin
# Without byte-compiling all of it: a quarter of the time, and most of it is never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
CODE := schemas transforms pipeline runners train tests benchmarks

# The stamp of an environment is named after its extras, without the comma.
comma := ,
STAMP := $(VENV)/.stamp-$(subst $(comma),+,$(EXTRAS))

.PHONY: demo demo-train test lint clean
# One environment: two installations at once would be in each other's way.
.NOTPARALLEL:

demo: $(VENV)/.stamp-base
	$(BIN)/bert-data build tests/data/documents.jsonl --vocab_file tests/data/vocab.txt \
	  --output demo --overwrite --do_whole_word_mask
	$(BIN)/bert-data show demo -n 3

demo-train: demo $(VENV)/.stamp-train
	rm -rf demo-model
	$(BIN)/bert-train demo --model tiny --output demo-model --steps 300 --learning_rate 1e-3 \
	  --warmup_steps 30 --log_every 25

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check setup.py $(CODE)
	$(BIN)/ruff format --check setup.py $(CODE)
	$(BIN)/mypy $(CODE)

# A stamp is made last, so that an interrupted set-up is done again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-base: setup.py constraints.txt | $(VENV)/bin/python
	$(PIP) --editable . --constraint constraints.txt
	touch $@

$(VENV)/.stamp-%: setup.py constraints.txt | $(VENV)/bin/python
	$(PIP) --editable ".[$(subst +,$(comma),$*)]" --constraint constraints.txt
	touch $@

# VENV may be anything: only a virtual environment is removed.
clean:
	if [ -f $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	rm -rf demo demo-model build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./.git/*" -prune -exec rm -rf {} +
