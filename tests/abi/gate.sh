#!/bin/sh
# The ABI gate: the header, seen as each released minor, against what was recorded.
#
# Usage: gate.sh SOURCE_DIR WORK_DIR
# Exit status 77 (skipped): abidiff or gcc is missing, or the machine is another.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$1
work=$2
here=$source/tests/abi
for tool in abidiff gcc; do
    command -v $tool >/dev/null || { echo "SKIP: $tool is not installed (abigail-tools, gcc)"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { echo "SKIP: recorded on x86_64"; exit 77; }
mkdir -p "$work"

gcc -std=c11 -I"$source/host/include" "$here/layout_test.c" -o "$work/layout"
"$work/layout" >"$work/layout.now"
failed=0
for recorded in "$here"/pawl-1.*.abi; do
    minor=$(basename "$recorded" .abi | sed 's/pawl-1\.//')
    gcc -std=c11 -g -fPIC -shared -DPAWL_ABI_MINOR="$minor" -I"$source/host/include" \
        "$here/witness.c" -o "$work/witness-$minor.so"
    if ! abidiff "$recorded" "$work/witness-$minor.so"; then
        echo "the header, seen as 1.$minor, is not ABI 1.$minor"
        failed=1
    fi
    if grep -vxF -f "$work/layout.now" "${recorded%.abi}.layout"; then
        echo "these members of ABI 1.$minor have moved or gone"
        failed=1
    fi
done
[ $failed -eq 0 ] && echo "ABI unchanged"
exit $failed
