# make demo      set up .venv for running, do the main job     make install   set up .venv for developing only
# make test      set up .venv for developing, run the tests    make lint      ruff, mypy and import-linter
# make test-all  the long tests, too                           make quick     lint, and the tests of a minute
# make bench     every benchmark, one after another            make clean     remove .venv
# make docs      the documentation, in docs/_build/html        make pictures  the pictures of README and docs
# make lessons   the lessons as pages in build/lessons, for lecturers in build/lecturer

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev

# Keep compiled modules: if this variable were set, every process would compile all libraries anew, for four seconds.
export PYTHONDONTWRITEBYTECODE :=

# Quick tests that find most faults: mechanisms, responses, likelihood, adaptation, studies' settings, files.
QUICK := tests/mechanisms tests/design tests/answers/test_responses.py tests/likelihood/test_marginal.py tests/test_labels.py \
  tests/test_files.py tests/cli/test_main.py tests/test_package.py tests/test_dirichlet.py tests/studies/test_grid.py

# tests/conftest.py says which tests stay in one process, and in which order they run.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-long test-all quick install lint bench lessons docs pictures clean

demo: $(RUN)
	$(BIN)/adobest compare --out adobest-report --overwrite --seed 1

# Each of the two test processes has one core, where several BLAS threads would wait for each other.
test test-long quick: export OMP_NUM_THREADS := 1

test: $(DEV)
	$(PYTEST) -m "not long and not slow and not jax"

# JAX has threads, which processes that fork do not survive: its tests run apart.
test-long: $(DEV)
	$(PYTEST) -m "long and not slow and not jax"
	$(BIN)/python -m pytest -q -p no:cacheprovider -m "jax and not slow" tests/model

test-all: test
	$(MAKE) test-long

quick: lint
	$(PYTEST) -m "not long and not slow and not jax" $(wildcard $(QUICK))

install: $(DEV)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(DEV)
	set -e; for file in $$(ls benchmarks/*.py | grep -v timing); do $(BIN)/python $$file; done

lessons: $(DEV)
	$(BIN)/adobest teach --pages build/lessons --overwrite
	$(BIN)/adobest teach --pages build/lecturer --lecturer --overwrite

# Offline, with every example executed, warnings as errors. Examples that did not change are not run again.
docs: $(DEV)
	$(BIN)/python -m sphinx -b html -n -W --keep-going -j 2 docs docs/_build/html

pictures: $(DEV)
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf $(VENV)

$(RUN): EXTRA :=
$(DEV): EXTRA := [dev]

# uv where there is one; pip otherwise, which would take longer to compile bytecode than to install. The stamp is written
# last, so an interrupted installation is simply done again. `make install PYTHON=python3.14` takes that interpreter.
$(RUN) $(DEV): pyproject.toml constraints.txt
	@set -e; python=; \
	for candidate in $(PYTHON) python3.13 python3.12 python3; do \
	  if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "adobest_pp needs Python 3.12 or newer with the venv module: install one (3.13 is the tested version) and run make again." >&2; \
	  exit 1; \
	fi; \
	[ -x $(BIN)/python ] && $(BIN)/python -c '' 2>/dev/null || $$python -m venv --clear $(VENV); \
	if command -v uv >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.$(EXTRA)'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.$(EXTRA)'; \
	fi; \
	touch $@
