# `make` lists the targets. Each target sets up what it needs: a virtual environment in .venv and the
# compiled core, rebuilt when setup.py, pyproject.toml or the core changes.

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
CORE := $(shell find pyxsim -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
# The tests refuse a build of the core (release or debug) other than the expected one.
RELEASE := PYXSIM_EXPECT_BUILD=release
DEBUG := PYXSIM_EXPECT_BUILD=debug
DEBUG_SITE := build/debug/site
COVERAGE_SITE := build/coverage/site
COVERAGE := $(CURDIR)/$(VENV)/bin/coverage
# As many tests at a time as there are cores; tests of one file stay together where they can: some share what they run.
PYTEST := $(VENV)/bin/pytest -n auto --dist worksteal
# Variables of the developer's shell must not change the build; and without cached bytecode, each of the hundreds of
# processes that the tests start takes twice as long to start.
unexport PYXSIM_DEBUG PYXSIM_COVERAGE PYTHONPATH PYTHONDONTWRITEBYTECODE

.PHONY: help run test validate coverage fuzz bench lint debug sanitize docs wheel clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r verb text; do printf '%-14s %s\n' "$$verb" "$$text"; done

run: $(VENV)/.ready-run  ## run the first experiment, an all-reduce on a torus; writes results/torus_all_reduce.h5, .png and .html
	@mkdir -p results
	$(VENV)/bin/pyxsim run inputs/torus_all_reduce.toml -o results/torus_all_reduce.h5 --plot results/torus_all_reduce.png
	$(VENV)/bin/pyxsim report results/torus_all_reduce.h5

test: $(VENV)/.ready-dev  ## run the tests, except the slow ones
	$(RELEASE) $(PYTEST) $(ARGS)

validate: $(VENV)/.ready-dev  ## run all tests and every case of docs/validation.md; plots in results/validation
	$(RELEASE) $(PYTEST) --slow \
	  $$($(VENV)/bin/python -c "from validation.families.tests_of import files; print(*map('--ignore={}'.format, files()))") $(ARGS)
	$(VENV)/bin/pyxsim validate -o results/validation
	$(VENV)/bin/python -m validation.fuzz --cases 2000
	$(VENV)/bin/python -m validation.fuzz.interrupt --cases 50
	$(MAKE) coverage

# Python: all tests, on the release build. Cython: the tests of its rooms, on a build with line tracing and in its
# folder, where the coverage plugin finds the C files.
coverage: $(VENV)/.ready-dev  ## lines that the tests reach, of Python and of Cython, by room; pages in build/coverage/html
	@rm -rf $(COVERAGE_SITE) build/coverage/data build/coverage/html
	@! test -d build/coverage || find build/coverage -path '*/lib.*' -type f ! -name '*.so' -delete
	PYXSIM_COVERAGE=1 $(PIP) install --no-build-isolation --no-deps --target $(COVERAGE_SITE) .
	@cp -R build/coverage/cython/. $(COVERAGE_SITE)
	@mkdir -p build/coverage/data
	$(RELEASE) COVERAGE_FILE=$(CURDIR)/build/coverage/data/python $(COVERAGE) run $(PYTEST) $(ARGS)
	cd $(COVERAGE_SITE) && PYTHONPATH=. COVERAGE_FILE=$(CURDIR)/build/coverage/data/cython $(COVERAGE) run \
	  --rcfile=$(CURDIR)/pyproject.toml $(CURDIR)/$(PYTEST) -c $(CURDIR)/pyproject.toml --rootdir=$(CURDIR) \
	  $(addprefix $(CURDIR)/tests/,core network system) $(ARGS)
	@cd $(COVERAGE_SITE) && $(CURDIR)/$(VENV)/bin/python $(CURDIR)/tests/coverage_by_room.py $(CURDIR)/pyproject.toml ../data ../html

fuzz: $(VENV)/.ready-dev  ## 20,000 damaged inputs and commands; ARGS="--seed 2 --cases 1000"
	$(VENV)/bin/python -m validation.fuzz $(ARGS)

bench: $(VENV)/.ready-dev  ## measure the speed on fixed cases and against other simulators; ARGS="--quick", --curves (docs/performance.md)
	$(VENV)/bin/python -m benchmarks.run $(ARGS)

lint: $(VENV)/.ready-dev  ## check style and types of Python and Cython
	@failed=; for tool in "ruff check" mypy "cython-lint pyxsim"; do echo "$$tool"; PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/$$tool || failed=1; done; test -z "$$failed"

# The debug build is installed into a folder of its own and found by PYTHONPATH, so the release build stays as it is.
debug: $(VENV)/.ready-dev  ## run the tests of the core on a build with bounds checks, assertions and self-check
	@rm -rf $(DEBUG_SITE)
	@! test -d build/debug || find build/debug -path '*/lib.*' -type f ! -name '*.so' -delete
	PYXSIM_DEBUG=1 $(PIP) install --no-build-isolation --no-deps --target $(DEBUG_SITE) .
	$(DEBUG) PYTHONPATH=$(DEBUG_SITE) $(PYTEST) tests/core tests/network/delay tests/network/fluid tests/system/test_executor.py $(ARGS)

# Python itself is not instrumented, so the runtime of the sanitizer is loaded before it; its own leaks are no findings.
# The thread sanitizer needs a fixed layout of memory where the system randomises too many bits of addresses. pytest
# captures what a process prints before the sanitizer ends it, hence -s.
SANITIZE_SITE := build/sanitize
ASAN = ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYXSIM_CACHE= PYTHONSAFEPATH=1 \
	PYTHONPATH=$(SANITIZE_SITE)/address:. LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)"
