#!/bin/sh
# Print the home of a Java 17 or later, which Spark needs; as root on Debian, install one if there is none.
# The script prints one line per step on stderr and hides the output of apt-get.
set -eu

say() { printf '%s\n' "$*" >&2; }

# Version "17.0.15" gives 17, "1.8.0_402" gives 1.
major() {
    "$1/bin/java" -version 2>&1 | sed -n '1,2s/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

serves() {
    [ -x "$1/bin/java" ] && [ "$(major "$1")" -ge 17 ] 2>/dev/null
}

home_of() {
    program=$1
    while [ -L "$program" ]; do
        target=$(readlink "$program")
        case $target in
            /*) program=$target ;;
            *) program=$(dirname "$program")/$target ;;
        esac
    done
    dirname "$(dirname "$program")"
}

find_java() {
    {
        [ -z "${JAVA_HOME:-}" ] || printf '%s\n' "$JAVA_HOME"
        ! command -v java >/dev/null || home_of "$(command -v java)"
        [ ! -x /usr/libexec/java_home ] || /usr/libexec/java_home -v 17+ 2>/dev/null || true
        for home in /usr/lib/jvm/* /opt/java/* /opt/homebrew/opt/openjdk* /usr/local/opt/openjdk*; do
            printf '%s\n' "$home"
        done
    } | while read -r home; do
        if serves "$home"; then
            printf '%s\n' "$home"
            break
        fi
    done
}

install_java() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "no Java 17 or later was found, and Spark needs one: updating the lists of apt-get"
    apt-get update -qq >/dev/null 2>&1 || true
    for package in openjdk-21-jre-headless openjdk-17-jre-headless default-jre-headless; do
        say "installing $package with apt-get"
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1; then
            say "installed $package"
            return 0
        fi
    done
}

java=$(find_java)
if [ -z "$java" ]; then
    install_java
    java=$(find_java)
fi
if [ -z "$java" ]; then
    say "Spark needs Java 17 or later; none was found, and this script cannot install one here. Install one:"
    say "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless"
    say "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless"
    say "  macOS:           brew install openjdk@17"
    say "or set JAVA_HOME to the folder of an installed one; then run the same command again."
    exit 1
fi
printf '%s\n' "$java"
