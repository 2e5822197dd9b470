#!/bin/sh
# Print the path of a PgBouncer for the tests behind a pooler; as root on Debian, install one if there is none.
# Without one, print an empty line and say so on stderr: those tests are then skipped, and fail when CI is set.
set -eu
. "$(dirname "$0")/apt_program.sh"

find_it() {
    find_program ${LRQ_TEST_PGBOUNCER:-} pgbouncer /usr/sbin/pgbouncer
}

found=$(find_it)
if [ -z "$found" ]; then
    install_program pgbouncer "no PgBouncer was found, and some tests need one"
    found=$(find_it)
fi
if [ -z "$found" ]; then
    say "NO TESTS BEHIND A POOLER: no PgBouncer was found, and this script cannot install one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install pgbouncer"
    say "  Fedora, RHEL:    sudo dnf install pgbouncer"
    say "  macOS:           brew install pgbouncer"
    say "or set LRQ_TEST_PGBOUNCER to the path of one; then run the same command again."
fi
printf '%s\n' "$found"
