# make demo   build and show the bundled sample     make test   everything CI checks
# make lint   ruff and mypy only                    make clean  remove what the others made but runners
# make setup  the environment of make test only
# make runners     fetch Flink, Spark and Prism into .runners (0.7 GB; needs Java, Maven, Go), for the
#                  tests that are skipped without them     make distclean   clean, and remove those too
# make demo-train   install torch, and train a tiny BERT on the sample
#
# Override: make test VENV=/path/to/venv PYTHON=python3.12 PYTEST_ARGS="-k sentences"
#           make setup PIP="uv pip install --python .venv/bin/python"   as CI does, in a sixth of the time

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= test,train
# One process more than cores: those that wait for a cluster leave theirs idle.
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
PYTEST_ARGS ?= -n $(shell expr $(CORES) + 1) --dist loadfile
RUNNERS := .runners

BIN := $(VENV)/bin
# Without byte-compiling all of it: a quarter of the time, and most of it is never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
CODE := schemas transforms pipeline runners train tests benchmarks

# The stamp of an environment is named after its extras, without the comma.
comma := ,
STAMP := $(VENV)/.stamp-$(subst $(comma),+,$(EXTRAS))

.PHONY: demo demo-train setup test lint runners clean distclean
# One environment: two installations at once would be in each other's way.
.NOTPARALLEL:

demo: $(VENV)/.stamp-base
	$(BIN)/bert-data build tests/data/documents.jsonl --vocab_file tests/data/vocab.txt \
	  --output demo --overwrite --do_whole_word_mask
	$(BIN)/bert-data show demo -n 3

# A vocabulary of 400 entries: words in many pieces, which a tiny model learns in a minute to complete.
demo-train: $(VENV)/.stamp-train
	$(BIN)/bert-data build tests/data/documents.jsonl --vocab_file tests/data/vocab_400.txt \
	  --output demo-train-data --overwrite --max_seq_length 32 --dupe_factor 20 \
	  --validation_fraction 0.1
	rm -rf demo-model
	$(BIN)/bert-train demo-train-data --model tiny --output demo-model --steps 2000 \
	  --batch_size 16 --optimizer adamw --learning_rate 1e-3 --warmup_steps 200 --dropout 0 \
	  --log_every 200

# Kernels are compiled meanwhile, and modules to bytecode: else every process of pytest does it for itself.
test: $(STAMP)
	@$(BIN)/python -m runners.images.warm & warm=$$!; \
	  $(MAKE) lint || { kill $$warm; exit 1; }; \
	  $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1; wait $$warm
	$(BIN)/python -m pytest $(PYTEST_ARGS)

setup: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check setup.py $(CODE)
	$(BIN)/ruff format --check setup.py $(CODE)
	$(BIN)/mypy $(CODE)

# What is there already is left alone: two minutes the first time, none afterwards.
runners: | $(VENV)/bin/python
	@$(BIN)/python tests/clusters/fetch.py $(RUNNERS)

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
	rm -rf demo demo-train-data demo-model build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path "./.git/*" -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(RUNNERS)
