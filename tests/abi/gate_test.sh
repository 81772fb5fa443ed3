#!/bin/sh
# The gate can fail: each wrong change of the header is caught, a right one passes.
#
# Usage: gate_test.sh SOURCE_DIR
# Exit status 77 (skipped): as gate.sh.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# try WANTED-STATUS WHAT SED-PROGRAM [SED-PROGRAM]: the gate over a copy with the header,
# and perhaps layout_test.c, changed.
try() {
    rm -rf "$folder/tree"
    mkdir -p "$folder/tree/host" "$folder/tree/tests"
    cp -R "$source/host/include" "$folder/tree/host/"
    cp -R "$source/tests/abi" "$folder/tree/tests/"
    header=$folder/tree/host/include/pawl/plugin.h
    sed -i "$3" "$header"
    [ $# -lt 4 ] || sed -i "$4" "$folder/tree/tests/abi/layout_test.c"
    if [ "$2" != "nothing" ] && cmp -s "$header" "$source/host/include/pawl/plugin.h"; then
        echo "the edit \"$2\" finds nothing to change"
        failed=1
    fi
    status=0
    "$folder/tree/tests/abi/gate.sh" "$folder/tree" "$folder/work" >"$folder/log" 2>&1 || status=$?
    [ $status -ne 77 ] || { cat "$folder/log"; exit 77; }
    if [ $status -ne "$1" ]; then
        echo "$2: status $status, not $1:"
        cat "$folder/log"
        failed=1
    fi
}

try 0 "nothing" ''
try 1 "a member inserted" 's/^    uint64_t max_context; .*/    uint64_t inserted;\n&/'
try 1 "a member's type changed" 's/^    uint64_t max_context; /    int64_t max_context; /'
try 1 "a member removed" '/^    float frequency_penalty;/d'
try 1 "a parameter added" 's/void (\*cancel)(pawl_engine \*engine);/void (*cancel)(pawl_engine *engine, int how);/'
try 1 "an enum value changed" 's/PAWL_E_BUSY = 6,/PAWL_E_BUSY = 60,/'
listed='s/^    MEMBER(pawl_engine_config, options),/&\n    MEMBER(pawl_engine_config, appended),/'
try 1 "a member appended without its minor" \
    's/^    pawl_bytes options; .*/    pawl_bytes options;\n    uint64_t appended; \/*/' "$listed"
try 0 "a member appended in the next minor" \
    's/^    pawl_bytes options; .*/    pawl_bytes options;\n#if PAWL_ABI_MINOR >= 1\n    uint64_t appended;\n#endif\n    \/*/; s/define PAWL_ABI_MINOR 0/define PAWL_ABI_MINOR 1/' \
    "$listed"
[ $failed -eq 0 ] && echo "every wrong change was caught"
exit $failed
