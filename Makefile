# Every target sets up what it needs: `make train` in a fresh clone is enough.

PYTHON ?= python3
CONFIG ?= configs/sample.yaml
TEXT   ?= Der Hund läuft schnell.
ARGS   ?=

VENV := .venv
RUN  := $(VENV)/bin/python
READY := $(VENV)/installed

.DEFAULT_GOAL := help
.PHONY: help train multi30k iwslt evaluate translate tensorboard test lint clean

help: ## Show this list
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

train: $(READY) ## Train on the generated sample corpus, or on CONFIG=configs/….yaml
	$(RUN) -m translate.train --config $(CONFIG) $(ARGS)

multi30k: ## Download Multi30k, then prepare, train and evaluate (a CPU will do)
	@$(MAKE) train CONFIG=configs/multi30k.yaml

iwslt: ## Download IWSLT 2017, then prepare, train and evaluate (needs a GPU)
	@$(MAKE) train CONFIG=configs/iwslt2017.yaml

evaluate: $(READY) ## Score the newest run on its test sets, and show where it breaks
	$(RUN) -m translate.evaluate $(ARGS)

translate: $(READY) ## Translate TEXT="ein deutscher Satz" with the newest run
	@$(RUN) -m translate.decode $(ARGS) "$(TEXT)"

tensorboard: $(READY) ## Watch the curves of all runs at http://localhost:6006
	$(VENV)/bin/tensorboard --logdir checkpoints

test: $(READY) ## Run the tests
	$(RUN) -m pytest $(ARGS)

lint: $(READY) ## Check style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

clean: ## Remove the environment and caches; keep corpora and runs
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one with make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
