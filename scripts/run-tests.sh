#!/bin/sh
# Builds and tests everything: the shipped build with all its tests and lints, the warnings of clang,
# and the unit and preload tests under the sanitizers. Closes with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
passed=0 failed=0 skipped=0
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# number NAME FILE: the attribute of the test suite in ctest's report.
number() {
	sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# step NAME COMMAND...: one build; counts as a failed test if it fails.
step() {
	name=$1
	shift
	echo "== $name"
	if "$@" >"$results/log" 2>&1; then
		return 0
	fi
	tail -n 60 "$results/log"
	echo "== $name FAILED"
	failed=$((failed + 1))
	return 1
}

# tests PRESET [ctest options]
tests() {
	preset=$1
	shift
	echo "== tests: $preset"
	report=$results/$preset.xml
	# Most tests wait more than they reckon.
	ctest --preset "$preset" --no-tests=error -j $((2 * jobs)) --output-junit "$report" "$@"
	if [ ! -s "$report" ]; then
		failed=$((failed + 1))
		return
	fi
	total=$(number tests "$report")
	bad=$(number failures "$report")
	off=$(($(number skipped "$report") + $(number disabled "$report")))
	passed=$((passed + total - bad - off))
	failed=$((failed + bad))
	skipped=$((skipped + off))
}

# build PRESET [target...]
build() {
	preset=$1
	shift
	cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

step "build: release" build release && tests release
step "build: clang" build clang libration.so ration_command sim_cuda sim_nvml && passed=$((passed + 1))
step "build: asan" build asan && tests asan -L sanitize
step "build: tsan" build tsan && tests tsan -L sanitize

if [ "$skipped" -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
