# SPDX-License-Identifier: Apache-2.0
# The front door. `make demo` and `make test` set up all they need.
#
#   make setup      .venv with the package and what its tests need; make rivals
#                   installs what benches and hosts' tests compare with
#   make demo       five scenes of a minute in all: kernels, attention, training,
#                   graph breaks
#   make test       C unit tests, text tests, one in four cases of each Python test
#   make test-full  the Python tests, all cases, slow ones too
#   make nightly    what CI runs in its long forms, recorded stage by stage
#                   (tests/README.md)
#   make test-hosts JAX and ONNX Runtime beside PyTorch: one file, equal bytes;
#                   make hosts-environments installs them
#   make hosts-matrix the same at each host's oldest and newest version
#   make test-versions VERSION=2.14.1  the Python tests on another torch, in an
#                   environment of its own (gigabytes); it goes on where it was
#   make test-compilers  the C tests of what clang 14 and 19 make, with warnings
#                   as errors; apt-get install clang-14 clang-19
#   make test-peers what gen writes, in the real TorchAir (a wheel of 44 MB)
#   make test-openxla doctor beside torch_xla (an environment of gigabytes)
#   make docs       the site, build/docs/index.html; warnings are errors; the
#                   examples print what its gallery shows
#   make wheel      dist/: one wheel for every Python and PyTorch, with the
#                   manylinux tag that auditwheel proves
#   make release    dist/: wheel and sdist, equal in two builds, and tried in
#                   an environment of each Python that the machine has
#   make test-isa   all of them under each instruction set of the machine
#   make sanitize   C tests under ASan+UBSan, every allocation failing in turn;
#                   those with threads under TSan
#   make sanitize-python  Python tests of calls and of the graph engine, over
#                   a package built with ASan+UBSan
#   make valgrind   C tests under valgrind, with AVX2 at most
#   make fuzz       each fuzzer, or those of FUZZER, for FUZZ_SECONDS (600)
#   make bench      every bench/*.py; make sweep: every tests/sweep/*.py
#   make gpu        what needs an NVIDIA GPU, with the Python of PYTHON
#   make results    which of docs/results are stale
#   make style      format, layers, circles, callers, sizes, words, spelling;
#                   make format mends the first
#
# The slow ones accept SMOKE=1: the same path, a few seconds each.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD ?= build
JOBS ?= $(shell nproc)
SMOKE ?=
FUZZ_SECONDS ?= $(if $(SMOKE),5,600)
SMOKE_FLAG := $(if $(SMOKE),--smoke)
export OPGRAFT_SMOKE := $(SMOKE)
GENERATOR := $(if $(shell command -v ninja),Ninja,Unix Makefiles)
CONFIGURE := cmake -S . -G "$(GENERATOR)" -DOPGRAFT_BUILD_TESTS=ON \
  -DOPGRAFT_WERROR=ON -DCMAKE_BUILD_TYPE=None \
  -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python

# Folders are listed too: their times tell of files that went away.
PACKAGE_SOURCES := $(shell find include src hosts cli ops python cmake \
  -name __pycache__ -prune -o -not -name '*.pyc' -print 2>/dev/null) \
  CMakeLists.txt pyproject.toml

.PHONY: setup rivals demo test test-full test-hosts hosts-matrix \
  hosts-environments test-compilers test-versions test-peers test-openxla docs \
  vllm wheel release test-isa sanitize sanitize-python nightly valgrind fuzz \
  bench sweep gpu results style format build build-asan build-tsan clean
.DELETE_ON_ERROR:
# A folder beside a C file of its name is no program to be made of it.
MAKEFLAGS += --no-builtin-rules

setup: $(VENV)/.package

rivals: $(VENV)/.rivals

# What is imported is compiled then: 40 s less than all of it.
$(VENV)/.requirements: tools/requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile -r tools/requirements.txt
	touch $@

$(VENV)/.rivals: tools/rivals.txt $(VENV)/.requirements
	$(BIN)/python tools/rivals.py tools/rivals.txt
	touch $@

# What is tested is what ships: `build` adds the C tests to this folder. Debian
# 12's pip has no -C for --config-settings.
$(VENV)/.package: $(VENV)/.requirements $(PACKAGE_SOURCES)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation . \
	  --config-settings=build-dir=$(BUILD) \
	  --config-settings=cmake.define.CMAKE_C_FLAGS=-g1 \
	  --config-settings=cmake.define.OPGRAFT_BUILD_PYTHON=ON \
	  --config-settings=cmake.define.OPGRAFT_WERROR=ON
	touch $@

demo: setup
	$(BIN)/python examples/demo/run.py

build: setup
	$(BIN)/cmake -B $(BUILD) -DOPGRAFT_BUILD_TESTS=ON > /dev/null
	$(BIN)/cmake --build $(BUILD) -j $(JOBS)

test: build
	$(BIN)/python tools/run_tests.py --build $(BUILD) --cases 4 \
	  unit text checks python

test-full: build
	$(BIN)/python tools/run_tests.py --build $(BUILD) --full whole python

