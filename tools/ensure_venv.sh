#!/bin/sh
# Make .venv hold this project with the extra $1 (demo, test or dev); quick when it already does.
# PYTHON names the interpreter; by default the newest of 3.11 and later that is found.
set -eu
cd "$(dirname "$0")/.."
extra=$1

say() { printf '%s\n' "$*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    say "lrq needs Python 3.11 or later and none was found: install it, or name it: make PYTHON=/path/to/python3.11"
    exit 1
}

make_venv() {
    python=$(find_python)
    say "making .venv with $("$python" --version)"
    if "$python" -m venv .venv 2>/dev/null; then
        return
    fi
    rm -rf .venv
    # Debian keeps `venv` in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "its venv module is missing: installing python3-venv"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null 2>&1 || true
    fi
    "$python" -m venv .venv || {
        rm -rf .venv
        say "$python cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)"
        exit 1
    }
}

if ! [ -x .venv/bin/python ] || ! is_new_enough .venv/bin/python; then
    rm -rf .venv
    make_venv
fi

# dev holds test, and test holds demo: a wider extra that is there will do.
wanted=$(cksum <pyproject.toml | tr -d ' ')
case $extra in
    demo) will_do="demo test dev" ;;
    test) will_do="test dev" ;;
    *) will_do=$extra ;;
esac
for stamp in $will_do; do
    if [ "$(cat ".venv/lrq-$stamp" 2>/dev/null || true)" = "$wanted" ]; then
        exit 0
    fi
done
say "installing lrq[$extra] into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extra]"
printf '%s\n' "$wanted" >".venv/lrq-$extra"
