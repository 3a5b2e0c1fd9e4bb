# SPDX-License-Identifier: Apache-2.0
# The front door. Everything is built under build/; `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_ARGS ?=

# $(call configure,PRESET), once: Ninja configures again by itself when a list or the set of files changes.
configure = test -f build/$(1)/build.ninja || cmake --preset $(1) --log-level=WARNING $(CMAKE_ARGS)
# $(call build,PRESET,TARGETS)
build = $(call configure,$(1)) && cmake --build --preset $(1) -j $(JOBS) $(if $(2),--target $(2))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: build-release ## build everything; the program is build/release/bin/thalweg

.PHONY: train
train: setup ## train a classifier of images with 2 parameter servers and 2 workers (ARGS=--all_reduce: with workers only); builds no more than that takes
	@$(call build,release,thalweg example_distributed_mnist)
	@build/release/bin/thalweg run --ps $(if $(findstring --all_reduce,$(ARGS)),0,2) --workers 2 -- build/release/bin/examples/distributed_mnist \
	  --checkpoint_dir=build/train/$$(date +%Y%m%d-%H%M%S) $(ARGS)

.PHONY: test
test: build tensorflow ## build and run all tests, including those against TensorFlow
	@ctest --preset release -j $(JOBS)

.PHONY: test-tf1
test-tf1: build ## run the tests with TensorFlow 1.15.5 as client or peer; needs Python 3.7
	@tools/setup; python=$$(tools/tensorflow 1.15); \
	for script in python/tests/{batch,cluster_programs,dataset_clients,script_end,py_func,placement,catalogue,ordering,why}_test.py python/tests/tensorflow1/{mixed_cluster,contrib}_test.py; do \
	  THALWEG_BIN=$$PWD/build/release/bin TF_CPP_MIN_LOG_LEVEL=2 $$python $$script; \
	done; \
	THALWEG_BIN=$$PWD/build/release/bin TF_CPP_MIN_LOG_LEVEL=2 $$python python/tests/tensorflow1/mixed_programs_test.py MixedSampleTest

.PHONY: test-observe
test-observe: build ## look at running jobs with a browser (Chromium), Prometheus and a terminal (tmux), which it installs
	@tools/setup observe
	@for script in tests/observe/*_test.py; do \
	  THALWEG_BIN=$$PWD/build/release/bin python3 $$script || exit 1; \
	done

.PHONY: test-programs
test-programs: build ## run the catalogue of TensorFlow 1 programs on TensorFlow 1.15.5's servers and on Thalweg's; needs Python 3.7
	@tools/setup; python=$$(tools/tensorflow 1.15) && \
	THALWEG_BIN=$$PWD/build/release/bin TF_CPP_MIN_LOG_LEVEL=2 $$python python/tests/catalogue.py $(ARGS) && \
	THALWEG_BIN=$$PWD/build/release/bin TF_CPP_MIN_LOG_LEVEL=2 $$python python/tests/tensorflow1/mixed_programs_test.py

.PHONY: test-asan test-tsan test-clang
test-asan: build-asan tensorflow ## run all tests with the address and undefined-behaviour sanitizers
test-tsan: build-tsan tensorflow ## run all tests with the thread sanitizer
test-clang: build-clang tensorflow ## run all tests as built by clang, with its lock analysis
test-asan test-tsan test-clang: test-%:
	@ctest --preset $* -j $(JOBS)

.PHONY: test-asan-cpp
test-asan-cpp: setup ## the C++ tests with the address and undefined-behaviour sanitizers
	@$(call build,asan,cpp_tests)
	@ctest --preset asan -j $(JOBS) -L cpp

.PHONY: check-all
check-all: test test-observe test-tf1 test-asan test-tsan test-clang lint docs ## run every check; takes hours

.PHONY: robustness
robustness: build ## train under thousands of faults and check the history; FAULTS=10000 PROCESS_FAULTS=400 NETWORK_FAULTS=100 SEED=1
	@build/release/bin/robustness/one_process --seed=$(or $(SEED),1) --faults=$(or $(FAULTS),10000)
	@THALWEG_BIN=$$PWD/build/release/bin tests/robustness/processes.py --seed $(or $(SEED),1) --faults $(or $(PROCESS_FAULTS),400)
	@THALWEG_BIN=$$PWD/build/release/bin tests/robustness/network.py --seed $(or $(SEED),1) --faults $(or $(NETWORK_FAULTS),100)

.PHONY: soak
soak: build ## train for an hour with a fault every 15 s, and print how memory, descriptors and threads grow
	@build/release/bin/robustness/one_process --soak=$(or $(TIME),1h) --fault_every=15s --faults_per_episode=4

.PHONY: fuzz
fuzz: setup-develop ## fuzz the parsers of messages, links, graphs, files and texts for SECONDS=60 each, with libFuzzer
	@$(call build,fuzz,fuzzers)
	@tests/fuzz/run $(or $(SECONDS),60)

.PHONY: test-network
test-network: build ## all-reduce between network namespaces of limited bandwidth; fails if it takes over twice what the formula says; needs root
	@python3 bench/network.py --hosts 2,4 --gbits 1 --slack 2

.PHONY: bench
bench: build tensorflow ## run the benchmarks
	@shopt -s nullglob; \
	for program in build/release/bin/bench/*; do echo "== $$program"; $$program; done; \
	for script in $$(grep -l '^if __name__' bench/*.py); do echo "== $$script"; build/tensorflow/bin/python $$script; done

.PHONY: format
format: setup-develop ## format the source files with clang-format
	@git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' | xargs -r clang-format -i

.PHONY: check-format
check-format: setup-develop ## check the format of the source files
	@git ls-files -- '*.h' '*.cc' | xargs -r clang-format --dry-run -Werror

.PHONY: check-license
check-license: ## check that every source file names its license
	@tools/spdx

.PHONY: lint
lint: setup-develop ## check layout and license lines, and run clang-tidy on what differs from origin/main
	@$(call build,clang,thalweg_generated thalweg_common_headers thalweg_op_headers thalweg_test_headers thalweg_api_headers)
	@tools/lint $(LINT_BASE)

.PHONY: clangd
clangd: setup ## configure build/debug, whose compile_commands.json serves clangd, and generate the headers
	@$(call build,debug,thalweg_generated)

.PHONY: docs
docs: setup-docs ## build build/docs/html: the guides and the reference of the C++ API; fails if a public symbol has no comment
	@docs/reference/build

.PHONY: diagrams
diagrams: ## redraw the diagrams of docs/ after a change of docs/diagrams/*.dot; needs graphviz
	@for dot in docs/diagrams/*.dot; do dot -Tsvg $$dot -o $${dot%.dot}.svg; done

.PHONY: install
install: setup ## install the program and the C++ library to PREFIX (/usr/local), below DESTDIR if that is set
	@$(call build,release,thalweg thalweg_static thalweg_shared)
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

.PHONY: clean
clean: ## remove everything that was built, except the TensorFlow environment
	@rm -rf build/release build/debug build/asan build/tsan build/clang build/fuzz

.PHONY: setup setup-develop setup-docs tensorflow
setup: ## install missing Debian packages
	@tools/setup
setup-develop:
	@tools/setup develop
setup-docs:
	@tools/setup docs
tensorflow: setup
	@tools/tensorflow >/dev/null

.PHONY: build-release build-debug build-asan build-tsan build-clang
build-release build-debug build-asan build-tsan: setup
build-clang: setup-develop
build-release build-debug build-asan build-tsan build-clang: build-%:
	@$(call build,$*)
