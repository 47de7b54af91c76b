"""A server's leak is what its requests keep, however their threads take turns: traces of one program under many schedules."""
import collections
import itertools
import json
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
    """Writes a trace. Each block has an address of its own; each thread is a generator that yields after each event."""

    def __init__(self, seed, threads, keep):
        self.random, self.trace, self.address, self.stacks = random.Random(seed), TraceFile(), 1 << 32, {}
        self.keep, self.number, self.requests, self.kept = keep, itertools.count(), REQUESTS, collections.deque()
        trace = self.trace
        trace.process([b"python", b"server.py"], b"/work", b"/usr/bin/python")
        trace.device(0, 1 << 36, b"Simulated GPU")
        trace.code(HANDLER, b"/work/server.py", b"handle", LINES)
        trace.code(MODULE, b"/lib/python3.11/site-packages/torch/nn/modules/module.py", b"_call_impl")
        trace.code(MAIN, b"/work/server.py", b"main", LINES)
        trace.event(ALLOC, DRIVER, 1 << 32, 1 << 40, stack=self.stack(MAIN_THREAD, None), thread=MAIN_THREAD)
        self.weights = self.alloc(MAIN_THREAD, MAIN, 1, 16 * MIB)
        self.workers = [MAIN_THREAD + 1 + i for i in range(threads)]

    def stack(self, thread, code, place=0, module=None):
        """`place`: where in the code; `module`: the one that it calls there."""
        key = thread, code, place, module
        if key not in self.stacks:
            self.stacks[key] = len(self.stacks) + 1
            frames = [(MODULE, 0, 0xA000 + module)] if module is not None else []
            frames += [(code, 2 * place, 0)] if code else []
            self.trace.stack(self.stacks[key], native=[NATIVE] if frames else [], python=frames)
        return self.stacks[key]

    def alloc(self, thread, code, place, size, module=None):
        self.address += 64 * MIB
        self.trace.event(ALLOC, FRAMEWORK, self.address, size, stack=self.stack(thread, code, place, module), thread=thread,
                         after_ns=1000)
        return self.address, size

    def free(self, thread, *blocks):
        for address, size in blocks:
            self.trace.event(FREE, FRAMEWORK, address, size, stack=self.stack(thread, None), thread=thread, after_ns=1000)

    def handle(self, thread, code=HANDLER):
        """One request: its input, two layers, and an answer with its mean."""
        number = next(self.number)
        rows = self.alloc(thread, code, 1, ANSWER)
        yield
        hidden = self.alloc(thread, code, 2, MIB, module=0)
        yield
        active = self.alloc(thread, code, 2, MIB, module=1)
        yield
        self.free(thread, hidden)
        yield
        answer = self.alloc(thread, code, 2, ANSWER, module=2)
        yield
        self.free(thread, active)
        yield
        held = self.keep(self, thread, number, [rows, answer])
        mean = self.alloc(thread, code, 3, 512)
        yield
        self.free(thread, mean)
        yield
        self.free(thread, *held)
        yield

    def work(self, thread):
        while self.requests > 0:
            self.requests -= 1
            yield from self.handle(thread)

    def run(self, running, at_one_time=1000):
        """Lets the generators take turns; some begin late, some stop in a request for long."""
        busy = self.random.choice((1, 3, 30, 200))  # events in a row
        waiting = [(work, self.random.choice((0, 0, self.random.randrange(400)))) for work in running]
        running, now = [], 0
        while (running or waiting) and not (self.cut and self.requests == 0):
            while waiting and len(running) < at_one_time:
                running.append(waiting.pop(0))
            now += 1
            turn = self.random.choice([item for item in running if item[1] <= now] or running)
            running.remove(turn)
            for _ in range(self.random.randrange(1, 2 * busy)):
                if next(turn[0], self) is self:
                    break
            else:
                sleeps = self.random.random() < 0.05
                running.append((turn[0], now + self.random.randrange(400 // busy + 2) if sleeps else 0))

    def serve(self, pool=True, warm_up=0, cut=False):
        """`cut`: the trace ends when the last request has begun."""
        self.cut = cut
        for _ in range(warm_up):
            collections.deque(self.handle(MAIN_THREAD, MAIN), 0)
        if pool:
            self.run([self.work(thread) for thread in self.workers])
        else:
            self.run([self.handle(MAIN_THREAD + 1 + i) for i in range(self.requests)], len(self.workers))
        if not cut:
            self.free(MAIN_THREAD, *self.kept, self.weights)


# What a handler keeps of its rows and answer; it holds what is returned until it ends.
def nothing(server, thread, number, blocks):
    return blocks


def answers(server, thread, number, blocks):
    server.kept.append(blocks.pop())
    return blocks


def both(server, thread, number, blocks):
    server.kept += blocks
    return []


def every_fifth(server, thread, number, blocks):
    return (nothing if number % 5 else answers)(server, thread, number, blocks)


def last(count):
    def keep(server, thread, number, blocks):
        answers(server, thread, number, blocks)
        if len(server.kept) > count:
            server.free(thread, server.kept.popleft())
        return blocks
    return keep


def until(count):
    """A list that is cleared when it is full."""
    def keep(server, thread, number, blocks):
        answers(server, thread, number, blocks)
        if len(server.kept) == count:
            server.free(thread, *server.kept)
            server.kept.clear()
        return blocks
    return keep


def filled(count):
    def keep(server, thread, number, blocks):
        return (answers if len(server.kept) < count else nothing)(server, thread, number, blocks)
    return keep


def leaks(server, path):
    trace = server.trace.write(path)
    return json.loads(subprocess.check_output([ANALYZER, "report", "--json", trace]))["devices"][0]["leaks"]


SEEDS = range(100 if LONG else 8)
THREADS = 1, 2, 4, 8
SHAPES: dict[str, dict] = {"pool": {}, "warmed up": {"warm_up": 2}, "thread per request": {"pool": False}, "cut": {"cut": True}}


def judged(path, threads, keep, shape):
    """seed -> the leaks that are found."""
    for seed in SEEDS:
        server = Server(seed, threads, keep)
        server.serve(**SHAPES[shape])
        yield seed, leaks(server, path)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("keep, blocks", [(answers, 1), (both, 2)], ids=["answers", "both"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_each_request_keeps(tmp_path, threads, keep, blocks, shape):
    for seed, found in judged(tmp_path / "a.vrt", threads, keep, shape):
        assert [leak["bytes_per_step"] for leak in found] == [blocks * ANSWER], seed
        assert found[0]["bytes"] == found[0]["blocks"] * ANSWER or shape == "cut", seed


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "cut"])
def test_what_some_requests_keep(tmp_path, threads, shape):
    for seed, found in judged(tmp_path / "a.vrt", threads, every_fifth, shape):
        assert [leak["bytes_per_step"] for leak in found] == [pytest.approx(ANSWER / 5, rel=0.3)], seed


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("keep", [nothing, last(1), last(4), last(16), until(5), until(16), filled(4), filled(20)],
                         ids=["nothing", "last", "last 4", "last 16", "until 5", "until 16", "filled 4", "filled 20"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_ends(tmp_path, threads, keep, shape):
    for seed, found in judged(tmp_path / "a.vrt", threads, keep, shape):
        assert not found, seed
