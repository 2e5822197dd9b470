#!/bin/sh
# Print how many tests `make test` runs at once: two a processor, since tests mostly wait for timers and processes.
# Each needs 4 GiB of memory at most: a Spark session, a PostgreSQL and their databases.
set -eu
jobs=$(($(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) * 2))
if [ -r /proc/meminfo ]; then
    room=$(awk '/^MemAvailable:/ {print int($2 / 4194304)}' /proc/meminfo)
    [ "$room" -lt "$jobs" ] && jobs=$room
fi
[ "$jobs" -lt 1 ] && jobs=1
printf '%s\n' "$jobs"
