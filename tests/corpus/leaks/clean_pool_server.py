"""A pool of threads that serves requests of many sizes, some of them slow, and keeps nothing."""
import random
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from leak_truth import STEPS, small_net


@torch.inference_mode()
def serve(net, rows, slow):
    hidden = net(torch.randn(rows, 256, device="cuda"))
    time.sleep(slow)
    return hidden.sum().item()


def main(probe):
    net, chance = small_net(), random.Random(3)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(STEPS):
            waiting = [pool.submit(serve, net, 8 * chance.randint(1, 16), chance.random() / 200) for _ in range(4)]
            for answer in waiting:
                answer.result()
            probe.step()
