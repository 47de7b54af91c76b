#!/bin/bash
# In a system with nothing but what is tested: inside.sh wheel|sdist|deb (tests/packaging/run.sh)
set -euo pipefail
cd /test
export LD_LIBRARY_PATH=/test/standin
fail() { echo "inside.sh: $*" >&2; exit 1; }

try_everything() { # VRAMTRACE PYTHON
    local vramtrace=$1 python=$2 command
    "$vramtrace" run --quiet -o x.vrt "$python" python_stacks.py >said || fail "run exited with $?"
    # The program prints each allocation with what Python says of its own stack.
    "$vramtrace" info --events --json --stacks x.vrt >events
    "$python" - <<'PYTHON'
import json, sys
said = [json.loads(line) for line in open("said")]
events = [json.loads(line) for line in open("events")]
allocs = [event for event in events if event["kind"] == "alloc"]
assert [hex(address) for address, _ in said] and sorted(address for address, _ in said) == sorted(int(e["address"], 16) for e in allocs)
assert len(allocs) >= 35 and all(event["bytes"] == 4096 for event in allocs)
native = sum(any(frame["kind"] == "native" for frame in event["stack"]) for event in allocs)
python = sum(any(frame["kind"] == "python" for frame in event["stack"]) for event in allocs)
assert native == len(allocs), "%d of %d have native stacks" % (native, len(allocs))
if (3, 9) <= sys.version_info[:2] <= (3, 15):
    frames = {address: [[file, line, name] for file, line, name in stack] for address, stack in said}
    for event in allocs:
        seen = [[f["file"], f["line"], f["function"].split(".")[-1]] for f in event["stack"] if f["kind"] == "python"]
        assert seen == frames[int(event["address"], 16)], (seen, frames[int(event["address"], 16)])
print("%d allocations, native stacks of %d, Python stacks of %d" % (len(allocs), native, python))
PYTHON
    "$vramtrace" report x.vrt | grep -q "Peak 140 KiB" || fail "the report's peak is not 35 × 4096 bytes"
    "$vramtrace" info --verify x.vrt
    for command in timeline steps leaks frag "diff x.vrt" "check --max-peak 1GiB"; do
        "$vramtrace" $command x.vrt >/dev/null || fail "$command exited with $?"
    done
    if "$vramtrace" help | grep -q "vramtrace html"; then
        "$vramtrace" html -o x.html x.vrt
        grep -qi "<!doctype html" x.html || fail "html wrote no page"
    fi
}

test_wheel() {
    python3 -m venv env
    find env ! -type d | sort >before
    env/bin/pip install -q --no-index /test/*.whl
    try_everything env/bin/vramtrace env/bin/python
    env/bin/python -m vramtrace run -o y.vrt python_stacks.py >/dev/null
    env/bin/python -c 'import vramtrace; assert not vramtrace.loaded() and not vramtrace.mark("x")
assert len(vramtrace.report("y.vrt")["devices"]) == 1, vramtrace.report("y.vrt")'
    env/bin/vramtrace run -o z.vrt env/bin/python -c 'import vramtrace; assert vramtrace.loaded()'
    env/bin/pip uninstall -q -y vramtrace
    find env ! -type d | grep -v __pycache__ | sort >after # pip leaves empty folders
    diff <(grep -v __pycache__ before) after || fail "pip uninstall left something"
}

test_sdist() {
    local missing
    python3 -m venv env
    ! env/bin/pip install -q /test/*.tar.gz >pip 2>&1 || fail "pip install needs no compiler?"
    missing=$(sed -n "s/.*missing packages (Debian's names): //p" pip | sort -u)
    [ "$(wc -l <<<"$missing")" = 1 ] && [ -n "$missing" ] || { cat pip; fail "pip install does not name the packages in one line"; }
    echo "installing what it names: $missing"
    get $missing
    env/bin/pip install -q /test/*.tar.gz
    try_everything env/bin/vramtrace env/bin/python
    env/bin/python -m vramtrace --version
}

get() { # PACKAGE...; the system may be older than what the mirror has now
    apt-get install -y -q --no-install-recommends "$@" >apt 2>&1 || {
        apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends "$@" >apt 2>&1
    } || { tail -n 20 apt; fail "apt-get install $*"; }
}

test_deb() {
    get /test/vramtrace_*.deb
    try_everything vramtrace /usr/bin/python3
    rm -f vramtrace.*.vrt
    LD_PRELOAD=libvramtrace.so python3 python_stacks.py >/dev/null
    ls vramtrace.*.vrt >/dev/null || fail "LD_PRELOAD=libvramtrace.so recorded nothing"
    printf '#include <vramtrace/api.h>\nint main(void) { return VRAMTRACE_MARK("x") + VRAMTRACE_STEP(); }\n' >marks.c
    gcc marks.c $(pkg-config --cflags vramtrace) -o marks && ./marks || fail "a program with api.h"
    man -w vramtrace vramtrace-run >/dev/null || fail "the manual pages are not found"
    [ -e "$(pkg-config --variable=preload vramtrace)" ] || fail "vramtrace.pc names no library"
    bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader vramtrace; complete -p vramtrace' >/dev/null
    [ "$(fish -c 'complete -C "vramtrace rep"' | cut -f 1)" = report ] || fail "fish does not complete"
    zsh -fc 'autoload -Uz compinit && compinit -u -D && [[ $_comps[vramtrace] == _vramtrace ]]' || fail "zsh does not complete"
    apt-get purge -y -q vramtrace >/dev/null
    [ ! -e /usr/bin/vramtrace ] || fail "purge left the command"
    ! ldconfig -p | grep vramtrace || fail "purge left the library in the loader's cache"
}

case ${1:-} in
wheel) test_wheel ;;
sdist) test_sdist ;;
deb) test_deb ;;
*) fail "wheel, sdist or deb" ;;
esac
echo "everything passed on $(. /etc/os-release && echo "$PRETTY_NAME"), $(ldd --version | head -n 1), $(python3 --version)"
