#!/bin/sh
# Builds and tests everything: the shipped build with all its tests and lints, the warnings of clang,
# and the unit and preload tests under the sanitizers. Closes with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
lower=
passed=0 failed=0 skipped=0
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# number NAME FILE: the attribute of the test suite in ctest's report.
number() {
	sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# record NAME COMMAND...: runs it; its output and its status are for result.
record() {
	name=$1
	shift
	status=0
	"$@" >"$results/$name.log" 2>&1 || status=$?
	echo "$status" >"$results/$name.status.new"
	mv "$results/$name.status.new" "$results/$name.status"
}

# result NAME [PID]: what was recorded, which the process may still be about to do; counts as a failed
# test if it failed.
result() {
	echo "== $1"
	while [ ! -e "$results/$1.status" ] && kill -0 "${2:-}" 2>/dev/null; do
		sleep 0.2
	done
	if [ "$(cat "$results/$1.status" 2>/dev/null)" = 0 ]; then
		return 0
	fi
	tail -n 60 "$results/$1.log"
	echo "== $1 FAILED"
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
	$lower cmake --preset "$preset" &&
		$lower cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

# What the tests leave of the processors; first what is waited for first.
build_others() {
	lower="nice -n 19"
	record "build: asan" build asan
	record "build: tsan" build tsan
	record "build: clang" build clang libration.so ration_command sim_cuda sim_nvml
}

# The Python clients come over the network, which leaves the processors to the build.
record "python clients" scripts/install-deps.sh python &
clients=$!
record "build: release" build release
build_others &
others=$!
result "python clients" "$clients"
result "build: release" && tests release
result "build: asan" "$others" && tests asan -L sanitize
result "build: tsan" "$others" && tests tsan -L sanitize
result "build: clang" "$others" && passed=$((passed + 1))

if [ "$skipped" -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
