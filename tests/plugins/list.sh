#!/bin/sh
# `pawl plugin list` names every candidate and why it is or is not used.
#
# Usage: list.sh PAWL FOLDER_WITH_TEST_PLUGINS
#
# SPDX-License-Identifier: Apache-2.0
set -u
pawl=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/good" "$folder/open"
XDG_STATE_HOME=$folder/state
export XDG_STATE_HOME
cp "$2"/*.so "$2"/*.plugin.json "$folder/good/"
cp "$folder/good/replay.so" "$folder/open/"
chmod -R go-w "$folder/good"
sed 's/dev.pawl.test.replay/dev.pawl.test.open/' "$folder/good/replay.plugin.json" >"$folder/open/open.plugin.json"
chmod 777 "$folder/open"
echo '{"manifest":1,"id":"a.b","nam":"x"}' >"$folder/good/broken.plugin.json"
sed 's/"major": 1/"major": 2/; s/test.replay/test.future/' "$folder/good/replay.plugin.json" >"$folder/good/future.plugin.json"
sed 's/test.replay/test.cpu/; s/"license"/"requires": {"cpu": ["no_such_feature"]}, "license"/' \
    "$folder/good/replay.plugin.json" >"$folder/good/needy.plugin.json"
sed 's/test.replay/test.digest/; s/"license"/"sha256": "'"$(printf '%064d' 0)"'", "license"/' \
    "$folder/good/replay.plugin.json" >"$folder/good/sum.plugin.json"
cp "$folder/good/replay.plugin.json" "$folder/good/zwin.plugin.json"

list=$(PAWL_PLUGIN_PATH="relative/folder:" "$pawl" plugin list --plugin-dir "$folder/good" \
    --plugin-dir "$folder/open" --plugin-dir "$folder/absent") || exit 1
failed=0
expect() {
    echo "$list" | grep -q -- "$1" || { echo "not in the list: $1"; failed=1; }
}
expect 'dev.pawl.test.replay 0.1.0  usable'
expect 'used: its probe gave 1'
expect 'unknown key "nam"'
expect 'SIGSEGV (Segmentation fault)'
expect 'its manifest calls it dev.pawl.test.liar, its entry dev.pawl.test.somebody'
expect 'built for ABI 2, this host speaks ABI 1'
expect 'processor feature "no_such_feature"'
expect 'has SHA-256'
expect 'another plugin with the id dev.pawl.test.replay'
expect 'open can be written by others (mode 777); chmod go-w'
expect 'absent: No such file'
expect 'PAWL_PLUGIN_PATH takes absolute folders only'
# The crash is in quarantine now; released, by id or digest, it is tried again.
again=$(PAWL_TEST_CRASH=exit "$pawl" plugin list --plugin-dir "$folder/good") || failed=1
echo "$again" | grep -q 'SIGSEGV.*in quarantine.*pawl plugin release dev.pawl.test.crash' ||
    { echo "not in quarantine: $again"; failed=1; }
[ "$("$pawl" plugin release dev.pawl.test.crash)" = "1 released" ] || { echo "not released"; failed=1; }
"$pawl" plugin release dev.pawl.test.crash 2>/dev/null
[ $? -eq 1 ] || { echo "releasing nothing does not give 1"; failed=1; }
"$pawl" plugin list --plugin-dir "$folder/good" >/dev/null
[ "$("$pawl" plugin release "$(sha256sum "$folder/good/crash.so" | cut -d' ' -f1)")" = "1 released" ] ||
    { echo "not released by its digest"; failed=1; }
hang=$(PAWL_TEST_CRASH=exit "$pawl" plugin list --plugin-dir "$folder/good" --json) || failed=1
echo "$hang" | grep -q 'ended its process with status 3' || { echo "no status 3"; failed=1; }
"$pawl" plugin list --no-such-option 2>/dev/null
[ $? -eq 2 ] || { echo "a wrong option does not give 2"; failed=1; }
"$pawl" plugin check "$folder/absent.so" 2>/dev/null
[ $? -eq 1 ] || { echo "an absent file does not give 1"; failed=1; }
[ $failed -eq 0 ] || echo "$list"
exit $failed
