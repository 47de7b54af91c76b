"""Hosts in Python: python_hosts.py WAY. The calls are those of host.c, by ctypes (HOST_LIBRARY)."""
import asyncio
import atexit
import concurrent.futures
import contextlib
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

library = ctypes.CDLL(os.environ["HOST_LIBRARY"])
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def pairs(count=10):
    library.host_use_context()
    library.host_pairs(count)


def blocks(count=10):
    for _ in range(count):
        library.host_block_pair()


@way
def plain():
    pairs(1000)
    print("fine")


@way
def threads():
    team = [threading.Thread(target=pairs, args=(200,)) for _ in range(8)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    print(threading.active_count(), "thread is left")


@way
def daemon_threads():
    """They are in their calls when the interpreter goes."""
    def work():
        while True:
            pairs(1)
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.1)
    print("ends")


@way
def fork():
    pairs()
    for number in range(10):
        child = os.fork()
        if child == 0:
            blocks()
            sys.exit(number)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@way
def fork_in_threads():
    def work():
        for _ in range(5):
            child = os.fork()
            if child == 0:
                blocks()
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            blocks()
    team = [threading.Thread(target=work) for _ in range(4)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    print("fine")


def in_pool(number):
    library.host_begin() if os.environ.get("OWN_CUDA") else None
    blocks(number)
    return number * number, os.getppid() > 0


def pool(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as workers:
        print([value for value, _ in workers.map(in_pool, range(10))])
    process = context.Process(target=blocks)
    process.start()
    process.join()
    print(process.exitcode)


@way
def pool_fork():
    pairs()
    pool("fork")


@way
def pool_spawn():
    pairs()
    pool("spawn")


@way
def pool_forkserver():
    pairs()
    pool("forkserver")


@way
def queue_between_processes():
    """What a data loader does: workers hand on through queues and shared memory."""
    from multiprocessing import shared_memory
    pairs()
    context = multiprocessing.get_context("fork")
    memory = shared_memory.SharedMemory(create=True, size=4096)
    queue = context.Queue()

    def work(number):
        memory.buf[number] = number
        blocks()
        queue.put(number)
    team = [context.Process(target=work, args=(number,)) for number in range(8)]
    for process in team:
        process.start()
    print(sorted(queue.get() for _ in team), [process.join() for process in team].count(None))
    print(bytes(memory.buf[:8]))
    memory.close()
    memory.unlink()


@way
def futures():
    with concurrent.futures.ThreadPoolExecutor(4) as team:
        print(sum(1 for _ in team.map(lambda _: pairs(20), range(50))))
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as team:
        print([value for value, _ in team.map(in_pool, range(6))])


@way
def processes():
    pairs()
    for code in (0, 7):
        done = subprocess.run([sys.executable, "-c", f"import sys; print('child'); sys.exit({code})"], capture_output=True)
        print(done.returncode, done.stdout, done.stderr)
    done = subprocess.run(["sh", "-c", "ls /proc/self/fd | wc -l"], capture_output=True, close_fds=False, text=True)
    print("descriptors of a child", done.stdout.strip())
    child = os.posix_spawn("/bin/true", ["true"], {})
    print(os.waitpid(child, 0)[1])


@way
def coroutines():
    async def work(number):
        for _ in range(10):
            pairs(1)
            await asyncio.sleep(0)
        return number

    async def main():
        print(sum(await asyncio.gather(*(work(number) for number in range(50)))))
        process = await asyncio.create_subprocess_exec("true")
        print(await process.wait())
        print(await asyncio.to_thread(lambda: pairs(5)))
        loop = asyncio.get_running_loop()
        caught = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, caught.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(caught.wait(), 5)
        print("signal")
    asyncio.run(main())


@way
def fault_handler():
    """It prints the stacks of all threads of Python, and only them."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    pairs()
    with open("stacks", "w") as out:
        faulthandler.dump_traceback(out)
    faulthandler.dump_traceback_later(100, exit=True)
    pairs()
    faulthandler.cancel_dump_traceback_later()
    os.abort()


@way
def subinterpreters():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    pairs()
    for _ in range(5):
        made = interpreters.create()
        interpreters.run_string(made, f"import sys; sys.path[:] = {sys.path!r}\nx = sum(range(100))")
        pairs()
        interpreters.destroy(made)
    print("fine")


@way
def interrupted():
    pairs()
    signal.raise_signal(signal.SIGINT) if len(sys.argv) > 2 else None
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        while True:
            pairs(1)
    except KeyboardInterrupt:
        print("interrupted")


@way
def handlers():
    """Python's handlers run in its main thread, as often as without us."""
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread() is threading.main_thread()))
    pairs()
    for _ in range(100):
        os.kill(os.getpid(), signal.SIGUSR1)
        pairs(1)
    print(len(seen), all(seen))
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    os.kill(os.getpid(), signal.SIGUSR1)
    pairs(1)
    print(os.read(read, 10))


