#!/bin/bash
# tests/run.sh - installs what the tests need, builds, runs all tests.
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../examples/setup.sh"

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--quick] [PRESET...]

Installs missing packages (as root or with sudo), makes a Python environment for the
tests and fetches the small model, both in ~/.cache/pawl; then builds and tests:

  ci      the release build in build/: every test
  asan    with AddressSanitizer and UBSan: every test but those of the real model
  tsan    with ThreadSanitizer: the tests with the label "threads"
  fuzz    every fuzz target with clang and libFuzzer, a few seconds each

PRESET: only these. --quick: ci, without the real model. The last line is
"N passed, N failed, N skipped"; the exit status is 0 if nothing failed.
TEXT
}

TEST_PACKAGES=(
    python3-venv libcmocka-dev abigail-tools poppler-utils
    g++ clang clang-format libclang-rt-14-dev
)

passed=0 failed=0 skipped=0 sections=()

# section NAME COMMAND...: runs it; a failure counts and does not end the run.
section() {
    local name=$1 began=$SECONDS result=ok
    shift
    printf '\n==> %s\n' "$name"
    "$@" || {
        result=FAILED
        failed=$((failed + 1))
    }
    sections+=("$(printf '%-16s %-6s %5d s' "$name" "$result" $((SECONDS - began)))")
    [ "$result" = ok ]
}

# environment_folder LIST: where the virtual environment with the packages of that file
# is, named after its digest; tests/e2e/CMakeLists.txt and clients_test.py look there too.
environment_folder() {
    local digest
    digest=$(sha256sum "$here/$1")
    printf '%s\n' "$PAWL_CACHE/venv-${digest:0:12}"
}

python_environment() {
    local venv
    venv=$(environment_folder "$1")
    [ -f "$venv/complete" ] && return
    rm -rf "$venv"
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        -r "$here/$1" && touch "$venv/complete"
}

# Dify's own client code has an environment of its own. Where there can be none, its
# test reports that it was skipped.
dify_environment() {
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        say "SKIP: dify-plugin needs Python 3.11"
    else
        python_environment requirements-dify.txt || say "SKIP: pip cannot fetch dify-plugin"
    fi
}

# The number that ctest wrote as this attribute of its report.
reported() {
    local number
    number=$(sed -n "s/^[[:space:]]*$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1)
    printf '%s\n' "${number:-0}"
}

# run_tests PRESET [CTEST-OPTION...]: adds what ctest counted.
run_tests() {
    local preset=$1 report status=0 n_failed n_skipped runner=()
    shift
    report=$(mktemp)
    # ThreadSanitizer's memory map has no room for much address randomisation.
    if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        runner=(setarch "$(uname -m)" -R)
    fi
    (cd "$PAWL_ROOT" && "${runner[@]}" ctest --preset "$preset" --output-junit "$report" "$@") || status=$?
    n_failed=$(reported "$report" failures)
    n_skipped=$(($(reported "$report" skipped) + $(reported "$report" disabled)))
    passed=$((passed + $(reported "$report" tests) - n_failed - n_skipped))
    skipped=$((skipped + n_skipped))
    rm -f "$report"
    # section() counts one failure itself.
    [ "$status" = 0 ] && return
    failed=$((failed + (n_failed > 0 ? n_failed - 1 : 0)))
    return 1
}

build_and_test() {
    local preset=$1 python
    shift
    python=$(environment_folder requirements.txt)/bin/python
    [ -x "$python" ] || python=$(command -v python3)
    section "build $preset" build_pawl "$preset" -DPAWL_PYTHON="$python" || return 0
    section "test $preset" run_tests "$preset" "$@" || return 0
}

main() {
    local quick=no preset presets=()
    while [ $# -gt 0 ]; do
        case $1 in
            --quick) quick=yes ;;
            --help | -h) usage && exit 0 ;;
            ci | asan | tsan | fuzz) presets+=("$1") ;;
            *) complain "unknown argument: $1; see --help" && exit 2 ;;
        esac
        shift
    done
    [ ${#presets[@]} -gt 0 ] || { [ $quick = yes ] && presets=(ci); } || presets=(ci asan tsan fuzz)

    need_packages "${PAWL_BUILD_PACKAGES[@]}" "${PAWL_MODEL_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    section "python packages" python_environment requirements.txt || true
    section "dify packages" dify_environment || true
    section "model" fetch_model || true
    for preset in "${presets[@]}"; do
        case $preset-$quick in
            ci-yes) build_and_test ci -LE model ;;
            *) build_and_test "$preset" ;;
        esac
    done

    printf '\n==> All sections\n'
    printf '%s\n' "${sections[@]}"
    printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}

main "$@"
