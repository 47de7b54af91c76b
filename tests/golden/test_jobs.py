"""Commands on a folder or on several traces: what is found, what report and oom merge, what is said of the rest."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata

import pytest

from harness import ANALYZER, LIBRARIES, PROGRAMS, STANDIN
from test_cli import check_refused, run
from trace_file import ALLOC, CHUNKS_END, DRIVER, LOOK_EVENT, TraceFile

LAUNCH, UUID = 26, 27
MIB = 1 << 20


def write_rank(path, rank, sizes=(64 * MIB,), world=4, host=b"host", pid=None, uuid=None, started_ns=0, **variables):
    """A killed process's trace: context, then driver memory of those sizes, one after the other."""
    trace = TraceFile(host=host, started_ns=1_700_000_000_000_000_000 + started_ns)
    trace.process([b"python", b"train.py"], b"/work", b"/usr/bin/python")
    if rank is not None:
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "TORCHELASTIC_RUN_ID": "x", **variables}
    if variables:
        trace.record(LAUNCH, b"".join(f"{name}={value}".encode() + b"\0" for name, value in variables.items()))
    trace.device(0, 1 << 30, b"card")
    if uuid:
        trace.record(UUID, struct.pack("<II16s", 0, 0, uuid))
    for number, size in enumerate(sizes):
        trace.event(ALLOC, DRIVER, address=(number + 1) << 32, size=size)
    trace.write(path)
    if pid:
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, 56, pid)
        path.write_bytes(data)
    return path


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(4):
        write_rank(folder / f"x.{rank}.vrt", rank, sizes=[64 * MIB] * (1 + (rank == 2)))
    return folder


def merged(*arguments, status=0, command="report"):
    result = run(command, "--json", *arguments)
    assert result.returncode == status, result.stderr
    return json.loads(result.stdout)


