# Every target works on a fresh clone. The virtual environment lives in .venv and is brought up to date when
# pyproject.toml is newer than its stamps. Kept to what GNU make 3.81 (macOS) and a POSIX sh understand.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses $(JOBS) --dist worksteal

# make run PROJECT=../my-app: the tree to watch
PROJECT ?= $(CURDIR)
# make test ARGS="-k rewind -x": handed to pytest (to the script for demo and bench)
ARGS ?=
# a marker expression of pytest's; make test MARKS=slow runs what make test leaves out
MARKS ?= not slow
# more processes than this fight over the disk
JOBS ?= 4

.PHONY: help run test demo faults bench bench-job picture lint clean

help:
	@echo "make run     watch PROJECT (default: this checkout) in the foreground and show its timeline; Ctrl-C stops"
	@echo "make test    the tests, fault sweeps at some points only (ARGS=... goes to pytest)"
	@echo "make demo    a real project damaged and brought back, compared byte for byte"
	@echo "make faults  the fault sweeps at every call that changes something"
	@echo "make bench   the figures beside git, restic, borg and others (ARGS=--large: 100,000 files too)"
	@echo "make bench-job  the figures of the main job (ARGS=--never-misses: what watching costs; --memory: what notes cost)"
	@echo "make picture the terminal of the README, from a real run"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make clean   remove .venv and what the tools leave behind"

# exec: the daemon takes the shell's place, so that a signal to make reaches it and nothing else stands between
run: $(VENV)/run.stamp
	@exec $(BIN)/oxided --foreground --watch "$(PROJECT)" --timeline

test: $(VENV)/dev.stamp
	$(PYTEST) -m "$(MARKS)" $(ARGS)

faults: $(VENV)/dev.stamp
	OXIDE_FAULTS=all $(PYTEST) -m faults --timeout 0 $(ARGS)

demo: $(VENV)/run.stamp
	@$(BIN)/python benchmarks/demo.py $(ARGS)

bench: $(VENV)/run.stamp
	@$(BIN)/python benchmarks/run.py --peers $(ARGS)

bench-job: $(VENV)/run.stamp
	@$(BIN)/python benchmarks/run.py $(ARGS)

picture: $(VENV)/run.stamp
	@$(BIN)/python docs/images/make_terminal.py $(ARGS)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

clean:
	rm -rf $(VENV) build dist openoxide.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is touched last, so that an interrupted installation is done again.
$(VENV)/run.stamp: pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "$(PYTHON) not found: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "OpenOxide needs Python 3.11 or newer and $(PYTHON) is older; name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -c 'import pip' 2>/dev/null || { \
	  echo "making $(VENV)"; rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	@echo "installing OpenOxide into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	@echo "installing the tools for development into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@
