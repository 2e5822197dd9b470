# Sourced by the scripts that get a program for the tests from Debian's packages.

say() { printf '%s\n' "$*" >&2; }

# find_program CANDIDATE...: print the path of the first candidate that is a program; print nothing without one.
find_program() {
    for candidate in "$@"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

# install_program PACKAGE REASON: as root on Debian, install a package, and tell the reason; otherwise do nothing.
# The run level keeps a package from starting its service.
install_program() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "$2: installing $1 with apt-get"
    apt-get update -qq >/dev/null 2>&1 || true
    if DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1; then
        say "installed $1"
    fi
}
