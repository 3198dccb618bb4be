#!/bin/sh
# Says what `make` lacks and which packages have it. With an argument, the missing packages alone, one
# a line: `need.sh build` or `need.sh test` (which includes those of a build).
set -eu
cd "$(dirname "$0")"

# has_header NAME: where compilers of Debian's and Ubuntu's look for it; some lie by architecture.
has_header() {
	for header in "/usr/include/$1" /usr/include/*-linux-gnu*/"$1" "/usr/local/include/$1"; do
		[ -e "$header" ] && return 0
	done
	return 1
}

# missing KIND: lines "what package" of all that is not there.
missing() {
	while read -r what package kind; do
		case $what in '#'* | '') continue ;; esac
		[ "$kind" = build ] || [ "$1" = test ] || continue
		case $what in
		'<'*) what=${what#<} what=${what%>}; has_header "$what" || echo "$what $package" ;;
		py:*) /usr/bin/python3 -c "import ${what#py:}" 2>/dev/null || echo "$what $package" ;;
		*) command -v "$what" >/dev/null 2>&1 || echo "$what $package" ;;
		esac
	done <packages.txt
}

if [ $# -gt 0 ]; then
	missing "$1" | cut -d' ' -f2
	exit
fi

lacking=$(missing build)
[ -z "$lacking" ] && exit 0
echo "Ration cannot be built here. Missing:" >&2
echo "$lacking" | while read -r what package; do
	echo "    $what    (package $package)" >&2
done
echo "\`make deps\` installs them, or: apt-get install $(echo "$lacking" | cut -d' ' -f2 | tr '\n' ' ')" >&2
exit 1