# A host that is not in the main environment has one of its own.
# TensorFlow is large: `make hosts-matrix` has it.
HOST_ENVIRONMENTS := $(patsubst requirements/%.txt,.venv-%/.ready,\
  $(filter-out $(addprefix requirements/,docs.txt openxla.txt tensorflow.txt wheel.txt),\
  $(wildcard requirements/*.txt)))

hosts-environments: $(HOST_ENVIRONMENTS)

.venv-%/.ready: requirements/%.txt
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet -r $<
	touch $@

test-hosts: build rivals hosts-environments
	$(BIN)/python tools/run_tests.py --build $(BUILD) hosts

hosts-matrix: build rivals
	$(BIN)/python tools/hosts_matrix.py --build $(BUILD)

test-versions: build hosts-environments
	$(BIN)/python tools/torch_versions.py --build $(BUILD) $(VERSION)

COMPILERS := clang-14 clang-19
test-compilers: setup
	for compiler in $(COMPILERS); do \
	  CC=$$compiler $(CONFIGURE) -B build-$$compiler -DCMAKE_C_FLAGS=-O1 \
	    > /dev/null && $(BIN)/cmake --build build-$$compiler -j $(JOBS) && \
	  $(BIN)/python tools/run_tests.py --build build-$$compiler unit || exit 1; \
	done

# The wheel of the torch that is tested.
NPU := 2.13.0
test-peers: build rivals
	$(BIN)/python -m pip download --quiet --no-deps -d $(BUILD)/peers \
	  torch-npu==$(NPU)
	$(BIN)/python tests/peers/torchair.py --build $(BUILD) \
	  $(BUILD)/peers/torch_npu-$(NPU)-*.whl

# Gigabytes: torch 2.9 has no build for CPUs alone.
test-openxla: build .venv-openxla/.ready
	$(BIN)/python -c "import sys; sys.path.insert(0, 'tools'); import pathlib, \
	  run_tests; run_tests.package_links(pathlib.Path('$(BUILD)').resolve())"
	PYTHONPATH=$(BUILD)/package OPGRAFT_PROGRAM=$(BUILD)/bin/opgraft \
	  .venv-openxla/bin/python tests/peers/openxla.py

docs: build rivals .venv-docs/.ready
	$(PYTHON) tools/api_docs.py --build $(BUILD) --out $(BUILD)/docs-source
	.venv-docs/bin/python -m sphinx -q -W --keep-going -b html \
	  $(BUILD)/docs-source $(BUILD)/docs
	.venv-docs/bin/python -m pytest -q tests/docs/test_site.py \
	  tests/docs/test_site_browser.py
	$(BIN)/python tools/gallery.py --check

# vLLM beside the plugin of integrations/vllm; its environment takes some GB.
.venv-vllm/.ready: integrations/vllm/requirements.txt
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet -r $<
	.venv-vllm/bin/python -m pip uninstall -y -q torchvision torchaudio \
	  torchcodec
	.venv-vllm/bin/python -m pip install --quiet -e integrations/vllm --no-deps
	touch $@

vllm: build .venv-vllm/.ready
	$(BIN)/python tools/run_tests.py --build $(BUILD) vllm

# Installs in seconds where `pip install .` compiles.
wheel: .venv-wheel/.ready
	.venv-wheel/bin/python tools/release.py --wheel

release: setup rivals .venv-wheel/.ready
	$(BIN)/python tools/release.py

test-isa: build
	$(BIN)/python tools/run_tests.py $(SMOKE_FLAG) --build $(BUILD) isa

# Those that `run_tests.py threads` runs.
THREAD_UNITS := $(patsubst tests/unit/%.c,unit_%,\
  $(shell grep -l '<pthread.h>' tests/unit/*.c))

# One tree with ASan and UBSan for the C tests, the fuzzers and the Python tests.
build-asan: setup
	$(CONFIGURE) -B build-asan -DOPGRAFT_SANITIZE=address \
	  -DCMAKE_C_FLAGS="-O1 -g" > /dev/null
	$(BIN)/cmake --build build-asan -j $(JOBS)

build-tsan: setup
	$(CONFIGURE) -B build-tsan -DOPGRAFT_SANITIZE=thread \
	  -DOPGRAFT_BUILD_PYTHON=OFF -DCMAKE_C_FLAGS="-O1 -g" > /dev/null
	$(BIN)/cmake --build build-tsan -j $(JOBS) --target $(THREAD_UNITS) \
	  test_modules opgraft_device_npu_sim

sanitize: build-asan build-tsan
	$(BIN)/python tools/run_tests.py --build build-asan --faults=32 unit text \
	  --thread-build build-tsan threads

sanitize-python: build-asan
	$(BIN)/python tools/run_tests.py $(SMOKE_FLAG) --build build-asan sanitized

# What CI runs, in its long forms; an interrupted run goes on.
nightly:
	$(PYTHON) tools/stages.py --nightly

valgrind: build
	$(BIN)/python tools/run_tests.py --build $(BUILD) valgrind

fuzz: build-asan rivals
	$(BIN)/python tools/run_tests.py --build build-asan \
	  --fuzz-seconds $(FUZZ_SECONDS) $(addprefix --fuzzer ,$(FUZZER)) fuzz

bench: build rivals
	$(BIN)/python tools/run_tests.py $(SMOKE_FLAG) bench

sweep: build rivals
	$(BIN)/python tools/run_tests.py $(SMOKE_FLAG) sweep

gpu:
	$(PYTHON) tools/gpu.py

results:
	$(PYTHON) tools/results.py

style: setup
	$(BIN)/python tools/run_tests.py style

format: setup
	git ls-files '*.c' '*.h' 'hosts/*.cpp' | xargs $(BIN)/clang-format -i

clean:
	rm -rf build build-asan build-tsan build-clang-* .build
