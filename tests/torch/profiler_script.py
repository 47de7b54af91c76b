"""Trains under PyTorch's profiler, and writes what it was told of memory: profiler_script.py FILE."""
import json
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile

import models


def main():
    models.settings()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(4):
            net(torch.zeros(32, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        try:
            torch.empty(1 << 50, device="cuda")
        except torch.OutOfMemoryError:
            pass
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(folder + "/trace.json")
        with open(folder + "/trace.json") as file:
            events = json.load(file)["traceEvents"]
    told = [(event["ts"], event["name"], {key: value for key, value in event["args"].items() if key != "Addr"})
            for event in events if event.get("name") in ("[memory]", "[OutOfMemory]")]
    with open(sys.argv[1], "w") as out:
        json.dump([[name, values] for _, name, values in sorted(told, key=lambda one: one[0])
                   if values.get("Device Type") == 1], out)


main()
