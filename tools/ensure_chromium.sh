#!/bin/sh
# Print the path of a Chromium for the console's browser tests; as root on Debian, install one if there is none.
# Without one, print an empty line and say so on stderr: the browser tests are then skipped, and fail when CI is set.
set -eu

say() { printf '%s\n' "$*" >&2; }

find_chromium() {
    for candidate in ${LRQ_TEST_CHROMIUM:-} chromium chromium-browser google-chrome \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

install_chromium() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "no Chromium was found, and the browser tests need one: installing chromium with apt-get"
    apt-get update -qq >/dev/null 2>&1 || true
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; then
        say "installed chromium"
    fi
}

chromium=$(find_chromium)
if [ -z "$chromium" ]; then
    install_chromium
    chromium=$(find_chromium)
fi
if [ -z "$chromium" ]; then
    say "NO BROWSER TESTS: no Chromium was found, and this script cannot install one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install chromium"
    say "  Fedora, RHEL:    sudo dnf install chromium"
    say "  macOS:           brew install --cask chromium"
    say "or set LRQ_TEST_CHROMIUM to the path of one; then run the same command again."
fi
printf '%s\n' "$chromium"
