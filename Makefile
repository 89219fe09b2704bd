# Tramplab: set up, build, test. `make` or `make help` lists the targets.
# Needs only make and Python 3.11 or newer with its venv module; everything else goes into .venv.

# The first that is new enough and can make a venv, and before those of the path the system's: distributions build theirs for speed,
# and all that is run here takes a sixth less of a processor than with the same version built by pyenv.
SYSTEM := /usr/bin/python3
PYTHON ?= $(shell for p in $(SYSTEM) python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   := .venv
PY     := $(VENV)/bin/python
PORT   ?= 8000
# -W -n --keep-going: every warning and every unresolved reference is an error, and all of them are listed.
BUILD  := $(PY) book/_ext/book_build.py build . -W -n --keep-going

.PHONY: help book text site wheels test check lint bench fuzz lab serve update native kernels booted own built lock clean browser qemu system spin
.DELETE_ON_ERROR:

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

# $(call writable,FOLDER): what writes into the checkout says first where it may not, and in one line.
writable = @test -w $(1) || { echo "$(abspath $(1)) cannot be written: work in a clone of your own." >&2; exit 2; }

# Hundreds of processes run: each would compile the whole package for itself.
unexport PYTHONDONTWRITEBYTECODE

# $(call install,LOCK): every version and every file's hash is in the lock; what was downloaded is compiled on all processors. The stamp
# is written last, so an interrupted installation is done again.
define install
	$(call writable,.)
	@test -n "$(PYTHON)" || { echo "Tramplab needs Python 3.11 or newer with venv, on Debian python3-venv (make PYTHON=/path/to/python)"; exit 2; }
	@echo "== installing $(1) into $(VENV) (once, about a minute)"
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -r $(1)
	$(PY) -m compileall -qq -j 0 $(VENV)/lib || true  # some files are for other Pythons
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e lib -e lib/tramplab_book
	@touch $@
endef

$(VENV)/installed: requirements.txt lib/pyproject.toml lib/tramplab_book/pyproject.toml
	$(call install,requirements.txt)

$(VENV)/test $(VENV)/lab: $(VENV)/%: requirements-%.txt $(VENV)/installed
	$(call install,requirements-$*.txt)

# Each is built from empty in _build/unfinished and takes the place of the one that is there when it is whole, and not before.
book: $(VENV)/installed  ## build the book into _build/html from empty, executing every page
	@echo "== building the book: every page is executed now, warnings are errors"
	@$(BUILD)
	@echo "== done: $(CURDIR)/_build/html/index.html   (or: make serve)"

text: $(VENV)/installed  ## build the book as plain text into _build/text
	@$(BUILD) --builder custom --custom-builder text
	@echo "== done: $(CURDIR)/_build/text/book/index.txt"

# `make clean` removes _build, so a folder that is to keep older editions is given as SITE=... and lies elsewhere.
SITE ?= _build/site
site: $(VENV)/installed _build/html/index.html  ## lay the built book out for a web server in SITE=... (_build/site)
	@$(PY) -m tramplab_book.publish.site _build/html "$(SITE)"

# Two workers: a quarter less time than one, measured on two cores. What goes to which, and when, is in lib/tests/support/plugins/order.py.
test: $(VENV)/test browser qemu system spin  ## run all tests; installs Debian's Chromium, QEMU and SPIN where it may
	cd lib && ../$(PY) -m pytest -n 2

# Which tests a change needs is in lib/tests/support/checkout/affected.py.
SINCE := $(or $(SINCE),HEAD)
check: $(VENV)/test  ## run the tests that what changed since a commit needs at once (SINCE=HEAD), without book and browser
	cd lib && ../$(PY) -m pytest -n 2 $$(../$(PY) tests/support/checkout/affected.py $(SINCE))

lint: $(VENV)/test  ## run ruff, mypy, codespell and the rule for commit messages
	cd lib && ../$(PY) -m pytest -n 2 tests/checkout/test_style.py tests/checkout/test_vocabulary.py tests/checkout/test_commits.py

bench: $(VENV)/test  ## print the speed figures as ratios
	cd lib && ../$(PY) -m bench

# hypothesis marks its tests, and lib/tests/support/plugins/seeds.py those that draw only a seed; the profile is in lib/tests/conftest.py.
SEED := $(or $(SEED),$(shell date +%s))
fuzz: $(VENV)/test  ## run the property tests with 10,000 examples each, drawn from SEED=... (the time)
	@echo "== what fails is drawn again by: make fuzz SEED=$(SEED)"
	cd lib && ../$(PY) -m pytest -n 2 -m hypothesis --hypothesis-profile fuzz --hypothesis-seed $(SEED)

# The viewer setting goes into .venv, not into the user's own configuration.
lab: export JUPYTER_CONFIG_DIR := $(CURDIR)/$(VENV)/etc/jupyter
lab: $(VENV)/lab  ## open JupyterLab on the chapters: .md pages open as notebooks, as do the built .ipynb
	$(call writable,$(VENV))
	$(VENV)/bin/jupytext-config set-default-viewer myst markdown
	$(VENV)/bin/jupyter lab --notebook-dir=. --LabApp.default_url=/lab/tree/book

_build/html/index.html:
	@$(MAKE) --no-print-directory book

serve: $(VENV)/installed _build/html/index.html  ## serve _build/html on http://localhost:8000 (PORT=...)
	@echo "== http://localhost:$(PORT)/   (Ctrl-C ends it)"
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

update: $(VENV)/installed  ## rewrite the golden tables in data, add new permalinks
	cd lib && ../$(PY) -m tramplab update

# Where nothing else is at work: up to four minutes for each of the four, less where windows soon agree. Pages compare fexit in the
# two older releases.
QUIETLY := native --windows 60 --save
native: $(VENV)/installed  ## time this machine and save it in data/native, where nothing else is at work (some minutes)
	$(call writable,data)
	$(PY) -m tramplab $(QUIETLY)
	$(PY) -m tramplab $(QUIETLY) --shapes
	for release in v6.18 v6.19; do \
		$(PY) -m tramplab native direct bpf-fentry bpf-fexit bpf-fmodret --release $$release --windows 60 --save || exit; \
	done
	@echo "== now: make update"

# From the copy of Debian's archive that apt uses, each package as far as its image. Where there is no apt, the images are fetched
# first by `python -m tramplab.vmlinux.debian --archive ADDRESS`. KERNELS=--one takes one per ISA.
# SCHEDULER=... is the address of a Dask scheduler whose workers count; they need the images in their caches, too.
kernels: $(VENV)/installed  ## fetch the Debian kernels whose counts the book has, and count (250 MB; KERNELS=--one: 30 MB)
	$(call writable,data)
	@echo "== fetching the kernel images that are not in the cache yet"
	@$(PY) -m tramplab.vmlinux.debian $(KERNELS) || [ $$? = 3 ]  # some are not in the archive any more
	@echo "== counting: data/kernels/*.json"
	@$(PY) -m tramplab.vmlinux recount $(filter-out --one,$(KERNELS)) $(if $(SCHEDULER),--scheduler $(SCHEDULER))
	@echo "== exploring: data/kernel-races.json"
	@$(PY) -m tramplab.vmlinux races
	@echo "== running who hands on registers: data/kernel-frames.json"
	@$(PY) -m tramplab.vmlinux frames
	@echo "== unwinding hooked calls: data/kernel-walks.json"
	@$(PY) -m tramplab.vmlinux walks
	@echo "== looking for kretprobes and what could replace them: data/kernel-probes.json"
	@$(PY) -m tramplab.vmlinux probes
	@echo "== reading how large structs are: data/kernel-structs.json"
	@$(PY) -m tramplab.vmlinux structs

# Each kernel that make kernels has fetched is booted twice for all probes, in two orders, and once for each trial and each replay: five
# minutes.
booted: $(VENV)/installed  ## boot the fetched Debian kernels under QEMU and measure probes there (data/booted)
	$(call writable,data)
	@$(PY) -m tramplab.boot
	@$(PY) -m tramplab.boot --replay
	@echo "== now: make update"

# As somebody might build them: by GCC and clang, with CFI, a shadow call stack, frame pointers, without what distributions have.
# OWN="x86_64-clang ..." names some of them; each takes two processors about five minutes.
own: $(VENV)/test  ## build small kernels from Debian's Linux source into the cache, for tests that use them (OWN=...: some)
	$(call debian,clang-19,clang-19 lld-19 llvm-19,own kernels)
	$(call debian,aarch64-linux-gnu-gcc,gcc-aarch64-linux-gnu,own kernels)
	$(call debian,riscv64-linux-gnu-gcc,gcc-riscv64-linux-gnu,own kernels)
	$(call debian,pahole,pahole flex bison bc libelf-dev libssl-dev linux-source-6.12,own kernels)
	cd lib && ../$(PY) tests/support/vmlinux/own_kernels.py $(OWN)

# Builds six kernels without a patch or with one, half an hour, and boots each for every probe and trial.
built: $(VENV)/installed  ## build the kernels of the patches that the book tries, and try them (SOURCE=...: another copy of the source)
	$(call writable,data)
	@$(PY) -m tramplab.kbuild $(SOURCE)
	@echo "== now: make update"

# One lock per use, each with the versions of the tests', which has everything. A version stays until `make lock UPGRADE=--upgrade`.
LOCK = _build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(UPGRADE) --no-emit-package tramplab --no-emit-package tramplab-book lib/pyproject.toml lib/tramplab_book/pyproject.toml
lock:  ## resolve what the two pyproject.toml ask for into requirements*.txt
	$(call writable,.)
	$(PYTHON) -m venv _build/lock && _build/lock/bin/pip install --quiet uv
	$(LOCK) --extra test --output-file requirements-test.txt
	$(LOCK) --extra lab --constraints requirements-test.txt --output-file requirements-lab.txt
	$(LOCK) --extra book --constraints requirements-test.txt --output-file requirements.txt
	rm -rf _build/lock

# What the last build left behind would be in the next one, too.
WHEELS ?= _build/wheels
wheels: $(VENV)/installed  ## build the wheels of the lab and of the book into WHEELS=... (_build/wheels)
	rm -rf _build/lab _build/book
	@$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$(WHEELS)" ./lib ./lib/tramplab_book

clean:  ## remove what was built (not .venv)
	rm -rf _build .pytest_cache lib/.pytest_cache lib/.hypothesis lib/.mypy_cache lib/*.egg-info .ruff_cache lib/.ruff_cache
	find lib book -name __pycache__ -type d -exec rm -rf {} +

# $(call debian,PROGRAMS,PACKAGE,TESTS): install a package for some tests where none of its programs is there. Only on Debian:
# elsewhere the package of this name may be a stub that wants another packager.
define debian
	@for name in $(1); do command -v $$name >/dev/null && exit 0; done; \
	grep -qsx 'ID=debian' /etc/os-release && command -v apt-get >/dev/null || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else exit 0; fi; \
	echo "== installing Debian's $(2) for the $(3) tests"; \
	{ $$as_root apt-get update -qq && $$as_root apt-get install -qq -y --no-install-recommends $(2) >/dev/null; } \
	|| echo "== $(2) could not be installed; the $(3) tests do without, or say so"
endef

# The same browser without a window takes three quarters of the time; where it is not to be had, the one with a window will do.
HEADLESS := chromium-headless-shell
browser:
	$(call debian,$(HEADLESS),$(HEADLESS),browser)
	$(call debian,$(HEADLESS) chromium chromium-browser google-chrome,chromium,browser)

# Runs the native child of the ISAs that this host is not.
qemu:
	$(call debian,qemu-riscv64 qemu-aarch64,qemu-user,native)

# Boots a kernel of x86-64, the only one that the tests boot.
system:
	$(call debian,qemu-system-x86_64,qemu-system-x86,booting)

# Searches the models that the race explorer is held against: it makes a C program of each, and asks gcc for a preprocessor.
spin:
	$(call debian,spin,spin,model)
	$(call debian,gcc,gcc libc6-dev,model)
