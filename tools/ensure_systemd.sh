#!/bin/sh
# Print the path of systemd-analyze for the tests of the units; as root on Debian, install it if there is none.
# Without it, print an empty line and say so on stderr: these tests are then skipped, and fail when CI is set.
set -eu
. "$(dirname "$0")/apt_program.sh"

find_it() {
    find_program ${LRQ_TEST_SYSTEMD:-} systemd-analyze
}

found=$(find_it)
if [ -z "$found" ]; then
    install_program systemd "no systemd-analyze was found, and the tests of the units need it"
    found=$(find_it)
fi
if [ -z "$found" ]; then
    say "NO TESTS OF THE SYSTEMD UNITS: no systemd-analyze was found, and this script cannot install it here. Install it:"
    say "  Debian, Ubuntu:  sudo apt-get install systemd"
    say "or set LRQ_TEST_SYSTEMD to the path of one; then run the same command again."
fi
printf '%s\n' "$found"
