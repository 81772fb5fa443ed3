#!/bin/sh
# repeats.sh SIM - a seed is one schedule, to the bit: two processes, whose addresses
# differ, must give the same digests; another seed must give another.
#
# SPDX-License-Identifier: Apache-2.0
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
"$1" --from 1 --count 300 --digest >"$folder/one" || exit 1
"$1" --from 1 --count 300 --digest >"$folder/two" || exit 1
cmp "$folder/one" "$folder/two" || exit 1
distinct=$(sed -n 's/^[0-9]* \([0-9a-f]\{16\}\)$/\1/p' "$folder/one" | sort -u | wc -l)
[ "$distinct" -eq 300 ] || { echo "$distinct digests of 300 seeds"; exit 1; }
echo "300 seeds repeat"
