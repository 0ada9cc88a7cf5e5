# `make run` does the main job on the embedded sample; `make test` checks everything.
# Both install what they need into .venv, once.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt src/umcqa/scoring/_gestalt.c

.PHONY: run test benchmark clean

run: .venv/.run
	@$(BIN)/umcqa run --data sample --scorer ensemble --out runs/sample
	@$(BIN)/umcqa report runs/sample

test: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --cov --cov-report=term:skip-covered --cov-fail-under=95

benchmark: .venv/.test
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/scaling.py --ray
	$(BIN)/python benchmarks/knowledge.py
	$(BIN)/python benchmarks/judging.py
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/prediction.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/serving.py

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/.run: $(SOURCES) | $(BIN)/python
	$(INSTALL) --editable '.[neural]'
	@touch $@

.venv/.test: $(SOURCES) | $(BIN)/python
	$(INSTALL) --editable '.[dev,hub,neural,onnx,ray,serve]'
	@touch $@ .venv/.run

clean:
	rm -rf .venv build runs src/*.egg-info src/umcqa/scoring/*.so
