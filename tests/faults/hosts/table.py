"""The hosts: programs that are run with the shim and without it, and have to be the same (run.py).

A host is a name, its kind (the heading in docs/reliability.md) and a command. {bin} is the folder of the built programs,
{here} this folder, {python} the tests' interpreter, {work} the folder that it runs in. More, where it is not the usual:

needs     what it cannot do without: programs by name, `root`, `python:MODULE`, `file:PATH`
runs      how often with and without the shim, in the long form
env       variables of its environment, in both
shim_env  variables only where the shim is: its settings. {trace} is the folder for traces
stderr    "line": our one line at the end is taken out before comparing. "exact": any byte of ours is a difference
trace     "whole": what is recorded and what is told as lost add up to what the host did. "told": nothing may be recorded,
          if our line says so. "silent": nothing may be recorded, and nothing said. "none": no trace may be there
files     names that may be in the host's folder with the shim only, as patterns
known     a difference that is known and stands in the README too: one sentence. Empty: there is none
slow      only in the long form
"""
import dataclasses


@dataclasses.dataclass
class Host:
    name: str
    kind: str
    command: list
    needs: tuple = ()
    runs: int = 3
    env: dict = dataclasses.field(default_factory=dict)
    shim_env: dict = dataclasses.field(default_factory=dict)
    stderr: str = "line"
    trace: str = "whole"
    files: tuple = ()
    known: str = ""
    slow: bool = False
    timeout_s: float = 30
    bytes_per_event: float = 0  # where it is looked at
    prepare: str = ""  # a shell command in {work}, before

    def __post_init__(self):
        if isinstance(self.command, str):
            program, *rest = self.command.split()
            self.command = ["{bin}/host_" + program, *rest]


