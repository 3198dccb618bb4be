#!/bin/sh
# Removes what the last `make install` of this tree put in place, and the folders that are then empty.
set -eu
cd "$(dirname "$0")/.."
manifest=build/install_manifest.txt
if [ ! -f "$manifest" ]; then
	echo "uninstall: no $manifest: this tree has installed nothing" >&2
	exit 1
fi
destdir=${DESTDIR:-}
while read -r file || [ -n "$file" ]; do
	rm -f "$destdir$file"
	echo "-- Removed: $destdir$file"
	folder=${file%/*}
	while [ "${folder##*/}" = ration ] || [ "${folder##*/}" = sim ]; do
		rmdir "$destdir$folder" 2>/dev/null || break
		folder=${folder%/*}
	done
done <"$manifest"
rm -f "$manifest"
