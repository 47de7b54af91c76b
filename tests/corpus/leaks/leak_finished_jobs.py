"""A thread for each request, with the answer as its attribute; the list of threads is never cleared."""
import threading

import torch

from leak_truth import STEPS, small_net


class Job(threading.Thread):
    def __init__(self, model, x):
        super().__init__()
        self.model, self.x, self.result = model, x, None

    def run(self):
        with torch.inference_mode():
            self.result = self.model(self.x).softmax(-1)  # LEAK


class Server:
    def __init__(self):
        self.model, self.jobs = small_net(out=512).eval(), []

    def submit(self, x):
        job = Job(self.model, x)
        self.jobs.append(job)
        job.start()
        return job


def main(probe):
    server = Server()
    for _ in range(STEPS):
        job = server.submit(torch.randn(64, 256).cuda())  # LEAK
        job.join()
        job.result.argmax(-1).tolist()
        probe.step()
