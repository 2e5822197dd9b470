#!/bin/sh
# Print the folder of the packages that a client of Spark Connect needs beyond PySpark; install them if they are not there.
# lrq needs none of them, so they are not in .venv itself. Without them, print an empty line and say so on stderr: the
# tests of Spark Connect are then skipped, and fail when CI is set.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/spark-connect
# All packages by name, because .venv has the libraries below them, such as grpcio, and PYTHONPATH comes before it.
packages="pandas>=2.2,<3 numpy python-dateutil pytz tzdata googleapis-common-protos"

say() { printf '%s\n' "$*" >&2; }

if ! [ -e "$folder/installed" ]; then
    say "installing the packages of Spark Connect into $folder"
    rm -rf "$folder"
    grpc=$(.venv/bin/python -c 'import grpc; print(grpc.__version__)')
    # shellcheck disable=SC2086
    if .venv/bin/python -m pip install --disable-pip-version-check --root-user-action ignore --no-input --quiet --no-deps \
        --target "$folder" $packages "grpcio-status<=$grpc" >.venv/connect-install.log 2>&1; then
        touch "$folder/installed"
    else
        rm -rf "$folder"
        say "NO TESTS OF SPARK CONNECT: pip could not install its packages; see .venv/connect-install.log"
        printf '\n'
        exit 0
    fi
fi
printf '%s\n' "$PWD/$folder"
