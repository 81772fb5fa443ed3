#!/bin/sh
# The conformance kit must name the rule that each lie of liar.so breaks, and fail
# nothing of the same plugin when it tells none.
#
# Usage: check_lies.sh PAWL LIAR.so
#
# SPDX-License-Identifier: Apache-2.0
set -u
pawl=$1
liar=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
model=$folder/lies.replay.json
echo '{"replay":1,"context":512,"replies":[{"text":"some answer of more than twelve tokens"}]}' >"$model"

failed=0
none=$(PAWL_TEST_LIE=none "$pawl" plugin check "$liar" --model "$model")
if [ $? -ne 0 ]; then
    echo "without a lie:"
    echo "$none" | grep '^FAIL'
    failed=1
fi

# lie, group.rule that must fail
while read -r lie rule; do
    group=${rule%%.*}
    out=$(PAWL_TEST_LIE=$lie "$pawl" plugin check "$liar" --model "$model" --group "$group" --time-limit 3)
    code=$?
    if [ $code -ne 1 ] || ! echo "$out" | grep -q "^FAIL $rule:"; then
        echo "lie $lie: FAIL $rule was expected, status $code:"
        echo "$out" | grep '^FAIL'
        failed=1
    fi
done <<'LIES'
id entry.manifest
less entry.manifest
mute_probe entry.probe
null_error entry.probe
unstable entry.stable
any_revision entry.unknown
hole entry.complete
print host.quiet
metric host.bare
exact_size host.longer
overrun growth.engine_info
exact_config growth.config
stride growth.slots
mute errors.missing
half_open errors.missing
needs_error errors.silent
half_budget errors.budget
any_option errors.option
leak_file lifecycle.engine
leak_page lifecycle.sequences
too_many lifecycle.too_many
no_format engine.info
random engine.greedy
batch engine.batch
split engine.split
truncate engine.truncate
fork engine.fork
spoil engine.slot
mask engine.mask
limit engine.limit
cancel engine.cancel
top_k engine.top_k
seed engine.seed
resume engine.resume
hot_mask engine.hot_mask
tops engine.tops
penalties engine.penalties
pieces exact.pieces
company exact.company
order exact.order
history exact.history
workers exact.workers
instance exact.instance
capacity engine.capacity
reserve engine.reserve
returned engine.returned
state engine.state
damage engine.damage
exchange exchange.state
owner threads.owner
any threads.any
cancel threads.cancel
instances threads.instances
static_encode threads.encode
static_chat threads.chat
crash engine.greedy
hang engine.greedy
piece tokenizer.round_trip
borders tokenizer.segments
forge tokenizer.literal
deny tokenizer.control
outside tokenizer.outside
nameless chat.dialects
any_dialect chat.refuses
special chat.render
endless chat.order
cut chat.splits
LIES

# A death names its signal, a hang its limit.
PAWL_TEST_LIE=crash "$pawl" plugin check "$liar" --model "$model" --group engine | grep -q 'SIGSEGV' || failed=1
PAWL_TEST_LIE=hang "$pawl" plugin check "$liar" --model "$model" --group engine --time-limit 1 |
    grep -q 'no answer within 1 s' || failed=1

[ $failed -eq 0 ] && echo "every lie was named"
exit $failed
