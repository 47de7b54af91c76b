"""Trains: for each line of input some steps. Prints the milliseconds of a step, without the first one of the line, and the MiB of
resident memory.

    train_step.py [--model amp|resnet50|gpt2] [--recorder python|all|profiler] [--steps 5]

amp is the CPU-bound step of examples/train.py. Only Python's and PyTorch's work counts over the stand-in, where kernels do
nothing.
"""
import argparse
import contextlib
import pathlib
import re
import sys
import time

import recorders
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def amp():
    sys.path.insert(0, str(ROOT / "examples"))
    from train import Model

    model = Model().cuda()

    def loss():
        tokens = torch.randint(0, 8192, (16, 256), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4), loss


def resnet50():
    import torchvision

    model = torchvision.models.resnet50().cuda()

    def loss():
        images, labels = torch.empty(8, 3, 64, 64, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")
        return nn.functional.cross_entropy(model(images), labels)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loss


def gpt2():
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda()

    def loss():
        tokens = torch.zeros(4, 256, dtype=torch.long, device="cuda")
        return model(input_ids=tokens, labels=tokens).loss
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4), loss


MODELS = {"amp": amp, "resnet50": resnet50, "gpt2": gpt2}


def resident_mib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="amp")
    parser.add_argument("--recorder", choices=recorders.NAMES)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--counted", action="store_true", help="the instructions of the last line's steps: instructions.py")
    arguments = parser.parse_args()
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    model, optimizer, loss = MODELS[arguments.model]()

    def step():
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    with recorders.start(arguments.recorder):
        for line in sys.stdin:
            with recorders.counted() if arguments.counted and line == "last\n" else contextlib.nullcontext():
                for number in range(arguments.steps):
                    if number == 1:  # whatever ran before is in the caches
                        started = time.perf_counter()
                    step()
            print((time.perf_counter() - started) / (arguments.steps - 1) * 1000, resident_mib(), flush=True)


if __name__ == "__main__":
    main()
