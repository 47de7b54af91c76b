"""The hosts: programs that run with the recorder and without it, and must behave the same (run.py).

A host has a name, a kind (its heading in docs/results/hosts.md) and a command. The command is one of the built programs with
its arguments, or any other command after a $. {bin} is the folder of the built programs, {here} this folder, {python} the
tests' interpreter, {work} the host's working folder. Optional fields:

needs     what it requires: programs by name, `root`, `python:MODULE`, `file:PATH`
runs      number of runs with and without the recorder, in the long form
env       environment variables, for both
recorder_env  environment variables only with the recorder: its settings. {trace} is the folder for traces
stderr    "line": our one line at the end is removed before comparing. "exact": any byte of ours is a difference
trace     "whole": recorded events plus events reported as lost add up to what the host did
          "sum": the same, summed over all processes, since they share memory
          "reported": nothing may be recorded, if our line says so
          "silent": nothing may be recorded, and nothing printed
          "none": no trace may exist
          "any": not checked, since the host damages it
files     patterns of names that may be in the host's folder with the recorder only
ends      how it ends bare, so that a host that fails to do its work is detected
mask      patterns of what differs in every run: addresses, times
known     a known difference, as one sentence that docs/limits.md has too. Empty: none
slow      only in the long form
"""
import dataclasses
import os
import shlex


@dataclasses.dataclass(eq=False)
class Host:
    name: str
    kind: str
    command: list
    needs: tuple = ()
    runs: int = 3
    env: dict = dataclasses.field(default_factory=dict)
    recorder_env: dict = dataclasses.field(default_factory=dict)
    stderr: str = "line"
    trace: str = "whole"
    files: tuple = ()
    ends: str = "status 0"
    mask: tuple = ()
    known: str = ""
    slow: bool = False
    timeout_s: float = 30
    bytes_per_event: float = 0  # limit; 0: not checked
    prepare: str = ""  # a shell command to run in {work} first

    def __post_init__(self):
        if isinstance(self.command, str):
            program, *rest = shlex.split(self.command)
            self.command = rest if program == "$" else ["{bin}/host_" + program, *rest]


OUT = "VRAMTRACE_OUT"
QUIET = {"VRAMTRACE_QUIET": "1"}  # for hosts whose processes share stderr

# Known differences, word for word as in docs/limits.md.
EXIT = {"known": "Calls that other threads make while the process exits are not recorded, and the last of them are not counted as lost."}
FILE = {"known": "A recorded process has one more open file, numbered above 900, or in the upper half of what RLIMIT_NOFILE allows."}
THREAD = {"known": "It has one more thread, which counts toward RLIMIT_NPROC; the kernel refuses unshare(CLONE_NEWUSER) to a process "
                   "with several threads."}
FILTER = {"known": "A system-call filter for all threads that traps calls or kills the process also applies to the recorder's thread, "
                   "which needs openat, pwrite64, newfstatat and the like."}
HELGRIND = {"known": "helgrind reports the recorder's own code, which is free of locks."}
ANYWHERE = {"known": "A thread that is cancelled asynchronously inside a hook returns NULL instead of PTHREAD_CANCELED (seen "
                     "with glibc 2.36)."}
