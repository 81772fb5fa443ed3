#!/bin/sh
# Installs Pawl, builds examples/plugin-echo against what was installed, outside the
# tree, and checks the result with the installed binary.
#
# Usage: build_example.sh SOURCE_DIR BUILD_DIR CMAKE
#
# SPDX-License-Identifier: Apache-2.0
set -eu
source=$1
build=$2
cmake=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
umask 022

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cp -R "$source/examples/plugin-echo" "$folder/echo"
chmod -R go-w "$folder/echo"
"$cmake" -S "$folder/echo" -B "$folder/out" -DPAWL_PREFIX="$folder/prefix" -DCMAKE_C_FLAGS="-Wall -Wextra" \
    >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
"$cmake" --build "$folder/out" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
if grep -i warning "$folder/log"; then exit 1; fi

pawl=$folder/prefix/bin/pawl
"$pawl" plugin check "$folder/out/echo.so" --model "$folder/echo/demo.echo" >"$folder/log" || { cat "$folder/log"; exit 1; }
PAWL_PLUGIN_PATH=$folder/out "$pawl" plugin list >"$folder/list"
grep -A3 '^dev.pawl.example.echo 1.0.0  usable' "$folder/list" || { cat "$folder/list"; exit 1; }
echo "built, checked ($(grep -c '^PASS' "$folder/log") rules passed) and found"
