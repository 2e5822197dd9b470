#!/bin/sh
# Install this project with the extra $1 (unit, demo, test, docs, mutants, dev or bench) into .venv, unless .venv has it already.
# Several extras have commas between them, as in unit,spark.
# The script prints one line per step on stderr. The output of pip goes to .venv/lrq-install.log; its end is shown if
# pip fails. PYTHON names the interpreter; by default the first of python3, python3.14, … that is 3.11 or later.
# With `oldest` as $2 the folder is .venv-oldest, with the oldest supported version of each library.
set -eu
cd "$(dirname "$0")/.."
extra=$1
venv=.venv${2:+-$2}

say() { printf '%s\n' "$*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    say "lrq needs Python 3.11 or later and none was found: install one, or name one: make PYTHON=/path/to/python3.11"
    exit 1
}

make_venv() {
    python=$(find_python)
    say "making $venv with $("$python" --version)"
    if "$python" -m venv "$venv" 2>/dev/null; then
        return
    fi
    rm -rf "$venv"
    # Debian has `venv` in a separate package.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "its venv module is missing: installing python3-venv"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null 2>&1 || true
    fi
    "$python" -m venv "$venv" || {
        rm -rf "$venv"
        say "$python cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)"
        exit 1
    }
}

if ! [ -x $venv/bin/python ] || ! is_new_enough $venv/bin/python; then
    rm -rf "$venv"
    make_venv
fi

# dev includes docs; docs, bench and mutants include test, and test includes unit and demo: a wider extra suffices.
wanted=$(cat pyproject.toml lrq/__init__.py | cksum | tr -d ' ')
case $extra in
    unit) will_do="unit unit,spark test docs dev bench mutants" ;;
    unit,spark | demo) will_do="$extra test docs dev bench mutants" ;;
    test) will_do="test docs dev bench mutants" ;;
    docs) will_do="docs dev" ;;
    *) will_do=$extra ;;
esac
for stamp in $will_do; do
    if [ "$(cat "$venv/lrq-$stamp" 2>/dev/null || true)" = "$wanted" ]; then
        exit 0
    fi
done
constraints=
if [ -n "${2:-}" ]; then
    $venv/bin/python "tools/$2.py" >"$venv/constraints.txt"
    constraints="--constraint $venv/constraints.txt"
fi
say "installing lrq[$extra] and its dependencies into $venv (the first time takes minutes)"
if ! $venv/bin/python -m pip install --disable-pip-version-check --root-user-action ignore --no-input \
    $constraints --editable ".[$extra]" >$venv/lrq-install.log 2>&1; then
    say "pip could not install lrq[$extra]; the end of $venv/lrq-install.log:"
    tail -n 20 $venv/lrq-install.log >&2
    exit 1
fi
printf '%s\n' "$wanted" >"$venv/lrq-$extra"
say "installed lrq[$extra]"
