#!/bin/sh
# The public header compiles alone, without a warning and without padding, as C11 and
# as C++17, with every compiler that is there.
#
# Usage: header.sh SOURCE_DIR
#
# SPDX-License-Identifier: Apache-2.0
set -u
include=$1/host/include
failed=0
tried=0
try() {
    compiler=$1
    shift
    command -v "$compiler" >/dev/null || { echo "$compiler is not installed"; return; }
    for header in plugin.h plugin_util.h; do
        tried=$((tried + 1))
        # The header is included from the command line, and twice, so that the compiler
        # takes it for no main file and its guard is tried.
        echo '#include <pawl/'$header'>
#include <pawl/'$header'>
#include <pawl/plugin.h>
extern int nothing;' | "$compiler" "$@" -I"$include" -Werror -fsyntax-only - || {
            echo "$compiler $*: $header"
            failed=1
        }
    done
}
strict="-Wall -Wextra -Wpedantic -Wpadded -Wconversion -Wshadow -Wundef"
try gcc -x c -std=c11 $strict -Wstrict-prototypes -Wwrite-strings
try g++ -x c++ -std=c++17 $strict
try clang -x c -std=c11 -Weverything -Wno-declaration-after-statement -Wno-unused-macros -Wno-reserved-macro-identifier
try clang++ -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Wpadded
[ $tried -gt 0 ] || { echo "SKIP: no compiler"; exit 77; }
exit $failed
