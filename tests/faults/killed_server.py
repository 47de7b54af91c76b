"""Trains in child processes and kills each with SIGKILL at a random moment of its training.

    killed_server.py COUNT SEED REPORT

Torch is imported once, before the forks, and CUDA is first used in the children. Each child writes torch's own count
of allocations so far to shared memory while it trains; REPORT (JSON) holds, per child, its pid and that count as it
stood when the child was dead.
"""
import json
import mmap
import os
import random
import signal
import sys
import time

import torch
from torch import nn


def train(counter):
    def tell():
        counter[0] = torch.cuda.memory_stats()["allocation.all.allocated"]

    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    while True:
        loss = model(torch.zeros(32, 256, device="cuda")).square().mean()
        tell()
        loss.backward()
        tell()
        optimizer.step()
        optimizer.zero_grad()
        tell()


def main():
    count, seed, report = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    choose = random.Random(seed)
    children = []
    for _ in range(count):
        # one store of eight bytes: struct.pack_into() writes a zero first, which a kill could leave standing
        counter = memoryview(mmap.mmap(-1, 4096)).cast("Q")
        pid = os.fork()
        if pid == 0:
            try:
                train(counter)
            finally:
                os._exit(1)
        while counter[0] == 0:
            if os.waitpid(pid, os.WNOHANG)[0]:
                sys.exit("a child ended before it trained")
            time.sleep(0.001)
        time.sleep(choose.random() * 0.8)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        children.append({"pid": pid, "allocations": counter[0]})
    with open(report, "w", encoding="utf-8") as file:
        json.dump(children, file)


if __name__ == "__main__":
    main()
