#!/bin/bash
# examples/quickstart.sh - from a fresh machine to a model that answers.
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'TEXT'
Usage: examples/quickstart.sh [--check] [--listen HOST:PORT] [--data DIR] [--model [NAME=]PATH]

Installs the packages that are missing (Debian 12; as root or with sudo), builds Pawl
into build/, fetches a small model (SmolLM2-135M-Instruct, 100 MB) and serves it.
A second run installs, builds and fetches nothing and needs no network.

  --check               instead of serving: hold one conversation over WebSocket, kill
                        the server with -9, restart it, go on where it stopped, print
                        both turns; exit status 0 if everything held
  --listen HOST:PORT    where to serve (default: 127.0.0.1:8080; port 0: a free one)
  --data DIR            where conversations are kept (default: ~/.local/share/pawl,
                        below $XDG_DATA_HOME if set)
  --model [NAME=]PATH   serve this GGUF file instead of the small model
  --help                this text
TEXT
}

# Whoever reads this script's output needs to know no more than this.
explain() {
    local url=$1
    cat <<TEXT

==> Pawl serves the model "$name". Talk to it from another terminal:

curl $url/responses -H 'Content-Type: application/json' \\
    -d '{"model": "$name", "input": "Why is the sky blue?"}'

$PAWL_ROOT/examples/clients/chat_ws.py --model $name --url ${url/#http/ws}/responses

==> Conversations are kept in $data. Ctrl-C stops the server.

TEXT
}

serve() {
    local line status=0
    say "Loading $path"
    exec 3< <(exec "$PAWL_ROOT/build/pawl" serve --model "$name=$path" --listen "$listen" --data "$data")
    server=$!
    trap 'kill -TERM "$server" 2>/dev/null || true' INT TERM
    while read -r line <&3; do
        printf '%s\n' "$line"
        [ "$line" = "${line#listening on }" ] || explain "${line#listening on }"
    done
    wait "$server" || status=$?
    [ "$status" = 0 ] || complain "the server ended with status $status; its last words are above"
    exit "$status"
}

check() {
    local folder status=0
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    say "Holding a conversation (data in $folder)"
    # So short a conversation would otherwise be computed again rather than read from disk.
    python3 "$PAWL_ROOT/examples/clients/crash_and_resume.py" --model "$name" -- \
        "$PAWL_ROOT/build/pawl" serve --model "$name=$path" --listen 127.0.0.1:0 --data "$folder" \
        --kv-min-tokens 16 ||
        status=$?
    if [ "$status" = 0 ]; then
        say "It went on where it had stopped."
    else
        complain "the check failed"
    fi
    exit "$status"
}

mode=serve listen=127.0.0.1:8080 model=
data=${XDG_DATA_HOME:-$HOME/.local/share}/pawl
while [ $# -gt 0 ]; do
    case $1 in
        --check) mode=check ;;
        --help | -h) usage && exit 0 ;;
        --listen | --data | --model)
            [ $# -ge 2 ] || { complain "$1 needs a value; see --help" && exit 2; }
            printf -v "${1#--}" %s "$2"
            shift
            ;;
        *) complain "unknown argument: $1; see --help" && exit 2 ;;
    esac
    shift
done

need_packages "${PAWL_BUILD_PACKAGES[@]}" "${PAWL_MODEL_PACKAGES[@]}"
build_pawl release
if [ -z "$model" ]; then
    fetch_model
    model=smollm2=$PAWL_MODEL
fi
path=${model#*=} name=${model%%=*}
[ "$name" != "$model" ] || { name=${path##*/} && name=${name%.gguf}; }
"$mode"
