#!/bin/bash
# tests/sim/campaign.sh [N [FROM]] - plays N schedules (default: 1,000,000) that ctest does not.
#
# Builds the simulation in build/ and appends a line to tests/RECORDS.md. FROM: the first
# seed; without it they go on from a number that the clock gives. A broken rule ends it with
# status 1 and prints how to play that seed again.
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
count=${1:-1000000}
from=${2:-$(($(date +%s) * 1000))}
cd "$root"
cmake -S . -B build -DPAWL_TESTS=ON >/dev/null
cmake --build build --target sim -j2 >/dev/null
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
commit=$(git rev-parse --short HEAD)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
began=$SECONDS
build/tests/bin/sim --from "$from" --count "$count" | tee "$log"
seconds=$((SECONDS - began))
turns=$(sed -n 's/^[0-9]* schedules, \([0-9]*\) turns.*/\1/p' "$log")
# shellcheck disable=SC2016
printf '| %s | simulation: %s schedules, %s turns in %s s, no rule broken | `tests/sim/campaign.sh %s %s` | %s | %s |\n' \
    "$(date -u +%F)" "$count" "$turns" "$seconds" "$count" "$from" "$machine" "$commit" >>tests/RECORDS.md
tail -n 1 tests/RECORDS.md