@way
def at_exit():
    class Holder:
        def __del__(self):
            pairs(3)
            print("deleted")
    global kept
    kept = Holder()
    kept.itself = kept
    weakref.finalize(Holder, lambda: print("finalized"))
    atexit.register(lambda: (pairs(5), print("at exit")))
    pairs()


@way
def collector():
    gone = []
    gc.callbacks.append(lambda phase, _: gone.append(phase))
    gc.collect()
    gc.freeze()
    before = len(gone), gc.get_count()[2], len(gc.get_objects())
    pairs(5000)
    after = len(gone), gc.get_count()[2], len(gc.get_objects())
    print(before == after or (before, after), sys.getrefcount(pairs) > 0)


@way
def traced():
    """A profiler and a tracer see the host's functions only."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append((event, frame.f_code.co_name)) if event in ("call", "return") else None)
    pairs(100)
    sys.setprofile(None)
    threading.setprofile(lambda *_: None)
    print(seen)
    lines = []

    def tracer(frame, event, _):
        lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_code.co_name))
        return tracer
    sys.settrace(tracer)
    pairs(100)
    sys.settrace(None)
    print(lines)


@way
def counted():
    """What the interpreter itself counts."""
    print(threading.active_count(), len(sys._current_frames()), len(sys.modules) > 0)
    modules = set(sys.modules)
    pairs(1000)
    time.sleep(0.1)
    print(threading.active_count(), len(sys._current_frames()), sorted(set(sys.modules) - modules))
    print(sys.getswitchinterval(), sys.getrecursionlimit(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)


@way
def warned():
    """`-W error` and `-X dev`: no resource is left, no warning comes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pairs(1000)
        gc.collect()
    print([str(warning.message) for warning in caught])


@way
def standard_streams():
    """Python's own streams, flushed at exit, after ours had its say."""
    pairs()
    sys.stdout.write("out without an end")
    sys.stderr.write("error without an end")


@way
def failing():
    pairs()
    raise RuntimeError("mine")


@way
def terminal():
    """A child with a terminal of its own, as notebooks and test runners make."""
    import pty
    child, terminal_end = pty.fork()
    if child == 0:
        pairs()
        print("in a terminal", os.isatty(0))
        os._exit(0)
    told = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal_end, 1000):
            told += part
    print(told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@way
def kernel_of_notebook():
    """A loop that runs cells in one name space, with streams of its own, and is interrupted now and then."""
    import io
    names = {"pairs": pairs}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, cell in enumerate(("x = 1", "pairs(50)", "import os; os.kill(os.getpid(), 2); pairs(5)", "x += 1; pairs(5)", "1/0")):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(cell, f"<cell {number}>", "exec"), names)
        except (KeyboardInterrupt, ZeroDivisionError) as error:
            print(number, type(error).__name__)
    print(names["x"])


@way
def greenlets():
    import greenlet
    turns = []

    def work(number):
        for _ in range(20):
            pairs(1)
            turns.append(number)
            main.switch()
    main = greenlet.getcurrent()
    team = [greenlet.greenlet(work) for _ in range(20)]
    for _ in range(20):
        for number, one in enumerate(team):
            one.switch(number)
    print(len(turns))


@way
def gevents():
    from gevent import monkey
    monkey.patch_all()
    import gevent

    def work(number):
        for _ in range(20):
            pairs(1)
            gevent.sleep(0)
        return number
    team = [gevent.spawn(work, number) for number in range(20)]
    gevent.joinall(team)
    print(sum(one.value for one in team))
    pool = gevent.get_hub().threadpool
    print(pool.apply(lambda: (pairs(5), "in a thread")[1]))


if __name__ == "__main__":
    library.host_begin()
    WAYS[sys.argv[1]]()
