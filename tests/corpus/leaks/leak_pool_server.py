"""A handler on a pool of threads, which remembers each answer for a retry that never comes."""
from concurrent.futures import ThreadPoolExecutor

import torch

from leak_truth import STEPS, small_net


class Handler:
    def __init__(self, model):
        self.model = model.eval()
        self.answered = {}

    def __call__(self, request_id):
        features = torch.randn(16, 256, device="cuda")
        with torch.inference_mode():
            scores = self.model(features).softmax(-1)  # LEAK
        self.answered[request_id] = scores
        return scores.argmax(-1).tolist()


def main(probe):
    handler = Handler(small_net())
    with ThreadPoolExecutor(4) as pool:
        for request_id in range(STEPS * 2):
            pool.submit(handler, request_id).result()
            if request_id % 2:
                probe.step()
    # two requests are between two samples
    probe.samples = [sample / 2 for sample in probe.samples]
