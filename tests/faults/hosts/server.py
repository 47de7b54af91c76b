"""Servers and frameworks whose workers use CUDA: server.py WHICH [HOW] starts one, asks it some, and stops it."""
import ctypes
import http.client
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
QUESTIONS = 20


def load():
    library = ctypes.CDLL(os.environ["HOST_LIBRARY"])
    library.host_begin()
    return library


def application_of(early):
    """A WSGI application. Begun before the fork, CUDA does not work in workers, as with a real driver: then it reports
    what a framework would."""
    library = load() if early else None
    lock = threading.Lock()
    if early:
        library.host_pairs(10)

    def application(_, start):
        nonlocal library
        with lock:
            library = library or load()
        if early:
            for _ in range(10):
                library.host_block_pair()
        else:
            library.host_use_context()
            library.host_pairs(10)
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"fine\n"]
    return application


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    answer = connection.getresponse()
    return answer.status, answer.read()


def serve(command, port):
    with open("log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(HERE)})
    for _ in range(200):
        try:
            ask(port)
            break
        except OSError:
            time.sleep(0.1)
    answers = [ask(port) for _ in range(QUESTIONS)]
    print(len(answers), sorted(set(answers)))
    if set(answers) != {(200, b"fine\n")}:
        sys.stderr.write(pathlib.Path("log").read_text())
        sys.exit(1)
    server.terminate()
    print("status", server.wait(20))
    os.remove("log")


def gunicorn(how):
    port = free_port()
    serve([str(BIN / "gunicorn"), "--graceful-timeout", "3", "-w", "3", "-b", f"127.0.0.1:{port}", *(["--preload"] if how else []),
           "server:application"], port)


def uwsgi(how):
    port = free_port()
    serve([str(BIN / "uwsgi"), "--master", "--processes", "2", "--threads", "2", "--die-on-term", "--no-threads-wait",
           "--worker-reload-mercy", "2", "--http-socket", f"127.0.0.1:{port}", *(["--lazy-apps"] if how else []),
           "--module", "server:application"], port)


def ray(_):
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0")
    import ray as framework
    framework.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                   _temp_dir="/tmp/ray-host")

    @framework.remote
    def task(number):
        library = load()
        library.host_pairs(number)
        return number

    @framework.remote
    class Actor:
        def __init__(self):
            self.library = load()

        def work(self, number):
            self.library.host_use_context()
            self.library.host_pairs(number)
            return number
    print(framework.get([task.remote(number) for number in range(10)]))
    actors = [Actor.remote() for _ in range(2)]
    print(framework.get([actor.work.remote(5) for actor in actors for _ in range(3)]))
    framework.shutdown()


if __name__ != "__main__":
    application = application_of("HOST_EARLY" in os.environ)  # for servers: server:application
else:
    {"gunicorn": gunicorn, "uwsgi": uwsgi, "ray": ray}[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
