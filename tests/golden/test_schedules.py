"""A server's leak is what its requests keep, however their threads take turns: traces of one program under many schedules."""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from harness import ANALYZER
from trace_file import ALLOC, DRIVER, FRAMEWORK, FREE, MAIN_THREAD, TraceFile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import LONG  # noqa: E402

MIB = 1 << 20
REQUESTS = 60
ANSWER = 256 << 10
HANDLER, MODULE, MAIN = 1, 2, 3
NATIVE = 0x7000
LINES = bytes([0xE8, 2]) * 8  # each instruction on a line of its own


class Server:
    """Its allocator gives each block an address of its own. Each thread is a generator that yields after each event."""

    def __init__(self, seed, threads):
        self.random, self.trace, self.address, self.stacks = random.Random(seed), TraceFile(), 1 << 32, {}
        self.left, self.shared = iter(range(REQUESTS)), collections.deque()
        trace = self.trace
        trace.process([b"python", b"server.py"], b"/work", b"/usr/bin/python")
        trace.device(0, 1 << 36, b"Simulated GPU")
        trace.code(HANDLER, b"/work/server.py", b"handle", LINES)
        trace.code(MODULE, b"/lib/python3.11/site-packages/torch/nn/modules/module.py", b"_call_impl")
        trace.code(MAIN, b"/work/server.py", b"main")
        trace.event(ALLOC, DRIVER, 1 << 32, 1 << 35, stack=self.stack(MAIN_THREAD, 0), thread=MAIN_THREAD)
        self.weights = self.alloc(MAIN_THREAD, 1, 16 * MIB)
        self.threads = {MAIN_THREAD + 1 + i for i in range(threads)}

    def stack(self, thread, place, module=None):
        """`place`: where in handle(), or in main() for the main thread; `module`: which one's call."""
        key = thread, place, module
        if key not in self.stacks:
            self.stacks[key] = len(self.stacks) + 1
            own = (MAIN if thread == MAIN_THREAD else HANDLER, 2 * place, 0)
            frames = [(MODULE, 0, 0xA000 + module), own] if module is not None else [own] if place else []
            self.trace.stack(self.stacks[key], native=[NATIVE] if frames else [], python=frames)
        return self.stacks[key]

    def alloc(self, thread, place, size, module=None):
        self.address += 64 * MIB
        self.trace.event(ALLOC, FRAMEWORK, self.address, size, stack=self.stack(thread, place, module), thread=thread,
                         after_ns=1000)
        return self.address, size

    def free(self, thread, block):
        self.trace.event(FREE, FRAMEWORK, block[0], block[1], stack=self.stack(thread, 0), thread=thread, after_ns=1000)

    def handle(self, thread, keep):
        """One request: its input, two layers, an answer of which `keep` decides, and its mean."""
        rows = self.alloc(thread, 1, ANSWER)
        yield
        hidden = self.alloc(thread, 2, MIB, module=0)
        yield
        active = self.alloc(thread, 2, MIB, module=1)
        yield
        self.free(thread, hidden)
        yield
        answer = self.alloc(thread, 2, ANSWER, module=2)
        yield
        self.free(thread, active)
        yield
        gone = keep(self, answer)
        mean = self.alloc(thread, 3, 512)
        yield
        self.free(thread, mean)
        yield
        for block in gone:
            self.free(thread, block)
            yield
        self.free(thread, rows)
        yield

    def serve(self, keep):
        """Worker threads come and go on as the schedule has it: some begin late, some stop in a request for long."""
        def work(thread):
            for _ in self.left:
                yield from self.handle(thread, keep)
        running = {thread: work(thread) for thread in self.threads}
        asleep = {thread: self.random.choice((0, 0, self.random.randrange(400))) for thread in running}
        busy = self.random.choice((1, 3, 30, 200))  # events of a thread in a row
        now = 0
        while running:
            now += 1
            awake = [thread for thread in running if asleep[thread] <= now] or list(running)
            thread = self.random.choice(awake)
            for _ in range(self.random.randrange(1, 2 * busy)):
                if next(running[thread], self) is self:
                    del running[thread]
                    break
            if self.random.random() < 0.05:
                asleep[thread] = now + self.random.randrange(400 // busy + 2)
        for block in (*self.shared, self.weights):
            self.free(MAIN_THREAD, block)


def nothing(server, answer):
    return [answer]


def everything(server, answer):
    server.shared.append(answer)
    return []


def last(count):
    def keep(server, answer):
        server.shared.append(answer)
        return [server.shared.popleft()] if len(server.shared) > count else []
    return keep


def leaks(server, path):
    trace = server.trace.write(path)
    return json.loads(subprocess.check_output([ANALYZER, "report", "--json", trace]))["devices"][0]


SEEDS = range(300 if LONG else 60)


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
def test_what_each_request_keeps(tmp_path, threads):
    wrong = {}
    for seed in SEEDS:
        server = Server(seed, threads)
        server.serve(everything)
        found = [leak["bytes_per_step"] for leak in leaks(server, tmp_path / "a.vrt")["leaks"]]
        if found != [ANSWER]:
            wrong[seed] = found
    assert not wrong, (len(wrong), wrong)


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
@pytest.mark.parametrize("keep", [nothing, last(1), last(4), last(16)], ids=["nothing", "last", "last 4", "last 16"])
def test_what_ends(tmp_path, threads, keep):
    wrong = {}
    for seed in SEEDS:
        server = Server(seed, threads)
        server.serve(keep)
        found = leaks(server, tmp_path / "a.vrt")["leaks"]
        if found:
            wrong[seed] = [(leak["verdict"], leak["bytes_per_step"], leak["line"]) for leak in found]
    assert not wrong, (len(wrong), wrong)
