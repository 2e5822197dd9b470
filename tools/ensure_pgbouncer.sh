#!/bin/sh
# Print the path of a PgBouncer for the tests behind a pooler; as root on Debian, install one if there is none.
# Without one, print an empty line and say so on stderr: those tests are then skipped, and fail when CI is set.
set -eu

say() { printf '%s\n' "$*" >&2; }

find_pgbouncer() {
    for candidate in ${LRQ_TEST_PGBOUNCER:-} pgbouncer /usr/sbin/pgbouncer; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

install_pgbouncer() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "no PgBouncer was found, and some tests need one: installing pgbouncer with apt-get"
    apt-get update -qq >/dev/null 2>&1 || true
    if DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends pgbouncer >/dev/null 2>&1; then
        say "installed pgbouncer"
    fi
}

pgbouncer=$(find_pgbouncer)
if [ -z "$pgbouncer" ]; then
    install_pgbouncer
    pgbouncer=$(find_pgbouncer)
fi
if [ -z "$pgbouncer" ]; then
    say "NO TESTS BEHIND A POOLER: no PgBouncer was found, and this script cannot install one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install pgbouncer"
    say "  Fedora, RHEL:    sudo dnf install pgbouncer"
    say "  macOS:           brew install pgbouncer"
    say "or set LRQ_TEST_PGBOUNCER to the path of one; then run the same command again."
fi
printf '%s\n' "$pgbouncer"
