#!/bin/sh
# Print the path of Prometheus's promtool for the tests of the alert rules; on Debian, unpack one if there is none.
# Without one, print an empty line and say so on stderr: these tests are then skipped, and fail when CI is set.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/promtool

say() { printf '%s\n' "$*" >&2; }

find_promtool() {
    for candidate in ${LRQ_TEST_PROMTOOL:-} promtool "$PWD/$folder/usr/bin/promtool"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

# Unpacked, not installed: the package would start a server.
unpack_promtool() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 0
    say "no promtool was found, and the tests of the alert rules need one: unpacking Debian's package prometheus"
    mkdir -p "$folder"
    (
        cd "$folder"
        { [ "$(id -u)" != 0 ] || apt-get update -qq; apt-get download -qq prometheus; } >/dev/null 2>&1 || true
        for package in prometheus_*.deb; do
            [ -e "$package" ] && dpkg-deb -x "$package" . && rm "$package" && say "unpacked promtool into $folder"
        done
    ) || true
}

promtool=$(find_promtool)
if [ -z "$promtool" ]; then
    unpack_promtool
    promtool=$(find_promtool)
fi
if [ -z "$promtool" ]; then
    say "NO TESTS OF THE ALERT RULES: no promtool was found, and this script cannot get one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install prometheus"
    say "  macOS:           brew install prometheus"
    say "or set LRQ_TEST_PROMTOOL to the path of one; then run the same command again."
fi
printf '%s\n' "$promtool"
