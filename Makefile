# Short names for what cmake, ctest and scripts/ do. `make` builds and needs no network.

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all help deps test demo install uninstall check-gpu soak lint format bench clean

all:
	@scripts/need.sh
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build

help:
	@echo "make            builds in build/, without network"
	@echo "make deps       installs what building and testing need"
	@echo "make demo       shows a program running into its limit, on a GPU or the software GPU"
	@echo "make test       builds and runs every test; 9 to 11 minutes on two quiet cores"
	@echo "make install    PREFIX=/usr/local DESTDIR="
	@echo "make uninstall  removes what install put there; the same PREFIX and DESTDIR"
	@echo "make lint       the checks of the sources alone"
	@echo "make format     lays out all C (clang-format 14)"
	@echo "make check-gpu  repeats the contracts on a real GPU"
	@echo "make soak       the long runs that the tests leave out"
	@echo "make bench      what Ration costs"
	@echo "make clean      removes build/ and with it what uninstall needs to know"

deps:
	@scripts/install-deps.sh

test:
	@scripts/install-deps.sh packages
	@scripts/run-tests.sh

demo: deps
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build --target libration.so ration_command sim_cuda sim_nvml hog
	@scripts/demo.sh

install: all
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install.sh

uninstall:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/uninstall.sh

check-gpu: all
	@tests/gpu/run

soak: all
	@RATION_SOAK=1 build/unit/test_gate
	@RATION_SOAK=1 build/unit/test_quota_step
	@RATION_SOAK=1 tests/clients/run-pytest "$(CURDIR)/tests/preload/test_soak.py" \
		"$(CURDIR)/tests/preload/test_refused.py" -s

lint: all
	@ctest --test-dir build -L lint --output-on-failure

format:
	@tests/lint/check-format --fix

bench: all
	@bench/run

clean:
	@rm -rf build
