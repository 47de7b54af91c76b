"""Completions in the real shells, against what the commands say of themselves (help, and messages about wrong values)."""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PROGRAM, vramtrace  # noqa: E402

COMMANDS = re.findall(r"^(?:\w+)? +([a-z]+)  +\w", vramtrace("help").stdout, re.M)
READS_TRACES = [command for command in COMMANDS if "TRACE" in vramtrace("help", command).stdout.splitlines()[0]] + ["diff"]


def options(command):
    return set(re.findall(r"^(?:      |  -\w, |  )(--[\w-]+)", vramtrace("help", command).stdout, re.M))


def choices(command, option):
    said = vramtrace(command, option, "no-such-value", check=False).stderr
    return set(re.split(r", | or ", re.search(r"takes (.*), not 'no-such-value'", said)[1]))


BASH = r"""
source "$SCRIPT"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_vramtrace vramtrace "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def ask_bash(script, folder, line, environment):
    words = [part for word in line.split(" ") for part in (re.split(r"(=)", word) if "=" in word else [word])]
    return subprocess.run(["bash", "--norc", "-c", BASH, "bash", "-", *words], cwd=folder, text=True, capture_output=True,
                          env={**environment, "SCRIPT": str(script)}, check=True).stdout.splitlines()


ZSH = r"""
PS1= PS2=
autoload -Uz compinit; fpath=($FOLDER $fpath); compinit -u -D
compadd() {
    local -a hits
    if [[ " ${@[1,(i)-]} " != *" -"[OAD]" "* ]]; then  # those only ask what would match
        builtin compadd -A hits "$@"
        print -rl -- $hits >>$ANSWER
    fi
    builtin compadd "$@"
}
answer() { _main_complete; print -r -- '(done)' >>$ANSWER; compstate[insert]= compstate[list]= }
zle -C answer complete-word answer
bindkey '^I' answer
print ready >>$ANSWER
"""


def ask_zsh(script, folder, line, environment):
    """A zsh on a terminal, a key pressed; what is offered goes to a file."""
    place = folder / ".zsh"
    place.mkdir(exist_ok=True)
    shutil.copy(script, place / "_vramtrace")
    answer, setup = place / "answer", place / "setup"
    answer.write_text("")
    setup.write_text(ZSH)
    master, slave = pty.openpty()
    process = subprocess.Popen(["zsh", "-f", "-i"], cwd=folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env={**environment, "FOLDER": str(place), "ANSWER": str(answer), "TERM": "dumb"})
    os.close(slave)
    os.set_blocking(master, False)

    def wait_for(text, seconds=60):
        until = time.monotonic() + seconds
        shown = b""
        while text not in answer.read_text().splitlines():
            assert time.monotonic() < until, shown.decode(errors="replace") + answer.read_text()
            try:
                shown += os.read(master, 65536)
            except BlockingIOError:
                time.sleep(0.02)

    try:
        os.write(master, f"source {setup}\n".encode())
        wait_for("ready")
        answer.write_text("")
        os.write(master, line.encode() + b"\t")
        wait_for("(done)")
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return [word for word in answer.read_text().splitlines() if word and word != "(done)"]


def ask_fish(script, folder, line, environment):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], cwd=folder, text=True,
                          capture_output=True, env={**environment, "HOME": str(folder)}, check=True)
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def ask(request, tmp_path_factory):
    shell = request.param
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path_factory.mktemp(shell) / "script"
    script.write_text(vramtrace("completions", shell).stdout)
    folder = tmp_path_factory.mktemp("folder")
    (folder / "train.vrt").write_text("")
    (folder / "notes.txt").write_text("")
    (folder / "inner").mkdir()
    (folder / "inner" / "other.vrt").write_text("")
    environment = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8"}

    def offered(line):
        """What comes instead of the line's last word, without the `--name=` that some shells repeat."""
        words = {"zsh": ask_zsh, "fish": ask_fish, "bash": ask_bash}[shell](script, folder, line, environment)
        return {re.sub(r"^--[\w-]+=(?=.)", "", word.rstrip("/ ").replace("\\", "")) for word in words}
    offered.shell = shell
    return offered


def test_commands(ask):
    assert ask("vramtrace ") - {"--help", "--version"} == set(COMMANDS)
    assert ask("vramtrace re") == {"report"}
    assert ask("vramtrace help ") == set(COMMANDS)
    assert ask("vramtrace completions ") == {"bash", "zsh", "fish"}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ("help", "completions")])
def test_options(ask, command):
    assert {word.rstrip("=") for word in ask(f"vramtrace {command} --")} | {"--help"} == options(command) | {"--help"}


def test_choices(ask):
    assert ask("vramtrace report --by ") == choices("report", "--by")
    assert ask("vramtrace diff --by m") == {"module"}
    assert ask("vramtrace report --by=k") == {"kind"}
    assert ask("vramtrace steps --color ") == choices("steps", "--color")


def test_formats(ask):
    if "export" not in COMMANDS:
        pytest.skip("this vramtrace has no export")
    said = vramtrace("export", "--format", "no-such-format", "x.vrt", check=False).stderr
    assert ask("vramtrace export --format ") == set(re.split(r", (?:or )?| or ", re.search(r"--format takes (.*)", said)[1]))


def test_moments(ask):
    offers = ask("vramtrace report --at ")
    assert offers >= {"peak", "end", "oom", "oom#", "step:", "mark:"}
    for whole in ("peak", "end"):  # each is understood: what is missing is the trace
        assert "no such" in vramtrace("report", "--at", whole, "/nonexistent.vrt", check=False).stderr.lower()


@pytest.mark.parametrize("command", sorted(set(READS_TRACES)))
def test_traces(ask, command):
    any_file = {"notes.txt"} if "[FILE]" in vramtrace("help", command).stdout else set()
    assert ask(f"vramtrace {command} ") - {"--help"} == {"train.vrt", "inner"} | any_file
    assert {pathlib.Path(word).name for word in ask(f"vramtrace {command} inner/")} == {"other.vrt"}


def test_files(ask):
    assert ask("vramtrace check --baseline ") == {"train.vrt", "inner"}
    assert ask("vramtrace report --rules n") == {"notes.txt"}
    assert ask("vramtrace report -o n") == {"notes.txt"}
    assert ask("vramtrace run -o n") == {"notes.txt"}


def test_command_of_run(ask):
    assert "vramtrace" in ask("vramtrace run vramt")
    assert "vramtrace" in ask("vramtrace run --quiet -o x.vrt vramt")
    assert ask("vramtrace run cat notes") == {"notes.txt"}
    assert ask("vramtrace run -o x.vrt cat notes") == {"notes.txt"}


def test_wrong_shell():
    done = vramtrace("completions", "tcsh", check=False)
    assert done.returncode == 2 and "bash, zsh or fish" in done.stderr