def test_a_folder_is_a_job(job):
    told = merged(job)
    assert told["format"] == "vramtrace.job/2"
    assert [process["rank"] for process in told["processes"]] == [0, 1, 2, 3]
    assert [process["devices"][0]["peak"]["used_bytes"] // MIB for process in told["processes"]] == [64, 64, 128, 64]
    (run_told,) = told["runs"]
    assert run_told["launcher"] == "torchrun" and run_told["missing_ranks"] == [] and run_told["imbalance"] == 2
    assert [odd["process"] for odd in run_told["groups"][0]["outliers"]] == [2]
    assert told["unread"] == []


def test_several_traces_are_the_same_job(job):
    paths = sorted(job.iterdir())
    alone = merged(*paths)
    assert {**alone, "what": None} == {**merged(job), "what": None}
    assert {**merged(*paths[::-1]), "what": None} == {**alone, "what": None}


def test_folders_in_folders_and_names_without_vrt(job, tmp_path):
    (job / "node1" / "deep").mkdir(parents=True)
    write_rank(job / "node1" / "deep" / "other", 4, world=5, host=b"node1")
    (job / "notes.txt").write_text("no trace")
    (job / ".hidden.vrt").write_text("no trace")
    (job / "loop").symlink_to(job)
    told = merged(job)
    assert len(told["processes"]) == 5 and {process["host"] for process in told["processes"]} == {"host", "node1"}
    assert "differ" in told["timeline"]["clock"]


def test_a_file_counts_once(job):
    first = job / "x.0.vrt"
    os.link(first, job / "again.vrt")
    (job / "link.vrt").symlink_to(first)
    assert len(merged(job)["processes"]) == 4
    assert len(merged(first, first, job / "x.1.vrt")["processes"]) == 2


def test_what_cannot_be_read_is_named_and_the_rest_is_merged(job):
    (job / "empty.vrt").touch()
    (job / "foreign.vrt").write_text("these are notes\n" * 1000)
    (job / "dead.vrt").symlink_to("nowhere")
    short = job / "x.3.vrt"
    short.write_bytes(short.read_bytes()[:100])
    result = run("report", "--json", job, job / "none.vrt")
    told = json.loads(result.stdout)
    names = {os.path.basename(item["file"]) for item in told["unread"]}
    assert result.returncode == 3 and names == {"dead.vrt", "empty.vrt", "foreign.vrt", "none.vrt", "x.3.vrt"}
    assert all(item["why"] and item["file"] not in item["why"] for item in told["unread"])
    assert len(result.stderr.splitlines()) == 5 and all(name in result.stderr for name in names)
    assert len(told["processes"]) == 3 and told["runs"][0]["missing_ranks"] == [3]
    text = run("report", job)
    said = " ".join(text.stdout.split())
    assert text.returncode == 3 and "4 FILES NOT READ" in said and "foreign.vrt" in said
    assert "Missing: no trace of rank 3." in said and "1 node" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_one_that_may_not_be_read(job):
    (job / "x.1.vrt").chmod(0)
    assert [os.path.basename(item["file"]) for item in merged(job, status=3)["unread"]] == ["x.1.vrt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
@pytest.mark.parametrize("command", ["report", "oom"])
def test_a_folder_within_that_may_not_be_read(job, command):
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        program = pathlib.Path(shutil.copy(ANALYZER, open_to_all))  # the build may lie where that user cannot go
        job = pathlib.Path(shutil.copytree(job, program.with_name("job")))
        (job / "node1").mkdir(mode=0o700)
        (job / "x.3.vrt").rename(job / "node1" / "x.3.vrt")
        check_forbidden(program, command, job)


# The server's Python may lie where that user cannot go.
ASK_AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from vramtrace.mcp import call_tool
from vramtrace.mcp_tools import Program, Tools
from vramtrace.mcp_traces import Traces
os.setgid(65534)
os.setuid(65534)
print(call_tool(Tools(Program(sys.argv[2]), Traces([sys.argv[3]])), "job", {})["content"][0]["text"])
"""


def check_forbidden(program, command, job):
    result = subprocess.run([program, command, "--json", job], capture_output=True, text=True, user="nobody", cwd=job, timeout=60)
    told = json.loads(result.stdout)
    assert result.returncode == 3 and "node1: Permission denied" in result.stderr and len(told["processes"]) == 3
    assert [os.path.basename(item["file"]) for item in told["unread"]] == ["node1"]
    text = subprocess.run([sys.executable, "-c", ASK_AS_NOBODY, pathlib.Path(__file__).parents[2] / "python", program, job],
                          capture_output=True, text=True, check=True,
                          timeout=60).stdout
    assert text.startswith("1 more here are not readable by this user.\n3 processes")


def cut_off(path):
    """The trace as if a chunk followed that the file does not have."""
    data = bytearray(path.read_bytes())
    end, = struct.unpack_from("<Q", data, CHUNKS_END)
    struct.pack_into("<Q", data, CHUNKS_END, end + 100)
    path.write_bytes(data)


def test_what_ended_early_is_said_first(job):
    """Above the tables, whatever their columns have room for."""
    cut_off(job / "x.1.vrt")
    text = run("report", "--full", "--width", "80", job).stdout
    before = " ".join(text[:text.index("\nProcess")].split())
    assert "Incomplete traces: ranks 0, 2–3 (killed, or still running), rank 1 (file damaged)." in before
    assert "x.1.vrt" not in text or "held no GPU memory" not in text
    assert "No process ran out of memory (some traces are incomplete)" in run("oom", job).stdout


def write_helper(job, pid, rank=3):
    """Of a rank that was killed before."""
    write_rank(job / "x.3.vrt", rank, sizes=[64 * MIB], pid=77)
    write_rank(job / "helper.vrt", rank, sizes=[100 * MIB], pid=pid, started_ns=10 * 10 ** 9)
    data = bytearray((job / "helper.vrt").read_bytes())
    struct.pack_into("<I", data, 60, 77)
    (job / "helper.vrt").write_bytes(data)


def test_a_helper_whose_rank_was_killed(job):
    """It is no run of its own, and is named with its pid."""
    write_helper(job, 78)
    (run_told,) = merged(job)["runs"]
    assert run_told["processes"] == [0, 1, 2, 3]
    text = " ".join(run("report", "--full", job).stdout.split())
    assert "rank 3 and rank 3, pid 78 (killed, or still running)." in text


def test_a_rank_that_has_less_since_its_trace_ends_early(job):
    write_rank(job / "x.2.vrt", 2, sizes=[MIB])
    text = " ".join(run("report", "--full", job).stdout.split())
    assert "Rank 2 peaks at 1 MiB" in text and "its trace is incomplete (killed, or still running), so that it may have had more." in text


def test_damage_within_is_no_reason_to_leave_a_trace_out(job):
    cut_off(job / "x.1.vrt")
    told = merged(job)
    assert len(told["processes"]) == 4 and not told["processes"][1]["complete"]


@pytest.mark.parametrize("command", ["leaks", "steps", "timeline", "frag", "info"])
def test_other_commands_take_a_folders_traces_one_by_one(job, command):
    for number in range(4, 11):
        write_rank(job / f"x.{number}.vrt", number, world=11)
    (job / "deep").mkdir()
    (job / "x.3.vrt").rename(job / "deep" / "x.3.vrt")
    result = run(command, "--json", job)
    assert result.returncode == 0, result.stderr
    told = [json.loads(line) for line in result.stdout.splitlines()]
    named = run(command, "--json", *[job / ("deep" if number == 3 else "") / f"x.{number}.vrt" for number in (3, 0, 1, 2, *range(4, 11))])
    assert len(told) == 11 and result.stdout == named.stdout  # 10 after 9


def test_a_limit_holds_for_each_trace_of_a_folder(job):
    assert run("check", "--allow-lost", "--max-peak", "128MiB", job).returncode == 0
    result = run("check", "--allow-lost", "--max-peak", "127MiB", job)
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1 and "x.2.vrt" in result.stdout
    (job / "x.1.vrt").write_bytes(b"")
    result = run("check", "--allow-lost", "--max-peak", "127MiB", job)
    assert result.returncode == 3 and "x.2.vrt" in result.stdout and "x.1.vrt" in result.stderr


def test_nothing_to_read(tmp_path):
    check_refused(run("report", tmp_path), 3, "no traces found in this folder or below", "vramtrace run -o FOLDER/ COMMAND", str(tmp_path))
    (tmp_path / "x.vrt").touch()
    result = run("report", tmp_path)
    assert result.returncode == 3 and result.stdout == "" and "x.vrt" in result.stderr
    assert run("report", tmp_path / "a.vrt", tmp_path / "b.vrt").returncode == 3


@pytest.mark.parametrize("option", ["--at=end", "--by=line", "--explain=cached", "--device=0", "--depth=2", "--axis=time", "--from=end",
                                    "--to=end"])
def test_options_for_one_trace(job, option):
    check_refused(run("report", option, job), 2, option.split("=")[0], "--each")


def test_each_by_itself(job):
    lines = run("report", "--each", "--json", job).stdout.splitlines()
    assert [json.loads(line)["format"] for line in lines] == ["vramtrace.report/2"] * 4
    assert run("report", "--each", "--by", "category", job).stdout.count("vramtrace · python") == 4
    path = job / "x.0.vrt"
    assert run("report", "--each", path).stdout == run("report", path).stdout
    result = run("report", "--each", "--at", "mark:nowhere", job)  # no separators of nothing
    assert result.returncode == 2 and result.stdout == "" and len(result.stderr.splitlines()) == 4
    (job / "x.0.vrt").write_bytes(b"")
    text = run("report", "--each", "--by", "category", "--color", "never", job, env={"LC_ALL": "C"}).stdout
    assert text.startswith("vramtrace ") and text.count("\n--------\n") == 2


def test_a_bad_rules_file_is_wrong_use(job, tmp_path):
    (tmp_path / "rules").write_text("nonsense\n")
    assert run("report", "--rules", tmp_path / "rules", job).returncode == 2


def columns(line):
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else not unicodedata.combining(letter) for letter in line)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_fit(job, width):
    write_helper(job, 4_194_303, rank=10_003)
    for command in ("report", "oom"):
        for line in run(command, "--width", width, job, env={"LC_ALL": "C.UTF-8"}).stdout.splitlines():
            assert columns(line) <= width or str(job) in line, line  # a command is never cut


def test_a_terminal_without_utf8(job):
    text = run("report", "--full", job, env={"LC_ALL": "C"}).stdout
    assert text.isascii() and "rank 2" in text


def test_names_do_not_move_the_cursor(tmp_path):
    for rank in range(2):
        write_rank(tmp_path / f"{rank}.vrt", rank, world=2, host=b"a\x1b[2Jb", TORCHELASTIC_RUN_ID="x\x1b]0;y\x07")
    for arguments in ([], ["--json"]):
        text = run("report", "--full", *arguments, tmp_path).stdout
        assert "\x1b" not in text and "\x07" not in text and "torchrun" in text


def test_ranks_of_two_jobs_in_one_folder_are_told_apart(job, tmp_path):
    for rank in range(2):
        write_rank(job / f"y.{rank}.vrt", rank, world=2, sizes=[MIB], started_ns=3600 * 10 ** 9, TORCHELASTIC_RUN_ID="y")
    told = merged(job)
    assert [process["label"] for process in told["processes"]] == [f"run 1 rank {rank}"
                                                                   for rank in range(4)] + ["run 2 rank 0", "run 2 rank 1"]
    text = run("report", "--full", job).stdout
    assert "None of ranks 0–1 of run 2 stands out" in run("report", "--full", job, env={"LC_ALL": "C.UTF-8"}).stdout
    assert "Run 1, torchrun: 4 ranks" in text and "Run 2, torchrun: 2 ranks" in text and "Run 1 rank 2 peaks at" in text


def test_cards(tmp_path):
    for rank, visible in enumerate(["0", "1", "1"]):
        write_rank(tmp_path / f"{rank}.vrt", rank, world=3, sizes=[(rank + 1) * MIB], uuid=bytes([65 + int(visible)] * 16), pid=50 + rank,
                   CUDA_VISIBLE_DEVICES=visible)
    cards = merged(tmp_path)["gpus"]
    assert [(card["number"], card["known_by_uuid"], len(card["processes"])) for card in cards] == [(0, True, 1), (1, True, 2)]
    assert [holder["bytes"] for holder in cards[1]["processes"]] == [3 * MIB, 2 * MIB]
    assert cards[1]["uuid"] == "GPU-42424242-4242-4242-4242-424242424242"


def test_old_traces_have_neither_ranks_nor_uuids(tmp_path):
    for number in range(2):
        write_rank(tmp_path / f"{number}.vrt", None, pid=50 + number)
    told = merged(tmp_path)
    assert [process["rank"] for process in told["processes"]] == [-1, -1] and not told["gpus"][0]["known_by_uuid"]
    assert "matched by number" in run("report", "--full", tmp_path).stdout


def test_oom_of_a_job_that_did_not_run_out(job):
    told = merged(job, command="oom")
    assert told["format"] == "vramtrace.job_oom/2" and told["failures"] == [] and told["first_differs"] == []
    assert "No process ran out of memory" in run("oom", job).stdout


def test_top_shortens_tables(job):
    text = run("report", "--full", "--top", "2", job).stdout
    assert "2 more" in text
    assert len(merged("--top", "1", job)["runs"][0]["groups"][0]["outliers"][0]["categories"]) == 1


def test_a_thousand_traces(tmp_path):
    data = write_rank(tmp_path / "0.vrt", 0, world=1000).read_bytes()
    for rank in range(1, 1000):
        if rank < 10:
            write_rank(tmp_path / f"{rank}.vrt", rank, world=1000, LOCAL_RANK=0)
        else:
            (tmp_path / f"{rank}.vrt").write_bytes(data)
    told = merged(tmp_path)  # those that all say that they are rank 0 are runs of their own
    assert len(told["processes"]) == 1000 and told["runs"][0]["missing_ranks"] == list(range(10, 1000))


# What the program set itself, as an inspection saw it.

def write_worker(path, pid, told, command=(b"ray::Actor.work", b"", b""), uuid=b"A" * 16, parent=9, **variables):
    """Of Ray: a title in the place of the arguments, a card of its own that is told late."""
    trace = TraceFile(host=b"host")
    trace.process(command, b"/work", b"/usr/bin/python")
    trace.record(LAUNCH, b"".join(f"{name}={value}".encode() + b"\0" for name, value in variables.items()))
    trace.device(0, 1 << 30, b"card")
    trace.record(UUID, struct.pack("<II16s", 0, 0, uuid))
    trace.event(ALLOC, DRIVER, address=1 << 32, size=MIB)
    trace.look(1, "".join(f"V\t{name}\t{value}\n" for name, value in told.items()).encode())
    trace.event(LOOK_EVENT, detail=1, device=-1)
    trace.write(path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 56, pid)
    struct.pack_into("<I", data, 60, parent)
    path.write_bytes(data)


def test_ranks_that_ray_gives_later(tmp_path):
    """Of one job, though some workers were started before there was a job."""
    for rank in range(3):
        variables = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=4000)
        write_worker(tmp_path / f"{rank}.vrt", 50 + rank, variables, RAY_JOB_ID="01000000" if rank else "ffffffff")
    told = merged(tmp_path)
    (run_told,) = told["runs"]
    assert (run_told["launcher"], run_told["name"], run_told["world_size"], run_told["missing_ranks"]) == ("Ray", None, 3, [])
    assert [(process["rank"], process["local_rank"], process["pid"])
            for process in told["processes"]] == [(0, 0, 50), (1, 1, 51), (2, 2, 52)]


def test_ray_without_ranks(tmp_path):
    for number in range(3):
        write_worker(tmp_path / f"{number}.vrt", 50 + number, {"CUDA_VISIBLE_DEVICES": number // 2}, RAY_JOB_ID="ffffffff",
                     uuid=bytes([65 + number // 2] * 16))
    write_worker(tmp_path / "other.vrt", 60, {}, command=(b"ray::task", b""), RAY_JOB_ID="01000000")
    told = merged(tmp_path)
    assert [(run_told["launcher"], run_told["world_size"]) for run_told in told["runs"]] == [("Ray", -1)] * 2
    assert sorted(sum(process["run"] == number for process in told["processes"]) for number in range(2)) == [1, 3]
    assert {process["command"] for process in told["processes"]} == {"ray::Actor.work", "ray::task"}
    assert [(card["number"], len(card["processes"])) for card in told["gpus"]] == [(0, 3), (1, 1)]
    text = run("report", "--full", tmp_path).stdout
    assert "Ray: 3 processes (process 9 started them" in text and "pid 60: ray::task\n" in text and "GPU-" not in text


def test_cards_that_no_number_tells_apart(tmp_path):
    for number in range(2):
        write_worker(tmp_path / f"{number}.vrt", 50 + number, {"CUDA_VISIBLE_DEVICES": f"GPU-{number}"}, uuid=bytes([65 + number] * 16))
    text = run("report", "--full", tmp_path).stdout
    assert "GPU 0 GPU-41414141: pid 50 " in text and "GPU 0 GPU-42424242: pid 51 " in text


def test_a_rank_alone_in_the_environment_is_none(tmp_path):
    write_worker(tmp_path / "0.vrt", 50, {"RANK": "0"})
    write_worker(tmp_path / "1.vrt", 51, {"RANK": "1", "WORLD_SIZE": "2"})
    assert [(process["pid"], process["rank"]) for process in merged(tmp_path)["processes"]] == [(50, -1), (51, 1)]


# What launchers set, seen by a real process under the library.

LAUNCHERS = {
    "torchrun": "RANK=$i LOCAL_RANK=$i WORLD_SIZE=3 TORCHELASTIC_RUN_ID=none MASTER_PORT=29500",
    "Slurm": "SLURM_PROCID=$i SLURM_LOCALID=$i SLURM_STEP_NUM_TASKS=3 SLURM_STEP_ID=0 SLURM_JOB_ID=77",
    "Open MPI": "OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_SIZE=3 PMIX_NAMESPACE=a@1",
    "MPI": "PMI_RANK=$i PMI_SIZE=3 MPI_LOCALRANKID=$i",
    "accelerate": "RANK=$i LOCAL_RANK=$i WORLD_SIZE=3 TORCHELASTIC_RUN_ID=none MASTER_PORT=29500 ACCELERATE_MIXED_PRECISION=no",
    "DeepSpeed": "RANK=$i LOCAL_RANK=$i WORLD_SIZE=3 CROSS_RANK=0 CROSS_SIZE=1 LOCAL_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500",
    "Ray": "RANK=$i LOCAL_RANK=$i WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 NODE_RANK=0 RAY_JOB_ID=01000000",
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_run_under_a_launcher(launcher, inside, tmp_path):
    """`vramtrace run srun python …`, and `srun vramtrace run python …`: traces named by rank, cards told apart."""
    program, start = PROGRAMS / "way_linked", f"{ANALYZER} run --quiet -o {tmp_path}/"
    one = f"env {LAUNCHERS[launcher]} CUDA_VISIBLE_DEVICES=$((i % 2)) {start if inside else ''} {program}"
    script = f"for i in 0 1 2; do {one} & done; wait"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_", "SLURM", "OMPI", "PMI", "RAY_"))}
    environment.update(LD_LIBRARY_PATH=str(STANDIN), VRAMTRACE_STANDIN_DEVICES="2", VRAMTRACE_LIBRARY=str(LIBRARIES["trace"]))
    command: list = ["sh", "-c", script] if inside else [ANALYZER, "run", "--quiet", "-o", f"{tmp_path}/", "sh", "-c", script]
    subprocess.run(command, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert sorted(path.name.split(".")[-2] for path in tmp_path.iterdir()) == ["0", "1", "2"]
    told = merged(tmp_path)
    (run_told,) = told["runs"]
    assert run_told["launcher"] == launcher and run_told["world_size"] == 3 and run_told["missing_ranks"] == []
    assert [card["number"] for card in told["gpus"]] == [0, 1] and len({card["uuid"] for card in told["gpus"]}) == 2
    assert [len(card["processes"]) for card in told["gpus"]] == [2, 1]
    if launcher == "Slurm":
        assert run_told["name"] == "77"


def test_a_copy_of_a_trace_is_no_other_process(job):
    """As `vramtrace ctl snapshot` makes: the one with the most events counts."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(STANDIN), "LD_PRELOAD": str(LIBRARIES["trace"]),
                   "VRAMTRACE_OUT": str(job / "real.vrt")}
    subprocess.run([PROGRAMS / "way_linked"], env=environment, check=True, timeout=60, capture_output=True)
    data = (job / "real.vrt").read_bytes()
    (job / "a.vrt").write_bytes(data)
    (job / "b.vrt").write_bytes(data[:-100])  # its last chunk is damaged
    told = merged(job)
    assert len(told["processes"]) == 5
    assert {os.path.basename(item["file"]): item["is_copy"] for item in told["unread"]} == {"b.vrt": True, "real.vrt": True}
    text = run("report", job)
    assert "NOT READ" not in text.stdout and "Left out:" in text.stdout and text.stderr == ""
    said = " ".join(text.stdout.split())
    assert "a trace of the same process as" in said and "which has as many events" in said and "which has more events" in said


def test_the_last_line_names_the_trace_as_its_folder_was_named(tmp_path):
    """With a slash at the end or without, one is between folder and file."""
    for out in (f"{tmp_path}/", str(tmp_path)):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(STANDIN), "LD_PRELOAD": str(LIBRARIES["trace"]), "VRAMTRACE_OUT": out}
        said = subprocess.run([PROGRAMS / "way_linked"], env=environment, check=True, timeout=60, capture_output=True, text=True).stderr
        assert f"vramtrace report {tmp_path}/vramtrace." in said
