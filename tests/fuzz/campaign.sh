#!/bin/bash
# tests/fuzz/campaign.sh [EXECUTIONS [NAME...]] - a longer run of the fuzz targets.
#
# Builds the preset fuzz, runs each target (or those named) for so many executions
# (default: 1,000,000), starting from corpus/NAME, and appends a line for each to
# tests/RECORDS.md. A crash ends it with status 1; the input lies in the folder that
# is printed.
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
runs=${1:-1000000}
[ $# -eq 0 ] || shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for file in "$here"/*_fuzz.c; do
        name=${file##*/}
        names+=("${name%_fuzz.c}")
    done
fi
cd "$root"
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
commit=$(git rev-parse --short HEAD)
for name in "${names[@]}"; do
    work=build/fuzz/campaign/$name
    mkdir -p "$work/corpus"
    log=$work/log
    printf '==> %s: %s executions\n' "$name" "$runs"
    began=$SECONDS
    if ! "build/fuzz/tests/bin/${name}_fuzz" -runs="$runs" -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="$work/" -print_final_stats=1 "$work/corpus" "$here/corpus/$name" >"$log" 2>&1; then
        tail -n 60 "$log"
        printf 'A find; the input is in %s\n' "$work" >&2
        exit 1
    fi
    seconds=$((SECONDS - began))
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
    # shellcheck disable=SC2016
    printf '| %s | fuzz: %s executions in %s s, %s edges, no find | `tests/fuzz/campaign.sh %s %s` | %s | %s |\n' \
        "$(date -u +%F)" "$executed" "$seconds" "${coverage#cov: }" "$runs" "$name" "$machine" "$commit" >>tests/RECORDS.md
    tail -n 1 tests/RECORDS.md
done
