#!/bin/sh
# Print the path of a Chromium for the console's browser tests; as root on Debian, install one if there is none.
# Without one, print an empty line and say so on stderr: the browser tests are then skipped, and fail when CI is set.
set -eu
. "$(dirname "$0")/apt_program.sh"

find_it() {
    find_program ${LRQ_TEST_CHROMIUM:-} chromium chromium-browser google-chrome \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
}

found=$(find_it)
if [ -z "$found" ]; then
    install_program chromium "no Chromium was found, and the browser tests need one"
    found=$(find_it)
fi
if [ -z "$found" ]; then
    say "NO BROWSER TESTS: no Chromium was found, and this script cannot install one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install chromium"
    say "  Fedora, RHEL:    sudo dnf install chromium"
    say "  macOS:           brew install --cask chromium"
    say "or set LRQ_TEST_CHROMIUM to the path of one; then run the same command again."
fi
printf '%s\n' "$found"
