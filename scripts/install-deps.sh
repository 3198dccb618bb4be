#!/bin/sh
# Installs what building and testing need on Debian 12 and Ubuntu 24.04: packages by apt-get (with sudo
# unless root), and the Python clients of the tests into .venv. What is there already is left alone.
# With an argument only one of the two: `install-deps.sh packages` or `install-deps.sh python`.
set -eu
cd "$(dirname "$0")/.."

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		echo "install-deps: needs root or sudo for: $*" >&2
		exit 1
	fi
}

packages=""
if [ "${1:-packages}" = packages ]; then
	packages=$(scripts/need.sh test | tr '\n' ' ')
fi
if [ -n "$packages" ]; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "install-deps: no apt-get here; install what these packages hold: $packages" >&2
		exit 1
	fi
	echo "install-deps: apt-get install $packages"
	as_root apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		$packages >/dev/null
fi

# The environment is as good as the lists of requirements it was made from.
[ "${1:-python}" = python ] || exit 0
wanted=$(cat tests/clients/requirements.txt tests/lint/requirements.txt)
if [ "$wanted" != "$(cat .venv/requirements.txt 2>/dev/null)" ]; then
	echo "install-deps: Python clients into .venv"
	rm -rf .venv
	/usr/bin/python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check \
		-r tests/clients/requirements.txt -r tests/lint/requirements.txt
	echo "$wanted" >.venv/requirements.txt
fi
