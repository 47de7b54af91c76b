"""A pool of threads answers requests and keeps nothing."""
import concurrent.futures

import torch

from leak_truth import STEPS, small_net


def main(probe):
    model = small_net().eval()

    def handle(rows):
        with torch.no_grad():
            return model(torch.randn(rows, 256).cuda()).argmax(-1).tolist()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for step in range(STEPS):
            list(pool.map(handle, [16, 32, 48, 16 + step % 4]))
            probe.step()
