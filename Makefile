# make demo    set up .venv and run the main job        make lint    ruff and mypy
# make test    set up .venv and run the tests           make bench   every benchmark, one after another
# make install set up .venv only                        make clean   remove .venv

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test install lint bench clean

demo: $(STAMP)
	$(BIN)/adobest compare --out adobest-report --seed 1

test: $(STAMP)
	$(BIN)/python -m pytest -n 2

install: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	set -e; for file in $$(ls benchmarks/*.py | grep -v timing); do $(BIN)/python $$file; done

clean:
	rm -rf $(VENV)

# The stamp is written last, so an interrupted installation is simply done again.
$(STAMP): pyproject.toml constraints.txt
	@set -e; python=; \
	for candidate in python3.13 python3.12 python3; do \
	  if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "adobest_pp needs Python 3.12 or newer with the venv module: install one (3.13 is the tested version) and run make again." >&2; \
	  exit 1; \
	fi; \
	[ -x $(BIN)/python ] && $(BIN)/python -c '' 2>/dev/null || $$python -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'; \
	touch $(STAMP)
