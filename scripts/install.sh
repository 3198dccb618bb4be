#!/bin/sh
# Installs what was built under DESTDIR and PREFIX, and records what it put there and which folders it
# made: uninstall.sh removes that and nothing else. Each pair of DESTDIR and PREFIX has a record.
set -eu
cd "$(dirname "$0")/.."
build=${RATION_BUILD:-build}
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}

# absolute NAME VALUE: the folder would depend on where make was started, and uninstall not find it.
absolute() {
	case $2 in
	/*) ;;
	*)
		echo "install: $1 is '$2'; give a path that begins with /" >&2
		exit 2
		;;
	esac
}

absolute PREFIX "$PREFIX"
[ -z "$DESTDIR" ] || absolute DESTDIR "$DESTDIR"

record=$build/installed/$(printf '%s\n%s' "$DESTDIR" "$PREFIX" | cksum | cut -d' ' -f1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is there already stays when this is removed again. A first installation beside the target tells
# the names.
DESTDIR=$work/stage cmake --install "$build" --prefix "$PREFIX" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
(cd "$work/stage" && find . ! -type d) | sed 's/^\.//' | sort >"$work/files"
{
	if [ -f "$record" ]; then sed -n 's/^folder //p' "$record"; fi
	while read -r file; do
		folder=$DESTDIR${file%/*}
		while [ -n "$folder" ] && [ ! -e "$folder" ]; do
			printf '%s\n' "$folder"
			folder=${folder%/*}
		done
	done <"$work/files"
} | sort -u >"$work/folders"

# Recorded also where it fails: what that leaves can be removed.
mkdir -p "$build/installed"
write_record() {
	printf 'destdir %s\nprefix %s\n' "$DESTDIR" "$PREFIX"
	sed 's/^/folder /' "$work/folders"
	while read -r file; do
		file=$DESTDIR$file
		if [ -L "$file" ]; then
			printf 'file ->%s %s\n' "$(readlink "$file")" "$file"
		elif [ -f "$file" ]; then
			printf 'file %s %s\n' "$(sha256sum <"$file" | cut -d' ' -f1)" "$file"
		fi
	done <"$work/files"
	# Of an earlier version, which had files that this one has not.
	[ -f "$record" ] || return 0
	sed -n 's/^file //p' "$record" | while read -r sum file; do
		grep -qxF -- "${file#"$DESTDIR"}" "$work/files" || printf 'file %s %s\n' "$sum" "$file"
	done
}
status=0
DESTDIR=$DESTDIR cmake --install "$build" --prefix "$PREFIX" || status=$?
write_record >"$work/record"
cp "$work/record" "$record"
exit $status
