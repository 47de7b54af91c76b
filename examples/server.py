"""A server that leaks: each request's answer stays in a history that nobody reads. Handlers run on a pool of threads.

    vramtrace run examples/server.py
"""
import argparse
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Server:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda().eval()
        self.history = []

    @torch.inference_mode()
    def handle(self, request):
        rows = torch.full((64, 1024), float(request)).cuda()
        answer = self.model(rows)
        self.history.append(answer)  # keeps 256 KiB of every request: append answer.cpu(), or use a deque(maxlen=…)
        return answer.mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--threads", type=int, default=4)
    arguments = parser.parse_args()
    server = Server()
    with ThreadPoolExecutor(arguments.threads) as pool:
        answers = list(pool.map(server.handle, range(arguments.requests)))
    print(f"{len(answers)} requests answered")


if __name__ == "__main__":
    main()
