#!/bin/sh
# Records the header as ABI 1.N, N being its PAWL_ABI_MINOR: once for each minor, when
# it is released. Until 1.0 is released the header may change: then record again, in
# the commit that changes it. After a release a record is never made anew.
#
# Usage: tests/abi/record.sh      needs gcc and abidw (abigail-tools)
#
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
minor=$(sed -n 's/^#define PAWL_ABI_MINOR \([0-9]*\).*/\1/p' "$here/../../host/include/pawl/plugin.h")
cp -R "$here/../../host/include/pawl" "$here/witness.c" "$here/layout_test.c" "$work"
cd "$work"
gcc -std=c11 -g -fPIC -shared -I. witness.c -o witness.so
abidw --no-corpus-path --no-comp-dir-path --no-show-locs witness.so >"$here/pawl-1.$minor.abi"
gcc -std=c11 -I. layout_test.c -o layout
./layout >"$here/pawl-1.$minor.layout"
echo "recorded ABI 1.$minor"
