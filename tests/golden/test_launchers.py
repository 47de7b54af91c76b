"""The real launchers: each rank of what they start is traced, wherever `vramtrace run` stands, and is known as that rank."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import ANALYZER, LIBRARIES, PROGRAMS, STANDIN
from test_jobs import merged

SLURM = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# name, command, what it is called in the report
LAUNCHERS = {
    "mpirun.openmpi": (["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3"], "Open MPI"),
    "mpirun.mpich": (["mpirun.mpich", "-n", "3"], "MPI"),
    "srun": (["srun", "--overcommit", "-n", "3"], "Slurm"),
}


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [item.getsockname()[1] for item in sockets]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Slurm cluster of this machine: the variables with which srun finds it."""
    if not shutil.which("srun"):
        yield None
        return
    folder, host = tmp_path_factory.mktemp("slurm"), socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(SLURM.format(
        host=host, folder=folder, ports=free_ports(2), processors=len(os.sched_getaffinity(0)),
        user=subprocess.check_output(["id", "-un"], text=True).strip()))
    settings = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    daemons = []
    try:
        for program in ("slurmctld", "slurmd"):
            program = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
            daemons.append(subprocess.Popen([program, "-D"], env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until = time.monotonic() + 60
        while "idle" not in subprocess.run(["sinfo", "-h", "-o", "%T"], env=settings, capture_output=True, text=True).stdout:
            assert time.monotonic() < until, [path.read_text() for path in folder.glob("*.log")]
            time.sleep(0.2)
        yield {"SLURM_CONF": settings["SLURM_CONF"]}
    finally:
        for daemon in daemons[::-1]:
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            daemon.wait(30)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_rank(launcher, inside, tmp_path, cluster):
    """`srun vramtrace run python …`, and `vramtrace run srun python …`."""
    command, name = LAUNCHERS[launcher]
    if not shutil.which(command[0]):
        pytest.skip(f"no {launcher} here")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_", "SLURM", "OMPI", "PMI"))}
    environment.update(LD_LIBRARY_PATH=str(STANDIN), VRAMTRACE_LIBRARY=str(LIBRARIES["trace"]), **(cluster if launcher == "srun" else {}))
    traced = [str(ANALYZER), "run", "--quiet", "-o", f"{tmp_path}/"]
    program = [str(PROGRAMS / "way_linked")]
    ended = subprocess.run([*command, *traced, *program] if inside else [*traced, *command, *program],
                           env=environment, timeout=120, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name.split(".")[-2] for path in tmp_path.iterdir()) == ["0", "1", "2"]
    told = merged(tmp_path)
    (run_told,) = told["runs"]
    assert run_told["launcher"] == name and run_told["world_size"] == 3 and run_told["missing_ranks"] == []
    assert [process["rank"] for process in told["processes"]] == [0, 1, 2]
    assert all(process["complete"] for process in told["processes"]) and told["unread"] == []
    (peak,) = {process["devices"][0]["peak"]["used_bytes"] for process in told["processes"]}
    assert peak > 0


@pytest.mark.parametrize("out, rank, names_folder", [("", "2", True), ("/", "2", True), ("/", None, False), ("/%r.vrt", "2", False)])
def test_the_last_line_says_what_to_read(out, rank, names_folder, tmp_path):
    """Of one rank among others whose traces go to one folder: that folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_", "SLURM", "OMPI", "PMI"))}
    environment.update(LD_LIBRARY_PATH=str(STANDIN), LD_PRELOAD=str(LIBRARIES["trace"]), VRAMTRACE_OUT=f"{tmp_path}{out}",
                       **({"RANK": rank} if rank else {}))
    ended = subprocess.run([PROGRAMS / "way_linked"], env=environment, timeout=60, capture_output=True, text=True)
    (trace,) = tmp_path.iterdir()
    expected = f"{tmp_path}/" if names_folder else str(trace)
    assert ended.stderr == f"vramtrace: peak 6.00 MiB on GPU 0 · vramtrace report {expected}\n"
    subprocess.run([ANALYZER, "report", expected], check=True, capture_output=True)
