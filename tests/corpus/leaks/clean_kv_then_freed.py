"""Requests whose caches grow by cat and end with the request."""
import torch

from leak_truth import STEPS


def main(probe):
    w = torch.randn(3, 256, 256, device="cuda") * 0.05
    with torch.no_grad():
        for request in range(STEPS):
            k = v = torch.zeros(16, 0, 256, device="cuda")
            x = torch.randn(16, 1, 256, device="cuda")
            for _ in range(6 + request % 3):
                k, v = torch.cat([k, x @ w[0]], 1), torch.cat([v, x @ w[1]], 1)
                x = torch.softmax((x @ w[2]) @ k.transpose(1, 2), -1) @ v
            del k, v
            probe.step()
