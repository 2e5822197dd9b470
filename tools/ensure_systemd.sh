#!/bin/sh
# Print the path of systemd-analyze for the tests of the units; as root on Debian, install it if there is none.
# Without it, print an empty line and say so on stderr: these tests are then skipped, and fail when CI is set.
set -eu

say() { printf '%s\n' "$*" >&2; }

find_analyze() {
    for candidate in ${LRQ_TEST_SYSTEMD:-} systemd-analyze; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

# The package starts nothing by itself: systemd runs only as the first process of a machine.
install_systemd() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "no systemd-analyze was found, and the tests of the units need it: installing systemd with apt-get"
    apt-get update -qq >/dev/null 2>&1 || true
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd >/dev/null 2>&1; then
        say "installed systemd"
    fi
}

analyze=$(find_analyze)
if [ -z "$analyze" ]; then
    install_systemd
    analyze=$(find_analyze)
fi
if [ -z "$analyze" ]; then
    say "NO TESTS OF THE SYSTEMD UNITS: no systemd-analyze was found, and this script cannot install it here. Install it:"
    say "  Debian, Ubuntu:  sudo apt-get install systemd"
    say "or set LRQ_TEST_SYSTEMD to the path of one; then run the same command again."
fi
printf '%s\n' "$analyze"
