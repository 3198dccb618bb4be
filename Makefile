# Short names for what cmake, ctest and scripts/ do. `make` builds and needs no network.

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all deps test demo install uninstall check-gpu soak lint format bench clean

all:
	@scripts/need.sh
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build

deps:
	@scripts/install-deps.sh

test: deps
	@scripts/run-tests.sh

demo: deps all
	@scripts/demo.sh

install: all
	@cmake -S . -B build -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@DESTDIR="$(DESTDIR)" cmake --install build

uninstall:
	@DESTDIR="$(DESTDIR)" scripts/uninstall.sh

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