TSAN = TSAN_OPTIONS=halt_on_error=1:exitcode=66 PYXSIM_CACHE= PYTHONSAFEPATH=1 PYTHONPATH=$(SANITIZE_SITE)/thread:. \
	LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" $$(setarch -R true 2>/dev/null && echo setarch -R)
sanitize: $(VENV)/.ready-dev  ## tests of the core and 1,000 random experiments with address, undefined-behaviour and thread sanitizers
	@rm -rf $(SANITIZE_SITE)
	@! test -d build || find build -path 'build/release-*/lib.*' -type f ! -name '*.so' -delete
	PYXSIM_SANITIZE=address,undefined $(PIP) install --no-build-isolation --no-deps --target $(SANITIZE_SITE)/address .
	$(ASAN) $(VENV)/bin/pytest -q -s -n 0 tests/core tests/network/delay tests/network/fluid $(ARGS)
	$(ASAN) $(VENV)/bin/python -m validation.random_experiments --cases 1000
	PYXSIM_SANITIZE=thread $(PIP) install --no-build-isolation --no-deps --target $(SANITIZE_SITE)/thread .
	$(TSAN) $(VENV)/bin/pytest -q -s -n 0 tests/core/test_partition.py $(ARGS)
	$(TSAN) $(VENV)/bin/python -m validation.random_experiments --cases 100 --threads

docs: $(VENV)/.ready-docs  ## build the site of the documentation in build/site
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

wheel: $(VENV)/.made  ## build a wheel for this Python in dist/
	@rm -rf build/release/lib.*
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:  ## remove the environment and all build products; results/ stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find pyxsim -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ---

# Check for a Python that can create environments, its headers and a C compiler; report what is missing.
define CHECK
import os, shutil, sys, sysconfig
def need(ok, text):
    if not ok:
        sys.exit("pyxsim: " + text)
need(sys.version_info >= (3, 11), "needs Python 3.11 or newer; %s is %s. Name another one: make PYTHON=python3.12" % (sys.executable, sys.version.split()[0]))
try:
    import ensurepip, venv
except ImportError:
    need(False, "this Python cannot make virtual environments (Debian, Ubuntu: apt install python3-venv)")
need(os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")), "no Python.h: the headers of Python are not installed (Debian, Ubuntu: apt install python3-dev)")
compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
need(shutil.which(compiler), "no C compiler '%s' found (Debian, Ubuntu: apt install gcc; macOS: xcode-select --install)" % compiler)
endef
export CHECK

# The builds below run without isolation, so the build requirements of pyproject.toml are installed here.
define BUILD_REQUIRES
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")
endef
export BUILD_REQUIRES

# An environment contains the path of its tree; in a copy of the tree it would run the original, so it is recreated.
ifneq ($(shell cat $(VENV)/tree.txt 2>/dev/null),$(CURDIR))
$(VENV)/.made: moved
endif
.PHONY: moved

$(VENV)/.made: pyproject.toml Makefile
	@command -v $(PYTHON) >/dev/null || { echo "pyxsim: no '$(PYTHON)' found; it needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c "$$CHECK"
	@echo "Setting up $(VENV)"
	@test "$$(cat $(VENV)/tree.txt 2>/dev/null)" = "$(CURDIR)" && $(VENV)/bin/python -c 'import pip' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $(VENV)/tree.txt
	@$(VENV)/bin/python -c "$$BUILD_REQUIRES" > $(VENV)/build-requires.txt
	@$(PIP) install -r $(VENV)/build-requires.txt
	@touch $@

# The requirements for running experiments; developer tools are added by .ready-dev, which includes those of the site.
# Reinstalling the tree compiles nothing (setup.py). Most files of the tools are never imported, hence --no-compile.
$(VENV)/.ready-run: $(VENV)/.made setup.py $(CORE)
	@echo "Building and installing pyxsim into $(VENV): some minutes the first time"
	@$(PIP) install --no-build-isolation --editable '.[report,xarray]'
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready-run
	@echo "Installing the requirements of the site"
	@$(PIP) install --no-compile --no-build-isolation --editable '.[docs]'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready-run
	@echo "Installing the requirements of tests and linters"
	@$(PIP) install --no-compile --no-build-isolation --editable '.[dev]'
	@touch $@ $(VENV)/.ready-docs
