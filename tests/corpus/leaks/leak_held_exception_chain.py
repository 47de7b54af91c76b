"""A job queue that keeps its last failure, each raised from the one before: the chain keeps the frames of all."""
import torch

from leak_truth import STEPS, batch, small_net, train_step


class JobFailed(RuntimeError):
    def __init__(self, job):
        super().__init__(f"job {job} failed")
        self.job = job


class Queue:
    def __init__(self):
        self.last_failure = None

    def run(self, model, job):
        try:
            self.score(model, job)
        except JobFailed as failure:
            self.last_failure = failure

    def score(self, model, job):
        with torch.no_grad():
            predictions = model(batch(64))  # LEAK
        if predictions is not None:
            raise JobFailed(job) from self.last_failure


def main(probe):
    model = small_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    queue = Queue()
    for job in range(STEPS):
        train_step(model, optimizer, batch())
        queue.run(model, job)
        probe.step()
