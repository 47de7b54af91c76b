"""What a server is asked in a dry run, and what is said of a program that ends itself."""
import json
import signal
import subprocess

import pytest

from dry import PROGRAM, PROGRAMS, PYTHON, dry, python

pytest.importorskip("uvicorn")
SERVER = PROGRAMS / "serve_http.py"


@pytest.mark.parametrize("requests", [1, 12])
def test_a_server_is_asked_and_ends(tmp_path, requests):
    done = python(tmp_path, SERVER, options=["--gpu", "l4", "--requests", str(requests)])
    longest = 4096 - 16 - 64 if requests > 1 else 64
    assert done.status == 0 and done.output.splitlines()[-1] == f"served {requests}, the longest {longest}", done.output + done.error
    assert f"{requests} of {requests} requests to /v1/completions were answered" in done.error and done.verdict == "✓ fits"


@pytest.mark.parametrize("arguments", [["--texts"], ["--path", "/v1/chat/completions"], ["--path", "/v1/embeddings"],
                                       ["--path", "/v1/images/generations"]])
def test_what_servers_are_asked(tmp_path, arguments):
    done = python(tmp_path, SERVER, *arguments, options=["--gpu", "l4"])
    assert done.status == 0 and done.output.splitlines()[-1] == "served 12, the longest 4016", done.output + done.error
    assert f"12 of 12 requests to {arguments[-1] if arguments[1:] else '/v1/completions'} were" in done.error, done.error


def test_requests_that_fail_are_told(tmp_path):
    done = python(tmp_path, SERVER, "--most", "90", options=["--gpu", "l4"])  # a short one, with its answer, and no longer one
    assert done.status == 0 and "12 of 12 requests" in done.error, done.error
    done = python(tmp_path, SERVER, "--most", "17", options=["--gpu", "l4", "--time", "15s"])
    assert "answered no request: HTTP Error 400" in done.error and "end it by Ctrl-C" in done.error, done.error


@pytest.mark.parametrize("options", [["--requests", "0"], []])
def test_a_server_is_left_alone(tmp_path, options):
    """If no requests are wanted, or it has no interface that is known: it runs until it is stopped, by Ctrl-C for example."""
    program = [SERVER, *([] if options else ["--silent"])]
    running = subprocess.Popen([PROGRAM, "dryrun", "--gpu", "l4", *options, "-o", tmp_path / "x.vrt", PYTHON, *program], text=True,
                               cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pid = int(running.stdout.readline().split()[1])
    while not options:
        line = running.stderr.readline()
        assert line
        if "answered no request" in line:
            break
    if options:
        subprocess.run(["sleep", "3"], check=True)
    subprocess.run(["kill", "-INT", str(pid)], check=True)
    output, error = running.communicate(timeout=60)
    assert "served 0" in output or running.returncode in (-signal.SIGINT, 128 + signal.SIGINT), (output, error)
    assert "✓ fits" in error and "failed" not in error, error


# A library's engine in a process of its own refuses what it is given; the program itself only says that the engine failed.
REFUSES = '''
import argparse, multiprocessing, torch
parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=100)
parser.add_argument("--how", default="fork")
arguments = parser.parse_args()

def engine(length):
    weights = torch.empty(1 << 20, device="cuda")
    if length > 1234:
        raise ValueError(f"{length} tokens need more than the pool has; the longest that is possible is 1234, see line 7")
    pool = torch.empty(length, 1024, device="cuda")

if __name__ == "__main__":
    process = multiprocessing.get_context(arguments.how).Process(target=engine, args=(arguments.length,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("the engine failed, see above")
'''


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_program_that_ends_itself(tmp_path, how):
    (tmp_path / "refuses.py").write_text(REFUSES)
    done = dry(tmp_path, [PYTHON, "refuses.py", "--length", "2000", "--how", how], "--gpu", "l4", several=True)
    why = "ValueError: 2000 tokens need more than the pool has; the longest that is possible is 1234, see line 7"
    assert done.status == 1 and "! failed on NVIDIA L4: " in done.error and f"\n  {why}\n" in done.error, done.error
    assert "fits" not in done.error
    trace, = done.trace.glob("*.vrt")
    for command in ("report", "oom"):
        told = subprocess.run([PROGRAM, command, "--width", "300", trace], capture_output=True, text=True, check=True).stdout
        assert f"Ended by {why}" in told, told
        told = subprocess.run([PROGRAM, command, "--redact", trace], capture_output=True, text=True, check=True).stdout
        assert "Ended by ValueError\n" in told and "tokens" not in told, told
    facts = json.loads(subprocess.run([PROGRAM, "report", "--json", trace], capture_output=True, text=True, check=True).stdout)
    assert facts["trace"]["ended_by"] == why


def test_an_exception_of_the_main_thread(tmp_path):
    (tmp_path / "raises.py").write_text("import torch\nx = torch.empty(9, device='cuda')\nassert not x.numel(), 'nine of them'\n")
    done = python(tmp_path, tmp_path / "raises.py", options=["--gpu", "l4"])
    assert "! failed on" in done.error and "\n  AssertionError: nine of them\n" in done.error, done.error
    (tmp_path / "ends.py").write_text("import torch\nx = torch.empty(9, device='cuda')\ntry:\n    1 / 0\nexcept Exception:\n    pass\n")
    done = python(tmp_path, tmp_path / "ends.py", options=["--gpu", "l4"])
    assert done.verdict == "✓ fits" and "ArithmeticError" not in done.error, done.error  # it was handled


@pytest.mark.parametrize("given,runs", [(["--length", "50"], 5), (["--length", "9000"], 3)])
def test_fit_takes_the_reason_at_its_word(tmp_path, given, runs):
    """The value that a refusal names is tried, and the one above it; it begins with what the command has."""
    (tmp_path / "refuses.py").write_text(REFUSES)
    done = dry(tmp_path, [PYTHON, "refuses.py", *given], "--gpu", "l4", "--fit", "length", several=True)
    assert done.status == 0 and "✓ arg:length=1234 is the largest that fits: " in done.error, done.error
    assert done.error.count("vramtrace dryrun: run ") == runs and "arg:length=1235: ValueError" in done.error.splitlines()[-1], done.error


def test_fit_of_a_program_that_always_fails(tmp_path):
    (tmp_path / "fails.py").write_text("import torch\nx = torch.empty(9, device='cuda')\nraise KeyError('nothing')\n")
    done = dry(tmp_path, [PYTHON, "fails.py"], "--gpu", "l4", "--fit", "n", several=True)
    assert done.status == 1 and done.error.splitlines()[-1] == "✗ arg:n=1: KeyError: 'nothing'", done.error
