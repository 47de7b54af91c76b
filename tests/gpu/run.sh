#!/usr/bin/env bash
# Everything that only a GPU can show, in about 12 minutes: one page of results, and the traces.
#
#     tests/gpu/run.sh [--prebuilt FILE] [--out FOLDER] [--python PYTHON] [--look] [--part NAME]... [--minutes N]
#
# --prebuilt  what tests/gpu/pack.sh made, for a machine without network; default: builds into build-gpu
# --out       default: gpu-results; gets gpu-results.md (for docs/results/), gpu-results.json, info.txt, logs.tar.gz, traces-*.tar.gz
# --python    has torch; default: python3
# --look      only says what is on this machine, and what is missing
# More options: tests/gpu/run.py --help. Exit status: 0 no part failed, 1 one failed, 2 nothing can run here.
#
# Rehearsal without a GPU: VRAMTRACE_RUN=$PWD/simulate/run.sh and VRAMTRACE_BUILD; what needs a card says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
prebuilt='' out=gpu-results python=${VRAMTRACE_PYTHON:-python3} look='' rest=()
say() { echo "tests/gpu/run.sh: $*" >&2; }
while [ $# -gt 0 ]; do
    case $1 in
    --prebuilt | --out | --python)
        [ $# -gt 1 ] || { say "$1 needs a value"; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    --look) look=1 && shift ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) rest+=("$1") && shift ;;
    esac
done
command -v "$python" >/dev/null || { say "$python was not found: give --python"; exit 2; }
out=$(realpath -m "$out")

build_here() {
    local missing=()
    for tool in meson ninja cc pkg-config; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ ${#missing[@]} -eq 0 ] || { say "cannot build here, missing: ${missing[*]}. Carry the file that tests/gpu/pack.sh makes"; exit 2; }
    [ -d "$VRAMTRACE_BUILD/meson-info" ] || meson setup "$VRAMTRACE_BUILD" "$root" ||
        { say "cannot build here (see above). Carry the file that tests/gpu/pack.sh makes"; exit 2; }
    ninja -C "$VRAMTRACE_BUILD" || { say "the build failed"; exit 2; }
}

if [ -n "$prebuilt" ]; then
    VRAMTRACE_BUILD=$(mktemp -d)
    trap 'rm -rf "$VRAMTRACE_BUILD"' EXIT
    tar -xzf "$prebuilt" -C "$VRAMTRACE_BUILD" --no-same-owner || { say "$prebuilt cannot be read"; exit 2; }
    "$VRAMTRACE_BUILD/analyzer/vramtrace" --version >/dev/null ||
        { say "the analyzer in $prebuilt does not run here (see above): pack it with --wheel, or build here"; exit 2; }
elif [ -z "${VRAMTRACE_BUILD:-}" ]; then
    VRAMTRACE_BUILD=$root/build-gpu
    build_here
fi
VRAMTRACE_PYTHON=$(command -v "$python")
export VRAMTRACE_BUILD VRAMTRACE_PYTHON VRAMTRACE_RUN=${VRAMTRACE_RUN:-}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
if [ -n "$look" ]; then
    "$python" "$here/preflight.py"
else
    # Signals reach it, and what it writes on them is waited for.
    "$python" "$here/run.py" "$out" "${rest[@]}" &
    child=$!
    trap 'kill -TERM "$child" 2>/dev/null' TERM INT
    status=0
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do wait "$child" || status=$?; done
    exit "$status"
fi