def table():
    hosts = []

    def kind(name, *entries, **common):
        for entry in entries:
            title, command, *rest = entry
            hosts.append(Host(title, name, command, **{**common, **(rest[0] if rest else {})}))

    kind("descriptors",
         *[(f"closes all {when} CUDA began, opens {what}", f"descriptors close_all {when} {what}")
           for when in ("before", "after") for what in ("files", "sockets", "pipes")],
         ("lists its descriptors, opens the lowest", "descriptors lowest"),
         ("selects on all", "descriptors select"),
         ("children inherit", "descriptors inherited"),
         ("close on exec", "descriptors close_on_exec"),
         ("threads open and close all the time", "descriptors busy"),
         *[(f"begins with {numbers} closed", f"descriptors closed {numbers}", {"stderr": "exact" if "2" in numbers else "line"})
           for numbers in ("0", "1", "2", "12", "012")])

    kind("cancelled threads",
         ("cancelled, deferred, with a lock", "threads cancel deferred 200"),
         ("cancelled at its first call", "threads cancel first 200"),
         ("cancelled asynchronously, between calls", "threads cancel asynchronous 100"),
         ("cancellation pending, from the first call", "threads cancel_pending"),
         ("cancellation pending, later", "threads cancel_pending later"))

    kind("ends of threads",
         ("main ends by pthread_exit", "threads exit_of_main"),
         ("only main, and it ends by pthread_exit", "threads exit_of_only_main"),
         ("SIGTERM when main has gone", "threads terminated_without_main"),
         ("exit while threads work", "threads exit_while_working"),
         ("quick_exit while threads work", "threads exit_while_working quick"),
         ("destructors of thread data", "threads thread_destructors"))

    kind("daemons",
         *[(f"daemon, descriptor 2 is {what}, CUDA {when}", f"daemons daemonize {what} {when}", {"stderr": "exact"})
           for what in ("file", "socket", "pipe", "nobody", "closed") for when in ("before", "after")],
         ("daemon after CUDA", "daemons after_cuda", {"stderr": "exact"}),
         ("stderr given away", "daemons stderr_given_away", {"stderr": "exact"}),
         ("detached, ignores hangups", "daemons detached"),
         ("nohup", ["nohup", "{bin}/host_processes", "ordinary"], {"needs": ("nohup",)}),
         ("setsid", ["setsid", "-w", "{bin}/host_processes", "ordinary"], {"needs": ("setsid",)}))

    kind("quiet",
         ("quiet", "processes ordinary", {"shim_env": {"VRAMTRACE_QUIET": "1"}}),
         ("quiet, cannot write", "processes ordinary",
          {"shim_env": {"VRAMTRACE_QUIET": "1", "VRAMTRACE_OUT": "/no/such/folder/x.vrt"}, "trace": "silent"}),
         ("quiet, wrong settings", "processes ordinary",
          {"shim_env": {"VRAMTRACE_QUIET": "1", "VRAMTRACE_RING": "lots", "VRAMTRACE_INSPECT": "perhaps"}}),
         ("quiet, full disk at once", ["{here}/small_disk.sh", "1m", "{bin}/host_processes", "ordinary"],
          {"shim_env": {"VRAMTRACE_QUIET": "1", "VRAMTRACE_OUT": "{work}/disk/x.vrt"}, "trace": "silent", "needs": ("root",)}),
         ("quiet, full disk later", ["{here}/small_disk.sh", "4300k", "{bin}/host_processes", "ordinary", "300000"],
          {"shim_env": {"VRAMTRACE_QUIET": "1", "VRAMTRACE_OUT": "{work}/disk/x.vrt"}, "trace": "silent", "needs": ("root",)}),
         ("switched off", "processes ordinary", {"shim_env": {"VRAMTRACE_ENABLE": "0"}, "stderr": "exact", "trace": "none"}),
         stderr="exact")

    kind("system call filters",
         *[(f"seccomp {action}, {when} CUDA{alone}", f"jails seccomp {when} {action} {alone}", {"trace": "told"})
           for action in ("errno", "nosys", "trap", "thread", "process")
           for when in ("first", "after") for alone in ("", "alone")])

    kind("limits",
         *[(f"{size} MiB of address space, {when}", f"limits address_space {size} {when}", {"trace": "told"})
           for size in (40, 60, 100, 300) for when in ("first", "after")],
         *[(f"takes {part} of {size} MiB", f"limits ordinary {size} {part}", {"trace": "told"})
           for size, part in ((60, 20), (100, 60), (300, 250))],
         *[(f"{number} descriptors, {when}", f"limits descriptors {number} {when}", {"trace": "told"})
           for number in (5, 8, 16) for when in ("first", "after")],
         *[(f"files of {size} KiB, {when}, {action}", f"limits file_size {size} {when} {action}", {"trace": "told"})
           for size in (0, 1024, 5000) for when in ("first", "after") for action in ("killed", "ignored")],
         ("no more processes, first", "limits processes first", {"needs": ("root",), "trace": "told"}),
         ("no more processes, after", "limits processes after", {"needs": ("root",), "trace": "told"}),
         ("one more thread is allowed", "limits thread_allowed", {"needs": ("root",), "trace": "told"}),
         ("small stack of main", "limits stack 256"),
         ("a second of processor time", "limits processor_time"),
         ("sleeps", "limits idle"),
         ("locks all memory, first", "limits lock_memory first"),
         ("locks all memory, after", "limits lock_memory after"),
         ("locks all memory, and may lock little", "limits lock_little", {"needs": ("root",), "trace": "told"}),
         ("few signals may wait", "limits pending_signals", {"needs": ("root",), "trace": "told"}),
         ("threads on the smallest stacks", "threads smallest_stacks"),
         ("threads on 32 KiB", "threads smallest_stacks 32"),
         prepare="chmod 777 . ../trace")

    kind("names",
         ("looks names up", "linking lookups", {"trace": "none"}),
         ("looks names up, libcuda is global", "linking lookups global", {"trace": "none"}),
         ("dlsym RTLD_NEXT from main", "linking next", {"trace": "told"}))

    kind("where the trace goes",
         ("/dev/null", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "/dev/null"}, "trace": "told"}),
         ("a FIFO", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "fifo"}, "prepare": "mkfifo fifo", "trace": "told"}),
         ("a socket", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "socket"}, "trace": "told", "prepare":
          "{python} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'"}),
         ("a missing folder", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "no/x.vrt"}, "trace": "told"}),
         ("a read-only folder", ["setpriv", "--reuid=64321", "--clear-groups", "{bin}/host_processes", "ordinary"],
          {"shim_env": {"VRAMTRACE_OUT": "kept/x.vrt"}, "prepare": "mkdir -m 555 kept", "needs": ("root", "setpriv"),
           "trace": "told"}),
         ("a link to elsewhere", "processes ordinary",
          {"shim_env": {"VRAMTRACE_OUT": "link.vrt"}, "prepare": "echo kept >file; ln -s file link.vrt", "trace": "told",
           "files": (r"link\.1\.vrt",)}),
         ("a link to nothing", "processes ordinary",
          {"shim_env": {"VRAMTRACE_OUT": "link.vrt"}, "prepare": "ln -s nothing link.vrt", "trace": "told",
           "files": (r"link\.1\.vrt",)}),
         ("a file that is there", "processes ordinary",
          {"shim_env": {"VRAMTRACE_OUT": "x.vrt"}, "prepare": "echo kept >x.vrt", "files": (r"x\.1\.vrt",)}),
         ("a folder", "processes ordinary",
          {"shim_env": {"VRAMTRACE_OUT": "folder"}, "prepare": "mkdir folder", "files": (r"folder/vramtrace\..*\.vrt",)}),
         ("/dev/full", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "/dev/full"}, "trace": "told"}),
         ("/dev/stderr", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "/dev/stderr"}, "trace": "told"}),
         ("a name too long", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "x" * 300 + ".vrt"}, "trace": "told"}),
         ("/proc/self/x.vrt", "processes ordinary", {"shim_env": {"VRAMTRACE_OUT": "/proc/self/x.vrt"}, "trace": "told"}))

    kind("killed", ("killed at its start", "processes killed 50", {"stderr": "exact", "runs": 1}))

    kind("jumps and frozen threads",
         ("siglongjmp out of calls", "signals jumps"),
         ("threads frozen in their calls", "threads freeze"))

    kind("environment",
         *[(f"{how}env in threads", f"environment change {how}") for how in ("set", "unset", "put", "clear")],
         ("the environment is kept", "environment kept"),
         ("clears the environment", "environment cleared"))

    kind("many threads",
         ("800 short threads", "threads short 800", {"bytes_per_event": 60}),
         ("10000 short threads", "threads short 10000", {"bytes_per_event": 60, "runs": 1}),
         ("500 threads together", "threads together 500", {"bytes_per_event": 100}))
    return hosts
