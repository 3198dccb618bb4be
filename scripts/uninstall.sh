#!/bin/sh
# Removes what install.sh of this tree put under DESTDIR and PREFIX, as far as it is still what was put
# there, and the folders that it made and that are empty now.
set -eu
cd "$(dirname "$0")/.."
build=${RATION_BUILD:-build}
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
record=$build/installed/$(printf '%s\n%s' "$DESTDIR" "$PREFIX" | cksum | cut -d' ' -f1)

if [ ! -f "$record" ]; then
	echo "uninstall: this tree has installed nothing with PREFIX=$PREFIX DESTDIR=$DESTDIR" >&2
	for other in "$build"/installed/*; do
		[ -f "$other" ] || continue
		echo "uninstall: it has with PREFIX=$(sed -n 's/^prefix //p' "$other")" \
			"DESTDIR=$(sed -n 's/^destdir //p' "$other")" >&2
	done
	exit 1
fi

# is_ours SUM FILE: it is what was put there.
is_ours() {
	case $1 in
	'->'*) [ -L "$2" ] && [ "->$(readlink "$2")" = "$1" ] ;;
	*) [ ! -L "$2" ] && [ -f "$2" ] && [ "$(sha256sum <"$2" | cut -d' ' -f1)" = "$1" ] ;;
	esac
}

sed -n 's/^file //p' "$record" | while read -r sum file; do
	if is_ours "$sum" "$file"; then
		rm -f "$file"
		echo "-- Removed: $file"
	elif [ -e "$file" ] || [ -L "$file" ]; then
		echo "-- Left, it is not what was installed: $file"
	fi
done
# The deepest first.
sed -n 's/^folder //p' "$record" | sort -r | while read -r folder; do
	if [ ! -L "$folder" ] && rmdir "$folder" 2>/dev/null; then
		echo "-- Removed: $folder"
	fi
done
rm -f "$record"