ROOT = {"needs": ("root",)}
OTHER_USER = {"needs": ("root", "others")}  # becomes one before it has loaded everything
PYTHON = {"HOST_LIBRARY": "{bin}/libhost.so", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
PYTHON_LIBRARY = {"needs": ("file:{libpython}",)}
SANITIZED = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0", "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
VALGRIND = {"needs": ("valgrind",), "timeout_s": 120, "slow": True, "mask": (r"==\d+==", r"0x[0-9A-F]+")}
ALLOCATORS = f"/usr/lib/{os.uname().machine}-linux-gnu/"


def table():
    hosts = []

    def kind(name, *entries, **common):
        for entry in entries:
            title, command, *rest = entry
            hosts.append(Host(title, name, command, **{**common, **(rest[0] if rest else {})}))

    kind("descriptors",
         *[(f"closes all {when} CUDA begins, opens {what}", f"descriptors close_all {when} {what}")
           for when in ("before", "after") for what in ("files", "sockets", "pipes")],
         ("lists its descriptors, opens the lowest", "descriptors lowest", FILE),
         ("selects on all descriptors", "descriptors select", FILE),
         ("children inherit descriptors", "descriptors inherited", FILE),
         ("close on exec", "descriptors close_on_exec"),
         ("threads open and close continuously", "descriptors busy"),
         ("picks every number with dup2", "descriptors chooses"),
         *[(f"starts with {numbers} closed", f"descriptors closed {numbers}",
            {"stderr": "exact" if "2" in numbers else "line"})
           for numbers in ("0", "1", "2", "12", "012")])

    kind("cancelled threads",
         ("cancelled, deferred, holding a lock", "threads cancel deferred 200"),
         ("cancelled at its first call", "threads cancel first 200"),
         ("cancelled asynchronously, inside calls", "threads cancel asynchronous 100", ANYWHERE),
         ("cancellation pending, from the first call", "threads cancel_pending"),
         ("cancellation pending, later", "threads cancel_pending later"))

    kind("thread exit",
         ("main ends with pthread_exit", "threads exit_of_main"),
         ("main is the only thread, ends with pthread_exit", "threads exit_of_only_main"),
         ("SIGTERM after main has ended", "threads terminated_without_main"),
         ("exit while threads work", "threads exit_while_working", {"ends": "status 9", **EXIT}),
         ("quick_exit while threads work", "threads exit_while_working quick", {"ends": "status 9"}),
         ("destructors of thread-specific data", "threads thread_destructors"))

    kind("daemons",
         *[(f"daemon, descriptor 2 is {what}, CUDA {when}", f"daemons daemonize {way} {when}", {"stderr": "exact"})
           for what, way in (("a file", "file"), ("a socket", "socket"), ("a pipe", "pipe"), ("a pipe without reader", "nobody"),
                             ("closed", "closed")) for when in ("before", "after")],
         ("daemon after CUDA", "daemons after_cuda", {"stderr": "exact"}),
         ("stderr redirected to a file later", "daemons stderr_given_away", {"stderr": "exact"}),
         ("detached, ignores SIGHUP", "daemons detached"),
         ("nohup", "$ nohup {bin}/host_processes ordinary", {"needs": ("nohup",)}),
         ("setsid", "$ setsid -w {bin}/host_processes ordinary", {"needs": ("setsid",)}))

    kind("quiet",
         ("quiet", "processes ordinary", {"recorder_env": QUIET}),
         ("quiet, cannot write", "processes ordinary",
          {"recorder_env": {**QUIET, OUT: "/no/such/folder/x.vrt"}, "trace": "silent"}),
         ("quiet, wrong settings", "processes ordinary",
          {"recorder_env": {**QUIET, "VRAMTRACE_RING": "lots", "VRAMTRACE_INSPECT": "perhaps"}}),
         ("quiet, full disk at once", "$ {here}/small_disk.sh 4k {bin}/host_processes ordinary",
          {**ROOT, "recorder_env": {**QUIET, OUT: "{work}/disk/x.vrt"}, "trace": "silent"}),
         ("quiet, full disk later", "$ {here}/small_disk.sh 300k {bin}/host_processes ordinary 300000",
          {**ROOT, "recorder_env": {**QUIET, OUT: "{work}/disk/x.vrt"}, "trace": "silent"}),
         ("switched off", "processes ordinary", {"recorder_env": {"VRAMTRACE_ENABLE": "0"}, "trace": "none"}),
         stderr="exact")

    kind("system call filters",
         *[(f"{action}, {'before CUDA begins' if when == 'first' else 'after CUDA begins'}{', one thread' * bool(alone)}",
            f"jails seccomp {when} {action} {alone}",
            {"trace": "reported", "ends": "status 4", **(FILTER if action in ("trap", "process") and not alone else {})})
           for action in ("errno", "nosys", "trap", "thread", "process")
           for when in ("first", "after") for alone in ("", "alone")])

    kind("limits",
         *[(f"{size} MiB of address space, {when}", f"limits address_space {size} {when}", {"trace": "reported"})
           for size in (40, 60, 100, 300) for when in ("first", "after")],
         *[(f"uses {part} of {size} MiB", f"limits ordinary {size} {part}", {"trace": "reported"})
           for size, part in ((60, 20), (100, 60), (300, 250))],
         *[(f"{number} descriptors, {when}", f"limits descriptors {number} {when}",
            {"trace": "reported", **(FILE if when == "first" else {})})
           for number in (5, 8, 16) for when in ("first", "after")],
         *[(f"file size limit {size} KiB, {when}, {action}", f"limits file_size {size} {when} {action}", {"trace": "reported"})
           for size in (0, 1024, 5000) for when in ("first", "after") for action in ("killed", "ignored")],
         ("no further process allowed, first", "limits processes first", {**OTHER_USER, "trace": "reported"}),
         ("no further process allowed, after", "limits processes after", {"needs": ("root",), "trace": "reported"}),
         ("one more thread allowed", "limits thread_allowed", {**OTHER_USER, "trace": "reported", **THREAD}),
         ("small stack for main", "limits stack 256"),
         ("one second of CPU time", "limits processor_time"),
         ("sleeps", "limits idle"),
         ("resident memory", "limits resident"),
         ("locks all memory, first", "limits lock_memory first"),
         ("locks all memory, after", "limits lock_memory after"),
         ("locks all memory, low lock limit", "limits lock_little", {**OTHER_USER, "trace": "reported"}),
         ("low limit of pending signals", "limits pending_signals", {**OTHER_USER, "trace": "reported"}),
         ("threads on the smallest stacks", "threads smallest_stacks"),
         ("threads on 32 KiB", "threads smallest_stacks 32"),
         prepare="chmod 777 . ../trace")

    kind("name lookup",
         ("looks up names", "linking lookups", {"trace": "none"}),
         ("looks up names, libcuda is global", "linking lookups global", {"trace": "none"}),
         ("dlsym RTLD_NEXT from main", "linking next"))

    kind("trace destination",
         ("/dev/null", "processes ordinary", {"recorder_env": {OUT: "/dev/null"}, "trace": "reported"}),
         ("a FIFO", "processes ordinary", {"recorder_env": {OUT: "fifo"}, "prepare": "mkfifo fifo", "trace": "reported"}),
         ("a socket", "processes ordinary", {"recorder_env": {OUT: "socket"}, "trace": "reported", "prepare":
          "{python} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'"}),
         ("a missing folder", "processes ordinary", {"recorder_env": {OUT: "no/x.vrt"}, "trace": "reported"}),
         ("a read-only folder", "$ setpriv --reuid=64321 --clear-groups {bin}/host_processes ordinary",
          {"recorder_env": {OUT: "kept/x.vrt"}, "prepare": "mkdir -m 555 kept", "needs": ("root", "others", "setpriv"),
           "trace": "reported"}),
         ("a link to another file", "processes ordinary",
          {"recorder_env": {OUT: "link.vrt"}, "prepare": "echo kept >file; ln -s file link.vrt", "trace": "reported",
           "files": (r"link\.1\.vrt",)}),
         ("a dangling link", "processes ordinary",
          {"recorder_env": {OUT: "link.vrt"}, "prepare": "ln -s nothing link.vrt", "trace": "reported",
           "files": (r"link\.1\.vrt",)}),
         ("an existing file", "processes ordinary",
          {"recorder_env": {OUT: "x.vrt"}, "prepare": "echo kept >x.vrt", "files": (r"x\.1\.vrt",)}),
         ("a folder", "processes ordinary",
          {"recorder_env": {OUT: "folder"}, "prepare": "mkdir folder", "files": (r"folder/vramtrace\..*\.vrt",)}),
         ("/dev/full", "processes ordinary", {"recorder_env": {OUT: "/dev/full"}, "trace": "reported"}),
         ("/dev/stderr", "processes ordinary", {"recorder_env": {OUT: "/dev/stderr"}, "trace": "reported"}),
         ("a name that is too long", "processes ordinary", {"recorder_env": {OUT: "x" * 300 + ".vrt"}, "trace": "reported"}),
         ("the trace is truncated", "processes meddles truncate", {"trace": "any"}),
         ("the trace is removed", "processes meddles remove", {"trace": "silent"}),
         ("the trace is moved", "processes meddles rename"),
         ("/proc/self/x.vrt", "processes ordinary", {"recorder_env": {OUT: "/proc/self/x.vrt"}, "trace": "reported"}))

    kind("killed", ("killed at startup", "processes killed 50", {"stderr": "exact", "runs": 1}))

    kind("jumps and frozen threads",
         ("siglongjmp out of calls", "signals jumps"),
         ("threads frozen in their calls", "threads freeze"))

    kind("environment",
         *[(f"{how}env in threads", f"environment change {how}") for how in ("set", "unset", "put", "clear")],
         ("the environment stays the same", "environment kept"),
         ("clears the environment, first", "environment cleared before"),
         ("clears the environment, after", "environment cleared after"))

    kind("many threads",
         ("800 short-lived threads", "threads short 800", {"bytes_per_event": 60}),
         ("10000 short-lived threads", "threads short 10000", {"bytes_per_event": 60, "runs": 1, "slow": True}),
         ("500 concurrent threads", "threads together 500", {"bytes_per_event": 100}))

    kind("processes",
         ("an ordinary program", "processes ordinary"),
         ("a million calls", "processes ordinary 500000", {"runs": 1, "slow": True}),
         ("a program without CUDA", "processes bystander", {"trace": "none", "stderr": "exact"}),
         ("workers start workers", "processes workers 5 3", {"recorder_env": QUIET}),
         ("CUDA begins in the workers", "processes own_cuda", {"recorder_env": QUIET}),
         ("vfork and exec", "processes vfork"),
         ("vfork and _exit", "processes vfork exit"),
         ("posix_spawn", "processes spawn", {"trace": "whole"}),
         ("posix_spawn of programs that use CUDA", "processes spawn cuda", {"recorder_env": QUIET}),
         ("clone sharing memory", "processes clone memory", {"trace": "sum"}),
         ("clone sharing memory and files", "processes clone files", {"trace": "sum"}),
         ("fork in a signal handler", "processes fork_in_handler", {"recorder_env": QUIET}),
         ("fork in a signal handler after a library was loaded", "processes fork_in_handler_after_load", {"recorder_env": QUIET}),
         ("fork in a signal handler, the child returns", "processes fork_in_handler returns", {"recorder_env": QUIET, "trace": "any"}),
         ("fork while threads allocate", "processes fork_while_working 40", {"recorder_env": QUIET}),
         ("fork in threads", "processes fork_in_threads", {"recorder_env": QUIET}),
         ("exec after CUDA", "processes exec_after"),
         ("exec while threads work", "processes exec_after threads"),
         ("exec of a program without CUDA", "processes exec_bystander"),
         ("exec that fails", "processes exec_fails"),
         ("stopped and continued", "processes stopped"),
         ("fork handlers call CUDA", "processes handlers_of_fork", {"recorder_env": QUIET}),
         ("exit in a thread", "processes ends thread", {"ends": "status 11"}),
         ("_exit in a thread", "processes ends at_once", {"ends": "status 11"}),
         ("_exit in a signal handler", "processes ends handler", {"ends": "status 11"}),
         ("abort at exit", "processes ends atexit", {"ends": "signal SIGABRT"}),
         ("traced by its parent", "processes traced"),
         ("every system call is traced", "processes watched"))

    kind("jails",
         ("chroot", "jails chroot", ROOT),
         ("the working folder is removed", "jails chdir"),
         ("gives up root, first", "jails drop_user first", {**OTHER_USER, "prepare": "chmod 777 ../trace"}),
         ("gives up root, after", "jails drop_user after", ROOT),
         *[(f"unshare {which}, {when}", f"jails namespaces {which} {when}",
           {**ROOT, "recorder_env": QUIET, "trace": "silent" if (which, when) == ("pid", "first") else "whole",
            **(THREAD if (which, when) == ("user", "after") else {})})
           for which in ("mount", "pid", "net", "user", "ipc", "files", "fs") for when in ("first", "after")],
         ("no /proc, first", "jails no_proc first", ROOT),
         ("no /proc, after", "jails no_proc after", ROOT),
         ("everything read-only, first", "jails read_only", {**ROOT, "trace": "reported"}),
         ("everything read-only, after", "jails read_only after", {**ROOT, "trace": "reported"}),
         ("process settings", "jails process_settings"),
         ("child dies with its parent", "jails parent_dies", {"recorder_env": QUIET}),
         ("OOM score", "jails memory_score"),
         ("a PID namespace", "$ unshare -fp --mount-proc {bin}/host_processes ordinary", ROOT),
         ("no_new_privs by setpriv", "$ setpriv --no-new-privs {bin}/host_processes ordinary", {"needs": ("setpriv",)}),
         ("no capabilities", "$ setpriv --bounding-set=-all --inh-caps=-all {bin}/host_processes ordinary",
          {"needs": ("root", "setpriv")}),
         ("TMPDIR does not exist", "processes ordinary", {"env": {"TMPDIR": "/no/such/folder"}}),
         ("HOME does not exist", "processes ordinary", {"env": {"HOME": "/no/such/folder"}}),
         ("stdin, stdout, stderr closed by a shell", "$ sh -c 'exec <&- >&- 2>&-; {bin}/host_processes ordinary'"),
         ("stderr is full", "$ sh -c 'exec {bin}/host_processes ordinary 2>/dev/full'"))

    kind("signals",
         ("calls in handlers, inside calls", "signals calls_in_handler"),
         ("1 kHz of signals, calls restart", "signals storm restart"),
         ("1 kHz of signals, calls are interrupted", "signals storm none"),
         ("only the host's threads get signals", "signals whose_thread"),
         ("waits for all signals", "signals wait_for_all"),
         ("masks, pending signals and handlers", "signals masks"),
         ("SIGPIPE kills", "signals broken_pipe", {"ends": "signal SIGPIPE"}),
         ("SIGPIPE is handled", "signals broken_pipe handled"),
         *[(f"children, {how}", f"signals children {how}", {"recorder_env": QUIET}) for how in ("count", "nowait", "wait")],
         ("alarm and timers", "signals timers"),
         ("small signal stack", "signals other_stack"),
         ("jumps out of signal handlers", "stacks handler_stack"),
         ("SIGSEGV handler jumps", "signals faults"),
         ("started with signals ignored", "$ env --ignore-signal=HUP,INT,TERM,PIPE {bin}/host_signals masks"),
         *[(f"dies of {name}", f"signals dies {number}", {"ends": f"signal {name}"}) for name, number in
           (("SIGABRT", 6), ("SIGSEGV", 11), ("SIGTERM", 15), ("SIGKILL", 9), ("SIGINT", 2))])

    kind("threads",
         ("counts its tasks", "threads count_tasks", THREAD),
         ("names, CPU affinity, niceness, masks", "threads settings"),
         ("uses all thread-specific keys, first", "threads all_keys"),
         ("uses all thread-specific keys, after", "threads all_keys after"))

    kind("stacks",
         ("coroutines of 64 KiB", "stacks coroutines 64"),
         ("coroutines of 16 KiB", "stacks coroutines 16"),
         ("hand-made stacks of 64 KiB", "stacks handmade 64"),
         ("hand-made stacks of 16 KiB", "stacks handmade 16"),
         ("code without unwind information", "stacks jit"),
         ("the same with a wrong frame pointer", "stacks jit spoiled"),
         ("the same, unloaded", "stacks jit_goes"),
         ("deep recursion", "stacks recursion"),
         ("stack use of a call", "stacks stack_used"))

    kind("linking and loading",
         ("linked with libcuda", "$ {bin}/host_lazy"),
         ("linked, bound at startup", "$ {bin}/host_now"),
         ("linked, at a fixed address", "$ {bin}/host_fixed"),
         ("LD_BIND_NOW", "processes ordinary", {"env": {"LD_BIND_NOW": "1"}}),
         ("LD_AUDIT", "processes ordinary", {"env": {"LD_AUDIT": "{bin}/host_audit.so"}}),
         ("LD_AUDIT, linked", "$ {bin}/host_lazy", {"env": {"LD_AUDIT": "{bin}/host_audit.so"}}),
         ("a constructor uses CUDA", "linking constructor"),
         ("destructors use CUDA", "linking destructor"),
         ("only destructors use CUDA", "linking destructor only"),
         ("CUDA begins at exit", "linking only_at_exit"),
         ("plugins load and unload", "$ {bin}/host_linking plugin plain {bin}/host_plugin.so 200"),
         ("plugins bind to themselves", "$ {bin}/host_linking plugin deep {bin}/host_plugin.so 50"),
         ("plugins in their own namespaces", "$ {bin}/host_linking plugin namespace {bin}/host_plugin.so 5"),
         ("libcuda is closed and loaded again", "linking reload"),
         ("malloc calls CUDA", "linking malloc_hook"),
         *[(f"{name} {order}", "threads together 100", {"env": {"LD_PRELOAD": value}, "needs": (f"file:{path}",)})
           for name, path in (("jemalloc", ALLOCATORS + "libjemalloc.so.2"), ("mimalloc", ALLOCATORS + "libmimalloc.so.2"),
                              ("tcmalloc", ALLOCATORS + "libtcmalloc_minimal.so.4"))
           for order, value in (("behind", path), ("before", path + ":{recorder}"))])

    kind("C++",
         *[(title, f"objects {name}", {"needs": ("file:{bin}/host_objects",), "ends": ends}) for title, name, ends in
           (("exceptions through C frames", "exceptions", "status 0"),
            ("exceptions in threads", "exceptions_in_threads", "status 0"),
            ("static objects are destroyed", "static", "status 0"),
            ("thread_local objects are destroyed", "thread_local", "status 0"),
            ("operator new calls CUDA", "new", "status 0"),
            ("std::terminate is replaced", "terminates", "status 5"),
            ("uncaught exception", "uncaught", "signal SIGABRT"))])

    kind("sanitizers and debuggers",
         *[(f"{name} sanitizer, {what}", f"{command.split()[0]}_{name} {command.partition(' ')[2]}",
            {"needs": (f"file:{{bin}}/host_processes_{name}",), "env": SANITIZED, "recorder_env": extra})
           for name, extra in (("address", {}), ("undefined", {}), ("thread", {"VRAMTRACE_NATIVE_STACKS": "0"}))
           for what, command in (("ordinary", "processes ordinary"), ("threads", "threads together 50"))],
         ("strace", "$ strace -f -o ../strace {bin}/host_processes ordinary", {"needs": ("strace",)}),
         ("gdb", "$ gdb -q -nx -batch -ex 'set print thread-events off' -ex run --args {bin}/host_threads together 20",
          {"needs": ("gdb",), "slow": True, "mask": (r"process \d+",)}),
         ("gdb attaches", "$ {here}/attach.sh {bin}/host_processes ordinary 200000", {"needs": ("gdb",), "slow": True}),
         ("valgrind", "$ valgrind -q --error-exitcode=9 {bin}/host_processes ordinary",
          VALGRIND),
         ("valgrind, threads", "$ valgrind -q --error-exitcode=9 {bin}/host_threads together 20",
          VALGRIND),
         ("valgrind, no native stacks", "$ valgrind -q --error-exitcode=9 {bin}/host_threads together 20",
          {**VALGRIND, "recorder_env": {"VRAMTRACE_NATIVE_STACKS": "0"}}),
         ("helgrind", "$ valgrind -q --tool=helgrind --error-exitcode=9 {bin}/host_threads together 10",
          {**VALGRIND, **HELGRIND}))

    kind("Python",
         *[(name.replace("_", " "), f"$ {{python}} {{here}}/python_hosts.py {name}") for name in
           ("plain", "threads", "daemon_threads", "processes", "coroutines", "subinterpreters", "interrupted", "handlers",
            "at_exit", "collector", "traced", "counted", "warned", "terminal", "kernel_of_notebook")],
         *[(name.replace("_", " "), f"$ {{python}} {{here}}/python_hosts.py {name}", {"recorder_env": QUIET}) for name in
           ("fork", "fork_in_threads", "pool_fork", "pool_spawn", "pool_forkserver", "queue_between_processes", "futures",
            "standard_streams")],
         ("fault handler", "$ {python} {here}/python_hosts.py fault_handler",
          {"ends": "signal SIGABRT", "mask": (r"0x[0-9a-f]+",)}),
         ("interrupted by SIGINT", "$ {python} {here}/python_hosts.py interrupted now", {"ends": "signal SIGINT"}),
         ("uncaught exception", "$ {python} {here}/python_hosts.py failing",
          {"ends": "status 1", "recorder_env": QUIET}),
         ("-X dev", "$ {python} -X dev {here}/python_hosts.py threads"),
         ("-X dev, warnings", "$ {python} -X dev {here}/python_hosts.py warned"),
         ("-W error", "$ {python} -W error {here}/python_hosts.py warned"),
         ("-X tracemalloc", "$ {python} -X tracemalloc {here}/python_hosts.py plain"),
         ("-I -S", "$ {python} -I -S {here}/python_hosts.py plain"),
         ("PYTHONMALLOC=debug", "$ {python} {here}/python_hosts.py plain", {"env": {**PYTHON, "PYTHONMALLOC": "debug"}}),
         ("under unittest", "$ {python} -m unittest -q unittest_host",
          {"env": {**PYTHON, "PYTHONPATH": "{here}"}, "mask": (r"[0-9.]+s\b",)}),
         env=PYTHON)

    kind("other languages",
         ("embedded Python, three rounds", "$ {bin}/host_embed {libpython} rounds", PYTHON_LIBRARY),
         ("embedded Python, threads of the host", "$ {bin}/host_embed {libpython} threads", PYTHON_LIBRARY),
         ("Java", "$ java -Xshare:off {here}/Host.java {bin}/host_foreign.so", {"needs": ("javac",), "slow": True}),
         ("JavaScript", "$ node {here}/host.js {bin}/host_foreign.so", {"needs": ("node",)}),
         env={**PYTHON, "PYTHONHOME": "{prefix}"})  # else the library takes the modules of the first python in PATH

    kind("bystanders",
         ("sh", "$ sh -c 'echo $((1 + 1)); exit 3'", {"ends": "status 3"}),
         ("bash", "$ bash -c 'set -m; sleep 0.1 & wait; for i in 1 2 3; do echo $i | cat; done; kill -TERM $$'",
          {"needs": ("bash",), "ends": "signal SIGTERM"}),
         ("perl", "$ perl -e 'print join('\\'','\\'', sort { $a <=> $b } 3, 1, 2); fork; wait'", {"needs": ("perl",)}),
         ("node", "$ node -e 'setTimeout(() => console.log(`fine`), 20)'", {"needs": ("node",)}),
         ("java", "$ java -version", {"needs": ("java",)}),
         ("git", "$ git --version", {"needs": ("git",)}),
         ("tar", "$ sh -c 'tar cf - /etc/hostname 2>/dev/null | tar tf -'", {"needs": ("tar",)}),
         ("timeout", "$ timeout 0.3 sleep 5", {"ends": "status 124"}),
         ("xargs", "$ sh -c 'seq 20 | xargs -P 4 -n 2 echo | sort'"),
         ("env -i", "$ env -i /bin/echo fine"),
         ("Python", """$ {python} -c 'import os; print([len(os.listdir("/proc/self/" + what)) for what in ("fd", "task")])'"""),
         ("cc", """$ sh -c 'echo "int main(void) { return 3; }" | cc -x c - -o program; ./program && true'""",
          {"needs": ("cc",), "ends": "status 3", "mask": (r"(?s)755 .*",)}),
         stderr="exact", trace="none")

    kind("shells and supervisors around CUDA",
         ("timeout kills it", "$ timeout 0.3 {bin}/host_processes ordinary 100000000", {"ends": "status 124"}),
         ("timeout, ends in time", "$ timeout 20 {bin}/host_processes ordinary"),
         ("timeout -k", "$ timeout -s INT -k 1 0.3 {bin}/host_processes ordinary 100000000", {"ends": "status 124"}),
         ("the reader of a pipe ends", "$ sh -c '{bin}/host_processes ordinary 1000 | true'"),
         ("shell jobs", "$ bash -c 'for i in 1 2 3; do {bin}/host_processes ordinary $i > out$i & done; wait; cat out?'",
          {"needs": ("bash",), "recorder_env": QUIET}),
         ("xargs -P", "$ sh -c 'seq 8 | xargs -P 4 -n 1 {bin}/host_processes ordinary | sort'", {"recorder_env": QUIET}),
         ("nice and taskset", "$ nice -n 5 taskset 1 {bin}/host_threads settings", {"needs": ("taskset",)}),
         ("stdbuf", "$ stdbuf -oL {bin}/host_processes ordinary", {"needs": ("stdbuf",)}),
         ("prlimit", "$ prlimit --core=0 --memlock=65536 --nofile=64 --sigpending=32 {bin}/host_threads together 20",
          {"needs": ("prlimit",)}))

    kind("Python servers and frameworks",
         *[(name, ["{cache}/venv-hosts/bin/python", "{here}/python_hosts.py", way], {"env": PYTHON})
           for name, way in (("greenlet", "greenlets"), ("gevent", "gevents"))],
         ("gunicorn, CUDA in the workers", "$ {cache}/venv-hosts/bin/python {here}/server.py gunicorn"),
         ("gunicorn, CUDA before the fork", "$ {cache}/venv-hosts/bin/python {here}/server.py gunicorn preload",
          {"env": {**PYTHON, "HOST_EARLY": "1"}}),
         ("uWSGI, CUDA before the fork", "$ {cache}/venv-hosts/bin/python {here}/server.py uwsgi",
          {"env": {**PYTHON, "HOST_EARLY": "1"}}),
         ("uWSGI, CUDA in each worker", "$ {cache}/venv-hosts/bin/python {here}/server.py uwsgi lazy"),
         ("Ray, tasks and actors", "$ {cache}/venv-hosts/bin/python {here}/server.py ray", {"timeout_s": 120, "runs": 1}),
         env=PYTHON, needs=("file:{cache}/venv-hosts/bin/python",), slow=True, recorder_env=QUIET)
    return hosts
